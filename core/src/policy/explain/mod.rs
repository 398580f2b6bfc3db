//! Why a call was decided as it was, in parts that a person or a program can look at.
//!
//! [`explain`] asks [`decide`] and only adds to its answer, so an explanation can never disagree with the
//! gate. It reads, and nothing in it is what the caller wrote: values went through `redact` under their own names, the
//! operands of rules too, because an `equals` that holds repeats the argument. Ids and patterns are made visible.

mod close;
mod denial;
#[cfg(test)]
mod tests;
mod words;

use std::sync::Arc;

use serde_json::{Map, Value};

use super::constraint::Constraint;
use super::rule::{Action, Rule};
use super::settings::{Grant, GrantedBy, Mode, Settings};
use super::verdict::{Because, Decision};
use super::{Policy, Question, decide};
use crate::redact::{excerpt_of_member, shown, visible_exact};

pub use close::{Accepted, Close, Miss, came_close};
pub use denial::denial_text;
pub use words::short;

/// Longest field name that is shown, code points.
const FIELD_CODE_POINTS: usize = 256;

/// Where the mode that counted comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ModeSource {
    /// The session's stored settings.
    Stored,
    /// The configuration's `default_mode`.
    Default,
    /// Whoever asked said so.
    Given,
}

impl ModeSource {
    /// The source as one word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stored => "stored",
            Self::Default => "default",
            Self::Given => "given",
        }
    }
}

/// The step of the ladder that decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rung {
    /// Its number in the README's ladder. Lock-down is none of its steps.
    pub number: Option<u8>,
    /// Its name, the word of [`Because::as_str`].
    pub name: &'static str,
}

/// A rule, as far as it is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleName {
    /// Position in the rule list, counted from 0.
    pub index: usize,
    /// The rule's name, hidden characters spelled.
    pub rule_id: String,
    /// Its pattern, hidden characters spelled.
    pub pattern: String,
    /// What it does.
    pub action: Action,
    /// Whether it is a floor.
    pub floor: bool,
    /// The modes it applies in; `None` is all.
    pub modes: Option<Vec<Mode>>,
}

/// A condition of a rule beside what it was compared with, both fit to be shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// The argument's name, hidden characters spelled.
    pub field: String,
    /// `equals` or `matches`.
    pub operator: &'static str,
    /// What the rule asks for, redacted under the argument's name.
    pub operand: Value,
    /// What the call carries, redacted; `None` if it carries no such argument.
    pub compared: Option<Value>,
}

/// The entry of one of the session's lists that decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// `approved_always`, `approved_rules` or `always_allow`.
    pub list: &'static str,
    /// Position in it, counted from 0.
    pub index: usize,
    /// Its text, hidden characters spelled.
    pub pattern: String,
    /// The name of an approved rule, hidden characters spelled.
    pub rule_id: Option<String>,
    /// Who put it there.
    pub granted_by: GrantedBy,
}

/// A decision with all that led to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// What becomes of the call.
    pub decision: Decision,
    /// The step that decided.
    pub rung: Rung,
    /// The same in one line of plain words.
    pub reason: String,
    /// What the model is told of a denial; `None` for other decisions.
    pub denial: Option<String>,
    /// The session's mode.
    pub mode: Mode,
    /// Where the mode comes from.
    pub mode_source: ModeSource,
    /// The rule that decided.
    pub rule: Option<RuleName>,
    /// All conditions of that rule, or of the approved rule that decided. All hold.
    pub constraints: Vec<Compared>,
    /// The list entry that decided.
    pub entry: Option<Entry>,
    /// Rules that nearly decided, at most [`Explanation::MOST`], in rule order.
    pub close: Vec<Close>,
    /// What would let the call run without asking anybody, at most [`Explanation::MOST`]. Empty if it runs anyway, and
    /// if nothing would.
    pub accepted: Vec<Accepted>,
}

impl Explanation {
    /// The longest list of rules in an explanation.
    pub const MOST: usize = 5;
}

/// Decides as [`decide`] does, and says why.
pub fn explain(
    question: &Question<'_>,
    settings: &Settings,
    mode_source: ModeSource,
    policy: &Policy,
) -> Explanation {
    let verdict = decide(question, settings, policy);
    let (decision, because) = (verdict.decision, &verdict.because);
    let rule = match because {
        Because::Rule { index, .. } => policy.rules().get(*index).map(|rule| (*index, rule)),
        _ => None,
    };
    let asked = Asked { question, settings, policy };
    let mut explanation = Explanation {
        decision,
        rung: rung(because),
        reason: String::new(),
        denial: (decision == Decision::Deny).then(|| denial_text(question, settings, policy, &verdict)),
        mode: settings.mode,
        mode_source,
        rule: rule.map(|(index, rule)| RuleName::new(index, rule)),
        constraints: rule
            .map(|(_, rule)| rule)
            .or_else(|| approved(because, settings))
            .map(|rule| compared(&rule.constraints, question.arguments))
            .unwrap_or_default(),
        entry: entry(because, settings),
        close: close::close(&asked, because),
        accepted: close::accepted(&asked, &verdict),
    };
    explanation.reason = words::reason(&explanation, because, question.function_id);
    explanation
}

/// What was asked, and by what it was judged.
#[derive(Clone, Copy)]
struct Asked<'a> {
    question: &'a Question<'a>,
    settings: &'a Settings,
    policy: &'a Policy,
}

/// The step's number in the ladder of the README, which `tests` holds it to.
fn rung(because: &Because) -> Rung {
    let number = match because {
        Because::HumanOnly { .. } => 2,
        Because::NotAFunctionId { .. } => 3,
        Because::LockedDown => return Rung { number: None, name: because.as_str() },
        Because::Rule { floor: true, .. } => 5,
        Because::FullMode => 6,
        Because::ApprovedAlways { .. } | Because::ApprovedRule { .. } => 7,
        Because::AlwaysAllow { .. } => 8,
        Because::Rule { .. } | Because::NoRule | Because::PromptsDisabled => 9,
    };
    Rung { number: Some(number), name: because.as_str() }
}

/// The rule of the session's own that decided.
fn approved<'a>(because: &Because, settings: &'a Settings) -> Option<&'a Rule> {
    let Because::ApprovedRule { entry, .. } = because else { return None };
    settings.additions.approved_rules.get(*entry).map(|approved| &*approved.rule)
}

fn entry(because: &Because, settings: &Settings) -> Option<Entry> {
    let found = |list, index: usize, grants: &[Grant]| {
        let grant = grants.get(index)?;
        let pattern = visible_exact(&grant.function_id).into_owned();
        Some(Entry { list, index, pattern, rule_id: None, granted_by: grant.granted_by })
    };
    match because {
        Because::ApprovedRule { entry, .. } => {
            let approved = settings.additions.approved_rules.get(*entry)?;
            Some(Entry {
                list: "approved_rules",
                index: *entry,
                pattern: visible_exact(&approved.rule.pattern).into_owned(),
                rule_id: Some(visible_exact(approved.rule_id()).into_owned()),
                granted_by: approved.granted_by,
            })
        }
        Because::ApprovedAlways { entry } => found("approved_always", *entry, &settings.approved_always),
        Because::AlwaysAllow { entry, .. } => found("always_allow", *entry, &settings.always_allow),
        _ => None,
    }
}

impl RuleName {
    fn new(index: usize, rule: &Rule) -> Self {
        let spelled = |text: &Arc<str>| visible_exact(text).into_owned();
        Self {
            index,
            rule_id: spelled(&rule.rule_id),
            pattern: spelled(&rule.pattern),
            action: rule.action,
            floor: rule.floor,
            modes: rule.modes.clone(),
        }
    }
}

/// The conditions beside the arguments they look at.
fn compared<'a>(constraints: impl IntoIterator<Item = &'a Constraint>, arguments: &Value) -> Vec<Compared> {
    let none = Map::new();
    let members = arguments.as_object().unwrap_or(&none);
    let shown_beside = |constraint: &Constraint| Compared {
        field: shown(&constraint.field, FIELD_CODE_POINTS),
        operator: constraint.operator(),
        operand: excerpt_of_member(members, &constraint.field, &constraint.operand),
        compared: members
            .get(&*constraint.field)
            .map(|value| excerpt_of_member(members, &constraint.field, value)),
    };
    constraints.into_iter().map(shown_beside).collect()
}
