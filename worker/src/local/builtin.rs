//! The table of built-in functions and trigger types, and who runs them.
//!
//! The one place that knows which ids exist without a worker. It must not know how any of them works.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::frame::{ErrorBody, FunctionForm, Outcome, TypeForm};
use super::hub::{Caller, Hub};
use super::triggers::{Provider, TriggerType};
use super::world::{DEFAULT, Executor, Function, World};
use super::{configuration, filesystem, functions, harness, harness_hooks, session_manager, state};

/// Which module runs a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Engine,
    State,
    Configuration,
    Harness,
    Shell,
    Sessions,
}

/// A function that exists without a worker.
#[derive(Debug)]
pub(super) struct Builtin {
    pub(super) id: &'static str,
    /// The worker it is listed under.
    pub(super) worker: &'static str,
    family: Family,
}

/// Says why a bind's config cannot be taken, if so.
type Check = fn(&Value) -> Result<(), String>;

/// A trigger type that exists without a worker.
struct BuiltinType {
    id: &'static str,
    worker: &'static str,
    description: &'static str,
    family: Family,
    /// Whether a bind's config can be read; absent = any config is taken.
    accepts: Option<Check>,
}

macro_rules! functions {
    ($($family:ident $worker:literal: $($id:literal)+;)+) => {
        &[$($(Builtin { id: $id, worker: $worker, family: Family::$family },)+)+]
    };
}

static FUNCTIONS: &[Builtin] = functions! {
    Engine "iii-engine-functions":
        "engine::functions::list" "engine::functions::info" "engine::triggers::list" "engine::triggers::info"
        "engine::registered-triggers::list" "engine::registered-triggers::info" "engine::workers::list"
        "engine::workers::info" "engine::workers::register" "engine::register_trigger"
        "engine::unregister_trigger" "engine::channels::create";
    State "iii-state":
        "state::set" "state::get" "state::delete" "state::list" "state::list_groups" "state::update";
    Configuration "configuration":
        "configuration::register" "configuration::get" "configuration::set" "configuration::schema"
        "configuration::list";
    Harness "harness":
        "harness::function::trigger" "harness::function::resolve" "harness::function::result"
        "harness::filesystem::grant" "harness::filesystem::grants" "harness::filesystem::revoke"
        "harness::filesystem::info" "harness::status" "harness::stop" "harness::turn::end";
    Shell "shell": "shell::fs::read" "shell::exec";
    Sessions "session-manager": "session::get" "session::create" "session::delete";
};

static TYPES: &[BuiltinType] = &[
    BuiltinType {
        id: "state",
        worker: "iii-state",
        description: "fires when a value in the state store is created, updated or deleted",
        family: Family::State,
        accepts: Some(state::accepts),
    },
    BuiltinType {
        id: "configuration",
        worker: "configuration",
        description: "fires when a configuration entry is registered, updated or deleted",
        family: Family::Configuration,
        accepts: Some(configuration::accepts),
    },
    BuiltinType {
        id: "engine::workers-available",
        worker: "engine",
        description: "fires when a worker connects, announces itself or disconnects",
        family: Family::Engine,
        accepts: None,
    },
    BuiltinType {
        id: "engine::functions-available",
        worker: "engine",
        description: "fires when the set of functions has changed",
        family: Family::Engine,
        accepts: None,
    },
    BuiltinType {
        id: harness_hooks::PRE_TRIGGER,
        worker: "harness",
        description: "asked before a function call runs",
        family: Family::Harness,
        accepts: Some(harness_hooks::accepts_pre),
    },
    BuiltinType {
        id: harness_hooks::POST_TRIGGER,
        worker: "harness",
        description: "asked after a function call ran",
        family: Family::Harness,
        accepts: Some(harness_hooks::accepts_post),
    },
    BuiltinType {
        id: harness::TURN_COMPLETED,
        worker: "harness",
        description: "fires when a turn is over",
        family: Family::Harness,
        accepts: Some(harness::accepts_turn_completed),
    },
    BuiltinType {
        id: session_manager::DELETED,
        worker: "session-manager",
        description: "fires when a session is deleted",
        family: Family::Sessions,
        accepts: Some(session_manager::accepts_deleted),
    },
];

/// A world without connections.
pub(super) fn world(harness: bool, session_manager: bool) -> World {
    let wanted = |family: Family| match family {
        Family::Harness | Family::Shell => harness,
        Family::Sessions => session_manager,
        _ => true,
    };
    let mut world = World::default();
    for function in FUNCTIONS.iter().filter(|function| wanted(function.family)) {
        let form = FunctionForm {
            id: function.id.to_owned(),
            description: Some(format!("built-in function of {}", function.worker)),
            request_format: None,
            response_format: None,
            metadata: None,
        };
        let executor = Executor::BuiltIn(function);
        world.functions.insert((DEFAULT.to_owned(), function.id.to_owned()), Function { executor, form });
    }
    for kind in TYPES.iter().filter(|kind| wanted(kind.family)) {
        let form = TypeForm {
            id: kind.id.to_owned(),
            description: kind.description.to_owned(),
            trigger_request_format: None,
            call_request_format: None,
            namespace: None,
        };
        let provided = TriggerType { provider: Provider::Engine, form };
        world.types.insert((DEFAULT.to_owned(), kind.id.to_owned()), provided);
    }
    world
}

/// How many functions workers have registered.
pub(super) fn of_workers(world: &World) -> usize {
    world.functions.values().filter(|function| matches!(function.executor, Executor::Worker(_))).count()
}

/// The worker a built-in type is listed under.
pub(super) fn worker_of_type(id: &str) -> &'static str {
    TYPES.iter().find(|kind| kind.id == id).map_or("engine", |kind| kind.worker)
}

/// Whether a built-in type takes a config; the message says why not.
pub(super) fn accepts(trigger_type: &str, config: &Value) -> Result<(), String> {
    let kind = TYPES.iter().find(|kind| kind.id == trigger_type);
    kind.and_then(|kind| kind.accepts).map_or(Ok(()), |accepts| accepts(config))
}

/// Runs a built-in function.
pub(super) async fn run(hub: &Arc<Hub>, function: &'static Builtin, caller: Caller, data: Value) -> Outcome {
    match function.family {
        Family::Engine => functions::run(hub, function.id, caller, data).await,
        Family::State => state::run(hub, function.id, data),
        Family::Configuration => configuration::run(hub, function.id, data),
        Family::Harness if function.id.starts_with("harness::filesystem::") => {
            filesystem::run(hub, function.id, data).await
        }
        Family::Harness => harness::run(hub, function.id, data).await,
        Family::Shell => filesystem::shell(hub, function.id, &data),
        Family::Sessions => session_manager::run(hub, function.id, data),
    }
}

/// Reads the input of a built-in function.
pub(super) fn input<T: DeserializeOwned>(function_id: &str, data: Value) -> Result<T, ErrorBody> {
    serde_json::from_value(data).map_err(|error| {
        let message = format!("Failed to deserialize input for {function_id}: {error}");
        ErrorBody::new("deserialization_error", message)
    })
}
