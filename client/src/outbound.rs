//! What waits to be written to one connection: in order, bounded in bytes.
//!
//! The bound counts what the writer has taken but not yet flushed, so that a peer that stops reading is noticed by the
//! bytes it costs us. When it is exceeded the queue closes for good and the connection with it: dropping single frames
//! would leave callers waiting for ever.

use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio_tungstenite::tungstenite::Message;

/// Frames for one connection. Owned by its link; pushed to by anyone, taken from by its writer.
#[derive(Default)]
pub(super) struct Outbound {
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    frames: Vec<Message>,
    /// Bytes in `frames` and in the writer's hands.
    bytes: usize,
    state: State,
    /// The writer, while it waits for something to write.
    waiting: Option<Waker>,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Open,
    /// Nothing more is taken in; what is there is still written.
    Finishing,
    /// Nothing is written any more.
    Closed,
}

/// Why a frame was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Full {
    /// The connection is ending.
    Closed,
    /// This frame was one too many: the connection must be dropped.
    Overflow,
}

impl Outbound {
    /// Bytes that may wait.
    pub(super) const LIMIT_BYTES: usize = 64 << 20;

    /// Whether so much waits that what can be left out should be: the rest is for answers and calls.
    pub(super) fn is_crowded(&self) -> bool {
        self.lock().bytes > Self::LIMIT_BYTES / 2
    }

    /// Appends a frame. The first overflow closes the queue.
    pub(super) fn push(&self, frame: Message) -> Result<(), Full> {
        let mut queue = self.lock();
        if queue.state != State::Open {
            return Err(Full::Closed);
        }
        if queue.bytes + frame.len() > Self::LIMIT_BYTES {
            queue.close();
            wake(queue);
            return Err(Full::Overflow);
        }
        queue.bytes += frame.len();
        queue.frames.push(frame);
        wake(queue);
        Ok(())
    }

    /// All that waits, as soon as something does; `None` when there is nothing more to write. For the one writer.
    pub(super) async fn take(&self) -> Option<Vec<Message>> {
        poll_fn(|cx| self.poll_take(cx)).await
    }

    /// As [`Outbound::take`], one look at a time.
    pub(super) fn poll_take(&self, cx: &Context<'_>) -> Poll<Option<Vec<Message>>> {
        let mut queue = self.lock();
        if !queue.frames.is_empty() {
            return Poll::Ready(Some(std::mem::take(&mut queue.frames)));
        }
        if queue.state != State::Open {
            return Poll::Ready(None);
        }
        queue.waiting = Some(cx.waker().clone());
        Poll::Pending
    }

    /// The writer has flushed `bytes`.
    pub(super) fn written(&self, bytes: usize) {
        let mut queue = self.lock();
        queue.bytes = queue.bytes.saturating_sub(bytes);
    }

    /// Takes nothing more in, and lets the writer finish.
    pub(super) fn finish(&self) {
        let mut queue = self.lock();
        if queue.state == State::Open {
            queue.state = State::Finishing;
        }
        wake(queue);
    }

    /// Forgets what waits.
    pub(super) fn close(&self) {
        let mut queue = self.lock();
        queue.close();
        wake(queue);
    }

    /// The writer is at work, and looks by itself before it waits again.
    pub(super) fn at_work(&self) {
        self.lock().waiting = None;
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Has the writer look, if it waits.
fn wake(mut queue: MutexGuard<'_, Queue>) {
    let writer = queue.waiting.take();
    drop(queue);
    if let Some(writer) = writer {
        writer.wake();
    }
}

impl Queue {
    fn close(&mut self) {
        self.state = State::Closed;
        self.frames = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn everything_that_waits_is_taken_at_once_and_in_order() {
        let outbound = Outbound::default();
        for text in ["a", "b", "c"] {
            outbound.push(Message::text(text)).unwrap();
        }
        let taken = outbound.take().await.unwrap();
        assert_eq!(taken, ["a", "b", "c"].map(Message::text));
    }

    #[tokio::test]
    async fn a_finishing_queue_is_drained_and_then_ends() {
        let outbound = Outbound::default();
        outbound.push(Message::text("last")).unwrap();
        outbound.finish();
        assert_eq!(outbound.push(Message::text("late")), Err(Full::Closed));
        assert_eq!(outbound.take().await.unwrap().len(), 1);
        assert!(outbound.take().await.is_none());
    }

    #[tokio::test]
    async fn bytes_in_the_writers_hands_count_and_overflow_closes() {
        let outbound = Outbound::default();
        let half = Message::text("x".repeat(Outbound::LIMIT_BYTES / 2));
        outbound.push(half.clone()).unwrap();
        drop(outbound.take().await);
        outbound.push(half.clone()).unwrap();
        assert_eq!(outbound.push(Message::text("x")), Err(Full::Overflow));
        assert_eq!(outbound.push(Message::text("x")), Err(Full::Closed));
        assert!(outbound.take().await.is_none());
    }

    #[tokio::test]
    async fn flushed_bytes_make_room_again() {
        let outbound = Outbound::default();
        let whole = Message::text("x".repeat(Outbound::LIMIT_BYTES));
        outbound.push(whole.clone()).unwrap();
        drop(outbound.take().await);
        outbound.written(whole.len());
        outbound.push(whole).unwrap();
    }
}
