//! What we ask of the harness: releasing or answering a held call, and a session's filesystem grants (contract §3,
//! §4).
//!
//! Only what a field says is ever read from an answer: error texts differ between builds. Releasing a call that was
//! refused access carries the root in `fs_scope`; `extra_roots` is the older word and goes along only to a harness
//! whose older control plane is the one that answered (contract §0).

use serde::Serialize;
use serde_json::Value;

use crate::wire::denial::DenialEnvelope;
use crate::wire::hook::TextBlock;
use crate::wire::record::PendingApprovalRecord;

/// Releases or answers a held call.
pub const FUNCTION_RESOLVE: &str = "harness::function::resolve";
/// Grants a session a root.
pub const FILESYSTEM_GRANT: &str = "harness::filesystem::grant";
/// Tells a session's granted roots.
pub const FILESYSTEM_GRANTS: &str = "harness::filesystem::grants";
/// The older [`FILESYSTEM_GRANT`], tried when that function does not exist.
pub const WORKSPACE_GRANT: &str = "harness::workspace::grant";
/// The older [`FILESYSTEM_GRANTS`], tried when that function does not exist.
pub const WORKSPACE_GRANTS: &str = "harness::workspace::grants";

/// Tells what a session's turn waits for.
pub const STATUS: &str = "harness::status";

/// The request of [`STATUS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct StatusRequest<'a> {
    /// The session asked about.
    pub session_id: &'a str,
}

/// What a session's turn waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    turn_id: String,
    calls: Vec<String>,
}

impl Waiting {
    /// Reads an answer; `None` unless it names the turn and lists its calls, because a record must not go in doubt.
    pub fn read(answer: &Value) -> Option<Self> {
        let turn_id = answer.get("turn_id")?.as_str()?.to_owned();
        let calls = answer.get("pending_function_calls")?.as_array()?;
        let calls = calls.iter().map(|call| call.as_str().map(str::to_owned)).collect::<Option<_>>()?;
        Some(Self { turn_id, calls })
    }

    /// Whether the turn waits for the call of this record.
    pub fn includes(&self, record: &PendingApprovalRecord) -> bool {
        self.turn_id == record.turn_id && self.calls.contains(&record.function_call_id)
    }
}

/// The request of [`FUNCTION_RESOLVE`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FunctionResolveRequest {
    /// The session that the call belongs to.
    pub session_id: String,
    /// The turn that waits; the harness takes no decision for a turn that is over.
    pub turn_id: String,
    /// The held call.
    pub function_call_id: String,
    /// What becomes of it.
    #[serde(flatten)]
    pub action: Action,
}

/// What becomes of a held call.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "action", rename_all = "lowercase")]
pub enum Action {
    /// It runs, inside the request: the answer takes as long as the function does.
    Execute {
        /// Roots that are open for this one run.
        #[serde(skip_serializing_if = "Option::is_none")]
        fs_scope: Option<OneShotGrants>,
        /// The same in the older word.
        #[serde(skip_serializing_if = "Option::is_none")]
        extra_roots: Option<Vec<String>>,
    },
    /// It does not run; the model gets this instead.
    Deliver {
        /// True: a denial is an error to the model.
        is_error: bool,
        /// What the model reads.
        content: Vec<TextBlock>,
        /// The same for machines.
        details: Box<DenialEnvelope>,
    },
}

/// Roots that are open for one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OneShotGrants {
    /// Absolute directories.
    pub grants: Vec<String>,
}

impl Action {
    /// Run it as it is.
    pub const fn execute() -> Self {
        Self::Execute { fs_scope: None, extra_roots: None }
    }

    /// Run it with `root` open for this once; `older` says it in the older word too.
    pub fn execute_once_with(root: &str, older: bool) -> Self {
        Self::Execute {
            fs_scope: Some(OneShotGrants { grants: vec![root.to_owned()] }),
            extra_roots: older.then(|| vec![root.to_owned()]),
        }
    }

    /// Tell the model that it was denied.
    pub fn deny(envelope: DenialEnvelope) -> Self {
        Self::Deliver {
            is_error: true,
            content: vec![TextBlock::text(envelope.reason.clone())],
            details: Box::new(envelope),
        }
    }
}

/// The answer of [`FUNCTION_RESOLVE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Released {
    /// False only if the harness said so: nothing was waiting there.
    pub resolved: bool,
    /// Whether the turn goes on, if it was told.
    pub turn_resumed: Option<bool>,
}

impl Released {
    /// Reads an answer. Any answer that does not say otherwise means that the decision was taken.
    pub fn read(answer: &Value) -> Self {
        let flag = |field| answer.get(field).and_then(Value::as_bool);
        Self { resolved: flag("resolved").unwrap_or(true), turn_resumed: flag("turn_resumed") }
    }
}

/// The request of [`FILESYSTEM_GRANT`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct GrantRequest<'a> {
    /// The session that gets the root.
    pub session_id: &'a str,
    /// The root, absolute.
    pub root: &'a str,
}

/// The request of [`WORKSPACE_GRANT`]. The older plane's word for the root is not recorded for certain, so it is sent
/// in both; the other one is ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct OlderGrantRequest<'a> {
    /// The session that gets the root.
    pub session_id: &'a str,
    /// The root, absolute.
    pub root: &'a str,
    /// The same.
    pub dir: &'a str,
}

/// The request of [`FILESYSTEM_GRANTS`] and [`WORKSPACE_GRANTS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct GrantsRequest<'a> {
    /// The session whose roots are asked for.
    pub session_id: &'a str,
}

/// The roots in an answer of either grants function. What is no text is skipped; an answer without a list has none.
pub fn roots(answer: &Value) -> Vec<String> {
    let roots = answer.get("roots").and_then(Value::as_array);
    roots.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    fn request(action: Action) -> Value {
        serde_json::to_value(FunctionResolveRequest {
            session_id: "s".into(),
            turn_id: "t".into(),
            function_call_id: "c".into(),
            action,
        })
        .unwrap()
    }

    #[test]
    fn a_plain_release_carries_nothing_else() {
        assert_eq!(
            request(Action::execute()),
            json!({"session_id": "s", "turn_id": "t", "function_call_id": "c", "action": "execute"})
        );
    }

    #[test]
    fn a_one_shot_release_carries_the_root_and_the_older_word_only_to_an_older_harness() {
        let release = request(Action::execute_once_with("/data", false));
        assert_eq!(release["fs_scope"], json!({"grants": ["/data"]}));
        assert!(release.get("extra_roots").is_none());

        let release = request(Action::execute_once_with("/data", true));
        assert_eq!(release["extra_roots"], json!(["/data"]));
        assert_eq!(release["fs_scope"], json!({"grants": ["/data"]}));
    }

    #[test]
    fn a_denial_delivers_its_reason_and_envelope() {
        let envelope = DenialEnvelope::by_user("shell::exec", "not on prod", json!({"cmd": "ls"}));

        assert_eq!(
            request(Action::deny(envelope)),
            json!({"session_id": "s", "turn_id": "t", "function_call_id": "c", "action": "deliver", "is_error": true,
                "content": [{"type": "text", "text": "not on prod"}],
                "details": {"schema_version": 1, "status": "denied", "denied_by": "user", "function_id": "shell::exec",
                    "args_excerpt": {"cmd": "ls"}, "reason": "not on prod"}})
        );
    }

    #[test]
    fn an_answer_that_does_not_say_no_is_a_yes() {
        let rows = [
            (json!({"resolved": true, "turn_resumed": true}), true, Some(true)),
            (json!({"resolved": true}), true, None),
            (json!({"resolved": true, "turn_resumed": null}), true, None),
            (json!({"resolved": false, "turn_resumed": false}), false, Some(false)),
            (json!(null), true, None),
            (json!("ok"), true, None),
        ];
        for (answer, resolved, turn_resumed) in rows {
            assert_eq!(Released::read(&answer), Released { resolved, turn_resumed }, "{answer}");
        }
    }

    #[test]
    fn what_a_turn_waits_for_is_known_only_if_turn_and_calls_are_told() {
        let told =
            json!({"turn_id": "t_1", "status": "awaiting_functions", "pending_function_calls": ["c_1"]});
        assert!(Waiting::read(&told).is_some());
        for doubt in [
            json!(null),
            json!({"turn_id": "t_1"}),
            json!({"pending_function_calls": []}),
            json!({"turn_id": "t_1", "pending_function_calls": [5]}),
            json!({"turn_id": "t_1", "pending_function_calls": "c_1"}),
        ] {
            assert_eq!(Waiting::read(&doubt), None, "{doubt}");
        }
    }

    #[test]
    fn the_roots_of_an_answer_are_its_texts() {
        let rows: [(Value, &[&str]); 5] = [
            (json!({"roots": []}), &[]),
            (json!({"session_id": "s", "roots": ["/a", "/b"]}), &["/a", "/b"]),
            (json!({"roots": ["/a", 5]}), &["/a"]),
            (json!({"roots": "/a"}), &[]),
            (json!(null), &[]),
        ];
        for (answer, expected) in rows {
            assert_eq!(roots(&answer), expected, "{answer}");
        }
    }
}
