//! Time: the only place that reads the wall clock, and the deadline that is handed down through calls (contract §2: the
//! hook answers within 4,500 ms whatever its peers do).

use std::time::{SystemTime, UNIX_EPOCH};

pub use iii_client::Deadline;

/// Milliseconds since the Unix epoch, as stored in records and settings (`pending_at`, `granted_at`, `resolved_at`).
pub fn now_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
