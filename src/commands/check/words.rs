//! An explanation as a person reads it on a terminal.

use serde_json::Value;

use crate::policy::explain::{Accepted, Close, Compared, Explanation, Miss, ModeSource, RuleName};
use crate::policy::settings::Mode;
use crate::redact::visible;

/// Longest value in a line, code points.
const VALUE_CODE_POINTS: usize = 200;
/// Longest function id in the headline, code points.
const ID_CODE_POINTS: usize = 256;
/// Width of the column of labels, the two spaces in front of it included.
const LABEL: usize = 14;

/// The decision and the function.
pub(super) fn headline(explanation: &Explanation, function_id: &str) -> String {
    format!("{:<8}  {}", explanation.decision.as_str(), visible(function_id, ID_CODE_POINTS))
}

/// The rest; `place` tells where a rule stands.
pub(super) fn lines(explanation: &Explanation, place: impl Fn(usize) -> String) -> Vec<String> {
    let mut lines = vec![labelled("why", &explanation.reason)];
    lines.push(labelled("step", &step(explanation)));
    lines.push(labelled("mode", &mode(explanation)));
    if let Some(rule) = &explanation.rule {
        lines.push(labelled("rule", &format!("{}, {}", named(rule), place(rule.index))));
        lines.extend(explanation.constraints.iter().map(|one| labelled("", &compared(one))));
    }
    if let Some(entry) = &explanation.entry {
        let text = format!("entry {} of `{}`: `{}`", entry.index, entry.list, entry.pattern);
        lines.push(labelled("entry", &text));
    }
    let near = explanation.close.iter().map(close).collect();
    lines.extend(column("came close", near));
    lines.extend(column("accepted", explanation.accepted.iter().map(accepted).collect()));
    lines
}

fn labelled(label: &str, text: &str) -> String {
    format!("{:<LABEL$}{text}", format!("  {label}"))
}

/// Several lines under one label.
fn column(label: &str, texts: Vec<Vec<String>>) -> Vec<String> {
    let texts = texts.into_iter().flatten().enumerate();
    texts.map(|(at, text)| labelled(if at == 0 { label } else { "" }, &text)).collect()
}

fn step(explanation: &Explanation) -> String {
    match explanation.rung.number {
        Some(number) => format!("{number}, {}", explanation.rung.name),
        None => explanation.rung.name.to_owned(),
    }
}

fn mode(explanation: &Explanation) -> String {
    let source = match explanation.mode_source {
        ModeSource::Stored => "of the session",
        ModeSource::Default => "the default",
        ModeSource::Given => "as given",
    };
    format!("{}, {source}", explanation.mode.as_str())
}

fn named(rule: &RuleName) -> String {
    let floor = if rule.floor { " (floor)" } else { "" };
    let action = rule.action.as_str();
    if rule.rule_id == rule.pattern {
        format!("{} {action} `{}`{floor}", rule.index, rule.pattern)
    } else {
        format!("{} `{}`, {action} `{}`{floor}", rule.index, rule.rule_id, rule.pattern)
    }
}

fn compared(one: &Compared) -> String {
    let has = match &one.compared {
        Some(value) => format!("the call has {}", short(value)),
        None => "the call has none".to_owned(),
    };
    format!("  {}; {has}", asked(one))
}

fn asked(one: &Compared) -> String {
    format!("`{}` {} {}", one.field, one.operator, short(&one.operand))
}

fn short(value: &Value) -> String {
    visible(&value.to_string(), VALUE_CODE_POINTS)
}

fn close(close: &Close) -> Vec<String> {
    let modes = || words(close.rule.modes.as_deref().unwrap_or_default());
    let miss = match close.miss {
        Miss::Mode => format!("only in mode {}", modes()),
        Miss::Arguments => "the arguments do not fit".to_owned(),
        Miss::ModeAndArguments => format!("only in mode {}, and the arguments do not fit", modes()),
        Miss::NotReached => "would fit, but is not reached".to_owned(),
        Miss::Spelling => "is for a function of almost this name".to_owned(),
    };
    let unmet = close.unmet.iter().filter(|_| close.miss != Miss::Spelling).map(compared);
    std::iter::once(format!("rule {}: {miss}", named(&close.rule))).chain(unmet).collect()
}

fn accepted(accepted: &Accepted) -> Vec<String> {
    match accepted {
        Accepted::InMode { mode, rule: Some(rule) } => {
            vec![format!("in mode {}, by rule {}", mode.as_str(), named(rule))]
        }
        Accepted::InMode { mode, rule: None } => {
            vec![format!("in mode {}, by the session's list", mode.as_str())]
        }
        Accepted::WithArguments { rule, unmet } => {
            let asks: Vec<String> = unmet.iter().map(asked).collect();
            vec![format!("if {}, by rule {}", asks.join(" and "), named(rule))]
        }
    }
}

fn words(modes: &[Mode]) -> String {
    modes.iter().map(|mode| mode.as_str()).collect::<Vec<_>>().join(" or ")
}
