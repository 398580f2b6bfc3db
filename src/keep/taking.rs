//! How a hold's row is removed, so that exactly one caller tells the listeners, even across a crash.
//!
//! 1. The row is swapped for a marker that carries the resolved event. Only the caller that sees the live record
//!    come out of the swap goes on.
//! 2. The event is sent.
//! 3. The marker is deleted.
//!
//! A crash after 1 leaves a marker, which the next start sends and deletes; a crash after 2 repeats the event with
//! the same `event_id`. Readers skip markers. All of it happens under the key's lock, witnessed by the guard.

use std::time::Duration;

use serde_json::Value;
use uuid::Uuid;

use super::background::retry_delay;
use super::inbox::{Inbox, Live, REMOVAL_BUDGET};
use super::keyed_lock::KeyGuard;
use crate::clock::{self, Deadline};
use crate::hold::Ending;
use crate::iii::CallError;
use crate::siblings::state::Scope;
use crate::wire::events::PendingResolvedEvent;
use crate::wire::record::{ResolvedMarker, StoredRow};

/// How often a marker is tried again before it is left to the next connection or start.
const SEND_TRIES: u32 = 12;
/// A write without an answer may still arrive; how long the store is watched for it.
const LATE_WRITE: Duration = Duration::from_secs(2);
/// How often a record that must not stay is looked for before the next start's reconciling has to do it.
const TAKE_BACK_TRIES: u32 = 60;

impl Inbox {
    /// Removes the hold with this identity, if it still stands there, and tells the listeners. Says whether that
    /// is settled: true when the hold is gone, whoever removed it; false when the store failed.
    pub(super) async fn remove(&self, row: &str, identity: &str, ending: &Ending) -> bool {
        let guard = self.inner.locks.lock(row).await;
        self.remove_locked(row, identity, ending, &guard).await
    }

    /// As [`Inbox::remove`], with the key's lock held already.
    pub(super) async fn remove_locked(
        &self,
        row: &str,
        identity: &str,
        ending: &Ending,
        guard: &KeyGuard,
    ) -> bool {
        let deadline = Deadline::after(REMOVAL_BUDGET);
        match self.take(row, identity, ending, deadline, guard).await {
            Ok(_) => true,
            Err(error) => {
                tracing::warn!(row, %error, "a decided record could not be removed yet");
                false
            }
        }
    }

    /// Takes the hold out of the store and tells the listeners; false if it was not there any more.
    pub(super) async fn take(
        &self,
        row: &str,
        identity: &str,
        ending: &Ending,
        deadline: Deadline,
        _guard: &KeyGuard,
    ) -> Result<bool, CallError> {
        let state = &self.inner.state;
        let standing = state.get(Scope::Pending, row, deadline).await?;
        let live = match StoredRow::read(&standing) {
            StoredRow::Live(record) => Live::of(*record),
            // An earlier try of this removal got as far as the marker, and did not learn that it had.
            StoredRow::Resolved(marker) if marker.hold_id == identity => {
                self.send_and_delete(row, &marker).await;
                return Ok(true);
            }
            _ => return Ok(self.gone(identity)),
        };
        if live.identity != identity {
            return Ok(self.gone(identity));
        }
        let marker = marker(row, &live, ending);
        let swapped_out = match state.swap(Scope::Pending, row, &marker.stored(), deadline).await {
            // Our own marker came out: the store carried the swap out twice, and this is the second one's answer. The
            // first one replaced what was read above.
            Ok(old) if is_marker(&old, &marker.event_id) => standing,
            Ok(old) => old,
            // The answer was lost. Which marker stands there says whether the swap took place; under the key's lock
            // it replaced what was read above.
            Err(CallError::Deadline { .. }) if self.stands(row, &marker.event_id).await => standing,
            Err(error) => return Err(error),
        };
        match Live::read(&swapped_out) {
            Some(taken) if taken.identity == identity => {
                self.send_and_delete(row, &marker).await;
                Ok(true)
            }
            // Somebody outside wrote between the read and the swap: what was there goes back.
            Some(_) => {
                state.swap(Scope::Pending, row, &swapped_out, Deadline::after(REMOVAL_BUDGET)).await?;
                Ok(self.gone(identity))
            }
            None => {
                let _ = state.delete(Scope::Pending, row, Deadline::after(REMOVAL_BUDGET)).await;
                Ok(self.gone(identity))
            }
        }
    }

    /// The hold is not there any more; nothing about it is needed.
    fn gone(&self, identity: &str) -> bool {
        self.inner.decisions.forget(identity);
        false
    }

    /// Steps 2 and 3. Any answer to the deletion also says that the event reached the engine, which was sent before it
    /// on the same connection. If the connection was lost instead, both are done again, the event under the same id.
    async fn send_and_delete(&self, row: &str, marker: &ResolvedMarker) {
        self.inner.decisions.forget(&marker.hold_id);
        let deadline = Deadline::after(REMOVAL_BUDGET);
        let connection = self.inner.state.connection();
        let sent = self.inner.events.resolved(&marker.event);
        if sent && self.inner.state.delete(Scope::Pending, row, deadline).await.is_ok() {
            return;
        }
        let (inbox, row, event_id) = (self.clone(), row.to_owned(), marker.event_id.clone());
        self.inner.background.spawn(async move {
            for attempt in 0..SEND_TRIES {
                tokio::time::sleep(retry_delay(attempt)).await;
                let is_told = sent && inbox.inner.state.connection() == connection;
                if inbox.send_left(&row, &event_id, is_told).await.is_ok() {
                    return;
                }
            }
            tracing::warn!(row, "a marker is left to be sent at the next start");
        });
    }

    /// Removes a record whose call was not held after all. Nobody was told of it, so nobody is told now.
    pub(super) async fn take_back(&self, row: &str, identity: &str, _guard: &KeyGuard) {
        let state = &self.inner.state;
        let mut looks_clean = false;
        for attempt in 0..TAKE_BACK_TRIES {
            let deadline = Deadline::after(REMOVAL_BUDGET);
            match state.get(Scope::Pending, row, deadline).await {
                Ok(value) if Live::read(&value).is_some_and(|live| live.identity == identity) => {
                    if state.swap(Scope::Pending, row, &Value::Null, deadline).await.is_ok()
                        && state.delete(Scope::Pending, row, deadline).await.is_ok()
                    {
                        return;
                    }
                }
                Ok(_) if looks_clean => return,
                Ok(_) => {
                    looks_clean = true;
                    tokio::time::sleep(LATE_WRITE).await;
                    continue;
                }
                Err(_) => {}
            }
            tokio::time::sleep(retry_delay(attempt)).await;
        }
        tracing::error!(row, "a record of a call that was denied could not be taken back");
    }

    /// Sends and deletes the markers that an earlier run left behind; says how many.
    pub async fn send_what_was_left(&self) -> Result<usize, CallError> {
        let rows = self.inner.state.list(Scope::Pending, Deadline::after(Duration::from_secs(10))).await?;
        let mut sent = 0;
        for value in &rows {
            if let StoredRow::Resolved(found) = StoredRow::read(value) {
                sent += usize::from(self.send_left(&found.row, &found.event_id, false).await?);
            }
        }
        Ok(sent)
    }

    /// Sends this marker's event, unless it is told already, and deletes the marker, if it still stands there.
    async fn send_left(&self, row: &str, event_id: &str, is_told: bool) -> Result<bool, CallError> {
        let _guard = self.inner.locks.lock(row).await;
        let deadline = Deadline::after(REMOVAL_BUDGET);
        let standing = self.inner.state.get(Scope::Pending, row, deadline).await?;
        let StoredRow::Resolved(marker) = StoredRow::read(&standing) else { return Ok(false) };
        if marker.event_id != event_id {
            return Ok(false);
        }
        if !is_told && !self.inner.events.resolved(&marker.event) {
            return Err(CallError::NotConnected);
        }
        self.inner.state.delete(Scope::Pending, row, deadline).await?;
        Ok(true)
    }

    /// Whether this very marker stands under the key.
    async fn stands(&self, row: &str, event_id: &str) -> bool {
        let value = self.inner.state.get(Scope::Pending, row, Deadline::after(REMOVAL_BUDGET)).await;
        value.is_ok_and(|value| is_marker(&value, event_id))
    }
}

fn is_marker(value: &Value, event_id: &str) -> bool {
    matches!(StoredRow::read(value), StoredRow::Resolved(marker) if marker.event_id == event_id)
}

fn marker(row: &str, live: &Live, ending: &Ending) -> ResolvedMarker {
    let event_id = Uuid::new_v4().to_string();
    let event = PendingResolvedEvent {
        reason: ending.reason.clone(),
        event_id: Some(event_id.clone()),
        ..PendingResolvedEvent::of(&live.record, ending.outcome.into(), clock::now_ms())
    };
    ResolvedMarker::new(row, &event_id, &live.identity, event)
}
