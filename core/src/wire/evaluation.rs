//! `approval::evaluate`: what would become of a call, or why one waits; and what a held record remembers of the latter.
//!
//! An addition to the published contract. A hold cannot be judged again, because its arguments are not stored: what is told
//! of it is what was known when it was made.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::policy::Decision;
use crate::wire::error::{InvalidPayload, word};
use crate::wire::explanation::Explanation;
use crate::wire::record::{AccessRequest, PendingApprovalRecord, PendingKind};
use crate::wire::settings::PermissionMode;

/// Asks what would become of a call (`function_id`, `arguments`), or why one waits (`function_call_id`).
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
pub struct EvaluateRequest {
    /// The session that the call belongs to.
    pub session_id: String,
    /// The function that would be called. Either this or `function_call_id`.
    #[serde(default)]
    pub function_id: Option<String>,
    /// The arguments of that call; absent is `null`.
    #[serde(default)]
    pub arguments: Value,
    /// The id of a call that waits in the session.
    #[serde(default)]
    pub function_call_id: Option<String>,
}

/// What is asked about.
#[derive(Debug, Clone, PartialEq)]
pub enum Subject {
    /// A call that could be made.
    Call {
        /// The function.
        function_id: String,
        /// Its arguments.
        arguments: Value,
    },
    /// The call of this id, which waits.
    Hold(String),
}

impl EvaluateRequest {
    /// The one thing that is asked about.
    ///
    /// # Errors
    /// None or both are named, or a hold with arguments.
    pub fn subject(self) -> Result<Subject, InvalidPayload> {
        match (self.function_id, self.function_call_id) {
            (Some(function_id), None) => Ok(Subject::Call { function_id, arguments: self.arguments }),
            (None, Some(call)) if self.arguments.is_null() => Ok(Subject::Hold(call)),
            (None, Some(_)) => Err(InvalidPayload::new("arguments", "a call that waits has its own")),
            (None, None) => Err(InvalidPayload::new("function_id", "missing, as is `function_call_id`")),
            (Some(_), Some(_)) => {
                Err(InvalidPayload::new("function_call_id", "cannot stand beside `function_id`"))
            }
        }
    }
}

/// What the gate would answer, or has answered.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct EvaluateResponse {
    /// What becomes of the call.
    pub verdict: EvaluateVerdict,
    /// What the model would be told. Only with `deny`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why, for a call that could be made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<EvaluateExplanation>,
    /// Why, for a call that waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<Held>,
}

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EvaluateVerdict {
    /// It runs.
    Allow,
    /// It does not run.
    Deny,
    /// It waits for a person, or for a worker that answers in a person's place.
    NeedsApproval,
}

impl From<Decision> for EvaluateVerdict {
    fn from(decision: Decision) -> Self {
        match decision {
            Decision::Continue => Self::Allow,
            Decision::Deny => Self::Deny,
            Decision::Hold => Self::NeedsApproval,
        }
    }
}

/// An explanation with the configuration that it rests on.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct EvaluateExplanation {
    /// The explanation itself.
    #[serde(flatten)]
    pub explanation: Explanation,
    /// Which configuration is in force: `<fetch>-<digest>`, the number of the fetch in this run of the gate and the start of
    /// a digest of the value. Null in lock-down.
    pub configuration_revision: Option<String>,
}

/// A call that waits, without its arguments.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Held {
    /// The function that was to run.
    pub function_id: String,
    /// What the person is asked.
    pub kind: PendingKind,
    /// Since when it waits, in milliseconds since the epoch.
    pub pending_at: i64,
    /// The record's digest; absent on a record that an older worker wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The access that is asked for. It was asked because the call ran into the filesystem jail, not because of any rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_request: Option<AccessRequest>,
    /// Why it was held. Absent on requests for access, and on a record that an older worker wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<HeldBecause>,
}

impl From<PendingApprovalRecord> for Held {
    fn from(record: PendingApprovalRecord) -> Self {
        Self {
            function_id: record.function_id,
            kind: record.kind,
            pending_at: record.pending_at,
            digest: record.digest,
            access_request: record.access_request,
            because: record.held_because,
        }
    }
}

/// Why a call was held, as it was known then. Names only, nothing of the call's arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HeldBecause {
    /// The step that decided: `no_rule` or `locked_down`.
    pub rung: String,
    /// The session's mode.
    #[serde(deserialize_with = "word")]
    pub mode: PermissionMode,
    /// Rules for the function that did not apply, at most five, in order.
    #[serde(default)]
    pub close: Vec<CameClose>,
    /// Which configuration was in force, as in an explanation; absent in lock-down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configuration_revision: Option<String>,
}

/// A rule for the function that did not apply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CameClose {
    /// Position in the list, counted from 0.
    pub index: usize,
    /// The rule's name; its pattern if it has none.
    pub rule_id: String,
    /// What kept it from applying: `mode`, `arguments` or `mode_and_arguments`.
    pub miss: String,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;
    use crate::wire::error::decode_value;

    fn subject(request: &Value) -> Result<Subject, String> {
        let request: EvaluateRequest = decode_value(request).map_err(|invalid| invalid.field)?;
        request.subject().map_err(|invalid| invalid.field)
    }

    #[test]
    fn a_request_names_a_call_or_a_hold_and_never_both() {
        assert_eq!(
            subject(&json!({"session_id": "s", "function_id": "f", "arguments": 7})).unwrap(),
            Subject::Call { function_id: "f".into(), arguments: json!(7) }
        );
        assert_eq!(
            subject(
                &json!({"session_id": "s", "function_id": null, "function_call_id": "c", "arguments": null})
            )
            .unwrap(),
            Subject::Hold("c".into())
        );
        for (request, field) in [
            (json!({"session_id": "s"}), "function_id"),
            (json!({"session_id": "s", "function_id": 5}), "function_id"),
            (json!({"function_id": "f"}), "session_id"),
            (json!({"session_id": "s", "function_id": "f", "function_call_id": "c"}), "function_call_id"),
            (json!({"session_id": "s", "function_call_id": "c", "arguments": {}}), "arguments"),
        ] {
            assert_eq!(subject(&request).unwrap_err(), field);
        }
    }
}
