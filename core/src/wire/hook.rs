//! What the harness's hook chain sends, and the three answers it understands (contract §1, §4).
//!
//! Two readers of one payload. The gate reads strictly: what does not fit is an error, which the gate turns into deny.
//! The watch reads leniently: a *successful* result may carry any JSON where an error would be, and refusing it would
//! cost a log line for every tool call. An answer must be one of the exact words: the harness takes a word that it does
//! not know as permission.

mod glance;
mod readable;

pub use glance::HookGlance;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::wire::error::{object, optional_object};

/// One step of the hook chain: the call that the model asked for and, after it ran, its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HookInput {
    /// Where in the chain this is: `pre_trigger` or `post_trigger`. For information; each hook knows its own place.
    #[serde(default)]
    pub point: Option<String>,
    /// The session whose turn makes the call.
    pub session_id: String,
    /// The turn that makes the call.
    pub turn_id: String,
    /// The turn's step counter.
    #[serde(default)]
    pub step: Option<i64>,
    /// How many levels of sub-agents lie above the turn; 0 at the top.
    #[serde(default)]
    pub depth: i64,
    /// What the sender of the turn attached. `fs_scope.root`, an absolute path, is the session's workspace.
    #[serde(default)]
    pub metadata: Option<Map<String, Value>>,
    /// The call under judgement. Without one there is nothing to allow.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "optional_object")]
    pub call: Option<HookCall>,
    /// What the call came to; only after it ran.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "optional_object")]
    pub result: Option<HookResult>,
}

/// A function call as the model asked for it, rewritten by the hooks before us.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HookCall {
    /// The model provider's id of the call. A later turn of the session may use it again.
    pub id: String,
    /// The function that is to run.
    pub function_id: String,
    /// Its arguments: any JSON, not only an object.
    #[serde(default)]
    pub arguments: Value,
}

/// What a finished call is about to tell the model.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct HookResult {
    /// The id of the call that finished.
    #[serde(default)]
    pub function_call_id: String,
    /// The function that ran.
    #[serde(default)]
    pub function_id: String,
    /// The blocks that the model will read.
    #[serde(default)]
    pub content: Vec<TextBlock>,
    /// Whether the call failed.
    #[serde(default)]
    pub is_error: bool,
    /// The machine-readable side of the result.
    #[serde(default, skip_serializing_if = "HookResultDetails::is_empty", deserialize_with = "object")]
    pub details: HookResultDetails,
}

/// The machine-readable side of a failed result.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct HookResultDetails {
    /// Why the call failed, when it never reached its function or was thrown out by it.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "optional_object")]
    pub error: Option<HookResultError>,
}

impl HookResultDetails {
    fn is_empty(&self) -> bool {
        self.error.is_none()
    }
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HookResultError {
    /// The failing worker's error code, such as `S215`; older harnesses leave it out.
    #[serde(default)]
    pub code: Option<String>,
    /// The error text. A request for filesystem access is appended to its end.
    pub message: String,
}

/// One block of content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TextBlock {
    /// The kind of block: `text`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The text itself.
    pub text: String,
}

impl TextBlock {
    /// A block of plain text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { kind: "text".to_owned(), text: text.into() }
    }
}

/// A hook's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "decision", rename_all = "lowercase")]
pub enum HookOutput {
    /// Nothing against it: the chain goes on, or the result is delivered as it is.
    Continue,
    /// The call does not run.
    Deny {
        /// What the model is told, written so that it can act on it.
        reason: String,
    },
    /// The call waits until a person decides.
    Hold,
}

impl HookOutput {
    /// A denial for `reason`.
    pub fn deny(reason: impl Into<String>) -> Self {
        Self::Deny { reason: reason.into() }
    }
}

/// A hook payload as far as the filesystem watch needs it, whatever else it carries (contract §4).
#[derive(Debug, Clone, PartialEq)]
pub struct WatchInput {
    /// The session whose turn made the call.
    pub session_id: String,
    /// The turn that made the call.
    pub turn_id: String,
    /// How many levels of sub-agents lie above the turn; 0 when it is not told.
    pub depth: i64,
    /// What the sender of the turn attached; `None` when it is no object.
    pub metadata: Option<Map<String, Value>>,
    /// The call that ran.
    pub call: HookCall,
    /// Its result, untouched; `null` when there is none.
    pub result: Value,
}

impl WatchInput {
    /// Reads what the watch needs; `None` when the payload does not even tell session, turn and call.
    pub fn read(payload: &Value) -> Option<Self> {
        let call = payload.get("call")?;
        Some(Self {
            session_id: text(payload, "session_id")?,
            turn_id: text(payload, "turn_id")?,
            depth: payload.get("depth").and_then(Value::as_i64).unwrap_or(0),
            metadata: payload.get("metadata").and_then(Value::as_object).cloned(),
            call: HookCall {
                id: text(call, "id")?,
                function_id: text(call, "function_id")?,
                arguments: call.get("arguments").cloned().unwrap_or_default(),
            },
            result: payload.get("result").cloned().unwrap_or_default(),
        })
    }
}

fn text(value: &Value, field: &str) -> Option<String> {
    value.get(field)?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;
    use crate::wire::error::decode_value;

    #[test]
    fn each_answer_is_the_exact_word_that_the_harness_knows() {
        let rows = [
            (HookOutput::Continue, json!({"decision": "continue"})),
            (HookOutput::deny("no"), json!({"decision": "deny", "reason": "no"})),
            (HookOutput::Hold, json!({"decision": "hold"})),
        ];
        for (answer, expected) in rows {
            assert_eq!(serde_json::to_value(&answer).unwrap(), expected);
        }
    }

    #[test]
    fn the_least_payload_and_unknown_fields_are_read() {
        let input: HookInput =
            decode_value(&json!({"session_id": "s", "turn_id": "t", "trace": {"id": "x"}})).unwrap();

        assert_eq!((input.depth, input.call, input.metadata), (0, None, None));
    }

    #[test]
    fn arguments_may_be_any_json_or_absent() {
        for arguments in [json!("rm -rf"), json!(7), json!(null), json!([1]), json!({"a": 1})] {
            let payload = json!({"session_id": "s", "turn_id": "t",
                "call": {"id": "c", "function_id": "f", "arguments": arguments}});
            let input: HookInput = decode_value(&payload).unwrap();
            assert_eq!(input.call.unwrap().arguments, arguments);
        }
        let input: HookInput = decode_value(
            &json!({"session_id": "s", "turn_id": "t", "call": {"id": "c", "function_id": "f"}}),
        )
        .unwrap();
        assert_eq!(input.call.unwrap().arguments, Value::Null);
    }

    #[test]
    fn what_does_not_fit_the_gate_is_an_error() {
        for extra in [
            json!({"call": "x"}),
            json!({"call": {"id": 1, "function_id": "f"}}),
            json!({"depth": 1.5}),
            json!({"metadata": []}),
            json!({"result": {"content": "text"}}),
            json!({"result": {"details": []}}),
            json!({"turn_id": null}),
        ] {
            let mut payload = json!({"session_id": "s", "turn_id": "t"});
            payload.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            assert!(decode_value::<HookInput>(&payload).is_err(), "{payload}");
        }
    }

    #[test]
    fn the_watch_reads_a_payload_whose_result_is_odd() {
        for result in [
            json!(null),
            json!("text"),
            json!({"details": {"error": "policy_denied"}, "content": [{"type": "image", "data": "…"}]}),
            json!({"is_error": "yes", "details": [1, 2]}),
        ] {
            let payload = json!({"session_id": "s", "turn_id": "t", "depth": "deep", "metadata": 5,
                "call": {"id": "c", "function_id": "shell::exec"}, "result": result});

            let input = WatchInput::read(&payload).unwrap();

            assert_eq!(input.result, result);
            assert_eq!((input.depth, input.metadata), (0, None));
        }
    }

    #[test]
    fn the_watch_passes_on_a_payload_without_session_turn_or_call() {
        let whole = json!({"session_id": "s", "turn_id": "t", "call": {"id": "c", "function_id": "f"}});
        assert!(WatchInput::read(&whole).is_some());
        for missing in ["session_id", "turn_id", "call"] {
            let mut payload = whole.clone();
            payload.as_object_mut().unwrap().remove(missing);
            assert_eq!(WatchInput::read(&payload), None);
        }
        for odd in [json!("x"), json!([]), json!(null)] {
            assert_eq!(WatchInput::read(&odd), None);
        }
    }
}
