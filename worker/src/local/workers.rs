//! Workers: how they announce themselves and how they are listed.
//!
//! Built-in functions are listed under workers that are always there. The non-obvious fact: a worker that gives no
//! process id can be asked about by name but is on no list.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::frame::{ErrorBody, Outcome};
use super::functions::{self, Filter};
use super::hub::{Caller, Hub};
use super::world::{Announced, Connection, DEFAULT, Executor, Function, Profile, World};

/// Longest name or description of a worker, in characters.
const MAX_TEXT: usize = 280;

#[derive(Deserialize)]
pub(super) struct RegisterWorkerInput {
    runtime: Option<String>,
    version: Option<String>,
    name: Option<String>,
    description: Option<String>,
    os: Option<String>,
    pid: Option<u32>,
    isolation: Option<String>,
    namespace: Option<String>,
}

/// Takes a worker's announcement. One that conflicts with another's name is never answered.
pub(super) async fn announce(hub: &Arc<Hub>, caller: Caller, form: RegisterWorkerInput) -> Outcome {
    let Caller::Connection(id) = caller else { return Ok(Some(json!({ "success": true }))) };
    let clean = |text: Option<String>| {
        text.map(|text| text.chars().filter(|letter| !letter.is_control()).take(MAX_TEXT).collect())
    };
    let profile = Profile {
        name: clean(form.name),
        version: form.version,
        runtime: form.runtime,
        os: form.os,
        pid: form.pid,
        description: clean(form.description),
        isolation: form.isolation,
    };
    let announced = hub.world().announce(id, profile, form.namespace.as_deref());
    match announced {
        Announced::Accepted => {
            hub.worker_event("worker_metadata_updated", id);
            Ok(Some(json!({ "success": true })))
        }
        Announced::Refused(error) => Err(error),
        Announced::Conflict => std::future::pending().await,
    }
}

fn functions_of(world: &World, id: Uuid) -> usize {
    let owned = |function: &&Function| matches!(function.executor, Executor::Worker(owner) if owner == id);
    world.functions.values().filter(owned).count()
}

fn worker_detail(world: &World, id: Uuid, connection: &Connection) -> Value {
    let profile = &connection.profile;
    json!({ "id": id.to_string(), "name": profile.name, "description": profile.description,
        "version": profile.version, "namespace": connection.namespace(),
        "runtime": profile.runtime.as_deref().unwrap_or("unknown"), "os": profile.os, "status": "connected",
        "function_count": functions_of(world, id), "connected_at_ms": connection.connected_at_ms,
        "active_invocations": connection.active, "isolation": profile.isolation,
        "ip_address": connection.address })
}

fn built_in_workers(world: &World) -> BTreeSet<&'static str> {
    let of = |function: &Function| match function.executor {
        Executor::BuiltIn(function) => Some(function.worker),
        Executor::Worker(_) => None,
    };
    world.functions.values().filter_map(of).collect()
}

fn built_in_detail(world: &World, name: &str, started_at_ms: u64) -> Value {
    let of = |function: &&Function| matches!(function.executor, Executor::BuiltIn(f) if f.worker == name);
    json!({ "id": name, "name": name, "description": "built into the local engine",
        "version": env!("CARGO_PKG_VERSION"), "namespace": DEFAULT, "runtime": "engine", "os": null,
        "status": "available", "function_count": world.functions.values().filter(of).count(),
        "connected_at_ms": started_at_ms, "active_invocations": 0, "isolation": "in-process", "ip_address": null })
}

/// Workers that gave no process id are left out, as on the real engine.
pub(super) fn list(world: &World, filter: &Filter, started_at_ms: u64) -> Value {
    let built_in =
        built_in_workers(world).into_iter().map(|name| built_in_detail(world, name, started_at_ms));
    let connected = world
        .connections
        .iter()
        .filter(|(_, connection)| connection.profile.pid.is_some())
        .map(|(id, connection)| worker_detail(world, *id, connection));
    let is = |worker: &Value, key: &str, wanted: &Option<String>| {
        wanted.as_ref().is_none_or(|wanted| worker[key] == **wanted)
    };
    let mut workers: Vec<Value> = built_in
        .chain(connected)
        .filter(|worker| filter.takes_id(worker["name"].as_str().unwrap_or_default()))
        .filter(|worker| is(worker, "runtime", &filter.runtime) && is(worker, "status", &filter.status))
        .collect();
    workers.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
    json!({ "workers": workers })
}

/// One worker with everything it registered.
pub(super) fn info(world: &World, filter: &Filter, started_at_ms: u64) -> Result<Value, ErrorBody> {
    let Some(name) = &filter.name else {
        return Err(ErrorBody::new("INVALID_ARGUMENTS", "missing field `name`"));
    };
    let connected = world.connections.iter().find(|(_, connection)| {
        connection.profile.name.as_ref() == Some(name)
            && filter.namespace.as_ref().is_none_or(|wanted| wanted == connection.namespace())
    });
    let mut worker = match connected {
        Some((id, connection)) => {
            let mut worker = worker_detail(world, *id, connection);
            if let Some(pid) = connection.profile.pid {
                worker["pid"] = pid.into();
            }
            worker
        }
        None if built_in_workers(world).contains(name.as_str()) => {
            built_in_detail(world, name, started_at_ms)
        }
        None => return Err(ErrorBody::new("NOT_FOUND", format!("Worker '{name}' is not connected."))),
    };
    worker["internal"] = false.into();
    let mine = Filter { worker: Some(name.clone()), include_internal: Some(true), ..Filter::default() };
    Ok(json!({ "worker": worker,
        "functions": functions::list_functions(world, &mine)["functions"],
        "trigger_types": functions::list_types(world, &mine)["triggers"],
        "registered_triggers": functions::list_binds(world, &mine)["registered_triggers"] }))
}
