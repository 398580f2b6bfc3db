//! The stand-in session manager: sessions that can be made, read and deleted, so that their end can be played.
//!
//! `session::create` is an invention for trying out; the other two answer as the real one does. It must not know
//! turns: deleting a session does not end its turn.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::builtin::input;
use super::clock;
use super::frame::Outcome;
use super::hub::{Caller, Hub};
use super::triggers::object_or_empty;

/// The type that fires when a session is deleted.
pub(super) const DELETED: &str = "session::deleted";

/// All sessions of the stand-in session manager.
#[derive(Debug, Default)]
pub struct Sessions {
    meta: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
struct SessionInput {
    session_id: String,
}

#[derive(Deserialize)]
struct CreateInput {
    session_id: String,
    #[serde(default)]
    title: String,
    #[serde(default)]
    description: String,
    metadata: Option<Map<String, Value>>,
}

/// Which deletions a bind wants to hear of: one session, or those whose metadata contain these pairs.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeletedConfig {
    session_id: Option<String>,
    metadata: Option<Map<String, Value>>,
}

/// Whether a bind's config can be read.
pub(super) fn accepts_deleted(config: &Value) -> Result<(), String> {
    DeletedConfig::deserialize(object_or_empty(config))
        .map(drop)
        .map_err(|error| format!("invalid session::deleted config: {error}"))
}

/// Runs one of `session::*`.
pub(super) fn run(hub: &Arc<Hub>, function_id: &str, data: Value) -> Outcome {
    match function_id {
        "session::create" => Ok(Some(create(hub, input(function_id, data)?))),
        "session::delete" => {
            let SessionInput { session_id } = input(function_id, data)?;
            Ok(Some(json!({ "deleted": delete(hub, &session_id) })))
        }
        _ => {
            let SessionInput { session_id } = input(function_id, data)?;
            let meta = hub.sessions().meta.get(&session_id).cloned();
            Ok(Some(meta.map_or(Value::Null, |meta| json!({ "meta": meta }))))
        }
    }
}

fn create(hub: &Arc<Hub>, form: CreateInput) -> Value {
    let now = clock::now_ms();
    let mut meta = json!({ "session_id": form.session_id, "title": form.title, "description": form.description,
        "status": "idle", "status_reason": null, "forked_from": null, "created_at": now, "updated_at": now,
        "message_count": 0 });
    if let Some(metadata) = form.metadata {
        meta["metadata"] = Value::Object(metadata);
    }
    hub.sessions().meta.insert(form.session_id, meta.clone());
    json!({ "meta": meta })
}

/// Deletes a session and says so to whoever listens; an unknown one is announced as well, as a late or repeated
/// deletion would be.
fn delete(hub: &Arc<Hub>, session_id: &str) -> bool {
    let meta = hub.sessions().meta.remove(session_id);
    let metadata = meta.as_ref().and_then(|meta| meta.get("metadata")).and_then(Value::as_object).cloned();
    let mut binds = hub.world().engine_binds(DELETED);
    binds.retain(|bind| {
        DeletedConfig::deserialize(object_or_empty(&bind.config)).is_ok_and(|wanted| {
            let pairs = wanted.metadata.unwrap_or_default();
            wanted.session_id.is_none_or(|wanted| wanted == session_id)
                && pairs.iter().all(|(key, value)| {
                    metadata.as_ref().is_some_and(|metadata| metadata.get(key) == Some(value))
                })
        })
    });
    let payload = json!({ "session_id": session_id, "timestamp": clock::now_ms() });
    hub.tell_all(Caller::Harness, binds, &payload);
    meta.is_some()
}
