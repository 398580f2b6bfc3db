//! What our two trigger types accept as a binding and send as an event (contract §7).
//!
//! A binding is read strictly: a misspelt filter that were ignored would deliver everybody's events to one tenant.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::hold;
use crate::wire::error::{InvalidPayload, decode_value, word};
use crate::wire::record::PendingApprovalRecord;

/// Which events a binding wants; both trigger types take the same. Nothing set means all.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BindingConfig {
    /// Only events of this session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Only events of sessions whose metadata has every key given here with an equal value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

impl BindingConfig {
    /// Reads a binding's `config`; absent and `null` match everything.
    ///
    /// # Errors
    /// Anything that is not understood, named by its field.
    pub fn read(config: Option<&Value>) -> Result<Self, InvalidPayload> {
        read_binding(config)
    }
}

/// Reads a binding's `config` of any kind; absent and `null` set nothing.
pub(super) fn read_binding<T: Default + DeserializeOwned>(
    config: Option<&Value>,
) -> Result<T, InvalidPayload> {
    match config {
        None | Some(Value::Null) => Ok(T::default()),
        Some(config) => decode_value(config).map_err(|invalid| match invalid.field.as_str() {
            "payload" => InvalidPayload::new("config", invalid.what),
            _ => invalid,
        }),
    }
}

/// The payload of `approval::pending-created`: the record, and that it waits.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PendingCreatedEvent {
    /// What waits.
    #[serde(flatten)]
    pub record: PendingApprovalRecord,
    status: &'static str,
}

impl PendingCreatedEvent {
    /// The event of `record`'s hold.
    pub const fn new(record: PendingApprovalRecord) -> Self {
        Self { record, status: "pending" }
    }
}

/// How a hold ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// A person let the call run.
    Allow,
    /// A person refused it.
    Deny,
    /// Nobody decided: the turn or session ended, or a newer hold took its place.
    Aborted,
}

impl Outcome {
    /// The word that crosses the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::Aborted => "aborted",
        }
    }
}

impl From<hold::Outcome> for Outcome {
    fn from(outcome: hold::Outcome) -> Self {
        match outcome {
            hold::Outcome::Allow => Self::Allow,
            hold::Outcome::Deny => Self::Deny,
            hold::Outcome::Aborted => Self::Aborted,
        }
    }
}

/// The payload of `approval::pending-resolved`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PendingResolvedEvent {
    /// The session that the call belongs to.
    pub session_id: String,
    /// The turn that waited.
    pub turn_id: String,
    /// The call that waited.
    pub function_call_id: String,
    /// The function that was to run.
    pub function_id: String,
    /// How it ended.
    #[serde(deserialize_with = "word")]
    pub outcome: Outcome,
    /// The operator's own words, on deny only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The session's metadata as the record had it; bindings filter on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_metadata: Option<Map<String, Value>>,
    /// When it ended, in milliseconds since the epoch.
    pub resolved_at: i64,
    /// The digest that the record showed. An addition to the published payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The same for an event that had to be sent twice. An addition to the published payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
}

impl PendingResolvedEvent {
    /// The end of `record`'s hold, at `resolved_at` milliseconds since the epoch.
    pub fn of(record: &PendingApprovalRecord, outcome: Outcome, resolved_at: i64) -> Self {
        Self {
            session_id: record.session_id.clone(),
            turn_id: record.turn_id.clone(),
            function_call_id: record.function_call_id.clone(),
            function_id: record.function_id.clone(),
            outcome,
            reason: None,
            session_metadata: record.session_metadata.clone(),
            resolved_at,
            digest: record.digest.clone(),
            event_id: None,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;
    use crate::wire::record::StoredRow;

    fn record() -> PendingApprovalRecord {
        StoredRow::read(&json!({"session_id": "s_1", "turn_id": "t_1", "function_call_id": "c_1",
            "function_id": "shell::exec", "pending_at": 1000, "session_metadata": {"owner": "u_1"}}))
        .live()
        .unwrap()
    }

    #[test]
    fn an_absent_or_empty_binding_matches_everything() {
        for config in
            [None, Some(json!(null)), Some(json!({})), Some(json!({"session_id": null, "metadata": null}))]
        {
            assert_eq!(BindingConfig::read(config.as_ref()).unwrap(), BindingConfig::default());
        }
    }

    #[test]
    fn a_binding_that_is_not_understood_is_refused_by_its_field() {
        let rows = [
            (json!({"sesion_id": "x"}), "sesion_id"),
            (json!({"metdata": {"tenant": "acme"}}), "metdata"),
            (json!({"session_id": 5}), "session_id"),
            (json!({"metadata": []}), "metadata"),
            (json!([]), "config"),
            (json!("s_1"), "config"),
        ];
        for (config, field) in rows {
            let refused = BindingConfig::read(Some(&config)).unwrap_err();
            assert_eq!(refused.field, field, "{refused}");
        }
    }

    #[test]
    fn a_created_event_is_the_record_and_its_status() {
        let event = serde_json::to_value(PendingCreatedEvent::new(record())).unwrap();

        let mut expected = serde_json::to_value(record()).unwrap();
        expected["status"] = json!("pending");
        assert_eq!(event, expected);
    }

    #[test]
    fn a_resolved_event_has_the_record_s_ids_and_leaves_out_what_is_absent() {
        let event = PendingResolvedEvent::of(&record(), Outcome::Aborted, 5);

        let told = serde_json::to_value(&event).unwrap();

        assert_eq!(
            told,
            json!({"session_id": "s_1", "turn_id": "t_1", "function_call_id": "c_1", "function_id": "shell::exec",
                "outcome": "aborted", "session_metadata": {"owner": "u_1"}, "resolved_at": 5})
        );
        assert_eq!(serde_json::from_value::<PendingResolvedEvent>(told).unwrap(), event);
    }
}
