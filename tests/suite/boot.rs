//! Boot (contract §9): in which order, what is stored, what is bound, and how it goes when peers are late or refuse.

use serde_json::{Value, json};

use crate::support::siblings::{POST_TRIGGER, PRE_TRIGGER, SESSION_DELETED, TURN_COMPLETED};
use crate::support::stage::{CREATED, ENTRY, RESOLVED, hook};
use crate::support::worker::is_at;
use crate::support::{Stage, StageOptions, eventually};

/// Every function of the contract, and the older name of the watch.
const FUNCTIONS: [&str; 15] = [
    "approval::gate",
    "approval::filesystem-access-watch",
    "approval::grant-watch",
    "approval::resolve",
    "approval::list-pending",
    "approval::get-pending",
    "approval::set-mode",
    "approval::add-always-allow",
    "approval::remove-always-allow",
    "approval::approve-always",
    "approval::get-settings",
    "approval::clear-settings",
    "approval::on-session-deleted",
    "approval::on-turn-completed",
    "approval::on-config-change",
];

async fn stored(stage: &Stage) -> Value {
    stage.ask("configuration::get", json!({"id": ENTRY, "raw": true})).await["value"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_steps_come_in_order_and_the_worker_is_ready_last() {
    let stage = Stage::start().await;
    let steps: Vec<String> = stage
        .wire
        .written_since(0)
        .into_iter()
        .map(|frame| match frame["type"].as_str().unwrap() {
            "invokefunction" => frame["function_id"].as_str().unwrap().to_owned(),
            "registertrigger" => format!("bind {}", frame["trigger_type"].as_str().unwrap()),
            other => other.to_owned(),
        })
        .collect();
    let first = |step: &str| {
        steps.iter().position(|one| one == step).unwrap_or_else(|| panic!("no {step} in {steps:?}"))
    };
    let last = |step: &str| steps.iter().rposition(|one| one == step).unwrap();
    let order = [
        ("configuration::register", "configuration::get"),
        ("configuration::get", "configuration::set"),
        ("configuration::set", "registertriggertype"),
        ("registertriggertype", "registerfunction"),
        ("registerfunction", "bind harness::hook::pre-trigger"),
        ("registerfunction", "bind harness::turn-completed"),
        ("bind harness::hook::pre-trigger", "bind configuration"),
        ("bind harness::hook::post-trigger", "bind configuration"),
        ("bind session::deleted", "bind configuration"),
        ("bind configuration", "engine::workers::register"),
    ];
    for (before, after) in order {
        let before_ends = if before == "configuration::get" { first(before) } else { last(before) };
        assert!(before_ends < first(after), "{before} does not come before {after}: {steps:?}");
    }
    assert_eq!(stage.worker.ready_lines(), 1, "{}", stage.worker.log_text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_schema_is_registered_without_a_value() {
    let value = json!({"default_mode": "auto", "rules": ["web::*"], "grant_reask_limit": 1});
    let stage = Stage::configured(value.clone()).await;
    let registered = stage.wire.calls_since(0, "configuration::register");
    assert!(!registered.is_empty());
    for call in &registered {
        assert_eq!(call["id"], ENTRY);
        assert!(call.get("initial_value").is_none_or(Value::is_null), "{call}");
        assert!(call["schema"].is_object());
    }
    assert!(stage.wire.calls_since(0, "configuration::set").is_empty());
    assert_eq!(stored(&stage).await, value);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_rules_key_is_added_and_nothing_else_is_touched() {
    let stage =
        Stage::configured(json!({"default_mode": "${SUITE_UNSET_MODE:auto}", "grant_reask_limit": 7})).await;
    assert_eq!(
        stored(&stage).await,
        json!({"default_mode": "${SUITE_UNSET_MODE:auto}", "grant_reask_limit": 7, "rules": ["!approval::*"]})
    );
    let settings = stage.ask("approval::get-settings", json!({"session_id": "s"})).await;
    assert_eq!(settings["settings"]["mode"], "auto");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_seed_is_for_the_first_time_only() {
    let seed = Some("default_mode: full\nrules:\n  - '!web::*'\n".to_owned());
    let first = Stage::with(StageOptions { seed: seed.clone(), ..StageOptions::default() }).await;
    assert_eq!(stored(&first).await["default_mode"], "full");
    let kept = json!({"default_mode": "manual", "rules": [], "grant_reask_limit": 3});
    let later =
        Stage::with(StageOptions { seed, stored: Some(kept.clone()), ..StageOptions::default() }).await;
    assert_eq!(stored(&later).await, kept);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_seed_that_cannot_be_read_is_a_warning_that_names_the_line() {
    let seed = Some("default_mode: manual\nrules:\n  - [unclosed\n".to_owned());
    let stage = Stage::with(StageOptions { seed, ..StageOptions::default() }).await;
    let says = |line: &str| {
        is_at(line, "WARN") && (line.contains("line") || line.contains(":3") || line.contains(":4"))
    };
    stage.worker.logged("about the seed", says).await;
    assert_eq!(stored(&stage).await["rules"], json!(["!approval::*"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_function_and_both_event_types_are_registered_with_their_schemas() {
    let stage = Stage::start().await;
    for function_id in FUNCTIONS {
        let info = stage.ask("engine::functions::info", json!({"function_id": function_id})).await;
        assert!(info["request_schema"].is_object(), "{function_id}: {info}");
        assert!(info["response_schema"].is_object(), "{function_id}: {info}");
        assert!(info["description"].as_str().is_some_and(|text| !text.is_empty()), "{function_id}");
    }
    for trigger_type in [CREATED, RESOLVED] {
        let info = stage.ask("engine::triggers::info", json!({"id": trigger_type})).await;
        assert!(info["configuration_schema"].is_object(), "{info}");
    }
    // Notification workers look for the worker by its name.
    let workers = stage.ask("engine::workers::list", json!({})).await;
    let names =
        workers["workers"].as_array().unwrap().iter().filter(|worker| worker["name"] == "approval-gate");
    assert_eq!(names.count(), 1, "{workers}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bindings_have_stable_ids_and_the_words_the_harness_expects() {
    let stage = Stage::start().await;
    let expected = [
        (
            PRE_TRIGGER,
            "approval::gate",
            json!({"functions": ["*"], "timeout_ms": 5000, "on_error": "fail_closed"}),
        ),
        (
            POST_TRIGGER,
            "approval::filesystem-access-watch",
            json!({"functions": ["shell::*", "coder::*"], "timeout_ms": 5000, "on_error": "fail_open"}),
        ),
        (TURN_COMPLETED, "approval::on-turn-completed", json!({})),
        (SESSION_DELETED, "approval::on-session-deleted", json!({})),
    ];
    for (trigger_type, function_id, config) in expected {
        let bind = eventually(trigger_type, || async { stage.siblings.peer.binds(trigger_type).pop() }).await;
        assert_eq!(bind.function_id, function_id);
        assert!(bind.id.starts_with("approval-gate/"), "{}", bind.id);
        let told = if bind.config.is_null() { json!({}) } else { bind.config };
        assert_eq!(told, config, "{trigger_type}");
    }
    let own = stage
        .ask("engine::registered-triggers::list", json!({"function_id": "approval::on-config-change"}))
        .await;
    let own = &own["registered_triggers"];
    assert_eq!(own.as_array().unwrap().len(), 1, "{own}");
    assert!(own[0]["id"].as_str().unwrap().starts_with("approval-gate/"), "{own}");
    assert_eq!(own[0]["config"]["configuration_id"], ENTRY);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_harness_finds_the_bindings_once_each() {
    let stage = Stage::with(StageOptions { alone: true, ..StageOptions::default() }).await;
    assert_eq!(stage.gate("s", "c_1", "f::x", json!({})).await, "hold");
    stage.siblings.serve_all();
    for trigger_type in [PRE_TRIGGER, POST_TRIGGER, TURN_COMPLETED, SESSION_DELETED] {
        eventually(trigger_type, || async { (!stage.bound(trigger_type).is_empty()).then_some(()) }).await;
        stage.quiet().await;
        assert_eq!(stage.bound(trigger_type).len(), 1, "{trigger_type}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_binding_that_an_older_engine_refuses_is_asked_for_again_under_the_same_id() {
    let stage = Stage::with(StageOptions { alone: true, ..StageOptions::default() }).await;
    let refusal = json!({"code": "trigger_type_not_found", "message": "no such trigger type"});
    stage.siblings.peer.refuse_binds(PRE_TRIGGER, Some(refusal));
    stage.siblings.serve_all();
    let asked =
        || stage.siblings.peer.bind_requests().into_iter().filter(|bind| bind.trigger_type == PRE_TRIGGER);
    eventually("the refused binding", || async { asked().next() }).await;
    stage.siblings.peer.refuse_binds(PRE_TRIGGER, None);
    eventually("the binding to be accepted", || async { stage.bound(PRE_TRIGGER).pop() }).await;
    stage.quiet().await;
    let mut ids: Vec<String> = asked().map(|bind| bind.id).collect();
    ids.dedup();
    assert_eq!(ids.len(), 1, "{ids:?}");
    assert_eq!(stage.bound(PRE_TRIGGER).len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_takes_effect_by_the_engines_own_event() {
    let stage = Stage::start().await;
    assert_eq!(stage.gate("s_0", "c_1", "f::x", json!({})).await, "hold");
    stage
        .ask("configuration::set", json!({"id": ENTRY, "value": {"default_mode": "full", "rules": []}}))
        .await;
    let round = std::sync::atomic::AtomicU64::new(1);
    eventually("the change to be in force", || async {
        let session = format!("s_{}", round.fetch_add(1, std::sync::atomic::Ordering::SeqCst));
        (stage.gate(&session, "c_1", "f::x", json!({})).await == "continue").then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_notice_is_only_a_reason_to_look() {
    let stage = Stage::configured(json!({"default_mode": "manual", "rules": []})).await;
    let lie =
        json!({"id": ENTRY, "new_value": {"default_mode": "full"}, "event_type": "configuration:updated"});
    assert_eq!(stage.ask("approval::on-config-change", lie).await["ok"], true);
    assert_eq!(stage.gate("s", "c_1", "f::x", json!({})).await, "hold");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_schema_takes_both_rule_forms_and_turns_mistakes_down_at_save() {
    let stage = Stage::start().await;
    let good = [
        json!({}),
        json!({"rules": ["shell::*", "!shell::exec", "*"]}),
        json!({"default_mode": "auto", "grant_reask_limit": 0, "rules": [
            {"rule_id": "r", "function": "shell::*", "action": "deny", "modes": ["manual", "auto", "full"],
             "args": {"command": {"matches": "rm"}, "n": {"equals": 1}, "none": {"equals": null}}}]}),
    ];
    for value in &good {
        let set = stage.call("configuration::set", json!({"id": ENTRY, "value": value})).await;
        assert!(set.is_ok(), "{value}: {set:?}");
    }
    let bad = [
        json!({"rules": "*"}),
        json!({"rules": [5]}),
        json!({"rules": [{"function": "x"}]}),
        json!({"rules": [{"function": "x", "action": "block"}]}),
        json!({"rules": [{"function": "x", "action": "allow", "arg": {}}]}),
        json!({"rules": [{"function": "x", "action": "allow", "modes": []}]}),
        json!({"rules": [{"function": "x", "action": "allow", "modes": ["atuo"]}]}),
        json!({"rules": [{"function": "x", "action": "allow", "modes": "auto"}]}),
        json!({"rules": [{"function": "x", "action": "allow", "args": {"c": {"starts": "x"}}}]}),
        json!({"rules": [{"function": "x", "action": "allow", "args": {"c": {}}}]}),
        json!({"rules": [""]}),
        json!({"rules": ["!"]}),
        json!({"rules": ["!!x"]}),
        json!({"rules": [" x"]}),
        json!({"default_mode": "Full"}),
        json!({"grant_reask_limit": -1}),
        json!({"unknown": 1}),
        json!("*"),
    ];
    let saved: Vec<&Value> = {
        let mut saved = Vec::new();
        for value in &bad {
            if stage.call("configuration::set", json!({"id": ENTRY, "value": value})).await.is_ok() {
                saved.push(value);
            }
        }
        saved
    };
    assert!(saved.is_empty(), "the schema lets these be saved: {saved:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn additional_fields_of_the_engine_are_ignored() {
    let stage = Stage::start().await;
    let mut payload = hook("s", "c_1", "f::x", json!({}));
    payload["_caller_worker_id"] = "somebody".into();
    payload["trace"] = json!({"id": 1});
    assert_eq!(stage.ask("approval::gate", payload).await["decision"], "hold");
}
