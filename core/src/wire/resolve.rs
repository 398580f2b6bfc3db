//! A person's decision on a hold: `approval::resolve` (contract §3).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::wire::error::{optional_word, word};

/// Decides a call that waits.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct ResolveRequest {
    /// The session that the call belongs to.
    pub session_id: String,
    /// The call that waits.
    pub function_call_id: String,
    /// The decision.
    #[serde(deserialize_with = "word")]
    pub decision: Decision,
    /// What the model is told on deny; if left out, that an operator rejected the call.
    #[serde(default)]
    pub reason: Option<String>,
    /// How long an allowed filesystem access lasts; `once` if left out. Means nothing on other records or on deny.
    #[serde(default, deserialize_with = "optional_word")]
    pub access_duration: Option<AccessDuration>,
    /// The digest that the record showed: the decision counts only for that hold. An addition to the published request.
    #[serde(default)]
    #[schemars(skip)]
    pub digest: Option<String>,
    /// The older word for `access_duration`, which outranks it. A field of its own and not an alias, because a caller
    /// that serves both generations sends both.
    #[serde(default, deserialize_with = "optional_word")]
    #[schemars(skip)]
    grant_scope: Option<AccessDuration>,
}

impl ResolveRequest {
    /// How long the access lasts, in whichever word it was given; `None` if in neither.
    pub fn duration(&self) -> Option<AccessDuration> {
        self.access_duration.or(self.grant_scope)
    }

    /// The operator's own reason; an empty one is none.
    pub fn own_reason(&self) -> Option<&str> {
        self.reason.as_deref().filter(|reason| !reason.is_empty())
    }
}

/// Whether a held call may go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "ResolveDecision")]
pub enum Decision {
    /// the call runs.
    Allow,
    /// the model is told that it may not.
    Deny,
}

/// How long an allowed filesystem access lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AccessDuration {
    /// For this one run of the call.
    Once,
    /// Until the session ends.
    Session,
    /// Until the session ends, and for the deployment: the root joins the shell worker's `fs.host_roots`, if that
    /// works.
    Always,
}

/// What came of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResolveResponse {
    /// True if this decision took effect; false if nothing of that name was waiting for one.
    pub resolved: bool,
    /// Whether the turn goes on, as the harness told it. False while other calls of the turn still wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn_resumed: Option<bool>,
}

impl ResolveResponse {
    /// Nothing was waiting for this decision.
    pub const NOTHING_WAITED: Self = Self { resolved: false, turn_resumed: None };
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::{Value, json};

    use super::*;
    use crate::wire::error::decode_value;

    fn request(extra: &Value) -> ResolveRequest {
        let mut request = json!({"session_id": "s", "function_call_id": "c", "decision": "allow"});
        request.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        decode_value(&request).unwrap()
    }

    #[test]
    fn the_duration_is_read_in_either_word_and_the_contract_s_wins() {
        let rows = [
            (json!({}), None),
            (json!({"access_duration": null}), None),
            (json!({"access_duration": "session"}), Some(AccessDuration::Session)),
            (json!({"grant_scope": "always"}), Some(AccessDuration::Always)),
            (json!({"grant_scope": "always", "access_duration": "once"}), Some(AccessDuration::Once)),
        ];
        for (extra, expected) in rows {
            assert_eq!(request(&extra).duration(), expected, "{extra}");
        }
    }

    #[test]
    fn an_empty_reason_is_none() {
        assert_eq!(request(&json!({"reason": ""})).own_reason(), None);
        assert_eq!(request(&json!({"reason": null})).own_reason(), None);
        assert_eq!(request(&json!({"reason": "not on prod"})).own_reason(), Some("not on prod"));
    }

    #[test]
    fn a_decision_is_an_exact_word() {
        for decision in [json!("Allow"), json!("approve"), json!({"allow": null}), json!(true), json!(null)] {
            let request = json!({"session_id": "s", "function_call_id": "c", "decision": decision});
            assert_eq!(decode_value::<ResolveRequest>(&request).unwrap_err().field, "decision");
        }
    }

    #[test]
    fn turn_resumed_is_left_out_when_it_is_not_known() {
        let told =
            |turn_resumed| serde_json::to_value(ResolveResponse { resolved: true, turn_resumed }).unwrap();
        assert_eq!(told(None), json!({"resolved": true}));
        assert_eq!(told(Some(false)), json!({"resolved": true, "turn_resumed": false}));
    }
}
