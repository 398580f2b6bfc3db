//! How a hold's row is removed, so that exactly one caller tells the listeners, even across a crash.
//!
//! 1. The row is swapped for a marker that carries the resolved event. Only the caller that sees the live record
//!    come out of the swap goes on.
//! 2. The event is sent.
//! 3. The marker is deleted.
//!
//! A crash after 1 leaves a marker, which the next start or connection sends and deletes; a crash after 2 repeats the event with
//! the same `event_id`. Readers skip markers. All of it happens under the key's lock, witnessed by the guard.

use std::collections::HashMap;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;

use super::background::{retry_delay, try_again};
use super::inbox::{Inbox, LIST_BUDGET, Live, REMOVAL_BUDGET};
use super::keyed_lock::KeyGuard;
use crate::clock::Deadline;
use crate::hold::Ending;
use crate::iii::CallError;
use crate::siblings::state::Scope;
use crate::wire::audit::AuditNote;
use crate::wire::events::PendingResolvedEvent;
use crate::wire::record::{ResolvedMarker, StoredRow};

/// How often the deletion of a marker is tried again before it is left to the next connection.
const DELETE_TRIES: u32 = 60;
/// A write without an answer may still arrive; how long the store is watched for it.
const LATE_WRITE: Duration = Duration::from_secs(2);
/// How long listeners may take to come back before what was left to be told is told without them.
const LISTENERS_COME_BACK: Duration = Duration::from_secs(30);
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
        guard: &KeyGuard,
    ) -> Result<bool, CallError> {
        let standing = self.read_row(row, deadline, guard).await?;
        let live = match StoredRow::read(&standing) {
            StoredRow::Live(record) if record.identity() == identity => Live::of(*record),
            // An earlier try of ours took it and was not told so.
            StoredRow::Resolved(marker) if marker.hold_id == identity => {
                return Ok(self.finish(row, &marker, guard).await);
            }
            _ => {
                self.inner.decisions.forget(identity);
                return Ok(false);
            }
        };
        let marker = marker(row, &live, ending, self.inner.state.now_ms());
        let swapped_out = match self.swap_row(row, &marker.stored(), deadline, guard).await {
            // Our own marker came out: the store carried the swap out twice, and this is the second one's answer. The
            // first one replaced what was read above.
            Ok(old) if is_marker(&old, identity) => standing,
            Ok(old) => old,
            Err(error) if error.never_sent() => return Err(error),
            // The answer was lost. Whether the marker stands there says whether the swap took place; under the key's
            // lock it replaced what was read above. It may also land later.
            Err(_) if self.stands(row, identity, guard).await => standing,
            Err(error) => {
                self.look_again(row, identity);
                return Err(error);
            }
        };
        match Live::read(&swapped_out) {
            Some(taken) if taken.identity == identity => {
                self.finish(row, &marker, guard).await;
                Ok(true)
            }
            // Somebody outside wrote between the read and the swap: what was there goes back.
            Some(_) => {
                self.swap_row(row, &swapped_out, Deadline::after(REMOVAL_BUDGET), guard).await?;
                Ok(false)
            }
            None => {
                self.delete_marker(row, &marker, guard).await;
                Ok(false)
            }
        }
    }

    /// Tells the listeners of a marker that stands there, and deletes it. False if there was no connection to tell them
    /// on: then the marker stays, and the next connection is told.
    pub(super) async fn finish(&self, row: &str, marker: &ResolvedMarker, guard: &KeyGuard) -> bool {
        self.inner.decisions.forget(&marker.hold_id);
        let told = self.tell(marker);
        if told {
            self.delete_marker(row, marker, guard).await;
        }
        told
    }

    /// Sends the event, unless it was sent on this very connection before. One that was sent on an earlier connection
    /// may have been lost with it; the repeat has the same id.
    fn tell(&self, marker: &ResolvedMarker) -> bool {
        let now = self.inner.events.connection();
        if self.told().get(&marker.event_id) == Some(&now) {
            return true;
        }
        let connection = self.tell_all(marker);
        if let Some(connection) = connection {
            let told_before = self.told().insert(marker.event_id.clone(), connection).is_some();
            if !told_before {
                self.inner.audit.log_end(marker);
            }
        }
        connection.is_some()
    }

    /// The audit first: a resolved event is not to be repeated only because the audit could not be told.
    fn tell_all(&self, marker: &ResolvedMarker) -> Option<u64> {
        if self.inner.audit.send_end(marker) { self.inner.events.resolved(&marker.event) } else { None }
    }

    fn told(&self) -> MutexGuard<'_, HashMap<String, u64>> {
        self.inner.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A swap without an answer may have taken effect, or may still: its marker must not be left to the next start.
    fn look_again(&self, row: &str, identity: &str) {
        let (inbox, row, identity) = (self.clone(), row.to_owned(), identity.to_owned());
        self.inner.background.spawn(async move {
            tokio::time::sleep(LATE_WRITE).await;
            for attempt in 0..DELETE_TRIES {
                let guard = inbox.inner.locks.lock(&row).await;
                let found = inbox.read_row(&row, Deadline::after(REMOVAL_BUDGET), &guard).await;
                match found.map(|value| StoredRow::read(&value)) {
                    Ok(StoredRow::Resolved(marker)) if marker.hold_id == identity => {
                        inbox.finish(&row, &marker, &guard).await;
                        return;
                    }
                    Ok(_) => return,
                    Err(_) => {}
                }
                drop(guard);
                tokio::time::sleep(retry_delay(attempt)).await;
            }
        });
    }

    /// Removes a record whose call was not held after all. Nobody was told of it, so nobody is told now.
    pub(super) async fn take_back(&self, row: &str, identity: &str, guard: &KeyGuard) {
        let (mut looks_clean, mut emptied) = (false, false);
        for attempt in 0..TAKE_BACK_TRIES {
            let deadline = Deadline::after(REMOVAL_BUDGET);
            match self.read_row(row, deadline, guard).await {
                Ok(value) if Live::read(&value).is_some_and(|live| live.identity == identity) => {
                    emptied = true;
                    if self.swap_row(row, &Value::Null, deadline, guard).await.is_ok()
                        && self.delete_row(row, deadline, guard).await.is_ok()
                    {
                        return;
                    }
                }
                // Our own null, whose deletion failed.
                Ok(Value::Null) if emptied => {
                    if self.delete_row(row, deadline, guard).await.is_ok() {
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

    /// Sends and deletes the markers that an earlier run or connection left behind, and says how many; while the store
    /// fails, again and again until the connection is another one, which starts anew.
    pub async fn send_what_was_left(&self) -> usize {
        let connection = self.inner.events.connection();
        let mut attempt = 0;
        loop {
            match self.try_to_send_what_was_left().await {
                Ok(sent) => return sent,
                Err(error) => {
                    tracing::warn!(%error, "the inbox could not be looked through for events to send");
                }
            }
            tokio::time::sleep(retry_delay(attempt)).await;
            attempt += 1;
            if self.inner.events.connection() != connection {
                return 0;
            }
        }
    }

    async fn try_to_send_what_was_left(&self) -> Result<usize, CallError> {
        let rows = self.inner.state.list(Scope::Pending, Deadline::after(LIST_BUDGET)).await?;
        let markers: Vec<ResolvedMarker> = rows
            .iter()
            .filter_map(|value| match StoredRow::read(value) {
                StoredRow::Resolved(marker) => Some(*marker),
                _ => None,
            })
            .collect();
        if !markers.is_empty() {
            self.inner.events.listener_or(LISTENERS_COME_BACK).await;
        }
        let mut sent = 0;
        for found in markers {
            let row = found.row.clone();
            let guard = self.inner.locks.lock(&row).await;
            let now = self.read_row(&row, Deadline::after(REMOVAL_BUDGET), &guard).await?;
            if let StoredRow::Resolved(marker) = StoredRow::read(&now)
                && marker.hold_id == found.hold_id
            {
                sent += usize::from(self.finish(&row, &marker, &guard).await);
            }
        }
        Ok(sent)
    }

    /// Whether this very marker stands under the key.
    async fn stands(&self, row: &str, identity: &str, guard: &KeyGuard) -> bool {
        let value = self.read_row(row, Deadline::after(REMOVAL_BUDGET), guard).await;
        value.is_ok_and(|value| is_marker(&value, identity))
    }

    /// Deletes a marker whose event was sent. A failure leaves it for a later try and then for the next connection; if the
    /// connection was lost meanwhile, the event may have been too and is sent once more.
    async fn delete_marker(&self, row: &str, marker: &ResolvedMarker, guard: &KeyGuard) {
        if self.delete_row(row, Deadline::after(REMOVAL_BUDGET), guard).await.is_ok() {
            self.told().remove(&marker.event_id);
            return;
        }
        let (inbox, row, marker) = (self.clone(), row.to_owned(), marker.clone());
        self.inner.background.spawn(async move {
            let delete = || async {
                let guard = inbox.inner.locks.lock(&row).await;
                inbox.try_delete_marker(&row, &marker, &guard).await
            };
            let deleted = try_again(DELETE_TRIES, delete).await;
            inbox.told().remove(&marker.event_id);
            if !deleted {
                tracing::warn!(row, "a marker is left to be deleted on the next connection");
            }
        });
    }

    /// Whether the marker is gone.
    async fn try_delete_marker(&self, row: &str, marker: &ResolvedMarker, guard: &KeyGuard) -> bool {
        let deadline = Deadline::after(REMOVAL_BUDGET);
        match self.read_row(row, deadline, guard).await {
            Ok(value) if !is_marker(&value, &marker.hold_id) => true,
            Ok(_) => self.tell(marker) && self.delete_row(row, deadline, guard).await.is_ok(),
            Err(_) => false,
        }
    }
}

/// Whether this is the marker of the hold with this identity.
fn is_marker(value: &Value, identity: &str) -> bool {
    matches!(StoredRow::read(value), StoredRow::Resolved(marker) if marker.hold_id == identity)
}

/// The marker of a hold's end. One hold, one event id: two tries of which both took effect must not look like two ends.
fn marker(row: &str, live: &Live, ending: &Ending, now_ms: i64) -> ResolvedMarker {
    let event_id = live.record.event_id();
    let event = PendingResolvedEvent {
        reason: ending.reason.clone(),
        event_id: Some(event_id.clone()),
        ..PendingResolvedEvent::of(&live.record, ending.outcome.into(), now_ms)
    };
    let audit = AuditNote::of(&live.record, ending);
    ResolvedMarker::new(row, &event_id, &live.identity, event, Some(audit))
}
