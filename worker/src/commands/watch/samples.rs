//! Records for the tests of this folder.

use serde_json::json;

use crate::wire::record::{AccessRequest, PendingApprovalRecord, PendingKind};

/// A held call of `s_1`.
pub fn held(call: &str, pending_at: i64) -> PendingApprovalRecord {
    PendingApprovalRecord {
        session_id: "s_1".into(),
        turn_id: "t_1".into(),
        function_call_id: call.into(),
        function_id: "shell::exec".into(),
        kind: PendingKind::Function,
        arguments_excerpt: json!({"command": format!("make {call}")}),
        assistant_excerpt: None,
        session_title: None,
        session_description: None,
        session_metadata: None,
        pending_at,
        depth: 0,
        access_request: None,
        hold_id: None,
        digest: None,
        salt: None,
        held_because: None,
        call_digest: None,
    }
}

/// A folder request of `s_1`.
pub fn folder(call: &str, root: &str, pending_at: i64) -> PendingApprovalRecord {
    let access = AccessRequest {
        requested_root: root.into(),
        attempted_path: format!("{root}/x"),
        error_code: "S215".into(),
    };
    PendingApprovalRecord {
        kind: PendingKind::FilesystemAccess,
        access_request: Some(access),
        ..held(call, pending_at)
    }
}
