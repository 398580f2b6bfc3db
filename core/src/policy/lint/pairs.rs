//! What rules do to each other: one that never decides because of those before it, and a deny that an earlier allow opens.
//!
//! Both are certain. The first is a proof: in every mode in which the rule is asked, one rule in front of it covers its
//! pattern and asks for nothing more. The second is a call that the deny fits and the gate lets through.

use serde_json::{Map, Value};

use super::overlap::{self, Outline};
use super::{Lint, asked_in, named, samples};
use crate::policy::constraint::{Constraint, Test};
use crate::policy::refusal::shown;
use crate::policy::rule::{Action, Rule};
use crate::policy::settings::{Mode, Settings};
use crate::policy::verdict::{Because, Decision};
use crate::policy::{Policy, Question, decide};
use crate::redact;

/// What making an example and trying it costs; deciding it costs as much as there are rules besides.
const EXAMPLE_COST: u64 = 5_000;

/// All rules, ready to be compared.
pub(super) struct Pairs<'a> {
    pub policy: &'a Policy,
    /// The patterns, in rule order.
    pub outlines: Vec<Outline<'a>>,
    /// What comparing may still cost.
    pub budget: u64,
}

impl Pairs<'_> {
    /// A finding if the rule can never decide.
    pub fn shadowed(&mut self, index: usize, rule: &Rule) -> Option<Lint> {
        let mut by: Vec<usize> = Vec::new();
        for mode in asked_in(rule) {
            let earlier = self.first_before(index, rule, mode)?;
            if !by.contains(&earlier) {
                by.push(earlier);
            }
        }
        let rules = self.policy.rules();
        let names: Vec<_> = by.iter().map(|earlier| named(*earlier, &rules[*earlier])).collect();
        let verb = if names.len() == 1 { "fits" } else { "fit" };
        let same = by.iter().all(|earlier| rules[*earlier].action == rule.action);
        let (outcome, hint) = if same {
            ("and does the same", "remove it")
        } else {
            ("and does the opposite", "move it up, or remove it")
        };
        let what = format!(
            "{} never decides: {} {verb} every call first, {outcome}",
            named(index, rule),
            names.join(" and ")
        );
        Some(Lint::warning("shadowed", index, what, hint))
    }

    /// The first rule that, in this mode, decides every call that `rule` fits.
    fn first_before(&mut self, index: usize, rule: &Rule, mode: Mode) -> Option<usize> {
        let rules = self.policy.rules();
        // Floors are asked first, wherever they stand; among themselves in order.
        let floors = if rule.floor { index } else { rules.len() };
        let before_floors = (0..floors).filter(|earlier| rules[*earlier].floor);
        let before_others = (0..index).filter(|earlier| !rule.floor && !rules[*earlier].floor);
        for earlier in before_floors.chain(before_others) {
            self.budget = self.budget.saturating_sub(1);
            if self.budget == 0 {
                return None;
            }
            let candidate = &rules[earlier];
            if candidate.in_mode(mode)
                && self.outlines[earlier].covers(&self.outlines[index])
                && implied(&candidate.constraints, &rule.constraints)
            {
                return Some(earlier);
            }
        }
        None
    }

    /// A finding if an allow in front of this deny lets through what the deny is about. An allow for less than the deny
    /// is an exception, and no finding.
    pub fn opened(&mut self, index: usize, rule: &Rule) -> Option<Lint> {
        if rule.action != Action::Deny || rule.floor {
            return None;
        }
        let rules = self.policy.rules();
        for (earlier, allow) in rules.iter().enumerate().take(index) {
            if allow.action != Action::Allow || !asked_in(rule).any(|mode| allow.in_mode(mode)) {
                continue;
            }
            if self.budget == 0 {
                return None;
            }
            let outlines = (&self.outlines[earlier], &self.outlines[index]);
            let exception = outlines.1.covers(outlines.0) && implied(&rule.constraints, &allow.constraints);
            if exception {
                continue;
            }
            let Some(function_id) = overlap::common(outlines.0, outlines.1, &mut self.budget) else {
                continue;
            };
            self.budget = self.budget.saturating_sub(EXAMPLE_COST + rules.len() as u64);
            let Some(arguments) = samples::arguments(&allow.constraints, &rule.constraints) else { continue };
            let question = Question { function_id: &function_id, arguments: &arguments };
            if let Some(mode) = self.lets_through((earlier, allow), rule, &question) {
                return Some(self.opening(index, earlier, &question, mode));
            }
        }
        None
    }

    /// The mode in which the allow decides a call that the deny fits too.
    fn lets_through(
        &self,
        (earlier, allow): (usize, &Rule),
        deny: &Rule,
        question: &Question<'_>,
    ) -> Option<Mode> {
        asked_in(deny).filter(|mode| allow.in_mode(*mode)).find(|mode| {
            let settings = Settings::fail_closed().with_mode(*mode, 0);
            let verdict = decide(question, &settings, self.policy);
            verdict.decision == Decision::Continue
                && matches!(verdict.because, Because::Rule { index, .. } if index == earlier)
        })
    }

    fn opening(&self, index: usize, earlier: usize, question: &Question<'_>, mode: Mode) -> Lint {
        let rules = self.policy.rules();
        let with = match question.arguments {
            Value::Object(fields) if fields.is_empty() => String::new(),
            arguments => format!(" with `{}`", shown(&redact::excerpt(arguments).to_string())),
        };
        let in_mode = if asked_in(&rules[index]).all(|mode| rules[earlier].in_mode(mode)) {
            String::new()
        } else {
            format!(" in mode {}", mode.as_str())
        };
        let what = format!(
            "{} does not deny all that it names: {} allows `{}`{with} first{in_mode}",
            named(index, &rules[index]),
            named(earlier, &rules[earlier]),
            shown(question.function_id)
        );
        Lint::warning("opened_deny", index, what, "move the deny up, or give it `floor: true`")
    }
}

/// Says whether arguments that satisfy all of `known` certainly satisfy all of `asked`.
fn implied(asked: &[Constraint], known: &[Constraint]) -> bool {
    asked.iter().all(|one| known.iter().any(|other| other.field == one.field && follows(one, other)))
}

fn follows(one: &Constraint, from: &Constraint) -> bool {
    match (&one.test, &from.test) {
        (Test::Matches(one), Test::Matches(from)) => one.as_str() == from.as_str(),
        (Test::Equals, Test::Matches(_)) => false,
        (_, Test::Equals) => {
            let fields = Map::from_iter([((*one.field).to_owned(), (*from.operand).clone())]);
            one.holds(&fields)
        }
    }
}
