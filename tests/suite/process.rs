//! The process (contract §9): its words, its exit status, its signals, and how it outlives its engine.

use std::process::Output;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::process::Command;

use crate::support::engine::{Engine, free_port};
use crate::support::siblings::{PRE_TRIGGER, SESSION_GET, Siblings, TURN_COMPLETED};
use crate::support::stage::{PENDING, console, decision, hook};
use crate::support::wire::{Act, calls_of};
use crate::support::worker::{Worker, command, is_at};
use crate::support::{Script, Stage, StageOptions, eventually};

/// The contract gives calls in flight 5 s to end.
const STOPS_WITHIN: Duration = Duration::from_millis(5_500);

/// Runs a command that is expected to end by itself.
async fn ended(command: &mut Command) -> Output {
    let limit = Duration::from_secs(10);
    tokio::time::timeout(limit, command.output()).await.expect("the worker did not end by itself").unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_manifest_is_one_json_object_and_nothing_else() {
    let output = ended(command().arg("--manifest")).await;
    assert!(output.status.success());
    let manifest: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(manifest["name"], "approval-gate");
    assert_eq!(manifest["version"], env!("CARGO_PKG_VERSION"));
    assert!(manifest["description"].as_str().is_some_and(|text| !text.is_empty()));
    assert_eq!(manifest["default_config"]["rules"], json!(["!approval::*"]));
    assert_eq!(manifest["default_config"]["default_mode"], "manual");
    assert_eq!(manifest["default_config"]["grant_reask_limit"], 3);
    assert!(!manifest["supported_targets"].as_array().unwrap().is_empty());
    let keys: Vec<&String> = manifest.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["default_config", "description", "name", "supported_targets", "version"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_ends_the_worker_in_order() {
    for signal in ["TERM", "INT"] {
        let mut stage = Stage::start().await;
        stage.worker.signal(signal).await;
        assert_eq!(stage.worker.ends_within(STOPS_WITHIN).await, Some(Some(0)), "{signal}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_in_flight_is_finished_before_the_end() {
    let mut stage = Stage::start().await;
    let later = Script::After(Duration::from_millis(700), Box::new(Script::Reply(Value::Null)));
    stage.siblings.script(SESSION_GET, later);
    let caller = stage.console.clone();
    let asked =
        tokio::spawn(async move { caller.call("approval::gate", hook("s", "c_1", "f::x", json!({}))).await });
    eventually("the call to be under way", || async { stage.siblings.peer.heard_by(SESSION_GET).pop() })
        .await;
    stage.worker.signal("TERM").await;
    let answer = asked.await.unwrap().unwrap();
    assert_eq!(decision(&answer), "hold");
    assert!(!stage.row(PENDING, "s/c_1").await.is_null());
    assert_eq!(stage.worker.ends_within(STOPS_WITHIN).await, Some(Some(0)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_is_not_there_is_waited_for_and_a_signal_still_ends_it() {
    let url = format!("ws://127.0.0.1:{}", free_port());
    let mut worker = Worker::start(&["--url", &url]);
    assert_eq!(worker.ends_within(Duration::from_millis(1_500)).await, None, "{}", worker.log_text());
    assert!(!worker.says_ready());
    worker.signal("TERM").await;
    assert_eq!(worker.ends_within(STOPS_WITHIN).await, Some(Some(0)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_required_step_that_keeps_failing_ends_in_one_clear_line() {
    let engine = Engine::start().await;
    let wire = crate::support::wire::Wire::in_front_of(&engine.url()).await;
    let refuse = || Act::Instead(Script::refuse("ADAPTER_ERROR", "the disk is full"));
    wire.break_calls(|function_id, _| function_id.starts_with("configuration::"), refuse());
    let mut worker = Worker::start(&["--url", &wire.url()]);
    assert_eq!(worker.ends_within(Duration::from_secs(20)).await, Some(Some(1)), "{}", worker.log_text());
    let tries = wire.calls_since(0, "configuration::register").len()
        + wire.calls_since(0, "configuration::get").len();
    assert!(tries > 1, "it gave up after one try");
    // Warnings may tell of the tries; the end is one line, and says what could not be done.
    let log = worker.log_text();
    let said = log.lines().filter(|line| !["INFO", "WARN", "DEBUG"].iter().any(|level| is_at(line, level)));
    let said: Vec<&str> = said.collect();
    assert!(said.len() == 1 && said[0].contains("configuration"), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_address_is_taken_from_the_argument_then_the_two_variables() {
    let engine = Engine::start().await;
    let (right, wrong) = (engine.url(), format!("ws://127.0.0.1:{}", free_port()));
    let cases: [(&[&str], &[(&str, &str)]); 3] = [
        (&["--url", &right], &[("III_URL", &wrong), ("III_ENGINE_URL", &wrong)]),
        (&[], &[("III_URL", &right), ("III_ENGINE_URL", &wrong)]),
        (&[], &[("III_ENGINE_URL", &right)]),
    ];
    for (arguments, variables) in cases {
        let mut command = command();
        command.args(arguments).envs(variables.iter().copied());
        let mut worker = Worker::run(command);
        worker.ready().await;
        worker.signal("TERM").await;
        assert_eq!(worker.ends_within(STOPS_WITHIN).await, Some(Some(0)));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn placeholders_of_a_seed_come_from_the_environment() {
    let engine = Engine::start().await;
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("seed.yaml");
    std::fs::write(&path, "default_mode: ${SUITE_MODE}\n").unwrap();
    let mut command = command();
    command.args(["--url", &engine.url(), "--config", &path.display().to_string()]).env("SUITE_MODE", "auto");
    let mut worker = Worker::run(command);
    worker.ready().await;
    let console = console(&engine.url()).await;
    let settings = console.ask("approval::get-settings", json!({"session_id": "s"})).await;
    assert_eq!(settings["settings"]["mode"], "auto");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_argument_that_is_not_understood_is_an_error_with_its_name() {
    let output = ended(command().args(["--ulr", "ws://127.0.0.1:1"])).await;
    assert!(output.status.code().is_some_and(|code| code != 0));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--ulr"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holds_and_settings_outlive_a_crash_of_the_worker() {
    let mut stage = Stage::start().await;
    stage.gate("s", "c_1", "f::x", json!({"n": 1})).await;
    stage.ask("approval::set-mode", json!({"session_id": "s_2", "mode": "full"})).await;
    let before = stage.row(PENDING, "s/c_1").await;
    stage.restart_worker().await;
    assert_eq!(stage.gate("s", "c_1", "f::x", json!({"n": 1})).await, "hold");
    assert_eq!(stage.row(PENDING, "s/c_1").await, before, "a redelivery after a restart rewrites nothing");
    assert_eq!(stage.gate("s_2", "c_1", "f::x", json!({})).await, "continue");
    stage.story_becomes("s", &["created c_1"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_engine_is_served_again_with_one_binding_per_purpose() {
    let mut stage =
        Stage::with(StageOptions::stored(json!({"default_mode": "manual", "rules": ["web::*"]}))).await;
    let stopped = stage.engine.stop().await;
    stage.engine = Engine::start_again(stopped).await;
    let back = Instant::now();
    stage.console = console(&stage.engine.url()).await;
    stage.siblings = Siblings::start(&stage.engine.url()).await;
    eventually("the worker to be back", || async {
        stage.call("approval::list-pending", json!({})).await.ok()
    })
    .await;
    assert!(back.elapsed() < Duration::from_secs(3), "it took {:?}", back.elapsed());
    for trigger_type in [PRE_TRIGGER, TURN_COMPLETED] {
        eventually(trigger_type, || async { (!stage.bound(trigger_type).is_empty()).then_some(()) }).await;
        stage.quiet().await;
        assert_eq!(stage.bound(trigger_type).len(), 1);
    }
    assert_eq!(
        stage.gate("s", "c_1", "web::fetch", json!({})).await,
        "continue",
        "configuration was fetched again"
    );
    assert_eq!(stage.gate("s", "c_2", "f::x", json!({})).await, "hold");
    stage.listeners_live().await;
    stage.console.ask("approval::on-session-deleted", json!({"session_id": "s"})).await;
    stage.row_gone(PENDING, "s/c_2").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_configuration_changed_while_the_line_was_cut_is_in_force_after_it() {
    let stage = Stage::configured(json!({"rules": ["web::*"]})).await;
    stage.wire.refuse(true);
    stage.wire.cut();
    // The schema belongs to the worker's registration, which outlives its connection.
    stage.ask("configuration::set", json!({"id": "approval-gate", "value": {"rules": ["!web::*"]}})).await;
    stage.wire.refuse(false);
    eventually("the worker to be back", || async {
        stage.call("approval::list-pending", json!({})).await.ok()
    })
    .await;
    assert_eq!(stage.gate("s", "c_1", "web::fetch", json!({})).await, "deny");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_whose_peers_are_silent_still_ends_in_time() {
    let mut stage = Stage::start().await;
    stage.siblings.script(crate::support::siblings::RESOLVE, Script::Never);
    stage.gate("s", "c_1", "f::x", json!({})).await;
    stage.wire.break_calls(calls_of("session::get"), Act::Instead(Script::Never));
    let caller = stage.console.clone();
    tokio::spawn(async move {
        let request = json!({"session_id": "s", "function_call_id": "c_1", "decision": "allow"});
        let _ = caller.call_within("approval::resolve", request, Duration::from_secs(9)).await;
    });
    eventually("the harness to be asked", || async {
        stage.siblings.peer.heard_by(crate::support::siblings::RESOLVE).pop()
    })
    .await;
    stage.worker.signal("TERM").await;
    assert_eq!(stage.worker.ends_within(STOPS_WITHIN).await, Some(Some(0)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_line_does_not_keep_the_worker_from_ending() {
    let mut stage = Stage::start().await;
    stage.wire.freeze(true);
    stage.worker.signal("TERM").await;
    assert_eq!(stage.worker.ends_within(STOPS_WITHIN + Duration::from_secs(1)).await, Some(Some(0)));
}
