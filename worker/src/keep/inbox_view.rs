//! The inbox kept in memory, written through, so that a page or the end of a turn does not read the whole store.
//!
//! The store stays the truth. The view is used only while it is complete: loaded on this connection, told of every
//! write of ours under the key's lock, and with no row in doubt. A row comes into doubt when a write of ours had no
//! answer, or when the engine's `state` trigger tells of something that the view does not know; it is looked at again
//! behind, and until then readers go to the store.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::inbox::Live;
use crate::hold::{HoldIndex, Indexed, Page, Position};

/// The view.
#[derive(Debug, Default)]
pub struct InboxView {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// The connection on which the view may be used; 0 for none.
    connection: u64,
    phase: Phase,
    index: HoldIndex,
    /// Rows with an end that is not told yet; no hold is there, and none may be written before that is done.
    ending: HashSet<Arc<str>>,
    /// Rows of which nobody knows what they hold.
    doubtful: HashSet<Arc<str>>,
}

#[derive(Debug, Default)]
enum Phase {
    #[default]
    Closed,
    /// The store is being listed. What was written meanwhile is newer than the list.
    Loading {
        written: HashSet<Arc<str>>,
    },
    Complete,
}

/// What a row holds, as far as the view goes.
#[derive(Debug)]
pub enum Known {
    /// No hold, nothing to be finished first.
    Empty,
    /// The view does not know: the store has to be asked.
    Unknown,
}

/// What was put into a row.
#[derive(Debug, Clone, Copy)]
pub enum Row<'a> {
    /// A live hold.
    Live(&'a Live),
    /// The end of one, not told yet.
    Ending,
    /// Nothing.
    Empty,
}

impl InboxView {
    /// The store is about to be listed on this connection. Whatever was known is forgotten.
    pub fn begin_loading(&self, connection: u64) {
        *self.inner() =
            Inner { connection, phase: Phase::Loading { written: HashSet::new() }, ..Inner::default() };
    }

    /// One row of the list. What was written since the listing began is newer.
    pub fn load(&self, connection: u64, row: &str, holds: Row<'_>) {
        let mut inner = self.inner();
        let is_newer = match &inner.phase {
            Phase::Loading { written } => written.contains(row),
            Phase::Closed | Phase::Complete => true,
        };
        if inner.connection == connection && !is_newer {
            inner.put(row, holds);
        }
    }

    /// The list is through: from now on the view is complete.
    pub fn loaded(&self, connection: u64) {
        let mut inner = self.inner();
        if inner.connection == connection && matches!(inner.phase, Phase::Loading { .. }) {
            inner.phase = Phase::Complete;
        }
    }

    /// A write of ours was acknowledged, or the row was read under its lock: it holds this.
    pub fn note(&self, connection: u64, row: &str, holds: Row<'_>) {
        let mut inner = self.inner();
        if inner.connection != connection || matches!(inner.phase, Phase::Closed) {
            return;
        }
        if let Phase::Loading { written } = &mut inner.phase {
            written.insert(row.into());
        }
        inner.doubtful.remove(row);
        inner.put(row, holds);
    }

    /// Nobody knows what the row holds.
    pub fn doubt(&self, row: &str) {
        let mut inner = self.inner();
        if !matches!(inner.phase, Phase::Closed) {
            inner.doubtful.insert(row.into());
        }
    }

    /// Whether the row still is in doubt on this connection, so that it has to be looked at.
    pub fn is_doubtful(&self, connection: u64, row: &str) -> bool {
        let inner = self.inner();
        inner.connection == connection && inner.doubtful.contains(row)
    }

    /// Whether the row holds exactly this hold, or none.
    pub fn agrees(&self, row: &str, identity: Option<&str>) -> bool {
        let inner = self.inner();
        let known = inner.index.get(row).map(|hold| &*hold.identity);
        known == identity && !inner.doubtful.contains(row)
    }

    /// What the row holds.
    pub fn known(&self, connection: u64, row: &str) -> Known {
        let inner = self.inner();
        let is_certain = inner.connection == connection
            && matches!(inner.phase, Phase::Complete)
            && !inner.doubtful.contains(row)
            && !inner.ending.contains(row);
        if is_certain && inner.index.get(row).is_none() { Known::Empty } else { Known::Unknown }
    }

    /// A page, if the view is complete. `shown` leaves out holds that are decided already.
    pub fn page(
        &self,
        connection: u64,
        session_id: Option<&str>,
        metadata: Option<&Map<String, Value>>,
        after: Option<&Position>,
        limit: usize,
        shown: impl Fn(&Indexed) -> bool,
    ) -> Option<Page<Arc<RawValue>>> {
        let inner = self.complete(connection)?;
        Some(inner.index.page(session_id, metadata, after, limit, shown))
    }

    /// Row and identity of every hold of a turn, if the view is complete.
    pub fn of_turn(
        &self,
        connection: u64,
        session_id: Option<&str>,
        turn_id: &str,
    ) -> Option<Vec<(Arc<str>, Box<str>)>> {
        let inner = self.complete(connection)?;
        Some(inner.with_identities(inner.index.of_turn(session_id, turn_id)))
    }

    /// Row and identity of every hold of a session, if the view is complete.
    pub fn of_session(&self, connection: u64, session_id: &str) -> Option<Vec<(Arc<str>, Box<str>)>> {
        let inner = self.complete(connection)?;
        Some(inner.with_identities(inner.index.of_session(session_id)))
    }

    fn complete(&self, connection: u64) -> Option<MutexGuard<'_, Inner>> {
        let inner = self.inner();
        let is_complete = inner.connection == connection
            && matches!(inner.phase, Phase::Complete)
            && inner.doubtful.is_empty();
        is_complete.then_some(inner)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn put(&mut self, row: &str, holds: Row<'_>) {
        self.ending.remove(row);
        match holds {
            Row::Live(live) => self.index.put(row, indexed(live)),
            Row::Ending => {
                self.index.remove(row);
                self.ending.insert(row.into());
            }
            Row::Empty => self.index.remove(row),
        }
    }

    fn with_identities(&self, rows: Vec<Arc<str>>) -> Vec<(Arc<str>, Box<str>)> {
        let known = |row: Arc<str>| {
            let identity = self.index.get(&row)?.identity.clone();
            Some((row, identity))
        };
        rows.into_iter().filter_map(known).collect()
    }
}

fn indexed(live: &Live) -> Indexed {
    let record = &live.record;
    // A record always has a JSON form: its keys are text and it holds no other numbers than JSON's.
    let json = serde_json::value::to_raw_value(record).unwrap_or_default();
    Indexed {
        position: record.position(),
        turn_id: record.turn_id.as_str().into(),
        identity: live.identity.as_str().into(),
        metadata: record.session_metadata.clone().map(Arc::new),
        json: json.into(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn live(call: &str) -> Live {
        Live::read(
            &json!({"session_id": "s", "turn_id": "t", "function_call_id": call, "function_id": "f::x",
            "pending_at": 1, "kind": "function", "hold_id": format!("id_{call}:d")}),
        )
        .unwrap()
    }

    fn shown(view: &InboxView) -> Option<usize> {
        view.page(1, None, None, None, 50, |_| true).map(|page| page.items.len())
    }

    fn complete() -> InboxView {
        let view = InboxView::default();
        view.begin_loading(1);
        view.load(1, "s/a", Row::Live(&live("a")));
        view.loaded(1);
        view
    }

    #[test]
    fn the_view_is_used_when_loaded_and_on_its_own_connection_only() {
        let view = InboxView::default();
        assert_eq!(shown(&view), None);
        view.begin_loading(1);
        assert_eq!(shown(&view), None);
        view.loaded(1);
        assert_eq!(shown(&view), Some(0));
        assert!(view.page(2, None, None, None, 50, |_| true).is_none());
        assert!(matches!(view.known(2, "s/a"), Known::Unknown));
    }

    #[test]
    fn what_is_written_while_the_store_is_listed_is_newer_than_the_list() {
        let view = InboxView::default();
        view.begin_loading(1);
        view.note(1, "s/gone", Row::Empty);
        view.load(1, "s/gone", Row::Live(&live("gone")));
        view.note(1, "s/new", Row::Live(&live("new")));
        view.loaded(1);
        assert_eq!(shown(&view), Some(1));
        assert!(view.agrees("s/new", Some("id_new:d")));
        assert!(view.agrees("s/gone", None));
    }

    #[test]
    fn a_row_in_doubt_sends_readers_to_the_store_until_it_was_looked_at() {
        let view = complete();
        view.doubt("s/b");
        assert_eq!(shown(&view), None);
        assert!(view.is_doubtful(1, "s/b"));
        view.note(1, "s/b", Row::Live(&live("b")));
        assert_eq!(shown(&view), Some(2));
    }

    #[test]
    fn an_end_that_is_not_told_yet_is_neither_shown_nor_written_over() {
        let view = complete();
        view.note(1, "s/a", Row::Ending);
        assert_eq!(shown(&view), Some(0));
        assert!(matches!(view.known(1, "s/a"), Known::Unknown));
        view.note(1, "s/a", Row::Empty);
        assert!(matches!(view.known(1, "s/a"), Known::Empty));
    }

    #[test]
    fn an_end_that_an_earlier_run_left_untold_is_known_from_the_list() {
        let view = InboxView::default();
        view.begin_loading(1);
        view.load(1, "s/a", Row::Ending);
        view.loaded(1);
        assert_eq!(shown(&view), Some(0));
        assert!(
            matches!(view.known(1, "s/a"), Known::Unknown),
            "a hold written over it would swallow its event"
        );
    }

    #[test]
    fn turns_and_sessions_find_their_holds() {
        let view = complete();
        assert_eq!(view.of_turn(1, Some("s"), "t").unwrap().len(), 1);
        assert_eq!(view.of_turn(1, Some("other"), "t").unwrap().len(), 0);
        assert_eq!(view.of_session(1, "s").unwrap(), [("s/a".into(), "id_a:d".into())]);
    }
}
