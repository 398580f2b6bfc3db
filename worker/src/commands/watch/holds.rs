//! What is held, as far as we were told, and what changed when we were told more.
//!
//! A hold is known by its call and by when it began: the same call held again is another hold (contract §2).

use crate::wire::events::Outcome;
use crate::wire::record::PendingApprovalRecord;

/// Which hold; ordered as the inbox is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HoldId {
    /// When it began, milliseconds since the epoch.
    pub pending_at: i64,
    /// The session.
    pub session: String,
    /// The call.
    pub call: String,
}

impl HoldId {
    /// The hold that a record is about.
    pub fn of(record: &PendingApprovalRecord) -> Self {
        Self {
            pending_at: record.pending_at,
            session: record.session_id.clone(),
            call: record.function_call_id.clone(),
        }
    }

    fn is_of(&self, session: &str, call: &str) -> bool {
        self.session == session && self.call == call
    }
}

/// How a hold ended, as an event told it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Allowed, denied, or nobody decided.
    pub outcome: Outcome,
    /// The words of whoever denied.
    pub reason: Option<String>,
}

/// One difference.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// A hold that we did not know.
    Held(Box<PendingApprovalRecord>),
    /// A hold that is over.
    Over {
        /// What it was.
        record: Box<PendingApprovalRecord>,
        /// How, if we were told.
        ended: Option<Ended>,
    },
}

/// The holds, the longest waiting first.
#[derive(Debug, Default)]
pub struct Holds {
    records: Vec<PendingApprovalRecord>,
}

impl Holds {
    /// This is all there is.
    pub fn listed(&mut self, records: Vec<PendingApprovalRecord>) -> Vec<Change> {
        let mut before = std::mem::replace(&mut self.records, records);
        self.records.sort_by_cached_key(HoldId::of);
        self.records.dedup_by_key(|record| HoldId::of(record));
        let over = |record| Change::Over { record: Box::new(record), ended: None };
        let known: std::collections::BTreeSet<HoldId> = before.iter().map(HoldId::of).collect();
        before.retain(|record| self.position(&HoldId::of(record)).is_none());
        let mut changes: Vec<Change> = before.into_iter().map(over).collect();
        let new = self.records.iter().filter(|record| !known.contains(&HoldId::of(record)));
        changes.extend(new.map(|record| Change::Held(Box::new(record.clone()))));
        changes
    }

    /// This is how it stands with one call. An older hold of it is over in the way that `ended` says.
    pub fn looked(
        &mut self,
        session: &str,
        call: &str,
        now: Option<Box<PendingApprovalRecord>>,
        ended: Option<&Ended>,
    ) -> Vec<Change> {
        let current = now.as_deref().map(HoldId::of);
        let mut changes = Vec::new();
        self.records.retain(|record| {
            let id = HoldId::of(record);
            let over = id.is_of(session, call) && Some(&id) != current.as_ref();
            if over {
                changes.push(Change::Over { record: Box::new(record.clone()), ended: ended.cloned() });
            }
            !over
        });
        if let (Some(record), Some(id)) = (now, current)
            && let Err(place) = self.records.binary_search_by_key(&id, HoldId::of)
        {
            self.records.insert(place, (*record).clone());
            changes.push(Change::Held(record));
        }
        changes
    }

    /// All of them.
    pub fn all(&self) -> &[PendingApprovalRecord] {
        &self.records
    }

    /// One of them.
    pub fn get(&self, id: &HoldId) -> Option<&PendingApprovalRecord> {
        self.position(id).and_then(|place| self.records.get(place))
    }

    /// Its place, counted from 0.
    pub fn position(&self, id: &HoldId) -> Option<usize> {
        self.records.binary_search_by_key(id, HoldId::of).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::watch::samples::held;

    fn said(changes: &[Change]) -> Vec<String> {
        let word = |change: &Change| match change {
            Change::Held(record) => format!("+{}@{}", record.function_call_id, record.pending_at),
            Change::Over { record, ended } => {
                let how = ended.as_ref().map_or("gone", |ended| match ended.outcome {
                    Outcome::Allow => "allow",
                    Outcome::Deny => "deny",
                    Outcome::Aborted => "aborted",
                });
                format!("-{}@{} {how}", record.function_call_id, record.pending_at)
            }
        };
        changes.iter().map(word).collect()
    }

    #[test]
    fn a_listing_tells_what_came_and_what_went() {
        let mut holds = Holds::default();
        assert_eq!(said(&holds.listed(vec![held("b", 2), held("a", 1)])), ["+a@1", "+b@2"]);
        assert_eq!(said(&holds.listed(vec![held("b", 2), held("c", 3)])), ["-a@1 gone", "+c@3"]);
        assert_eq!(said(&holds.listed(vec![held("b", 2), held("c", 3)])), Vec::<String>::new());
    }

    #[test]
    fn a_call_held_again_is_another_hold() {
        let mut holds = Holds::default();
        holds.listed(vec![held("a", 1), held("b", 2)]);
        let ended = Ended { outcome: Outcome::Allow, reason: None };
        let again = Some(Box::new(held("a", 9)));
        assert_eq!(said(&holds.looked("s_1", "a", again, Some(&ended))), ["-a@1 allow", "+a@9"]);
        assert_eq!(holds.all().last().map(|record| record.pending_at), Some(9));
    }

    #[test]
    fn looking_again_changes_nothing_and_a_lost_call_is_no_change() {
        let mut holds = Holds::default();
        let a = || Some(Box::new(held("a", 1)));
        holds.looked("s_1", "a", a(), None);
        assert_eq!(said(&holds.looked("s_1", "a", a(), None)), Vec::<String>::new());
        assert_eq!(said(&holds.looked("s_1", "x", None, None)), Vec::<String>::new());
        assert_eq!(said(&holds.looked("s_1", "a", None, None)), ["-a@1 gone"]);
        assert!(holds.all().is_empty());
    }
}
