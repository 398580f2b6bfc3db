//! Lints as lines, one per finding, each with its place.

use super::report::Report;
use super::{RulesFile, plural};
use crate::policy::lint::{Lint, Lints, Weight};

/// Prints all findings and a summary.
pub(super) fn tell(rules: &RulesFile, lints: &Lints, report: &mut Report) {
    report.lines(lints.found.iter().map(|lint| line(rules, lint)));
    if !lints.complete {
        report.line(&format!(
            "{}: note: the list is too long to compare all rules with each other",
            rules.name
        ));
    }
    let (count, found) = (rules.policy.rules().len(), warnings(lints));
    let summary = match found {
        0 => "nothing doubtful".to_owned(),
        _ => format!("{found} warning{}", plural(found)),
    };
    report.line(&format!("{}: {count} rule{}, {summary}", rules.name, plural(count)));
}

/// How many warnings there are, notes not counted.
pub(super) fn warnings(lints: &Lints) -> usize {
    lints.found.iter().filter(|lint| lint.weight == Weight::Warning).count()
}

fn line(rules: &RulesFile, lint: &Lint) -> String {
    let place = lint.index.map_or_else(|| rules.at_key("default_mode"), |index| rules.at_rule(index));
    let weight = match lint.weight {
        Weight::Warning => "warning",
        Weight::Note => "note",
    };
    let hint = lint.hint.map(|hint| format!("; {hint}")).unwrap_or_default();
    format!("{place}: {weight}: {}{hint} [{}]", lint.what, lint.name)
}
