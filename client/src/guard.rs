//! Repeats answers that were given so fast that the engine may have lost them.
//!
//! The engine hands a call out before it notes that it is pending; an answer that arrives within that gap is dropped,
//! and the caller waits for ever. It ignores a second answer to the same call, so one repetition some milliseconds
//! later closes the gap and costs one frame. One task with one timer does this for all answers; when its queue is full,
//! answers are not repeated, and counted.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

use super::connection::Link;

/// An answer that took longer than this came after its call was noted, even on a busy machine, where the engine's task
/// can be set aside for tens of milliseconds in the middle of the gap.
const SAFE_AFTER: Duration = Duration::from_millis(100);
/// Answers that may wait for their repetition: at the delay in use, those of 40,000 calls a second.
const MAX_WAITING: usize = 8192;
/// Bytes of answers that may wait for their repetition.
const MAX_WAITING_BYTES: usize = 16 << 20;

/// Takes the answers that may need a repetition.
pub(super) struct Guard {
    delay: Duration,
    sender: mpsc::Sender<Repetition>,
    counts: Arc<GuardCounts>,
}

#[derive(Default)]
struct GuardCounts {
    waiting_bytes: AtomicUsize,
    repeated: AtomicU64,
    skipped: AtomicU64,
}

struct Repetition {
    at: Instant,
    link: Weak<Link>,
    frame: Utf8Bytes,
}

impl Guard {
    /// A guard and the work that it needs someone to run. With a `delay` of zero nothing is ever repeated.
    pub(super) fn new(delay: Duration) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        let counts = Arc::new(GuardCounts::default());
        let work = repeat(receiver, delay, Arc::clone(&counts));
        (Self { delay, sender, counts }, work)
    }

    /// Notes an answer just sent to a call received at `received`.
    pub(super) fn answered(&self, link: &Arc<Link>, frame: &Utf8Bytes, received: Instant) {
        let now = Instant::now();
        if self.delay.is_zero() || now.saturating_duration_since(received) >= SAFE_AFTER {
            return;
        }
        let size = frame.len();
        if self.counts.waiting_bytes.load(Relaxed) + size > MAX_WAITING_BYTES {
            self.counts.skipped.fetch_add(1, Relaxed);
            return;
        }
        self.counts.waiting_bytes.fetch_add(size, Relaxed);
        let repetition =
            Repetition { at: now + self.delay, link: Arc::downgrade(link), frame: frame.clone() };
        if self.sender.try_send(repetition).is_err() {
            self.counts.waiting_bytes.fetch_sub(size, Relaxed);
            self.counts.skipped.fetch_add(1, Relaxed);
        }
    }

    /// Answers repeated so far.
    pub(super) fn repeated(&self) -> u64 {
        self.counts.repeated.load(Relaxed)
    }

    /// Answers that should have been repeated and were not.
    pub(super) fn skipped(&self) -> u64 {
        self.counts.skipped.load(Relaxed)
    }
}

async fn repeat(mut waiting: mpsc::Receiver<Repetition>, delay: Duration, counts: Arc<GuardCounts>) {
    let slack = delay / 2;
    // The delay is the same for all, so the queue is in order of time.
    let mut next = waiting.recv().await;
    while let Some(first) = next.take() {
        tokio::time::sleep_until(first.at).await;
        let soon = Instant::now() + slack;
        first.send(&counts);
        // A packet for each repetition would cost both ends more than the answers did: what is old enough goes along.
        while let Ok(other) = waiting.try_recv() {
            if other.at > soon {
                next = Some(other);
                break;
            }
            other.send(&counts);
        }
        if next.is_none() {
            next = waiting.recv().await;
        }
    }
}

impl Repetition {
    fn send(self, counts: &GuardCounts) {
        counts.waiting_bytes.fetch_sub(self.frame.len(), Relaxed);
        let Some(link) = self.link.upgrade() else { return };
        if link.send(Message::Text(self.frame)).is_ok() {
            counts.repeated.fetch_add(1, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_fast_answer_is_sent_once_more_after_the_delay_and_a_slow_one_is_not() {
        let (guard, work) = Guard::new(Duration::from_millis(5));
        let work = tokio::spawn(work);
        let link = Arc::new(Link::new(1));
        let received = Instant::now();

        guard.answered(&link, &"fast".into(), received);
        guard.answered(&link, &"slow".into(), received.checked_sub(SAFE_AFTER).unwrap());
        assert_eq!(link.outbound.take().await.unwrap(), [Message::text("fast")]);

        assert_eq!(received.elapsed(), Duration::from_millis(5));
        drop(guard);
        work.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn answers_that_follow_closely_are_repeated_together_and_never_before_half_of_the_delay() {
        let delay = Duration::from_millis(8);
        let (guard, work) = Guard::new(delay);
        let work = tokio::spawn(work);
        let link = Arc::new(Link::new(1));
        let started = Instant::now();
        for (text, after_ms) in [("a", 0), ("b", 3), ("c", 5)] {
            tokio::time::sleep_until(started + Duration::from_millis(after_ms)).await;
            guard.answered(&link, &text.into(), Instant::now());
        }
        assert_eq!(link.outbound.take().await.unwrap(), ["a", "b"].map(Message::text));
        assert_eq!(started.elapsed(), delay);
        assert_eq!(link.outbound.take().await.unwrap(), [Message::text("c")]);
        assert_eq!(guard.repeated(), 3);
        drop(guard);
        work.await.unwrap();
    }

    #[tokio::test]
    async fn when_too_much_waits_answers_are_counted_instead_of_queued() {
        let (guard, _work) = Guard::new(Duration::from_millis(5));
        let link = Arc::new(Link::new(1));
        let large: Utf8Bytes = "x".repeat(MAX_WAITING_BYTES).into();
        guard.answered(&link, &large, Instant::now());
        guard.answered(&link, &"one more".into(), Instant::now());
        assert_eq!(guard.skipped(), 1);
    }
}
