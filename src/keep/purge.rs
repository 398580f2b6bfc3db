//! The end of a turn or a session: its holds leave the inbox.
//!
//! A hold that is being decided at that moment ends as its decision says, because the decision was made; every other
//! one is aborted.

use std::time::Duration;

use super::background::retry_delay;
use super::inbox::{Inbox, LIST_BUDGET, Live};
use crate::clock::{self, Deadline};
use crate::hold::Ending;
use crate::siblings::state::Scope;
use crate::wire::record::PendingApprovalRecord;

/// How often a purge that could not be finished is tried again.
const PURGE_TRIES: u32 = 12;

/// How late the engine's news of a row may come.
const LATE_NEWS: Duration = Duration::from_millis(500);

/// What has ended.
#[derive(Debug, Clone)]
pub(super) enum Ended {
    /// A turn; in every session, if the notice names none.
    Turn {
        /// Its session.
        session_id: Option<String>,
        /// The turn.
        turn_id: String,
    },
    /// A session with all its turns.
    Session {
        /// The session.
        session_id: String,
    },
}

impl Ended {
    fn includes(&self, record: &PendingApprovalRecord) -> bool {
        match self {
            Self::Turn { session_id, turn_id } => {
                *turn_id == record.turn_id && session_id.as_ref().is_none_or(|id| *id == record.session_id)
            }
            Self::Session { session_id } => *session_id == record.session_id,
        }
    }
}

impl Inbox {
    /// Removes the holds; what the store refuses now is tried again behind. Says whether all is done.
    pub(super) async fn purge(&self, ended: Ended) -> bool {
        let noticed_ms = clock::now_ms();
        if self.purge_once(&ended, i64::MAX).await {
            // A row that somebody else wrote a moment ago may not have been told to us yet.
            let inbox = self.clone();
            self.inner.background.spawn(async move {
                tokio::time::sleep(LATE_NEWS).await;
                inbox.purge_once(&ended, noticed_ms).await;
            });
            return true;
        }
        let inbox = self.clone();
        self.inner.background.spawn(async move {
            for attempt in 0..PURGE_TRIES {
                tokio::time::sleep(retry_delay(attempt)).await;
                if inbox.purge_once(&ended, noticed_ms).await {
                    return;
                }
            }
            tracing::error!("records of an ended turn or session could not be removed");
        });
        false
    }

    /// One pass over the holds that were made until a moment. Later passes leave alone what came after the notice: one
    /// that names no session also means turns of that name which go on in other sessions.
    async fn purge_once(&self, ended: &Ended, until_ms: i64) -> bool {
        let connection = self.inner.state.connection();
        let known = match ended {
            Ended::Turn { session_id, turn_id } => {
                self.inner.view.of_turn(connection, session_id.as_deref(), turn_id)
            }
            Ended::Session { session_id } => self.inner.view.of_session(connection, session_id),
        };
        let Some(known) = known else { return self.purge_by_list(ended, until_ms).await };
        let mut done = true;
        for hold in known.iter().filter(|hold| hold.pending_at <= until_ms) {
            done &= self.end(&hold.row, &hold.identity).await;
        }
        done
    }

    /// While the view is not complete, the store is listed.
    async fn purge_by_list(&self, ended: &Ended, until_ms: i64) -> bool {
        let rows = match self.inner.state.list(Scope::Pending, Deadline::after(LIST_BUDGET)).await {
            Ok(rows) => rows,
            Err(error) => {
                tracing::warn!(%error, "the inbox could not be listed for a purge");
                return false;
            }
        };
        let mut done = true;
        let is_meant =
            |record: &PendingApprovalRecord| ended.includes(record) && record.pending_at <= until_ms;
        for live in rows.iter().filter_map(Live::read).filter(|live| is_meant(&live.record)) {
            done &= self.end(&live.record.row(), &live.identity).await;
        }
        done
    }

    /// Ends one hold: as the decision says that is being carried out, else aborted.
    pub(super) async fn end(&self, row: &str, identity: &str) -> bool {
        let ending = self.inner.decisions.under_way(identity).unwrap_or(Ending::ABORTED);
        self.remove(row, identity, &ending).await
    }
}
