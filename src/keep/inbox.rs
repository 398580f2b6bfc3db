//! The inbox of held calls: the one place that writes and removes their rows.
//!
//! Every hold has one life (contract §2): one created event, then exactly one resolved event. Three things make it
//! so. All work on one row key happens under that key's lock, which is never held across a call into the harness.
//! A removal is decided by an atomic swap (see `taking`). A write whose answer comes too late, or never, is taken
//! back by the task that made it, which keeps the key's lock until the store is known to be right.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use thiserror::Error;
use tokio::sync::oneshot;
use uuid::Uuid;

use super::background::{Background, retry_delay};
use super::decisions::{Claim, Decisions};
use super::in_progress::{InProgress, Ticket};
use super::keyed_lock::{KeyGuard, KeyedLock};
use super::released::Released;
use crate::clock::{self, Deadline};
use crate::events::Events;
use crate::hold::{Arrival, Ending, HoldKey, Outcome, Standing, arrival};
use crate::iii::CallError;
use crate::siblings::state::{Scope, State};
use crate::wire::record::{PendingApprovalRecord, StoredRow};

/// How long a row may take to be removed before the caller is answered and the rest goes on behind.
pub(super) const REMOVAL_BUDGET: Duration = Duration::from_secs(5);
/// How long the answer to a hold's write is waited for, by the task that owns the write.
const WRITE_PATIENCE: Duration = Duration::from_secs(10);
/// How long the whole inbox may take to be listed.
const LIST_BUDGET: Duration = Duration::from_secs(10);
/// How often a purge that could not be finished is tried again.
const PURGE_TRIES: u32 = 12;
/// How many unreadable rows are remembered as already reported.
const REPORTED_ROWS: usize = 1_024;

/// The inbox. Cheap to clone.
#[derive(Clone)]
pub struct Inbox {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) state: State,
    pub(super) events: Events,
    pub(super) locks: KeyedLock,
    pub(super) decisions: Decisions,
    pub(super) released: Released,
    progress: InProgress,
    pub(super) background: Background,
    /// Markers that stand although their event was sent, by event id, and on which connection it was.
    pub(super) told: Mutex<HashMap<String, u64>>,
    reported: Mutex<HashSet<u64>>,
}

/// Why a call could not be held.
#[derive(Debug, Error)]
pub enum HoldError {
    /// The store did not answer, or refused.
    #[error("the store of held calls is not available")]
    Unavailable(#[source] CallError),
    /// The hook's budget ran out.
    #[error("the store of held calls did not answer in time")]
    TooSlow,
    /// The turn or session ended while the record was being written.
    #[error("the turn or session of this call has ended")]
    TurnEnded,
}

/// A live hold, as it was read.
#[derive(Debug, Clone)]
pub struct Live {
    /// The record.
    pub record: PendingApprovalRecord,
    /// Which hold it is: its own id, or for rows of an older worker a digest of the row.
    pub identity: String,
}

impl Live {
    /// From a stored value, if it is a live record.
    pub fn read(value: &Value) -> Option<Self> {
        match StoredRow::read(value) {
            StoredRow::Live(record) => Some(Self::of(*record)),
            _ => None,
        }
    }

    /// Of a record.
    pub fn of(record: PendingApprovalRecord) -> Self {
        let identity = record.identity();
        Self { record, identity }
    }
}

/// A person's decision, about to be carried out on one hold.
pub struct Deciding {
    /// The hold.
    pub live: Live,
    /// The key it was asked for under. A row's own ids may differ; the harness is told these.
    pub key: HoldKey,
    /// The right to carry it out.
    pub claim: Claim,
}

impl Inbox {
    /// An inbox over this store, telling these listeners.
    pub fn new(state: State, events: Events, background: Background) -> Self {
        Self {
            inner: Arc::new(Inner {
                state,
                events,
                locks: KeyedLock::default(),
                decisions: Decisions::default(),
                released: Released::default(),
                progress: InProgress::default(),
                background,
                told: Mutex::default(),
                reported: Mutex::default(),
            }),
        }
    }

    /// A call of this turn has arrived and may come to be held. Taken before anything is waited for: a turn or
    /// session that ends from then on reaches the hold, also while it is not written yet.
    pub fn arrived(&self, session_id: &str, turn_id: &str) -> Ticket {
        self.inner.progress.begin(session_id, turn_id)
    }

    /// Opens the place under a key for an arriving call: waits for the key's lock and reads the row.
    pub async fn open(&self, key: HoldKey, ticket: Ticket, deadline: Deadline) -> Result<Slot, HoldError> {
        let row = key.row();
        let guard = tokio::time::timeout_at(deadline.instant(), self.inner.locks.lock(&row))
            .await
            .map_err(|_| HoldError::TooSlow)?;
        let value =
            self.inner.state.get(Scope::Pending, &row, deadline).await.map_err(HoldError::Unavailable)?;
        self.report_unreadable(&value);
        if let StoredRow::Resolved(marker) = StoredRow::read(&value)
            && !self.finish(&row, &marker, &guard).await
        {
            // What would be written here would swallow the event of the hold before.
            return Err(HoldError::Unavailable(CallError::NotConnected));
        }
        let live = Live::read(&value);
        Ok(Slot { inbox: self.clone(), row, ticket, guard, live })
    }

    /// Whether a person has just released the call of this record.
    pub fn was_released(&self, record: &PendingApprovalRecord) -> bool {
        record.digest.as_ref().is_some_and(|digest| self.inner.released.contains(digest))
    }

    /// Takes a hold for a decision. `None`: nothing is held there, or another decision is being carried out.
    pub async fn decide(
        &self,
        key: HoldKey,
        ending: Ending,
        deadline: Deadline,
    ) -> Result<Option<Deciding>, HoldError> {
        let row = key.row();
        let _guard = tokio::time::timeout_at(deadline.instant(), self.inner.locks.lock(&row))
            .await
            .map_err(|_| HoldError::TooSlow)?;
        let value =
            self.inner.state.get(Scope::Pending, &row, deadline).await.map_err(HoldError::Unavailable)?;
        let Some(live) = Live::read(&value) else { return Ok(None) };
        let outcome = ending.outcome;
        let Some(claim) = self.inner.decisions.claim(&live.identity, ending) else { return Ok(None) };
        if let (Outcome::Allow, Some(digest)) = (outcome, &live.record.digest) {
            self.inner.released.remember(digest, key.session_id(), &live.record.turn_id);
        }
        Ok(Some(Deciding { live, key, claim }))
    }

    /// The decision did not take effect, or nobody knows: the record stays and can be decided again.
    pub fn not_decided(&self, deciding: Deciding, may_have_happened: bool) {
        self.not_released(&deciding.live);
        if may_have_happened {
            deciding.claim.unanswered();
        }
    }

    fn not_released(&self, live: &Live) {
        if let Some(digest) = &live.record.digest {
            self.inner.released.forget(digest);
        }
    }

    /// The decision took effect: the row goes and the listeners are told. If the store fails, that is done later.
    pub async fn decided(&self, deciding: Deciding, ending: Ending) {
        deciding.claim.settled();
        if ending.outcome != Outcome::Allow {
            self.not_released(&deciding.live);
        }
        let row = deciding.key.row();
        if self.remove(&row, &deciding.live.identity, &ending).await {
            return;
        }
        let inbox = self.clone();
        self.inner.background.spawn(async move {
            let mut attempt = 0;
            loop {
                tokio::time::sleep(retry_delay(attempt)).await;
                if inbox.remove(&row, &deciding.live.identity, &ending).await {
                    break;
                }
                attempt += 1;
            }
            drop(deciding);
        });
    }

    /// One live record, unless it is decided already.
    pub async fn get(&self, key: &HoldKey, deadline: Deadline) -> Result<Option<Live>, CallError> {
        let value = self.inner.state.get(Scope::Pending, &key.row(), deadline).await?;
        self.report_unreadable(&value);
        Ok(Live::read(&value).filter(|live| !self.inner.decisions.is_settled(&live.identity)))
    }

    /// All live records.
    pub async fn list(&self) -> Result<Vec<Live>, CallError> {
        let rows = self.inner.state.list(Scope::Pending, Deadline::after(LIST_BUDGET)).await?;
        let live = rows.iter().filter_map(|value| {
            self.report_unreadable(value);
            Live::read(value)
        });
        Ok(live.filter(|live| !self.inner.decisions.is_settled(&live.identity)).collect())
    }

    /// A turn has ended: its records go, in every session if the notice names none.
    pub async fn turn_ended(&self, session_id: Option<&str>, turn_id: &str) -> bool {
        self.inner.progress.turn_ended(session_id, turn_id);
        self.inner.released.forget_turn(session_id, turn_id);
        let (session_id, turn_id) = (session_id.map(str::to_owned), turn_id.to_owned());
        self.purge(move |record| {
            record.turn_id == turn_id && session_id.as_ref().is_none_or(|id| *id == record.session_id)
        })
        .await
    }

    /// A session has ended: its records go.
    pub async fn session_ended(&self, session_id: &str) -> bool {
        self.inner.progress.session_ended(session_id);
        self.inner.released.forget_session(session_id);
        let session_id = session_id.to_owned();
        self.purge(move |record| record.session_id == session_id).await
    }

    /// Removes the matching records; what the store refuses now is tried again behind. Says whether all is done.
    async fn purge(
        &self,
        matches: impl Fn(&PendingApprovalRecord) -> bool + Clone + Send + Sync + 'static,
    ) -> bool {
        if self.purge_once(&matches).await {
            return true;
        }
        let inbox = self.clone();
        self.inner.background.spawn(async move {
            for attempt in 0..PURGE_TRIES {
                tokio::time::sleep(retry_delay(attempt)).await;
                if inbox.purge_once(&matches).await {
                    return;
                }
            }
            tracing::error!("records of an ended turn or session could not be removed");
        });
        false
    }

    async fn purge_once(&self, matches: &impl Fn(&PendingApprovalRecord) -> bool) -> bool {
        let rows = match self.inner.state.list(Scope::Pending, Deadline::after(LIST_BUDGET)).await {
            Ok(rows) => rows,
            Err(error) => {
                tracing::warn!(%error, "the inbox could not be listed for a purge");
                return false;
            }
        };
        let mut done = true;
        for live in rows.iter().filter_map(Live::read).filter(|live| matches(&live.record)) {
            let ending = self.inner.decisions.under_way(&live.identity).unwrap_or(Ending::ABORTED);
            done &= self.remove(&live.record.row(), &live.identity, &ending).await;
        }
        done
    }

    /// Rows that cannot be read are skipped, and said once each.
    fn report_unreadable(&self, value: &Value) {
        let StoredRow::Unreadable(why) = StoredRow::read(value) else { return };
        let fingerprint = {
            use std::hash::{DefaultHasher, Hash, Hasher};
            let mut hasher = DefaultHasher::new();
            value.to_string().hash(&mut hasher);
            hasher.finish()
        };
        let mut reported = self.inner.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if reported.len() < REPORTED_ROWS && reported.insert(fingerprint) {
            tracing::warn!(%why, "a row of the inbox cannot be read and is skipped");
        }
    }

    /// What is kept in memory, for leak checks: locked keys, decisions, writes under way, markers
    /// whose event was sent, background work.
    pub fn counts(&self) -> [usize; 5] {
        let inner = &self.inner;
        let told = inner.told.lock().unwrap_or_else(PoisonError::into_inner).len();
        [inner.locks.len(), inner.decisions.len(), inner.progress.len(), told, inner.background.running()]
    }
}

/// The place under one key, locked, with what stands there.
pub struct Slot {
    inbox: Inbox,
    row: String,
    ticket: Ticket,
    guard: KeyGuard,
    live: Option<Live>,
}

impl Slot {
    /// What it means that this record arrives here.
    pub fn arrival(&self, record: &PendingApprovalRecord) -> Arrival {
        arrival(self.live.as_ref().map_or(Standing::Nothing, |live| Standing::Live {
            same_call: live.record.is_same_question(record),
            deciding: self.inbox.inner.decisions.under_way(&live.identity),
        }))
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
        background.spawn(self.write(record, arrival, answer));
        if let Ok(result) = tokio::time::timeout_at(deadline.instant(), &mut answered).await {
            return result.unwrap_or(Err(HoldError::TooSlow));
        }
        // The task may have answered in this very moment; then its answer counts. Otherwise it sees that nobody
        // waits any more, and takes the record back.
        answered.close();
        answered.try_recv().unwrap_or(Err(HoldError::TooSlow))
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
        let identity = record.assign_hold_id(&Uuid::new_v4().to_string());
        let state = &self.inbox.inner.state;
        let patience = Deadline::after(WRITE_PATIENCE);
        match state.swap(Scope::Pending, &self.row, &record.stored(), patience).await {
            Ok(_) if self.ticket.ended() => {
                let _ = answer.send(Err(HoldError::TurnEnded));
                self.inbox.take_back(&self.row, &identity, &self.guard).await;
            }
            Ok(_) if answer.is_closed() => self.inbox.take_back(&self.row, &identity, &self.guard).await,
            Ok(_) => {
                self.inbox.inner.events.created(&record);
                if answer.send(Ok(())).is_err() {
                    for attempt in 0..PURGE_TRIES {
                        let (row, guard) = (&self.row, &self.guard);
                        if self.inbox.remove_locked(row, &identity, &Ending::ABORTED, guard).await {
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
                    self.inbox.take_back(&self.row, &identity, &self.guard).await;
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
        record.pending_at = clock::now_ms();
        let (Some(live), Arrival::Replaces(ending)) = (&self.live, arrival) else { return Ok(()) };
        record.pending_at = record.pending_at.max(live.record.pending_at.saturating_add(1));
        let deadline = Deadline::after(REMOVAL_BUDGET);
        self.inbox.take(&self.row, &live.identity, &ending, deadline, &self.guard).await.map(drop)
    }
}
