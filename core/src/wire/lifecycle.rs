//! What tells us that a session or a turn ended or that the configuration changed (contract §8).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A session is gone.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct SessionDeletedEvent {
    /// The session that is gone.
    pub session_id: String,
}

/// A turn is over, whatever its payload says about the session.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct TurnCompletedEvent {
    /// The turn that is over.
    pub turn_id: String,
    /// The session that it belonged to, when that is told. Turn ids are not promised to differ between sessions.
    #[serde(default)]
    #[schemars(skip)]
    pub session_id: Option<String>,
}

/// The configuration may have changed. What the notice says is not used: the value is fetched again.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
pub struct OnConfigChangeEvent {
    /// The entry that is said to have changed.
    #[serde(default)]
    pub id: Option<String>,
}

/// A row of one of the gate's own scopes has changed.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
pub struct StateChangedEvent {
    /// The scope.
    pub scope: String,
    /// The key in it.
    pub key: String,
    /// What the row is said to hold. Events come in any order, so this is a hint and never the value.
    #[serde(default)]
    pub new_value: serde_json::Value,
}

/// The notice was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EventAck {
    /// Whether everything was done at once. What was not is done behind.
    pub ok: bool,
}

/// The notice was taken; whether the new value is in force is for the log to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OnConfigChangeResponse {
    /// Always true.
    pub ok: bool,
}

impl OnConfigChangeResponse {
    /// The only answer.
    pub const OK: Self = Self { ok: true };
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;
    use crate::wire::error::decode_value;

    #[test]
    fn a_turn_is_read_with_and_without_its_session() {
        let payload = json!({"turn_id": "t_1", "status": "completed", "terminal": false, "timestamp": 1});
        assert_eq!(decode_value::<TurnCompletedEvent>(&payload).unwrap().session_id, None);
        let payload = json!({"turn_id": "t_1", "session_id": "s_1"});
        assert_eq!(decode_value::<TurnCompletedEvent>(&payload).unwrap().session_id.as_deref(), Some("s_1"));
    }

    #[test]
    fn a_session_that_is_told_but_unreadable_does_not_widen_the_purge() {
        let payload = json!({"turn_id": "t_1", "session_id": 5});
        assert_eq!(decode_value::<TurnCompletedEvent>(&payload).unwrap_err().field, "session_id");
    }

    #[test]
    fn both_notices_are_acknowledged_with_ok() {
        assert_eq!(serde_json::to_value(EventAck { ok: true }).unwrap(), json!({"ok": true}));
        assert_eq!(serde_json::to_value(OnConfigChangeResponse::OK).unwrap(), json!({"ok": true}));
    }
}
