//! From the configuration value to rules that are understood, or to the list of everything that is not.
//!
//! A rule that is not understood never widens or drops protection: one problem anywhere refuses the whole value
//! (contract §1, "Rules"). So nothing here has a fallback; the only defaults are for fields that are absent.

mod rule_reader;

use std::sync::Arc;

use serde_json::Value;

use super::id;
use super::prompting::PromptPolicy;
use super::refusal::{Problem, Refusal, kind, meant, shown};
use super::rule::Rule;
use super::settings::Mode;
use rule_reader::RuleReader;
pub(super) use rule_reader::compiled;

/// Longest rule list.
pub const MAX_RULES: usize = 10_000;
/// Longest pattern or `rule_id`, bytes.
pub const MAX_PATTERN_BYTES: usize = 512;
/// Longest regex text, bytes.
pub const MAX_REGEX_BYTES: usize = 4 * 1024;

/// The fields of a configuration value.
pub const TOP_KEYS: [&str; 6] =
    ["default_mode", "rules", "grant_reask_limit", "prompt_policy", "answerable", "require_listener"];
const MODES: [&str; 3] = [Mode::Manual.as_str(), Mode::Auto.as_str(), Mode::Full.as_str()];
const PROMPT_POLICIES: [&str; 2] = [PromptPolicy::Ask.as_str(), PromptPolicy::Never.as_str()];

/// A configuration value taken apart; absent fields stay absent.
#[derive(Debug)]
pub(super) struct Parsed {
    pub default_mode: Option<Mode>,
    pub grant_reask_limit: Option<u32>,
    pub rules: Option<Vec<Rule>>,
    pub prompt_policy: Option<PromptPolicy>,
    pub answerable: Option<Vec<Arc<str>>>,
    pub require_listener: Option<bool>,
}

/// Takes a configuration value apart, collecting all problems.
pub(super) fn parse(value: &Value, step: &mut dyn FnMut()) -> Result<Parsed, Refusal> {
    let Some(fields) = value.as_object() else {
        return Err(Refusal::whole(format!("the configuration must be an object, not {}", kind(value))));
    };
    let mut problems = Vec::new();
    for key in fields.keys().filter(|key| !TOP_KEYS.contains(&key.as_str())).take(Refusal::MOST_PROBLEMS / 2)
    {
        let problem = Problem::outside(format!("unknown key `{}`", shown(key)), Some(meant(key, &TOP_KEYS)));
        problems.push(problem.at([key]));
    }
    let parsed = Parsed {
        default_mode: fields.get("default_mode").and_then(|value| default_mode(value, &mut problems)),
        grant_reask_limit: fields
            .get("grant_reask_limit")
            .and_then(|value| reask_limit(value, &mut problems)),
        rules: fields.get("rules").map(|value| rules(value, &mut problems, step)),
        prompt_policy: fields.get("prompt_policy").and_then(|value| prompt_policy(value, &mut problems)),
        answerable: fields.get("answerable").map(|value| answerable(value, &mut problems)),
        require_listener: fields
            .get("require_listener")
            .and_then(|value| require_listener(value, &mut problems)),
    };
    Refusal::from_problems(problems).map_or(Ok(parsed), Err)
}

fn default_mode(value: &Value, problems: &mut Vec<Problem>) -> Option<Mode> {
    let mode = value.as_str().and_then(Mode::parse);
    if mode.is_none() {
        let (what, hint) = unknown_word("default_mode", value, &MODES);
        problems.push(Problem::outside(what, hint).at(["default_mode"]));
    }
    mode
}

fn reask_limit(value: &Value, problems: &mut Vec<Problem>) -> Option<u32> {
    let limit = value.as_u64().and_then(|limit| u32::try_from(limit).ok());
    if limit.is_none() {
        let what = format!("`grant_reask_limit` must be a whole number from 0 to {}", u32::MAX);
        problems.push(Problem::outside(what, None).at(["grant_reask_limit"]));
    }
    limit
}

fn prompt_policy(value: &Value, problems: &mut Vec<Problem>) -> Option<PromptPolicy> {
    let policy = value.as_str().and_then(PromptPolicy::parse);
    if policy.is_none() {
        let (what, hint) = unknown_word("prompt_policy", value, &PROMPT_POLICIES);
        problems.push(Problem::outside(what, hint).at(["prompt_policy"]));
    }
    policy
}

fn require_listener(value: &Value, problems: &mut Vec<Problem>) -> Option<bool> {
    if !value.is_boolean() {
        let what = format!("`require_listener` must be true or false, not {}", kind(value));
        problems.push(Problem::outside(what, None).at(["require_listener"]));
    }
    value.as_bool()
}

fn answerable(value: &Value, problems: &mut Vec<Problem>) -> Vec<Arc<str>> {
    let mut patterns = Vec::new();
    for (index, value) in list("answerable", value, problems).iter().enumerate() {
        let what = match value.as_str() {
            None => format!("must be a string, not {}", kind(value)),
            Some(text) if text.len() > MAX_PATTERN_BYTES => {
                format!("is longer than {MAX_PATTERN_BYTES} bytes")
            }
            Some(text) => match id::problem_of_pattern(text) {
                Some(problem) => problem.to_string(),
                None if text.starts_with('!') => "begins with `!`, which denies nothing here".to_owned(),
                None => {
                    patterns.push(text.into());
                    continue;
                }
            },
        };
        if problems.len() < Refusal::MOST_PROBLEMS {
            let problem = Problem::outside(format!("entry {index} of `answerable` {what}"), None);
            problems.push(problem.at(["answerable", &index.to_string()]));
        }
    }
    patterns
}

/// The entries of a list that is not too long; none of anything else, which is a problem.
fn list<'a>(name: &str, value: &'a Value, problems: &mut Vec<Problem>) -> &'a [Value] {
    let Some(list) = value.as_array() else {
        let hint = Some("an empty list is written `[]`".to_owned());
        let what = format!("`{name}` must be a list, not {}", kind(value));
        problems.push(Problem::outside(what, hint).at([name]));
        return &[];
    };
    if list.len() > MAX_RULES {
        let what = format!("`{name}` has {} entries, at most {MAX_RULES} are accepted", list.len());
        problems.push(Problem::outside(what, None).at([name]));
        return &[];
    }
    list
}

/// One rule on its own.
pub(super) fn rule(value: &Value) -> Result<Rule, Refusal> {
    let mut problems = Vec::new();
    let read = RuleReader { index: 0, value, path: Vec::new(), problems: &mut problems }.read();
    match (Refusal::from_problems(problems), read) {
        (None, Some(rule)) => Ok(rule),
        (Some(refusal), _) => Err(refusal),
        (None, None) => Err(Refusal::whole("the rule could not be understood")),
    }
}

fn rules(value: &Value, problems: &mut Vec<Problem>, step: &mut dyn FnMut()) -> Vec<Rule> {
    let mut rules = Vec::new();
    for (index, value) in list("rules", value, problems).iter().enumerate() {
        rules.extend(RuleReader { index, value, problems, path: Vec::new() }.read());
        step();
    }
    rules
}

fn unknown_word(field: &str, value: &Value, known: &[&str]) -> (String, Option<String>) {
    match value.as_str() {
        Some(word) => {
            (format!("`{field}` has the unknown value `{}`", shown(word)), Some(meant(word, known)))
        }
        None => (format!("`{field}` must be a string, not {}", kind(value)), Some(meant("", known))),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::policy::rule::Action;
    use serde_json::json;

    fn parse(value: &Value) -> Result<Parsed, Refusal> {
        super::parse(value, &mut || {})
    }

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
