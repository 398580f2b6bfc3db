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
use crate::hold::Outcome;
use crate::iii::CallError;
use crate::siblings::state::Scope;
use crate::wire::events::PendingResolvedEvent;
use crate::wire::record::{ResolvedMarker, StoredRow};

/// How often the deletion of a marker is tried again before it is left to the next start.
const DELETE_TRIES: u32 = 8;
/// A write without an answer may still arrive; how long the store is watched for it.
const LATE_WRITE: Duration = Duration::from_secs(2);
/// How often a record that must not stay is looked for before the next start's reconciling has to do it.
const TAKE_BACK_TRIES: u32 = 60;

impl Inbox {
    /// Removes the hold with this identity, if it still stands there, and tells the listeners. Says whether that
    /// is settled: true when the hold is gone, whoever removed it; false when the store failed.
    pub(super) async fn remove(
        &self,
        row: &str,
        identity: &str,
        outcome: Outcome,
        reason: Option<&str>,
    ) -> bool {
        let guard = self.inner.locks.lock(row).await;
        self.remove_locked(row, identity, outcome, reason, &guard).await
    }

    /// As [`Inbox::remove`], with the key's lock held already.
    pub(super) async fn remove_locked(
        &self,
        row: &str,
        identity: &str,
        outcome: Outcome,
        reason: Option<&str>,
        guard: &KeyGuard,
    ) -> bool {
        let deadline = Deadline::after(REMOVAL_BUDGET);
        match self.take(row, identity, outcome, reason, deadline, guard).await {
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
        outcome: Outcome,
        reason: Option<&str>,
        deadline: Deadline,
        _guard: &KeyGuard,
    ) -> Result<bool, CallError> {
        let state = &self.inner.state;
        let standing = state.get(Scope::Pending, row, deadline).await?;
        let Some(live) = Live::read(&standing).filter(|live| live.identity == identity) else {
            self.inner.decisions.forget(identity);
            return Ok(false);
        };
        let event_id = Uuid::new_v4().to_string();
        let event = PendingResolvedEvent {
            reason: reason.map(str::to_owned),
            event_id: Some(event_id.clone()),
            ..PendingResolvedEvent::of(&live.record, outcome.into(), clock::now_ms())
        };
        let marker = ResolvedMarker::new(row, &event_id, live.record.hold_id.clone(), event);
        let swapped_out = match state.swap(Scope::Pending, row, &marker.stored(), deadline).await {
            Ok(old) => old,
            // The answer was lost. Which marker stands there says whether the swap took place; under the key's lock
            // it replaced what was read above.
            Err(CallError::Deadline { .. }) if self.stands(row, &event_id).await => standing,
            Err(error) => return Err(error),
        };
        match Live::read(&swapped_out) {
            Some(taken) if taken.identity == identity => {
                self.inner.events.resolved(&marker.event);
                self.inner.decisions.forget(identity);
                self.delete_marker(row, &event_id).await;
                Ok(true)
            }
            // Somebody outside wrote between the read and the swap: what was there goes back.
            Some(_) => {
                state.swap(Scope::Pending, row, &swapped_out, Deadline::after(REMOVAL_BUDGET)).await?;
                Ok(false)
            }
            None => {
                self.delete_marker(row, &event_id).await;
                Ok(false)
            }
        }
    }

    /// Removes a record whose call was not held after all. Nobody was told of it, so nobody is told now.
    pub(super) async fn take_back(&self, row: &str, identity: &str, _guard: &KeyGuard) {
        let state = &self.inner.state;
        let (mut looks_clean, mut emptied) = (false, false);
        for attempt in 0..TAKE_BACK_TRIES {
            let deadline = Deadline::after(REMOVAL_BUDGET);
            match state.get(Scope::Pending, row, deadline).await {
                Ok(value) if Live::read(&value).is_some_and(|live| live.identity == identity) => {
                    emptied = true;
                    if state.swap(Scope::Pending, row, &Value::Null, deadline).await.is_ok()
                        && state.delete(Scope::Pending, row, deadline).await.is_ok()
                    {
                        return;
                    }
                }
                // Our own null, whose deletion failed.
                Ok(Value::Null) if emptied => {
                    if state.delete(Scope::Pending, row, deadline).await.is_ok() {
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

    /// Sends and deletes the markers that an earlier run left behind.
    pub async fn send_what_was_left(&self) -> Result<usize, CallError> {
        let rows = self.inner.state.list(Scope::Pending, Deadline::after(Duration::from_secs(10))).await?;
        let mut sent = 0;
        for value in &rows {
            let StoredRow::Resolved(found) = StoredRow::read(value) else { continue };
            let row = found.row.clone();
            let _guard = self.inner.locks.lock(&row).await;
            let deadline = Deadline::after(REMOVAL_BUDGET);
            let now = self.inner.state.get(Scope::Pending, &row, deadline).await?;
            if let StoredRow::Resolved(marker) = StoredRow::read(&now)
                && marker.event_id == found.event_id
            {
                self.inner.events.resolved(&marker.event);
                self.inner.state.delete(Scope::Pending, &row, deadline).await?;
                sent += 1;
            }
        }
        Ok(sent)
    }

    /// Whether this very marker stands under the key.
    async fn stands(&self, row: &str, event_id: &str) -> bool {
        let value = self.inner.state.get(Scope::Pending, row, Deadline::after(REMOVAL_BUDGET)).await;
        value.is_ok_and(|value| is_marker(&value, event_id))
    }

    /// Deletes a marker whose event was sent. A failure leaves it for a later try and then for the next start.
    async fn delete_marker(&self, row: &str, event_id: &str) {
        let state = &self.inner.state;
        if state.delete(Scope::Pending, row, Deadline::after(REMOVAL_BUDGET)).await.is_ok() {
            return;
        }
        let (inbox, row, event_id) = (self.clone(), row.to_owned(), event_id.to_owned());
        self.inner.background.spawn(async move {
            for attempt in 0..DELETE_TRIES {
                tokio::time::sleep(retry_delay(attempt)).await;
                let _guard = inbox.inner.locks.lock(&row).await;
                let deadline = Deadline::after(REMOVAL_BUDGET);
                match inbox.inner.state.get(Scope::Pending, &row, deadline).await {
                    Ok(value) if !is_marker(&value, &event_id) => return,
                    Ok(_) if inbox.inner.state.delete(Scope::Pending, &row, deadline).await.is_ok() => return,
                    _ => {}
                }
            }
            tracing::warn!(row, "a marker is left to be deleted at the next start");
        });
    }
}

fn is_marker(value: &Value, event_id: &str) -> bool {
    matches!(StoredRow::read(value), StoredRow::Resolved(marker) if marker.event_id == event_id)
}
