//! Reads one rule of the list, and says everything that is wrong with it.

use std::sync::Arc;

use regex::RegexBuilder;
use serde_json::{Map, Value};

use super::{MAX_PATTERN_BYTES, MAX_REGEX_BYTES, MODES, unknown_word};
use crate::policy::constraint::{Constraint, Test};
use crate::policy::id;
use crate::policy::refusal::{Problem, Refusal, kind, meant, rule_text, shown};
use crate::policy::rule::{Action, Rule};
use crate::policy::search::Search;
use crate::policy::settings::Mode;

/// Largest compiled regex, and largest cache of its matcher, bytes each. Matching time is linear whatever the regex,
/// with this size as the factor.
const MAX_REGEX_MEMORY: usize = 1024 * 1024;
/// Deepest nesting inside a regex.
const MAX_REGEX_NEST: u32 = 64;

const RULE_KEYS: [&str; 6] = ["rule_id", "function", "action", "modes", "args", "floor"];
const OPERATORS: [&str; 2] = ["equals", "matches"];
const ACTIONS: [&str; 2] = [Action::Allow.as_str(), Action::Deny.as_str()];

/// Reads one rule; whatever is wrong with it goes to `problems` under its index.
pub(super) struct RuleReader<'a> {
    pub index: usize,
    pub value: &'a Value,
    pub problems: &'a mut Vec<Problem>,
    /// The keys inside the rule that lead to what is being read.
    pub path: Vec<String>,
}

impl RuleReader<'_> {
    fn problem(&mut self, what: impl Into<String>, hint: Option<String>) {
        if self.problems.len() >= Refusal::MOST_PROBLEMS {
            return;
        }
        let rule = rule_text(self.value);
        let path = self.path.clone();
        self.problems.push(Problem { index: Some(self.index), rule, path, what: what.into(), hint });
    }

    /// Reads what stands under a key.
    fn within<T>(&mut self, key: &str, read: impl FnOnce(&mut Self) -> T) -> T {
        self.path.push(key.to_owned());
        let read = read(self);
        self.path.pop();
        read
    }

    /// The rule, if nothing is wrong with it.
    pub fn read(mut self) -> Option<Rule> {
        let value = self.value;
        match value {
            Value::String(text) => self.short_form(text),
            Value::Object(fields) => self.long_form(fields),
            other => {
                let what = format!("a rule is a string or an object, not {}", kind(other));
                self.problem(what, None);
                None
            }
        }
    }

    /// `"pattern"` allows, `"!pattern"` denies.
    fn short_form(&mut self, text: &str) -> Option<Rule> {
        let (action, pattern) = match text.strip_prefix('!') {
            Some(pattern) => (Action::Deny, pattern),
            None => (Action::Allow, text),
        };
        if text == "!" {
            self.problem(
                "a lone `!` denies nothing",
                Some("write the pattern behind it, as in `!shell::*`".to_owned()),
            );
            return None;
        }
        if pattern.starts_with('!') {
            self.problem("`!!` says deny twice", Some("one `!` denies, none allows".to_owned()));
            return None;
        }
        let pattern = self.pattern("the pattern", pattern)?;
        let rule_id = Arc::clone(&pattern);
        Some(Rule {
            rule_id,
            pattern,
            action,
            modes: None,
            constraints: Vec::new(),
            has_args: false,
            floor: false,
        })
    }

    fn long_form(&mut self, fields: &Map<String, Value>) -> Option<Rule> {
        for key in fields.keys().filter(|key| !RULE_KEYS.contains(&key.as_str())) {
            let what = format!("unknown key `{}`", shown(key));
            self.within(key, |reader| reader.problem(what, Some(meant(key, &RULE_KEYS))));
        }
        // All parts are read before any absence ends the rule, so that one look shows all that is wrong.
        let pattern = self.within("function", |reader| reader.function(fields.get("function")));
        let action = self.within("action", |reader| reader.action(fields.get("action")));
        let rule_id = self.given(fields, "rule_id", Self::rule_id);
        let modes = self.given(fields, "modes", Self::modes);
        let args = self.given(fields, "args", Self::args);
        let floor = self.given(fields, "floor", |reader, value| reader.floor(value, action));
        let pattern = pattern?;
        Some(Rule {
            rule_id: rule_id.unwrap_or_else(|| Some(Arc::clone(&pattern)))?,
            action: action?,
            modes: modes.map_or(Some(None), |modes| modes.map(Some))?,
            floor: floor.unwrap_or(Some(false))?,
            has_args: args.is_some(),
            constraints: args.unwrap_or_else(|| Some(Vec::new()))?,
            pattern,
        })
    }

    /// Reads a part that may be absent.
    fn given<T>(
        &mut self,
        fields: &Map<String, Value>,
        key: &str,
        read: impl FnOnce(&mut Self, &Value) -> T,
    ) -> Option<T> {
        fields.get(key).map(|value| self.within(key, |reader| read(reader, value)))
    }

    fn pattern(&mut self, name: &str, pattern: &str) -> Option<Arc<str>> {
        if let Some(problem) = id::problem_of_pattern(pattern) {
            self.problem(format!("{name} {problem}"), None);
            return None;
        }
        if pattern.len() > MAX_PATTERN_BYTES {
            self.problem(format!("{name} is longer than {MAX_PATTERN_BYTES} bytes"), None);
            return None;
        }
        Some(pattern.into())
    }

    fn function(&mut self, value: Option<&Value>) -> Option<Arc<str>> {
        match value {
            None => self
                .problem("`function` is missing", Some("it names the functions the rule is for".to_owned())),
            Some(Value::String(text)) if text.starts_with('!') => {
                let hint = "in an object, `action` says whether the rule denies".to_owned();
                self.problem("`function` begins with `!`", Some(hint));
            }
            Some(Value::String(text)) => return self.pattern("`function`", text),
            Some(other) => self.problem(format!("`function` must be a string, not {}", kind(other)), None),
        }
        None
    }

    fn action(&mut self, value: Option<&Value>) -> Option<Action> {
        let Some(value) = value else {
            self.problem("`action` is missing", Some(meant("", &ACTIONS)));
            return None;
        };
        let action = value.as_str().and_then(Action::parse);
        if action.is_none() {
            let (what, hint) = unknown_word("action", value, &ACTIONS);
            self.problem(what, hint);
        }
        action
    }

    fn floor(&mut self, value: &Value, action: Option<Action>) -> Option<bool> {
        match value {
            Value::Bool(true) if action == Some(Action::Allow) => {
                let hint = "only a deny rule can be one".to_owned();
                self.problem("a rule that allows cannot be a floor", Some(hint));
                None
            }
            Value::Bool(floor) => Some(*floor),
            other => {
                self.problem(format!("`floor` must be true or false, not {}", kind(other)), None);
                None
            }
        }
    }

    fn rule_id(&mut self, value: &Value) -> Option<Arc<str>> {
        if let Some(text) = value.as_str() {
            return self.pattern("`rule_id`", text);
        }
        self.problem(format!("`rule_id` must be a string, not {}", kind(value)), None);
        None
    }

    fn modes(&mut self, value: &Value) -> Option<Vec<Mode>> {
        let Some(list) = value.as_array() else {
            let hint = "leave it out for all modes".to_owned();
            self.problem(format!("`modes` must be a list, not {}", kind(value)), Some(hint));
            return None;
        };
        if list.is_empty() {
            self.problem(
                "`modes` is empty, so the rule could never apply",
                Some("leave it out for all modes".to_owned()),
            );
            return None;
        }
        let mut modes = Vec::new();
        for word in list {
            match word.as_str().and_then(Mode::parse) {
                Some(mode) if modes.contains(&mode) => {}
                Some(mode) => modes.push(mode),
                None => {
                    let (what, hint) = unknown_word("modes", word, &MODES);
                    self.problem(what, hint);
                }
            }
        }
        (!modes.is_empty()).then_some(modes)
    }

    fn args(&mut self, value: &Value) -> Option<Vec<Constraint>> {
        let Some(fields) = value.as_object() else {
            self.problem(format!("`args` must be an object, not {}", kind(value)), None);
            return None;
        };
        let constraints: Vec<_> = fields
            .iter()
            .map(|(field, value)| self.within(field, |reader| reader.constraint(field, value)))
            .collect();
        let mut constraints: Vec<Constraint> = constraints.into_iter().collect::<Option<_>>()?;
        constraints.sort_by(|left, right| left.field.cmp(&right.field));
        Some(constraints)
    }

    fn constraint(&mut self, field: &str, value: &Value) -> Option<Constraint> {
        let name = shown(field);
        let example = || Some("as in `{\"equals\": 1}` or `{\"matches\": \"^a\"}`".to_owned());
        let Some(operators) = value.as_object() else {
            self.problem(
                format!("the constraint on `{name}` must be an object, not {}", kind(value)),
                example(),
            );
            return None;
        };
        let mut known = true;
        for operator in operators.keys().filter(|key| !OPERATORS.contains(&key.as_str())) {
            let what = format!("the constraint on `{name}` has the unknown operator `{}`", shown(operator));
            self.within(operator, |reader| reader.problem(what, Some(meant(operator, &OPERATORS))));
            known = false;
        }
        let mut entries = operators.iter();
        let (Some((operator, operand)), None, true) = (entries.next(), entries.next(), known) else {
            if known {
                self.problem(format!("the constraint on `{name}` needs exactly one operator"), example());
            }
            return None;
        };
        let test = if operator == "equals" {
            Test::Equals
        } else {
            Test::Matches(self.within(operator, |reader| reader.regex(&name, operand))?)
        };
        Some(Constraint { field: field.into(), operand: Arc::new(operand.clone()), test })
    }

    fn regex(&mut self, field: &str, operand: &Value) -> Option<Search> {
        let Some(text) = operand.as_str() else {
            self.problem(format!("`matches` on `{field}` must be a string, not {}", kind(operand)), None);
            return None;
        };
        if text.len() > MAX_REGEX_BYTES {
            self.problem(format!("the regex on `{field}` is longer than {MAX_REGEX_BYTES} bytes"), None);
            return None;
        }
        match compiled(text) {
            Ok(regex) => Some(regex),
            Err(cause) => {
                let what = format!("the regex `{}` on `{field}` does not compile", shown(text));
                self.problem(what, Some(cause));
                None
            }
        }
    }
}

/// The regex, within the bounds for one, or why it does not compile.
pub(in crate::policy) fn compiled(text: &str) -> Result<Search, String> {
    let mut builder = RegexBuilder::new(text);
    builder.size_limit(MAX_REGEX_MEMORY).dfa_size_limit(MAX_REGEX_MEMORY).nest_limit(MAX_REGEX_NEST);
    let regex = builder.build().map_err(|error| regex_cause(&error))?;
    Ok(Search::new(regex, MAX_REGEX_NEST))
}

/// The last line of a regex error; the lines before it draw the place with carets.
fn regex_cause(error: &regex::Error) -> String {
    match error {
        regex::Error::CompiledTooBig(_) => "it would take too much memory".to_owned(),
        other => {
            let text = other.to_string();
            let last = text.lines().last().unwrap_or_default();
            shown(last.trim().trim_start_matches("error: "))
        }
    }
}
