//! The rules that did not decide but nearly did, and what would have let a call run.
//!
//! Everything is bounded in number, and nothing here decides: what another mode would do is asked of `decide` itself.

use super::{Asked, Compared, Explanation, RuleName, compared};
use crate::policy::compiled::Subject;
use crate::policy::constraint::{Constraint, all_hold};
use crate::policy::nearest::nearest;
use crate::policy::rule::{Action, Rule};
use crate::policy::settings::{Mode, Settings};
use crate::policy::verdict::{Because, Decision, Verdict};
use crate::policy::{Policy, Question, decide, pattern};

/// How many patterns are looked at for one that is spelled alike.
const SPELLINGS: usize = 1_000;

/// Why a rule did not decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Miss {
    /// It covers the function and its conditions hold, but it does not apply in the session's mode.
    Mode,
    /// It covers the function and applies in the mode, but a condition on the arguments does not hold.
    Arguments,
    /// It covers the function; neither mode nor arguments fit.
    ModeAndArguments,
    /// It fits the call, but something before it decided.
    NotReached,
    /// It covers a function that is spelled almost like this one.
    Spelling,
}

impl Miss {
    /// The reason as one word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Mode => "mode",
            Self::Arguments => "arguments",
            Self::ModeAndArguments => "mode_and_arguments",
            Self::NotReached => "not_reached",
            Self::Spelling => "spelling",
        }
    }
}

/// A rule that nearly decided.
#[derive(Debug, Clone, PartialEq)]
pub struct Close {
    /// The rule.
    pub rule: RuleName,
    /// Why it did not.
    pub miss: Miss,
    /// Its conditions that do not hold.
    pub unmet: Vec<Compared>,
}

/// One way for the call to run without asking anybody.
#[derive(Debug, Clone, PartialEq)]
pub enum Accepted {
    /// The same call in another mode of the session.
    InMode {
        /// That mode.
        mode: Mode,
        /// The rule that allows it there; `None` if the session's list does.
        rule: Option<RuleName>,
    },
    /// Other arguments: an allow rule that is asked before what decided, and its conditions that do not hold.
    WithArguments {
        /// The allow rule.
        rule: RuleName,
        /// What it asks for, beside what the call carries.
        unmet: Vec<Compared>,
    },
}

impl Asked<'_> {
    fn subject(&self) -> Subject<'_> {
        let (question, mode) = (self.question, self.settings.mode);
        Subject { function_id: question.function_id, arguments: question.arguments, mode }
    }

    /// The rules in front of `before` that cover the function but do not apply, in order.
    fn misses(&self, before: usize) -> impl Iterator<Item = (usize, &Rule, Miss)> {
        let subject = self.subject();
        self.policy.rules().iter().take(before).enumerate().filter_map(move |(index, rule)| {
            if !pattern::matches(&rule.pattern, subject.function_id) {
                return None;
            }
            Some((index, rule, miss(rule, subject)?))
        })
    }

    fn close(&self, index: usize, rule: &Rule, miss: Miss) -> Close {
        Close { rule: RuleName::new(index, rule), miss, unmet: self.unmet(rule) }
    }

    fn unmet(&self, rule: &Rule) -> Vec<Compared> {
        compared(self.failing(rule), self.question.arguments)
    }

    /// The rule's conditions that do not hold.
    pub(super) fn failing<'r>(&self, rule: &'r Rule) -> impl Iterator<Item = &'r Constraint> {
        let arguments = self.question.arguments;
        rule.constraints
            .iter()
            .filter(move |&constraint| !all_hold(std::slice::from_ref(constraint), arguments))
    }
}

/// Why a rule that covers the function does not apply; `None` if it does.
fn miss(rule: &Rule, subject: Subject<'_>) -> Option<Miss> {
    let in_mode = rule.in_mode(subject.mode);
    match (in_mode, rule.constraints_hold(subject.arguments)) {
        (true, true) => None,
        (false, true) => Some(Miss::Mode),
        (true, false) => Some(Miss::Arguments),
        (false, false) => Some(Miss::ModeAndArguments),
    }
}

/// The rules that nearly decided.
pub(super) fn close(asked: &Asked<'_>, because: &Because) -> Vec<Close> {
    let rules = asked.policy.rules();
    let (mut found, after) = match because {
        Because::HumanOnly { .. } | Because::NotAFunctionId { .. } | Because::LockedDown => {
            return Vec::new();
        }
        Because::FullMode
        | Because::ApprovedAlways { .. }
        | Because::ApprovedRule { .. }
        | Because::AlwaysAllow { .. } => (Vec::new(), 0),
        Because::Rule { floor: true, index, .. } => (near(asked, *index, |rule| rule.floor), 0),
        Because::Rule { index, .. } => (near(asked, *index, |_| true), index + 1),
        Because::NoRule | Because::PromptsDisabled => {
            let found = near(asked, rules.len(), |_| true);
            return if found.is_empty() { spelled_alike(asked) } else { found };
        }
    };
    found.truncate(Explanation::MOST - 1);
    found.extend(not_reached(asked, because, after));
    found
}

fn near(asked: &Asked<'_>, before: usize, counts: impl Fn(&Rule) -> bool) -> Vec<Close> {
    let misses = asked.misses(before).filter(|(_, rule, _)| counts(rule));
    let misses = misses.take(Explanation::MOST);
    misses.map(|(index, rule, miss)| asked.close(index, rule, miss)).collect()
}

/// The first rule that fits, from `after` on, and would have decided otherwise.
fn not_reached(asked: &Asked<'_>, because: &Because, after: usize) -> Option<Close> {
    let decided = match because {
        Because::Rule { action, .. } => *action,
        _ => Action::Allow,
    };
    let subject = asked.subject();
    let fits =
        |rule: &Rule| pattern::matches(&rule.pattern, subject.function_id) && miss(rule, subject).is_none();
    let (index, rule) = asked.policy.rules().iter().enumerate().skip(after).find(|(_, rule)| fits(rule))?;
    (rule.action != decided).then(|| asked.close(index, rule, Miss::NotReached))
}

/// Rules for a function, or a namespace, that is spelled almost like the one that was called.
fn spelled_alike(asked: &Asked<'_>) -> Vec<Close> {
    let called = asked.question.function_id;
    let namespace = called.split_once("::").map(|(space, _)| &called[..space.len() + 2]);
    let alike = |rule: &Rule| {
        if !pattern::is_open(&rule.pattern) {
            return nearest(called, &[&rule.pattern]).is_some();
        }
        let head = pattern::head(&rule.pattern);
        let whole_namespace = rule.pattern.len() == head.len() + 1 && head.ends_with(':');
        whole_namespace && namespace.is_some_and(|namespace| nearest(namespace, &[head]).is_some())
    };
    let rules = asked.policy.rules().iter().take(SPELLINGS).enumerate();
    let found = rules.filter(|(_, rule)| alike(rule)).take(Explanation::MOST);
    found.map(|(index, rule)| asked.close(index, rule, Miss::Spelling)).collect()
}

/// What would let the call run.
pub(super) fn accepted(asked: &Asked<'_>, verdict: &Verdict) -> Vec<Accepted> {
    let Some(decided_at) = decided_at(verdict, asked.policy) else { return Vec::new() };
    let modes = [Mode::Manual, Mode::Auto].into_iter().filter_map(|mode| in_mode(asked, mode));
    let arguments = unmet_by_arguments(asked, decided_at).map(|(index, rule)| Accepted::WithArguments {
        rule: RuleName::new(index, rule),
        unmet: asked.unmet(rule),
    });
    modes.chain(arguments).take(Explanation::MOST).collect()
}

/// How many rules were asked before something else than an allow decided; `None` if no rule could have allowed the call.
pub(super) fn decided_at(verdict: &Verdict, policy: &Policy) -> Option<usize> {
    match &verdict.because {
        _ if verdict.decision == Decision::Continue => None,
        // No argument of an allow rule lifts a call over a floor.
        Because::Rule { floor: true, .. } => Some(0),
        Because::Rule { index, .. } => Some(*index),
        Because::NoRule | Because::PromptsDisabled => Some(policy.rules().len()),
        _ => None,
    }
}

/// The allow rules among the first `before` that other arguments of the call would have met.
pub(super) fn unmet_by_arguments<'a>(
    asked: &'a Asked<'a>,
    before: usize,
) -> impl Iterator<Item = (usize, &'a Rule)> {
    let misses = asked.misses(before);
    misses.filter_map(|(index, rule, miss)| {
        (rule.action == Action::Allow && miss == Miss::Arguments).then_some((index, rule))
    })
}

/// The rules for the function that did not apply to a call that is held, at most [`Explanation::MOST`]. Looks at nothing
/// that is spelled alike, so it is quick.
pub fn came_close(question: &Question<'_>, settings: &Settings, policy: &Policy) -> Vec<(RuleName, Miss)> {
    let asked = Asked { question, settings, policy };
    let misses = asked.misses(policy.rules().len()).take(Explanation::MOST);
    misses.map(|(index, rule, miss)| (RuleName::new(index, rule), miss)).collect()
}

/// What lets the call run in another mode, if anything but the mode `full` itself.
fn in_mode(asked: &Asked<'_>, mode: Mode) -> Option<Accepted> {
    if mode == asked.settings.mode {
        return None;
    }
    let settings = asked.settings.clone().with_mode(mode, 0);
    let verdict = decide(asked.question, &settings, asked.policy);
    if verdict.decision != Decision::Continue {
        return None;
    }
    let rule = match verdict.because {
        Because::Rule { index, .. } => asked.policy.rules().get(index).map(|rule| RuleName::new(index, rule)),
        _ => None,
    };
    Some(Accepted::InMode { mode, rule })
}
