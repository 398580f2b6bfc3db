//! `approval::resolve` (contract §3): harness first, then the row, then the event.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::siblings::{GRANT, RESOLVE};
use crate::support::stage::{DENIED, PENDING, filesystem_record, record, shell_entry};
use crate::support::values::differences;
use crate::support::wire::{Act, calls_of, state_calls};
use crate::support::{Latch, Script, Stage, eventually};

async fn held(row: Value) -> Stage {
    let stage = Stage::start().await;
    stage.set_row(PENDING, "s/c_1", &row).await;
    stage
}

fn decide(word: &str) -> Value {
    json!({"session_id": "s", "function_call_id": "c_1", "decision": word})
}

fn decide_with(word: &str, key: &str, value: &str) -> Value {
    let mut request = decide(word);
    request[key] = value.into();
    request
}

fn assert_like(expected: &Value, got: &Value) {
    let found = differences(expected, got);
    assert!(found.is_empty(), "{found:?} in {got}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deny_delivers_the_envelope_and_the_operators_words() {
    let stage = Stage::start().await;
    stage.gate("s", "c_1", "shell::exec", json!({"cmd": "ls", "token": "x"})).await;
    let answer = stage.ask("approval::resolve", decide_with("deny", "reason", "not on prod")).await;
    assert_eq!(answer, json!({"resolved": true, "turn_resumed": true}));
    let asked = stage.siblings.asked_of(RESOLVE, "s");
    assert_like(
        &json!([{"action": "deliver", "is_error": true, "turn_id": "t_1", "function_call_id": "c_1",
                 "content": [{"type": "text", "text": "not on prod"}],
                 "details": {"schema_version": 1, "status": "denied", "denied_by": "user", "function_id": "shell::exec",
                             "reason": "not on prod", "args_excerpt": {"cmd": "ls", "token": "<redacted>"}}}]),
        &asked.into(),
    );
    stage.story_becomes("s", &["created c_1", "resolved c_1 deny"]).await;
    assert_eq!(stage.events()[1].payload["reason"], "not on prod");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deny_without_words_says_that_an_operator_rejected_it() {
    let stage = held(record("s", "c_1", 1)).await;
    stage.ask("approval::resolve", decide("deny")).await;
    let text = stage.siblings.asked_of(RESOLVE, "s")[0]["content"][0]["text"].as_str().unwrap().to_owned();
    assert!(text.to_lowercase().contains("operator"), "{text}");
    stage.story_becomes("s", &["resolved c_1 deny"]).await;
    assert!(stage.events()[0].payload.get("reason").is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reason_on_allow_is_not_told() {
    let stage = held(record("s", "c_1", 1)).await;
    stage.ask("approval::resolve", decide_with("allow", "reason", "fine")).await;
    stage.story_becomes("s", &["resolved c_1 allow"]).await;
    assert!(stage.events()[0].payload.get("reason").is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_row_and_the_event_follow_the_harness() {
    let stage = held(record("s", "c_1", 1)).await;
    let latch = Latch::new();
    let yes = Script::Reply(json!({"resolved": true, "turn_resumed": false}));
    stage.siblings.script(RESOLVE, Script::When(latch.clone(), Box::new(yes)));
    let console = stage.console.clone();
    let asked = tokio::spawn(async move { console.ask("approval::resolve", decide("allow")).await });
    eventually("the harness to be asked", || async {
        (!stage.siblings.asked_of(RESOLVE, "s").is_empty()).then_some(())
    })
    .await;
    stage.quiet().await;
    assert!(!stage.row(PENDING, "s/c_1").await.is_null(), "the row went before the harness answered");
    assert!(stage.story("s").is_empty());
    latch.open();
    assert_eq!(asked.await.unwrap(), json!({"resolved": true, "turn_resumed": false}));
    stage.row_gone(PENDING, "s/c_1").await;
    stage.story_becomes("s", &["resolved c_1 allow"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_a_decision_is_in_flight_another_one_is_turned_away_at_once() {
    let stage = held(record("s", "c_1", 1)).await;
    let latch = Latch::new();
    let yes = Script::Reply(json!({"resolved": true, "turn_resumed": true}));
    stage.siblings.script(RESOLVE, Script::When(latch.clone(), Box::new(yes)));
    let console = stage.console.clone();
    let first = tokio::spawn(async move { console.ask("approval::resolve", decide("allow")).await });
    eventually("the harness to be asked", || async {
        (!stage.siblings.asked_of(RESOLVE, "s").is_empty()).then_some(())
    })
    .await;
    let second = stage.console.call_within("approval::resolve", decide("deny"), Duration::from_secs(1)).await;
    assert_eq!(second, Some(Ok(json!({"resolved": false}))));
    latch.open();
    first.await.unwrap();
    stage.story_becomes("s", &["resolved c_1 allow"]).await;
    assert_eq!(stage.siblings.asked_of(RESOLVE, "s").len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_harness_keeps_the_record_and_the_decision_can_be_made_again() {
    let stage = held(record("s", "c_1", 1)).await;
    stage.siblings.script(
        RESOLVE,
        Script::sequence([
            Script::refuse("x", "no"),
            Script::Reply(json!({"resolved": true, "turn_resumed": true})),
        ]),
    );
    let refusal = stage.call("approval::resolve", decide("allow")).await.unwrap_err();
    assert_eq!(refusal.code, "approval/harness_unavailable");
    assert!(!stage.row(PENDING, "s/c_1").await.is_null());
    stage.story_becomes("s", &[]).await;
    assert_eq!(stage.ask("approval::resolve", decide("allow")).await["resolved"], true);
    stage.story_becomes("s", &["resolved c_1 allow"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_harness_with_nothing_waiting_ends_the_record_as_aborted() {
    let stage = held(record("s", "c_1", 1)).await;
    stage.siblings.script(RESOLVE, Script::Reply(json!({"resolved": false, "turn_resumed": false})));
    assert_eq!(stage.ask("approval::resolve", decide("allow")).await["resolved"], false);
    stage.row_gone(PENDING, "s/c_1").await;
    stage.story_becomes("s", &["resolved c_1 aborted"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_earlier_denial_whose_answer_never_came_is_the_outcome_of_the_retry() {
    let stage = held(record("s", "c_1", 1)).await;
    // The harness delivered the denial, but its answer was lost: deliver has a short deadline.
    stage.siblings.script(
        RESOLVE,
        Script::sequence([Script::Never, Script::Reply(json!({"resolved": false, "turn_resumed": false}))]),
    );
    let first = stage.call("approval::resolve", decide("deny")).await.unwrap_err();
    assert_eq!(first.code, "approval/harness_unavailable");
    assert_eq!(stage.ask("approval::resolve", decide("allow")).await["resolved"], false);
    stage.row_gone(PENDING, "s/c_1").await;
    stage.story_becomes("s", &["resolved c_1 deny"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_delete_does_not_fail_the_resolve_and_is_made_up_for() {
    let stage = held(record("s", "c_1", 1)).await;
    let failing = Act::Instead(Script::refuse("SET_ERROR", "no"));
    stage.wire.break_once(state_calls("state::set", PENDING), failing.clone());
    stage.wire.break_once(state_calls("state::delete", PENDING), failing);
    assert_eq!(stage.ask("approval::resolve", decide("allow")).await["resolved"], true);
    stage.row_gone(PENDING, "s/c_1").await;
    stage.story_becomes("s", &["resolved c_1 allow"]).await;
    assert_eq!(stage.ask("approval::list-pending", json!({"session_id": "s"})).await["pending"], json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreadable_store_is_an_error_and_nothing_is_released() {
    let stage = held(record("s", "c_1", 1)).await;
    stage.wire.break_calls(calls_of("state::get"), Act::Instead(Script::refuse("GET_ERROR", "no")));
    let refusal = stage.call("approval::resolve", decide("allow")).await.unwrap_err();
    assert_eq!(refusal.code, "approval/state_unavailable");
    assert!(stage.siblings.asked_of(RESOLVE, "s").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_for_the_session_is_granted_before_the_plain_release() {
    let stage = held(filesystem_record("s", "c_1", "/data")).await;
    stage.ask("approval::resolve", decide_with("allow", "access_duration", "session")).await;
    let asked = stage.siblings.asked("s");
    assert_eq!(asked.iter().map(|(f, _)| f.as_str()).collect::<Vec<_>>(), [GRANT, RESOLVE]);
    assert_like(&json!({"session_id": "s", "root": "/data"}), &asked[0].1);
    assert!(asked[1].1.get("fs_scope").is_none(), "{}", asked[1].1);
    let shell = stage.ask("configuration::get", json!({"id": "shell"})).await["value"].clone();
    assert_eq!(shell, shell_entry());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_for_always_is_appended_to_the_shell_entry_and_placeholders_survive() {
    let stage = held(filesystem_record("s", "c_1", "/data")).await;
    let entry = json!({"fs": {"host_roots": ["/work", "${SUITE_UNSET_ROOT:/tmp}"], "sandbox": true}, "secret": "${SUITE_UNSET:x}"});
    stage.ask("configuration::set", json!({"id": "shell", "value": entry})).await;
    stage.ask("approval::resolve", decide_with("allow", "access_duration", "always")).await;
    let stored = stage.ask("configuration::get", json!({"id": "shell", "raw": true})).await["value"].clone();
    assert_eq!(
        stored,
        json!({"fs": {"host_roots": ["/work", "${SUITE_UNSET_ROOT:/tmp}", "/data"], "sandbox": true}, "secret": "${SUITE_UNSET:x}"})
    );
    let release = &stage.siblings.asked_of(RESOLVE, "s")[0];
    assert!(release.get("fs_scope").is_none(), "{release}");
    assert_eq!(stage.siblings.asked_of(GRANT, "s").len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn folders_for_always_at_the_same_moment_all_stay() {
    let stage = Stage::start().await;
    for n in 0..8 {
        let call = format!("c_{n}");
        stage
            .set_row(PENDING, &format!("s/{call}"), &filesystem_record("s", &call, &format!("/data/{n}")))
            .await;
    }
    let all = (0..8).map(|n| {
        stage.ask(
            "approval::resolve",
            json!({"session_id": "s", "function_call_id": format!("c_{n}"), "decision": "allow", "access_duration": "always"}),
        )
    });
    futures_util::future::join_all(all).await;
    let stored =
        stage.ask("configuration::get", json!({"id": "shell"})).await["value"]["fs"]["host_roots"].clone();
    assert_eq!(stored.as_array().unwrap().len(), 9, "{stored}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grants_of_one_session_are_made_one_at_a_time() {
    let stage = Stage::start().await;
    let running = Arc::new(AtomicU64::new(0));
    let overlapped = Arc::new(AtomicBool::new(false));
    let (inside, seen) = (running.clone(), overlapped.clone());
    let grant = Script::run(move |data| {
        let (running, overlapped) = (inside.clone(), seen.clone());
        async move {
            // The harness reads, changes and writes without a guard, so an overlap would lose a root.
            if running.fetch_add(1, SeqCst) > 0 {
                overlapped.store(true, SeqCst);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
            running.fetch_sub(1, SeqCst);
            Script::Reply(json!({"session_id": data["session_id"], "roots": [data["root"]]}))
        }
    });
    stage.siblings.script(GRANT, grant);
    for n in 0..4 {
        let call = format!("c_{n}");
        stage
            .set_row(PENDING, &format!("s/{call}"), &filesystem_record("s", &call, &format!("/data/{n}")))
            .await;
    }
    let all = (0..4).map(|n| {
        stage.ask(
            "approval::resolve",
            json!({"session_id": "s", "function_call_id": format!("c_{n}"), "decision": "allow", "access_duration": "session"}),
        )
    });
    futures_util::future::join_all(all).await;
    assert_eq!(stage.siblings.asked_of(GRANT, "s").len(), 4);
    assert!(!overlapped.load(SeqCst), "two grants of one session overlapped");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_older_word_for_how_long_is_understood() {
    let stage = held(filesystem_record("s", "c_1", "/data")).await;
    stage.ask("approval::resolve", decide_with("allow", "grant_scope", "session")).await;
    assert_eq!(stage.siblings.asked_of(GRANT, "s").len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_older_control_plane_is_tried_when_the_newer_is_not_there() {
    let stage = held(filesystem_record("s", "c_1", "/data")).await;
    stage.siblings.peer.withdraw(GRANT);
    stage.siblings.peer.withdraw(crate::support::siblings::GRANTS);
    stage.siblings.peer.serve("harness::workspace::grant", Script::Reply(json!({"roots": ["/data"]})));
    stage.siblings.peer.serve("harness::workspace::grants", Script::Reply(json!({"roots": []})));
    stage.siblings.peer.barrier().await;
    stage.ask("approval::resolve", decide_with("allow", "access_duration", "session")).await;
    assert_eq!(stage.siblings.peer.heard_by("harness::workspace::grant").len(), 1);
    let release = &stage.siblings.asked_of(RESOLVE, "s")[0];
    assert!(release.get("fs_scope").is_none(), "{release}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_denied_folder_is_remembered_before_the_denial_is_delivered() {
    let stage = held(filesystem_record("s", "c_1", "/data")).await;
    let latch = Latch::new();
    let yes = Script::Reply(json!({"resolved": true, "turn_resumed": true}));
    stage.siblings.script(RESOLVE, Script::When(latch.clone(), Box::new(yes)));
    let console = stage.console.clone();
    let asked = tokio::spawn(async move { console.ask("approval::resolve", decide("deny")).await });
    eventually("the denial to be delivered", || async { stage.siblings.asked_of(RESOLVE, "s").pop() }).await;
    assert_eq!(stage.row(DENIED, "s").await, json!(["/data"]));
    latch.open();
    asked.await.unwrap();
    let text = stage.siblings.asked_of(RESOLVE, "s")[0]["content"][0]["text"].as_str().unwrap().to_owned();
    assert!(text.contains("/data") && text.to_lowercase().contains("filesystem"), "{text}");
}
