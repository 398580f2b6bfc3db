//! From the configuration value to rules that are understood, or to the list of everything that is not.
//!
//! A rule that is not understood never widens or drops protection: one problem anywhere refuses the whole value
//! (contract §1, "Rules"). So nothing here has a fallback; the only defaults are for fields that are absent.

use std::sync::Arc;

use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value};

use super::constraint::{Constraint, Test};
use super::id;
use super::refusal::{Problem, Refusal, kind, meant, rule_text, shown};
use super::rule::{Action, Rule};
use super::settings::Mode;

/// Longest rule list.
pub const MAX_RULES: usize = 10_000;
/// Longest pattern or `rule_id`, bytes.
pub const MAX_PATTERN_BYTES: usize = 512;
/// Longest regex text, bytes.
pub const MAX_REGEX_BYTES: usize = 4 * 1024;
/// Largest compiled regex, and largest cache of its matcher, bytes each. Matching time is linear whatever the regex,
/// with this size as the factor.
const MAX_REGEX_MEMORY: usize = 1024 * 1024;
/// Deepest nesting inside a regex.
const MAX_REGEX_NEST: u32 = 64;

const TOP_KEYS: [&str; 3] = ["default_mode", "rules", "grant_reask_limit"];
const RULE_KEYS: [&str; 5] = ["rule_id", "function", "action", "modes", "args"];
const OPERATORS: [&str; 2] = ["equals", "matches"];
const MODES: [&str; 3] = [Mode::Manual.as_str(), Mode::Auto.as_str(), Mode::Full.as_str()];
const ACTIONS: [&str; 2] = [Action::Allow.as_str(), Action::Deny.as_str()];

/// A configuration value taken apart; absent fields stay absent.
#[derive(Debug)]
pub(super) struct Parsed {
    pub default_mode: Option<Mode>,
    pub grant_reask_limit: Option<u32>,
    pub rules: Option<Vec<Rule>>,
}

/// Takes a configuration value apart, collecting all problems.
pub(super) fn parse(value: &Value) -> Result<Parsed, Refusal> {
    let Some(fields) = value.as_object() else {
        return Err(Refusal::whole(format!("the configuration must be an object, not {}", kind(value))));
    };
    let mut problems = Vec::new();
    for key in fields.keys().filter(|key| !TOP_KEYS.contains(&key.as_str())).take(Refusal::MOST_PROBLEMS / 2)
    {
        problems.push(Problem::outside(format!("unknown key `{}`", shown(key)), Some(meant(key, &TOP_KEYS))));
    }
    let parsed = Parsed {
        default_mode: fields.get("default_mode").and_then(|value| default_mode(value, &mut problems)),
        grant_reask_limit: fields
            .get("grant_reask_limit")
            .and_then(|value| reask_limit(value, &mut problems)),
        rules: fields.get("rules").map(|value| rules(value, &mut problems)),
    };
    Refusal::from_problems(problems).map_or(Ok(parsed), Err)
}

fn default_mode(value: &Value, problems: &mut Vec<Problem>) -> Option<Mode> {
    let mode = value.as_str().and_then(Mode::parse);
    if mode.is_none() {
        let (what, hint) = unknown_word("default_mode", value, &MODES);
        problems.push(Problem::outside(what, hint));
    }
    mode
}

fn reask_limit(value: &Value, problems: &mut Vec<Problem>) -> Option<u32> {
    let limit = value.as_u64().and_then(|limit| u32::try_from(limit).ok());
    if limit.is_none() {
        let what = format!("`grant_reask_limit` must be a whole number from 0 to {}", u32::MAX);
        problems.push(Problem::outside(what, None));
    }
    limit
}

fn rules(value: &Value, problems: &mut Vec<Problem>) -> Vec<Rule> {
    let Some(list) = value.as_array() else {
        let hint = Some("an empty list is written `[]`".to_owned());
        problems.push(Problem::outside(format!("`rules` must be a list, not {}", kind(value)), hint));
        return Vec::new();
    };
    if list.len() > MAX_RULES {
        let what = format!("`rules` has {} entries, at most {MAX_RULES} are accepted", list.len());
        problems.push(Problem::outside(what, None));
        return Vec::new();
    }
    list.iter()
        .enumerate()
        .filter_map(|(index, value)| RuleReader { index, value, problems }.read())
        .collect()
}

fn unknown_word(field: &str, value: &Value, known: &[&str]) -> (String, Option<String>) {
    match value.as_str() {
        Some(word) => {
            (format!("`{field}` has the unknown value `{}`", shown(word)), Some(meant(word, known)))
        }
        None => (format!("`{field}` must be a string, not {}", kind(value)), Some(meant("", known))),
    }
}

/// Reads one rule; whatever is wrong with it goes to `problems` under its index.
struct RuleReader<'a> {
    index: usize,
    value: &'a Value,
    problems: &'a mut Vec<Problem>,
}

impl RuleReader<'_> {
    fn problem(&mut self, what: impl Into<String>, hint: Option<String>) {
        if self.problems.len() >= Refusal::MOST_PROBLEMS {
            return;
        }
        let rule = rule_text(self.value);
        self.problems.push(Problem { index: Some(self.index), rule, what: what.into(), hint });
    }

    fn read(mut self) -> Option<Rule> {
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
        Some(Rule { rule_id, pattern, action, modes: None, constraints: Vec::new(), has_args: false })
    }

    fn long_form(&mut self, fields: &Map<String, Value>) -> Option<Rule> {
        for key in fields.keys().filter(|key| !RULE_KEYS.contains(&key.as_str())) {
            self.problem(format!("unknown key `{}`", shown(key)), Some(meant(key, &RULE_KEYS)));
        }
        // All parts are read before any absence ends the rule, so that one look shows all that is wrong.
        let pattern = self.function(fields.get("function"));
        let action = self.action(fields.get("action"));
        let rule_id = fields.get("rule_id").map(|value| self.rule_id(value));
        let modes = fields.get("modes").map(|value| self.modes(value));
        let args = fields.get("args").map(|value| self.args(value));
        let pattern = pattern?;
        Some(Rule {
            rule_id: rule_id.unwrap_or_else(|| Some(Arc::clone(&pattern)))?,
            action: action?,
            modes: modes.map_or(Some(None), |modes| modes.map(Some))?,
            has_args: args.is_some(),
            constraints: args.unwrap_or_else(|| Some(Vec::new()))?,
            pattern,
        })
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
        let constraints: Vec<_> = fields.iter().map(|(field, value)| self.constraint(field, value)).collect();
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
            self.problem(what, Some(meant(operator, &OPERATORS)));
            known = false;
        }
        let mut entries = operators.iter();
        let (Some((operator, operand)), None, true) = (entries.next(), entries.next(), known) else {
            if known {
                self.problem(format!("the constraint on `{name}` needs exactly one operator"), example());
            }
            return None;
        };
        let test =
            if operator == "equals" { Test::Equals } else { Test::Matches(self.regex(&name, operand)?) };
        Some(Constraint { field: field.into(), operand: Arc::new(operand.clone()), test })
    }

    fn regex(&mut self, field: &str, operand: &Value) -> Option<Regex> {
        let Some(text) = operand.as_str() else {
            self.problem(format!("`matches` on `{field}` must be a string, not {}", kind(operand)), None);
            return None;
        };
        if text.len() > MAX_REGEX_BYTES {
            self.problem(format!("the regex on `{field}` is longer than {MAX_REGEX_BYTES} bytes"), None);
            return None;
        }
        let built = RegexBuilder::new(text)
            .size_limit(MAX_REGEX_MEMORY)
            .dfa_size_limit(MAX_REGEX_MEMORY)
            .nest_limit(MAX_REGEX_NEST)
            .build();
        match built {
            Ok(regex) => Some(regex),
            Err(error) => {
                let what = format!("the regex `{}` on `{field}` does not compile", shown(text));
                self.problem(what, Some(regex_cause(&error)));
                None
            }
        }
    }
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    fn refusal(value: &Value) -> Refusal {
        parse(value).unwrap_err()
    }

    #[test]
    fn every_mistake_is_refused_and_says_where_it_is() {
        for mistake in crate::policy::tests::mistakes() {
            let refusal = refusal(&json!({"rules": ["!payments::*", mistake, "*"]}));
            assert!(refusal.problems().iter().all(|problem| problem.index == Some(1)), "{refusal}");
            assert!(refusal.to_string().starts_with("rule 1 `"), "{refusal}");
        }
    }

    #[test]
    fn all_problems_are_told_at_once_with_what_was_meant() {
        let text = refusal(&json!({
            "default-mode": "auto",
            "default_mode": "Full",
            "rules": [
                "!",
                {"function": "shell::exec", "action": "allow", "arg": {}, "modes": ["atuo"]},
                {"function": "shell::exec", "action": "block", "args": {"a": {"match": "x"}, "b": {"matches": "(rm|dd"}}},
            ],
            "grant_reask_limit": -1,
        }))
        .to_string();
        for expected in [
            "unknown key `default-mode` (did you mean `default_mode`?)",
            "`default_mode` has the unknown value `Full` (did you mean `full`?)",
            "`grant_reask_limit` must be a whole number",
            "rule 0 `!`: a lone `!` denies nothing",
            "unknown key `arg` (did you mean `args`?)",
            "`modes` has the unknown value `atuo` (did you mean `auto`?)",
            "`action` has the unknown value `block` (known here: `allow`, `deny`)",
            "unknown operator `match` (did you mean `matches`?)",
            "the regex `(rm|dd` on `b` does not compile (unclosed group)",
        ] {
            assert!(text.contains(expected), "{expected}\nin: {text}");
        }
        assert!(!text.contains('\n'));
    }

    #[test]
    fn what_is_no_object_is_no_configuration() {
        for value in [json!(null), json!("garbage"), json!([]), json!(1)] {
            assert!(
                refusal(&value).to_string().starts_with("the configuration must be an object, not"),
                "{value}"
            );
        }
        for value in [
            json!({"rules": "*"}),
            json!({"rules": null}),
            json!({"rules": {}}),
            json!({"default_mode": null}),
            json!({"default_mode": 5}),
            json!({"grant_reask_limit": 1.5}),
            json!({"grant_reask_limit": "3"}),
            json!({"grant_reask_limit": 4_294_967_296_u64}),
            json!({"bogus": 1}),
        ] {
            assert!(parse(&value).is_err(), "{value}");
        }
    }

    #[test]
    fn what_is_too_large_is_refused() {
        let matches = |regex: String| json!({"rules": [{"function": "f", "action": "deny", "args": {"a": {"matches": regex}}}]});
        assert!(refusal(&json!({"rules": vec!["a"; MAX_RULES + 1]})).to_string().contains("at most 10000"));
        assert!(parse(&json!({"rules": vec!["a"; MAX_RULES]})).is_ok());
        assert!(
            refusal(&json!({"rules": ["a".repeat(MAX_PATTERN_BYTES + 1)]}))
                .to_string()
                .contains("longer than 512")
        );
        assert!(parse(&json!({"rules": [format!("!{}", "a".repeat(MAX_PATTERN_BYTES))]})).is_ok());
        assert!(refusal(&matches("a".repeat(MAX_REGEX_BYTES + 1))).to_string().contains("longer than 4096"));
        assert!(refusal(&matches(r"(\w{500}){500}".to_owned())).to_string().contains("too much memory"));
        assert!(parse(&matches(format!("{}a{}", "(".repeat(1500), ")".repeat(1500)))).is_err());
    }

    #[test]
    fn a_message_stays_short_however_much_is_wrong() {
        let rules: Vec<_> = (0..5000).map(|n| json!({"x": "\u{1b}[31m".repeat(n)})).collect();
        let refusal = refusal(&json!({"rules": rules}));
        assert!(refusal.problems().len() == Refusal::MOST_PROBLEMS);
        let text = refusal.to_string();
        assert!(text.len() < 20_000 && text.ends_with("more") && !text.contains('\u{1b}'), "{}", text.len());
    }

    #[test]
    fn an_object_rule_may_be_named_and_deny_by_constraint() {
        let parsed = parse(&json!({"rules": [{"rule_id": "no-rm", "function": "shell::*", "action": "deny",
            "modes": ["auto", "auto"], "args": {"b": {"equals": null}, "a": {"matches": "rm"}}}]}))
        .unwrap();
        let rule = &parsed.rules.unwrap()[0];
        assert_eq!((&*rule.rule_id, &*rule.pattern, rule.action), ("no-rm", "shell::*", Action::Deny));
        assert_eq!(rule.modes, Some(vec![Mode::Auto]));
        let fields: Vec<_> = rule.constraints.iter().map(|one| (&*one.field, one.operator())).collect();
        assert_eq!(fields, [("a", "matches"), ("b", "equals")]);
    }

    #[test]
    fn a_short_rule_is_named_by_its_pattern() {
        let rules = parse(&json!({"rules": ["!shell::*", "state::get"]})).unwrap().rules.unwrap();
        let named: Vec<_> = rules.iter().map(|rule| (&*rule.rule_id, rule.action)).collect();
        assert_eq!(named, [("shell::*", Action::Deny), ("state::get", Action::Allow)]);
    }
}
