//! `inbox` and `show`.

use serde_json::{Value, json};

use super::shell::run;
use super::support::stage::{PENDING, StageOptions, filesystem_record, record};
use super::support::{Stage, engine};

/// A stage with these records in the store before the worker starts.
async fn with_rows(rows: Vec<Value>) -> Stage {
    let key = |row: &Value| {
        format!("{}/{}", row["session_id"].as_str().unwrap(), row["function_call_id"].as_str().unwrap())
    };
    let rows = rows.into_iter().map(|row| (PENDING.to_owned(), key(&row), row)).collect();
    Stage::with(StageOptions { rows, ..StageOptions::default() }).await
}

#[tokio::test]
async fn the_inbox_shows_what_is_asked_and_where_it_comes_from_oldest_first() {
    let mut titled = record("s_1", "c_2", 2);
    titled["session_title"] = "Fix the build".into();
    titled["depth"] = 2.into();
    let stage =
        with_rows(vec![filesystem_record("s_2", "c_3", "/data/in"), titled, record("s_1", "c_1", 1)]).await;
    let ran = run(&stage.engine.url(), &["inbox"]).await;
    let lines: Vec<&str> = ran.well().lines().map(|line| line.split_once("  ").unwrap().1).collect();
    assert_eq!(
        lines[..6],
        [
            r#"shell::exec  cmd="ls""#,
            "    s_1 c_1",
            r#"shell::exec  cmd="ls""#,
            r#"    s_1 c_2  sub-agent, depth 2  "Fix the build""#,
            r#"folder /data/in  for shell::fs::read  cmd="ls""#,
            "    s_2 c_3",
        ],
        "{}",
        ran.out
    );
}

#[tokio::test]
async fn the_inbox_goes_through_all_pages_and_filters() {
    let mut rows: Vec<Value> = (0..430).map(|n| record("s_1", &format!("c_{n}"), n)).collect();
    let mut owned = record("s_2", "c_x", 1);
    owned["session_metadata"] = json!({"owner": "u_1"});
    rows.push(owned);
    let stage = with_rows(rows).await;
    let url = stage.engine.url();
    let ids = |out: &str| -> Vec<String> {
        let id = |line: &str| {
            serde_json::from_str::<Value>(line).unwrap()["function_call_id"].as_str().unwrap().to_owned()
        };
        out.lines().map(id).collect()
    };
    let all = run(&url, &["inbox", "--json", "--session", "s_1"]).await;
    let expected: Vec<String> = (0..430).map(|n| format!("c_{n}")).collect();
    assert_eq!(ids(all.well()), expected);
    let owned = run(&url, &["inbox", "--json", "--meta", "owner=u_1"]).await;
    assert_eq!(ids(owned.well()), ["c_x"]);
    assert_eq!(run(&url, &["inbox", "--session", "s_9"]).await.well(), "nothing is held\n");
    assert_eq!(run(&url, &["inbox", "--session", "s_9", "--json"]).await.well(), "");
}

#[tokio::test]
async fn show_prints_one_record_in_full_by_a_beginning_of_its_id() {
    let stage = with_rows(vec![filesystem_record("s_1", "toolu_01A", "/data/in")]).await;
    let url = stage.engine.url();
    let ran = run(&url, &["show", "s_1", "tool"]).await;
    assert!(ran.well().contains("asks for     folder /data/in\n"), "{}", ran.out);
    let json = run(&url, &["show", "s_1", "tool", "--json"]).await;
    assert_eq!(serde_json::from_str::<Value>(json.well()).unwrap()["function_call_id"], "toolu_01A");
    let missing = run(&url, &["show", "s_1", "c_9"]).await;
    assert!(missing.ended(1).err.contains("c_9 is not held in session s_1"), "{missing:?}");
}

#[tokio::test]
async fn a_hostile_record_cannot_move_the_cursor_or_forge_a_line() {
    let hostile = "\u{1b}[2J\u{1b}]0;x\u{7}\u{9b}31m\r\n 12m  shell::exec\u{202e}\u{2028}";
    let mut row = record("s_1", "c_1", 1);
    row["session_title"] = hostile.into();
    row["session_description"] = hostile.into();
    row["session_metadata"] = json!({ hostile: hostile });
    row["function_id"] = hostile.into();
    row["turn_id"] = hostile.into();
    row["assistant_excerpt"] = hostile.into();
    row["arguments_excerpt"] = json!({ hostile: [hostile], "command": hostile });
    row["access_request"] =
        json!({"requested_root": hostile, "attempted_path": hostile, "error_code": hostile});
    row["kind"] = "filesystem_access".into();
    let stage = with_rows(vec![row]).await;
    let url = stage.engine.url();
    for (arguments, lines) in [(vec!["inbox"], 2), (vec!["show", "s_1", "c_1"], 22)] {
        let ran = run(&url, &arguments).await;
        assert!(
            !ran.well().chars().any(|c| c != '\n' && (c.is_control() || "\u{202e}\u{2028}".contains(c))),
            "{ran:?}"
        );
        assert_eq!(ran.out.lines().count(), lines, "{}", ran.out);
    }
}

#[tokio::test]
async fn no_engine_and_no_worker_say_what_to_do() {
    let nowhere = format!("ws://127.0.0.1:{}", engine::free_port());
    let ran = run(&nowhere, &["inbox"]).await;
    assert!(ran.ended(2).err.contains("--url") && ran.out.is_empty(), "{ran:?}");
    let empty = engine::Engine::start().await;
    let ran = run(&empty.url(), &["inbox"]).await;
    assert!(ran.ended(2).err.contains("approval-gate does not run on this engine"), "{ran:?}");
}

#[tokio::test]
async fn a_command_never_takes_the_worker_s_name() {
    let stage = Stage::start().await;
    for _ in 0..3 {
        run(&stage.engine.url(), &["inbox"]).await.well();
    }
    assert_eq!(stage.worker.ready_lines(), 1, "{}", stage.worker.log_text());
}
