//! The denial envelope, and the words that a model or an operator reads with it (contract §3). Only a person's denial is sent
//! with an envelope: to the harness's hook a denial is its reason.
//!
//! A reason is written for the one who has to act on it: it says what was refused, by whom, and that asking again in
//! the same way will not help.

use serde::Serialize;
use serde_json::Value;

use crate::wire::error::InvalidPayload;

/// Who refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DeniedBy {
    /// A person.
    User,
}

/// Why a call was denied, for machines.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DenialEnvelope {
    schema_version: u32,
    status: &'static str,
    /// Who refused.
    pub denied_by: DeniedBy,
    /// The function that was to run.
    pub function_id: String,
    /// The call's arguments as the record showed them, already redacted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args_excerpt: Option<Value>,
    /// The same in words.
    pub reason: String,
}

impl DenialEnvelope {
    /// A person refused. `args_excerpt` is the record's redacted excerpt; `null` is left out.
    pub fn by_user(function_id: &str, reason: impl Into<String>, args_excerpt: Value) -> Self {
        Self {
            schema_version: 1,
            status: "denied",
            denied_by: DeniedBy::User,
            function_id: function_id.to_owned(),
            args_excerpt: Some(args_excerpt).filter(|excerpt| !excerpt.is_null()),
            reason: reason.into(),
        }
    }
}

/// The reason of a denial for which the operator gave none.
pub const OPERATOR_REJECTED: &str =
    "an operator rejected this call; do not repeat it unchanged, ask what is wanted or choose another way";

/// The reason of a hook payload that names no call.
pub const NO_CALL: &str = "the gate was asked about no call, so there is nothing that it could allow";

/// The reason of a denied filesystem access for which the operator gave none; names the root.
pub fn filesystem_access_denied(root: &str) -> String {
    format!(
        "an operator denied filesystem access to `{root}`; it will not be asked for again in this session, so work \
         without it"
    )
}

/// The reason of a call that could not be put before a person; `cause` says why in a few words.
pub fn gate_unavailable(cause: &str) -> String {
    format!(
        "gate_unavailable: this call needs a person's approval, which could not be asked for: {cause}; try \
         again later"
    )
}

/// The causes of [`gate_unavailable`] for a call that nobody would see waiting.
pub const NOBODY_LISTENS: &str = "no worker that shows or answers waiting calls is connected for this session, and an operator has to start one";

/// The reason of a call that an answerer denied. Its own words, and its function, have been made fit to be shown.
pub fn denied_by_answerer(function_id: &str, reason: Option<&str>) -> String {
    let said = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    format!(
        "the answerer `{function_id}`, which is asked before a person is, denied this call{said}; do not repeat it \
         unchanged, choose another way"
    )
}

/// The reason of a hook payload that does not fit. Only the field is named.
pub fn payload_does_not_fit(invalid: &InvalidPayload) -> String {
    format!("the gate could not read this call, so it was not allowed: {}: {}", invalid.field, invalid.what)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    #[test]
    fn what_does_not_apply_is_left_out() {
        let envelope = DenialEnvelope::by_user("shell::exec", OPERATOR_REJECTED, Value::Null);
        let told = serde_json::to_value(envelope).unwrap();
        assert_eq!(
            told,
            json!({"schema_version": 1, "status": "denied", "denied_by": "user", "function_id": "shell::exec",
                "reason": OPERATOR_REJECTED})
        );
    }

    #[test]
    fn the_default_texts_name_what_they_are_about() {
        assert!(OPERATOR_REJECTED.contains("operator rejected"));
        let reason = filesystem_access_denied("/data/in");
        assert!(reason.contains("filesystem access") && reason.contains("/data/in"));
        assert!(gate_unavailable("state did not answer").contains("gate_unavailable"));
        let reason = denied_by_answerer("mine::judge", Some("not today"));
        assert!(reason.contains("answerer `mine::judge`") && reason.contains("denied this call: not today;"));
        assert!(denied_by_answerer("mine::judge", None).contains("denied this call;"));
        assert!(payload_does_not_fit(&InvalidPayload::new("call.id", "missing")).contains("call.id"));
    }
}
