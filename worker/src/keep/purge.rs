//! The end of a turn or a session: its holds leave the inbox.
//!
//! A hold that is being decided at that moment ends as its decision says, because the decision was made; every other
//! one is aborted.

use std::time::Duration;

use super::background::try_again;
use super::endings::{Clearing, Ended};
use super::inbox::{Inbox, LIST_BUDGET, Live};
use crate::clock::Deadline;
use crate::hold::Ending;
use crate::siblings::state::Scope;

/// How often a purge that could not be finished is tried again.
const PURGE_TRIES: u32 = 12;

/// How late the engine's news of a row may come.
const LATE_NEWS: Duration = Duration::from_millis(500);

impl Inbox {
    /// Removes the holds; what the store refuses now is tried again behind. Says whether all is done.
    pub(super) async fn purge(&self, ended: Ended) -> bool {
        let clearing = self.inner.endings.begin(ended.clone());
        let done = self.purge_once(&ended, &clearing).await;
        let inbox = self.clone();
        self.inner.background.spawn(async move {
            if done {
                // A row that somebody else wrote a moment ago may not have been told to us yet.
                tokio::time::sleep(LATE_NEWS).await;
                inbox.purge_once(&ended, &clearing).await;
            } else if !try_again(PURGE_TRIES, || inbox.purge_once(&ended, &clearing)).await {
                tracing::error!("records of an ended turn or session could not be removed");
            }
        });
        done
    }

    /// One pass over the holds that were made before the notice.
    async fn purge_once(&self, ended: &Ended, clearing: &Clearing) -> bool {
        let connection = self.inner.state.connection();
        let known = match ended {
            Ended::Turn { session_id, turn_id } => {
                self.inner.view.of_turn(connection, session_id.as_deref(), turn_id)
            }
            Ended::Session { session_id } => self.inner.view.of_session(connection, session_id),
        };
        let Some(known) = known else { return self.purge_by_list(ended, clearing).await };
        let mut done = true;
        for (row, identity) in known.iter().filter(|(_, identity)| !clearing.came_later(identity)) {
            done &= self.end(row, identity).await;
        }
        done
    }

    /// While the view is not complete, the store is listed.
    async fn purge_by_list(&self, ended: &Ended, clearing: &Clearing) -> bool {
        let rows = match self.inner.state.list(Scope::Pending, Deadline::after(LIST_BUDGET)).await {
            Ok(rows) => rows,
            Err(error) => {
                tracing::warn!(%error, "the inbox could not be listed for a purge");
                return false;
            }
        };
        let mut done = true;
        let is_meant = |live: &Live| ended.includes(&live.record) && !clearing.came_later(&live.identity);
        for live in rows.iter().filter_map(Live::read).filter(is_meant) {
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
