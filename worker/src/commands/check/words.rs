//! An explanation as a person reads it on a terminal.

use crate::policy::explain::{Close, Compared, Explanation, Miss, ModeSource, short};
use crate::policy::settings::Mode;
use crate::redact::visible;

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
        lines.push(labelled("rule", &format!("{}, {}", rule.named(), place(rule.index))));
        lines.extend(explanation.constraints.iter().map(|one| labelled("", &compared(one))));
    }
    if let Some(entry) = &explanation.entry {
        let text = format!("entry {} of `{}`: `{}`", entry.index, entry.list, entry.pattern);
        lines.push(labelled("entry", &text));
    }
    let near = explanation.close.iter().map(close).collect();
    lines.extend(column("came close", near));
    lines.extend(column("accepted", explanation.accepted.iter().map(|way| vec![way.text()]).collect()));
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

fn compared(one: &Compared) -> String {
    let has = match &one.compared {
        Some(value) => format!("the call has {}", short(value)),
        None => "the call has none".to_owned(),
    };
    format!("  {}; {has}", one.asked())
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
    std::iter::once(format!("rule {}: {miss}", close.rule.named())).chain(unmet).collect()
}

fn words(modes: &[Mode]) -> String {
    modes.iter().map(|mode| mode.as_str()).collect::<Vec<_>>().join(" or ")
}
