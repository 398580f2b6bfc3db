//! The pictures in the README: what the binary prints for a fixed inbox, in 80 columns.
//!
//! Each stands between `<!-- picture: name -->` and `<!-- /picture -->`. The test fails when one is out of date;
//! `UPDATE_PICTURES=1 cargo test --test cli pictures` draws them again. A further picture is a name and a few lines here
//! and its two marks in the README.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::support::Stage;
use super::support::stage::{PENDING, StageOptions};
use super::terminal::Terminal;

const DOWN: &str = "\u{1b}[B";

/// A held call of a session, so many minutes ago.
fn row(session: &str, title: &str, call: &str, minutes: i64, more: &Value) -> (String, String, Value) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    // Well inside the minute, so that its number does not change while the picture is drawn.
    let pending_at = i64::try_from(now).unwrap() - minutes * 60_000 - 5_000;
    let mut record = json!({"session_id": session, "turn_id": "t_1", "function_call_id": call, "kind": "function",
        "session_title": title, "pending_at": pending_at, "depth": 0});
    record.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    (PENDING.to_owned(), format!("{session}/{call}"), record)
}

async fn stage() -> Stage {
    let rows = vec![
        row(
            "s_7",
            "Fix the build",
            "toolu_01A",
            12,
            &json!({"function_id": "shell::exec",
            "arguments_excerpt": {"command": "make deploy --token <redacted>", "cwd": "/srv/app"}}),
        ),
        row(
            "s_9",
            "Monthly report",
            "toolu_01H",
            3,
            &json!({"function_id": "shell::fs::read", "depth": 1,
            "kind": "filesystem_access", "arguments_excerpt": {"path": "/data/in/may.csv"},
            "access_request": {"requested_root": "/data/in", "attempted_path": "/data/in/may.csv", "error_code": "S215"}}),
        ),
        row(
            "s_9",
            "Monthly report",
            "toolu_01K",
            1,
            &json!({"function_id": "mail::send",
            "arguments_excerpt": {"to": "board@example.com", "subject": "May", "attachments": 3}}),
        ),
    ];
    Stage::with(StageOptions { rows, ..StageOptions::default() }).await
}

/// The lines of a screen up to the last one that says something.
fn screen(mut lines: Vec<String>, url: &str) -> String {
    lines.truncate(lines.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1));
    lines.join("\n").replace(url, "ws://127.0.0.1:49134")
}

async fn inbox(url: &str) -> String {
    let terminal = Terminal::start(url, &["inbox"]);
    format!("$ approval-gate inbox\n{}", screen(terminal.shows("held. Next:").await, url))
}

async fn watch(url: &str) -> String {
    let mut terminal = Terminal::start(url, &["watch"]);
    terminal.shows("3 held").await;
    terminal.types(DOWN).await;
    terminal.shows("asks to run").await;
    terminal.types(DOWN).await;
    screen(terminal.shows("asks for").await, url)
}

/// The text with a picture between its marks.
fn with_picture(text: &str, name: &str, picture: &str) -> String {
    let (open, close) = (format!("<!-- picture: {name} -->\n"), "<!-- /picture -->");
    let start = text.find(&open).unwrap_or_else(|| panic!("no place for the picture `{name}`")) + open.len();
    let end = start + text[start..].find(close).unwrap();
    format!("{}```text\n{picture}\n```\n{}", &text[..start], &text[end..])
}

#[tokio::test]
async fn the_pictures_in_the_readme_are_what_the_binary_shows() {
    let stage = stage().await;
    let url = stage.engine.url();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let before = std::fs::read_to_string(&path).unwrap().replace("\r\n", "\n");
    let mut drawn = before.clone();
    for (name, picture) in [("inbox", inbox(&url).await), ("watch", watch(&url).await)] {
        drawn = with_picture(&drawn, name, &picture);
    }
    if std::env::var_os("UPDATE_PICTURES").is_some() {
        std::fs::write(&path, drawn).unwrap();
        return;
    }
    assert_eq!(before, drawn, "`UPDATE_PICTURES=1 cargo test --test cli pictures` draws them again");
}
