//! One connection as the rest of the client sees it, and the check that the other end is alive.
//!
//! Must not know the socket: what goes over it is `traffic`'s. The engine never pings, so silence is only noticed by
//! asking.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::{Bytes, Message};

use super::calls::Calls;
use super::error::CallError;
use super::frame::Unsendable;
use super::outbound::{Full, Outbound};

/// One connection as the rest of the client sees it. Whoever holds an old one finds it ended.
pub(super) struct Link {
    /// Counts connections from 1.
    pub(super) number: u64,
    pub(super) outbound: Outbound,
    pub(super) calls: Calls,
    /// What the engine called us, once it has said so.
    pub(super) identity: OnceLock<Identity>,
    ended: watch::Sender<Option<Ending>>,
    opened: Instant,
    /// Milliseconds from `opened` to the last frame of any kind.
    last_frame_ms: AtomicU64,
}

/// Who we are on one connection; with the token, the next connection can retire this one.
#[derive(Clone)]
pub(super) struct Identity {
    pub(super) worker_id: String,
    pub(super) reattach_token: Option<String>,
}

/// Why a connection ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ending {
    /// It broke, or one side gave up.
    Lost(String),
    /// Another live connection has our worker name.
    NameTaken {
        /// Its id.
        owner_worker_id: String,
    },
}

impl Link {
    pub(super) fn new(number: u64) -> Self {
        Self {
            number,
            outbound: Outbound::default(),
            calls: Calls::default(),
            identity: OnceLock::new(),
            ended: watch::Sender::new(None),
            opened: Instant::now(),
            last_frame_ms: AtomicU64::new(0),
        }
    }

    /// Queues a frame. An overflow ends the connection.
    pub(super) fn send(&self, frame: impl Into<Message>) -> Result<(), CallError> {
        self.outbound.push(frame.into()).map_err(|full| {
            if full == Full::Overflow {
                self.end(Ending::Lost(format!("more than {} bytes wait to be sent", Outbound::LIMIT_BYTES)));
            }
            CallError::NotConnected
        })
    }

    /// Queues a frame of ours that nobody waits for, if it could be written.
    pub(super) fn send_written(&self, frame: Result<String, Unsendable>) {
        match frame {
            // A link that is ending needs no frame; its end is noticed elsewhere.
            Ok(text) => drop(self.send(Message::text(text))),
            Err(unsendable) => tracing::error!(?unsendable, "a frame could not be written and was not sent"),
        }
    }

    /// Whether events should be left out for now.
    pub(super) fn is_crowded(&self) -> bool {
        self.outbound.is_crowded()
    }

    /// Ends the connection for everyone; the first reason counts.
    pub(super) fn end(&self, ending: Ending) {
        let first = self.ended.send_if_modified(|ended| {
            let first = ended.is_none();
            ended.get_or_insert(ending);
            first
        });
        if first {
            self.outbound.close();
            self.calls.end();
        }
    }

    /// Waits for the end.
    pub(super) async fn ended(&self) -> Ending {
        let mut ended = self.ended.subscribe();
        let ended = ended.wait_for(Option::is_some).await;
        ended.ok().and_then(|ending| ending.clone()).unwrap_or_else(|| Ending::Lost("dropped".to_owned()))
    }

    pub(super) fn saw_frame(&self, at: Instant) {
        let since = at.saturating_duration_since(self.opened).as_millis();
        self.last_frame_ms.store(u64::try_from(since).unwrap_or(u64::MAX), Relaxed);
    }

    fn last_frame(&self) -> Instant {
        self.opened + Duration::from_millis(self.last_frame_ms.load(Relaxed))
    }
}

/// Pings every `ping`, and ends the link when no frame has come for `idle`.
pub(super) async fn keep_alive(link: &Link, ping: Duration, idle: Duration) {
    let mut next_ping = Instant::now() + ping;
    loop {
        let silent_at = link.last_frame() + idle;
        tokio::time::sleep_until(next_ping.min(silent_at)).await;
        let now = Instant::now();
        if now >= link.last_frame() + idle {
            link.end(Ending::Lost(format!("nothing heard for {} s", idle.as_secs_f32())));
            return;
        }
        if now >= next_ping {
            next_ping = now + ping;
            if link.send(Message::Ping(Bytes::new())).is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_reason_counts_and_everyone_is_told() {
        let link = Link::new(1);
        link.end(Ending::NameTaken { owner_worker_id: "w".into() });
        link.end(Ending::Lost("closed".into()));
        assert_eq!(link.ended().await, Ending::NameTaken { owner_worker_id: "w".into() });
        assert_eq!(link.send(Message::text("late")), Err(CallError::NotConnected));
        assert!(link.calls.expect(uuid::Uuid::nil()).is_none());
    }

    #[tokio::test]
    async fn overflow_ends_the_link() {
        let link = Link::new(1);
        assert!(link.send(Message::text("x".repeat(Outbound::LIMIT_BYTES + 1))).is_err());
        assert!(matches!(link.ended().await, Ending::Lost(_)));
    }

    #[tokio::test(start_paused = true)]
    async fn silence_ends_the_link_after_pings_went_unanswered() {
        let link = Link::new(1);
        keep_alive(&link, Duration::from_secs(20), Duration::from_mins(1)).await;
        assert_eq!(link.opened.elapsed(), Duration::from_mins(1));
        assert!(matches!(link.ended().await, Ending::Lost(reason) if reason.contains("60")));
    }

    #[tokio::test(start_paused = true)]
    async fn any_frame_keeps_the_link() {
        let link = Link::new(1);
        let lively = async {
            for _ in 0..10 {
                tokio::time::sleep(Duration::from_secs(50)).await;
                link.saw_frame(Instant::now());
            }
        };
        tokio::select! {
            () = keep_alive(&link, Duration::from_secs(20), Duration::from_mins(1)) => panic!("given up"),
            () = lively => {}
        }
    }
}
