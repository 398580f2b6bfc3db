//! `allow` and `deny`.

use serde_json::json;

use super::shell::run;
use super::support::siblings::{GRANT, RESOLVE};
use super::support::stage::{SETTINGS, failure};
use super::support::{Script, Stage};

/// A stage where these calls of `s_1` are held.
async fn holding(calls: &[&str]) -> Stage {
    let stage = Stage::start().await;
    for call in calls {
        assert_eq!(
            stage.gate("s_1", call, "shell::exec", json!({"command": format!("make {call}")})).await,
            "hold"
        );
    }
    stage
}

#[tokio::test]
async fn several_calls_are_allowed_at_once_and_each_is_named() {
    let stage = holding(&["c_1", "c_2", "d_3"]).await;
    let ran = run(&stage.engine.url(), &["allow", "s_1", "c_1", "d"]).await;
    assert_eq!(
        ran.well(),
        "c_1  allowed; the turn goes on\n     shell::exec  command=\"make c_1\"\n\
         d_3  allowed; the turn goes on\n     shell::exec  command=\"make d_3\"\n"
    );
    let asked = stage.siblings.asked_of(RESOLVE, "s_1");
    assert!(asked.len() == 2 && asked.iter().all(|data| data["action"] == "execute"), "{asked:?}");
    assert_eq!(stage.rows("approval_pending").await.len(), 1);
}

#[tokio::test]
async fn all_of_a_session_is_denied_with_the_reason() {
    let stage = holding(&["c_1", "c_2"]).await;
    stage.gate("s_2", "c_1", "shell::exec", json!({})).await;
    let ran =
        run(&stage.engine.url(), &["deny", "--session", "s_1", "--all", "--reason", "not on a Friday"]).await;
    assert_eq!(ran.well().matches("denied; the turn goes on").count(), 2, "{}", ran.out);
    let told = stage.siblings.asked_of(RESOLVE, "s_1");
    assert!(told.iter().all(|data| data["details"]["reason"] == "not on a Friday"), "{told:?}");
    assert_eq!(stage.rows("approval_pending").await.len(), 1, "another session is not meant");
    let again = run(&stage.engine.url(), &["deny", "s_1", "--all"]).await;
    assert_eq!(again.well(), "nothing is held in session s_1\n");
}

#[tokio::test]
async fn an_ambiguous_beginning_lists_the_candidates_and_decides_nothing() {
    let stage = holding(&["c_1", "c_2"]).await;
    let ran = run(&stage.engine.url(), &["allow", "s_1", "c_", "x"]).await;
    assert!(ran.ended(1).err.contains("c_ fits 2 held calls"), "{ran:?}");
    assert!(
        ran.err.contains("\n  c_2  shell::exec  command=\"make c_2\"") && ran.err.contains("x is not held"),
        "{ran:?}"
    );
    assert!(stage.siblings.asked_of(RESOLVE, "s_1").is_empty());
}

#[tokio::test]
async fn what_was_not_done_says_why_and_is_status_1() {
    let stage = holding(&["c_1"]).await;
    let url = stage.engine.url();
    stage.siblings.script_for("s_1", RESOLVE, Script::refuse("boom", "no"));
    let ran = run(&url, &["allow", "s_1", "c_1"]).await;
    assert!(ran.ended(1).out.contains("the harness did not take it; still held, try again"), "{ran:?}");
    stage.siblings.script_for("s_1", RESOLVE, Script::Reply(json!({"resolved": false})));
    let ran = run(&url, &["allow", "s_1", "c_1"]).await;
    assert!(ran.ended(1).out.contains("nothing waits there any more"), "{ran:?}");
    let ran = run(&url, &["allow", "s_1", "c_1"]).await;
    assert!(ran.ended(1).err.contains("c_1 is not held in session s_1"), "{ran:?}");
}

#[tokio::test]
async fn a_folder_is_opened_for_as_long_as_was_said() {
    let stage = Stage::start().await;
    stage
        .ask("approval::filesystem-access-watch", failure("s_1", "c_1", "S215", "/data/in", "/data/in/x"))
        .await;
    let url = stage.engine.url();
    let misfit = run(&url, &["allow", "s_1", "c_1", "--always-this-function"]).await;
    assert!(misfit.ended(1).out.contains("it asks for a folder; `--for session`"), "{misfit:?}");
    let ran = run(&url, &["allow", "s_1", "c_1", "--for", "session"]).await;
    assert!(
        ran.well().starts_with("c_1  allowed; the turn goes on\n     folder /data/in  for shell::fs::read"),
        "{ran:?}"
    );
    assert_eq!(stage.siblings.asked_of(GRANT, "s_1")[0]["root"], "/data/in");
}

#[tokio::test]
async fn a_function_can_be_approved_for_the_session_and_a_folder_s_word_does_not_do_it() {
    let stage = holding(&["c_1"]).await;
    let url = stage.engine.url();
    let misfit = run(&url, &["allow", "s_1", "c_1", "--for", "session"]).await;
    assert!(misfit.ended(1).out.contains("it asks for no folder"), "{misfit:?}");
    assert!(stage.siblings.asked_of(RESOLVE, "s_1").is_empty(), "it is still held");
    run(&url, &["allow", "s_1", "c_1", "--always-this-function"]).await.well();
    let settings = stage.row(SETTINGS, "s_1").await;
    assert_eq!(settings["approved_always"][0]["function_id"], "shell::exec");
    assert_eq!(stage.gate("s_1", "c_2", "shell::exec", json!({})).await, "continue");
}

#[tokio::test]
async fn half_a_command_line_is_status_2_and_asks_nobody() {
    let stage = holding(&["c_1"]).await;
    let url = stage.engine.url();
    for arguments in [
        vec!["allow"],
        vec!["allow", "s_1"],
        vec!["deny", "s_1", "c_1", "--all"],
        vec!["allow", "s_1", "c_1", "--for", "ever"],
    ] {
        let ran = run(&url, &arguments).await;
        assert!(!ran.ended(2).err.is_empty(), "{ran:?}");
    }
    assert!(stage.siblings.asked_of(RESOLVE, "s_1").is_empty());
}
