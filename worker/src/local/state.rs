//! The `state` worker: scopes of keys and values in memory, and the events of their changes.
//!
//! Each call is one step under the store's lock. There is no compare-and-set; a swap by `set` is the nearest thing.
//! It must not know who calls. The non-obvious fact: a key that holds `null` and a key that is missing differ only
//! in whether the answer has a `result` at all.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use super::builtin::input;
use super::frame::{ErrorBody, Outcome};
use super::hub::Hub;
use super::state_update::{self, Op};

/// One scope. Values are listed in the order of first insertion.
#[derive(Debug, Default)]
struct Scope {
    values: HashMap<String, (u64, Value)>,
    order: BTreeMap<u64, String>,
    next: u64,
}

/// All values of the `state` worker.
#[derive(Debug, Default)]
pub struct StateStore {
    scopes: BTreeMap<String, Scope>,
}

impl StateStore {
    /// The value under a key; absent when the key is.
    pub fn get(&self, scope: &str, key: &str) -> Option<&Value> {
        self.scopes.get(scope)?.values.get(key).map(|(_, value)| value)
    }

    /// Writes a value and returns the one it replaced.
    pub fn set(&mut self, scope: &str, key: &str, value: Value) -> Option<Value> {
        let scope = self.scopes.entry(scope.to_owned()).or_default();
        if let Some((_, stored)) = scope.values.get_mut(key) {
            return Some(std::mem::replace(stored, value));
        }
        scope.values.insert(key.to_owned(), (scope.next, value));
        scope.order.insert(scope.next, key.to_owned());
        scope.next += 1;
        None
    }

    /// Removes a key and returns its value. The scope stays known.
    pub fn delete(&mut self, scope: &str, key: &str) -> Option<Value> {
        let scope = self.scopes.get_mut(scope)?;
        let (position, value) = scope.values.remove(key)?;
        scope.order.remove(&position);
        Some(value)
    }

    /// The values of a scope, in order of first insertion.
    pub fn list(&self, scope: &str) -> Vec<Value> {
        let Some(scope) = self.scopes.get(scope) else { return Vec::new() };
        scope.order.values().filter_map(|key| scope.values.get(key)).map(|(_, value)| value.clone()).collect()
    }

    /// The keys of a scope with their values, in order of first insertion. The wire has no such call.
    pub fn entries(&self, scope: &str) -> Vec<(String, Value)> {
        let Some(scope) = self.scopes.get(scope) else { return Vec::new() };
        let value_of = |key: &String| Some((key.clone(), scope.values.get(key)?.1.clone()));
        scope.order.values().filter_map(value_of).collect()
    }

    fn groups(&self) -> Vec<&String> {
        self.scopes.keys().collect()
    }
}

#[derive(Deserialize)]
struct StateSetInput {
    scope: String,
    key: String,
    #[serde(alias = "data")]
    value: Value,
}

#[derive(Deserialize)]
struct StateGetInput {
    scope: String,
    key: String,
}

#[derive(Deserialize)]
struct StateDeleteInput {
    scope: String,
    key: String,
}

#[derive(Deserialize)]
struct StateListInput {
    scope: String,
}

#[derive(Deserialize)]
struct StateListGroupsInput {}

#[derive(Deserialize)]
struct StateUpdateInput {
    scope: String,
    key: String,
    ops: Vec<Op>,
}

/// Which changes a bind wants to hear of. Absent means any.
#[derive(Deserialize)]
struct StateTriggerConfig {
    scope: Option<String>,
    key: Option<String>,
    #[serde(rename = "condition_function_id")]
    _condition_function_id: Option<String>,
}

/// Whether a bind's config can be read.
pub(super) fn accepts(config: &Value) -> Result<(), String> {
    StateTriggerConfig::deserialize(config)
        .map(drop)
        .map_err(|error| format!("Failed to parse trigger config: {error}"))
}

/// Runs one of `state::*`.
pub(super) fn run(hub: &Arc<Hub>, function_id: &str, data: Value) -> Outcome {
    match function_id {
        "state::set" => set(hub, input(function_id, data)?),
        "state::get" => {
            let StateGetInput { scope, key } = input(function_id, data)?;
            Ok(hub.state().get(&scope, &key).cloned())
        }
        "state::delete" => {
            let StateDeleteInput { scope, key } = input(function_id, data)?;
            let old = hub.state().delete(&scope, &key);
            changed(hub, "state:deleted", &scope, &key, &old.clone().unwrap_or_default(), &Value::Null);
            Ok(old)
        }
        "state::list" => {
            let StateListInput { scope } = input(function_id, data)?;
            Ok(Some(Value::Array(hub.state().list(&scope))))
        }
        "state::list_groups" => {
            let StateListGroupsInput {} = input(function_id, data)?;
            Ok(Some(json!({ "groups": hub.state().groups() })))
        }
        "state::update" => Ok(Some(update(hub, input(function_id, data)?))),
        _ => Ok(None),
    }
}

fn set(hub: &Arc<Hub>, form: StateSetInput) -> Outcome {
    let StateSetInput { scope, key, value } = form;
    let limit =
        hub.configuration().value("iii-state").and_then(|settings| settings.get("max_value_bytes")?.as_u64());
    if let Some(limit) = limit {
        let length = value.to_string().len();
        if u64::try_from(length).is_ok_and(|length| length > limit) {
            let message =
                format!("value of {length} bytes exceeds the configured max_value_bytes limit of {limit}");
            return Err(ErrorBody::new("VALUE_TOO_LARGE", message));
        }
    }
    let old = hub.state().set(&scope, &key, value.clone());
    let event = if old.is_some() { "state:updated" } else { "state:created" };
    let old = old.unwrap_or_default();
    changed(hub, event, &scope, &key, &old, &value);
    Ok(Some(json!({ "old_value": old, "new_value": value })))
}

fn update(hub: &Arc<Hub>, form: StateUpdateInput) -> Value {
    let StateUpdateInput { scope, key, ops } = form;
    let (old, new, errors) = {
        let mut state = hub.state();
        let old = state.get(&scope, &key).cloned();
        let (new, errors) = state_update::apply(old.as_ref(), &ops);
        state.set(&scope, &key, new.clone());
        (old, new, errors)
    };
    let event = if old.is_some() { "state:updated" } else { "state:created" };
    let old = old.unwrap_or_default();
    changed(hub, event, &scope, &key, &old, &new);
    let mut result = json!({ "old_value": old, "new_value": new });
    if !errors.is_empty() {
        result["errors"] = json!(errors);
    }
    result
}

/// Tells the binds that want to hear of it, unless the settings switch all events off.
fn changed(hub: &Arc<Hub>, event: &str, scope: &str, key: &str, old: &Value, new: &Value) {
    let off = hub
        .configuration()
        .value("iii-state")
        .and_then(|settings| settings.get("triggers_enabled")?.as_bool())
        == Some(false);
    if off {
        return;
    }
    let mut binds = hub.world().engine_binds("state");
    binds.retain(|bind| {
        StateTriggerConfig::deserialize(&bind.config).is_ok_and(|wanted| {
            wanted.scope.is_none_or(|wanted| wanted == scope) && wanted.key.is_none_or(|wanted| wanted == key)
        })
    });
    let payload = json!({ "type": "state", "event_type": event, "scope": scope, "key": key,
        "old_value": old, "new_value": new });
    hub.tell_in_turn(binds, payload);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn given_an_overwritten_key_when_listed_then_it_keeps_its_place_and_a_rewritten_one_moves_to_the_end() {
        let mut store = StateStore::default();
        for key in ["b", "a", "c"] {
            assert_eq!(store.set("s", key, json!(key)), None);
        }
        assert_eq!(store.set("s", "b", json!("b2")), Some(json!("b")));
        assert_eq!(store.list("s"), [json!("b2"), json!("a"), json!("c")]);
        store.delete("s", "b");
        store.set("s", "b", json!("b3"));
        assert_eq!(store.list("s"), [json!("a"), json!("c"), json!("b3")]);
    }

    #[test]
    fn given_a_scope_emptied_by_deletes_when_groups_are_listed_then_it_is_still_there() {
        let mut store = StateStore::default();
        store.set("s", "k", Value::Null);
        assert_eq!(store.delete("s", "k"), Some(Value::Null));
        assert_eq!(store.delete("s", "k"), None);
        assert_eq!(store.groups(), ["s"]);
        assert!(store.list("s").is_empty());
    }
}
