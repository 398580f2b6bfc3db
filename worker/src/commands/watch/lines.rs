//! `watch` without a terminal: one line per event, made to be read by people and by `grep`.

use super::holds::{Change, Ended};
use crate::commands::inbox::asked;
use crate::commands::text::{moment, quoted, word};
use crate::wire::events::Outcome;
use crate::wire::record::PendingApprovalRecord;

/// Columns of what is asked.
const ASKED_COLUMNS: usize = 240;

/// The line of a change. `now` is in milliseconds since the epoch.
pub fn line(change: &Change, now: i64) -> String {
    match change {
        Change::Held(record) => {
            let title = record.session_title.as_deref().map(|title| format!("  {}", quoted(title)));
            let depth = if record.depth > 0 { format!("  depth {}", record.depth) } else { String::new() };
            let asked = asked(record, ASKED_COLUMNS);
            format!(
                "{}  {asked}{depth}{}",
                head(record.pending_at, "held", record),
                title.unwrap_or_default()
            )
        }
        Change::Over { record, ended } => {
            let (how, reason) = match ended {
                None => ("gone", None),
                Some(Ended { outcome: Outcome::Allow, .. }) => ("allowed", None),
                Some(Ended { outcome: Outcome::Deny, reason }) => ("denied", reason.as_deref()),
                Some(Ended { outcome: Outcome::Aborted, .. }) => ("aborted", None),
            };
            let reason = reason.map(|reason| format!("  {}", quoted(reason))).unwrap_or_default();
            format!("{}  {}{reason}", head(now, how, record), word(&record.function_id))
        }
    }
}

fn head(at: i64, what: &str, record: &PendingApprovalRecord) -> String {
    let (session, call) = (word(&record.session_id), word(&record.function_call_id));
    format!("{}  {what:<7}  {session} {call}", moment(at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::watch::samples::held;

    #[test]
    fn each_event_is_one_line_whatever_the_record_says() {
        let mut record = held("c_1", 1_783_340_000_000);
        record.session_title = Some("Fix\n2026 denied".into());
        record.depth = 1;
        assert_eq!(
            line(&Change::Held(Box::new(record.clone())), 0),
            r#"2026-07-06T12:13:20Z  held     s_1 c_1  shell::exec  command="make c_1"  depth 1  "Fix\n2026 denied""#
        );
        let over = |ended| Change::Over { record: Box::new(record.clone()), ended };
        let deny = Ended { outcome: Outcome::Deny, reason: Some("no\u{1b}[2J".into()) };
        assert_eq!(
            line(&over(Some(deny)), 1000),
            r#"1970-01-01T00:00:01Z  denied   s_1 c_1  shell::exec  "no\u{1b}[2J""#
        );
        assert_eq!(line(&over(None), 1000), "1970-01-01T00:00:01Z  gone     s_1 c_1  shell::exec");
    }
}
