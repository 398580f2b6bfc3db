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
                _ => {
                    let mut lines = lines(record, now_ms());
                    let why = gate.why(&record.session_id, &record.function_call_id).await;
                    lines.extend(why.iter().flat_map(why_lines));
                    lines.join("\n")
                }
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
    if let Some(digest) = &record.digest {
        lines.push(labelled("digest", &format!("{}, sent with a decision", safe(digest))));
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

/// Why the gate held it, as `approval::evaluate` tells it. Read loosely, for the answer may grow: what has another form
/// is shown as it is.
fn why_lines(answer: &Value) -> Vec<String> {
    let because = &answer["held"]["because"];
    let Some(rung) = because["rung"].as_str() else {
        let whole = std::iter::once("why".to_owned()).chain(indented(because));
        return if because.is_null() { Vec::new() } else { whole.collect() };
    };
    let why = match rung {
        "no_rule" => "no rule decides it".to_owned(),
        "locked_down" => "no valid configuration was in force".to_owned(),
        other => safe(other),
    };
    let mode = because["mode"].as_str().map(|mode| format!("; mode {}", safe(mode))).unwrap_or_default();
    let mut lines = vec![labelled("why", &format!("{why}{mode}"))];
    for rule in because["close"].as_array().into_iter().flatten() {
        let miss = match rule["miss"].as_str().unwrap_or_default() {
            "mode" => "counts in another mode".to_owned(),
            "arguments" => "the arguments do not fit".to_owned(),
            "mode_and_arguments" => "counts in another mode, and the arguments do not fit".to_owned(),
            other => safe(other),
        };
        let name = word(rule["rule_id"].as_str().unwrap_or_default());
        let index = safe(&rule["index"].to_string());
        lines.push(labelled("came close", &format!("rule {index} {name}: {miss}")));
    }
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
    fn why_it_was_held_is_told_in_words_and_another_form_as_it_is() {
        let close = json!([{"index": 3, "rule_id": "b\nwhy", "miss": "arguments"}, {"index": 4, "rule_id": "a", "miss": "x\u{1b}"}]);
        let because =
            json!({"rung": "no_rule", "mode": "manual", "close": close, "configuration_revision": "1-a"});
        assert_eq!(
            why_lines(&json!({"verdict": "needs_approval", "held": {"because": because}})),
            [
                "why          no rule decides it; mode manual",
                r"came close   rule 3 'b\nwhy': the arguments do not fit",
                r"came close   rule 4 a: x\u{1b}",
            ]
        );
        let other = json!({"held": {"because": ["x\u{1b}[2J\nwhy"]}});
        assert_eq!(why_lines(&other), ["why", "  [", r#"    "x\u001b[2J\nwhy""#, "  ]"]);
        for nothing in [json!(null), json!("held"), json!({"held": {"kind": "function"}})] {
            assert_eq!(why_lines(&nothing), Vec::<String>::new(), "{nothing}");
        }
    }

    #[test]
    fn everything_is_shown_and_nothing_can_forge_a_line() {
        let record = json!({"session_id": "s_1", "turn_id": "t_1", "function_call_id": "c_1",
            "function_id": "shell::fs::read", "kind": "filesystem_access", "pending_at": 1_783_340_000_000_i64, "depth": 1,
            "arguments_excerpt": {"path": "/data\nasks for     folder /safe", "\u{1b}[2J": [1]},
            "session_title": "Fix\nthe build", "session_description": "d\u{202e}", "session_metadata": {"owner": "u_1"}, "digest": "sha256:5f0c\u{1b}",
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
                r"digest       sha256:5f0c\u{1b}, sent with a decision",
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
