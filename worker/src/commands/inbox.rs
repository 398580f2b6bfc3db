//! `approval-gate inbox`: what is held, two lines a call, the longest waiting first.
//!
//! The first line says what is asked, the second where it comes from. The ids stand on the second, whole, because they
//! are what the other commands take.

use std::fmt::Write as _;
use std::process::ExitCode;

use super::peer::{Failure, Filter, Gate};
use super::text::{self, Paint, age, columns, fit, quoted_fit, word};
use crate::clock::now_ms;
use crate::wire::record::PendingApprovalRecord;

/// Columns without a terminal.
const WITHOUT_TERMINAL: usize = 240;
/// Columns in front of both lines.
const MARGIN: usize = 6;
/// The fewest columns for a title or an argument.
const LEAST: usize = 16;

/// Prints it. Exit status 1 if a record cannot be read.
pub async fn run(gate: &Gate, filter: &Filter, json: bool) -> Result<ExitCode, Failure> {
    let listing = gate.list(filter).await?;
    if json {
        let lines: Vec<String> = listing.raw.iter().map(ToString::to_string).collect();
        return Ok(if lines.is_empty() { ExitCode::SUCCESS } else { super::print(&lines.join("\n")) });
    }
    let terminal = std::io::IsTerminal::is_terminal(&std::io::stdout());
    let width = if terminal { terminal_width() } else { WITHOUT_TERMINAL };
    let mut shown = blocks(&listing.held, now_ms(), width, Paint::of_stdout());
    if terminal && let Some(first) = listing.held.first() {
        let _ = write!(shown, "\n{}", hint(first, listing.held.len()));
    }
    let status = super::print(&shown);
    let unreadable = listing.raw.len() - listing.held.len();
    if unreadable == 0 {
        return Ok(status);
    }
    eprintln!(
        "approval-gate: {unreadable} more cannot be read; `approval-gate inbox --json` prints them as they are"
    );
    Ok(ExitCode::from(super::person::NOT_DONE))
}

/// The calls, made for so many columns. Times are milliseconds since the epoch.
pub fn blocks(held: &[PendingApprovalRecord], now: i64, width: usize, paint: Paint) -> String {
    if held.is_empty() {
        return "nothing is held".to_owned();
    }
    let blocks = held.iter().map(|record| {
        let left = width.saturating_sub(MARGIN);
        let waited = format!("{:>4}", age(now.saturating_sub(record.pending_at)));
        let asked = asked(record, left);
        let from = origin(record, left);
        format!("{waited}  {}\n      {}", paint.bold(&asked), paint.dim(&from))
    });
    blocks.collect::<Vec<_>>().join("\n")
}

/// What is asked, on one line: the function or the folder, and as many of the arguments as there is room for.
pub fn asked(record: &PendingApprovalRecord, width: usize) -> String {
    let mut line = match &record.access_request {
        Some(access) => {
            format!("folder {}  for {}", word(&access.requested_root), word(&record.function_id))
        }
        None => word(&record.function_id),
    };
    // The folder and the function are not cut to make room for arguments.
    let left = width.saturating_sub(columns(&line) + 2);
    let arguments = text::arguments(&record.arguments_excerpt, left);
    if !arguments.is_empty() && left >= LEAST {
        let _ = write!(line, "  {arguments}");
    }
    fit(&line, width.max(LEAST))
}

/// Where a call comes from: its session and its own id, whole, and what else is known about it.
fn origin(record: &PendingApprovalRecord, width: usize) -> String {
    let mut facts = vec![format!("{} {}", word(&record.session_id), word(&record.function_call_id))];
    if record.depth > 0 {
        facts.push(format!("sub-agent, depth {}", record.depth));
    }
    if let Some(title) = &record.session_title {
        let taken: usize = facts.iter().map(|fact| columns(fact) + 2).sum();
        facts.push(quoted_fit(title, width.saturating_sub(taken).max(LEAST)));
    }
    facts.join("  ")
}

/// What can be done now, with the ids of the first call.
fn hint(first: &PendingApprovalRecord, held: usize) -> String {
    let ids = format!("{} {}", word(&first.session_id), word(&first.function_call_id));
    format!("\n{held} held. Next: approval-gate allow {ids}, or deny, or show")
}

fn terminal_width() -> usize {
    crossterm::terminal::size().map_or(80, |(columns, _)| usize::from(columns)).max(MARGIN + LEAST)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;
    use crate::wire::record::StoredRow;

    fn record(extra: &Value) -> PendingApprovalRecord {
        let mut record = json!({"session_id": "s_1", "turn_id": "t_1", "function_call_id": "c_1",
            "function_id": "shell::exec", "kind": "function", "arguments_excerpt": {"command": "make deploy"},
            "pending_at": 0, "depth": 0});
        record.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        StoredRow::read(&record).live().unwrap()
    }

    #[test]
    fn a_call_is_two_lines_what_and_where() {
        let plain = record(&json!({"session_title": "Fix the build"}));
        let folder = record(&json!({"kind": "filesystem_access", "depth": 2,
            "access_request": {"requested_root": "/data/in", "attempted_path": "x", "error_code": "S215"}}));
        let shown = blocks(&[plain, folder], 720_000, 80, Paint::PLAIN);
        assert_eq!(
            shown,
            " 12m  shell::exec  command=\"make deploy\"\n      s_1 c_1  \"Fix the build\"\n 12m  folder /data/in  for shell::exec  command=\"make deploy\"\n      s_1 c_1  sub-agent, depth 2"
        );
    }

    #[test]
    fn an_empty_inbox_says_so() {
        assert_eq!(blocks(&[], 0, 80, Paint::PLAIN), "nothing is held");
    }

    #[test]
    fn a_hostile_record_stays_within_its_two_lines_and_its_quotes() {
        let hostile = record(&json!({
            "session_title": "ok\" s_9 c_9\n 12m  shell::exec \u{1b}[2J\u{202e}",
            "function_id": "shell::exec\u{1b}[1A", "function_call_id": "c 1\r;id",
            "arguments_excerpt": {"command": "ls\n\u{1b}[31m\" path=\"/safe", "\u{9b}2J": 1}}));
        let shown = blocks(&[hostile], 0, 80, Paint::PLAIN);
        assert_eq!(shown.lines().count(), 2, "{shown}");
        assert!(!shown.chars().any(|c| c != '\n' && crate::redact::is_hidden(c)), "{shown:?}");
        assert!(shown.contains(r#"ok\" s_9"#) && shown.contains(r"'c 1\r;id'"), "{shown}");
    }

    #[test]
    fn lines_fit_the_terminal_if_the_ids_do() {
        let long = record(
            &json!({"session_title": "x".repeat(300), "arguments_excerpt": {"command": "y".repeat(300)}}),
        );
        let shown = blocks(&[long], 0, 80, Paint::PLAIN);
        assert!(shown.lines().all(|line| columns(line) <= 80), "{shown}");
    }
}
