//! The transcripts of the real engine, each played against the local one. What is not played is named here with the
//! reason.

#![allow(clippy::unwrap_used)]

use serde_json::json;

use super::host::Host;
use super::replay::{Plan, play};
use super::wire::{Client, Ended};

/// Transcripts that are not played at all.
const NOT_PLAYED: &[(&str, &str)] = &[
    ("15-limits.jsonl", "needs messages of up to 64 MiB; the limits are tested by hand"),
    ("17-endpoint-paths.jsonl", "no frames but refusals; tested by hand"),
    ("24-stuck-reader.jsonl", "the local engine never blocks a reader on another connection; tested by hand"),
    ("29-configuration-file-edits.jsonl", "the local engine keeps no files"),
    ("30-state-file-store-durability.jsonl", "the local engine keeps no files"),
    (
        "90-official-rust-sdk-against-a-recording-server.jsonl",
        "recorded against another server, not against the engine",
    ),
];

async fn run(plan: Plan) -> Host {
    let host = Host::start(&[]).await;
    play(host.address, &plan).await;
    host
}

macro_rules! plays {
    ($($name:ident: $file:literal $(, $field:ident: $value:expr)*;)+) => {
        $(#[tokio::test]
        async fn $name() {
            run(Plan { file: $file, $($field: $value,)* ..Plan::default() }).await;
        })+

        const PLAYED: &[&str] = &[$($file),+];
    };
}

plays! {
    t01_register_and_invoke: "01-register-and-invoke.jsonl";
    t02_late_answers: "02-timeout-late-answer.jsonl";
    t03_function_not_found: "03-function-not-found.jsonl";
    t04_trigger_type_provider: "04-trigger-type-provider.jsonl";
    t05_bind_to_a_missing_type: "05-bind-missing-trigger-type.jsonl";
    t06_same_id_twice: "06-bind-same-id-twice.jsonl";
    t07_bind_before_provider: "07-bind-before-provider.jsonl";
    t09_state_concurrent: "09-state-concurrent.jsonl";
    t10_state_trigger: "10-state-trigger.jsonl",
        until: Some(("reply vs event order", "needs load; the mute subscriber is tested by hand"));
    t12_reattach: "12-reconnect-reattach.jsonl", engine_ends: &[
        ("A1", Ended::Dropped), ("A2", Ended::WithCloseFrame), ("A7", Ended::Dropped), ("A8", Ended::Dropped),
    ];
    t13_duplicate_function_id: "13-duplicate-function-id.jsonl";
    t14_worker_killed: "14-worker-killed-mid-invocation.jsonl",
        until: Some(("half-open worker", "needs a client that stops reading"));
    t18_held_back: "18-namespace-grace.jsonl",
        skip: &[("596a", "the caller polled, unrecorded; the grace is tested by hand")],
        until: Some(("pipelined without waiting", "needs load"));
    t20_order: "20-invocation-order.jsonl";
    t21_state_settings: "21-state-value-limit-and-live-config.jsonl";
    t22_state_swaps: "22-state-concurrent-delete-and-swap.jsonl";
    t23_trigger_misc: "23-trigger-misc.jsonl";
    t25_namespaces: "25-namespaces.jsonl";
    t26_shutdown: "26-engine-shutdown-and-restart.jsonl",
        until: Some(("SIGTERM to the engine", "needs a process; stopping is tested by hand"));
    t27_two_frames: "27-two-frames-without-an-ack.jsonl";
    t31_null_namespace: "31-null-namespace.jsonl";
}

#[tokio::test]
async fn t08_state() {
    let host = Host::start(&[]).await;
    host.set("s6", "k", json!(1)).await;
    play(host.address, &Plan { file: "08-state-set-get-list-delete-update.jsonl", ..Plan::default() }).await;
}

#[tokio::test]
async fn t11_configuration_and_t11b_after_a_restart() {
    let host = Host::start(&[("MY_TEST_VAR", "7")]).await;
    let plan = Plan {
        file: "11-configuration.jsonl",
        until: Some(("order of events for rapid sets", "needs load")),
        loose: &[
            ("configuration::list", "the real engine lists entries of workers the local one does not have"),
            (
                r#""value":{"mode":"c"}"#,
                "the validator's words for a value outside an `enum` differ by version",
            ),
        ],
        ..Plan::default()
    };
    play(host.address, &plan).await;
    let mut client = Client::open(host.address, "/").await;
    client.call("configuration::set", json!({ "id": "ok_id-1", "value": { "n": 1042 } })).await.unwrap();
    let host = host.restart(&[]).await;
    play(host.address, &Plan { file: "11b-configuration-after-engine-restart.jsonl", ..Plan::default() })
        .await;
}

#[tokio::test]
async fn t16_malformed() {
    let host = Host::start(&[]).await;
    host.set("s15", "k", json!(1)).await;
    play(host.address, &Plan { file: "16-malformed-and-keepalive.jsonl", ..Plan::default() }).await;
}

#[tokio::test]
async fn t19_introspection() {
    const OTHERS: &str = "the real engine has functions, schemas and workers the local one does not have";
    let plan = Plan {
        file: "19-introspection.jsonl",
        skip: &[("functions_changed", "carries the real engine's whole list; tested by hand")],
        extra: &[("functions_changed", "comes by the clock")],
        loose: &[
            (r#""prefix":"engine::""#, OTHERS),
            (r#""function_id":"state::set""#, OTHERS),
            (r#""state::get","no::such""#, OTHERS),
            (r#""id":"state""#, OTHERS),
            (r#""id":"configuration""#, OTHERS),
            (r#"{"data":{},"function_id":"engine::workers::list""#, OTHERS),
            (r#""name":"iii-state""#, OTHERS),
        ],
        ..Plan::default()
    };
    run(plan).await;
}

#[tokio::test]
async fn t28_function_path_binds_end_with_the_engine() {
    let host =
        run(Plan { file: "28a-function-path-bind-before-engine-restart.jsonl", ..Plan::default() }).await;
    let host = host.restart(&[]).await;
    play(
        host.address,
        &Plan { file: "28b-function-path-bind-after-engine-restart.jsonl", ..Plan::default() },
    )
    .await;
}

#[test]
fn every_transcript_is_played_or_says_why_not() {
    let by_hand = [
        "08-state-set-get-list-delete-update.jsonl",
        "11-configuration.jsonl",
        "11b-configuration-after-engine-restart.jsonl",
        "16-malformed-and-keepalive.jsonl",
        "19-introspection.jsonl",
        "28a-function-path-bind-before-engine-restart.jsonl",
        "28b-function-path-bind-after-engine-restart.jsonl",
    ];
    let mut known: Vec<&str> = NOT_PLAYED.iter().map(|(file, _)| *file).chain(by_hand).collect();
    known.extend(PLAYED);
    known.sort_unstable();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/transcripts");
    let mut there: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "README.md")
        .collect();
    there.sort_unstable();
    assert_eq!(there, known);
}
