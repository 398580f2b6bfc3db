//! Unattended runs: what would wait is denied at once, who may say so, who is told, and what becomes of older holds.

use serde_json::{Value, json};

use crate::support::stage::{PENDING, SETTINGS, StageOptions, decision, failure, failure_of, hook};
use crate::support::wire::{Act, state_calls};
use crate::support::{Latch, Script, Stage, eventually};

const CHANGED: &str = "approval::prompt-policy-changed";
const SET: &str = "approval::set-prompt-policy";
const GET: &str = "approval::get-prompt-policy";

async fn set(stage: &Stage, session_id: &str, policy: Value) -> Value {
    stage.ask(SET, json!({"session_id": session_id, "policy": policy})).await
}

async fn get(stage: &Stage, session_id: &str) -> Value {
    stage.ask(GET, json!({"session_id": session_id})).await
}

/// The gate's answer to a call that no rule decides.
async fn undecided(stage: &Stage, session_id: &str, call_id: &str) -> Value {
    stage.ask("approval::gate", hook(session_id, call_id, "f::x", json!({"n": 1}))).await
}

fn is_unattended(answer: &Value) -> bool {
    let reason = answer["reason"].as_str().unwrap_or_default();
    answer["decision"] == "deny"
        && reason.contains("prompts are disabled in this session")
        && reason.contains("do not make it again")
}

/// A listener of its own on changes of the policy.
async fn listen(stage: &Stage, function_id: &str, config: Value) {
    stage.console.serve(function_id, Script::Reply(Value::Null));
    stage.console.bind_live(function_id, CHANGED, function_id, &config).await;
}

async fn heard(stage: &Stage, function_id: &str, count: usize) -> Vec<Value> {
    let heard = eventually(&format!("{count} events at {function_id}"), || async {
        let heard = stage.console.heard_by(function_id);
        (heard.len() >= count).then_some(heard)
    })
    .await;
    assert_eq!(heard.len(), count, "{heard:?}");
    heard
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_never_what_would_wait_is_denied_and_nobody_hears_of_it() {
    let stage = Stage::configured(json!({"rules": ["docs::*", "!pay::*"]})).await;
    let answer = set(&stage, "s", json!("never")).await;
    assert_eq!((&answer["policy"], &answer["source"]), (&json!("never"), &json!("stored")));
    assert!(answer["statement"].as_str().unwrap().contains("Nobody can be asked"), "{answer}");
    assert_eq!(get(&stage, "s").await, answer);
    let mark = stage.wire.mark();
    assert!(is_unattended(&undecided(&stage, "s", "c_1").await));
    assert!(is_unattended(&undecided(&stage, "s", "c_1").await), "again, the same");
    assert!(stage.wire.calls_since(mark, "state::set").is_empty(), "nothing is written");
    assert!(stage.rows(PENDING).await.is_empty());
    // What is decided without a person is decided as before.
    assert_eq!(stage.gate("s", "c_2", "docs::read", json!({})).await, "continue");
    let denied = stage.ask("approval::gate", hook("s", "c_3", "pay::out", json!({}))).await;
    assert!(denied["reason"].as_str().unwrap().contains("pay::*"), "{denied}");
    let door =
        stage.ask("approval::gate", hook("s", "c_4", SET, json!({"session_id": "s", "policy": "ask"}))).await;
    assert!(door["reason"].as_str().unwrap().contains("human_only_function"), "{door}");
    // Other sessions are asked about.
    assert_eq!(stage.gate("other", "c_1", "f::x", json!({})).await, "hold");
    stage.story_becomes("s", &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_deployment_s_default_is_live_and_a_session_goes_before_it() {
    let stage = Stage::configured(json!({"rules": [], "prompt_policy": "never"})).await;
    assert_eq!(get(&stage, "s").await["policy"], "never");
    assert_eq!(get(&stage, "s").await["source"], "default");
    assert!(is_unattended(&undecided(&stage, "s", "c_1").await));
    assert_eq!(set(&stage, "s", json!("ask")).await["source"], "stored");
    assert_eq!(decision(&undecided(&stage, "s", "c_2").await), "hold");
    assert_eq!(set(&stage, "s", Value::Null).await["policy"], "never", "back to the default");
    assert!(is_unattended(&undecided(&stage, "s", "c_3").await));
    stage.configure(&json!({"rules": []})).await;
    assert_eq!(decision(&undecided(&stage, "s", "c_4").await), "hold");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_policy_alone_pins_no_mode_seeds_nothing_and_leaves_nothing_behind() {
    let rule = json!({"function": "docs::read", "action": "allow", "modes": ["auto"]});
    let stage = Stage::configured(json!({"default_mode": "auto", "rules": [rule]})).await;
    set(&stage, "s", json!("never")).await;
    assert_eq!(stage.row(SETTINGS, "s").await, json!({"prompt_policy": "never"}));
    let settings = stage.ask("approval::get-settings", json!({"session_id": "s"})).await;
    assert_eq!(settings["source"], "defaults", "{settings}");
    assert_eq!(
        (&settings["settings"]["mode"], &settings["settings"]["prompt_policy"]),
        (&json!("auto"), &json!("never"))
    );
    assert_eq!(stage.gate("s", "c_1", "docs::read", json!({})).await, "continue");
    // The session goes on following the deployment.
    stage.configure(&json!({"default_mode": "manual", "rules": []})).await;
    assert!(is_unattended(&stage.ask("approval::gate", hook("s", "c_2", "docs::read", json!({}))).await));
    set(&stage, "s", Value::Null).await;
    assert!(stage.row(SETTINGS, "s").await.is_null());
    // A session without a record is not given one by going back to the default.
    let mark = stage.wire.mark();
    set(&stage, "s", Value::Null).await;
    assert!(stage.wire.calls_since(mark, "state::set").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_and_policy_are_kept_apart_and_cleared_together() {
    let stage = Stage::start().await;
    set(&stage, "s", json!("never")).await;
    let set_mode = stage.ask("approval::set-mode", json!({"session_id": "s", "mode": "auto"})).await;
    assert_eq!(set_mode["settings"]["prompt_policy"], "never", "a change of the mode keeps the policy");
    set(&stage, "s", Value::Null).await;
    let settings = stage.ask("approval::get-settings", json!({"session_id": "s"})).await;
    assert_eq!((&settings["source"], &settings["settings"]["mode"]), (&json!("stored"), &json!("auto")));
    assert!(settings["settings"].get("prompt_policy").is_none(), "{settings}");
    set(&stage, "s", json!("never")).await;
    assert_eq!(
        stage.ask("approval::clear-settings", json!({"session_id": "s"})).await,
        json!({"cleared": true})
    );
    assert_eq!(get(&stage, "s").await["source"], "default");
    assert_eq!(decision(&undecided(&stage, "s", "c_1").await), "hold");
    set(&stage, "s", json!("never")).await;
    stage.ask("approval::on-session-deleted", json!({"session_id": "s"})).await;
    assert!(stage.row(SETTINGS, "s").await.is_null());
    for (request, field) in [
        (json!({"session_id": "s", "policy": "later"}), "policy"),
        (json!({"session_id": "", "policy": "never"}), "session_id"),
        (json!({"policy": "never"}), "session_id"),
    ] {
        let refusal = stage.call(SET, request).await.unwrap_err();
        assert_eq!(refusal.code, "approval/invalid_payload");
        assert!(refusal.message.contains(field), "{refusal:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_record_never_lets_anything_run_and_is_not_overwritten() {
    let full = |policy: Value| json!({"mode": "full", "mode_set_at": 1, "approved_always": [], "always_allow": [], "prompt_policy": policy});
    let damaged = json!({"mode": "turbo", "prompt_policy": "never"});
    for (index, (row, unattended)) in [
        (full(json!("later")), true),
        (full(json!(1)), true),
        (damaged, true),
        (json!({"mode": "turbo"}), false),
    ]
    .into_iter()
    .enumerate()
    {
        let stage = Stage::with(StageOptions {
            rows: vec![(SETTINGS.to_owned(), "s".to_owned(), row.clone())],
            ..StageOptions::default()
        })
        .await;
        let answer = undecided(&stage, "s", "c_1").await;
        assert_eq!(
            (is_unattended(&answer), decision(&answer) == "hold"),
            (unattended, !unattended),
            "{index} {answer}"
        );
        assert_eq!(get(&stage, "s").await["policy"], if unattended { "never" } else { "ask" });
        let refusal = stage.call(SET, json!({"session_id": "s", "policy": "ask"})).await.unwrap_err();
        assert_eq!(refusal.code, "approval/state_unavailable");
        assert_eq!(stage.row(SETTINGS, "s").await, row);
        stage.ask("approval::clear-settings", json!({"session_id": "s"})).await;
        assert_eq!(set(&stage, "s", json!("ask")).await["source"], "stored");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_held_already_is_denied_when_it_comes_again_and_its_hold_ends() {
    let stage = Stage::start().await;
    assert_eq!(decision(&undecided(&stage, "s", "c_1").await), "hold");
    assert_eq!(decision(&undecided(&stage, "s", "c_2").await), "hold");
    set(&stage, "s", json!("never")).await;
    // What waits goes on waiting: it can still be decided.
    assert_eq!(stage.rows(PENDING).await.len(), 2);
    assert!(is_unattended(&undecided(&stage, "s", "c_1").await));
    stage.row_gone(PENDING, "s/c_1").await;
    let request = json!({"session_id": "s", "function_call_id": "c_1", "decision": "allow"});
    assert_eq!(stage.ask("approval::resolve", request).await["resolved"], false);
    let request = json!({"session_id": "s", "function_call_id": "c_2", "decision": "allow"});
    assert_eq!(stage.ask("approval::resolve", request).await["resolved"], true);
    assert_eq!(decision(&undecided(&stage, "s", "c_2").await), "continue", "a person has released it");
    stage
        .story_becomes("s", &["created c_1", "created c_2", "resolved c_1 deny", "resolved c_2 allow"])
        .await;
    let ended = stage.events().into_iter().find(|event| event.line() == "resolved c_1 deny").unwrap();
    assert!(ended.payload.get("reason").is_none(), "no operator has said anything: {}", ended.payload);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_store_costs_no_more_than_a_card() {
    let stage = Stage::start().await;
    assert_eq!(decision(&undecided(&stage, "s", "c_1").await), "hold");
    set(&stage, "s", json!("never")).await;
    stage
        .wire
        .break_calls(state_calls("state::set", PENDING), Act::Instead(Script::refuse("SET_ERROR", "no")));
    assert!(is_unattended(&undecided(&stage, "s", "c_1").await));
    stage.wire.mend();
    // The end is tried again behind.
    stage.row_gone(PENDING, "s/c_1").await;
    stage.story_becomes("s", &["created c_1", "resolved c_1 deny"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_watch_stands_down_and_a_folder_request_of_before_ends() {
    let stage = Stage::start().await;
    let watch = "approval::filesystem-access-watch";
    let before = failure("s", "c_1", "S215", "/data", "/data/f");
    assert_eq!(decision(&stage.ask(watch, before.clone()).await), "hold");
    set(&stage, "s", json!("never")).await;
    assert_eq!(
        decision(&stage.ask(watch, failure("s", "c_2", "S215", "/data", "/data/f")).await),
        "continue"
    );
    assert_eq!(decision(&stage.ask(watch, before).await), "continue", "the failure of before, once more");
    stage.row_gone(PENDING, "s/c_1").await;
    stage.story_becomes("s", &["created c_1", "resolved c_1 deny"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_under_way_is_finished_although_nobody_is_asked_any_more() {
    let stage = Stage::start().await;
    let call = hook("s", "c_1", "shell::fs::read", json!({"path": "/data/f"}));
    assert_eq!(decision(&stage.ask("approval::gate", call.clone()).await), "hold");
    let latch = Latch::new();
    let answer = Script::Reply(json!({"resolved": true, "turn_resumed": true}));
    stage.siblings.script("harness::function::resolve", Script::When(latch.clone(), Box::new(answer)));
    let resolving = stage.call(
        "approval::resolve",
        json!({"session_id": "s", "function_call_id": "c_1", "decision": "allow"}),
    );
    let meanwhile = async {
        eventually("the release", || async {
            (!stage.siblings.asked_of("harness::function::resolve", "s").is_empty()).then_some(())
        })
        .await;
        set(&stage, "s", json!("never")).await;
        assert_eq!(decision(&stage.ask("approval::gate", call.clone()).await), "continue");
        let failed = failure_of(&call, "S215", "/data", "/data/f");
        assert_eq!(decision(&stage.ask("approval::filesystem-access-watch", failed).await), "continue");
        latch.open();
    };
    let (resolved, ()) = tokio::join!(resolving, meanwhile);
    assert_eq!(resolved.unwrap()["resolved"], true);
    stage.story_becomes("s", &["created c_1", "resolved c_1 allow"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listeners_are_told_of_changes_and_only_of_changes() {
    let stage = Stage::start().await;
    listen(&stage, "suite::all", json!({})).await;
    listen(&stage, "suite::of-s", json!({"session_id": "s"})).await;
    listen(&stage, "suite::of-t", json!({"session_id": "t"})).await;
    for policy in [json!("ask"), json!("never"), json!("never"), Value::Null, json!("never")] {
        set(&stage, "s", policy).await;
    }
    stage.ask("approval::set-mode", json!({"session_id": "s", "mode": "auto"})).await;
    stage.ask("approval::clear-settings", json!({"session_id": "s"})).await;
    stage.ask("approval::clear-settings", json!({"session_id": "s"})).await;
    let told = heard(&stage, "suite::of-s", 4).await;
    let words: Vec<_> = told
        .iter()
        .map(|event| (event["previous"].as_str().unwrap(), event["policy"].as_str().unwrap()))
        .collect();
    assert_eq!(words.iter().filter(|word| **word == ("ask", "never")).count(), 2, "{words:?}");
    assert_eq!(words.iter().filter(|word| **word == ("never", "ask")).count(), 2, "{words:?}");
    for event in &told {
        assert_eq!(event["session_id"], "s");
        assert!(event["changed_at"].as_i64().unwrap() > 1_600_000_000_000);
        let statement = event["statement"].as_str().unwrap();
        assert_eq!(statement.contains("Nobody can be asked"), event["policy"] == "never", "{event}");
    }
    heard(&stage, "suite::all", 4).await;
    assert!(stage.console.heard_by("suite::of-t").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_default_is_told_to_all_listeners_without_a_session() {
    let stage = Stage::start().await;
    listen(&stage, "suite::all", json!(null)).await;
    listen(&stage, "suite::of-s", json!({"session_id": "s"})).await;
    stage.configure(&json!({"rules": [], "prompt_policy": "never"})).await;
    stage.configure(&json!({"rules": ["docs::*"], "prompt_policy": "never"})).await;
    for listener in ["suite::all", "suite::of-s"] {
        let told = heard(&stage, listener, 1).await;
        assert!(told[0].get("session_id").is_none(), "{told:?}");
        assert_eq!((&told[0]["previous"], &told[0]["policy"]), (&json!("ask"), &json!("never")));
    }
    // What a session says itself is compared with the default of the moment.
    set(&stage, "s", json!("never")).await;
    stage.quiet().await;
    heard(&stage, "suite::all", 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_binding_that_is_not_understood_is_refused_by_name() {
    let stage = Stage::start().await;
    stage.console.serve("suite::extra", Script::Reply(Value::Null));
    for (index, (config, field)) in [
        (json!({"metadata": {}}), "metadata"),
        (json!({"sesion_id": "s"}), "sesion_id"),
        (json!({"session_id": 5}), "session_id"),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("bad-{index}");
        stage.console.bind(&id, CHANGED, "suite::extra", &config);
        let refusal = eventually("the refusal", || async { stage.console.bind_refused(&id) }).await;
        assert!(refusal.message.contains(field), "{config}: {refusal:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_down_denies_where_the_session_says_never() {
    let stage = Stage::with(StageOptions {
        stored: Some(json!({"rules": ["(("], "prompt_policy": "sometimes"})),
        rows: vec![(SETTINGS.to_owned(), "s".to_owned(), json!({"prompt_policy": "never"}))],
        ..StageOptions::default()
    })
    .await;
    assert!(is_unattended(&undecided(&stage, "s", "c_1").await));
    assert_eq!(decision(&undecided(&stage, "other", "c_1").await), "hold");
}
