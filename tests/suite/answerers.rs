//! Answerers: who is asked before a person is, what counts of what they say, and that no rogue among them can widen,
//! delay or break anything. And `require_listener`: no hold that nobody could see.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::peer::Peer;
use crate::support::siblings::SESSION_GET;
use crate::support::stage::{CREATED, PENDING, decision, failure, hook};
use crate::support::wire::Wire;
use crate::support::{Latch, Script, Stage, StageOptions, eventually, frames};

const ANSWERER: &str = "approval::answerer";
/// As in `gate.rs`: 4,500 ms, and the way there and back.
const ANSWERS_WITHIN: Duration = Duration::from_millis(4_800);

fn answerable() -> Value {
    json!({"rules": [], "answerable": ["shell::*"]})
}

fn says(decision: &str) -> Script {
    Script::Reply(json!({"decision": decision}))
}

/// Serves a function of the console and binds it under its own id.
async fn bind(stage: &Stage, function_id: &str, config: Value, script: Script) {
    stage.console.serve(function_id, script);
    stage.console.bind_live(function_id, ANSWERER, function_id, &config).await;
}

async fn ask(stage: &Stage, call_id: &str) -> Value {
    stage.ask("approval::gate", hook("s", call_id, "shell::exec", json!({"cmd": "ls"}))).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_binding_that_is_not_understood_is_refused_by_name() {
    let stage = Stage::configured(answerable()).await;
    stage.console.serve("suite::judge", says("allow"));
    let bad = [
        (json!({"function": ["shell::*"]}), "function"),
        (json!({"functions": "shell::*"}), "functions"),
        (json!({"functions": []}), "functions"),
        (json!({"functions": ["!shell::*"]}), "functions[0]"),
        (json!({"session_id": 5}), "session_id"),
        (json!({"metadata": []}), "metadata"),
        (json!({"priority": "1"}), "priority"),
        (json!({"timeout_ms": 0}), "timeout_ms"),
        (json!({"timeout_ms": 3001}), "timeout_ms"),
        (json!({"on_error": "fail_closed"}), "on_error"),
        (json!("x"), "config"),
    ];
    for (index, (config, field)) in bad.iter().enumerate() {
        let id = format!("bad-{index}");
        stage.console.bind(&id, ANSWERER, "suite::judge", config);
        let refusal = eventually("the refusal", || async { stage.console.bind_refused(&id) }).await;
        assert!(refusal.message.contains(field), "{config}: {refusal:?}");
    }
    assert_eq!(ask(&stage, "c_1").await["decision"], "hold");
    assert!(stage.console.heard_by("suite::judge").is_empty(), "a refused binding was asked");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_are_asked_by_priority_and_a_deny_is_final() {
    let stage = Stage::configured(answerable()).await;
    bind(&stage, "suite::b", json!({}), says("pass")).await;
    let no = json!({"decision": "deny", "reason": "not on a Friday\u{202e}"});
    bind(&stage, "suite::c", json!({"priority": 0}), Script::Reply(no)).await;
    bind(&stage, "suite::a", json!({"priority": 7}), says("allow")).await;
    bind(&stage, "suite::z", json!({"priority": -7}), says("pass")).await;
    bind(&stage, "suite::db", json!({"functions": ["db::*"], "priority": -9}), says("allow")).await;
    let answer = ask(&stage, "c_1").await;
    assert_eq!(answer["decision"], "deny");
    let reason = answer["reason"].as_str().unwrap();
    assert!(reason.contains("answerer `suite::c`") && reason.contains("not on a Friday"), "{reason}");
    assert!(!reason.contains('\u{202e}'), "{reason}");
    let asked: Vec<String> = stage.console.heard().into_iter().map(|heard| heard.function_id).collect();
    assert_eq!(asked, ["suite::z", "suite::b", "suite::c"]);
    stage.story_becomes("s", &[]).await;
    assert!(stage.rows(PENDING).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_allow_counts_only_for_answerable_functions_and_writes_nothing() {
    let stage = Stage::configured(answerable()).await;
    stage.siblings.describe("s", &json!({"title": "Fix it", "metadata": {"owner": "kim"}}));
    bind(&stage, "suite::judge", json!({"metadata": {"owner": "kim"}}), says("allow")).await;
    let secret =
        json!({"cmd": "deploy --token ghp_abcdefghijklmnopqrstuvwxyz0123456789", "password": "hunter2"});
    let mark = stage.wire.mark();
    let word = stage.gate("s", "c_1", "shell::exec", secret).await;
    assert_eq!(word, "continue");
    assert!(stage.wire.calls_since(mark, "state::set").is_empty());
    let question = stage.console.heard_by("suite::judge").remove(0);
    let record = &question["record"];
    assert_eq!(record["status"], "pending");
    assert_eq!((&record["session_title"], &record["function_call_id"]), (&json!("Fix it"), &json!("c_1")));
    assert!(question["deadline_ms"].as_u64().is_some_and(|left| (1..=1_000).contains(&left)), "{question}");
    let text = question.to_string();
    assert!(!text.contains("hunter2") && !text.contains("ghp_") && !text.contains("hold_id"), "{text}");

    assert_eq!(stage.gate("s", "c_2", "db::drop", json!({})).await, "hold");
    assert_eq!(stage.gate("s_other", "c_3", "shell::exec", json!({})).await, "hold", "other metadata");
    assert_eq!(stage.console.heard_by("suite::judge").len(), 2);
    stage.story_becomes("s", &["created c_2"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_is_no_plain_answer_in_time_counts() {
    let stage = Stage::configured(answerable()).await;
    let rogues = [
        Script::Never,
        Script::After(Duration::from_millis(1_500), Box::new(says("allow"))),
        Script::refuse("allow", "{\"decision\": \"allow\"}"),
        Script::Reply(Value::Null),
        Script::Reply(json!("allow")),
        Script::Reply(json!(["allow"])),
        Script::Reply(json!({"decision": "Allow"})),
        Script::Reply(json!({"decision": "continue"})),
        Script::Reply(json!({"decision": "allow", "mode": "full"})),
        Script::Reply(json!({"decision": ["allow"]})),
        Script::Reply(json!({"decision": "allow", "reason": "x".repeat(2 << 20)})),
        says("pass"),
    ];
    for (index, rogue) in rogues.into_iter().enumerate() {
        bind(&stage, "suite::judge", json!({}), rogue).await;
        let call_id = format!("c_{index}");
        let begun = Instant::now();
        assert_eq!(ask(&stage, &call_id).await["decision"], "hold", "rogue {index}");
        assert!(begun.elapsed() < ANSWERS_WITHIN, "{:?}", begun.elapsed());
        let request = json!({"session_id": "s", "function_call_id": call_id, "decision": "deny"});
        assert_eq!(stage.ask("approval::resolve", request).await["resolved"], true);
    }
    stage.console.withdraw("suite::judge");
    assert_eq!(ask(&stage, "c_gone").await["decision"], "hold", "a function that nobody offers");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_given_twice_or_late_change_nothing() {
    let stage = Stage::configured(answerable()).await;
    bind(&stage, "suite::judge", json!({"timeout_ms": 400}), Script::Never).await;
    let word = ask(&stage, "c_1").await;
    assert_eq!(word["decision"], "hold");
    let asked = stage.console.heard().into_iter().find(|heard| heard.function_id == "suite::judge").unwrap();
    let invocation = json!({"invocation_id": asked.invocation_id, "function_id": asked.function_id});
    for decision in ["allow", "deny", "allow"].iter().cycle().take(300) {
        stage.console.send(&frames::answer(&invocation, &json!({"decision": decision})));
    }
    stage.console.barrier().await;
    stage.story_becomes("s", &["created c_1"]).await;
    let console = stage.console.clone();
    let second = tokio::spawn(async move {
        console.ask("approval::gate", hook("s", "c_2", "shell::exec", json!({}))).await
    });
    let asked = eventually("the second question", || async {
        stage.console.heard().into_iter().rfind(|heard| heard.data["record"]["function_call_id"] == "c_2")
    })
    .await;
    let invocation = json!({"invocation_id": asked.invocation_id, "function_id": asked.function_id});
    for decision in ["deny", "allow", "allow"] {
        stage.console.send(&frames::answer(&invocation, &json!({"decision": decision})));
    }
    assert_eq!(decision(&second.await.unwrap()), "deny", "the first answer is the answer");
    let request = json!({"session_id": "s", "function_call_id": "c_1", "decision": "allow"});
    assert_eq!(stage.ask("approval::resolve", request).await["resolved"], true);
    stage.story_becomes("s", &["created c_1", "resolved c_1 allow"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answerer_that_dies_while_it_is_asked_is_passed_over_at_once() {
    let stage = Stage::configured(answerable()).await;
    let its_wire = Wire::in_front_of(&stage.engine.url()).await;
    let doomed = Peer::connect(&its_wire.url()).await;
    doomed.serve("suite::doomed", Script::Never);
    doomed.bind_live("suite::doomed", ANSWERER, "suite::doomed", &json!({"timeout_ms": 3000})).await;
    let console = stage.console.clone();
    let asked = tokio::spawn(async move {
        console.ask("approval::gate", hook("s", "c_1", "shell::exec", json!({}))).await
    });
    eventually("the question", || async { doomed.heard_by("suite::doomed").pop() }).await;
    let begun = Instant::now();
    its_wire.cut();
    assert_eq!(decision(&asked.await.unwrap()), "hold");
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    let begun = Instant::now();
    assert_eq!(ask(&stage, "c_2").await["decision"], "hold");
    assert!(begun.elapsed() < Duration::from_secs(1), "its binding went with it: {:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_answerers_cost_their_own_calls_a_bounded_time_and_other_calls_nothing() {
    let stage = Stage::configured(answerable()).await;
    for name in ["suite::a", "suite::b", "suite::c"] {
        bind(&stage, name, json!({"timeout_ms": 3000}), Script::Never).await;
    }
    let begun = Instant::now();
    let slow: Vec<_> = (0..100)
        .map(|n| {
            let console = stage.console.clone();
            let payload = hook("s", &format!("c_{n}"), "shell::exec", json!({}));
            tokio::spawn(async move { console.ask("approval::gate", payload).await })
        })
        .collect();
    eventually("the questions", || async { (stage.console.heard_by("suite::a").len() >= 64).then_some(()) })
        .await;
    assert_eq!(stage.console.heard_by("suite::a").len(), 64, "no more than 64 at a time");
    let meanwhile = Instant::now();
    stage.configure(&json!({"rules": ["clock::now"], "answerable": ["shell::*"]})).await;
    assert_eq!(stage.gate("s", "quick", "clock::now", json!({})).await, "continue");
    let request = json!({"session_id": "s", "function_call_id": "c_0", "decision": "deny"});
    assert_eq!(stage.ask("approval::resolve", request).await["resolved"], false, "not held yet");
    assert!(meanwhile.elapsed() < Duration::from_secs(1), "{:?}", meanwhile.elapsed());
    for answer in slow {
        assert_eq!(decision(&answer.await.unwrap()), "hold");
    }
    assert!(begun.elapsed() < ANSWERS_WITHIN, "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_waits_already_is_not_put_to_them() {
    let stage = Stage::configured(answerable()).await;
    assert_eq!(ask(&stage, "c_1").await["decision"], "hold");
    bind(&stage, "suite::judge", json!({}), says("allow")).await;
    for _ in 0..3 {
        assert_eq!(ask(&stage, "c_1").await["decision"], "hold");
    }
    assert!(stage.console.heard_by("suite::judge").is_empty());
    stage.story_becomes("s", &["created c_1"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_lock_down_nobody_is_asked() {
    let stage = Stage::with(StageOptions::stored(json!({"answerable": ["*"], "rules": ["!!x"]}))).await;
    bind(&stage, "suite::judge", json!({}), says("allow")).await;
    assert_eq!(ask(&stage, "c_1").await["decision"], "hold");
    assert!(stage.console.heard_by("suite::judge").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_floor_that_comes_while_an_answerer_thinks_wins() {
    let stage = Stage::configured(answerable()).await;
    let latch = Latch::new();
    let late = Script::When(latch.clone(), Box::new(says("allow")));
    bind(&stage, "suite::judge", json!({"timeout_ms": 3000}), late).await;
    let console = stage.console.clone();
    let asked = tokio::spawn(async move {
        console.ask("approval::gate", hook("s", "c_1", "shell::exec", json!({}))).await
    });
    eventually("the question", || async { stage.console.heard_by("suite::judge").pop() }).await;
    let floor = json!({"rule_id": "no-shell", "function": "shell::*", "action": "deny", "floor": true});
    stage.configure(&json!({"rules": [floor], "answerable": ["shell::*"]})).await;
    latch.open();
    let answer = asked.await.unwrap();
    assert_eq!(answer["decision"], "deny");
    assert!(answer["reason"].as_str().unwrap().contains("no-shell"), "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answerer_may_call_the_gate_while_it_is_asked() {
    let stage = Stage::configured(answerable()).await;
    let console = stage.console.clone();
    let judge = Script::run(move |question| {
        let console = console.clone();
        async move {
            let ids = json!({"session_id": "s", "function_call_id": question["record"]["function_call_id"]});
            assert_eq!(console.ask("approval::get-pending", ids.clone()).await, Value::Null);
            let mut request = ids;
            request["decision"] = "allow".into();
            let resolved = console.ask("approval::resolve", request).await;
            says(if resolved["resolved"] == false { "allow" } else { "deny" })
        }
    });
    bind(&stage, "suite::judge", json!({}), judge).await;
    assert_eq!(ask(&stage, "c_1").await["decision"], "continue");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_agent_binds_an_answerer_in_any_mode() {
    let stage = Stage::configured(json!({"rules": ["*"], "answerable": ["*"]})).await;
    stage.ask("approval::set-mode", json!({"session_id": "s", "mode": "full"})).await;
    let binding = json!({"trigger_type": ANSWERER, "function_id": "mine::judge", "config": {}});
    for (index, (function_id, arguments)) in [
        ("engine::register_trigger", binding.clone()),
        ("engine::register_trigger", json!([ANSWERER, "mine::judge", {}])),
        ("queue::enqueue", json!({"function_id": "engine::register_trigger", "payload": binding})),
    ]
    .into_iter()
    .enumerate()
    {
        let payload = hook("s", &format!("c_{index}"), function_id, arguments.clone());
        let answer = stage.ask("approval::gate", payload).await;
        assert_eq!(answer["decision"], "deny", "{arguments}");
        assert!(answer["reason"].as_str().unwrap().contains("human_only_function"), "{answer}");
    }
}

/// Waits until a call is let through by the answerer. One that is held once is a person's, so that each try is a new one.
async fn is_asked(stage: &Stage, name: &str) {
    let tries = AtomicUsize::new(0);
    eventually(&format!("the answerer to be asked: {name}"), || async {
        let call_id = format!("{name}-{}", tries.fetch_add(1, Ordering::Relaxed));
        let answer =
            stage.call("approval::gate", hook("s", &call_id, "shell::exec", json!({}))).await.ok()?;
        (answer["decision"] == "continue").then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bindings_come_back_after_a_lost_connection_and_carry_their_metadata() {
    let mut stage = Stage::configured(answerable()).await;
    stage.console.serve("suite::judge", says("allow"));
    stage.console.send(&json!({"type": "registertrigger", "id": "judge", "trigger_type": ANSWERER,
        "function_id": "suite::judge", "config": {}, "metadata": {"who": "suite"}}));
    stage.console.barrier().await;
    is_asked(&stage, "before").await;
    stage.wire.cut();
    is_asked(&stage, "lost").await;
    stage.restart_worker().await;
    is_asked(&stage, "restarted").await;
    let asked = stage.console.heard().into_iter().filter(|heard| heard.function_id == "suite::judge");
    assert!(asked.map(|heard| heard.metadata).all(|metadata| metadata == Some(json!({"who": "suite"}))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_lost_while_an_answerer_thinks_leaves_nothing_behind() {
    let stage = Stage::configured(answerable()).await;
    bind(&stage, "suite::judge", json!({"timeout_ms": 3000}), Script::Never).await;
    for n in 0..64 {
        let payload = hook("s_lost", &format!("c_{n}"), "shell::exec", json!({}));
        stage.console.send(&frames::invoke(&uuid::Uuid::new_v4().to_string(), "approval::gate", &payload));
    }
    let questions = || async { (stage.console.heard_by("suite::judge").len() == 64).then_some(()) };
    eventually("all questions", questions).await;
    stage.console.serve("suite::judge", says("allow"));
    stage.wire.cut();
    is_asked(&stage, "again").await;
    assert!(stage.rows(PENDING).await.iter().all(|row| row["session_id"] != "s_lost"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_is_in_time_although_nothing_else_is() {
    let stage = Stage::configured(answerable()).await;
    stage.siblings.script(SESSION_GET, Script::Never);
    for name in ["suite::a", "suite::b"] {
        bind(&stage, name, json!({"timeout_ms": 3000}), Script::Never).await;
    }
    let begun = Instant::now();
    assert_eq!(ask(&stage, "c_1").await["decision"], "hold");
    assert!(begun.elapsed() < ANSWERS_WITHIN, "{:?}", begun.elapsed());
    stage.story_becomes("s", &["created c_1"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_a_listener_is_required_a_call_that_nobody_could_see_is_denied_and_says_why() {
    let stage = Stage::configured(json!({"rules": [], "require_listener": true})).await;
    assert_eq!(ask(&stage, "c_1").await["decision"], "hold", "the console listens");
    stage.console.unbind(CREATED);
    stage.console.barrier().await;
    let tries = AtomicUsize::new(0);
    let denied = eventually("the listener to be gone", || async {
        let call_id = format!("try-{}", tries.fetch_add(1, Ordering::Relaxed));
        Some(ask(&stage, &call_id).await).filter(|answer| answer["decision"] == "deny")
    })
    .await;
    let reason = denied["reason"].as_str().unwrap();
    assert!(reason.contains("gate_unavailable") && reason.contains("operator"), "{reason}");
    assert_eq!(ask(&stage, "c_1").await["decision"], "hold", "what waits already goes on waiting");

    let failed = failure("s", "f_1", "S215", "/data", "/data/f");
    let watched = stage.ask("approval::filesystem-access-watch", failed.clone()).await;
    assert_eq!(decision(&watched), "continue", "the error goes to the model");
    assert!(stage.row(PENDING, "s/f_1").await.is_null());

    stage.console.bind_live("other", CREATED, "suite::on-created", &json!({"session_id": "other"})).await;
    assert_eq!(ask(&stage, "c_3").await["decision"], "deny", "a listener of another session");
    bind(&stage, "suite::judge", json!({"functions": ["shell::*"]}), says("pass")).await;
    assert_eq!(ask(&stage, "c_3").await["decision"], "hold", "an answerer has seen it");
    assert_eq!(stage.gate("s", "c_4", "db::q", json!({})).await, "deny", "and is not about this one");
    let watched = stage.ask("approval::filesystem-access-watch", failed.clone()).await;
    assert_eq!(decision(&watched), "continue", "folders are not put to answerers");
    stage.console.bind_live("mine", CREATED, "suite::on-created", &json!({"session_id": "s"})).await;
    assert_eq!(stage.gate("s", "c_4", "db::q", json!({})).await, "hold");
    let watched = stage.ask("approval::filesystem-access-watch", failed).await;
    assert_eq!(decision(&watched), "hold");
    assert_eq!(stage.console.heard_by("suite::judge").len(), 1);
}
