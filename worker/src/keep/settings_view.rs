//! Sessions' settings kept in memory, so that the gate need not ask the store for every call.
//!
//! The store stays the truth. An entry is used only on the connection on which it was read, only while the engine's
//! `state` trigger is known to tell us of changes from outside, and never while a change of ours is being written: a
//! change that was acknowledged is what the very next hook sees. Trigger events are unordered and may be lost, so an
//! event means "look again", and an entry in use is read again behind every few seconds.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::time::Instant;

use super::over_defaults::OverDefaults;
use crate::policy::settings::{Additions, Settings};

/// An entry that is used after this is read again behind.
const REREAD_AFTER: Duration = Duration::from_secs(5);
/// How many sessions are kept. When there are more, all are forgotten and come back as they are used.
const CAPACITY: usize = 50_000;

/// The view.
#[derive(Debug, Default)]
pub struct SettingsView {
    inner: RwLock<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// The connection on which the view may be used; 0 for none.
    connection: u64,
    /// Counts everything that may make a read that is under way stale.
    changes: u64,
    /// Sessions of which a change is being written, with how many.
    changing: HashMap<String, usize>,
    entries: HashMap<String, Entry>,
}

/// What stands in the store for a session, as the gate takes it.
#[derive(Debug, Clone)]
pub enum Standing {
    /// No record: the deployment's defaults are in force.
    NoRecord,
    /// These settings: the record's, or the narrowest where it cannot be read.
    Settings(Arc<Settings>),
    /// A record of additions only: for the rest the deployment's defaults are in force.
    Additions(Arc<OverDefaults>),
}

impl Standing {
    /// These settings.
    pub fn settings(settings: Settings) -> Self {
        Self::Settings(Arc::new(settings))
    }

    /// These additions and no more; no record, if there are none.
    pub fn additions(additions: Additions) -> Self {
        if additions.is_empty() {
            Self::NoRecord
        } else {
            Self::Additions(Arc::new(OverDefaults::new(additions)))
        }
    }
}

#[derive(Debug)]
struct Entry {
    standing: Standing,
    read_at: Instant,
}

/// What the view knows of a session.
#[derive(Debug)]
pub enum Look {
    /// This, and whether it should be read again behind.
    Known {
        /// What stands in the store.
        standing: Standing,
        /// It was read some seconds ago.
        ageing: bool,
    },
    /// Nothing: the store has to be asked.
    Unknown,
}

/// Proof of when a read began: what it read is worth keeping only if nothing changed since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    changes: u64,
}

impl SettingsView {
    /// From now on the view may be used, on this connection. Whatever was known before is forgotten.
    pub fn open(&self, connection: u64) {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        inner.forget_all();
        inner.connection = connection;
    }

    /// What is known of a session on this connection. An ageing entry is reported as such once, and then again after
    /// another while, so that one reader reads it again and not all of them.
    pub fn look(&self, session_id: &str, connection: u64) -> Look {
        let (standing, ageing) = {
            let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
            if inner.connection != connection || connection == 0 || inner.changing.contains_key(session_id) {
                return Look::Unknown;
            }
            let Some(entry) = inner.entries.get(session_id) else { return Look::Unknown };
            (entry.standing.clone(), entry.read_at.elapsed() > REREAD_AFTER)
        };
        if ageing {
            let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
            if let Some(entry) = inner.entries.get_mut(session_id) {
                entry.read_at = Instant::now();
            }
        }
        Look::Known { standing, ageing }
    }

    /// A token for a read that begins now.
    pub fn token(&self) -> Token {
        Token { changes: self.inner.read().unwrap_or_else(PoisonError::into_inner).changes }
    }

    /// Keeps what a read found, unless something changed since it began.
    pub fn learn(&self, token: Token, connection: u64, session_id: &str, standing: &Standing) {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        let is_current = inner.connection == connection && inner.changes == token.changes;
        if is_current && !inner.changing.contains_key(session_id) {
            inner.keep(session_id, standing.clone());
        }
    }

    /// A change of ours is about to be written. Until the guard is dropped, readers go to the store; afterwards they
    /// see what it was told was written, or read afresh.
    pub fn changing<'a>(&'a self, session_id: &'a str) -> Changing<'a> {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        inner.changes += 1;
        inner.entries.remove(session_id);
        *inner.changing.entry(session_id.to_owned()).or_default() += 1;
        Changing { view: self, session_id, written: None }
    }

    /// The store tells of a change from outside, or of one of ours: look again at the next use.
    pub fn look_again(&self, session_id: &str) {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        inner.changes += 1;
        inner.entries.remove(session_id);
    }

    /// How many sessions are known.
    pub fn len(&self) -> usize {
        self.inner.read().unwrap_or_else(PoisonError::into_inner).entries.len()
    }

    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Inner {
    fn keep(&mut self, session_id: &str, standing: Standing) {
        if self.entries.len() >= CAPACITY && !self.entries.contains_key(session_id) {
            self.forget_all();
        }
        self.entries.insert(session_id.to_owned(), Entry { standing, read_at: Instant::now() });
    }

    fn forget_all(&mut self) {
        self.changes += 1;
        self.entries.clear();
    }
}

/// See [`SettingsView::changing`].
pub struct Changing<'a> {
    view: &'a SettingsView,
    session_id: &'a str,
    written: Option<(u64, Standing)>,
}

impl Changing<'_> {
    /// The store has acknowledged this, on this connection.
    pub fn written(mut self, connection: u64, standing: Standing) {
        self.written = Some((connection, standing));
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        let mut inner = self.view.inner.write().unwrap_or_else(PoisonError::into_inner);
        inner.changes += 1;
        let others = inner.changing.get(self.session_id).map_or(0, |writers| writers - 1);
        if others > 0 {
            inner.changing.insert(self.session_id.to_owned(), others);
            return;
        }
        inner.changing.remove(self.session_id);
        if let Some((connection, standing)) = self.written.take()
            && connection == inner.connection
        {
            inner.keep(self.session_id, standing);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_known(view: &SettingsView, connection: u64) -> bool {
        matches!(view.look("s", connection), Look::Known { .. })
    }

    #[tokio::test(start_paused = true)]
    async fn an_entry_is_used_on_its_own_connection_only() {
        let view = SettingsView::default();
        view.learn(view.token(), 0, "s", &Standing::NoRecord);
        assert!(!is_known(&view, 0), "no view before it is opened");
        view.open(3);
        view.learn(view.token(), 3, "s", &Standing::NoRecord);
        assert!(is_known(&view, 3));
        assert!(!is_known(&view, 4));
        view.open(4);
        assert!(!is_known(&view, 4));
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_that_a_change_overtook_teaches_nothing() {
        let view = SettingsView::default();
        view.open(1);
        let early = view.token();
        let changing = view.changing("s");
        view.learn(early, 1, "s", &Standing::NoRecord);
        assert!(!is_known(&view, 1), "the read began before the change");
        let during = view.token();
        view.learn(during, 1, "s", &Standing::NoRecord);
        assert!(!is_known(&view, 1), "nothing is used while a change is being written");
        drop(changing);
        view.learn(during, 1, "s", &Standing::NoRecord);
        assert!(matches!(view.look("s", 1), Look::Unknown), "the read began while it was being written");
        view.learn(view.token(), 1, "s", &Standing::NoRecord);
        assert!(is_known(&view, 1));
        view.look_again("s");
        assert!(!is_known(&view, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_written_is_seen_by_the_next_look() {
        let view = SettingsView::default();
        view.open(1);
        view.learn(view.token(), 1, "s", &Standing::NoRecord);
        view.changing("s").written(1, Standing::Settings(Arc::new(Settings::fail_closed())));
        assert!(matches!(view.look("s", 1), Look::Known { standing: Standing::Settings(_), .. }));
        view.changing("s").written(9, Standing::NoRecord);
        assert!(!is_known(&view, 1), "written on another connection");
    }

    #[tokio::test(start_paused = true)]
    async fn one_reader_is_told_that_an_entry_is_ageing() {
        let view = SettingsView::default();
        view.open(1);
        view.learn(view.token(), 1, "s", &Standing::NoRecord);
        tokio::time::advance(REREAD_AFTER + Duration::from_millis(1)).await;
        assert!(matches!(view.look("s", 1), Look::Known { ageing: true, .. }));
        assert!(matches!(view.look("s", 1), Look::Known { ageing: false, .. }));
    }
}
