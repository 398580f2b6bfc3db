//! Reading and writing the inbox's rows, and keeping the view of them in memory true.
//!
//! Everything that changes a row goes through here and under the key's lock, so that the view hears of it in the order
//! in which the store took it. A write without an answer puts its row in doubt.

use std::time::Duration;

use serde_json::Value;

use super::background::retry_delay;
use super::inbox::{Inbox, Live};
use super::inbox_view::Row;
use super::keyed_lock::KeyGuard;
use crate::clock::Deadline;
use crate::iii::CallError;
use crate::siblings::state::Scope;
use crate::wire::record::StoredRow;

/// How long the whole inbox may take to be listed.
const LOAD_BUDGET: Duration = Duration::from_mins(1);
/// How long one row may take to be looked at again.
const LOOK_BUDGET: Duration = Duration::from_secs(5);
/// How many rows are taken over at once before others get their turn.
const LOAD_CHUNK: usize = 256;

impl Inbox {
    /// The row, read under its lock.
    pub(super) async fn read_row(
        &self,
        row: &str,
        deadline: Deadline,
        _guard: &KeyGuard,
    ) -> Result<Value, CallError> {
        let connection = self.inner.state.connection();
        let value = self.inner.state.get(Scope::Pending, row, deadline).await?;
        self.note(connection, row, &value);
        Ok(value)
    }

    /// Replaces the row and returns what it replaced.
    pub(super) async fn swap_row(
        &self,
        row: &str,
        value: &Value,
        deadline: Deadline,
        _guard: &KeyGuard,
    ) -> Result<Value, CallError> {
        let connection = self.inner.state.connection();
        let swapped = self.inner.state.swap(Scope::Pending, row, value.clone(), deadline).await;
        self.taken(row, swapped, || self.note(connection, row, value))
    }

    /// Puts a hold into the row, whatever it replaces.
    pub(super) async fn write_hold(
        &self,
        row: &str,
        live: &Live,
        deadline: Deadline,
        _guard: &KeyGuard,
    ) -> Result<(), CallError> {
        let connection = self.inner.state.connection();
        let written = self.inner.state.swap(Scope::Pending, row, live.record.stored(), deadline).await;
        self.taken(row, written, || self.note_hold(connection, row, live)).map(drop)
    }

    /// Removes the row.
    pub(super) async fn delete_row(
        &self,
        row: &str,
        deadline: Deadline,
        _guard: &KeyGuard,
    ) -> Result<(), CallError> {
        let connection = self.inner.state.connection();
        let deleted = self.inner.state.delete(Scope::Pending, row, deadline).await;
        self.taken(row, deleted, || self.inner.view.note(connection, row, Row::Empty))
    }

    /// What the store said to a write: taken, and the view is told; never sent, and nothing has changed; else nobody knows.
    fn taken<T>(&self, row: &str, answer: Result<T, CallError>, note: impl FnOnce()) -> Result<T, CallError> {
        match &answer {
            Ok(_) => note(),
            Err(error) if error.never_sent() => {}
            Err(_) => self.doubt(row),
        }
        answer
    }

    fn note(&self, connection: u64, row: &str, value: &Value) {
        match StoredRow::read(value) {
            StoredRow::Live(record) => {
                self.note_hold(connection, row, &Live::of(*record));
            }
            StoredRow::Resolved(_) => self.inner.view.note(connection, row, Row::Ending),
            StoredRow::Null | StoredRow::Unreadable(_) => {
                self.inner.view.note(connection, row, Row::Empty);
            }
        }
    }

    fn note_hold(&self, connection: u64, row: &str, live: &Live) {
        self.inner.view.note(connection, row, Row::Live(live));
        // A list shows no keys, so a record under another key than its own ids name was loaded under theirs.
        let named = live.record.row();
        if named != row && self.inner.view.agrees(&named, Some(&live.identity)) {
            self.inner.view.note(connection, &named, Row::Empty);
        }
    }

    /// The engine tells that a row has changed. What the view knows already needs nothing; anything else is looked at.
    pub fn row_changed(&self, row: &str, value: &Value) {
        let agrees = if let Some(hold_id) = StoredRow::hold_of(value) {
            self.inner.view.agrees(row, Some(hold_id))
        } else {
            let live = Live::read(value);
            self.inner.view.agrees(row, live.as_ref().map(|live| live.identity.as_str()))
        };
        if !agrees {
            self.doubt(row);
        }
    }

    /// The row is in doubt: it is looked at as soon as its lock is free.
    fn doubt(&self, row: &str) {
        self.inner.view.doubt(row);
        let connection = self.inner.state.connection();
        if !self.inner.view.is_doubtful(connection, row) {
            return;
        }
        let (inbox, row) = (self.clone(), row.to_owned());
        self.inner.background.spawn(async move {
            let mut attempt = 0;
            loop {
                let guard = inbox.inner.locks.lock(&row).await;
                if !inbox.inner.view.is_doubtful(connection, &row)
                    || inbox.read_row(&row, Deadline::after(LOOK_BUDGET), &guard).await.is_ok()
                {
                    return;
                }
                drop(guard);
                tokio::time::sleep(retry_delay(attempt)).await;
                attempt += 1;
            }
        });
    }

    fn load_row(&self, connection: u64, value: &Value) {
        match self.understood(value) {
            StoredRow::Live(record) => {
                let live = Live::of(*record);
                self.inner.view.load(connection, &live.record.row(), Row::Live(&live));
            }
            StoredRow::Resolved(marker) => self.inner.view.load(connection, &marker.row, Row::Ending),
            StoredRow::Null | StoredRow::Unreadable(_) => {}
        }
    }

    /// Fills the view from the store. Until it is done, and whenever it fails, readers go to the store.
    pub async fn load_view(&self) {
        let connection = self.inner.state.connection();
        let mut attempt = 0;
        while self.inner.state.connection() == connection {
            self.inner.view.begin_loading(connection);
            match self.inner.state.list(Scope::Pending, Deadline::after(LOAD_BUDGET)).await {
                Ok(rows) => {
                    for chunk in rows.chunks(LOAD_CHUNK) {
                        for value in chunk {
                            self.load_row(connection, value);
                        }
                        tokio::task::yield_now().await;
                    }
                    self.inner.view.loaded(connection);
                    return;
                }
                Err(error) => tracing::debug!(%error, "the inbox could not be read into memory yet"),
            }
            tokio::time::sleep(retry_delay(attempt)).await;
            attempt += 1;
        }
    }
}
