//! The moment by which something must have answered, handed down through calls.
//!
//! An instant, not a duration, so that a chain of calls shares one budget. Knows no wall clock.

use std::time::Duration;

use tokio::time::Instant;

/// The moment by which something must have answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(Instant);

impl Deadline {
    /// `budget` from now.
    pub fn after(budget: Duration) -> Self {
        Self(Instant::now() + budget)
    }

    /// `budget_ms` milliseconds from now.
    pub fn after_ms(budget_ms: u64) -> Self {
        Self::after(Duration::from_millis(budget_ms))
    }

    /// The earlier of this deadline and `budget` from now: what a sibling call may take of what is left.
    #[must_use]
    pub fn at_most(self, budget: Duration) -> Self {
        self.min(Self::after(budget))
    }

    /// This deadline moved earlier by `reserve`, so that something can still be done when it has passed.
    #[must_use]
    pub fn keeping(self, reserve: Duration) -> Self {
        Self(self.0.checked_sub(reserve).unwrap_or(self.0))
    }

    /// What is left; zero once it has passed.
    pub fn remaining(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    /// The instant itself, for timers.
    pub fn instant(self) -> Instant {
        self.0
    }
}
