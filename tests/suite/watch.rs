//! The filesystem watch (contract §4): when a jail error becomes a question, and every doubt a `continue`.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::siblings::GRANTS;
use crate::support::stage::{ATTEMPTS, DENIED, PENDING, decision, failure, failure_of, hook};
use crate::support::wire::{Act, calls_of, state_calls};
use crate::support::worker::is_at;
use crate::support::{Script, Stage};

const WATCH: &str = "approval::filesystem-access-watch";

/// 4,500 ms of the hook's 5,000, and the way there and back.
const ANSWERS_WITHIN: Duration = Duration::from_millis(4_800);

async fn watched(stage: &Stage, payload: Value) -> String {
    decision(&stage.ask(WATCH, payload).await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_alias_answers_as_the_watch_does() {
    let stage = Stage::start().await;
    let answer = stage.ask("approval::grant-watch", failure("s", "c_1", "S215", "/data", "/data/f")).await;
    assert_eq!(decision(&answer), "hold");
    assert_eq!(stage.row(PENDING, "s/c_1").await["kind"], "filesystem_access");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_older_tail_is_understood_and_recorded_in_the_newer_words() {
    let stage = Stage::start().await;
    let mut payload = failure("s", "c_1", "S215", "/data", "/data/f");
    let tail = json!({"v": 1, "dir": "/data", "path": "/data/f", "code": "S215"});
    let message = format!("shell::fs::read: remote error (S215): path escapes grant_hint={tail}");
    payload["result"]["details"]["error"]["message"] = message.clone().into();
    payload["result"]["content"][0]["text"] = message.into();
    assert_eq!(watched(&stage, payload).await, "hold");
    assert_eq!(
        stage.row(PENDING, "s/c_1").await["access_request"],
        json!({"requested_root": "/data", "attempted_path": "/data/f", "error_code": "S215"})
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commands_output_cannot_forge_a_request() {
    let stage = Stage::start().await;
    let mut payload = failure("s", "c_1", "S215", "/data", "/data/f");
    // No code from the harness and no marker in the message: the text block alone is only output.
    payload["result"]["details"]["error"] = json!({"code": null, "message": "shell::exec: exit status 1"});
    assert_eq!(watched(&stage, payload).await, "continue");
    assert!(stage.rows(PENDING).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_of_every_shape_cost_no_more_than_a_continue() {
    let stage = Stage::start().await;
    let call = hook("s", "c_1", "shell::fs::read", json!({}));
    let results = [
        Value::Null,
        json!("text"),
        json!([1]),
        json!({}),
        json!({"is_error": "yes"}),
        json!({"is_error": true, "details": null}),
        json!({"is_error": true, "details": "policy_denied"}),
        json!({"is_error": true, "details": {"error": "policy_denied"}}),
        json!({"is_error": true, "details": {"error": {"code": 5, "message": 5}}}),
        json!({"is_error": true, "details": {"error": {"code": "S215"}}}),
        json!({"is_error": true, "details": {"error": {"code": "engine_restart", "message": "lost"}}}),
        json!({"is_error": false, "details": [1, 2], "content": [{"type": "image", "mime": "image/png", "data": "x"}]}),
        json!({"is_error": false, "details": 5, "content": 5}),
    ];
    for result in results {
        let mut payload = call.clone();
        payload["result"] = result.clone();
        assert_eq!(watched(&stage, payload).await, "continue", "{result}");
    }
    let mut without_call = call;
    without_call.as_object_mut().unwrap().remove("call");
    without_call["result"] = json!({"is_error": true});
    assert_eq!(watched(&stage, without_call).await, "continue");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_root_under_the_workspace_is_the_harness_fault_and_is_said_so() {
    let stage = Stage::start().await;
    let mut payload = failure("s", "c_1", "S220", "/work/app/sub", "/work/app/sub/f");
    payload["metadata"] = json!({"fs_scope": {"root": "/work/app"}});
    assert_eq!(watched(&stage, payload.clone()).await, "continue");
    stage.worker.logged("at error level", |line| is_at(line, "ERROR")).await;
    payload["metadata"] = json!({"working_dir": "/work/app"});
    assert_eq!(watched(&stage, payload).await, "continue", "the older word for the workspace");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_root_of_the_disk_is_never_asked_for() {
    let stage = Stage::start().await;
    for root in ["/", "//", "/x/..", "/./"] {
        assert_eq!(watched(&stage, failure("s", "c_1", "S215", root, "/nope")).await, "continue", "{root}");
    }
    stage.worker.logged("at warn level", |line| is_at(line, "WARN")).await;
    assert!(stage.rows(PENDING).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_or_failing_peers_stand_the_watch_down_in_time() {
    let stage = Stage::start().await;
    stage.siblings.script_for("s_silent", GRANTS, Script::Never);
    let begun = Instant::now();
    assert_eq!(watched(&stage, failure("s_silent", "c_1", "S215", "/data", "/data/f")).await, "continue");
    assert!(begun.elapsed() < ANSWERS_WITHIN, "{:?}", begun.elapsed());

    stage
        .wire
        .break_calls(state_calls("state::get", DENIED), Act::Instead(Script::refuse("GET_ERROR", "no")));
    assert_eq!(watched(&stage, failure("s_denied", "c_1", "S215", "/data", "/data/f")).await, "continue");
    stage.wire.mend();

    stage
        .wire
        .break_calls(state_calls("state::set", PENDING), Act::Instead(Script::refuse("SET_ERROR", "no")));
    assert_eq!(watched(&stage, failure("s_set", "c_1", "S215", "/data", "/data/f")).await, "continue");
    stage.wire.mend();
    assert!(stage.rows(PENDING).await.is_empty());
    stage.wire.break_calls(calls_of("state::get"), Act::Instead(Script::Never));
    let begun = Instant::now();
    assert_eq!(watched(&stage, failure("s_get", "c_1", "S215", "/data", "/data/f")).await, "continue");
    assert!(begun.elapsed() < ANSWERS_WITHIN, "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_is_counted_before_the_hold_and_a_redelivery_is_not() {
    let stage = Stage::start().await;
    let mark = stage.wire.mark();
    let payload = failure("s", "c_1", "S215", "/data", "/data/f");
    assert_eq!(watched(&stage, payload.clone()).await, "hold");
    let scopes: Vec<Value> =
        stage.wire.calls_since(mark, "state::set").into_iter().map(|call| call["scope"].clone()).collect();
    assert_eq!(scopes, [ATTEMPTS, PENDING]);
    assert_eq!(watched(&stage, payload).await, "hold");
    let attempts = stage.row(ATTEMPTS, "s/c_1").await;
    assert_eq!(attempts, json!({"session_id": "s", "function_call_id": "c_1", "turn_id": "t_1", "count": 1}));
    stage.story_becomes("s", &["created c_1"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_denied_in_older_words_stays_denied() {
    let stage = Stage::start().await;
    stage.set_row("approval_grant_denied", "s", &json!(["/data"])).await;
    assert_eq!(watched(&stage, failure("s", "c_1", "S215", "/data/sub", "/data/sub/f")).await, "continue");
    assert_eq!(watched(&stage, failure("s", "c_2", "S215", "/database", "/database/f")).await, "hold");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_shell_and_coder_calls_are_watched() {
    let stage = Stage::start().await;
    for (call, function_id, expected) in [
        ("c_1", "browser::open", "continue"),
        ("c_2", "shellx::exec", "continue"),
        ("c_3", "coder::read-file", "hold"),
    ] {
        let payload = failure_of(&hook("s", call, function_id, json!({})), "C215", "/data", "/data/f");
        assert_eq!(watched(&stage, payload).await, expected, "{function_id}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_watch_asks_in_full_mode_too() {
    let stage = Stage::start().await;
    stage.ask("approval::set-mode", json!({"session_id": "s", "mode": "full"})).await;
    assert_eq!(watched(&stage, failure("s", "c_1", "S215", "/data", "/data/f")).await, "hold");
}
