//! The wall clock of the local engine: the one place here that reads it. Nothing decides by it; it only stamps.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since the epoch.
pub(super) fn now_ms() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
}
