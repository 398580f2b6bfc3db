//! `approval-gate check`: a rules file looked at without any engine.
//!
//! Says what would be decided about a call and why, finds mistakes and doubtful rules, or runs cases. Nothing is stored and
//! nobody is asked. Every line that is printed has its hidden characters spelled, whatever it was made from.

pub mod arguments;
mod cases;
mod findings;
mod report;
mod words;

use std::path::Path;
use std::process::ExitCode;

use serde_json::Value;

use crate::policy::Policy;
use crate::policy::Question;
use crate::policy::explain::{Explanation, ModeSource, explain};
use crate::policy::lint::lint;
use crate::policy::settings::Mode;
use crate::seed::places::{Mistake, Places};
use crate::seed::{self, SeedFault};
use crate::wire::explanation::Explanation as Told;
use arguments::CheckArguments;
use report::Report;

/// Something is wrong with the file, or with what the rules do.
const WRONG: u8 = 1;
/// Nothing was checked.
const NOT_CHECKED: u8 = 2;

/// A file that is understood.
struct RulesFile {
    name: String,
    text: String,
    policy: Policy,
    places: Places,
}

/// Runs the command. Results go to standard output, mistakes to standard error.
pub fn run(arguments: &CheckArguments) -> ExitCode {
    let mut report = Report::default();
    let status = checked(arguments, &mut report).unwrap_or_else(|status| status);
    report.print(status)
}

/// The exit status; an early one is the error.
fn checked(arguments: &CheckArguments, report: &mut Report) -> Result<u8, u8> {
    if arguments.function_id.is_none() && arguments.cases.is_none() && arguments.mode.is_some() {
        report.error("`--mode` needs a function or `--cases`");
        return Err(NOT_CHECKED);
    }
    // The command line before the file: who mistypes JSON should not be told about rules.
    let json = parsed(&arguments.arguments, report)?;
    let rules = RulesFile::read(&arguments.rules, report)?;
    if let Some(function_id) = &arguments.function_id {
        rules.explain(function_id, &json, arguments.mode, arguments.json, report);
        return Ok(0);
    }
    let lints = lint(&rules.policy);
    let failed = if let Some(path) = &arguments.cases {
        !cases::hold(&rules, path, arguments.mode, report)?
    } else {
        cases::look(&rules, report)?;
        findings::tell(&rules, &lints, report);
        false
    };
    let warned = arguments.strict && findings::warnings(&lints) > 0;
    if warned && arguments.cases.is_some() {
        report.error("there are warnings; `check` without `--cases` shows them");
    }
    Ok(if failed || warned { WRONG } else { 0 })
}

fn parsed(text: &str, report: &mut Report) -> Result<Value, u8> {
    serde_json::from_str(text).map_err(|error| {
        report.error(&format!("the arguments are not JSON: {error}"));
        NOT_CHECKED
    })
}

/// A file's text; a file that cannot be read is told.
fn load(path: &Path, report: &mut Report) -> Result<String, u8> {
    seed::load(path).map_err(|fault| {
        report.error(&format!("{}: {fault}", path.display()));
        if matches!(fault, SeedFault::Unreadable(_)) { NOT_CHECKED } else { WRONG }
    })
}

/// Tells mistakes in a file.
fn tell_mistakes(name: &str, mistakes: &[Mistake], report: &mut Report) -> u8 {
    for mistake in mistakes {
        report.mistake(&format!("{}: error: {}", at(name, mistake.place), mistake.what));
    }
    report.mistake(&format!("{name}: {} mistake{}", mistakes.len(), plural(mistakes.len())));
    WRONG
}

/// A file and the place in it, as editors and compilers write it.
fn at(name: &str, place: Option<(u64, u64)>) -> String {
    place.map_or_else(|| name.to_owned(), |(line, column)| format!("{name}:{line}:{column}"))
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

impl RulesFile {
    fn read(path: &Path, report: &mut Report) -> Result<Self, u8> {
        let (name, text) = (path.display().to_string(), load(path, report)?);
        let value = seed::parse(&text, &seed::environment)
            .map_err(|problem| tell_mistakes(&name, &problem.mistakes(&text), report))?;
        let policy = Policy::from_value(&value).map_err(|refusal| {
            report.mistake(&format!("{name}: error: {refusal}"));
            WRONG
        })?;
        let places = Places::of(&text);
        Ok(Self { name, text, policy, places })
    }

    /// Where a rule stands, or just the file.
    fn at_rule(&self, index: usize) -> String {
        at(&self.name, self.places.of_rule(index))
    }

    /// Where a key of the file stands, or just the file.
    fn at_key(&self, key: &str) -> String {
        at(&self.name, self.places.find([key]))
    }

    fn explained(&self, function_id: &str, arguments: &Value, mode: Option<Mode>) -> Explanation {
        let (settings, source) = match mode {
            Some(mode) => (self.policy.default_settings(0).with_mode(mode, 0), ModeSource::Given),
            None => (self.policy.default_settings(0), ModeSource::Default),
        };
        explain(&Question { function_id, arguments }, &settings, source, &self.policy)
    }

    fn explain(
        &self,
        function_id: &str,
        arguments: &Value,
        mode: Option<Mode>,
        json: bool,
        report: &mut Report,
    ) {
        let explanation = self.explained(function_id, arguments, mode);
        if !json {
            report.line(&words::headline(&explanation, function_id));
            report.lines(words::lines(&explanation, |index| self.at_rule(index)));
            return;
        }
        match serde_json::to_string_pretty(&Told::from(explanation)) {
            Ok(text) => report.document(&text),
            Err(error) => report.error(&format!("the explanation could not be written: {error}")),
        }
    }
}
