//! Waiting for something that is expected, with a bound; nothing in the suite sleeps for a guessed time instead.

use std::future::Future;
use std::time::{Duration, Instant};

/// How long an expected thing may take before the test fails.
pub const PATIENCE: Duration = Duration::from_secs(8);

/// Polls `probe` until it gives a value; panics with `what` when [`PATIENCE`] is over.
pub async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, probe: impl FnMut() -> F) -> T {
    match within(PATIENCE, probe).await {
        Some(value) => value,
        None => panic!("gave up after {PATIENCE:?} waiting for {what}"),
    }
}

/// Polls `probe` until it gives a value or the time is over.
pub async fn within<T, F: Future<Output = Option<T>>>(
    limit: Duration,
    mut probe: impl FnMut() -> F,
) -> Option<T> {
    let end = Instant::now() + limit;
    loop {
        if let Some(value) = probe().await {
            return Some(value);
        }
        if Instant::now() >= end {
            return None;
        }
        tokio::time::sleep(Duration::from_millis(4)).await;
    }
}
