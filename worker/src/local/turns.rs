//! The stand-in harness's memory: one turn per session and the calls in it. Plain data, pure.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Where a call stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CallState {
    /// On its way: hooks or target.
    Triggered,
    /// Parked by the hook of this function id.
    Pending { held_by: String },
    /// Settled; the result says how.
    Done,
}

/// One pretend function call of an agent.
#[derive(Debug, Clone)]
pub(super) struct CallRecord {
    pub(super) function_id: String,
    /// As rewritten by the hooks so far.
    pub(super) arguments: Value,
    pub(super) state: CallState,
    pub(super) result: Option<Value>,
}

/// The current turn of a session.
#[derive(Debug, Clone)]
pub(super) struct Turn {
    pub(super) id: String,
    pub(super) step: u64,
    pub(super) depth: u64,
    /// The options metadata of the send; absent where it had none.
    pub(super) metadata: Option<Value>,
    /// `{session_id, turn_id, function_call_id}` of the call that spawned this session.
    pub(super) parent: Option<Value>,
    /// How it ended; absent while it runs.
    pub(super) ended: Option<String>,
    pub(super) calls: BTreeMap<String, CallRecord>,
}

impl Turn {
    /// The ids of the calls that are parked.
    pub(super) fn pending(&self) -> Vec<&String> {
        let parked = |call: &CallRecord| matches!(call.state, CallState::Pending { .. });
        self.calls.iter().filter(|(_, call)| parked(call)).map(|(id, _)| id).collect()
    }

    /// What `harness::status` tells.
    pub(super) fn status(&self) -> Value {
        let pending = self.pending();
        let status = match &self.ended {
            Some(ended) => ended.as_str(),
            None if pending.is_empty() => "running",
            None => "awaiting_functions",
        };
        json!({ "turn_id": self.id, "status": status, "step": self.step, "depth": self.depth,
            "pending_function_calls": pending })
    }
}

/// All turns of the stand-in harness, by session.
#[derive(Debug, Default)]
pub struct Turns {
    pub(super) by_session: BTreeMap<String, Turn>,
}

impl Turns {
    /// The running turn of a session, if it is the one named.
    pub(super) fn running(&mut self, session_id: &str, turn_id: &str) -> Option<&mut Turn> {
        self.by_session.get_mut(session_id).filter(|turn| turn.id == turn_id && turn.ended.is_none())
    }

    /// Changes where a call stands, if its turn still runs. Says whether it did.
    pub(super) fn mark(&mut self, session_id: &str, turn_id: &str, call_id: &str, state: CallState) -> bool {
        let call = self.running(session_id, turn_id).and_then(|turn| turn.calls.get_mut(call_id));
        call.map(|call| call.state = state).is_some()
    }

    /// Settles a call with its result.
    pub(super) fn settle(&mut self, session_id: &str, turn_id: &str, call_id: &str, result: &Value) {
        let turn = self.by_session.get_mut(session_id).filter(|turn| turn.id == turn_id);
        if let Some(call) = turn.and_then(|turn| turn.calls.get_mut(call_id)) {
            call.state = CallState::Done;
            call.result = Some(result.clone());
        }
    }
}
