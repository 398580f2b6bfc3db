//! Why a configuration value is refused: every problem at once, each saying where, which rule, what, and what was
//! meant (contract §1, "Rules").
//!
//! Written for the operator who has to find the line. Only configuration text appears here, clipped and with its
//! control characters escaped, because it ends up in a log.

use std::fmt;

use serde_json::Value;

use super::nearest::nearest;

/// A text from the configuration is shown up to this many code points.
const SHOWN: usize = 80;
/// A message spells out this many problems and counts the rest.
const SPELLED_OUT: usize = 50;

/// A configuration value that was not understood. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    problems: Vec<Problem>,
}

/// One thing that is wrong with a configuration value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The rule's position, counted from 0; `None` for a problem outside the rules.
    pub index: Option<usize>,
    /// The rule as text, clipped; empty outside the rules.
    pub rule: String,
    /// The keys that lead to the place: from the rule inwards, or from the value where there is no rule. The last ones
    /// need not exist. As written, so nothing to print.
    pub path: Vec<String>,
    /// What is wrong: lower case, no full stop.
    pub what: String,
    /// What was probably meant, or what to do instead.
    pub hint: Option<String>,
}

impl Refusal {
    /// Collecting stops here: a value that is wrong throughout is read again anyway, once the first faults are mended.
    pub const MOST_PROBLEMS: usize = 1_000;

    /// A refusal of these problems, or none if there are none.
    pub(super) fn from_problems(problems: Vec<Problem>) -> Option<Self> {
        if problems.is_empty() { None } else { Some(Self { problems }) }
    }

    /// A refusal of the value as a whole.
    pub(super) fn whole(what: impl Into<String>) -> Self {
        Self { problems: vec![Problem::outside(what.into(), None)] }
    }

    /// The same refusal in other words, problem by problem.
    #[must_use]
    pub fn retold(self, tell: impl FnMut(Problem) -> Problem) -> Self {
        Self { problems: self.problems.into_iter().map(tell).collect() }
    }

    /// All problems, in the order of the value, up to [`Refusal::MOST_PROBLEMS`].
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

impl std::error::Error for Refusal {}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, problem) in self.problems.iter().take(SPELLED_OUT).enumerate() {
            if position > 0 {
                f.write_str("; ")?;
            }
            problem.fmt(f)?;
        }
        match self.problems.len().checked_sub(SPELLED_OUT) {
            None | Some(0) => Ok(()),
            Some(more) => write!(f, "; and {more} more"),
        }
    }
}

impl Problem {
    /// A problem outside the rules.
    pub(super) const fn outside(what: String, hint: Option<String>) -> Self {
        Self { index: None, rule: String::new(), path: Vec::new(), what, hint }
    }

    /// The same problem, found under these keys.
    pub(super) fn at<const N: usize>(mut self, path: [&str; N]) -> Self {
        self.path = path.map(str::to_owned).into();
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(index) = self.index {
            write!(f, "rule {index} `{}`: ", self.rule)?;
        }
        f.write_str(&self.what)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

/// Text from the configuration made fit for one line of a message: clipped, control characters escaped.
pub fn shown(text: &str) -> String {
    let mut line = String::new();
    for (at, c) in text.chars().enumerate() {
        if at == SHOWN {
            line.push('…');
            break;
        }
        if c.is_control() {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    line
}

/// A rule as a person would recognise it: the string itself, or the start of its JSON.
pub fn rule_text(rule: &Value) -> String {
    match rule {
        Value::String(text) => shown(text),
        other => {
            let mut start = Start(Vec::new());
            // Stops with an error once enough is written, which is the point: a rule can be megabytes.
            let _ = serde_json::to_writer(&mut start, other);
            shown(&String::from_utf8_lossy(&start.0))
        }
    }
}

/// Takes the first bytes of a serialisation, more than [`SHOWN`] code points in any script, and refuses the rest.
struct Start(Vec<u8>);

impl std::io::Write for Start {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let room = (4 * (SHOWN + 1)).saturating_sub(self.0.len());
        if room == 0 {
            return Err(std::io::ErrorKind::WriteZero.into());
        }
        let taken = room.min(bytes.len());
        self.0.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The hint for a word that is none of the known ones.
pub fn meant(typed: &str, known: &[&str]) -> String {
    match nearest(typed, known) {
        Some(word) => format!("did you mean `{word}`?"),
        None => format!(
            "known here: {}",
            known.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
        ),
    }
}

/// The JSON kind of a value, with its article.
pub const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
