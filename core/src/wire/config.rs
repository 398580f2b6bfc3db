//! The JSON Schema of the configuration value, as registered with the `configuration` worker (contract §1, "Rules").
//!
//! A console sees a mistake when it saves, not when the gate refuses it. The schema must never be stricter than
//! `Policy::from_value`, else an operator could not save what the gate accepts; it is as strict as draft-07 can be, and
//! only a regex that does not compile gets past it. A `${NAME}` placeholder is an ordinary string here: the worker that
//! stores the value expands it before it validates.

use serde_json::{Value, json};

use crate::policy::Policy;
use crate::policy::parse::{MAX_PATTERN_BYTES, MAX_REGEX_BYTES, MAX_RULES};

/// A character that may stand at the edge of a pattern: no white space, no control character, and not `!`, which in
/// front means deny.
const EDGE: &str = r"[^!\s\u0000-\u001f\u007f-\u009f]";
/// The same, at the end, where `!` is an ordinary character.
const LAST: &str = r"[^\s\u0000-\u001f\u007f-\u009f]";
/// A character inside a pattern.
const INNER: &str = r"[^\u0000-\u001f\u007f-\u009f]";

/// The schema, draft-07.
pub fn configuration_schema() -> Value {
    let shipped = Policy::shipped_value();
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Approval gate",
        "description": "Which function calls of a session continue, are denied, or wait for a person.",
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "default_mode": {
                "description": "Permission mode of sessions whose mode nobody has set. `manual`: what no remembered \
                    approval and no rule decides waits for a person. `auto`: the session's always-allow list counts as \
                    well. `full`: everything continues except functions that only a person may call.",
                "type": "string",
                "enum": ["manual", "auto", "full"],
                "default": shipped["default_mode"],
            },
            "rules": {
                "description": "Read from top to bottom, and the first rule that fits a call decides it; a call that no \
                    rule fits waits for a person. An empty list means that every call waits. A value with one rule \
                    that is not understood is refused as a whole, and the rules before it stay in force.",
                "type": "array",
                "maxItems": MAX_RULES,
                "items": {"anyOf": [short_rule(), long_rule()]},
                "default": shipped["rules"],
            },
            "grant_reask_limit": {
                "description": "How many times one call may be held over access to a folder before its error goes to \
                    the model. 0 never asks.",
                "type": "integer",
                "minimum": 0,
                "maximum": u32::MAX,
                "default": shipped["grant_reask_limit"],
            },
            "prompt_policy": {
                "description": "What becomes of a call that would wait for a person, in sessions that say nothing else. \
                    `ask`: it waits. `never`: it is denied at once, for runs that nobody attends.",
                "type": "string",
                "enum": ["ask", "never"],
                "default": "ask",
            },
            "answerable": {
                "description": "Functions, as exact ids or patterns with `*`, that a worker bound to \
                    `approval::answerer` may allow in a person's place. What it denies stays denied everywhere.",
                "type": "array",
                "maxItems": MAX_RULES,
                "items": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": MAX_PATTERN_BYTES,
                    "pattern": format!("^{}$", covers()),
                },
                "default": [],
            },
            "require_listener": {
                "description": "Whether a call is denied as unavailable, instead of waiting, while no worker that could \
                    show or answer it is bound.",
                "type": "boolean",
                "default": false,
            },
        },
        "default": shipped,
    })
}

fn short_rule() -> Value {
    json!({
        "title": "Short form",
        "description": "A pattern allows the functions it covers; with `!` in front it denies them. `*` stands for any \
            run of characters, `::` included; no other character is special, and case matters.",
        "type": "string",
        "minLength": 1,
        "maxLength": MAX_PATTERN_BYTES + 1,
        "pattern": format!("^!?{}$", covers()),
        "examples": ["state::get", "shell::*", "!payments::*"],
    })
}

fn long_rule() -> Value {
    json!({
        "title": "Long form",
        "description": "A rule with conditions.",
        "type": "object",
        "additionalProperties": false,
        "required": ["function", "action"],
        "properties": {
            "rule_id": {
                "description": "The name that a denial gives. The pattern, if left out.",
                "type": "string",
                "minLength": 1,
                "maxLength": MAX_PATTERN_BYTES,
                "pattern": format!("^{LAST}({INNER}*{LAST})?$"),
            },
            "function": {
                "description": "The functions that the rule is for: an exact id, or a pattern with `*`.",
                "type": "string",
                "minLength": 1,
                "maxLength": MAX_PATTERN_BYTES,
                "pattern": format!("^{}$", covers()),
            },
            "action": {
                "description": "What becomes of a call that fits.",
                "type": "string",
                "enum": ["allow", "deny"],
            },
            "modes": {
                "description": "The session modes in which the rule applies; all, if left out. An allow rule that \
                    names `auto` here and has no `args` is also copied into a session's always-allow list.",
                "type": "array",
                "minItems": 1,
                "items": {"type": "string", "enum": ["manual", "auto", "full"]},
            },
            "args": {
                "description": "Conditions on the call's top-level arguments, by name; all must hold. A missing \
                    argument counts as null.",
                "type": "object",
                "additionalProperties": constraint(),
            },
            "floor": {
                "description": "Of a rule that denies: whether it is applied before mode `full` and before every \
                    remembered approval, wherever it stands in the list.",
                "type": "boolean",
                "default": false,
            },
        },
        "if": {
            "properties": {"floor": {"description": "The rule is a floor.", "const": true}},
            "required": ["floor"],
        },
        "then": {"properties": {"action": {"description": "Then it denies.", "const": "deny"}}},
    })
}

fn constraint() -> Value {
    json!({
        "description": "Exactly one condition.",
        "type": "object",
        "additionalProperties": false,
        "minProperties": 1,
        "maxProperties": 1,
        "properties": {
            "equals": {
                "description": "The argument is this JSON value, of this type: 2 is neither \"2\" nor 2.0.",
            },
            "matches": {
                "description": "The argument is a string in which this regular expression is found. Anchor it with ^ \
                    and $ to ask for the whole text.",
                "type": "string",
                "maxLength": MAX_REGEX_BYTES,
            },
        },
    })
}

/// The text of a pattern, without a leading `!`.
fn covers() -> String {
    format!("{EDGE}({INNER}*{LAST})?")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::policy::tests::{
        mistakes,
        properties::{good_rule, json_value},
    };
    use proptest::prelude::*;
    use std::sync::LazyLock;

    static VALIDATOR: LazyLock<jsonschema::Validator> =
        LazyLock::new(|| jsonschema::draft7::new(&configuration_schema()).unwrap());

    #[test]
    fn it_is_a_draft_07_schema() {
        assert!(jsonschema::draft7::meta::is_valid(&configuration_schema()));
    }

    #[test]
    fn both_rule_forms_and_the_shipped_value_are_valid() {
        for value in [
            Policy::shipped_value(),
            json!({}),
            json!({"rules": []}),
            json!({"rules": ["*", "!a", "a", "été::*", "a b", "a!", "${RULE:shell::exec}"]}),
            json!({"rules": [{"function": "a", "action": "deny", "rule_id": "!x", "modes": ["auto"], "args": {"": {"equals": null}}}]}),
            json!({"rules": [{"function": "a", "action": "allow", "args": {}}], "grant_reask_limit": 0}),
            json!({"rules": [{"function": "a", "action": "allow", "args": {"a": {"matches": "(?i)^x$"}}}]}),
            json!({"rules": [{"function": "a", "action": "deny", "floor": true}]}),
            json!({"rules": [{"function": "a", "action": "allow", "floor": false}]}),
            json!({"prompt_policy": "never", "answerable": ["shell::*", "a"], "require_listener": true}),
        ] {
            assert!(Policy::from_value(&value).is_ok(), "{value}");
            assert!(VALIDATOR.is_valid(&value), "{value}");
        }
    }

    #[test]
    fn every_mistake_but_a_broken_regex_is_seen_on_saving() {
        for mistake in mistakes() {
            let value = json!({"rules": ["a", mistake]});
            assert!(!VALIDATOR.is_valid(&value), "{value}");
        }
        for value in [
            json!(null),
            json!([]),
            json!({"bogus": 1}),
            json!({"default_mode": "Full"}),
            json!({"rules": "*"}),
            json!({"rules": null}),
            json!({"grant_reask_limit": -1}),
            json!({"grant_reask_limit": 1.5}),
            json!({"prompt_policy": "Never"}),
            json!({"answerable": "*"}),
            json!({"answerable": ["!a"]}),
            json!({"answerable": [" a"]}),
            json!({"answerable": [1]}),
            json!({"require_listener": "yes"}),
        ] {
            assert!(Policy::from_value(&value).is_err(), "{value}");
            assert!(!VALIDATOR.is_valid(&value), "{value}");
        }
    }

    #[test]
    fn every_property_says_what_it_is() {
        fn undescribed(at: &str, schema: &Value, found: &mut Vec<String>) {
            if let Some(fields) = schema.get("properties").and_then(Value::as_object) {
                for (name, property) in fields {
                    if property.get("description").is_none() {
                        found.push(format!("{at}.{name}"));
                    }
                }
            }
            match schema {
                Value::Object(fields) => {
                    for (key, inner) in fields {
                        undescribed(&format!("{at}.{key}"), inner, found);
                    }
                }
                Value::Array(items) => {
                    for inner in items {
                        undescribed(at, inner, found);
                    }
                }
                _ => {}
            }
        }
        let mut found = Vec::new();
        undescribed("", &configuration_schema(), &mut found);
        assert_eq!(found, Vec::<String>::new());
    }

    proptest! {
        #[test]
        fn what_the_gate_accepts_can_be_saved(rules in prop::collection::vec(good_rule(), 0..5), value in json_value(), text in "!?\\PC{0,6}") {
            for value in [json!({"rules": rules}), json!({"rules": [text]}), json!({"rules": [value]}), value] {
                if Policy::from_value(&value).is_ok() {
                    prop_assert!(VALIDATOR.is_valid(&value), "{}", value);
                }
            }
        }
    }
}
