//! What an entry says, from a record, from a decision, or from the marker that a decision left.
//!
//! Pure. Not obvious: a reason is the decider's own text and may quote anything, so it goes through the same redaction as
//! an excerpt.

use crate::hold::Ending;
use crate::redact;
use crate::wire::audit::{AuditDecision, AuditEntry, AuditNote, Step, Surface, UNATTESTED};
use crate::wire::events::Outcome;
use crate::wire::record::{PendingApprovalRecord, ResolvedMarker};

/// The longest reason, in code points as shown.
const REASON: usize = 1_024;
/// The longest name of a caller, in code points as shown.
const CALLER: usize = 512;

impl AuditEntry {
    /// A call is held, or would be; `at` in milliseconds since the epoch.
    pub fn asked(record: &PendingApprovalRecord, at: i64) -> Self {
        Self {
            entry: Step::Asked,
            event_id: record.event_id(),
            session_id: record.session_id.clone(),
            turn_id: record.turn_id.clone(),
            function_call_id: record.function_call_id.clone(),
            function_id: record.function_id.clone(),
            kind: Some(record.kind),
            digest: record.digest.clone(),
            decision: None,
            at,
            session_metadata: record.session_metadata.clone(),
        }
    }

    /// A call of which [`AuditEntry::asked`] told is decided; `at` in milliseconds since the epoch.
    pub fn decided(record: &PendingApprovalRecord, ending: &Ending, at: i64) -> Self {
        let (outcome, by) = (ending.outcome.into(), &ending.by);
        let decision =
            AuditDecision::new(outcome, ending.reason.as_deref(), by.surface.into(), by.caller.clone());
        Self { entry: Step::Decided, decision: Some(decision), ..Self::asked(record, at) }
    }

    /// The end of the hold that a marker stands for. Before markers said who decided, only people could.
    pub fn of_marker(marker: &ResolvedMarker) -> Self {
        let (event, note) = (&marker.event, marker.audit.as_ref());
        let surface = match (note, event.outcome) {
            (Some(note), _) => note.surface,
            (None, Outcome::Aborted) => Surface::Abort,
            (None, Outcome::Allow | Outcome::Deny) => Surface::Human,
        };
        let caller = note.and_then(|note| note.caller.clone());
        Self {
            entry: Step::Decided,
            event_id: marker.event_id.clone(),
            session_id: event.session_id.clone(),
            turn_id: event.turn_id.clone(),
            function_call_id: event.function_call_id.clone(),
            function_id: event.function_id.clone(),
            kind: note.map(|note| note.kind),
            digest: event.digest.clone(),
            decision: Some(AuditDecision::new(event.outcome, event.reason.as_deref(), surface, caller)),
            at: event.resolved_at,
            session_metadata: event.session_metadata.clone(),
        }
    }
}

impl AuditDecision {
    fn new(outcome: Outcome, reason: Option<&str>, surface: Surface, caller: Option<String>) -> Self {
        let reason = reason.filter(|reason| !reason.is_empty());
        let unattested = || (surface == Surface::Human).then(|| UNATTESTED.to_owned());
        Self {
            outcome,
            reason: reason.map(|reason| redact::shown(reason, REASON)),
            surface,
            caller: caller.map(|caller| redact::visible(&caller, CALLER)).or_else(unattested),
        }
    }
}

impl AuditNote {
    /// What a marker of this hold's end keeps.
    pub fn of(record: &PendingApprovalRecord, ending: &Ending) -> Self {
        Self { kind: record.kind, surface: ending.by.surface.into(), caller: ending.by.caller.clone() }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::hold::{self, Decider};
    use crate::wire::events::PendingResolvedEvent;
    use crate::wire::hook::HookCall;

    fn record(arguments: Value) -> PendingApprovalRecord {
        let call = HookCall { id: "c_1".into(), function_id: "shell::exec".into(), arguments };
        let mut record = PendingApprovalRecord::for_function("s_1", "t_1", 0, &call);
        record.becomes_a_hold(|| uuid::Uuid::from_u128(7));
        record
    }

    fn ending(outcome: hold::Outcome, reason: Option<&str>, by: Decider) -> Ending {
        Ending { reason: reason.map(str::to_owned), ..Ending::of(outcome, by) }
    }

    fn marker(record: &PendingApprovalRecord, ending: &Ending, note: Option<AuditNote>) -> ResolvedMarker {
        let event = PendingResolvedEvent {
            reason: ending.reason.clone(),
            event_id: Some(record.event_id()),
            ..PendingResolvedEvent::of(record, ending.outcome.into(), 7)
        };
        ResolvedMarker::new("s_1/c_1", &record.event_id(), &record.identity(), event, note)
    }

    fn told(entry: &AuditEntry) -> Value {
        serde_json::to_value(entry).unwrap()
    }

    #[test]
    fn both_entries_name_the_call_and_are_paired_by_their_id() {
        let record = record(json!({"cmd": "ls"}));
        let (digest, id) = (record.digest.clone().unwrap(), record.event_id());
        let decision = ending(hold::Outcome::Deny, Some("no"), Decider::human(Some("w_1".into())));

        let asked = told(&AuditEntry::asked(&record, 5));
        let decided = told(&AuditEntry::decided(&record, &decision, 7));

        let call = json!({"event_id": id, "session_id": "s_1", "turn_id": "t_1", "function_call_id": "c_1",
            "function_id": "shell::exec", "kind": "function", "digest": digest});
        let with = |extra: Value| {
            let mut entry = call.clone();
            entry.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            entry
        };
        assert_eq!(asked, with(json!({"entry": "asked", "at": 5})));
        assert_eq!(
            decided,
            with(json!({"entry": "decided", "at": 7, "outcome": "deny", "reason": "no", "surface": "human",
                "caller": "w_1"}))
        );
    }

    #[test]
    fn the_table_of_deciders() {
        let rows = [
            (
                hold::Outcome::Allow,
                Decider::human(Some("w".into())),
                json!({"surface": "human", "caller": "w"}),
            ),
            (hold::Outcome::Allow, Decider::human(None), json!({"surface": "human", "caller": "unattested"})),
            (
                hold::Outcome::Deny,
                Decider::answerer("a::b".into()),
                json!({"surface": "answerer", "caller": "a::b"}),
            ),
            (hold::Outcome::Deny, Decider::POLICY, json!({"surface": "policy", "caller": null})),
            (hold::Outcome::Aborted, Decider::ABORT, json!({"surface": "abort", "caller": null})),
        ];
        for (outcome, by, expected) in rows {
            let entry = told(&AuditEntry::decided(&record(Value::Null), &ending(outcome, None, by), 7));
            assert_eq!(json!({"surface": entry["surface"], "caller": entry["caller"]}), expected);
            assert!(entry.get("reason").is_none());
        }
    }

    #[test]
    fn a_marker_that_was_stored_and_read_again_tells_the_same() {
        let record = record(json!({"cmd": "ls"}));
        for by in [Decider::human(Some("w_1".into())), Decider::human(None), Decider::POLICY] {
            let ending = ending(hold::Outcome::Deny, Some("no"), by);
            let marker = marker(&record, &ending, Some(AuditNote::of(&record, &ending)));
            let read: ResolvedMarker = serde_json::from_value(marker.stored()).unwrap();
            assert_eq!(told(&AuditEntry::of_marker(&read)), told(&AuditEntry::decided(&record, &ending, 7)));
        }
    }

    #[test]
    fn a_marker_of_an_older_worker_or_with_a_damaged_note_still_tells_the_end() {
        let record = record(Value::Null);
        for (outcome, surface) in [(hold::Outcome::Allow, "human"), (hold::Outcome::Aborted, "abort")] {
            let older = marker(&record, &ending(outcome, None, Decider::ABORT), None).stored();
            let mut damaged = older.clone();
            damaged["audit"] = json!({"kind": "function", "surface": "oracle"});
            for stored in [older, damaged] {
                let read: ResolvedMarker = serde_json::from_value(stored).unwrap();
                let entry = told(&AuditEntry::of_marker(&read));
                assert_eq!((entry["surface"].as_str(), entry.get("kind")), (Some(surface), None));
            }
        }
    }

    #[test]
    fn a_reason_loses_its_secrets_and_its_disguise_and_is_bounded() {
        let long = format!("password=hunter2\u{202e} {}", "x".repeat(5_000));
        let decision = ending(hold::Outcome::Deny, Some(&long), Decider::human(None));
        let reason =
            AuditEntry::decided(&record(Value::Null), &decision, 1).decision.unwrap().reason.unwrap();
        assert!(!reason.contains("hunter2") && !reason.contains('\u{202e}'), "{reason}");
        assert!(reason.chars().count() <= REASON);
    }

    proptest! {
        #[test]
        fn nothing_of_the_arguments_is_in_an_entry(secret in "[a-z]{12}") {
            let record = record(json!({"note": secret, "list": [secret]}));
            let decision = ending(hold::Outcome::Allow, None, Decider::human(None));
            for entry in [AuditEntry::asked(&record, 1), AuditEntry::decided(&record, &decision, 1)] {
                prop_assert!(!told(&entry).to_string().contains(&secret));
            }
        }
    }
}
