//! What is registered is what the published worker registers, described in words of our own.
//!
//! `contract/api-structure.json` is the published API reference without its descriptions. Ours is compared with it
//! keyword for keyword after the same removal, so a difference in type, default or order of words is a failure here
//! before it is a surprise to a caller.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use approval_gate::wire::schema::{
    self, FILESYSTEM_ACCESS_WATCH, GATE, added_trigger_types, functions, trigger_types,
};
use serde_json::{Map, Value};

fn contract() -> Value {
    serde_json::from_str(include_str!("contract/api-structure.json")).unwrap()
}

fn published<'a>(contract: &'a Value, list: &str) -> BTreeMap<&'a str, &'a Value> {
    contract[list].as_array().unwrap().iter().map(|entry| (entry["name"].as_str().unwrap(), entry)).collect()
}

/// The schema without its descriptions. A *property* of that name is no description and stays.
fn undescribed(schema: &Value) -> Value {
    match schema {
        Value::Object(object) => {
            let kept = object.iter().filter(|(key, value)| *key != "description" || !value.is_string());
            Value::Object(kept.map(|(key, value)| (key.clone(), undescribed(value))).collect())
        }
        Value::Array(items) => items.iter().map(undescribed).collect(),
        other => other.clone(),
    }
}

#[test]
fn every_published_function_has_the_published_schemas() {
    let contract = contract();
    let published = published(&contract, "functions");
    let ours: BTreeMap<_, _> = functions().into_iter().map(|function| (function.id, function)).collect();

    assert_eq!(published.len(), 14);
    for (name, expected) in published {
        let function = ours.get(name).unwrap_or_else(|| panic!("{name} is not registered"));
        assert_eq!(undescribed(&function.request), expected["request_schema"], "request of {name}");
        assert_eq!(undescribed(&function.response), expected["response_schema"], "response of {name}");
    }
}

/// What we register and the published worker does not, the older alias apart.
const ADDED: [&str; 6] =
    ["on-state-changed", "set-prompt-policy", "get-prompt-policy", "approve-rule", "remove-rule", "evaluate"];

#[test]
fn only_what_is_listed_is_added() {
    let contract = contract();
    let published = published(&contract, "functions");
    let functions = functions();

    let added: Vec<_> = functions.iter().filter(|function| !published.contains_key(function.id)).collect();

    let (alias, added) = added.split_last().unwrap();
    let added: Vec<_> = added.iter().map(|function| function.id).collect();
    assert_eq!(added, ADDED.map(|name| format!("approval::{name}")));
    let watch = functions.iter().find(|function| function.id == schema::FILESYSTEM_ACCESS_WATCH).unwrap();
    assert_eq!(alias.id, "approval::grant-watch");
    assert_eq!((&alias.request, &alias.response), (&watch.request, &watch.response));
}

#[test]
fn functions_are_registered_in_the_published_order() {
    let order: Vec<_> = functions().iter().map(|function| function.id).collect();
    let published = [
        "gate",
        "filesystem-access-watch",
        "resolve",
        "list-pending",
        "get-pending",
        "set-mode",
        "add-always-allow",
        "remove-always-allow",
        "approve-always",
        "get-settings",
        "clear-settings",
        "on-session-deleted",
        "on-turn-completed",
        "on-config-change",
    ];
    let expected = published.iter().chain(&ADDED).chain(&["grant-watch"]);
    assert_eq!(order, expected.map(|name| format!("approval::{name}")).collect::<Vec<_>>());
}

#[test]
fn both_trigger_types_have_the_published_binding_schema() {
    let contract = contract();
    let published = published(&contract, "triggers");
    let ours = trigger_types();

    assert_eq!(
        ours.each_ref().map(|ours| ours.id),
        ["approval::pending-created", "approval::pending-resolved"]
    );
    for trigger in ours {
        assert_eq!(
            undescribed(&trigger.config),
            published[trigger.id]["invocation_schema"],
            "{}",
            trigger.id
        );
    }
}

#[test]
fn the_added_trigger_types_are_these_and_say_no_to_unknown_fields() {
    let added = added_trigger_types();
    assert_eq!(
        added.iter().map(|added| added.id).collect::<Vec<_>>(),
        ["approval::answerer", "approval::audit", "approval::prompt-policy-changed"]
    );
    for added in added {
        assert_eq!(added.config["additionalProperties"], false, "{}", added.id);
    }
}

#[test]
fn everything_that_is_registered_is_described() {
    let mut silent = Vec::new();
    for function in functions() {
        assert!(!function.description.trim().is_empty(), "{}", function.id);
        if function.id == GATE {
            continue;
        }
        find_silent(&function.request, &format!("{} request", function.id), &mut silent);
        find_silent(&function.response, &format!("{} response", function.id), &mut silent);
    }
    for trigger in trigger_types().into_iter().chain(added_trigger_types()) {
        assert!(!trigger.description.trim().is_empty(), "{}", trigger.id);
        find_silent(&trigger.config, trigger.id, &mut silent);
    }
    assert!(silent.is_empty(), "without a description: {silent:#?}");
}

#[test]
fn the_gate_is_registered_without_prose_and_its_fields_are_described_at_the_watch() {
    let of = |id| functions().into_iter().find(|function| function.id == id).unwrap();
    let (gate, watch) = (of(GATE), of(FILESYSTEM_ACCESS_WATCH));
    assert_eq!(
        (&gate.request, &gate.response),
        (&undescribed(&watch.request), &undescribed(&watch.response))
    );
    assert!(gate.description.contains(FILESYSTEM_ACCESS_WATCH) && gate.request != watch.request);
}

/// Collects every root, property, definition and enum variant without a description, by its path.
fn find_silent(schema: &Value, path: &str, silent: &mut Vec<String>) {
    let Value::Object(object) = schema else { return };
    for group in ["properties", "definitions"] {
        for (name, inner) in object.get(group).and_then(Value::as_object).into_iter().flatten() {
            let path = format!("{path}/{name}");
            require_description(inner, &path, silent);
            find_silent(inner, &path, silent);
        }
    }
    for (index, variant) in object.get("oneOf").and_then(Value::as_array).into_iter().flatten().enumerate() {
        let path = format!("{path}/oneOf/{index}");
        require_description(variant, &path, silent);
        find_silent(variant, &path, silent);
    }
    if object.contains_key("$schema") && !object.contains_key("anyOf") {
        require_description(schema, path, silent);
    }
    require_listed_words(object, path, silent);
}

fn require_description(schema: &Value, path: &str, silent: &mut Vec<String>) {
    if schema["description"].as_str().is_none_or(|text| text.trim().is_empty()) {
        silent.push(path.to_owned());
    }
}

/// An enum that is one list of words explains each of them in its own description.
fn require_listed_words(object: &Map<String, Value>, path: &str, silent: &mut Vec<String>) {
    let words = object.get("enum").and_then(Value::as_array).filter(|words| words.len() > 1);
    let description = object.get("description").and_then(Value::as_str).unwrap_or_default();
    for word in words.into_iter().flatten().filter_map(Value::as_str) {
        if !description.contains(&format!("`{word}`: ")) {
            silent.push(format!("{path} {word}"));
        }
    }
}
