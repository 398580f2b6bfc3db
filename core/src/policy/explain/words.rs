//! The parts of an explanation as single lines, for a person or a log.
//!
//! The reason never holds an argument's value: it says which argument of which rule counted, and the other parts show the
//! rest. What would be accepted holds what rules ask for, redacted, and nothing of the call.

use std::fmt::Write as _;

use serde_json::Value;

use super::{Accepted, Compared, Explanation, RuleName};
use crate::policy::rule::Action;
use crate::policy::settings::GrantedBy;
use crate::policy::verdict::Because;
use crate::redact::visible;

/// Longest function id in the line, code points as shown.
const ID_CODE_POINTS: usize = 256;
/// Longest value in a line, code points.
const VALUE_CODE_POINTS: usize = 200;

impl RuleName {
    /// Position, name, action and pattern.
    pub fn named(&self) -> String {
        let floor = if self.floor { " (floor)" } else { "" };
        let Self { index, rule_id, pattern, .. } = self;
        let action = self.action.as_str();
        if rule_id == pattern {
            format!("{index} {action} `{pattern}`{floor}")
        } else {
            format!("{index} `{rule_id}`, {action} `{pattern}`{floor}")
        }
    }
}

impl Compared {
    /// What the rule asks for.
    pub fn asked(&self) -> String {
        format!("`{}` {} {}", self.field, self.operator, short(&self.operand))
    }
}

impl Accepted {
    /// The way in one line.
    pub fn text(&self) -> String {
        match self {
            Self::InMode { mode, rule: Some(rule) } => {
                format!("in mode {}, by rule {}", mode.as_str(), rule.named())
            }
            Self::InMode { mode, rule: None } => format!("in mode {}, by the session's list", mode.as_str()),
            Self::WithArguments { rule, unmet } => {
                let mut asks: Vec<String> =
                    unmet.iter().take(Explanation::MOST).map(Compared::asked).collect();
                if let Some(more @ 1..) = unmet.len().checked_sub(Explanation::MOST) {
                    asks.push(format!("{more} more conditions"));
                }
                format!("if {}, by rule {}", asks.join(" and "), rule.named())
            }
        }
    }
}

/// A value that is fit to be shown, as JSON on one line, cut in the middle if it is long.
pub fn short(value: &Value) -> String {
    visible(&value.to_string(), VALUE_CODE_POINTS)
}

pub(super) fn reason(explanation: &Explanation, because: &Because, function_id: &str) -> String {
    let called = visible(function_id, ID_CODE_POINTS);
    match because {
        Because::HumanOnly { door } => {
            format!(
                "the call {}, which only a person may do; no mode, list or rule opens it",
                door.describe()
            )
        }
        Because::NotAFunctionId { problem } => format!("the function id {problem}, so it names no function"),
        Because::LockedDown => {
            "no valid configuration is in force, so every call waits for a person".to_owned()
        }
        Because::FullMode => "the session is in mode `full`, so rules and lists are not asked".to_owned(),
        Because::ApprovedAlways { .. } | Because::AlwaysAllow { .. } => by_entry(explanation, &called),
        Because::ApprovedRule { rule_id, .. } => {
            let rule_id = visible(rule_id, ID_CODE_POINTS);
            let line = format!("rule `{rule_id}`, approved by a person for this session, allows `{called}`");
            with_conditions(line, explanation)
        }
        Because::Rule { .. } => by_rule(explanation, &called),
        Because::NoRule => format!("no rule decides `{called}`, so it waits for a person"),
        Because::PromptsDisabled => {
            format!("nothing decides `{called}` but a person, and nobody is asked in this session")
        }
    }
}

fn by_entry(explanation: &Explanation, called: &str) -> String {
    let Some(entry) = &explanation.entry else { return format!("a list entry allows `{called}`") };
    let origin = match entry.granted_by {
        GrantedBy::UserClick => "which a person put there",
        GrantedBy::Seed => "which was copied from a rule, and no rule denies the call",
    };
    format!("entry {} of `{}`, `{}`, covers `{called}`, {origin}", entry.index, entry.list, entry.pattern)
}

fn by_rule(explanation: &Explanation, called: &str) -> String {
    let Some(rule) = &explanation.rule else { return format!("a rule decides `{called}`") };
    let verb = match rule.action {
        Action::Allow => "allows",
        Action::Deny => "denies",
    };
    let kind = if explanation.rung.name == "floor" { "floor " } else { "" };
    let line = format!("{kind}rule {} `{}` {verb} `{called}`", rule.index, rule.rule_id);
    with_conditions(line, explanation)
}

fn with_conditions(mut line: String, explanation: &Explanation) -> String {
    for (at, one) in explanation.constraints.iter().enumerate() {
        let joint = if at == 0 { " because of" } else { " and" };
        // Writing to a string cannot fail.
        let _ = write!(line, "{joint} its argument `{}` ({})", one.field, one.operator);
        if at + 1 == Explanation::MOST {
            break;
        }
    }
    line
}
