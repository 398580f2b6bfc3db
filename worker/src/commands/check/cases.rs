//! Runs the cases of a rules file. A case that fails is printed with the explanation of what was decided instead.

use std::path::Path;

use super::report::Report;
use super::{RulesFile, WRONG, at, load, plural, tell_mistakes, words};
use crate::policy::settings::Mode;
use crate::redact::visible;
use crate::seed;
use crate::seed::cases::{self, Case, KEY};

/// Longest function id in a line, code points.
const ID_CODE_POINTS: usize = 256;

/// Runs the cases of a file against the rules, and says whether all hold. A file without cases is a mistake. `mode` is the
/// mode of cases that name none.
pub(super) fn hold(
    rules: &RulesFile,
    path: &Path,
    mode: Option<Mode>,
    report: &mut Report,
) -> Result<bool, u8> {
    let (name, text) = (path.display().to_string(), load(path, report)?);
    let found = read(&name, &text, report)?;
    if found.is_empty() {
        report
            .mistake(&format!("{name}: error: there are no cases in it; they stand in a list under `{KEY}`"));
        return Err(WRONG);
    }
    let failed = found.iter().filter(|case| !holds(rules, &name, case, mode, report)).count();
    let (count, s) = (found.len(), plural(found.len()));
    let outcome = if failed == 0 { "all hold".to_owned() } else { format!("{failed} failed") };
    report.line(&format!("{name}: {count} case{s}, {outcome}"));
    Ok(failed == 0)
}

/// Reads the cases that stand beside the rules, for their mistakes.
pub(super) fn look(rules: &RulesFile, report: &mut Report) -> Result<(), u8> {
    read(&rules.name, &rules.text, report).map(drop)
}

fn read(name: &str, text: &str, report: &mut Report) -> Result<Vec<Case>, u8> {
    match cases::parse(text, &seed::environment) {
        Ok(cases) => Ok(cases.unwrap_or_default()),
        Err(mistakes) => Err(tell_mistakes(name, &mistakes, report)),
    }
}

fn holds(rules: &RulesFile, name: &str, case: &Case, mode: Option<Mode>, report: &mut Report) -> bool {
    let explanation = rules.explained(&case.function, &case.args, case.mode.or(mode));
    if explanation.decision == case.expect {
        return true;
    }
    report.line(&format!(
        "{}: case {} failed: `{}` should be {}, and is {}",
        at(name, case.place),
        case.index,
        visible(&case.function, ID_CODE_POINTS),
        case.expect.as_str(),
        explanation.decision.as_str()
    ));
    report.lines(words::lines(&explanation, |index| rules.at_rule(index)));
    false
}
