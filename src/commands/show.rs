//! `approval-gate show`: one held call with everything that its record says.

use std::fmt::Write as _;
use std::process::ExitCode;

use serde_json::Value;

use super::decide::{self, Found};
use super::peer::{Failure, Filter, Gate};
use super::text::{age, moment, safe, word};
use crate::clock::now_ms;
use crate::wire::record::PendingApprovalRecord;

/// Prints it. Exit status 1 if no call, or more than one, is meant.
pub async fn run(gate: &Gate, session: &str, call: &str, json: bool) -> Result<ExitCode, Failure> {
    let listing = gate.list(&Filter { session: Some(session.to_owned()), ..Filter::default() }).await?;
    match decide::find(&listing.held, call) {
        Found::One(record) => {
            let raw = |raw: &&Value| raw["function_call_id"] == record.function_call_id;
            let shown = match listing.raw.iter().find(raw) {
                Some(raw) if json => raw.to_string(),
                _ => lines(record, now_ms()).join("\n"),
            };
            Ok(super::print(&shown))
        }
        found => {
            eprintln!("approval-gate: {}", decide::not_found(&found, session, call));
            Ok(ExitCode::from(super::person::NOT_DONE))
        }
    }
}

/// All that a record says, line by line, each harmless. Times are milliseconds since the epoch.
pub fn lines(record: &PendingApprovalRecord, now: i64) -> Vec<String> {
    let mut lines = Vec::new();
    let mut say = |label: &str, text: &str| lines.push(labelled(label, text));
    say("call", &word(&record.function_call_id));
    say("session", &word(&record.session_id));
    if let Some(title) = &record.session_title {
        say("title", &safe(title));
    }
    if let Some(description) = &record.session_description {
        say("about", &safe(description));
    }
    say("turn", &word(&record.turn_id));
    let waited = age(now.saturating_sub(record.pending_at));
    say("held", &format!("{waited} ago, at {}", moment(record.pending_at)));
    match record.depth {
        ..=0 => say("depth", "0, the session's own turn"),
        depth => say("depth", &format!("{depth}, a sub-agent")),
    }
    lines.extend(asks(record));
    if let Some(said) = &record.assistant_excerpt {
        lines.push(labelled("said before", &safe(said)));
    }
    lines.extend(argument_lines(record));
    if let Some(metadata) = &record.session_metadata {
        lines.push("metadata".to_owned());
        lines.extend(indented(&Value::Object(metadata.clone())));
    }
    lines
}

/// What is asked: the function to run, or the folder to open, what was tried there and by whom.
pub fn asks(record: &PendingApprovalRecord) -> Vec<String> {
    let function = word(&record.function_id);
    match &record.access_request {
        None => vec![labelled("asks to run", &function)],
        Some(access) => {
            let tried = format!("{} ({})", word(&access.attempted_path), safe(&access.error_code));
            vec![
                labelled("asks for", &format!("folder {}", word(&access.requested_root))),
                labelled("tried", &tried),
                labelled("function", &function),
            ]
        }
    }
}

/// The arguments, one line for each of their lines.
pub fn argument_lines(record: &PendingApprovalRecord) -> Vec<String> {
    let mut lines = vec!["arguments".to_owned()];
    lines.extend(indented(&record.arguments_excerpt));
    lines
}

/// A label and what it says, in two columns.
pub fn labelled(label: &str, text: &str) -> String {
    format!("{label:<12} {text}")
}

/// A value over several lines. JSON spells a line break inside a text, so that the lines are ours.
fn indented(value: &Value) -> Vec<String> {
    let mut text = String::new();
    let _ = write!(text, "{value:#}");
    text.lines().map(|line| format!("  {}", safe(line))).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;
    use crate::wire::record::StoredRow;

    #[test]
    fn everything_is_shown_and_nothing_can_forge_a_line() {
        let record = json!({"session_id": "s_1", "turn_id": "t_1", "function_call_id": "c_1",
            "function_id": "shell::fs::read", "kind": "filesystem_access", "pending_at": 1_783_340_000_000_i64, "depth": 1,
            "arguments_excerpt": {"path": "/data\nasks for     folder /safe", "\u{1b}[2J": [1]},
            "session_title": "Fix\nthe build", "session_description": "d\u{202e}", "session_metadata": {"owner": "u_1"},
            "access_request": {"requested_root": "/data/in", "attempted_path": "/data/in/x y", "error_code": "S215"}});
        let record = StoredRow::read(&record).live().unwrap();
        assert_eq!(
            lines(&record, 1_783_340_720_000),
            [
                "call         c_1",
                "session      s_1",
                r"title        Fix\nthe build",
                r"about        d\u{202e}",
                "turn         t_1",
                "held         12m ago, at 2026-07-06T12:13:20Z",
                "depth        1, a sub-agent",
                "asks for     folder /data/in",
                "tried        '/data/in/x y' (S215)",
                "function     shell::fs::read",
                "arguments",
                "  {",
                r#"    "\u001b[2J": ["#,
                "      1",
                "    ],",
                r#"    "path": "/data\nasks for     folder /safe""#,
                "  }",
                "metadata",
                "  {",
                r#"    "owner": "u_1""#,
                "  }",
            ]
        );
    }
}
