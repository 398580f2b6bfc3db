//! Ends of turns and sessions that are being cleared up, so that a repeated pass leaves alone what came after the notice.
//!
//! A notice that names no session also means turns of that name which go on in other sessions, and a session may be
//! used again. Dates cannot tell the holds apart: the wall clock may be set back, and two things happen within one of
//! its milliseconds. The worker is the only one who makes holds, so it is noted here which ones it made meanwhile.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::wire::record::PendingApprovalRecord;

/// What has ended.
#[derive(Debug, Clone)]
pub enum Ended {
    /// A turn; in every session, if the notice names none.
    Turn {
        /// Its session.
        session_id: Option<String>,
        /// The turn.
        turn_id: String,
    },
    /// A session with all its turns.
    Session {
        /// The session.
        session_id: String,
    },
}

impl Ended {
    /// Whether a hold was part of it.
    pub fn includes(&self, record: &PendingApprovalRecord) -> bool {
        match self {
            Self::Turn { session_id, turn_id } => {
                *turn_id == record.turn_id && session_id.as_ref().is_none_or(|id| *id == record.session_id)
            }
            Self::Session { session_id } => *session_id == record.session_id,
        }
    }
}

/// The endings that are being cleared up. Cheap to clone.
#[derive(Clone, Default)]
pub struct Endings {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    next: u64,
    open: HashMap<u64, Open>,
}

struct Open {
    ended: Ended,
    /// Identities of the holds that it would include and that were made after its notice.
    later: HashSet<String>,
}

/// One ending that is being cleared up; it is over when this is dropped.
pub struct Clearing {
    inner: Arc<Mutex<Inner>>,
    number: u64,
}

impl Endings {
    /// A notice has come.
    pub fn begin(&self, ended: Ended) -> Clearing {
        let mut inner = lock(&self.inner);
        let number = inner.next;
        inner.next += 1;
        inner.open.insert(number, Open { ended, later: HashSet::new() });
        Clearing { inner: Arc::clone(&self.inner), number }
    }

    /// A hold is about to be written, of a call that came after all notices so far.
    pub fn hold_made(&self, record: &PendingApprovalRecord, identity: &str) {
        for open in lock(&self.inner).open.values_mut().filter(|open| open.ended.includes(record)) {
            open.later.insert(identity.to_owned());
        }
    }
}

impl Clearing {
    /// Whether this hold was made after the notice.
    pub fn came_later(&self, identity: &str) -> bool {
        lock(&self.inner).open.get(&self.number).is_some_and(|open| open.later.contains(identity))
    }
}

impl Drop for Clearing {
    fn drop(&mut self) {
        lock(&self.inner).open.remove(&self.number);
    }
}

fn lock(inner: &Mutex<Inner>) -> MutexGuard<'_, Inner> {
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;
    use crate::wire::record::StoredRow;

    fn record(session_id: &str, turn_id: &str) -> PendingApprovalRecord {
        let row = json!({"session_id": session_id, "turn_id": turn_id, "function_call_id": "c", "function_id": "f",
            "kind": "function", "pending_at": 1, "depth": 0});
        StoredRow::read(&row).live().unwrap()
    }

    #[test]
    fn only_holds_made_after_the_notice_are_later_and_only_where_it_would_include_them() {
        let endings = Endings::default();
        endings.hold_made(&record("s_1", "t"), "before");
        let turn = endings.begin(Ended::Turn { session_id: None, turn_id: "t".into() });
        endings.hold_made(&record("s_2", "t"), "after");
        endings.hold_made(&record("s_2", "other"), "elsewhere");
        let session = endings.begin(Ended::Session { session_id: "s_2".into() });
        assert!(turn.came_later("after"));
        assert!(!turn.came_later("before") && !turn.came_later("elsewhere"));
        assert!(!session.came_later("after"));
    }

    #[test]
    fn nothing_is_kept_of_an_ending_that_is_cleared_up() {
        let endings = Endings::default();
        drop(endings.begin(Ended::Session { session_id: "s".into() }));
        endings.hold_made(&record("s", "t"), "h");
        assert!(lock(&endings.inner).open.is_empty());
    }
}
