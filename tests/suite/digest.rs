//! A decision bound to what was shown: the digest in records and events, and what `approval::resolve` makes of it.

use serde_json::{Value, json};

use crate::support::Stage;
use crate::support::siblings::RESOLVE;
use crate::support::stage::{PENDING, failure, hook_in, record};

async fn held(stage: &Stage, arguments: Value) -> String {
    assert_eq!(stage.gate("s", "c_1", "shell::exec", arguments).await, "hold");
    shown(stage).await
}

/// The digest that a card shows.
async fn shown(stage: &Stage) -> String {
    let answer =
        stage.ask("approval::get-pending", json!({"session_id": "s", "function_call_id": "c_1"})).await;
    answer["pending"]["digest"].as_str().unwrap_or_else(|| panic!("no digest in {answer}")).to_owned()
}

fn allow(digest: &Value) -> Value {
    json!({"session_id": "s", "function_call_id": "c_1", "decision": "allow", "digest": digest})
}

async fn refused(stage: &Stage, digest: &str) {
    let before = stage.row(PENDING, "s/c_1").await;
    let refusal = stage.call("approval::resolve", allow(&digest.into())).await.unwrap_err();
    assert_eq!(refusal.code, "approval/digest_mismatch");
    assert!(refusal.message.starts_with("approval/digest_mismatch: "), "{}", refusal.message);
    stage.quiet().await;
    assert!(stage.siblings.asked_of(RESOLVE, "s").is_empty(), "the harness was asked");
    assert_eq!(stage.row(PENDING, "s/c_1").await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_digest_is_shown_everywhere_and_its_salt_nowhere() {
    let stage = Stage::start().await;
    let digest = held(&stage, json!({"pin": "1234"})).await;
    let listed = stage.ask("approval::list-pending", json!({})).await["pending"][0].clone();
    let stored = stage.row(PENDING, "s/c_1").await;
    stage.ask("approval::resolve", allow(&digest.as_str().into())).await;
    stage.story_becomes("s", &["created c_1", "resolved c_1 allow"]).await;

    assert!(digest.starts_with("sha256:") && digest.len() == 7 + 64, "{digest}");
    let told = stage.events().into_iter().map(|event| event.payload);
    for seen in told.chain([listed]) {
        assert_eq!(seen["digest"], digest.as_str(), "{seen}");
        assert!(seen.get("salt").is_none() && seen.get("hold_id").is_none(), "{seen}");
    }
    assert_eq!(stored["digest"], digest.as_str());
    assert!(stored["salt"].is_string() && stored["hold_id"].is_string(), "{stored}");
    assert!(!stored["hold_id"].as_str().unwrap().contains(':'), "{stored}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forged_digest_is_refused_before_anything_happens() {
    let stage = Stage::start().await;
    let digest = held(&stage, json!({"command": "ls"})).await;
    for forged in ["", "sha256:", &digest[..70], &digest.to_uppercase(), &"sha256:0".repeat(9)] {
        refused(&stage, forged).await;
    }
    stage.story_becomes("s", &["created c_1"]).await;
    assert_eq!(stage.ask("approval::resolve", allow(&digest.into())).await["resolved"], true);
    stage.story_becomes("s", &["created c_1", "resolved c_1 allow"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_digest_of_a_hold_that_was_replaced_is_stale() {
    let stage = Stage::start().await;
    let first = held(&stage, json!({"command": "ls"})).await;
    let second = held(&stage, json!({"command": "rm -rf /"})).await;
    assert_ne!(first, second);
    refused(&stage, &first).await;
    assert_eq!(stage.ask("approval::resolve", allow(&second.into())).await["resolved"], true);
    let story = ["created c_1", "resolved c_1 aborted", "created c_1", "resolved c_1 allow"];
    stage.story_becomes("s", &story).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_call_in_a_later_turn_or_with_another_question_has_another_digest() {
    let stage = Stage::start().await;
    let arguments = json!({"path": "/data/x"});
    let first = held(&stage, arguments.clone()).await;
    let later = hook_in("t_2", "s", "c_1", "shell::exec", arguments);
    stage.ask("approval::gate", later).await;
    let second = shown(&stage).await;
    stage.ask("approval::filesystem-access-watch", failure("s", "c_1", "S215", "/data", "/data/x")).await;
    let third = shown(&stage).await;
    assert!(first != second && second != third && first != third);
    refused(&stage, &second).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_of_an_older_worker_has_shown_no_digest() {
    let stage = Stage::start().await;
    stage.set_row(PENDING, "s/c_1", &record("s", "c_1", 1)).await;
    refused(&stage, "sha256:0").await;
    assert_eq!(stage.ask("approval::resolve", allow(&Value::Null)).await["resolved"], true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_digest_that_is_no_text_does_not_fit() {
    let stage = Stage::start().await;
    held(&stage, json!({})).await;
    for odd in [json!(5), json!(true), json!([]), json!({"digest": "x"})] {
        let refusal = stage.call("approval::resolve", allow(&odd)).await.unwrap_err();
        assert_eq!(refusal.code, "approval/invalid_payload");
        assert!(refusal.message.contains("digest"), "{}", refusal.message);
    }
    assert!(stage.siblings.asked_of(RESOLVE, "s").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_nothing_waits_a_digest_is_not_looked_at() {
    let stage = Stage::start().await;
    assert_eq!(stage.ask("approval::resolve", allow(&"x".into())).await, json!({"resolved": false}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redelivery_is_known_exactly_by_a_worker_that_was_started_again() {
    let mut stage = Stage::start().await;
    let digest = held(&stage, json!({"command": "login", "password": "one"})).await;
    stage.restart_worker().await;

    let again = held(&stage, json!({"password": "one", "command": "login"})).await;
    assert_eq!(again, digest);
    stage.story_becomes("s", &["created c_1"]).await;

    // The excerpt is the same: only the hidden part differs.
    let other = held(&stage, json!({"command": "login", "password": "two"})).await;
    assert_ne!(other, digest);
    refused(&stage, &digest).await;
}
