//! Work that goes on after the caller has been answered, counted so that a shutdown can wait for it.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::Deadline;
use crate::iii::trace;

/// Where such work is started.
#[derive(Clone, Default)]
pub struct Background {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    running: AtomicUsize,
    one_ended: Notify,
}

/// Counts down however its task ends, a panic included.
struct Running(Arc<Shared>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::AcqRel);
        self.0.one_ended.notify_waiters();
    }
}

impl Background {
    /// Starts it. It carries the trace of the call that caused it.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        tokio::spawn(self.counted(work));
    }

    /// Work that whoever awaits this does himself, and that goes on in the background if he stops awaiting it: another
    /// task would have to be woken for each of its steps.
    pub fn attached(&self, work: impl Future<Output = ()> + Send + 'static) -> Attached {
        Attached { work: Some(Box::pin(self.counted(work))) }
    }

    fn counted(
        &self,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        self.shared.running.fetch_add(1, Ordering::AcqRel);
        let running = Running(Arc::clone(&self.shared));
        trace::scope_current(async move {
            work.await;
            drop(running);
        })
    }

    /// How many are running.
    pub fn running(&self) -> usize {
        self.shared.running.load(Ordering::Acquire)
    }

    /// Waits until none is running, at most until `deadline`; says whether none was left.
    pub async fn idle(&self, deadline: Deadline) -> bool {
        loop {
            let ended = self.shared.one_ended.notified();
            if self.running() == 0 {
                return true;
            }
            if tokio::time::timeout_at(deadline.instant(), ended).await.is_err() {
                return self.running() == 0;
            }
        }
    }
}

/// See [`Background::attached`]. Counted from the start: a shutdown waits for it wherever it is done.
pub struct Attached {
    work: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Future for Attached {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(work) = &mut self.work else { return Poll::Ready(()) };
        match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(())) => {}
            // As when a task panics: whoever waits for what it had to say is told by its absence.
            Err(_) => tracing::error!("work that was begun panicked"),
        }
        self.work = None;
        Poll::Ready(())
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        // Without a runtime nothing goes on anyway.
        if let Some(work) = self.work.take()
            && tokio::runtime::Handle::try_current().is_ok()
        {
            tokio::spawn(work);
        }
    }
}

/// Tries something that failed again and again, each time after a longer wait, until it is done; says whether it was
/// done within so many tries.
pub async fn try_again<Try>(tries: u32, mut attempt: impl FnMut() -> Try) -> bool
where
    Try: Future<Output = bool>,
{
    for number in 0..tries {
        tokio::time::sleep(retry_delay(number)).await;
        if attempt().await {
            return true;
        }
    }
    false
}

/// Delays between tries of work that must get done in the end: 100 ms doubling to 30 s.
pub fn retry_delay(attempt: u32) -> Duration {
    Duration::from_millis(100u64.saturating_mul(1 << attempt.min(10)).min(30_000))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn idle_waits_for_work_and_also_counts_work_that_panicked() {
        let background = Background::default();
        background.spawn(async { tokio::time::sleep(Duration::from_secs(1)).await });
        background.spawn(async { panic!("on purpose") });
        assert!(!background.idle(Deadline::after(Duration::from_millis(500))).await);
        assert!(background.idle(Deadline::after(Duration::from_secs(2))).await);
    }

    #[tokio::test(start_paused = true)]
    async fn attached_work_is_done_by_whoever_awaits_it_and_goes_on_when_he_stops() {
        let background = Background::default();
        let (steps, mut seen) = tokio::sync::mpsc::unbounded_channel();
        assert_eq!(background.running(), 0);
        let work = background.attached(async move {
            steps.send("first").unwrap();
            tokio::time::sleep(Duration::from_secs(2)).await;
            steps.send("second").unwrap();
        });
        assert_eq!(background.running(), 1);
        assert!(tokio::time::timeout(Duration::from_secs(1), work).await.is_err());
        assert_eq!((seen.recv().await, background.running()), (Some("first"), 1));
        assert_eq!(seen.recv().await, Some("second"));
        assert!(background.idle(Deadline::after(Duration::from_secs(1))).await);

        background.attached(async { panic!("on purpose") }).await;
        background.attached(async {}).await;
        assert_eq!(background.running(), 0);
    }

    #[test]
    fn retries_back_off_and_stay_bounded() {
        let delays: Vec<u64> = (0..12)
            .map(|attempt| u64::try_from(retry_delay(attempt).as_millis()).unwrap_or(u64::MAX))
            .collect();
        assert_eq!(delays[..4], [100, 200, 400, 800]);
        assert!(delays.iter().all(|delay| *delay <= 30_000));
    }
}
