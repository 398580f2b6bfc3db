//! The `configuration` worker: named documents with a schema each, in memory.
//!
//! Values are kept as written and expanded when read; what is validated is the expanded value. It must not know
//! what any entry means, except that the engine's own `iii-state` entry and the pretend `shell` entry exist from the
//! start. The non-obvious fact: schemas do not survive a restart, values do.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use super::builtin::input;
use super::expand::expand;
use super::frame::{ErrorBody, Outcome};
use super::hub::Hub;
use super::schema;

/// One document.
#[derive(Debug, Clone)]
struct Entry {
    name: String,
    description: String,
    /// `null` while its owner has not registered since the last restart.
    schema: Value,
    value: Value,
    metadata: Option<Value>,
}

/// All documents of the `configuration` worker.
#[derive(Debug, Default)]
pub struct ConfigurationStore {
    entries: BTreeMap<String, Entry>,
}

impl ConfigurationStore {
    /// The value of an entry as written; absent when the entry is.
    pub fn value(&self, id: &str) -> Option<&Value> {
        self.entries.get(id).map(|entry| &entry.value)
    }

    /// Writes a value past all validation, as an edited file would, making a nameless entry without a schema
    /// where there is none.
    pub fn put(&mut self, id: &str, value: Value) {
        let blank = || Entry {
            name: id.to_owned(),
            description: String::new(),
            schema: Value::Null,
            value: Value::Null,
            metadata: None,
        };
        self.entries.entry(id.to_owned()).or_insert_with(blank).value = value;
    }

    /// Forgets all schemas and lets the entries the engine itself owns register again.
    pub(super) fn after_restart(&mut self, with_shell: bool) {
        for entry in self.entries.values_mut() {
            entry.schema = Value::Null;
        }
        let settings = serde_json::from_str(include_str!("state_settings_schema.json")).unwrap_or_default();
        self.own(
            "iii-state",
            "State",
            settings,
            json!({ "adapter": { "name": "kv", "config": { "store_method": "in_memory" } } }),
        );
        if with_shell {
            let schema = json!({ "type": "object" });
            self.own("shell", "Shell", schema, json!({ "fs": { "host_roots": ["/srv/app"] } }));
        }
    }

    fn own(&mut self, id: &str, name: &str, schema: Value, initial: Value) {
        let value = self.entries.get(id).map_or(initial, |entry| entry.value.clone());
        let description = format!("settings of {id}");
        let entry = Entry { name: name.to_owned(), description, schema, value, metadata: None };
        self.entries.insert(id.to_owned(), entry);
    }
}

#[derive(Deserialize)]
struct ConfigurationRegisterInput {
    id: String,
    name: String,
    description: String,
    schema: Value,
    initial_value: Option<Value>,
    metadata: Option<Value>,
}

#[derive(Deserialize)]
struct ConfigurationGetInput {
    id: String,
    raw: Option<bool>,
}

#[derive(Deserialize)]
struct ConfigurationSetInput {
    id: String,
    value: Value,
}

#[derive(Deserialize)]
struct ConfigurationSchemaInput {
    id: String,
}

#[derive(Deserialize)]
struct ConfigurationListInput {}

/// Which changes a bind wants to hear of. Absent means any.
#[derive(Deserialize)]
struct ConfigurationTriggerConfig {
    configuration_id: Option<String>,
    event_types: Option<Vec<String>>,
    #[serde(rename = "condition_function_id")]
    _condition_function_id: Option<String>,
}

/// Whether a bind's config can be read.
pub(super) fn accepts(config: &Value) -> Result<(), String> {
    ConfigurationTriggerConfig::deserialize(config)
        .map(drop)
        .map_err(|error| format!("Failed to parse configuration trigger config: {error}"))
}

/// Runs one of `configuration::*`.
pub(super) fn run(hub: &Arc<Hub>, function_id: &str, data: Value) -> Outcome {
    match function_id {
        "configuration::register" => register(hub, input(function_id, data)?).map(Some),
        "configuration::get" => get(hub, input(function_id, data)?).map(Some),
        "configuration::set" => set(hub, input(function_id, data)?).map(Some),
        "configuration::schema" => {
            let ConfigurationSchemaInput { id } = input(function_id, data)?;
            let store = hub.configuration();
            let entry = store.entries.get(&id).ok_or_else(|| not_found(&id))?;
            Ok(Some(describe(&id, entry)))
        }
        "configuration::list" => {
            let ConfigurationListInput {} = input(function_id, data)?;
            let store = hub.configuration();
            let all: Vec<Value> = store.entries.iter().map(|(id, entry)| describe(id, entry)).collect();
            Ok(Some(json!({ "configurations": all })))
        }
        _ => Ok(None),
    }
}

fn describe(id: &str, entry: &Entry) -> Value {
    let mut described = json!({ "id": id, "name": entry.name, "description": entry.description,
        "schema": entry.schema });
    if let Some(metadata) = &entry.metadata {
        described["metadata"] = metadata.clone();
    }
    described
}

fn not_found(id: &str) -> ErrorBody {
    ErrorBody::new("NOT_FOUND", format!("configuration '{id}' not found"))
}

fn check_id(id: &str) -> Result<(), ErrorBody> {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || byte == b'-';
    if (1..=64).contains(&id.len()) && id.bytes().all(fits) {
        return Ok(());
    }
    let message = format!("invalid configuration id '{id}': must match [a-z0-9_-]{{1,64}}");
    Err(ErrorBody::new("INVALID_ID", message))
}

/// Expands with the engine's variables; the names come back that are unset and have no default.
fn expanded(hub: &Hub, value: &Value) -> (Value, Vec<String>) {
    expand(value, &|name| hub.environment.get(name).cloned().or_else(|| std::env::var(name).ok()))
}

fn validate(schema: &Value, value: &Value) -> Result<(), ErrorBody> {
    let invalid = |message: String| {
        Err(ErrorBody::new("SCHEMA_INVALID", format!("schema validation failed: {message}")))
    };
    match schema::violations(schema, value) {
        Ok(violations) if violations.is_empty() => Ok(()),
        Ok(violations) => invalid(violations.join("; ")),
        Err(why) => invalid(format!("invalid JSON Schema: {why}")),
    }
}

/// Validates what a value expands to; one that cannot be expanded is not validated at all.
fn validate_expanded(hub: &Hub, schema: &Value, value: &Value) -> Result<(), ErrorBody> {
    let (value, unset) = expanded(hub, value);
    if unset.is_empty() { validate(schema, &value) } else { Ok(()) }
}

fn register(hub: &Arc<Hub>, form: ConfigurationRegisterInput) -> Result<Value, ErrorBody> {
    check_id(&form.id)?;
    if let Some(initial) = &form.initial_value {
        validate_expanded(hub, &form.schema, initial)?;
    }
    let (entry, old) = {
        let mut store = hub.configuration();
        let old = store.entries.get(&form.id).map(|entry| entry.value.clone());
        let value = form.initial_value.or_else(|| old.clone()).unwrap_or_default();
        let entry = Entry {
            name: form.name,
            description: form.description,
            schema: form.schema,
            value,
            metadata: form.metadata,
        };
        store.entries.insert(form.id.clone(), entry.clone());
        (entry, old)
    };
    let event = if old.is_some() { "configuration:updated" } else { "configuration:registered" };
    changed(hub, event, &form.id, &entry, &old.unwrap_or_default());
    let mut described = describe(&form.id, &entry);
    described["value"] = entry.value;
    Ok(described)
}

fn get(hub: &Arc<Hub>, form: ConfigurationGetInput) -> Result<Value, ErrorBody> {
    let ConfigurationGetInput { id, raw } = form;
    let entry = hub.configuration().entries.get(&id).cloned().ok_or_else(|| not_found(&id))?;
    if raw == Some(true) {
        return Ok(json!({ "id": id, "value": entry.value }));
    }
    let (value, unset) = expanded(hub, &entry.value);
    if !unset.is_empty() {
        let names = unset.join(", ");
        let message =
            format!("configuration '{id}' references unset environment variable(s) with no default: {names}");
        return Err(ErrorBody::new("EXPAND_FAILED", message));
    }
    if !entry.schema.is_null() {
        validate(&entry.schema, &value)?;
    }
    Ok(json!({ "id": id, "value": value }))
}

fn set(hub: &Arc<Hub>, form: ConfigurationSetInput) -> Result<Value, ErrorBody> {
    let ConfigurationSetInput { id, value } = form;
    check_id(&id)?;
    let (entry, old) = {
        let mut store = hub.configuration();
        let Some(entry) = store.entries.get_mut(&id) else {
            let message =
                format!("configuration '{id}' is not registered; call configuration::register first");
            return Err(ErrorBody::new("NOT_REGISTERED", message));
        };
        if entry.schema.is_null() {
            let message = format!(
                "configuration '{id}' has no schema available yet; the owning worker must register before values can be set"
            );
            return Err(ErrorBody::new("SCHEMA_UNAVAILABLE", message));
        }
        validate_expanded(hub, &entry.schema, &value)?;
        let old = std::mem::replace(&mut entry.value, value);
        (entry.clone(), old)
    };
    changed(hub, "configuration:updated", &id, &entry, &old);
    Ok(json!({ "old_value": old, "new_value": entry.value }))
}

/// Tells the binds that want to hear of it. Events carry expanded values, as far as they can be expanded.
fn changed(hub: &Arc<Hub>, event: &str, id: &str, entry: &Entry, old: &Value) {
    let mut binds = hub.world().engine_binds("configuration");
    binds.retain(|bind| {
        ConfigurationTriggerConfig::deserialize(&bind.config).is_ok_and(|wanted| {
            wanted.configuration_id.is_none_or(|wanted| wanted == id)
                && wanted.event_types.is_none_or(|wanted| wanted.iter().any(|wanted| wanted == event))
        })
    });
    let mut payload = describe(id, entry);
    payload["type"] = "configuration".into();
    payload["event_type"] = event.into();
    payload["old_value"] = expanded(hub, old).0;
    payload["new_value"] = expanded(hub, &entry.value).0;
    hub.tell_in_turn(binds, payload);
}
