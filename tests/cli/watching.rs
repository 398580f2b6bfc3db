//! `watch`, at a pseudo-terminal and without one.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};

use super::support::engine::{Engine, free_port};
use super::support::peer::Peer;
use super::support::siblings::RESOLVE;
use super::support::stage::{ENTRY, SETTINGS, failure, hook};
use super::support::wait::{eventually, within};
use super::support::{Script, Stage, worker};
use super::terminal::Terminal;

const DOWN: &str = "\u{1b}[B";
const ESCAPE: &str = "\u{1b}";

async fn hold(stage: &Stage, call: &str) {
    assert_eq!(
        stage.gate("s_1", call, "shell::exec", json!({"command": format!("make {call}")})).await,
        "hold"
    );
}

/// A terminal that shows the held call `c_1`, selected.
async fn watching() -> (Stage, Terminal) {
    let stage = Stage::start().await;
    hold(&stage, "c_1").await;
    let mut terminal = Terminal::start(&stage.engine.url(), &["watch"]);
    terminal.shows("make c_1").await;
    terminal.types(DOWN).await;
    terminal.shows("> ").await;
    (stage, terminal)
}

#[tokio::test]
async fn the_whole_screen() {
    let stage = Stage::start().await;
    stage.siblings.describe("s_1", &json!({"title": "Fix the build"}));
    hold(&stage, "c_1").await;
    stage
        .ask("approval::filesystem-access-watch", failure("s_2", "c_2", "S215", "/data/in", "/data/in/x"))
        .await;
    let mut terminal = Terminal::start(&stage.engine.url(), &["watch"]);
    terminal.shows("2 held").await;
    terminal.types(DOWN).await;
    let mut shown = terminal.becomes("a selection", |lines| lines[2].starts_with('>')).await;
    for line in &mut shown[2..4] {
        line.replace_range(3..7, " now");
    }
    assert_eq!(
        shown[..18],
        [
            &format!("approval-gate   2 held{:>58}", stage.engine.url()),
            "    AGE  SESSION           SUB  ASKS FOR",
            r#">   now  Fix the build          shell::exec  command="make c_1""#,
            "    now  s_2                    folder /data/in  for shell::fs::read",
            "",
            "",
            "",
            "",
            "",
            "",
            "",
            "",
            &"-".repeat(80),
            "asks to run  shell::exec",
            r#"from         s_1 c_1  "Fix the build""#,
            "arguments",
            "  {",
            r#"    "command": "make c_1""#,
        ]
    );
    assert_eq!(shown[23], "a allow  s session  A always  d deny  enter look  ? keys  q quit");
    terminal.types("q").await;
    assert_eq!(terminal.ends().await, (Some(0), true));
}

#[tokio::test]
async fn a_call_is_allowed_with_one_key_and_denied_with_a_typed_reason() {
    let (stage, mut terminal) = watching().await;
    terminal.types("a").await;
    terminal.shows("c_1: allowed; the turn goes on").await;
    terminal.shows("nothing is held").await;
    hold(&stage, "c_2").await;
    terminal.shows("make c_2").await;
    terminal.types("d").await;
    terminal.shows("nothing is selected").await;
    terminal.types(DOWN).await;
    terminal.shows("> ").await;
    terminal.types("d").await;
    terminal.shows("Why is c_2 denied?").await;
    terminal.types("not on a Friday").await;
    terminal.shows("> not on a Friday").await;
    terminal.types("\r").await;
    terminal.shows("c_2: denied; the turn goes on").await;
    let told = stage.siblings.asked_of(RESOLVE, "s_1");
    assert_eq!(
        (told[0]["action"].as_str(), told[1]["details"]["reason"].as_str()),
        (Some("execute"), Some("not on a Friday"))
    );
}

#[tokio::test]
async fn the_wider_permission_asks_first() {
    let (stage, mut terminal) = watching().await;
    terminal.types("s").await;
    terminal.shows("stop asking about shell::exec in session s_1").await;
    terminal.types("n").await;
    terminal.shows("nothing was decided").await;
    terminal.types("s").await;
    terminal.shows("y  yes").await;
    terminal.types("y").await;
    terminal.shows("c_1: allowed").await;
    assert_eq!(stage.row(SETTINGS, "s_1").await["approved_always"][0]["function_id"], "shell::exec");
}

#[tokio::test]
async fn what_others_decide_vanishes_and_keys_hit_nothing_else() {
    let (stage, mut terminal) = watching().await;
    hold(&stage, "c_2").await;
    terminal.shows("make c_2").await;
    stage
        .ask("approval::resolve", json!({"session_id": "s_1", "function_call_id": "c_1", "decision": "deny"}))
        .await;
    terminal.shows("shell::exec c_1 is denied").await;
    terminal.loses("make c_1").await;
    terminal.types("a").await;
    terminal.shows("nothing is selected").await;
    assert_eq!(stage.siblings.asked_of(RESOLVE, "s_1").len(), 1, "only the other person's decision");
}

#[tokio::test]
async fn a_decision_that_the_harness_did_not_take_can_be_made_again() {
    let (stage, mut terminal) = watching().await;
    stage.siblings.script_for("s_1", RESOLVE, Script::refuse("boom", "no"));
    terminal.types("a").await;
    terminal.shows("still held, try again").await;
    stage.siblings.script_for("s_1", RESOLVE, Script::Reply(json!({"resolved": true, "turn_resumed": true})));
    terminal.types("a").await;
    terminal.shows("c_1: allowed; the turn goes on").await;
}

#[tokio::test]
async fn the_whole_record_can_be_looked_at() {
    let (_stage, mut terminal) = watching().await;
    terminal.types("\r").await;
    terminal.shows("turn         t_1").await;
    terminal.types("?").await;
    terminal.shows("allow this call, once").await;
    terminal.types(ESCAPE).await;
    terminal.shows("turn         t_1").await;
    terminal.types(ESCAPE).await;
    terminal.shows("ASKS FOR").await;
}

#[tokio::test]
async fn it_survives_an_engine_restart_and_is_bound_again() {
    let (stage, terminal) = watching().await;
    let Stage { engine, worker: _worker, .. } = stage;
    let stopped = engine.stop().await;
    terminal.shows("no engine").await;
    let engine = Engine::start_again(stopped).await;
    terminal.loses("no engine").await;
    let peer = Peer::connect(&engine.url()).await;
    eventually("the worker to be back", || async {
        peer.call("approval::list-pending", json!({})).await.ok()
    })
    .await;
    peer.ask("approval::gate", hook("s_1", "c_9", "shell::exec", json!({"command": "make c_9"}))).await;
    terminal.shows("make c_9").await;
}

#[tokio::test]
async fn without_colours_no_code_changes_how_text_looks() {
    let (stage, terminal) = watching().await;
    let has_colours = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        text.split("\u{1b}[").skip(1).any(|code| {
            let end = code.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(0);
            code[end..].starts_with('m') && &code[..end] != "0"
        })
    };
    assert!(!has_colours(&terminal.bytes()));
    let terminal = Terminal::with(&stage.engine.url(), &["watch"], |command| command);
    terminal.shows("make c_1").await;
    assert!(has_colours(&terminal.bytes()));
}

#[tokio::test]
async fn a_small_terminal_and_a_resize_do_no_harm() {
    let stage = Stage::start().await;
    hold(&stage, "c_1").await;
    let mut terminal = Terminal::start(&stage.engine.url(), &["watch"]);
    terminal.shows("make c_1").await;
    for (lines, columns) in [(3, 20), (1, 1), (24, 80)] {
        terminal.resize(lines, columns);
    }
    terminal.shows("make c_1").await;
    terminal.types("\u{3}").await;
    assert_eq!(terminal.ends().await, (Some(0), true));
}

#[tokio::test]
async fn without_a_terminal_each_event_is_a_line() {
    let stage = Stage::start().await;
    hold(&stage, "c_1").await;
    let mut child = worker::command().args(["--url", &stage.engine.url(), "watch"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = async || {
        let line =
            tokio::time::timeout(Duration::from_secs(8), lines.next_line()).await.unwrap().unwrap().unwrap();
        line.split_once("Z  ").unwrap().1.to_owned()
    };
    assert_eq!(next().await, r#"held     s_1 c_1  shell::exec  command="make c_1""#);
    stage
        .ask(
            "approval::resolve",
            json!({"session_id": "s_1", "function_call_id": "c_1", "decision": "deny", "reason": "no\n"}),
        )
        .await;
    let over = next().await;
    assert!(
        over.starts_with("denied   s_1 c_1  shell::exec") || over.starts_with("gone     s_1 c_1"),
        "{over}"
    );
    hold(&stage, "c_2").await;
    assert_eq!(next().await, r#"held     s_1 c_2  shell::exec  command="make c_2""#);
    let pid = child.id().unwrap().to_string();
    tokio::process::Command::new("kill").args(["-INT", &pid]).status().await.unwrap();
    assert_eq!(child.wait().await.unwrap().code(), Some(0));
}

#[tokio::test]
async fn no_engine_at_the_start_is_an_end_and_no_worker_is_waited_for() {
    let nowhere = format!("ws://127.0.0.1:{}", free_port());
    super::shell::run(&nowhere, &["watch"]).await.ended(2);
    let engine = Engine::start().await;
    let terminal = Terminal::start(&engine.url(), &["watch"]);
    terminal.shows("no approval-gate on this engine").await;
    let mut worker = worker::Worker::start(&["--url", &engine.url()]);
    worker.ready().await;
    terminal.loses("no approval-gate").await;
    let peer = Peer::connect(&engine.url()).await;
    assert!(
        within(Duration::from_secs(5), || async {
            peer.call("configuration::get", json!({"id": ENTRY})).await.ok()
        })
        .await
        .is_some()
    );
    peer.ask("approval::gate", hook("s_1", "c_1", "shell::exec", json!({"command": "make c_1"}))).await;
    terminal.shows("make c_1").await;
}
