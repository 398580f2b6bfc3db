//! The `--config` file: YAML, expanded from the environment, checked, completed with the shipped defaults
//! (contract §9).
//!
//! It only seeds a configuration that was never stored, and a seed that cannot be used is a warning, so everything
//! here ends in a value or in one line that names file, line and column. `${NAME}` is expanded after the YAML is
//! parsed: what is in the environment can be a value but never structure. The key `cases` is for people who test their
//! rules, and no part of the value.

pub mod cases;
pub mod places;

use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value};
use serde_saphyr::Location;

use crate::policy::refusal::{rule_text, shown};
use crate::policy::{Policy, Problem, Refusal};
use places::{Mistake, Places};

/// Largest file that is read, bytes.
const MAX_BYTES: u64 = 1024 * 1024;
/// Deepest nesting; the configuration itself needs six levels and its `equals` values a few more.
const MAX_DEPTH: usize = 64;
/// Most values that aliases may stand for in all.
const MAX_ALIASED: usize = 10_000;

/// Why the file is not used, and where.
#[derive(Debug)]
pub struct SeedProblem {
    file: Option<PathBuf>,
    /// Line and column, counted from 1.
    place: Option<(u64, u64)>,
    fault: SeedFault,
}

/// What is wrong with the file.
#[derive(Debug, thiserror::Error)]
pub enum SeedFault {
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(#[from] std::io::Error),
    /// More than the file may hold.
    #[error("is larger than {MAX_BYTES} bytes")]
    TooLarge,
    /// Not UTF-8.
    #[error("is not UTF-8 text")]
    NotText,
    /// Not YAML, or YAML of a kind that is not accepted.
    #[error("is not usable YAML: {0}")]
    Yaml(String),
    /// A placeholder without default whose variable is not set.
    #[error("the environment variable `{0}` is not set, and its placeholder has no default")]
    Unset(String),
    /// The gate would refuse the value.
    #[error("{0}")]
    Refused(Refusal),
}

impl SeedProblem {
    const fn new(place: Option<(u64, u64)>, fault: SeedFault) -> Self {
        Self { file: None, place, fault }
    }

    fn in_file(mut self, path: &Path) -> Self {
        self.file = Some(path.to_owned());
        self
    }

    /// Line and column of the problem, counted from 1, where there is one place to name.
    pub const fn place(&self) -> Option<(u64, u64)> {
        self.place
    }

    /// All that is wrong, each with its place in the file of this text.
    pub fn mistakes(&self, text: &str) -> Vec<Mistake> {
        let SeedFault::Refused(refusal) = &self.fault else {
            return vec![Mistake { place: self.place, what: self.fault.to_string() }];
        };
        let places = Places::of(text);
        let mistake =
            |problem: &Problem| Mistake { place: places.of_problem(problem), what: problem.to_string() };
        refusal.problems().iter().map(mistake).collect()
    }

    /// What is wrong.
    pub const fn fault(&self) -> &SeedFault {
        &self.fault
    }
}

impl fmt::Display for SeedProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("configuration file")?;
        if let Some(file) = &self.file {
            write!(f, " `{}`", shown(&file.to_string_lossy()))?;
        }
        if let Some((line, column)) = self.place {
            write!(f, ", line {line}, column {column}")?;
        }
        write!(f, ": {}", self.fault)
    }
}

impl std::error::Error for SeedProblem {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.fault {
            SeedFault::Unreadable(error) => Some(error),
            _ => None,
        }
    }
}

/// Reads the file and the process environment into a complete configuration value.
pub fn read(path: &Path) -> Result<Value, SeedProblem> {
    let text = load(path).map_err(|fault| SeedProblem::new(None, fault).in_file(path))?;
    parse(&text, &environment).map_err(|problem| problem.in_file(path))
}

/// A variable of the process, if it is set.
pub fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The text of a file, bounded.
pub fn load(path: &Path) -> Result<String, SeedFault> {
    let mut bytes = Vec::new();
    // The bound is on what is read, not on what the file says of its own size: it may be a pipe.
    File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(SeedFault::TooLarge);
    }
    String::from_utf8(bytes).map_err(|_| SeedFault::NotText)
}

/// Makes a complete configuration value from YAML text: parsed, placeholders expanded by `env`, understood by the
/// gate, and absent fields filled with the shipped ones. Empty text is an empty object.
pub fn parse(text: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<Value, SeedProblem> {
    let mut written = written(text)?;
    if let Value::Object(fields) = &mut written {
        fields.remove(cases::KEY);
    }
    let value = expanded_value(&written, text, env)?;
    if let Err(refusal) = Policy::from_value(&value) {
        let place = refusal.problems().first().and_then(|problem| Places::of(text).of_problem(problem));
        let told = refusal.retold(|problem| in_words_of_file(problem, &written, &value));
        return Err(SeedProblem::new(place, SeedFault::Refused(told)));
    }
    Ok(with_shipped_fields(value))
}

/// The file as it is written; empty text is an empty object.
fn written(text: &str) -> Result<Value, SeedProblem> {
    if text.len() as u64 > MAX_BYTES {
        return Err(SeedProblem::new(None, SeedFault::TooLarge));
    }
    let written: Value = yaml(without_mark(text))?;
    Ok(if written.is_null() { Value::Object(Map::new()) } else { written })
}

fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

fn expanded_value(
    written: &Value,
    text: &str,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Value, SeedProblem> {
    let mut value = written.clone();
    expand(&mut value, env).map_err(|name| {
        let text = without_mark(text);
        let place = text.find(&format!("${{{name}}}")).map(|at| place_of(text, at));
        SeedProblem::new(place, SeedFault::Unset(name))
    })?;
    Ok(value)
}

/// A problem with something that was expanded is told without the outcome: the environment may hold secrets.
fn in_words_of_file(problem: Problem, written: &Value, value: &Value) -> Problem {
    let rule = |value: &Value| problem.index.and_then(|index| value.get("rules")?.get(index).cloned());
    let same = match problem.index {
        Some(_) => rule(written) == rule(value),
        None => written == value,
    };
    if same {
        return problem;
    }
    let text = rule(written).map(|rule| rule_text(&rule)).unwrap_or_default();
    let what = match problem.index {
        Some(_) => "is not understood once its placeholders are expanded".to_owned(),
        None => "a field is not understood once its placeholders are expanded".to_owned(),
    };
    Problem { rule: text, what, hint: None, ..problem }
}

fn with_shipped_fields(value: Value) -> Value {
    match (Policy::shipped_value(), value) {
        (Value::Object(mut fields), Value::Object(given)) => {
            fields.extend(given);
            Value::Object(fields)
        }
        (_, value) => value,
    }
}

fn yaml<T: for<'de> Deserialize<'de>>(text: &str) -> Result<T, SeedProblem> {
    serde_saphyr::from_str_with_options(text, options()).map_err(|error| {
        let place = error.location().filter(|place| *place != Location::UNKNOWN).map(line_and_column);
        SeedProblem::new(place, SeedFault::Yaml(yaml_cause(&error, text, place)))
    })
}

/// The parser's words on one line, or ours where its advice would not help the author of the file.
fn yaml_cause(error: &serde_saphyr::Error, text: &str, place: Option<(u64, u64)>) -> String {
    if let serde_saphyr::Error::DuplicateMappingKey { key, .. } = error {
        let key = key.as_deref().map(|key| format!(" `{}`", shown(key))).unwrap_or_default();
        return format!("the key{key} is there twice");
    }
    let mut cause = error.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    let Some((line, column)) = place else { return cause };
    if let Some(said) = cause.strip_suffix(&format!(" at line {line}, column {column}")) {
        cause.truncate(said.len());
    }
    let line = usize::try_from(line).ok().and_then(|line| text.lines().nth(line.checked_sub(1)?));
    if line.is_some_and(|line| line.trim_start_matches([' ', '-']).starts_with(['!', '*'])) {
        cause.push_str(" (a rule that begins with `!` or `*` must be in quotes)");
    }
    cause
}

/// A local file of an operator, yet nothing in it may take the gate's memory or stack. Unknown tags are errors because
/// an unquoted `!shell::*` is a tag, with nothing behind it: a deny rule that would silently be gone.
fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        with_snippet: false,
        strict_booleans: true,
        reject_unsupported_tags: true,
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::Error,
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            flow_nesting_limit: MAX_DEPTH,
            max_aliases: MAX_ALIASED,
            max_anchors: MAX_ALIASED,
            max_documents: 1,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: MAX_ALIASED,
        },
    }
}

fn line_and_column(place: Location) -> (u64, u64) {
    (place.line(), place.column())
}

fn place_of(text: &str, at: usize) -> (u64, u64) {
    let before = &text[..at];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (line as u64, column as u64)
}

/// Expands placeholders in all strings; the error is the name of a variable that is not set.
fn expand(value: &mut Value, env: &dyn Fn(&str) -> Option<String>) -> Result<(), String> {
    match value {
        Value::String(text) => {
            *value = expanded(text, env)?;
            Ok(())
        }
        Value::Array(items) => items.iter_mut().try_for_each(|item| expand(item, env)),
        Value::Object(fields) => fields.values_mut().try_for_each(|field| expand(field, env)),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

/// A string that is nothing but one placeholder takes the type of what stands there, so that a number can come from
/// the environment; in any other string the text is put in.
fn expanded(text: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<Value, String> {
    let mut out = String::new();
    // Behind the last bracket there is no placeholder, and nothing has to be read on to its end to see that.
    let (mut rest, tail) = text.split_at(text.rfind('}').map_or(0, |last| last + 1));
    while let Some(at) = rest.find("${") {
        let Some((placeholder, behind)) = Placeholder::at_start(&rest[at..]) else {
            // Not a placeholder, but perhaps there is one behind: a regex may well contain `${`.
            out.push_str(&rest[..at + 2]);
            rest = &rest[at + 2..];
            continue;
        };
        let put_in = placeholder.resolve(env)?;
        if rest.len() == text.len() && at == 0 && behind.is_empty() {
            return Ok(typed(put_in));
        }
        out.push_str(&rest[..at]);
        out.push_str(&put_in);
        rest = behind;
    }
    out.push_str(rest);
    out.push_str(tail);
    Ok(Value::String(out))
}

/// A number or a boolean where the text is one, else the text.
fn typed(text: String) -> Value {
    match serde_json::from_str(&text) {
        Ok(value @ (Value::Number(_) | Value::Bool(_))) => value,
        _ => Value::String(text),
    }
}

/// `${NAME}` or `${NAME:default}`.
struct Placeholder<'a> {
    name: &'a str,
    default: Option<&'a str>,
}

impl<'a> Placeholder<'a> {
    /// The placeholder at the start of `text`, and what follows it.
    fn at_start(text: &'a str) -> Option<(Self, &'a str)> {
        let inner = text.strip_prefix("${")?;
        // The name first: looking for the bracket of everything that begins like a placeholder would read a text
        // full of beginnings over and over.
        let named = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let (name, rest) = inner.split_at(inner.find(|c| !named(c)).unwrap_or(inner.len()));
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let (default, behind) = match rest.strip_prefix(':') {
            Some(rest) => rest.split_once('}').map(|(default, behind)| (Some(default), behind))?,
            None => (None, rest.strip_prefix('}')?),
        };
        Some((Self { name, default }, behind))
    }

    fn resolve(&self, env: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
        env(self.name).or_else(|| self.default.map(str::to_owned)).ok_or_else(|| self.name.to_owned())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn env(name: &str) -> Option<String> {
        match name {
            "MODE" => Some("auto".to_owned()),
            "LIMIT" => Some("7".to_owned()),
            "RULE" => Some("x\"]: !evil".to_owned()),
            "SECRET" => Some("s3cret ".to_owned()),
            _ => None,
        }
    }

    fn seed(text: &str) -> Value {
        parse(text, &env).unwrap()
    }

    fn problem(text: &str) -> SeedProblem {
        parse(text, &env).unwrap_err()
    }

    #[test]
    fn given_some_fields_when_read_then_the_others_are_the_shipped_ones() {
        let shipped = Policy::shipped_value();
        assert_eq!(
            seed("default_mode: full\n"),
            json!({"default_mode": "full", "rules": shipped["rules"], "grant_reask_limit": 3})
        );
        assert_eq!(seed("default_mode: auto\nrules:\n  - \"!web::*\"\n")["rules"], json!(["!web::*"]));
        assert_eq!(seed("rules: []\n")["rules"], json!([]));
        for nothing in ["", "\n", "# only a comment\n", "---\n", "{}", "\u{feff}"] {
            assert_eq!(seed(nothing), shipped, "{nothing:?}");
        }
    }

    #[test]
    fn cases_are_no_part_of_the_value() {
        let value = seed("rules:\n  - shell::*\ncases:\n  - {function: '${NOWHERE}', bogus: 1}\n");
        assert_eq!(value["rules"], json!(["shell::*"]));
        assert!(value.get("cases").is_none());
    }

    #[test]
    fn byte_order_marks_and_line_ends_of_other_systems_are_read() {
        let value = seed("\u{feff}default_mode: auto\r\nrules:\r\n  - shell::*\r\n");
        assert_eq!((&value["default_mode"], &value["rules"]), (&json!("auto"), &json!(["shell::*"])));
    }

    #[test]
    fn placeholders_become_values_and_never_structure() {
        let value = seed(
            "default_mode: ${MODE}\ngrant_reask_limit: ${LIMIT}\nrules:\n  - 'a-${RULE}'\n  - ${NONE:shell::exec}\n",
        );
        assert_eq!(value["default_mode"], "auto");
        assert_eq!(value["grant_reask_limit"], 7);
        assert_eq!(value["rules"], json!(["a-x\"]: !evil", "shell::exec"]));
    }

    #[test]
    fn what_only_resembles_a_placeholder_stays() {
        for text in ["${}", "${1}", "^a${", "$NAME", "${a b}", "${UNCLOSED"] {
            assert_eq!(expanded(text, &env), Ok(json!(text)));
        }
        assert_eq!(expanded("${ ${MODE}", &env), Ok(json!("${ auto")));
        assert_eq!(expanded("${MODE}${LIMIT}", &env), Ok(json!("auto7")));
        assert_eq!(expanded("${NONE:}", &env), Ok(json!("")));
    }

    #[test]
    fn an_unset_variable_is_named_with_its_place() {
        let problem = problem("default_mode: auto\nrules:\n  - \"${NOWHERE}\"\n");
        assert_eq!(problem.place(), Some((3, 6)));
        assert!(problem.to_string().contains("`NOWHERE`"), "{problem}");
    }

    #[test]
    fn broken_yaml_names_its_line() {
        for (text, line) in [
            ("rules: [unclosed\n", 1..=2),
            ("default_mode: auto\ndefault_mode: full\n", 2..=2),
            ("rules:\n\t- a\n", 2..=2),
            ("rules:\n  - a\n - b\n", 2..=3),
            ("rules:\n  - !shell::*\n", 2..=2),
            ("rules:\n  - *\n", 2..=2),
            ("a: 1\n---\nb: 2\n", 2..=3),
        ] {
            let problem = problem(text);
            assert!(problem.place().is_some_and(|(at, _)| line.contains(&at)), "{text:?}: {problem}");
            assert!(matches!(problem.fault(), SeedFault::Yaml(_)), "{text:?}: {problem}");
            assert!(!problem.to_string().contains('\n'), "{problem}");
        }
    }

    #[test]
    fn the_usual_slips_are_explained() {
        for (text, said) in [
            ("rules:\n  - !shell::*\n", "must be in quotes"),
            ("rules:\n  - *::get\n", "must be in quotes"),
            ("rules: []\nrules: []\n", "the key `rules` is there twice"),
            ("rules:\n\t- a\n", "tabs"),
        ] {
            let problem = problem(text).to_string();
            assert!(problem.contains(said), "{problem}");
        }
    }

    #[test]
    fn a_value_that_the_gate_refuses_names_the_line_of_the_mistake() {
        let problem = problem("rules:\n  - shell::*\n  - function: a\n    action: alow\n");
        assert_eq!(problem.place(), Some((4, 5)));
        let text = problem.to_string();
        assert!(text.contains("rule 1") && text.contains("did you mean `allow`?"), "{text}");
        assert!(parse("default_mode: full\nbogus: 1\n", &env).unwrap_err().to_string().contains("`bogus`"));
    }

    #[test]
    fn a_refusal_does_not_repeat_what_came_from_the_environment() {
        let text = problem("rules:\n  - ${SECRET}\n").to_string();
        assert!(text.contains("rule 0") && !text.contains("s3cret"), "{text}");
    }

    #[test]
    fn what_is_no_mapping_is_refused() {
        for text in ["- a\n", "hello\n", "3\n"] {
            assert!(matches!(problem(text).fault(), SeedFault::Refused(_)), "{text:?}");
        }
    }

    #[test]
    fn hostile_files_are_refused_in_little_time_and_space() {
        let nine = |last: char| vec![format!("*{last}"); 9].join(",");
        let bomb: Vec<_> =
            ('b'..='z').zip('a'..).map(|(this, last)| format!("{this}: &{this} [{}]", nine(last))).collect();
        let bomb = format!("a: &a [x,x,x,x,x,x,x,x,x]\n{}\n", bomb.join("\n"));
        let deep = format!("rules: {}{}", "[".repeat(100_000), "]".repeat(100_000));
        let deep_block = (0..400).map(|n| format!("{}a:", " ".repeat(n))).collect::<Vec<_>>().join("\n");
        let large = "#".repeat(usize::try_from(MAX_BYTES).unwrap() + 1);
        for text in [bomb, deep, deep_block, large] {
            assert!(parse(&text, &env).is_err());
        }
    }

    #[test]
    fn a_file_that_cannot_be_used_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("seed.yaml");
        let text = read(&path).unwrap_err().to_string();
        assert!(text.contains("seed.yaml`: cannot be read"), "{text}");
        std::fs::write(&path, b"default_mode: \xff\n").unwrap();
        assert!(matches!(read(&path).unwrap_err().fault(), SeedFault::NotText));
        std::fs::write(&path, "default_mode: [\n").unwrap();
        let text = read(&path).unwrap_err().to_string();
        assert!(text.contains("seed.yaml`, line "), "{text}");
        std::fs::write(&path, "default_mode: auto\n").unwrap();
        assert_eq!(read(&path).unwrap()["default_mode"], "auto");
    }

    proptest! {
        #[test]
        fn any_text_ends_in_a_value_the_gate_accepts_or_in_one_line(text in "[ a-c:\\-\\[\\]{}&*!'\"#\n\t$rules0-9~|>]{0,60}") {
            match parse(&text, &env) {
                Ok(value) => prop_assert!(Policy::from_value(&value).is_ok()),
                Err(problem) => prop_assert!(!problem.to_string().contains('\n'), "{}", problem),
            }
        }
    }
}
