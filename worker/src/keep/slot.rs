//! One arriving call at its place in the inbox: what it means there, and how its hold is written.
//!
//! The place is locked from the moment it is opened until the store is known to be right, which may be long after the
//! hook was answered: a write whose answer comes too late, or never, is taken back here.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use tokio::sync::oneshot;
use uuid::Uuid;

use super::background::{retry_delay, try_again};
use super::in_progress::Ticket;
use super::inbox::{HoldError, Inbox, Live, REMOVAL_BUDGET};
use super::keyed_lock::KeyGuard;
use crate::clock::Deadline;
use crate::hold::{Arrival, Ending, Standing, arrival};
use crate::iii::CallError;
use crate::wire::record::PendingApprovalRecord;

/// How long the answer to a hold's write is waited for, by the task that owns the write.
const WRITE_PATIENCE: Duration = Duration::from_secs(10);
/// How often a hold that nobody waits for any more is removed again.
const REMOVE_TRIES: u32 = 12;

/// The place under one key, locked, with what stands there.
pub struct Slot {
    pub(super) inbox: Inbox,
    pub(super) row: String,
    pub(super) ticket: Ticket,
    pub(super) guard: KeyGuard,
    pub(super) live: Option<Live>,
}

impl Slot {
    /// What it means that this record arrives here.
    pub fn arrival(&self, record: &PendingApprovalRecord) -> Arrival {
        arrival(self.live.as_ref().map_or(Standing::Nothing, |live| Standing::Live {
            same_call: live.record.is_same_question(record),
            deciding: self.inbox.inner.decisions.under_way(&live.identity),
        }))
    }

    /// Holds nothing here: what stands here ends so, because nobody waits for it any more. What the store refuses now is
    /// tried again behind.
    pub async fn end(self, ending: Ending) {
        let Some(live) = self.live else { return };
        if self.inbox.remove_locked(&self.row, &live.identity, &ending, &self.guard).await {
            return;
        }
        let (inbox, row) = (self.inbox.clone(), self.row);
        self.inbox.inner.background.spawn(async move {
            try_again(REMOVE_TRIES, || inbox.remove(&row, &live.identity, &ending)).await;
        });
    }

    /// Writes the record and tells the listeners. When this has returned an error, no record is left behind, or is
    /// being taken back.
    pub async fn hold(
        self,
        record: PendingApprovalRecord,
        arrival: Arrival,
        deadline: Deadline,
    ) -> Result<(), HoldError> {
        let (answer, mut answered) = oneshot::channel();
        let background = self.inbox.inner.background.clone();
        let mut writing = background.attached(self.write(record, arrival, answer));
        let told = poll_fn(|cx| {
            // What is left of it when it has answered goes on behind.
            let _ = Pin::new(&mut writing).poll(cx);
            Pin::new(&mut answered).poll(cx)
        });
        if let Ok(result) = tokio::time::timeout_at(deadline.instant(), told).await {
            return result.unwrap_or(Err(HoldError::TooSlow));
        }
        // Before the write goes on behind: it sees that nobody waits any more, and takes the record back.
        answered.close();
        Err(HoldError::TooSlow)
    }

    async fn write(
        self,
        mut record: PendingApprovalRecord,
        arrival: Arrival,
        answer: oneshot::Sender<Result<(), HoldError>>,
    ) {
        if let Err(error) = self.replace_older(&mut record, arrival).await {
            let _ = answer.send(Err(HoldError::Unavailable(error)));
            return;
        }
        let identity = record.becomes_a_hold(Uuid::new_v4);
        if !self.ticket.ended() {
            self.inbox.inner.endings.hold_made(&record, &identity);
        }
        let live = Live { record, identity };
        let patience = Deadline::after(WRITE_PATIENCE);
        match self.inbox.write_hold(&self.row, &live, patience, &self.guard).await {
            Ok(()) if self.ticket.ended() => {
                let _ = answer.send(Err(HoldError::TurnEnded));
                self.inbox.take_back(&self.row, &live.identity, &self.guard).await;
            }
            Ok(()) if answer.is_closed() => {
                self.inbox.take_back(&self.row, &live.identity, &self.guard).await;
            }
            Ok(()) => {
                self.inbox.inner.events.created(&live.record);
                let answered = answer.send(Ok(()));
                // Nobody decides about it before this has let go of the key, so that its end is told behind this.
                self.inbox.inner.audit.asked(&live.record);
                if answered.is_err() {
                    for attempt in 0..REMOVE_TRIES {
                        let (row, guard) = (&self.row, &self.guard);
                        if self.inbox.remove_locked(row, &live.identity, &Ending::ABORTED, guard).await {
                            break;
                        }
                        tokio::time::sleep(retry_delay(attempt)).await;
                    }
                }
            }
            Err(error) => {
                let never_sent = error.never_sent();
                let _ = answer.send(Err(HoldError::Unavailable(error)));
                if !never_sent {
                    self.inbox.take_back(&self.row, &live.identity, &self.guard).await;
                }
            }
        }
    }

    /// The older hold under this key ends first, so that consumers, which clear cards by call id alone, do not
    /// clear the new one. The newer `pending_at` is strictly larger, so that they see it as new.
    async fn replace_older(
        &self,
        record: &mut PendingApprovalRecord,
        arrival: Arrival,
    ) -> Result<(), CallError> {
        record.pending_at = self.inbox.inner.state.now_ms();
        let (Some(live), Arrival::Replaces(ending)) = (&self.live, arrival) else { return Ok(()) };
        record.pending_at = record.pending_at.max(live.record.pending_at.saturating_add(1));
        let deadline = Deadline::after(REMOVAL_BUDGET);
        self.inbox.take(&self.row, &live.identity, &ending, deadline, &self.guard).await.map(drop)
    }
}
