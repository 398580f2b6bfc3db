//! The two event types (contract §7): who is told, what is refused, and that no listener can hurt another.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::stage::{CREATED, RESOLVED};
use crate::support::{Script, Stage, eventually};

const TYPES: [&str; 2] = [CREATED, RESOLVED];

async fn heard(stage: &Stage, function_id: &str, count: usize) -> Vec<Value> {
    eventually(&format!("{count} events at {function_id}"), || async {
        let heard = stage.console.heard_by(function_id);
        (heard.len() >= count).then_some(heard)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_binding_that_is_not_understood_is_refused_by_name() {
    let stage = Stage::start().await;
    stage.console.serve("suite::extra", Script::Reply(Value::Null));
    let bad = [
        (json!({"sesion_id": "s"}), "sesion_id"),
        (json!({"session_id": 5}), "session_id"),
        (json!({"metadata": "x"}), "metadata"),
        (json!({"metadata": []}), "metadata"),
        (json!({"session_id": "s", "tool": "bash"}), "tool"),
    ];
    for trigger_type in TYPES {
        for (index, (config, field)) in bad.iter().enumerate() {
            let id = format!("bad-{trigger_type}-{index}");
            stage.console.bind(&id, trigger_type, "suite::extra", config);
            let refusal = eventually("the refusal", || async { stage.console.bind_refused(&id) }).await;
            assert!(refusal.message.contains(field), "{config}: {refusal:?}");
        }
        for config in [json!([]), json!("x"), json!(5)] {
            assert!(
                stage.console.bind_verdict(trigger_type, "suite::extra", &config).await.is_err(),
                "{config}"
            );
        }
    }
    stage.gate("s", "c_1", "f::x", json!({})).await;
    stage.story_becomes("s", &["created c_1"]).await;
    assert!(stage.console.heard_by("suite::extra").is_empty(), "a refused binding got an event");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn absent_and_null_filters_match_everything() {
    let stage = Stage::start().await;
    for (index, config) in
        [Value::Null, json!({}), json!({"session_id": null, "metadata": null})].into_iter().enumerate()
    {
        let function_id = format!("suite::all-{index}");
        stage.console.serve(&function_id, Script::Reply(Value::Null));
        stage.console.bind_live(&function_id, CREATED, &function_id, &config).await;
    }
    stage.gate("s", "c_1", "f::x", json!({})).await;
    for index in 0..3 {
        heard(&stage, &format!("suite::all-{index}"), 1).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn session_and_metadata_filters_hold_for_both_types() {
    let stage = Stage::start().await;
    stage
        .siblings
        .describe("s_1", &json!({"title": "T", "metadata": {"owner": "kim", "n": 1, "deep": {"a": [1]}}}));
    stage.siblings.describe("s_2", &json!({"metadata": {"owner": "lee"}}));
    let filters = [
        ("by-session", json!({"session_id": "s_1"})),
        ("by-owner", json!({"metadata": {"owner": "kim"}})),
        ("by-both", json!({"session_id": "s_1", "metadata": {"owner": "kim", "deep": {"a": [1]}}})),
        ("by-wrong", json!({"session_id": "s_1", "metadata": {"owner": "lee"}})),
        ("by-type", json!({"metadata": {"n": "1"}})),
        ("by-missing", json!({"metadata": {"absent": null}})),
    ];
    for (name, config) in &filters {
        for trigger_type in TYPES {
            let function_id = format!("suite::{name}");
            stage.console.serve(&function_id, Script::Reply(Value::Null));
            stage
                .console
                .bind_live(&format!("{name}-{trigger_type}"), trigger_type, &function_id, config)
                .await;
        }
    }
    for session in ["s_1", "s_2", "s_3"] {
        stage.gate(session, "c_1", "f::x", json!({})).await;
        let request = json!({"session_id": session, "function_call_id": "c_1", "decision": "deny"});
        stage.ask("approval::resolve", request).await;
        stage.story_becomes(session, &["created c_1", "resolved c_1 deny"]).await;
    }
    for (name, _) in &filters {
        let expected = if ["by-session", "by-owner", "by-both"].contains(name) { 2 } else { 0 };
        let got = heard(&stage, &format!("suite::{name}"), expected).await;
        assert_eq!(got.len(), expected, "{name}: {got:?}");
        assert!(got.iter().all(|payload| payload["session_id"] == "s_1"), "{name}: {got:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unbound_listener_gets_nothing_more_and_a_replaced_one_gets_one() {
    let stage = Stage::start().await;
    for name in ["suite::gone", "suite::replaced"] {
        stage.console.serve(name, Script::Reply(Value::Null));
        stage.console.bind_live(name, CREATED, name, &json!({})).await;
    }
    stage.console.unbind("suite::gone");
    stage.console.bind("suite::replaced", CREATED, "suite::replaced", &json!({"session_id": "s"}));
    stage.console.barrier().await;
    stage.ask("approval::list-pending", json!({})).await;
    stage.gate("s", "c_1", "f::x", json!({})).await;
    stage.story_becomes("s", &["created c_1"]).await;
    heard(&stage, "suite::replaced", 1).await;
    assert_eq!(stage.console.heard_by("suite::replaced").len(), 1);
    assert!(stage.console.heard_by("suite::gone").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_void_calls_and_carry_the_bindings_metadata() {
    let stage = Stage::start().await;
    stage.console.serve("suite::marked", Script::Reply(Value::Null));
    stage.console.send(&json!({"type": "registertrigger", "id": "marked", "trigger_type": CREATED,
                               "function_id": "suite::marked", "config": {}, "metadata": {"who": "suite"}}));
    stage.console.barrier().await;
    stage.ask("approval::list-pending", json!({})).await;
    let mark = stage.wire.mark();
    stage.gate("s", "c_1", "f::x", json!({})).await;
    heard(&stage, "suite::marked", 1).await;
    let told = stage.console.heard().into_iter().find(|heard| heard.function_id == "suite::marked").unwrap();
    assert_eq!(told.metadata, Some(json!({"who": "suite"})));
    let frame = stage
        .wire
        .written_since(mark)
        .into_iter()
        .find(|frame| frame["type"] == "invokefunction" && frame["function_id"] == "suite::marked");
    let frame = frame.unwrap();
    assert!(frame["invocation_id"].is_null() || frame["action"]["type"] == "void", "{frame}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_failing_and_missing_listeners_delay_nobody() {
    let stage = Stage::start().await;
    stage.console.serve("suite::never", Script::Never);
    stage.console.serve("suite::fails", Script::refuse("x", "no"));
    for function_id in ["suite::never", "suite::fails", "suite::missing"] {
        stage.console.bind_live(function_id, CREATED, function_id, &json!({})).await;
    }
    let begun = Instant::now();
    for n in 0..20 {
        assert_eq!(stage.gate("s", &format!("c_{n}"), "f::x", json!({})).await, "hold");
    }
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    let expected: Vec<String> = (0..20).map(|n| format!("created c_{n}")).collect();
    stage.story_becomes("s", &expected.iter().map(String::as_str).collect::<Vec<_>>()).await;
}
