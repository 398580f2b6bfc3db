//! Resolving a parked call: running it after all, or delivering a result in its place.
//!
//! An execute runs the target inside the request, then the whole post-trigger chain, under the session's lock. So the
//! answer can take as long as the target does, and hooks are asked while the resolver still waits. The non-obvious
//! fact: a resolve that finds nothing to resolve is not an error; it answers `resolved: false`.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use super::frame::ErrorBody;
use super::harness;
use super::harness_hooks::{self, ChainEnd, Context};
use super::hub::Hub;
use super::target;
use super::turns::CallState;

#[derive(Deserialize, Default)]
struct Scope {
    #[serde(default)]
    grants: Vec<String>,
}

#[derive(Deserialize)]
pub(super) struct ResolveInput {
    session_id: String,
    turn_id: String,
    function_call_id: String,
    action: Option<String>,
    fs_scope: Option<Scope>,
    content: Option<Value>,
    #[serde(default)]
    is_error: bool,
    #[serde(default)]
    details: Value,
}

/// A parked call taken up: what the hooks are told, its arguments, who parked it.
struct Taken {
    about: Context,
    arguments: Value,
    held_by: String,
}

/// Resolves a parked call.
pub(super) async fn resolve(hub: &Arc<Hub>, form: ResolveInput) -> Result<Value, ErrorBody> {
    let execute = match form.action.as_deref() {
        None | Some("deliver") => false,
        Some("execute") => true,
        Some(other) => {
            let message = format!("unknown resolve action `{other}`");
            return Err(ErrorBody::new("invocation_failed", message));
        }
    };
    let lock = hub.session_lock(&form.session_id);
    let _session = lock.lock().await;
    let Some(taken) = take(hub, &form) else {
        return Ok(json!({ "resolved": false, "turn_resumed": false }));
    };
    let end = if execute {
        let once = form.fs_scope.unwrap_or_default().grants;
        run(hub, &taken, &once).await
    } else {
        ChainEnd::Passed(delivered(&taken.about, form.content, form.is_error, &form.details))
    };
    Ok(json!({ "resolved": true, "turn_resumed": settle(hub, &taken.about, end) }))
}

/// Takes the call up if it is parked in the session's running turn.
fn take(hub: &Hub, form: &ResolveInput) -> Option<Taken> {
    let mut turns = hub.turns();
    let turn = turns.running(&form.session_id, &form.turn_id)?;
    let (step, depth, metadata) = (turn.step, turn.depth, turn.metadata.clone());
    let call = turn.calls.get_mut(&form.function_call_id)?;
    let CallState::Pending { held_by } = call.state.clone() else { return None };
    call.state = CallState::Triggered;
    let about = Context {
        session_id: form.session_id.clone(),
        turn_id: form.turn_id.clone(),
        step,
        depth,
        metadata,
        call_id: form.function_call_id.clone(),
        function_id: call.function_id.clone(),
    };
    Some(Taken { about, arguments: call.arguments.clone(), held_by })
}

/// The pre-trigger hooks behind the holder, the target, the post-trigger hooks.
async fn run(hub: &Arc<Hub>, taken: &Taken, once: &[String]) -> ChainEnd {
    let Taken { about, arguments, held_by } = taken;
    let hooks = harness_hooks::chain(hub, harness_hooks::PRE_TRIGGER, &about.function_id);
    let rest = harness_hooks::after(hooks, held_by);
    match harness_hooks::ask_before(hub, &rest, about, arguments.clone()).await {
        ChainEnd::Passed(arguments) => {
            harness::remember_arguments(hub, about, &arguments);
            target::run(hub, about, &arguments, once).await
        }
        other => other,
    }
}

fn delivered(about: &Context, content: Option<Value>, is_error: bool, details: &Value) -> Value {
    let mut result = about.result("", is_error, details);
    if let Some(content) = content {
        result["content"] = content;
    }
    result
}

/// Writes down how it ended. Says whether the turn goes on, which it does when nothing is parked any more.
fn settle(hub: &Hub, about: &Context, end: ChainEnd) -> bool {
    let mut turns = hub.turns();
    let result = match end {
        ChainEnd::Held { by } => {
            turns.mark(&about.session_id, &about.turn_id, &about.call_id, CallState::Pending { held_by: by });
            return false;
        }
        ChainEnd::Denied { reason } => about.result(&reason, true, &json!({ "error": "hook_denied" })),
        ChainEnd::Passed(result) => result,
    };
    turns.settle(&about.session_id, &about.turn_id, &about.call_id, &result);
    turns.running(&about.session_id, &about.turn_id).is_some_and(|turn| turn.pending().is_empty())
}
