//! Work that goes on after the caller has been answered, counted so that a shutdown can wait for it.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
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
        self.shared.running.fetch_add(1, Ordering::AcqRel);
        let running = Running(Arc::clone(&self.shared));
        tokio::spawn(trace::scope_current(async move {
            work.await;
            drop(running);
        }));
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
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn idle_waits_for_work_and_also_counts_work_that_panicked() {
        let background = Background::default();
        background.spawn(async { tokio::time::sleep(Duration::from_secs(1)).await });
        background.spawn(async { panic!("on purpose") });
        assert!(!background.idle(Deadline::after(Duration::from_millis(500))).await);
        assert!(background.idle(Deadline::after(Duration::from_secs(2))).await);
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
