//! The audit trail: one entry when a call begins to wait for a decision, one when it is decided.
//!
//! Entries are log lines under a target of their own, and events of `approval::audit`; no history is kept in the store. The
//! entry of a hold's end goes the way of its resolved event: the marker keeps what it needs, and whoever sends the one sends the other.

mod calls;

pub use calls::{judged, not_held, unreadable};

use uuid::Uuid;

use crate::events::Events;
use crate::hold::Ending;
use crate::wire::audit::{AuditEntry, Step};
use crate::wire::record::{PendingApprovalRecord, PendingKind, ResolvedMarker};

/// The target of all log lines of the audit.
pub const TARGET: &str = "approval_gate::audit";

/// The audit trail. Cheap to clone.
#[derive(Clone)]
pub struct Audit {
    events: Events,
}

impl Audit {
    /// Tells those who listen to these events.
    pub fn new(events: Events) -> Self {
        Self { events }
    }

    /// A call waits for a decision from now on.
    pub fn asked(&self, record: &PendingApprovalRecord) {
        let entry = AuditEntry::asked(record, self.events.now_ms());
        log(&entry);
        let _ = self.events.audited(&entry);
    }

    /// A call that would have waited was decided at once, without a hold of it in the store: both entries. Nothing makes up
    /// for one that is lost.
    pub fn decided_at_once(&self, mut record: PendingApprovalRecord, ending: &Ending) {
        record.becomes_a_hold(Uuid::new_v4);
        self.asked(&record);
        let entry = AuditEntry::decided(&record, ending, self.events.now_ms());
        log(&entry);
        let _ = self.events.audited(&entry);
    }

    /// Sends the end of the hold that this marker stands for. False if it has to be sent again.
    pub fn send_end(&self, marker: &ResolvedMarker) -> bool {
        self.events.audited(&AuditEntry::of_marker(marker))
    }

    /// Logs the end of the hold that this marker stands for.
    pub fn log_end(&self, marker: &ResolvedMarker) {
        log(&AuditEntry::of_marker(marker));
    }
}

fn log(entry: &AuditEntry) {
    let AuditEntry { event_id, session_id, turn_id, function_call_id, function_id, .. } = entry;
    let (kind, digest) = (entry.kind.map(PendingKind::as_str), entry.digest.as_deref());
    match (entry.entry, &entry.decision) {
        (Step::Asked, _) | (Step::Decided, None) => tracing::info!(
            target: TARGET,
            entry = "asked", event_id, session_id, turn_id, function_call_id, function_id, kind, digest,
            "a call waits for a decision"
        ),
        (Step::Decided, Some(decision)) => tracing::info!(
            target: TARGET,
            entry = "decided", event_id, session_id, turn_id, function_call_id, function_id, kind, digest,
            outcome = decision.outcome.as_str(), surface = decision.surface.as_str(),
            caller = decision.caller.as_deref(), reason = decision.reason.as_deref(),
            "a call was decided"
        ),
    }
}
