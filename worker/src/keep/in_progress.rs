//! Calls that may come to be held at this moment, so that a turn or session that ends meanwhile reaches them too.
//!
//! A purge lists the store. A record whose write is still under way is not there yet and would stay for ever.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The writes under way.
#[derive(Clone, Default)]
pub struct InProgress {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    next: u64,
    writes: HashMap<u64, Write>,
}

struct Write {
    session_id: String,
    turn_id: String,
    ended: bool,
}

/// One write under way; it is over when this is dropped.
pub struct Ticket {
    inner: Arc<Mutex<Inner>>,
    number: u64,
}

impl InProgress {
    /// A call of this turn has arrived and may be held.
    pub fn begin(&self, session_id: &str, turn_id: &str) -> Ticket {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let number = inner.next;
        inner.next += 1;
        let write = Write { session_id: session_id.to_owned(), turn_id: turn_id.to_owned(), ended: false };
        inner.writes.insert(number, write);
        Ticket { inner: Arc::clone(&self.inner), number }
    }

    /// A turn has ended; in every session, if the notice names none.
    pub fn turn_ended(&self, session_id: Option<&str>, turn_id: &str) {
        self.end(|write| {
            write.turn_id == turn_id && session_id.is_none_or(|session| session == write.session_id)
        });
    }

    /// A session has ended.
    pub fn session_ended(&self, session_id: &str) {
        self.end(|write| write.session_id == session_id);
    }

    /// How many writes are under way.
    pub fn len(&self) -> usize {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).writes.len()
    }

    /// Whether no write is under way.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn end(&self, which: impl Fn(&Write) -> bool) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        for write in inner.writes.values_mut().filter(|write| which(write)) {
            write.ended = true;
        }
    }
}

impl Ticket {
    /// Whether the turn or session has ended since the write began.
    pub fn ended(&self) -> bool {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.writes.get(&self.number).is_some_and(|write| write.ended)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).writes.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ending_reaches_the_writes_under_way_and_no_later_ones() {
        let progress = InProgress::default();
        let (mine, other) = (progress.begin("s_1", "t_1"), progress.begin("s_2", "t_1"));
        progress.turn_ended(Some("s_1"), "t_1");
        assert!(mine.ended() && !other.ended());
        progress.turn_ended(None, "t_1");
        assert!(other.ended());
        let later = progress.begin("s_1", "t_1");
        assert!(!later.ended());
        progress.session_ended("s_1");
        assert!(later.ended());
        drop((mine, other, later));
        assert!(progress.is_empty());
    }
}
