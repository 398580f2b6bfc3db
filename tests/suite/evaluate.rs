//! `approval::evaluate`: the gate's own answer with its reasons, without a trace; and why a call waits.

use serde_json::{Value, json};

use crate::support::stage::{PENDING, SETTINGS, StageOptions, failure, filesystem_record, hook, record};
use crate::support::wire::{Act, state_calls};
use crate::support::{Script, Stage, eventually};

const EVALUATE: &str = "approval::evaluate";

fn question(session_id: &str, function_id: &str, arguments: Value) -> Value {
    json!({"session_id": session_id, "function_id": function_id, "arguments": arguments})
}

async fn evaluated(stage: &Stage, session_id: &str, function_id: &str, arguments: Value) -> Value {
    stage.ask(EVALUATE, question(session_id, function_id, arguments)).await
}

/// `allow full_mode`, `deny rule` and the like.
fn verdict(answer: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    format!("{} {}", word(&answer["verdict"]), word(&answer["explanation"]["rung"]["name"]))
}

fn rules() -> Value {
    json!([
        {"rule_id": "no-prod", "function": "deploy::*", "action": "deny", "floor": true,
         "args": {"target": {"equals": "prod"}}},
        {"rule_id": "git-read", "function": "shell::exec", "action": "allow",
         "args": {"command": {"matches": "^git (log|status)$"}}},
        "!pay::*",
        "docs::*",
        {"function": "auto::*", "action": "allow", "modes": ["auto"]},
    ])
}

async fn settings(stage: &Stage) {
    stage.ask("approval::set-mode", json!({"session_id": "full", "mode": "full"})).await;
    stage.ask("approval::set-mode", json!({"session_id": "auto", "mode": "auto"})).await;
    let clicked = json!({"session_id": "clicked", "function_id": "pay::out"});
    stage.ask("approval::approve-always", clicked).await;
    stage.ask("approval::set-prompt-policy", json!({"session_id": "never", "policy": "never"})).await;
    assert_eq!(stage.gate("ruled", "c_0", "shell::exec", json!({"command": "make test"})).await, "hold");
    let rule = json!({"function": "shell::exec", "args": {"command": {"matches": "^make "}}});
    let approved = json!({"session_id": "ruled", "function_call_id": "c_0", "rule": rule});
    stage.ask("approval::approve-rule", approved).await;
    stage.set_row(SETTINGS, "damaged", &json!({"mode": 5})).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_step_is_evaluated_as_the_gate_decides_it() {
    let stage = Stage::configured(json!({"rules": rules()})).await;
    settings(&stage).await;
    for (number, (session_id, function_id, arguments, expected, source)) in [
        ("full", "x::y", json!({}), "allow full_mode", "stored"),
        ("full", "approval::resolve", json!({}), "deny human_only_function", "stored"),
        ("full", "deploy::run", json!({"target": "prod"}), "deny floor", "stored"),
        ("plain", "docs::*", Value::Null, "deny not_a_function_id", "default"),
        ("plain", "docs::read", Value::Null, "allow rule", "default"),
        ("plain", "pay::out", json!({"n": 1}), "deny rule", "default"),
        ("plain", "shell::exec", json!({"command": "git push"}), "needs_approval no_rule", "default"),
        ("plain", "auto::x", json!({}), "needs_approval no_rule", "default"),
        ("auto", "auto::x", json!({}), "allow always_allow", "stored"),
        ("clicked", "pay::out", json!({}), "allow approved_always", "stored"),
        ("ruled", "shell::exec", json!({"command": "make all"}), "allow approved_rule", "default"),
        ("never", "x::y", json!({}), "deny prompts_disabled", "default"),
        ("never", "docs::read", json!({}), "allow rule", "default"),
        ("damaged", "x::y", json!({}), "needs_approval no_rule", "stored"),
    ]
    .into_iter()
    .enumerate()
    {
        let answer = evaluated(&stage, session_id, function_id, arguments.clone()).await;
        assert_eq!(verdict(&answer), expected, "{answer}");
        assert_eq!(answer["explanation"]["mode_source"], source, "{answer}");
        assert!(answer["explanation"]["configuration_revision"].is_string() && answer.get("held").is_none());
        let asked = hook(session_id, &format!("c_{}", number + 1), function_id, arguments);
        let gate = stage.ask("approval::gate", asked).await;
        let word = match answer["verdict"].as_str() {
            Some("allow") => "continue",
            Some("needs_approval") => "hold",
            other => other.unwrap(),
        };
        assert_eq!((gate["decision"].as_str(), gate.get("reason")), (Some(word), answer.get("reason")));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_written_and_nobody_is_told() {
    let stage = Stage::configured(json!({"rules": rules()})).await;
    settings(&stage).await;
    stage.quiet().await;
    let (mark, events) = (stage.wire.mark(), stage.events().len());
    for session_id in ["full", "auto", "plain", "ruled", "never", "damaged"] {
        for function_id in ["x::y", "pay::out", "docs::read", "auto::x"] {
            evaluated(&stage, session_id, function_id, json!({"n": 1})).await;
        }
    }
    stage.ask(EVALUATE, json!({"session_id": "ruled", "function_call_id": "c_0"})).await;
    stage.quiet().await;
    let called: Vec<_> =
        stage.wire.written_since(mark).into_iter().filter(|f| f["type"] == "invokefunction").collect();
    assert!(called.iter().all(|frame| frame["function_id"] == "state::get"), "{called:?}");
    assert_eq!(stage.events().len(), events);
    assert_eq!(stage.rows(PENDING).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_denial_tells_the_model_what_would_be_accepted_and_nobody_a_secret() {
    let stage = Stage::configured(json!({"rules": [
        {"rule_id": "with-key", "function": "api::*", "action": "allow", "args": {"api_key": {"equals": "hunter2-abc"}}},
        {"rule_id": "no-env", "function": "api::*", "action": "deny", "args": {"password": {"equals": "hunter2"}}},
    ]}))
    .await;
    let arguments = json!({"password": "hunter2", "api_key": "ghp_0123456789abcdefghij0123456789abcdef"});
    let answer = evaluated(&stage, "s", "api::call", arguments.clone()).await;
    let gate = stage.ask("approval::gate", hook("s", "c_1", "api::call", arguments)).await;
    assert_eq!(gate["reason"], answer["reason"]);
    let reason = answer["reason"].as_str().unwrap();
    for part in [
        "`no-env` (rule 1)",
        "`password` (equals)",
        "another `password`",
        "`with-key` covers calls whose `api_key`",
    ] {
        assert!(reason.contains(part), "{part} in {reason}");
    }
    let text = answer.to_string();
    assert!(!text.contains("hunter2") && !text.contains("ghp_"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revision_changes_with_the_configuration_and_there_is_none_in_lock_down() {
    let stage = Stage::start().await;
    let first =
        evaluated(&stage, "s", "x::y", json!({})).await["explanation"]["configuration_revision"].clone();
    stage.configure(&json!({"rules": rules()})).await;
    let second =
        evaluated(&stage, "s", "x::y", json!({})).await["explanation"]["configuration_revision"].clone();
    assert_ne!(first, second);

    let stage = Stage::configured(json!({"rules": [{"function": 5}]})).await;
    let answer = evaluated(&stage, "s", "x::y", json!({})).await;
    assert_eq!(verdict(&answer), "needs_approval locked_down");
    let explanation = answer["explanation"].as_object().unwrap();
    assert_eq!(explanation.get("configuration_revision"), Some(&Value::Null));
    assert_eq!(verdict(&evaluated(&stage, "s", EVALUATE, json!({})).await), "deny human_only_function");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_may_not_evaluate_whatever_the_mode() {
    let stage = Stage::configured(json!({"default_mode": "full", "rules": ["approval::evaluate"]})).await;
    for (function_id, arguments) in
        [(EVALUATE, question("s", "x::y", json!({}))), ("job::run", json!({"function_id": EVALUATE}))]
    {
        let denied = stage.ask("approval::gate", hook("s", "c_1", function_id, arguments)).await;
        assert!(denied["reason"].as_str().unwrap().contains("human_only_function"), "{denied}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_answered_is_refused_by_its_code() {
    let stage = Stage::start().await;
    for (request, field) in [
        (json!({"function_id": "x::y"}), "session_id"),
        (question("", "x::y", json!({})), "session_id"),
        (question("a/b", "x::y", json!({})), "session_id"),
        (question(&"s".repeat(513), "x::y", json!({})), "session_id"),
        (json!({"session_id": "s"}), "function_id"),
        (json!({"session_id": "s", "function_id": "x::y", "function_call_id": "c"}), "function_call_id"),
        (json!({"session_id": "s", "function_call_id": "a/b"}), "function_call_id"),
        (json!({"session_id": "s", "function_call_id": "c", "arguments": "hunter2"}), "arguments"),
        (json!({"session_id": "s", "function_call_id": {"secret": "hunter2"}}), "function_call_id"),
    ] {
        let refusal = stage.call(EVALUATE, request.clone()).await.unwrap_err();
        assert_eq!(refusal.code, "approval/invalid_payload", "{request}");
        assert!(refusal.message.starts_with(&format!("approval/invalid_payload: {field}: ")), "{refusal:?}");
        assert!(!refusal.message.contains("hunter2"), "{refusal:?}");
    }
    let refusal =
        stage.call(EVALUATE, json!({"session_id": "s", "function_call_id": "c"})).await.unwrap_err();
    assert_eq!(refusal.code, "approval/not_held");
    let failing = Act::Instead(Script::refuse("GET_ERROR", "no"));
    stage.wire.break_calls(state_calls("state::get", SETTINGS), failing);
    let refusal = stage.call(EVALUATE, question("unread", "x::y", json!({}))).await.unwrap_err();
    assert_eq!(refusal.code, "approval/state_unavailable");
    stage.wire.mend();
    stage.wire.break_calls(state_calls("state::get", SETTINGS), Act::Instead(Script::Never));
    let refusal = stage.call(EVALUATE, question("unread", "x::y", json!({}))).await.unwrap_err();
    assert_eq!(refusal.code, "approval/state_unavailable", "within a deadline");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_call_remembers_privately_why_it_was_held() {
    let mut stage = Stage::configured(json!({"rules": rules()})).await;
    let arguments = json!({"command": "git push", "password": "hunter2"});
    assert_eq!(stage.gate("s", "c_1", "shell::exec", arguments).await, "hold");
    let revision =
        evaluated(&stage, "s", "x::y", json!({})).await["explanation"]["configuration_revision"].clone();
    let because = json!({
        "rung": "no_rule", "mode": "manual", "configuration_revision": revision,
        "close": [{"index": 1, "rule_id": "git-read", "miss": "arguments"}],
    });
    let row = stage.row(PENDING, "s/c_1").await;
    assert_eq!(row["held_because"], because);
    // Nobody else sees it.
    stage.story_becomes("s", &["created c_1"]).await;
    let listed = stage.ask("approval::list-pending", json!({})).await;
    let read =
        stage.ask("approval::get-pending", json!({"session_id": "s", "function_call_id": "c_1"})).await;
    for seen in [&listed, &read, &stage.events()[0].payload] {
        assert!(seen.to_string().contains("c_1") && !seen.to_string().contains("held_because"), "{seen}");
    }
    // What was known then is told later, also when other rules are in force and by a worker that was started again.
    stage.configure(&json!({"rules": ["*"]})).await;
    stage.restart_worker().await;
    let asked = json!({"session_id": "s", "function_call_id": "c_1"});
    let answer = stage.ask(EVALUATE, asked.clone()).await;
    let held = json!({
        "function_id": "shell::exec", "kind": "function", "pending_at": row["pending_at"], "digest": row["digest"],
        "because": because,
    });
    assert_eq!(answer, json!({"verdict": "needs_approval", "held": held}));
    let decided = json!({"session_id": "s", "function_call_id": "c_1", "decision": "deny"});
    stage.ask("approval::resolve", decided).await;
    stage.row_gone(PENDING, "s/c_1").await;
    let refusal =
        eventually("the hold to be gone", || async { stage.call(EVALUATE, asked.clone()).await.err() }).await;
    assert_eq!(refusal.code, "approval/not_held");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_without_a_remembered_reason_and_one_for_access_say_what_is_known() {
    let mut damaged = record("s", "damaged", 3);
    damaged["held_because"] = json!({"rung": 5});
    let rows = [
        ("s/older", record("s", "older", 1)),
        ("s/folder", filesystem_record("s", "folder", "/data")),
        ("s/damaged", damaged),
    ];
    let rows = rows.map(|(key, row)| (PENDING.to_owned(), key.to_owned(), row)).into();
    let stage = Stage::with(StageOptions { rows, ..StageOptions::default() }).await;
    for call in ["older", "damaged"] {
        let answer = stage.ask(EVALUATE, json!({"session_id": "s", "function_call_id": call})).await;
        let fields: Vec<_> = answer["held"].as_object().unwrap().keys().collect();
        assert_eq!(fields, ["function_id", "kind", "pending_at"], "{answer}");
    }
    let asked = failure("s", "fresh", "S215", "/other", "/other/f");
    assert_eq!(stage.ask("approval::filesystem-access-watch", asked).await["decision"], "hold");
    for (call, root) in [("folder", "/data"), ("fresh", "/other")] {
        let answer = stage.ask(EVALUATE, json!({"session_id": "s", "function_call_id": call})).await;
        assert_eq!(answer["held"]["kind"], "filesystem_access");
        assert_eq!(answer["held"]["access_request"]["requested_root"], root);
        assert!(answer["held"].get("because").is_none(), "{answer}");
    }
}
