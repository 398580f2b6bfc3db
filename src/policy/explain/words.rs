//! The one line that says why, for a person or a log.
//!
//! Never an argument's value: the line says which argument of which rule counted, and the parts of the explanation show
//! the rest.

use std::fmt::Write as _;

use super::Explanation;
use crate::policy::rule::Action;
use crate::policy::settings::GrantedBy;
use crate::policy::verdict::Because;
use crate::redact::visible;

/// Longest function id in the line, code points as shown.
const ID_CODE_POINTS: usize = 256;

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
        Because::Rule { .. } => by_rule(explanation, &called),
        Because::NoRule => format!("no rule decides `{called}`, so it waits for a person"),
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
    let mut line = format!("{kind}rule {} `{}` {verb} `{called}`", rule.index, rule.rule_id);
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
