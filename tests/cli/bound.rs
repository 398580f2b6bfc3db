//! What a person decided about is what is decided: digests, from a gate that plays its part by a script.

use serde_json::{Value, json};

use super::shell::run;
use super::support::Script;
use super::support::engine::Engine;
use super::support::peer::Peer;
use super::support::stage::record;

const RESOLVE: &str = "approval::resolve";

/// An engine on which a gate holds this record, and nothing else answers.
async fn holding(row: &Value) -> (Engine, Peer) {
    let engine = Engine::start().await;
    let gate = Peer::connect(&engine.url()).await;
    gate.serve("approval::list-pending", Script::Reply(json!({"pending": [row], "next_cursor": null})));
    gate.serve("approval::get-pending", Script::Reply(json!({"pending": row})));
    gate.serve(RESOLVE, Script::Reply(json!({"resolved": true, "turn_resumed": true})));
    gate.barrier().await;
    (engine, gate)
}

fn with_digest(digest: &str) -> Value {
    let mut row = record("s_1", "c_1", 1);
    row["digest"] = digest.into();
    row
}

#[tokio::test]
async fn each_decision_carries_the_digest_of_its_record_and_none_where_there_is_none() {
    for (row, digest) in
        [(with_digest("sha256:d"), json!("sha256:d")), (record("s_1", "c_1", 1), json!(null))]
    {
        let (engine, gate) = holding(&row).await;
        run(&engine.url(), &["allow", "s_1", "c_1"]).await.well();
        run(&engine.url(), &["deny", "s_1", "--all"]).await.well();
        let asked = gate.heard_by(RESOLVE);
        assert_eq!(asked.len(), 2);
        assert!(asked.iter().all(|request| request["digest"] == digest), "{asked:?}");
    }
}

#[tokio::test]
async fn another_call_under_the_same_name_is_not_decided_and_said_so() {
    let (engine, gate) = holding(&with_digest("sha256:d")).await;
    gate.serve(RESOLVE, Script::refuse("approval/digest_mismatch", "approval/digest_mismatch: another one"));
    let ran = run(&engine.url(), &["allow", "s_1", "c_1"]).await;
    assert!(
        ran.ended(1).out.starts_with("c_1  not done: another call waits there now; look again\n"),
        "{ran:?}"
    );
    // Also where a look is enough to see it: then nobody is asked to decide.
    gate.forget();
    gate.serve("approval::get-pending", Script::Reply(json!({"pending": with_digest("sha256:other")})));
    let ran = run(&engine.url(), &["deny", "s_1", "c_1"]).await;
    assert!(ran.ended(1).out.contains("another call waits there now; look again"), "{ran:?}");
    assert!(gate.heard_by(RESOLVE).is_empty());
}

#[cfg(unix)]
#[tokio::test]
async fn the_watch_says_so_too() {
    let (engine, gate) = holding(&with_digest("sha256:d")).await;
    gate.serve(RESOLVE, Script::refuse("approval/digest_mismatch", "approval/digest_mismatch: another one"));
    let mut terminal = super::terminal::Terminal::start(&engine.url(), &["watch"]);
    terminal.shows("shell::exec").await;
    terminal.types("j").await;
    terminal.shows("asks to run").await;
    terminal.types("a").await;
    terminal.shows("c_1: not done: another call waits there now; look again").await;
    assert_eq!(gate.heard_by(RESOLVE)[0]["digest"], "sha256:d");
}

#[tokio::test]
async fn show_says_the_digest_and_why_it_is_held_if_the_gate_tells() {
    let (engine, gate) = holding(&with_digest("sha256:d")).await;
    let silent = run(&engine.url(), &["show", "s_1", "c_1"]).await;
    assert!(silent.well().contains("\ndigest       sha256:d, sent with a decision\n"), "{silent:?}");
    assert!(!silent.out.contains("\nwhy"), "{silent:?}");
    let close = json!([{"index": 2, "rule_id": "a\u{1b}[2J\nwhy", "miss": "arguments"}]);
    let because = json!({"rung": "no_rule", "mode": "manual", "close": close});
    let answer = json!({"verdict": "needs_approval", "held": {"because": because}});
    gate.serve("approval::evaluate", Script::Reply(answer));
    gate.barrier().await;
    let ran = run(&engine.url(), &["show", "s_1", "c_1"]).await;
    let told = "why          no rule decides it; mode manual\n\
                came close   rule 2 'a\\u{1b}[2J\\nwhy': the arguments do not fit\n";
    assert!(ran.well().ends_with(told), "{ran:?}");
    let asked = json!({"session_id": "s_1", "function_call_id": "c_1"});
    let heard = gate.heard_by("approval::evaluate");
    assert!(
        heard.iter().all(|data| asked.as_object().unwrap().iter().all(|(key, value)| data[key] == *value))
    );
}

#[tokio::test]
async fn a_worker_without_the_additions_is_told_from_one_that_is_not_there() {
    let (engine, _gate) = holding(&record("s_1", "c_1", 1)).await;
    let ran = run(&engine.url(), &["prompts", "s_1"]).await;
    assert!(
        ran.ended(2).err.contains("`approval::get-prompt-policy`") && ran.err.contains("older version"),
        "{ran:?}"
    );
    let ran = run(&engine.url(), &["allow", "s_1", "c_1", "--always-where", "cmd=ls"]).await;
    assert!(ran.ended(1).out.contains("`approval::approve-rule`"), "{ran:?}");
}
