//! The introspection of functions, types and binds, and binding through a call.
//!
//! Reads `world`, except for binding. Workers are next door in `workers`. It must not know what a function does. The non-obvious fact:
//! only live binds can be seen; a parked one is visible nowhere.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;
use uuid::Uuid;

use super::builtin::{self, input};
use super::frame::{BindForm, ErrorBody, Outcome};
use super::hub::{Caller, Hub};
use super::triggers::{Bind, BindOutcome, Provider, TriggerType};
use super::workers;
use super::world::{DEFAULT, Executor, Function, Key, World};

/// How long the function path waits for a provider's word before it counts as given.
const VERDICT: Duration = Duration::from_secs(10);

/// Every filter of every listing; each call reads those it knows.
#[derive(Deserialize, Default)]
pub(super) struct Filter {
    pub(super) search: Option<String>,
    pub(super) prefix: Option<String>,
    pub(super) worker: Option<String>,
    pub(super) workers: Option<Vec<String>>,
    pub(super) include_internal: Option<bool>,
    pub(super) trigger_type: Option<String>,
    pub(super) function_id: Option<String>,
    pub(super) function_ids: Option<Vec<String>>,
    pub(super) runtime: Option<String>,
    pub(super) status: Option<String>,
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
    pub(super) namespace: Option<String>,
}

impl Filter {
    pub(super) fn takes_id(&self, id: &str) -> bool {
        self.search.as_ref().is_none_or(|text| id.contains(text.as_str()))
            && self.prefix.as_ref().is_none_or(|prefix| id.starts_with(prefix.as_str()))
    }

    fn takes_worker(&self, name: &str) -> bool {
        self.worker.as_ref().is_none_or(|worker| worker == name)
            && self.workers.as_ref().is_none_or(|workers| workers.iter().any(|worker| worker == name))
    }

    fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or(DEFAULT)
    }
}

#[derive(Deserialize)]
struct RegisterTriggerInput {
    trigger_type: String,
    function_id: String,
    #[serde(default)]
    config: Value,
    metadata: Option<Value>,
    trigger_namespace: Option<String>,
}

#[derive(Deserialize)]
struct UnregisterTriggerInput {
    id: String,
}

/// Runs one of `engine::*`.
pub(super) async fn run(hub: &Arc<Hub>, function_id: &str, caller: Caller, data: Value) -> Outcome {
    match function_id {
        "engine::workers::register" => {
            return workers::announce(hub, caller, input(function_id, data)?).await;
        }
        "engine::register_trigger" => return bind(hub, caller, input(function_id, data)?).await,
        "engine::unregister_trigger" => {
            let UnregisterTriggerInput { id } = input(function_id, data)?;
            return Ok(Some(json!({ "removed": hub.world().unbind(&id) })));
        }
        "engine::channels::create" => {
            let (id, key) = (Uuid::new_v4().to_string(), Uuid::new_v4().to_string());
            let end = |direction| json!({ "channel_id": id, "access_key": key, "direction": direction });
            return Ok(Some(json!({ "writer": end("write"), "reader": end("read") })));
        }
        _ => {}
    }
    let filter: Filter = input(function_id, data)?;
    let world = hub.world();
    let result = match function_id {
        "engine::functions::list" => list_functions(&world, &filter),
        "engine::functions::info" => functions_info(&world, &filter)?,
        "engine::triggers::list" => list_types(&world, &filter),
        "engine::triggers::info" => type_info(&world, &filter)?,
        "engine::registered-triggers::list" => list_binds(&world, &filter),
        "engine::registered-triggers::info" => bind_info(&world, &filter)?,
        "engine::workers::list" => workers::list(&world, &filter, hub.started_at_ms),
        _ => workers::info(&world, &filter, hub.started_at_ms)?,
    };
    Ok(Some(result))
}

async fn bind(hub: &Arc<Hub>, caller: Caller, form: RegisterTriggerInput) -> Outcome {
    let id = Uuid::new_v4().to_string();
    let form = BindForm {
        id: id.clone(),
        trigger_type: form.trigger_type,
        function_id: form.function_id,
        config: form.config,
        metadata: form.metadata,
        namespace: None,
        trigger_namespace: form.trigger_namespace,
    };
    let (waiter, verdict) = oneshot::channel();
    let outcome = {
        let mut world = hub.world();
        let home = match caller {
            Caller::Connection(id) => world.connections.get(&id).map(|one| one.namespace().to_owned()),
            _ => None,
        };
        world.bind(form, None, home.as_deref().unwrap_or(DEFAULT), Some(waiter))
    };
    match outcome {
        BindOutcome::Refused(error) => return Err(error),
        BindOutcome::Taken => {}
        BindOutcome::Asked => {
            if let Ok(Ok(Err(error))) = tokio::time::timeout(VERDICT, verdict).await {
                let message = format!("{}: {}", error.code, error.message);
                return Err(ErrorBody::new("trigger_registration_failed", message));
            }
        }
    }
    Ok(Some(json!({ "id": id })))
}

fn worker_of(world: &World, function: &Function) -> String {
    match function.executor {
        Executor::BuiltIn(function) => function.worker.to_owned(),
        Executor::Worker(id) => world.name_of(id).to_owned(),
    }
}

fn summary(world: &World, key: &Key, function: &Function) -> Map<String, Value> {
    let mut summary = Map::new();
    summary.insert("function_id".into(), key.1.clone().into());
    summary.insert("namespace".into(), key.0.clone().into());
    summary.insert("worker_name".into(), worker_of(world, function).into());
    if let Some(description) = &function.form.description {
        summary.insert("description".into(), description.clone().into());
    }
    if let Some(metadata) = &function.form.metadata {
        summary.insert("metadata".into(), metadata.clone());
    }
    summary
}

/// All functions, internal ones included.
pub(super) fn all_summaries(world: &World) -> Vec<Value> {
    world.functions.iter().map(|(key, function)| summary(world, key, function).into()).collect()
}

fn is_internal(function: &Function) -> bool {
    function.form.id.starts_with("engine::")
        || function.form.metadata.as_ref().is_some_and(|metadata| metadata["internal"] == true)
}

pub(super) fn list_functions(world: &World, filter: &Filter) -> Value {
    let mut found: Vec<(&Key, &Function)> = world
        .functions
        .iter()
        .filter(|(key, function)| {
            filter.takes_id(&key.1)
                && filter.takes_worker(&worker_of(world, function))
                && (filter.include_internal == Some(true) || !is_internal(function))
        })
        .collect();
    found.sort_by(|a, b| (&a.0.1, &a.0.0).cmp(&(&b.0.1, &b.0.0)));
    let functions: Vec<Value> =
        found.into_iter().map(|(key, function)| summary(world, key, function).into()).collect();
    json!({ "functions": functions })
}

fn function_detail(world: &World, key: &Key, function: &Function) -> Value {
    let mut detail = summary(world, key, function);
    for (name, schema) in [
        ("request_schema", &function.form.request_format),
        ("response_schema", &function.form.response_format),
    ] {
        if let Some(schema) = schema {
            detail.insert(name.into(), schema.clone());
        }
    }
    let binds: Vec<Value> = live_binds(world)
        .filter(|bind| target_of(bind) == *key)
        .map(|bind| json!({ "id": bind.form.id, "trigger_type": bind.form.trigger_type, "config": bind.form.config }))
        .collect();
    detail.insert("registered_triggers".into(), binds.into());
    detail.into()
}

fn functions_info(world: &World, filter: &Filter) -> Result<Value, ErrorBody> {
    let find = |id: &str| {
        let key = (filter.namespace().to_owned(), id.to_owned());
        world.functions.get(&key).map(|function| function_detail(world, &key, function))
    };
    if let Some(id) = &filter.function_id {
        let missing = || ErrorBody::new("NOT_FOUND", format!("Function '{id}' is not registered."));
        return find(id).ok_or_else(missing);
    }
    let Some(ids) = filter.function_ids.as_ref().filter(|ids| ids.len() <= 32) else {
        let message = if filter.function_ids.is_some() {
            "at most 32 `function_ids`"
        } else {
            "missing field `function_id` (or `function_ids` for a batch)"
        };
        return Err(ErrorBody::new("INVALID_ARGUMENTS", message));
    };
    let missing = |id: &String| json!({ "function_id": id, "error": "not_found" });
    let functions: Vec<Value> = ids.iter().map(|id| find(id).unwrap_or_else(|| missing(id))).collect();
    Ok(json!({ "functions": functions }))
}

fn worker_of_type(world: &World, kind: &TriggerType) -> String {
    match kind.provider {
        Provider::Engine => builtin::worker_of_type(&kind.form.id).to_owned(),
        Provider::Worker(id) => world.name_of(id).to_owned(),
    }
}

fn type_summary(world: &World, key: &Key, kind: &TriggerType) -> Value {
    json!({ "id": key.1, "namespace": key.0, "worker_name": worker_of_type(world, kind),
        "description": kind.form.description })
}

pub(super) fn list_types(world: &World, filter: &Filter) -> Value {
    let mut found: Vec<(&Key, &TriggerType)> = world
        .types
        .iter()
        .filter(|(key, kind)| {
            filter.takes_id(&key.1)
                && filter.takes_worker(&worker_of_type(world, kind))
                && (filter.include_internal == Some(true) || !key.1.starts_with("engine::"))
        })
        .collect();
    found.sort_by(|a, b| (&a.0.1, &a.0.0).cmp(&(&b.0.1, &b.0.0)));
    let triggers: Vec<Value> = found.into_iter().map(|(key, kind)| type_summary(world, key, kind)).collect();
    json!({ "triggers": triggers })
}

fn type_detail(world: &World, key: &Key, kind: &TriggerType) -> Value {
    let mut detail = type_summary(world, key, kind);
    detail["instance_count"] =
        live_binds(world).filter(|bind| bind.served_by.as_ref() == Some(key)).count().into();
    for (name, schema) in [
        ("configuration_schema", &kind.form.trigger_request_format),
        ("request_schema", &kind.form.call_request_format),
    ] {
        if let Some(schema) = schema {
            detail[name] = schema.clone();
        }
    }
    detail
}

fn type_info(world: &World, filter: &Filter) -> Result<Value, ErrorBody> {
    let Some(id) = &filter.id else {
        return Err(ErrorBody::new("INVALID_ARGUMENTS", "missing field `id`"));
    };
    let key = (filter.namespace().to_owned(), id.clone());
    world.types.get(&key).map(|kind| type_detail(world, &key, kind)).ok_or_else(|| {
        let message = format!("Trigger type '{id}' is not registered in namespace '{}'.", key.0);
        ErrorBody::new("NOT_FOUND", message)
    })
}

fn live_binds(world: &World) -> impl Iterator<Item = &Bind> {
    world.binds.values().filter(|bind| bind.served_by.is_some())
}

fn target_of(bind: &Bind) -> Key {
    let namespace = bind.form.namespace.as_deref().unwrap_or(DEFAULT);
    (namespace.to_owned(), bind.form.function_id.clone())
}

/// The worker a bind is listed under: the target's, or what its id begins with while nobody serves it.
fn worker_of_bind(world: &World, bind: &Bind) -> String {
    world.functions.get(&target_of(bind)).map_or_else(
        || bind.form.function_id.split("::").next().unwrap_or_default().to_owned(),
        |function| worker_of(world, function),
    )
}

fn bind_summary(world: &World, bind: &Bind) -> Value {
    json!({ "id": bind.form.id, "trigger_type": bind.form.trigger_type, "function_id": bind.form.function_id,
        "worker_name": worker_of_bind(world, bind), "config": bind.form.config,
        "config_summary": bind.form.config.to_string() })
}

pub(super) fn list_binds(world: &World, filter: &Filter) -> Value {
    let wanted = |bind: &&Bind| {
        let form = &bind.form;
        filter.takes_id(&form.id)
            && filter.takes_worker(&worker_of_bind(world, bind))
            && filter.trigger_type.as_ref().is_none_or(|kind| *kind == form.trigger_type)
            && filter.function_id.as_ref().is_none_or(|id| *id == form.function_id)
    };
    let binds: Vec<Value> = live_binds(world).filter(wanted).map(|bind| bind_summary(world, bind)).collect();
    json!({ "registered_triggers": binds })
}

fn bind_info(world: &World, filter: &Filter) -> Result<Value, ErrorBody> {
    let Some(id) = &filter.id else {
        return Err(ErrorBody::new("INVALID_ARGUMENTS", "missing field `id`"));
    };
    let found = world.binds.get(id).and_then(|bind| Some((bind, bind.served_by.as_ref()?)));
    let Some((bind, type_key)) = found else {
        return Err(ErrorBody::new("NOT_FOUND", format!("Registered trigger '{id}' was not found.")));
    };
    let mut info = bind_summary(world, bind);
    // The summary is for lists only.
    info.as_object_mut().and_then(|info| info.remove("config_summary"));
    if let Some(metadata) = &bind.form.metadata {
        info["metadata"] = metadata.clone();
    }
    let target = target_of(bind);
    info["trigger"] =
        world.types.get(type_key).map_or(Value::Null, |kind| type_detail(world, type_key, kind));
    info["function"] = world
        .functions
        .get(&target)
        .map_or(Value::Null, |function| function_detail(world, &target, function));
    Ok(info)
}
