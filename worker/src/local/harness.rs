//! The stand-in harness: pretend function calls of an agent, and the turns they belong to.
//!
//! `harness::function::trigger`, `harness::function::result` and `harness::turn::end` are inventions for trying out;
//! the rest answers as the real harness does. It must not know what any hook decides by. The non-obvious fact: a
//! turn with parked calls stays open until each is resolved or the turn is stopped; nothing expires.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::builtin::input;
use super::clock;
use super::frame::{ErrorBody, Outcome};
use super::harness_hooks::{self, ChainEnd, Context};
use super::hub::{Caller, Hub};
use super::release;
use super::target;
use super::triggers::object_or_empty;
use super::turns::{CallRecord, CallState, Turn};

/// The type that fires when a turn is over.
pub(super) const TURN_COMPLETED: &str = "harness::turn-completed";

#[derive(Deserialize)]
struct CallInput {
    id: Option<String>,
    function_id: String,
    #[serde(default = "no_arguments")]
    arguments: Value,
}

fn no_arguments() -> Value {
    json!({})
}

#[derive(Deserialize)]
struct TriggerInput {
    session_id: String,
    turn_id: Option<String>,
    call: CallInput,
    depth: Option<u64>,
    metadata: Option<Value>,
    /// The call that spawned this session, for sub-agents.
    parent: Option<Value>,
    /// Asks the hooks again although the call is parked, as after a crash of the real harness.
    #[serde(default)]
    redeliver: bool,
}

#[derive(Deserialize)]
struct SessionInput {
    session_id: String,
}

#[derive(Deserialize)]
struct ResultInput {
    session_id: String,
    function_call_id: String,
}

#[derive(Deserialize)]
struct EndInput {
    session_id: String,
    status: Option<String>,
    reason: Option<String>,
}

/// Which turns a bind wants to hear of.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TurnCompletedConfig {
    session_id: Option<String>,
    parent_session_id: Option<String>,
}

/// Whether a bind's config can be read.
pub(super) fn accepts_turn_completed(config: &Value) -> Result<(), String> {
    TurnCompletedConfig::deserialize(object_or_empty(config))
        .map(drop)
        .map_err(|error| format!("invalid turn-completed config: {error}"))
}

/// Runs one of the stand-in's functions.
pub(super) async fn run(hub: &Arc<Hub>, function_id: &str, data: Value) -> Outcome {
    match function_id {
        "harness::function::trigger" => Ok(Some(trigger(hub, input(function_id, data)?).await)),
        "harness::function::resolve" => release::resolve(hub, input(function_id, data)?).await.map(Some),
        "harness::function::result" => {
            let ResultInput { session_id, function_call_id } = input(function_id, data)?;
            Ok(Some(result_of(hub, &session_id, &function_call_id)))
        }
        "harness::status" => {
            let SessionInput { session_id } = input(function_id, data)?;
            Ok(Some(hub.turns().by_session.get(&session_id).map_or(Value::Null, Turn::status)))
        }
        "harness::stop" => {
            let SessionInput { session_id } = input(function_id, data)?;
            Ok(Some(json!({ "stopped": end(hub, &session_id, "cancelled", None) })))
        }
        "harness::turn::end" => {
            let EndInput { session_id, status, reason } = input(function_id, data)?;
            let status = status.unwrap_or_else(|| "completed".to_owned());
            if !["completed", "cancelled", "failed"].contains(&status.as_str()) {
                let message = format!("unknown turn status `{status}`");
                return Err(ErrorBody::new("invocation_failed", message));
            }
            Ok(Some(json!({ "ended": end(hub, &session_id, &status, reason.as_deref()) })))
        }
        _ => Ok(None),
    }
}

fn result_of(hub: &Hub, session_id: &str, call_id: &str) -> Value {
    let turns = hub.turns();
    let Some(call) = turns.by_session.get(session_id).and_then(|turn| turn.calls.get(call_id)) else {
        return Value::Null;
    };
    let (status, held_by) = match &call.state {
        CallState::Triggered => ("triggered", None),
        CallState::Pending { held_by } => ("pending", Some(held_by)),
        CallState::Done => ("done", None),
    };
    json!({ "status": status, "held_by": held_by, "function_id": call.function_id, "result": call.result })
}

/// A pretend function call: the hooks before it, the target, the hooks after it.
async fn trigger(hub: &Arc<Hub>, form: TriggerInput) -> Value {
    let redeliver = form.redeliver;
    let (about, arguments, parked_by) = open(hub, form);
    let answer = |status: &str| json!({ "status": status, "function_call_id": about.call_id, "turn_id": about.turn_id });
    if let Some(held_by) = parked_by.filter(|_| !redeliver) {
        let mut parked = answer("pending");
        parked["held_by"] = held_by.into();
        return parked;
    }
    let hooks = harness_hooks::chain(hub, harness_hooks::PRE_TRIGGER, &about.function_id);
    let outcome = match harness_hooks::ask_before(hub, &hooks, &about, arguments).await {
        ChainEnd::Passed(arguments) => {
            remember_arguments(hub, &about, &arguments);
            target::run(hub, &about, &arguments, &[]).await
        }
        other => other,
    };
    match outcome {
        ChainEnd::Passed(result) => {
            hub.turns().settle(&about.session_id, &about.turn_id, &about.call_id, &result);
            let mut done = answer("done");
            done["result"] = result;
            done
        }
        ChainEnd::Denied { reason } => {
            let result = about.result(&reason, true, &json!({ "error": "hook_denied" }));
            hub.turns().settle(&about.session_id, &about.turn_id, &about.call_id, &result);
            let mut denied = answer("denied");
            denied["reason"] = reason.into();
            denied["result"] = result;
            denied
        }
        ChainEnd::Held { by } => {
            let state = CallState::Pending { held_by: by.clone() };
            hub.turns().mark(&about.session_id, &about.turn_id, &about.call_id, state);
            let mut pending = answer("pending");
            pending["held_by"] = by.into();
            pending
        }
    }
}

/// Finds or opens the turn, notes the call, and says what the hooks are to be told. A call that is parked already
/// comes back with its holder and is left as it is.
fn open(hub: &Hub, form: TriggerInput) -> (Context, Value, Option<String>) {
    let call_id = form.call.id.unwrap_or_else(|| format!("call_{}", Uuid::new_v4().simple()));
    let mut turns = hub.turns();
    let current = turns.by_session.get(&form.session_id).filter(|turn| turn.ended.is_none());
    let goes_on = current.is_some_and(|turn| form.turn_id.as_ref().is_none_or(|wanted| *wanted == turn.id));
    if !goes_on {
        let turn = Turn {
            id: form.turn_id.unwrap_or_else(|| format!("t_{}", Uuid::new_v4().simple())),
            step: 0,
            depth: 0,
            metadata: None,
            parent: None,
            ended: None,
            calls: std::collections::BTreeMap::new(),
        };
        turns.by_session.insert(form.session_id.clone(), turn);
    }
    let Some(turn) = turns.by_session.get_mut(&form.session_id) else {
        unreachable!("the turn was found or inserted just above, under one lock")
    };
    turn.depth = form.depth.unwrap_or(turn.depth);
    turn.metadata = form.metadata.or(turn.metadata.take());
    turn.parent = form.parent.or(turn.parent.take());
    let parked_by = turn.calls.get(&call_id).and_then(|call| match &call.state {
        CallState::Pending { held_by } => Some(held_by.clone()),
        _ => None,
    });
    if parked_by.is_none() {
        turn.step += 1;
        let record = CallRecord {
            function_id: form.call.function_id.clone(),
            arguments: form.call.arguments.clone(),
            state: CallState::Triggered,
            result: None,
        };
        turn.calls.insert(call_id.clone(), record);
    }
    let about = Context {
        session_id: form.session_id,
        turn_id: turn.id.clone(),
        step: turn.step,
        depth: turn.depth,
        metadata: turn.metadata.clone(),
        call_id,
        function_id: form.call.function_id,
    };
    (about, form.call.arguments, parked_by)
}

/// Keeps the arguments as the hooks left them, for a later release.
pub(super) fn remember_arguments(hub: &Hub, about: &Context, arguments: &Value) {
    let mut turns = hub.turns();
    let call =
        turns.running(&about.session_id, &about.turn_id).and_then(|turn| turn.calls.get_mut(&about.call_id));
    if let Some(call) = call {
        call.arguments = arguments.clone();
    }
}

/// Ends the turn of a session, and those of the sessions its calls spawned. Says whether there was one to end.
fn end(hub: &Arc<Hub>, session_id: &str, status: &str, reason: Option<&str>) -> bool {
    let ended = {
        let mut turns = hub.turns();
        turns.by_session.get_mut(session_id).filter(|turn| turn.ended.is_none()).map(|turn| {
            turn.ended = Some(status.to_owned());
            turn.clone()
        })
    };
    let Some(turn) = ended else { return false };
    for child in children_of(hub, session_id) {
        end(hub, &child, status, reason);
    }
    let mut payload = json!({ "session_id": session_id, "turn_id": turn.id, "status": status,
        "terminal": true, "timestamp": clock::now_ms() });
    if let Some(reason) = reason {
        payload["reason"] = reason.into();
    }
    let parent_session = parent_session_of(&turn).map(str::to_owned);
    if let Some(parent_session) = &parent_session {
        payload["parent"] = turn.parent.clone().unwrap_or_default();
        payload["parent_session_id"] = parent_session.clone().into();
    }
    let mut binds = hub.world().engine_binds(TURN_COMPLETED);
    binds.retain(|bind| {
        TurnCompletedConfig::deserialize(object_or_empty(&bind.config)).is_ok_and(|wanted| {
            wanted.session_id.is_none_or(|wanted| wanted == session_id)
                && wanted.parent_session_id.is_none_or(|wanted| Some(wanted) == parent_session)
        })
    });
    hub.tell_all(Caller::Harness, binds, &payload);
    true
}

fn parent_session_of(turn: &Turn) -> Option<&str> {
    turn.parent.as_ref()?.get("session_id")?.as_str()
}

fn children_of(hub: &Hub, session_id: &str) -> Vec<String> {
    let turns = hub.turns();
    let spawned = turns.by_session.iter().filter(|(_, turn)| parent_session_of(turn) == Some(session_id));
    spawned.filter(|(_, turn)| turn.ended.is_none()).map(|(id, _)| id.clone()).collect()
}
