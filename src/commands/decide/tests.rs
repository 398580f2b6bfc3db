#![allow(clippy::unwrap_used)]
use serde_json::{Value, json};

use super::*;
use crate::wire::record::StoredRow;

fn held(call: &str) -> PendingApprovalRecord {
    let record = json!({"session_id": "s_1", "turn_id": "t_1", "function_call_id": call, "function_id": "shell::exec",
        "arguments_excerpt": {"command": "ls"}, "pending_at": 1, "depth": 0});
    StoredRow::read(&record).live().unwrap()
}

fn folder() -> PendingApprovalRecord {
    let mut record = held("c_f");
    record.access_request = Some(crate::wire::record::AccessRequest {
        requested_root: "/data".into(),
        attempted_path: "/data/x".into(),
        error_code: "S215".into(),
    });
    record
}

fn chosen(calls: &[&str]) -> Chosen {
    Chosen { session: "s_1".into(), calls: Some(calls.iter().map(|call| (*call).to_owned()).collect()) }
}

#[test]
fn a_whole_id_wins_over_a_longer_one_and_a_beginning_must_be_unambiguous() {
    let inbox = [held("c_1"), held("c_10"), held("c_11"), held("d_1")];
    assert_eq!(find(&inbox, "c_1"), Found::One(&inbox[0]));
    assert_eq!(find(&inbox, "d"), Found::One(&inbox[3]));
    assert!(matches!(find(&inbox, "c_"), Found::Several(several) if several.len() == 3));
    assert_eq!(find(&inbox, "e"), Found::None);
    assert_eq!(find(&inbox, ""), Found::None, "an empty word is a slip of the shell, not every call");
}

#[test]
fn an_id_can_be_typed_as_it_is_shown() {
    let inbox = [held("c\u{202e}1")];
    assert_eq!(find(&inbox, r"c\u{202e}1"), Found::One(&inbox[0]));
}

#[test]
fn an_ambiguous_id_lists_the_candidates_and_the_others_are_still_meant() {
    let inbox = [held("c_1"), held("c_2"), held("d_1")];
    let (found, why) = meant(&inbox, &chosen(&["c_", "d_1", "d"]));
    assert_eq!(found, [&inbox[2]], "a call named twice is decided once");
    assert_eq!(why.len(), 1);
    assert!(why[0].contains("\n  c_1  shell::exec") && why[0].contains("\n  c_2  "), "{}", why[0]);
}

#[test]
fn all_means_what_is_held() {
    let inbox = [held("c_1"), held("c_2")];
    let (found, why) = meant(&inbox, &Chosen { session: "s_1".into(), calls: None });
    assert_eq!((found.len(), why.len()), (2, 0));
}

#[test]
fn the_request_carries_only_what_the_record_can_take() {
    let ask = |order: &Order, record: &PendingApprovalRecord| -> Value {
        let mut request = order.request(record);
        request.as_object_mut().unwrap().retain(|key, _| !key.ends_with("_id"));
        request
    };
    let (session, both) =
        (Order::allow(Some(Lasting::Session), false), Order::allow(Some(Lasting::Always), true));
    assert_eq!(ask(&Order::allow(None, false), &held("c")), json!({"decision": "allow"}));
    assert_eq!(ask(&session, &folder()), json!({"decision": "allow", "access_duration": "session"}));
    assert_eq!(ask(&both, &held("c")), json!({"decision": "allow"}));
    assert_eq!(ask(&both, &folder()), json!({"decision": "allow", "access_duration": "always"}));
    assert_eq!(ask(&Order::deny(Some(String::new())), &held("c")), json!({"decision": "deny"}));
    assert_eq!(ask(&Order::deny(Some("no".into())), &held("c")), json!({"decision": "deny", "reason": "no"}));
}

#[test]
fn a_wider_permission_that_means_nothing_here_is_not_taken_for_a_narrower_one() {
    let rows = [
        (Order::allow(Some(Lasting::Session), false), held("c"), true),
        (Order::allow(Some(Lasting::Always), false), held("c"), true),
        (Order::allow(Some(Lasting::Once), false), held("c"), false),
        (Order::allow(None, true), held("c"), false),
        (Order::allow(None, true), folder(), true),
        (Order::allow(Some(Lasting::Session), true), folder(), false),
        (Order::allow(Some(Lasting::Session), true), held("c"), false),
        (Order::deny(None), folder(), false),
    ];
    for (order, record, misfits) in rows {
        assert_eq!(order.misfit(&record).is_some(), misfits, "{order:?} on {:?}", record.access_request);
    }
}

#[test]
fn each_end_has_its_own_words() {
    let (allow, deny) = (Order::allow(None, false), Order::deny(None));
    let taken = |turn_resumed| Done::Taken { turn_resumed, again: None };
    assert_eq!(taken(Some(true)).sentence(&allow), "allowed; the turn goes on");
    assert_eq!(taken(Some(false)).sentence(&deny), "denied; the turn still waits for other calls");
    assert_eq!(taken(None).sentence(&allow), "allowed; it is being carried out");
    let refused = Failure::Refused { code: HARNESS_UNAVAILABLE.into(), message: "x".into() };
    let failed = Done::Failed { why: refused, remembered: true };
    assert!(failed.sentence(&allow).contains("still held, try again (its function is approved"));
    assert!(!failed.is_done() && !Done::Gone.is_done() && taken(None).is_done());
}
