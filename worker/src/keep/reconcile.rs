//! After a start or a reconnect: what an earlier run or a lost notice left in the inbox (contract §2).
//!
//! Runs behind everything else and never delays serving. A record goes only if the harness says, in so many words,
//! that no turn waits for it; no such function, an error or any doubt, and it stays.

use std::collections::BTreeMap;
use std::time::Duration;

use super::inbox::{Inbox, Live};
use crate::clock::Deadline;
use crate::siblings::harness::Harness;

/// Younger records are left alone: their turn may be parking at this very moment.
const SETTLED_MS: i64 = 60_000;
/// The same, with a margin, as a wait.
const SETTLED: Duration = Duration::from_secs(61);
/// How long the harness may take to tell about one session.
const STATUS_BUDGET: Duration = Duration::from_secs(5);

impl Inbox {
    /// Removes the records that no turn waits for; says how many. Those that were too young at first are looked at once
    /// more when they are not: after a crash the youngest are the ones in doubt.
    pub async fn reconcile(&self, harness: &Harness) -> usize {
        let (began, connection) = (self.inner.state.now_ms(), self.inner.state.connection());
        let mut removed = self.reconcile_until(harness, began - SETTLED_MS).await;
        tokio::time::sleep(SETTLED).await;
        if self.inner.state.connection() == connection {
            removed += self.reconcile_until(harness, began).await;
        }
        removed
    }

    /// Looks at the records that were held before a moment.
    async fn reconcile_until(&self, harness: &Harness, before_ms: i64) -> usize {
        let live = match self.list().await {
            Ok(live) => live,
            Err(error) => {
                tracing::warn!(%error, "the inbox could not be listed to be reconciled");
                return 0;
            }
        };
        let mut sessions: BTreeMap<String, Vec<Live>> = BTreeMap::new();
        for live in live.into_iter().filter(|live| live.record.pending_at < before_ms) {
            sessions.entry(live.record.session_id.clone()).or_default().push(live);
        }
        let mut removed = 0;
        for (session_id, holds) in sessions {
            match harness.waiting(&session_id, Deadline::after(STATUS_BUDGET)).await {
                Ok(Some(waiting)) => {
                    for live in holds.iter().filter(|live| !waiting.includes(&live.record)) {
                        removed += usize::from(self.nobody_waits(live).await);
                    }
                }
                Ok(None) => {}
                Err(error) if error.is_function_not_found() => return removed,
                Err(error) => {
                    tracing::debug!(session_id, %error, "the harness did not tell what a session waits for");
                }
            }
        }
        removed
    }

    async fn nobody_waits(&self, live: &Live) -> bool {
        tracing::info!(row = live.record.row(), "no turn waits for this record any more; it is removed");
        self.end(&live.record.row(), &live.identity).await
    }
}
