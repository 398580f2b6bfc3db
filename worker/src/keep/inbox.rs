//! The inbox of held calls: the one place that writes and removes their rows.
//!
//! Every hold has one life (contract §2): one created event, then exactly one resolved event. Three things make it
//! so. All work on one row key happens under that key's lock, which is never held across a call into the harness.
//! A removal is decided by an atomic swap (see `taking`). A write whose answer comes too late, or never, is taken
//! back by the task that made it, which keeps the key's lock until the store is known to be right.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Map, Value};
use thiserror::Error;

use super::background::{Background, retry_delay};
use super::decisions::{Claim, Decisions};
use super::endings::{Ended, Endings};
use super::in_progress::{InProgress, Ticket};
use super::inbox_view::{InboxView, Known};
use super::keyed_lock::KeyedLock;
use super::released::Released;
pub use super::slot::Slot;
use crate::audit::Audit;
use crate::clock::Deadline;
use crate::events::Events;
use crate::hold::{Ending, HoldKey, Indexed, Outcome, Page, Position};
use crate::iii::CallError;
use crate::siblings::state::{Scope, State};
use crate::wire::record::{PendingApprovalRecord, StoredRow};

/// How long a row may take to be removed before the caller is answered and the rest goes on behind.
pub(super) const REMOVAL_BUDGET: Duration = Duration::from_secs(5);
/// How long the whole inbox may take to be listed.
pub(super) const LIST_BUDGET: Duration = Duration::from_secs(10);
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
    pub(super) audit: Audit,
    pub(super) locks: KeyedLock,
    pub(super) decisions: Decisions,
    pub(super) released: Released,
    pub(super) progress: InProgress,
    pub(super) endings: Endings,
    /// What the store holds, in memory.
    pub(super) view: InboxView,
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

/// Why a decision could not begin. Nothing has happened then.
#[derive(Debug, Error)]
pub enum DecideError {
    /// The store did not answer in time, or refused.
    #[error(transparent)]
    Store(#[from] HoldError),
    /// The hold that stands there is not the one that was shown.
    #[error("another call is held there than the one that was shown")]
    DigestMismatch,
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
                audit: Audit::new(events.clone()),
                events,
                locks: KeyedLock::default(),
                decisions: Decisions::default(),
                released: Released::default(),
                progress: InProgress::default(),
                endings: Endings::default(),
                view: InboxView::default(),
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
        let value = match self.inner.view.known(self.inner.state.connection(), &row) {
            Known::Empty => Value::Null,
            Known::Unknown => self.read_row(&row, deadline, &guard).await.map_err(HoldError::Unavailable)?,
        };
        let live = match self.understood(&value) {
            StoredRow::Live(record) => Some(Live::of(*record)),
            StoredRow::Resolved(marker) => {
                if !self.finish(&row, &marker, &guard).await {
                    // What would be written here would swallow the event of the hold before.
                    return Err(HoldError::Unavailable(CallError::NotConnected));
                }
                None
            }
            StoredRow::Null | StoredRow::Unreadable(_) => None,
        };
        Ok(Slot { inbox: self.clone(), row, ticket, guard, live })
    }

    /// Whether this very call waits already, whatever is asked about it and whatever is being decided. Looks without the
    /// key's lock, so it is true of this moment only.
    pub async fn holds_call_of(
        &self,
        record: &PendingApprovalRecord,
        deadline: Deadline,
    ) -> Result<bool, CallError> {
        let row = record.row();
        let value = match self.inner.view.known(self.inner.state.connection(), &row) {
            Known::Empty => return Ok(false),
            Known::Unknown => self.inner.state.get(Scope::Pending, &row, deadline).await?,
        };
        Ok(Live::read(&value).is_some_and(|live| live.record.is_same_call(record)))
    }

    /// Whether a person has just released the call of this record.
    pub fn was_released(&self, record: &PendingApprovalRecord) -> bool {
        self.inner.released.contains(record)
    }

    /// Takes a hold for a decision. `None`: nothing is held there, or another decision is being carried out. `shown` is the
    /// digest of the hold that was looked at, if the decision is bound to it.
    pub async fn decide(
        &self,
        key: HoldKey,
        ending: Ending,
        shown: Option<&str>,
        deadline: Deadline,
    ) -> Result<Option<Deciding>, DecideError> {
        let row = key.row();
        let guard = tokio::time::timeout_at(deadline.instant(), self.inner.locks.lock(&row))
            .await
            .map_err(|_| HoldError::TooSlow)?;
        let value = self.read_row(&row, deadline, &guard).await.map_err(HoldError::Unavailable)?;
        let Some(live) = Live::read(&value) else { return Ok(None) };
        if shown.is_some() && shown != live.record.digest.as_deref() {
            return Err(DecideError::DigestMismatch);
        }
        let outcome = ending.outcome;
        let Some(claim) = self.inner.decisions.claim(&live.identity, ending) else { return Ok(None) };
        if outcome == Outcome::Allow {
            self.inner.released.remember(&live.record);
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
        self.inner.released.forget(&live.record);
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
        Ok(self.undecided(&value))
    }

    /// One page as JSON texts, from memory, while the view is complete.
    pub fn page(
        &self,
        session_id: Option<&str>,
        metadata: Option<&Map<String, Value>>,
        after: Option<&Position>,
        limit: usize,
    ) -> Option<Page<Arc<RawValue>>> {
        let shown = |hold: &Indexed| !self.inner.decisions.is_settled(&hold.identity);
        self.inner.view.page(self.inner.state.connection(), session_id, metadata, after, limit, shown)
    }

    /// All live records.
    pub async fn list(&self) -> Result<Vec<Live>, CallError> {
        let rows = self.inner.state.list(Scope::Pending, Deadline::after(LIST_BUDGET)).await?;
        Ok(rows.iter().filter_map(|value| self.undecided(value)).collect())
    }

    fn undecided(&self, value: &Value) -> Option<Live> {
        let StoredRow::Live(record) = self.understood(value) else { return None };
        Some(Live::of(*record)).filter(|live| !self.inner.decisions.is_settled(&live.identity))
    }

    /// A turn has ended: its records go, in every session if the notice names none. Says whether all is done.
    pub async fn turn_ended(&self, session_id: Option<&str>, turn_id: &str) -> bool {
        self.inner.progress.turn_ended(session_id, turn_id);
        self.inner.released.forget_turn(session_id, turn_id);
        let ended = Ended::Turn { session_id: session_id.map(str::to_owned), turn_id: turn_id.to_owned() };
        self.purge(ended).await
    }

    /// A session has ended: its records go. Says whether all is done.
    pub async fn session_ended(&self, session_id: &str) -> bool {
        self.inner.progress.session_ended(session_id);
        self.inner.released.forget_session(session_id);
        self.purge(Ended::Session { session_id: session_id.to_owned() }).await
    }

    /// What a value of the store is. One that cannot be read is reported, once.
    pub(super) fn understood(&self, value: &Value) -> StoredRow {
        let stored = StoredRow::read(value);
        if let StoredRow::Unreadable(why) = &stored {
            self.report(value, why);
        }
        stored
    }

    fn report(&self, value: &Value, why: &str) {
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
