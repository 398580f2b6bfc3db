//! A session's prompt policy: the requests that read and change it, and the event that tells of a change.
//!
//! An addition to the published contract. The word is the configuration's; the statement is for a system prompt.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::policy::PromptPolicy;
use crate::wire::error::{InvalidPayload, optional_word};
use crate::wire::events::{BindingConfig, read_binding};
use crate::wire::settings::PromptWord;

/// Says whether anybody is asked in a session.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct SetPromptPolicyRequest {
    /// The session to change.
    pub session_id: String,
    /// The policy from now on; absent or null goes back to the deployment's.
    #[serde(default, deserialize_with = "optional_word")]
    pub policy: Option<PromptWord>,
}

/// Asks whether anybody is asked in a session.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct GetPromptPolicyRequest {
    /// The session to read.
    pub session_id: String,
}

/// The prompt policy in force in a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PromptPolicyResponse {
    /// The policy in force.
    pub policy: PromptWord,
    /// Where it comes from.
    pub source: PromptSource,
    /// The policy in words for a model, made to stand in a system prompt.
    pub statement: String,
}

/// Where a session's prompt policy comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PromptSource {
    /// The session's own record.
    Stored,
    /// The deployment's configuration; the session says nothing.
    Default,
}

impl PromptPolicyResponse {
    /// What is in force where the session says `stored` and the deployment `default`.
    pub fn of(stored: Option<PromptPolicy>, default: PromptPolicy) -> Self {
        let policy = stored.unwrap_or(default);
        Self {
            policy: policy.into(),
            source: if stored.is_some() { PromptSource::Stored } else { PromptSource::Default },
            statement: policy.statement().to_owned(),
        }
    }
}

/// Which changes of the prompt policy a binding wants. Nothing set means all.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PromptBindingConfig {
    /// Only changes that matter to this session.
    pub session_id: Option<String>,
}

impl PromptBindingConfig {
    /// Reads a binding's `config`; absent and `null` match everything.
    ///
    /// # Errors
    /// Anything that is not understood, named by its field.
    pub fn read(config: Option<&Value>) -> Result<BindingConfig, InvalidPayload> {
        let Self { session_id } = read_binding(config)?;
        Ok(BindingConfig { session_id, metadata: None })
    }
}

/// The payload of `approval::prompt-policy-changed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PromptPolicyChangedEvent {
    /// The session; absent when the deployment's default has changed, which counts in all sessions that say nothing
    /// themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The policy in force from now on.
    pub policy: PromptWord,
    /// The policy before.
    pub previous: PromptWord,
    /// The new policy in words for a model.
    pub statement: &'static str,
    /// When it changed, in milliseconds since the epoch.
    pub changed_at: i64,
}

impl PromptPolicyChangedEvent {
    /// The event of a change, if it is one. Without a session it is the deployment's.
    pub fn of(
        session_id: Option<&str>,
        previous: PromptPolicy,
        policy: PromptPolicy,
        changed_at: i64,
    ) -> Option<Self> {
        (previous != policy).then(|| Self {
            session_id: session_id.map(str::to_owned),
            policy: policy.into(),
            previous: previous.into(),
            statement: policy.statement(),
            changed_at,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;
    use crate::wire::error::decode_value;

    #[test]
    fn no_policy_and_a_null_one_go_back_to_the_default_and_others_are_refused() {
        for request in [json!({"session_id": "s"}), json!({"session_id": "s", "policy": null})] {
            assert_eq!(decode_value::<SetPromptPolicyRequest>(&request).unwrap().policy, None);
        }
        for policy in [json!("Never"), json!("default"), json!(""), json!(false), json!({"never": null})] {
            let refused =
                decode_value::<SetPromptPolicyRequest>(&json!({"session_id": "s", "policy": policy}));
            assert_eq!(refused.unwrap_err().field, "policy", "{policy}");
        }
    }

    #[test]
    fn a_binding_names_a_session_or_nothing() {
        for config in [None, Some(Value::Null), Some(json!({})), Some(json!({"session_id": null}))] {
            assert_eq!(PromptBindingConfig::read(config.as_ref()).unwrap(), BindingConfig::default());
        }
        for (config, field) in [
            (json!({"metadata": {}}), "metadata"),
            (json!({"session_id": 5}), "session_id"),
            (json!([]), "config"),
        ] {
            assert_eq!(PromptBindingConfig::read(Some(&config)).unwrap_err().field, field);
        }
    }

    #[test]
    fn an_event_tells_of_a_change_and_of_nothing_else() {
        use PromptPolicy::{Ask, Never};
        assert_eq!(PromptPolicyChangedEvent::of(Some("s"), Ask, Ask, 1), None);
        let of_session = PromptPolicyChangedEvent::of(Some("s"), Ask, Never, 1).unwrap();
        assert_eq!(
            serde_json::to_value(of_session).unwrap(),
            json!({"session_id": "s", "policy": "never", "previous": "ask", "statement": Never.statement(), "changed_at": 1})
        );
        let of_all = serde_json::to_value(PromptPolicyChangedEvent::of(None, Never, Ask, 1)).unwrap();
        assert!(of_all.get("session_id").is_none() && of_all["policy"] == "ask");
    }
}
