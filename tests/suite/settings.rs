//! Per-session settings (contract §5): reads never write, mutations are strict, in a row, and none is lost.

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::support::stage::SETTINGS;
use crate::support::wire::{Act, calls_of, state_calls};
use crate::support::{Script, Stage};

/// Every mutation but the mode's own.
const LISTS: [&str; 3] =
    ["approval::add-always-allow", "approval::remove-always-allow", "approval::approve-always"];

fn of(session_id: &str, function_id: &str) -> Value {
    json!({"session_id": session_id, "function_id": function_id})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_never_writes() {
    let stage = Stage::configured(json!({"default_mode": "auto", "rules": []})).await;
    let mark = stage.wire.mark();
    let answer = stage.ask("approval::get-settings", json!({"session_id": "s"})).await;
    assert_eq!(answer["source"], "defaults");
    assert_eq!(answer["settings"]["mode"], "auto");
    stage.gate("s", "c_1", "approval::x", json!({})).await;
    assert!(stage.wire.calls_since(mark, "state::set").is_empty());
    assert!(stage.row(SETTINGS, "s").await.is_null());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_mutation_keeps_the_defaults_and_writes_once() {
    let rule = json!({"function": "state::get", "action": "allow", "modes": ["auto"]});
    let stage = Stage::configured(json!({"default_mode": "auto", "rules": [rule]})).await;
    let mark = stage.wire.mark();
    let answer = stage.ask("approval::approve-always", of("s", "web::fetch")).await;
    let written = stage.wire.calls_since(mark, "state::set");
    assert_eq!(written.len(), 1, "{written:?}");
    let stored = stage.row(SETTINGS, "s").await;
    assert_eq!(stored, answer["settings"]);
    assert_eq!(stored["mode"], "auto");
    assert_eq!(stored["always_allow"][0]["function_id"], "state::get");
    assert_eq!(stored["always_allow"][0]["granted_by"], "seed");
    // From now on the record wins.
    stage.configure(&json!({"default_mode": "full", "rules": []})).await;
    let answer = stage.ask("approval::get-settings", json!({"session_id": "s"})).await;
    assert_eq!(answer["source"], "stored");
    assert_eq!(answer["settings"]["mode"], "auto");
    assert_eq!(stage.gate("s", "c_1", "state::get", json!({})).await, "continue");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seeds_can_be_removed() {
    let rule = json!({"function": "state::get", "action": "allow", "modes": ["auto"]});
    let stage = Stage::configured(json!({"default_mode": "auto", "rules": [rule, "!state::get"]})).await;
    assert_eq!(stage.gate("s", "c_1", "state::get", json!({})).await, "continue");
    let answer = stage.ask("approval::remove-always-allow", of("s", "state::get")).await;
    assert_eq!(answer["settings"]["always_allow"], json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_set_mode_stamps_the_time_of_the_mode() {
    let stage = Stage::start().await;
    let answer = stage.ask("approval::approve-always", of("s", "a::b")).await;
    assert_eq!(answer["settings"]["mode_set_at"], 0);
    let answer = stage.ask("approval::set-mode", json!({"session_id": "s", "mode": "manual"})).await;
    let stamped = answer["settings"]["mode_set_at"].as_i64().unwrap();
    assert!(stamped > 1_600_000_000_000, "milliseconds: {stamped}");
    let answer = stage.ask("approval::add-always-allow", of("s", "c::d")).await;
    assert_eq!(answer["settings"]["mode_set_at"], stamped);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_mutations_at_once_are_all_kept() {
    let stage = Stage::start().await;
    let all = (0..50).map(|n| {
        let list = if n % 2 == 0 { "approval::add-always-allow" } else { "approval::approve-always" };
        stage.ask(list, of("s", &format!("f::{n}")))
    });
    join_all(all).await;
    let stored = stage.row(SETTINGS, "s").await;
    assert_eq!(stored["always_allow"].as_array().unwrap().len(), 25, "{stored}");
    assert_eq!(stored["approved_always"].as_array().unwrap().len(), 25, "{stored}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stored_record_that_cannot_be_read_is_never_overwritten() {
    let stage = Stage::start().await;
    let unreadable = [
        json!({"mode": "turbo"}),
        json!({"mode": 5}),
        json!({"always_allow": "x"}),
        json!({"approved_always": [{}]}),
    ];
    for (index, row) in unreadable.iter().enumerate() {
        let session = format!("s_{index}");
        stage.set_row(SETTINGS, &session, row).await;
        for list in LISTS {
            let refusal = stage.call(list, of(&session, "a::b")).await.unwrap_err();
            assert_eq!(refusal.code, "approval/state_unavailable", "{list} over {row}");
        }
        let mode = json!({"session_id": session, "mode": "full"});
        assert_eq!(
            stage.call("approval::set-mode", mode.clone()).await.unwrap_err().code,
            "approval/state_unavailable"
        );
        assert_eq!(stage.row(SETTINGS, &session).await, *row);
        assert_eq!(stage.gate(&session, "c_1", "f::x", json!({})).await, "hold");
        let cleared = stage.ask("approval::clear-settings", json!({"session_id": session})).await;
        assert_eq!(cleared, json!({"cleared": true}), "the way out");
        stage.ask("approval::set-mode", mode).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unavailable_store_is_said_and_nothing_is_pretended() {
    let stage = Stage::start().await;
    let failing = || Act::Instead(Script::refuse("GET_ERROR", "no"));
    stage.wire.break_calls(calls_of("state::get"), failing());
    for list in LISTS {
        assert_eq!(
            stage.call(list, of("s", "a::b")).await.unwrap_err().code,
            "approval/state_unavailable",
            "{list}"
        );
    }
    let read = stage.call("approval::get-settings", json!({"session_id": "s"})).await;
    assert_eq!(read.unwrap_err().code, "approval/state_unavailable");
    stage.wire.mend();
    stage.wire.break_calls(state_calls("state::set", SETTINGS), failing());
    let write = stage.call("approval::approve-always", of("s", "a::b")).await;
    assert_eq!(write.unwrap_err().code, "approval/state_unavailable");
    stage.wire.mend();
    assert_eq!(stage.gate("s", "c_1", "a::b", json!({})).await, "hold");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ids_that_are_blank_or_human_only_are_refused_by_name() {
    let stage = Stage::start().await;
    for list in ["approval::add-always-allow", "approval::approve-always"] {
        for id in ["", "  ", "approval::resolve", "configuration::set", "harness::function::resolve"] {
            let refusal = stage.call(list, of("s", id)).await.unwrap_err();
            assert_eq!(refusal.code, "approval/invalid_payload", "{list} {id:?}");
            assert!(refusal.message.contains("function_id"), "{refusal:?}");
        }
    }
    assert!(stage.row(SETTINGS, "s").await.is_null());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clearing_says_whether_there_was_something() {
    let stage = Stage::start().await;
    assert_eq!(
        stage.ask("approval::clear-settings", json!({"session_id": "s"})).await,
        json!({"cleared": false})
    );
    stage.ask("approval::set-mode", json!({"session_id": "s", "mode": "full"})).await;
    assert_eq!(
        stage.ask("approval::clear-settings", json!({"session_id": "s"})).await,
        json!({"cleared": true})
    );
    assert_eq!(stage.ask("approval::get-settings", json!({"session_id": "s"})).await["source"], "defaults");
}
