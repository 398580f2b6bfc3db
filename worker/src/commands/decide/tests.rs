#![allow(clippy::unwrap_used)]
use serde_json::{Value, json};

use super::*;
use crate::wire::error::HARNESS_UNAVAILABLE;
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
    let (session, both) = (
        Order::allow(Some(Lasting::Session), Beyond::Nothing),
        Order::allow(Some(Lasting::Always), Beyond::Function),
    );
    assert_eq!(ask(&Order::allow(None, Beyond::Nothing), &held("c")), json!({"decision": "allow"}));
    assert_eq!(ask(&session, &folder()), json!({"decision": "allow", "access_duration": "session"}));
    assert_eq!(ask(&both, &held("c")), json!({"decision": "allow"}));
    assert_eq!(ask(&both, &folder()), json!({"decision": "allow", "access_duration": "always"}));
    assert_eq!(ask(&Order::deny(Some(String::new())), &held("c")), json!({"decision": "deny"}));
    assert_eq!(ask(&Order::deny(Some("no".into())), &held("c")), json!({"decision": "deny", "reason": "no"}));
}

#[test]
fn a_wider_permission_that_means_nothing_here_is_not_taken_for_a_narrower_one() {
    let rows = [
        (Order::allow(Some(Lasting::Session), Beyond::Nothing), held("c"), true),
        (Order::allow(Some(Lasting::Always), Beyond::Nothing), held("c"), true),
        (Order::allow(Some(Lasting::Once), Beyond::Nothing), held("c"), false),
        (Order::allow(None, Beyond::Function), held("c"), false),
        (Order::allow(None, Beyond::Function), folder(), true),
        (Order::allow(Some(Lasting::Session), Beyond::Function), folder(), false),
        (Order::allow(Some(Lasting::Session), Beyond::Function), held("c"), false),
        (Order::allow(None, Beyond::Where(json!({}))), folder(), true),
        (Order::allow(None, Beyond::Where(json!({}))), held("c"), false),
        (Order::deny(None), folder(), false),
    ];
    for (order, record, misfits) in rows {
        assert_eq!(order.misfit(&record).is_some(), misfits, "{order:?} on {:?}", record.access_request);
    }
}

#[test]
fn each_end_has_its_own_words() {
    let (allow, deny) = (Order::allow(None, Beyond::Nothing), Order::deny(None));
    let done = Done::nothing;
    let taken = |turn_resumed| done(End::Taken { turn_resumed, again: None });
    assert_eq!(taken(Some(true)).sentence(&allow), "allowed; the turn goes on");
    assert_eq!(taken(Some(false)).sentence(&deny), "denied; the turn still waits for other calls");
    assert_eq!(taken(None).sentence(&allow), "allowed; it is being carried out");
    assert_eq!(done(End::Replaced).sentence(&deny), "not done: another call waits there now; look again");
    assert!(taken(None).is_done() && !done(End::Gone).is_done() && !done(End::Replaced).is_done());
}

#[test]
fn what_is_remembered_is_told_whether_or_not_the_decision_took_effect() {
    let allow = Order::allow(None, Beyond::Function);
    let refused = |code: &str| End::Failed(Failure::Refused { code: code.into(), message: "x".into() });
    let rule = || Some(Remembered::Rule { session: "s 1".into(), rule_id: "rule-1".into() });
    let failed = Done { end: refused(HARNESS_UNAVAILABLE), remembered: Some(Remembered::Function) };
    assert!(failed.sentence(&allow).contains("still held, try again (its function is approved"));
    let failed = Done { end: End::Replaced, remembered: rule() };
    assert!(
        failed.sentence(&allow).ends_with("look again (the rule rule-1 is approved for the session, though)")
    );
    let taken = Done { end: End::Taken { turn_resumed: Some(true), again: None }, remembered: rule() };
    assert_eq!(
        taken.sentence(&allow),
        "allowed; the turn goes on; calls like it run from now on (`grants 's 1' remove-rule rule-1` takes that back)"
    );
}

#[test]
fn a_decision_carries_the_digest_that_was_shown() {
    let mut record = held("c");
    assert!(Order::deny(None).request(&record).get("digest").is_none(), "older records have none");
    record.digest = Some("sha256:d".into());
    for order in [Order::deny(None), Order::allow(None, Beyond::Nothing)] {
        assert_eq!(order.request(&record)["digest"], "sha256:d");
    }
}
