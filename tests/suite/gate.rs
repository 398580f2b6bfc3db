//! `approval::gate` (contract §1, §2): what it answers, what it writes, and how it answers when its peers do not.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::siblings::SESSION_GET;
use crate::support::stage::{PENDING, SETTINGS, decision, hook, hook_in};
use crate::support::wire::{Act, calls_of, state_calls};
use crate::support::{Latch, Script, Stage, StageOptions};

/// The hook's budget is 5,000 ms at the harness, and the gate answers within 4,500 ms; the rest is for the way there
/// and back, through the relay and on a busy machine.
const ANSWERS_WITHIN: Duration = Duration::from_millis(4_800);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doors_to_the_gates_own_decisions_are_human_only_in_full_mode() {
    let stage = Stage::start().await;
    stage.ask("approval::set-mode", json!({"session_id": "s", "mode": "full"})).await;
    let closed = [
        ("approval::list-pending", json!({})),
        ("approval::no-such-function", json!({})),
        ("configuration::get", json!({"id": "x"})),
        ("state::set", json!({"scope": "approval_settings", "key": "s", "value": {}})),
        ("state::update", json!({"scope": "approval_pending", "key": "s/c", "ops": []})),
        ("state::delete", json!({"scope": "approval_filesystem_access_denied", "key": "s"})),
        ("state::set", json!({"scope": "approval_anything", "key": "s", "value": 1})),
        ("harness::function::resolve", json!({"session_id": "s", "action": "execute"})),
        ("harness::filesystem::grant", json!({"session_id": "s", "root": "/"})),
        ("harness::filesystem::revoke", json!({"session_id": "s", "root": "/"})),
        ("harness::workspace::grant", json!({"session_id": "s", "root": "/"})),
        (
            "engine::register_trigger",
            json!({"trigger_type": "state", "function_id": "approval::set-mode", "config": {}}),
        ),
        (
            "engine::register_trigger",
            json!({"trigger_type": "harness::hook::pre-trigger", "function_id": "mine::hook", "config": {}}),
        ),
    ];
    for (index, (function_id, arguments)) in closed.into_iter().enumerate() {
        let payload = hook("s", &format!("c_{index}"), function_id, arguments.clone());
        let answer = stage.ask("approval::gate", payload).await;
        assert_eq!(answer["decision"], "deny", "{function_id} {arguments}: {answer}");
        assert!(answer["reason"].as_str().unwrap().contains("human_only_function"), "{answer}");
    }
    let open = [
        ("state::set", json!({"scope": "notes", "key": "k", "value": 1})),
        ("state::get", json!({"scope": "approval_settings", "key": "s"})),
        ("state::list", json!({"scope": "approval_pending"})),
        ("harness::filesystem::grants", json!({"session_id": "s"})),
        ("harness::filesystem::info", json!({})),
        ("harness::workspace::grants", json!({"session_id": "s"})),
        (
            "engine::register_trigger",
            json!({"trigger_type": "state", "function_id": "mine::f", "config": {}}),
        ),
        ("approvals::report", json!({})),
    ];
    for (index, (function_id, arguments)) in open.into_iter().enumerate() {
        let word = stage.gate("s", &format!("o_{index}"), function_id, arguments.clone()).await;
        assert_eq!(word, "continue", "{function_id} {arguments}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn human_only_is_decided_before_anything_is_read() {
    let stage = Stage::start().await;
    let mark = stage.wire.mark();
    stage.gate("s", "c_1", "approval::resolve", json!({})).await;
    // What the worker does behind after its start asks for whole scopes, never for this session.
    let about_the_call = |frame: &Value| {
        let text = frame["data"].to_string();
        frame["type"] == "invokefunction" && (text.contains("\"s\"") || text.contains("\"s/c_1\""))
    };
    let calls: Vec<Value> = stage.wire.written_since(mark).into_iter().filter(about_the_call).collect();
    assert!(calls.is_empty(), "{calls:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_function_id_that_is_no_id_is_denied_in_every_mode() {
    let stage = Stage::start().await;
    stage.ask("approval::set-mode", json!({"session_id": "s", "mode": "full"})).await;
    for (index, id) in ["", " ", " shell::exec", "shell::exec ", "shell::\u{7}x", "shell::*", "*", "a\nb"]
        .into_iter()
        .enumerate()
    {
        let word = stage.gate("s", &format!("c_{index}"), id, json!({})).await;
        assert_eq!(word, "deny", "{id:?}");
    }
    assert!(stage.rows(PENDING).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_denial_names_the_rule() {
    let stage = Stage::configured(
        json!({"rules": [{"rule_id": "no-shell", "function": "shell::*", "action": "deny"}]}),
    )
    .await;
    let answer = stage.ask("approval::gate", hook("s", "c_1", "shell::exec", json!({}))).await;
    assert_eq!(answer["decision"], "deny");
    assert!(answer["reason"].as_str().unwrap().contains("no-shell"), "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_record_is_stored_before_the_hook_answers() {
    let stage = Stage::start().await;
    let latch = Latch::new();
    stage.wire.break_once(state_calls("state::set", PENDING), Act::HoldAnswer(latch.clone()));
    let console = stage.console.clone();
    let asked = tokio::spawn(async move {
        console.ask("approval::gate", hook("s", "c_1", "shell::exec", json!({}))).await
    });
    crate::support::eventually("the record to be stored", || async {
        (!stage.row(PENDING, "s/c_1").await.is_null()).then_some(())
    })
    .await;
    assert!(!asked.is_finished(), "the hook answered before the store did");
    latch.open();
    assert_eq!(decision(&asked.await.unwrap()), "hold");
    stage.story_becomes("s", &["created c_1"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_is_refused_denies_and_leaves_nothing() {
    let stage = Stage::start().await;
    let refuse = Script::refuse("SET_ERROR", "no");
    stage.wire.break_calls(
        |function_id, data| {
            function_id == "state::set" && data["scope"] == PENDING && !data["value"].is_null()
        },
        Act::Instead(refuse),
    );
    let answer = stage.ask("approval::gate", hook("s", "c_1", "shell::exec", json!({}))).await;
    assert_eq!(answer["decision"], "deny", "{answer}");
    assert!(answer["reason"].as_str().unwrap().contains("unavailable"), "{answer}");
    stage.wire.mend();
    stage.story_becomes("s", &[]).await;
    stage.row_gone(PENDING, "s/c_1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_whose_answer_is_lost_denies_in_time_and_is_taken_back() {
    let stage = Stage::start().await;
    stage.wire.break_once(state_calls("state::set", PENDING), Act::LoseAnswer);
    let begun = Instant::now();
    let word = stage.gate("s", "c_1", "shell::exec", json!({})).await;
    assert!(begun.elapsed() < ANSWERS_WITHIN, "{:?}", begun.elapsed());
    match word.as_str() {
        "deny" => {
            stage.row_gone(PENDING, "s/c_1").await;
            stage.story_becomes("s", &[]).await;
        }
        // A second, answered write is as good: then the hold must be a whole one.
        "hold" => stage.story_becomes("s", &["created c_1"]).await,
        other => panic!("{other}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_peers_never_delay_the_answer_beyond_the_budget() {
    let stage = Stage::with(StageOptions {
        rows: vec![(SETTINGS.into(), "s".into(), json!({"mode": "full"}))],
        ..Default::default()
    })
    .await;
    stage.siblings.script(SESSION_GET, Script::Never);
    stage.wire.break_calls(calls_of("state::get"), Act::Instead(Script::Never));
    let begun = Instant::now();
    let word = stage.gate("s", "c_1", "shell::exec", json!({})).await;
    assert_ne!(word, "continue", "settings that could not be read must not widen anything");
    assert!(begun.elapsed() < ANSWERS_WITHIN, "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_slow_call_does_not_delay_another() {
    let stage = Stage::start().await;
    stage.siblings.script_for("s_slow", SESSION_GET, Script::Never);
    let console = stage.console.clone();
    let slow =
        tokio::spawn(
            async move { console.ask("approval::gate", hook("s_slow", "c_1", "f::x", json!({}))).await },
        );
    let begun = Instant::now();
    for n in 0..5 {
        assert_eq!(stage.gate("s_fast", &format!("c_{n}"), "f::x", json!({})).await, "hold");
    }
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    assert_eq!(decision(&slow.await.unwrap()), "hold");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redelivered_step_holds_and_rewrites_nothing() {
    let stage = Stage::start().await;
    let payload = hook("s", "c_1", "shell::exec", json!({"cmd": "ls"}));
    stage.ask("approval::gate", payload.clone()).await;
    let first = stage.row(PENDING, "s/c_1").await;
    let mark = stage.wire.mark();
    for _ in 0..3 {
        assert_eq!(decision(&stage.ask("approval::gate", payload.clone()).await), "hold");
    }
    assert_eq!(stage.row(PENDING, "s/c_1").await, first);
    assert!(stage.wire.calls_since(mark, "state::set").is_empty());
    stage.story_becomes("s", &["created c_1"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_arguments_or_another_turn_under_the_same_key_are_a_new_hold() {
    let stage = Stage::start().await;
    stage.gate("s", "c_1", "shell::exec", json!({"cmd": "ls"})).await;
    let first = stage.row(PENDING, "s/c_1").await["pending_at"].as_i64().unwrap();
    stage.gate("s", "c_1", "shell::exec", json!({"cmd": "rm"})).await;
    let second = stage.row(PENDING, "s/c_1").await["pending_at"].as_i64().unwrap();
    stage.ask("approval::gate", hook_in("t_2", "s", "c_1", "shell::exec", json!({"cmd": "rm"}))).await;
    let third = stage.row(PENDING, "s/c_1").await;
    assert!(first < second && second < third["pending_at"].as_i64().unwrap());
    assert_eq!(third["turn_id"], "t_2");
    stage
        .story_becomes(
            "s",
            &["created c_1", "resolved c_1 aborted", "created c_1", "resolved c_1 aborted", "created c_1"],
        )
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arguments_that_differ_only_in_a_redacted_secret_are_different() {
    let stage = Stage::start().await;
    stage.gate("s", "c_1", "db::query", json!({"password": "one"})).await;
    stage.gate("s", "c_1", "db::query", json!({"password": "two"})).await;
    stage.story_becomes("s", &["created c_1", "resolved c_1 aborted", "created c_1"]).await;
    let row = stage.row(PENDING, "s/c_1").await.to_string();
    assert!(!row.contains("\"one\"") && !row.contains("\"two\""), "{row}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_down_gate_holds_everything_and_recovers_by_itself() {
    let stage = Stage::with(StageOptions {
        stored: Some(json!({"default_mode": "full", "rules": ["!!x"]})),
        rows: vec![(SETTINGS.into(), "s".into(), json!({"mode": "full"}))],
        ..Default::default()
    })
    .await;
    assert!(!stage.worker.lines_at("ERROR").is_empty(), "{}", stage.worker.log_text());
    assert_eq!(stage.gate("s", "c_1", "shell::exec", json!({})).await, "hold");
    assert_eq!(stage.gate("s", "c_2", "approval::resolve", json!({})).await, "deny");
    // Nobody tells the worker but the engine's own event.
    stage.ask("configuration::set", json!({"id": "approval-gate", "value": {"rules": ["!shell::*"]}})).await;
    crate::support::eventually("the gate to recover", || async {
        (stage.gate("s_new", "c_3", "shell::exec", json!({})).await == "deny").then_some(())
    })
    .await;
    assert_eq!(stage.gate("s", "c_4", "shell::exec", json!({})).await, "continue");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_configuration_that_is_not_understood_leaves_the_last_good_one() {
    let good = json!({"rules": ["!payments::*", "*"]});
    let stage = Stage::configured(good).await;
    let bad = [
        json!({"rules": ["*"], "unknown": 1}),
        json!({"rules": "*"}),
        json!({"rules": [""]}),
        json!({"rules": [" x"]}),
        json!({"rules": ["!"]}),
        json!({"rules": ["!!x"]}),
        json!({"rules": [{"function": "*", "action": "allow", "args": {"x": {"matches": "("}}}]}),
        json!({"rules": [{"function": "*", "action": "allow", "args": {"x": {"startswith": "a"}}}]}),
        json!({"rules": [{"function": "*", "action": "permit"}]}),
        json!({"rules": [{"function": "*", "action": "allow", "modes": []}]}),
        json!({"rules": [{"function": "*", "action": "allow", "modes": ["atuo"]}]}),
        json!({"rules": [{"function": "*", "action": "allow", "mode": ["auto"]}]}),
        json!({"default_mode": "Full"}),
        json!({"grant_reask_limit": -1}),
        json!("*"),
        Value::Null,
    ];
    for (index, value) in bad.iter().enumerate() {
        stage.force_config(value).await;
        let session = format!("s_{index}");
        assert_eq!(stage.gate(&session, "c_1", "payments::refund", json!({})).await, "deny", "{value}");
        assert_eq!(stage.gate(&session, "c_2", "clock::now", json!({})).await, "continue", "{value}");
    }
}
