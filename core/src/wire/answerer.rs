//! What binds an answerer, what it is asked, and what it may answer.
//!
//! Both directions are read strictly. A binding that is not understood is refused, as it might be asked about too much
//! or too little. An answer that is not understood is none: the next answerer is asked, and then a person.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::policy::id;
use crate::policy::parse::MAX_PATTERN_BYTES;
use crate::wire::error::{InvalidPayload, decode, decode_value, word};
use crate::wire::events::PendingCreatedEvent;

/// How long an answerer is waited for if its binding says nothing, in milliseconds.
pub const DEFAULT_TIMEOUT_MS: u64 = 1_000;
/// The longest that a binding may ask for, in milliseconds.
pub const MAX_TIMEOUT_MS: u64 = 3_000;
/// The largest answer that is read, in bytes.
pub const MAX_ANSWER_BYTES: usize = 16 * 1024;

/// Which calls an answerer is asked about, when in the row, and how long it is waited for. Nothing set means all of them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswererConfig {
    /// Only calls of these functions: exact ids, or patterns with `*`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub functions: Option<Vec<String>>,
    /// Only calls of this session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Only calls of sessions whose metadata has every key given here with an equal value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// The place in the row: lower ones are asked first, 0 if left out. Among equals the binding's id decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
    /// How long the answer is waited for, 1 to 3,000 ms; 1,000 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

impl AnswererConfig {
    /// Reads a binding's `config`; absent and `null` are about everything.
    ///
    /// # Errors
    /// Anything that is not understood, named by its field.
    pub fn read(config: &Value) -> Result<Self, InvalidPayload> {
        if config.is_null() {
            return Ok(Self::default());
        }
        let config: Self = decode_value(config).map_err(|invalid| match invalid.field.as_str() {
            "payload" => InvalidPayload::new("config", invalid.what),
            _ => invalid,
        })?;
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), InvalidPayload> {
        if self.functions.as_ref().is_some_and(Vec::is_empty) {
            let what = "names no function; left out, it is about every function";
            return Err(InvalidPayload::new("functions", what));
        }
        for (index, pattern) in self.functions.iter().flatten().enumerate() {
            let problem = match id::problem_of_pattern(pattern) {
                Some(problem) => problem.to_string(),
                None if pattern.starts_with('!') => {
                    "begins with `!`, which leaves nothing out here".to_owned()
                }
                None if pattern.len() > MAX_PATTERN_BYTES => {
                    format!("is longer than {MAX_PATTERN_BYTES} bytes")
                }
                None => continue,
            };
            return Err(InvalidPayload::new(format!("functions[{index}]"), problem));
        }
        if self.timeout_ms.is_some_and(|timeout| !(1..=MAX_TIMEOUT_MS).contains(&timeout)) {
            let what = format!("expected a whole number from 1 to {MAX_TIMEOUT_MS}");
            return Err(InvalidPayload::new("timeout_ms", what));
        }
        Ok(())
    }

    /// The place in the row.
    pub fn priority(&self) -> i64 {
        self.priority.unwrap_or(0)
    }

    /// How long the answer is waited for.
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms.unwrap_or(DEFAULT_TIMEOUT_MS))
    }
}

/// What an answerer is asked.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AnswererQuestion<'a> {
    /// The call as a person would see it: redacted, with `"status": "pending"`. It is not in the inbox yet.
    pub record: &'a PendingCreatedEvent,
    /// How long the answer is waited for, in milliseconds. A later one counts for nothing.
    pub deadline_ms: u64,
}

/// What an answerer said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswererAnswer {
    /// The call may run.
    Allow,
    /// The call must not run.
    Deny {
        /// The answerer's own words, as it wrote them.
        reason: Option<String>,
    },
    /// Somebody else is to say.
    Pass,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Said {
    Allow,
    Deny,
    Pass,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Spoken {
    #[serde(deserialize_with = "word")]
    decision: Said,
    #[serde(default)]
    reason: Option<String>,
}

impl AnswererAnswer {
    /// Reads an answer, which is `{decision, reason?}` and nothing else.
    ///
    /// # Errors
    /// What does not fit, named by its field and without its value.
    pub fn read(answer: Option<&RawValue>) -> Result<Self, InvalidPayload> {
        let Some(answer) = answer else { return Err(InvalidPayload::new("payload", "missing")) };
        if answer.get().len() > MAX_ANSWER_BYTES {
            return Err(InvalidPayload::new("payload", "larger than 16 KiB"));
        }
        let Spoken { decision, reason } = decode(answer)?;
        Ok(match decision {
            Said::Allow => Self::Allow,
            Said::Deny => Self::Deny { reason: reason.filter(|reason| !reason.trim().is_empty()) },
            Said::Pass => Self::Pass,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn read(answer: &Value) -> Result<AnswererAnswer, InvalidPayload> {
        AnswererAnswer::read(Some(&RawValue::from_string(answer.to_string()).unwrap()))
    }

    #[test]
    fn a_binding_without_config_is_about_everything_after_the_defaults() {
        for config in [Value::Null, json!({}), json!({"functions": null, "priority": null})] {
            let config = AnswererConfig::read(&config).unwrap();
            assert_eq!(config, AnswererConfig::default());
            assert_eq!((config.priority(), config.timeout()), (0, Duration::from_secs(1)));
        }
    }

    #[test]
    fn a_binding_that_is_not_understood_is_refused_by_the_field() {
        let long = "x".repeat(MAX_PATTERN_BYTES + 1);
        let rows = [
            (json!([]), "config"),
            (json!("*"), "config"),
            (json!({"function": ["a"]}), "function"),
            (json!({"functions": "a"}), "functions"),
            (json!({"functions": []}), "functions"),
            (json!({"functions": ["a", 1]}), "functions[1]"),
            (json!({"functions": ["a", ""]}), "functions[1]"),
            (json!({"functions": [" a"]}), "functions[0]"),
            (json!({"functions": ["!a"]}), "functions[0]"),
            (json!({"functions": ["a\u{7}"]}), "functions[0]"),
            (json!({"functions": [long]}), "functions[0]"),
            (json!({"session_id": 5}), "session_id"),
            (json!({"metadata": []}), "metadata"),
            (json!({"priority": "first"}), "priority"),
            (json!({"priority": 1.5}), "priority"),
            (json!({"timeout_ms": 0}), "timeout_ms"),
            (json!({"timeout_ms": 3001}), "timeout_ms"),
            (json!({"timeout_ms": -1}), "timeout_ms"),
            (json!({"timeout_ms": "1000"}), "timeout_ms"),
            (json!({"on_error": "fail_closed"}), "on_error"),
        ];
        for (config, field) in rows {
            let refused = AnswererConfig::read(&config).unwrap_err();
            assert_eq!(refused.field, field, "{config}: {refused}");
        }
        for timeout in [1, 3_000] {
            assert!(AnswererConfig::read(&json!({"timeout_ms": timeout})).is_ok());
        }
    }

    #[test]
    fn the_three_answers_are_read_to_the_letter() {
        let deny = |reason: Option<&str>| AnswererAnswer::Deny { reason: reason.map(str::to_owned) };
        for (answer, expected) in [
            (json!({"decision": "allow"}), AnswererAnswer::Allow),
            (json!({"decision": "allow", "reason": "fine"}), AnswererAnswer::Allow),
            (json!({"decision": "deny"}), deny(None)),
            (json!({"decision": "deny", "reason": null}), deny(None)),
            (json!({"decision": "deny", "reason": " \n"}), deny(None)),
            (json!({"decision": "deny", "reason": "too late"}), deny(Some("too late"))),
            (json!({"decision": "pass"}), AnswererAnswer::Pass),
        ] {
            assert_eq!(read(&answer).unwrap(), expected, "{answer}");
        }
    }

    #[test]
    fn everything_else_is_no_answer_and_is_not_repeated() {
        for answer in [
            json!(null),
            json!("allow"),
            json!(true),
            json!(["allow"]),
            json!([{"decision": "allow"}]),
            json!({}),
            json!({"decision": null}),
            json!({"decision": "Allow"}),
            json!({"decision": "allow "}),
            json!({"decision": "approve-hunter2"}),
            json!({"decision": {"allow": null}}),
            json!({"decision": ["allow"]}),
            json!({"decision": true}),
            json!({"decision": "allow", "reason": 5}),
            json!({"decision": "allow", "reason": ["hunter2"]}),
            json!({"decision": "allow", "remember": "hunter2"}),
            json!({"result": {"decision": "allow"}}),
            json!({"decision": "deny", "reason": "x".repeat(MAX_ANSWER_BYTES)}),
        ] {
            let refused = read(&answer).unwrap_err().to_string();
            assert!(!refused.contains("hunter2"), "{refused}");
        }
        let twice = RawValue::from_string(r#"{"decision":"deny","decision":"allow"}"#.into()).unwrap();
        assert!(AnswererAnswer::read(Some(&twice)).is_err());
        assert!(AnswererAnswer::read(None).is_err());
        let deep =
            format!("{{\"decision\":\"allow\",\"reason\":{}{}}}", "[".repeat(5_000), "]".repeat(5_000));
        assert!(AnswererAnswer::read(Some(&RawValue::from_string(deep).unwrap())).is_err());
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let words = prop::sample::select(&["allow", "deny", "pass", "Allow", "x", ""][..]);
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            words.prop_map(Value::from),
        ];
        let names = prop::sample::select(
            &["decision", "reason", "functions", "session_id", "metadata", "priority", "timeout_ms", "x"][..],
        );
        leaf.prop_recursive(3, 16, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map(names.clone().prop_map(str::to_owned), inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn an_answer_counts_only_if_it_is_one_of_the_three_words_in_an_object_of_its_own(answer in any_json()) {
            if let Ok(said) = read(&answer) {
                let word = match said {
                    AnswererAnswer::Allow => "allow",
                    AnswererAnswer::Deny { .. } => "deny",
                    AnswererAnswer::Pass => "pass",
                };
                let fields = answer.as_object().unwrap();
                prop_assert_eq!(&fields["decision"], word);
                prop_assert!(fields.keys().all(|key| key == "decision" || key == "reason"));
                prop_assert!(fields.get("reason").is_none_or(|reason| reason.is_null() || reason.is_string()));
            }
        }

        #[test]
        fn a_binding_is_within_bounds_or_refused(config in any_json()) {
            if let Ok(config) = AnswererConfig::read(&config) {
                prop_assert!(config.timeout() >= Duration::from_millis(1));
                prop_assert!(config.timeout() <= Duration::from_millis(MAX_TIMEOUT_MS));
                prop_assert!(config.functions.is_none_or(|functions| !functions.is_empty()));
            }
        }
    }
}
