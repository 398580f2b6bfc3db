//! Narrow remembering: a rule for one session, made from a held call that it fits, never wider than what it was made from.

use serde_json::{Value, json};

use crate::support::stage::{PENDING, SETTINGS, StageOptions, failure, hook, record};
use crate::support::{Stage, eventually};

const APPROVE: &str = "approval::approve-rule";
const REMOVE: &str = "approval::remove-rule";

fn request(rule: Value) -> Value {
    json!({"session_id": "s", "function_call_id": "c_1", "rule": rule})
}

fn making(regex: &str) -> Value {
    json!({"function": "shell::exec", "args": {"command": {"matches": regex}}})
}

async fn held(stage: &Stage, arguments: Value) {
    assert_eq!(stage.gate("s", "c_1", "shell::exec", arguments).await, "hold");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_lets_calls_like_the_held_one_run_in_its_session_until_it_is_removed() {
    let stage = Stage::start().await;
    held(&stage, json!({"command": "make test", "cwd": "/work"})).await;
    let answer = stage.ask(APPROVE, request(making("^make "))).await;
    let rule_id = answer["rule_id"].as_str().unwrap().to_owned();
    let rules = &answer["settings"]["approved_rules"];
    assert_eq!(
        rules[0]["rule"],
        json!({"rule_id": rule_id, "function": "shell::exec", "action": "allow", "args": {"command": {"matches": "^make "}}})
    );
    assert_eq!(rules[0]["granted_by"], "user_click");
    assert!(rules[0]["granted_at"].as_i64().unwrap() > 1_600_000_000_000);
    // The call itself goes on waiting; the next ones do not.
    assert!(!stage.row(PENDING, "s/c_1").await.is_null());
    let gate = async |session: &str, call: &str, arguments: Value| {
        stage.gate(session, call, "shell::exec", arguments).await
    };
    assert_eq!(gate("s", "c_2", json!({"command": "make deploy"})).await, "continue");
    assert_eq!(gate("s", "c_2", json!({"command": "make deploy"})).await, "continue", "from memory too");
    assert_eq!(gate("s", "c_3", json!({"command": "rm -rf make "})).await, "hold");
    assert_eq!(gate("s", "c_4", json!({})).await, "hold");
    assert_eq!(gate("other", "c_5", json!({"command": "make deploy"})).await, "hold");
    assert_eq!(stage.gate("s", "c_6", "shell::run", json!({"command": "make deploy"})).await, "hold");
    // Nothing else was said: the session follows the deployment's mode, and the same rule again changes nothing.
    let stored = stage.row(SETTINGS, "s").await;
    assert_eq!(stored.as_object().unwrap().keys().collect::<Vec<_>>(), ["approved_rules"]);
    stage.ask(APPROVE, request(making("^make "))).await;
    assert_eq!(stage.row(SETTINGS, "s").await, stored);
    let shown = stage.ask("approval::get-settings", json!({"session_id": "s"})).await;
    assert_eq!((&shown["settings"]["approved_rules"], &shown["source"]), (rules, &json!("defaults")));
    let other = stage.ask(REMOVE, json!({"session_id": "s", "rule_id": "no-such"})).await;
    assert_eq!(other["removed"], false);
    let removed = stage.ask(REMOVE, json!({"session_id": "s", "rule_id": rule_id})).await;
    assert_eq!(removed["removed"], true);
    assert!(removed["settings"].get("approved_rules").is_none(), "{removed}");
    assert_eq!(gate("s", "c_7", json!({"command": "make deploy"})).await, "hold");
    assert!(stage.row(SETTINGS, "s").await.is_null());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_survives_a_restart_and_goes_with_the_settings() {
    let mut stage = Stage::start().await;
    held(&stage, json!({"command": "make test"})).await;
    let mut rule = making("^make ");
    rule["rule_id"] = "builds".into();
    assert_eq!(stage.ask(APPROVE, request(rule.clone())).await["rule_id"], "builds");
    stage.restart_worker().await;
    assert_eq!(stage.gate("s", "c_2", "shell::exec", json!({"command": "make all"})).await, "continue");
    // The mode is set, and the rule stays.
    let mode = stage.ask("approval::set-mode", json!({"session_id": "s", "mode": "manual"})).await;
    assert_eq!(mode["settings"]["approved_rules"][0]["rule"]["rule_id"], "builds");
    let mut other = making("^ls ");
    other["rule_id"] = "builds".into();
    other["args"]["command"]["matches"] = "test$".into();
    let refusal = stage.call(APPROVE, request(other)).await.unwrap_err();
    assert_eq!(refusal.code, "approval/invalid_payload");
    assert!(refusal.message.contains("another rule"), "{refusal:?}");
    stage.ask("approval::clear-settings", json!({"session_id": "s"})).await;
    assert_eq!(stage.gate("s", "c_3", "shell::exec", json!({"command": "make all"})).await, "hold");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_that_is_wider_than_a_grant_or_no_rule_is_refused_by_its_field() {
    let stage = Stage::start().await;
    held(&stage, json!({"command": "make test", "n": 1})).await;
    let with = |key: &str, value: Value| {
        let mut rule = making("^make ");
        rule[key] = value;
        rule
    };
    for (rule, field) in [
        (json!("shell::exec"), "rule"),
        (Value::Null, "rule"),
        (with("function", json!("shell::*")), "rule.function"),
        (with("function", json!("approval::resolve")), "rule.function"),
        (with("function", json!("harness::function::resolve")), "rule.function"),
        (with("args", json!({})), "rule.args"),
        (with("modes", json!(["auto"])), "rule.modes"),
        (with("floor", json!(false)), "rule.floor"),
        (with("action", json!("deny")), "rule.action"),
        (with("comment", json!("x")), "rule"),
        (making(""), "rule.args.command"),
        (making(".*"), "rule.args.command"),
        (making("."), "rule.args.command"),
        (making("(make)?"), "rule.args.command"),
        (making("(make"), "rule.args.command"),
        (with("args", json!({"absent": {"equals": null}})), "rule.args.absent"),
    ] {
        let refusal = stage.call(APPROVE, request(rule.clone())).await.unwrap_err();
        assert_eq!(refusal.code, "approval/invalid_payload", "{rule}: {refusal:?}");
        assert!(
            refusal.message.starts_with(&format!("approval/invalid_payload: {field}: ")),
            "{rule}: {refusal:?}"
        );
    }
    let missing =
        stage.call(APPROVE, json!({"session_id": "s", "function_call_id": "c_1"})).await.unwrap_err();
    assert!(missing.message.contains("rule: missing"), "{missing:?}");
    assert!(stage.row(SETTINGS, "s").await.is_null());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_that_the_held_call_does_not_bear_out_is_refused() {
    let stage = Stage::with(StageOptions {
        rows: vec![
            (PENDING.to_owned(), "s/older".to_owned(), record("s", "older", 1000)),
            (PENDING.to_owned(), "s/moved".to_owned(), record("t", "moved", 1000)),
        ],
        ..StageOptions::default()
    })
    .await;
    let long = format!("make {}", "x".repeat(300));
    held(&stage, json!({"command": "make test", "token": "s3cret", "long": long, "lines": "make\nrm", "env": {"api_key": "k"}})).await;
    let rule = |args: Value| json!({"function": "shell::exec", "args": args});
    for (args, field) in [
        (json!({"command": {"matches": "^ls"}}), "rule.args.command"),
        (json!({"command": {"equals": "make"}}), "rule.args.command"),
        (json!({"cmd": {"matches": "^make"}}), "rule.args.cmd"),
        (json!({"token": {"matches": "redacted"}}), "rule.args.token"),
        (json!({"token": {"equals": "s3cret"}}), "rule.args.token"),
        (json!({"long": {"matches": "^make "}}), "rule.args.long"),
        (json!({"lines": {"matches": "^make"}}), "rule.args.lines"),
        (json!({"env": {"equals": {"api_key": "<redacted>"}}}), "rule.args.env"),
        (json!({"command": {"matches": "^make "}, "token": {"equals": "<redacted>"}}), "rule.args.token"),
    ] {
        let refusal = stage.call(APPROVE, request(rule(args.clone()))).await.unwrap_err();
        assert_eq!(refusal.code, "approval/rule_mismatch", "{args}: {refusal:?}");
        assert!(
            refusal.message.contains(field) && !refusal.message.contains("s3cret"),
            "{args}: {refusal:?}"
        );
    }
    let elsewhere = json!({"function": "shell::run", "args": {"command": {"matches": "^make "}}});
    assert_eq!(stage.call(APPROVE, request(elsewhere)).await.unwrap_err().code, "approval/rule_mismatch");
    let cmd = json!({"function": "shell::exec", "args": {"cmd": {"equals": "ls"}}});
    for call in ["older", "moved"] {
        let request = json!({"session_id": "s", "function_call_id": call, "rule": cmd});
        assert_eq!(stage.call(APPROVE, request).await.unwrap_err().code, "approval/rule_mismatch", "{call}");
    }
    assert!(stage.row(SETTINGS, "s").await.is_null());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_such_a_held_call_there_is_no_rule() {
    let stage = Stage::start().await;
    held(&stage, json!({"command": "make test"})).await;
    for (session, call) in [("s", "c_2"), ("other", "c_1")] {
        let request = json!({"session_id": session, "function_call_id": call, "rule": making("^make ")});
        assert_eq!(stage.call(APPROVE, request).await.unwrap_err().code, "approval/not_held");
    }
    let deny = json!({"session_id": "s", "function_call_id": "c_1", "decision": "deny"});
    stage.ask("approval::resolve", deny).await;
    assert_eq!(stage.call(APPROVE, request(making("^make "))).await.unwrap_err().code, "approval/not_held");
    let folder = failure("s", "c_9", "S215", "/data", "/data/f");
    stage.ask("approval::filesystem-access-watch", folder).await;
    let path = json!({"session_id": "s", "function_call_id": "c_9",
                      "rule": {"function": "shell::fs::read", "args": {"path": {"equals": "/data/f"}}}});
    assert_eq!(
        stage.call(APPROVE, path).await.unwrap_err().code,
        "approval/rule_mismatch",
        "a folder, no call"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn floors_and_doors_stay_before_a_rule_and_denials_behind_it() {
    let floor = json!({"function": "shell::exec", "action": "deny", "args": {"zone": {"equals": "prod"}}, "floor": true});
    let stage = Stage::configured(json!({"rules": [floor]})).await;
    held(&stage, json!({"command": "make test"})).await;
    stage.ask(APPROVE, request(making("^make "))).await;
    assert_eq!(
        stage.gate("s", "c_2", "shell::exec", json!({"command": "make x", "zone": "prod"})).await,
        "deny"
    );
    stage.configure(&json!({"rules": ["!shell::*"]})).await;
    assert_eq!(stage.gate("s", "c_3", "shell::exec", json!({"command": "make x"})).await, "continue");
    assert_eq!(stage.gate("s", "c_4", "shell::exec", json!({"command": "ls"})).await, "deny");
    for function_id in [APPROVE, REMOVE] {
        let answer =
            stage.ask("approval::gate", hook("s", "c_5", function_id, request(making("^make ")))).await;
        assert!(answer["reason"].as_str().unwrap().contains("human_only_function"), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stored_rule_that_is_not_understood_closes_the_record() {
    let entry = |rule: Value| json!({"rule": rule, "granted_at": 1, "granted_by": "user_click"});
    let stage = Stage::start().await;
    held(&stage, json!({"command": "make test"})).await;
    for broken in [
        making("("),
        making(".*"),
        json!({"function": "shell::*", "args": {"command": {"equals": "ls"}}}),
        json!("shell::exec"),
    ] {
        let row = json!({"mode": "full", "approved_rules": [entry(making("^make ")), entry(broken.clone())]});
        stage.set_row(SETTINGS, "s", &row).await;
        // Full mode and the rule that is understood count no more.
        eventually("the row to be seen", || async {
            let answer = stage.gate("s", "c_2", "shell::exec", json!({"command": "make x"})).await;
            (answer == "hold").then_some(())
        })
        .await;
        for (function_id, data) in
            [(APPROVE, request(making("^make "))), (REMOVE, json!({"session_id": "s", "rule_id": "x"}))]
        {
            let refusal = stage.call(function_id, data).await.unwrap_err();
            assert_eq!(refusal.code, "approval/state_unavailable", "{broken}");
            assert!(refusal.message.contains("approved_rules[1]"), "{refusal:?}");
        }
        assert_eq!(stage.row(SETTINGS, "s").await, row);
        stage.ask("approval::clear-settings", json!({"session_id": "s"})).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_remembers_two_hundred_rules_and_no_more() {
    let stage = Stage::start().await;
    held(&stage, json!({"command": "make test"})).await;
    let entries: Vec<Value> = (0..200)
        .map(|n| json!({"rule": making(&format!("^make {n}$")), "granted_at": 1, "granted_by": "user_click"}))
        .collect();
    stage.set_row(SETTINGS, "s", &json!({"approved_rules": entries})).await;
    let refusal = stage.call(APPROVE, request(making("^make test$"))).await.unwrap_err();
    assert_eq!(refusal.code, "approval/invalid_payload");
    assert!(refusal.message.contains("200"), "{refusal:?}");
    assert_eq!(stage.gate("s", "c_2", "shell::exec", json!({"command": "make 199"})).await, "continue");
}
