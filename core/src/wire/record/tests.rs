#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::wire::evaluation::CameClose;
use crate::wire::events::Outcome;
use crate::wire::settings::PermissionMode;

fn row() -> Value {
    json!({"session_id": "s_1", "turn_id": "t_1", "function_call_id": "c_1", "function_id": "shell::exec",
        "arguments_excerpt": {"cmd": "ls"}, "pending_at": 1000, "depth": 0, "kind": "function"})
}

fn row_with(extra: &Value) -> Value {
    let mut row = row();
    row.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    row
}

fn row_without(field: &str) -> Value {
    let mut row = row();
    row.as_object_mut().unwrap().remove(field);
    row
}

fn live(value: &Value) -> PendingApprovalRecord {
    match StoredRow::read(value) {
        StoredRow::Live(record) => *record,
        other => panic!("not live: {other:?} from {value}"),
    }
}

#[test]
fn a_record_leaves_out_what_is_absent_and_round_trips() {
    let record = live(&row());

    assert_eq!(serde_json::to_value(&record).unwrap(), row());
    assert_eq!(live(&row()), record);
}

#[test]
fn the_private_fields_are_stored_and_read_back_and_never_shown() {
    let stored = row_with(&json!({"hold_id": "h_1", "salt": "s_1", "digest": "sha256:d"}));
    assert_eq!(StoredRow::hold_of(&stored), Some("h_1"));
    for not_ours in [
        json!({"hold_id": 7}),
        json!({"kind": null}),
        json!({"function_id": 7}),
        json!({"approval_gate_outbox": 1}),
    ] {
        let mut row = stored.clone();
        row.as_object_mut().unwrap().extend(not_ours.as_object().unwrap().clone());
        assert_eq!(StoredRow::hold_of(&row), None, "{not_ours}");
    }

    let record = live(&stored);

    assert_eq!(record.hold_id.as_deref(), Some("h_1"));
    assert_eq!(record.salt.as_deref(), Some("s_1"));
    assert_eq!(record.stored(), stored);
    assert_eq!(serde_json::to_value(&record).unwrap(), row_with(&json!({"digest": "sha256:d"})));
}

#[test]
fn a_digest_behind_the_id_of_an_earlier_hold_stays_private_and_is_still_compared() {
    let record = live(&row_with(&json!({"hold_id": "h_1:sha256:d"})));

    assert_eq!(record.is_of_call("sha256:d"), Some(true));
    assert_eq!(record.is_of_call("sha256:e"), Some(false));
    assert_eq!(record.event_id(), "h_1");
    assert_eq!(serde_json::to_value(&record).unwrap(), row());
}

#[test]
fn a_digest_that_cannot_be_checked_says_nothing_about_the_call() {
    for extra in [json!({}), json!({"hold_id": "h_1"}), json!({"hold_id": "h_1", "digest": "sha256:d"})] {
        assert_eq!(live(&row_with(&extra)).is_of_call("sha256:d"), None, "{extra}");
    }
}

#[test]
fn the_older_filesystem_record_is_read_in_the_contract_s_words() {
    let stored = row_with(&json!({"kind": "folder_access", "expires_at": 5,
        "grant_request": {"dir": "/a", "offending_path": "/a/b", "error_code": "S215"}}));

    let record = live(&stored);

    assert_eq!(record.kind, PendingKind::FilesystemAccess);
    let expected = AccessRequest {
        requested_root: "/a".into(),
        attempted_path: "/a/b".into(),
        error_code: "S215".into(),
    };
    assert_eq!(record.access_request, Some(expected));
    let told = serde_json::to_value(&record).unwrap();
    assert_eq!(told["kind"], "filesystem_access");
    assert!(told.get("grant_request").is_none() && told.get("expires_at").is_none());
}

#[test]
fn the_contract_s_request_wins_over_an_older_one_beside_it() {
    let stored = row_with(&json!({"kind": "filesystem_access",
        "access_request": {"requested_root": "/new", "attempted_path": "/new/x", "error_code": "S220"},
        "grant_request": {"dir": "/old", "offending_path": "/old/x", "error_code": "S215"}}));

    assert_eq!(live(&stored).access_request.unwrap().requested_root, "/new");
}

#[test]
fn a_record_without_a_kind_is_a_function_record() {
    assert_eq!(live(&row_without("kind")).kind, PendingKind::Function);
    assert_eq!(live(&row_with(&json!({"kind": null}))).kind, PendingKind::Function);
}

#[test]
fn what_is_missing_harmlessly_is_defaulted() {
    assert_eq!(live(&row_without("arguments_excerpt")).arguments_excerpt, Value::Null);
    assert_eq!(live(&row_without("depth")).depth, 0);
    assert_eq!(live(&row_with(&json!({"kind": "filesystem_access"}))).access_request, None);
    assert_eq!(
        live(&row_with(&json!({"assistant_excerpt": "hello"}))).assistant_excerpt.as_deref(),
        Some("hello")
    );
    assert!(
        serde_json::to_value(live(&row_without("arguments_excerpt"))).unwrap()["arguments_excerpt"].is_null()
    );
}

#[test]
fn unknown_fields_are_ignored_and_own_ids_are_kept() {
    let record = live(&row_with(&json!({"future": 1, "session_id": "another", "function_call_id": "c_9"})));

    assert_eq!((record.session_id.as_str(), record.function_call_id.as_str()), ("another", "c_9"));
}

#[test]
fn a_null_row_is_a_decision_that_was_not_swept_up() {
    assert_eq!(StoredRow::read(&Value::Null), StoredRow::Null);
}

#[test]
fn what_is_no_record_is_unreadable_and_named_without_its_value() {
    let rows = [
        (json!("garbage-secret"), "payload"),
        (json!(["garbage-secret"]), "payload"),
        (json!({}), "session_id"),
        (row_with(&json!({"session_metadata": "garbage-secret"})), "session_metadata"),
        (row_with(&json!({"pending_at": "garbage-secret"})), "pending_at"),
        (row_with(&json!({"kind": "garbage-secret"})), "kind"),
        (row_with(&json!({"kind": "folder_access", "grant_request": {"dir": "/a"}})), "access_request"),
        (row_with(&json!({"access_request": ["garbage-secret", "b", "c"]})), "access_request"),
    ];
    for (stored, field) in rows {
        let StoredRow::Unreadable(why) = StoredRow::read(&stored) else { panic!("readable: {stored}") };
        assert!(why.starts_with(field), "{why}");
        assert!(!why.contains("garbage"), "{why}");
    }
}

fn marker() -> ResolvedMarker {
    ResolvedMarker::new(
        "s_1/c_1",
        "e_1",
        "h_1",
        PendingResolvedEvent {
            session_id: "s_1".into(),
            turn_id: "t_1".into(),
            function_call_id: "c_1".into(),
            function_id: "shell::exec".into(),
            outcome: Outcome::Deny,
            reason: Some("no".into()),
            session_metadata: None,
            resolved_at: 7,
            digest: None,
            event_id: Some("e_1".into()),
        },
        None,
    )
}

#[test]
fn a_resolved_marker_is_read_back_and_is_no_record_to_anybody_else() {
    let stored = serde_json::to_value(marker()).unwrap();

    assert_eq!(StoredRow::read(&stored), StoredRow::Resolved(Box::new(marker())));
    assert_eq!(stored["approval_gate_outbox"], 1);
    for required in ["session_id", "turn_id", "function_call_id", "function_id", "pending_at", "kind"] {
        assert!(stored.get(required).is_none());
    }
}

#[test]
fn a_marker_of_another_version_or_without_its_event_is_unreadable() {
    let mut newer = serde_json::to_value(marker()).unwrap();
    newer["approval_gate_outbox"] = json!(2);
    let mut torn = serde_json::to_value(marker()).unwrap();
    torn.as_object_mut().unwrap().remove("event");
    for stored in [newer, torn] {
        assert!(matches!(StoredRow::read(&stored), StoredRow::Unreadable(_)), "{stored}");
    }
}

proptest! {
    #[test]
    fn whatever_is_written_is_read_back_the_same(
        ids in prop::array::uniform4(".{0,12}"),
        pending_at: i64,
        depth: i64,
        filesystem: bool,
        title in prop::option::of(".{0,12}"),
        digest in "[a-z0-9:]{0,12}",
        is_ours: bool,
        excerpt in prop_oneof![Just(Value::Null), any::<i64>().prop_map(Value::from), ".{0,9}".prop_map(Value::from)],
    ) {
        let [session_id, turn_id, function_call_id, function_id] = ids;
        let record = PendingApprovalRecord {
            session_id, turn_id, function_call_id, function_id, pending_at, depth,
            hold_id: is_ours.then(|| "h_1".to_owned()),
            salt: is_ours.then(|| "s_1".to_owned()),
            held_because: is_ours.then(|| HeldBecause {
                rung: "no_rule".into(), mode: PermissionMode::Auto, configuration_revision: None,
                close: vec![CameClose { index: 2, rule_id: "r".into(), miss: "mode".into() }],
            }),
            call_digest: None,
            kind: if filesystem { PendingKind::FilesystemAccess } else { PendingKind::Function },
            arguments_excerpt: excerpt,
            assistant_excerpt: None,
            session_title: title,
            session_description: None,
            session_metadata: Some(Map::from_iter([("n".to_owned(), json!(1))])),
            access_request: filesystem.then(|| AccessRequest {
                requested_root: "/a".into(), attempted_path: "b".into(), error_code: "C215".into(),
            }),
            digest: is_ours.then_some(digest),
        };
        let stored = record.stored();
        prop_assert_eq!(StoredRow::read(&stored), StoredRow::Live(Box::new(record)));
    }
}
