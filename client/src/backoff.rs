//! How long to wait before trying again: a pure function of the attempt and of a random number.
//!
//! The cap is one second because callers count on being served again within two seconds of the engine being back
//! (contract §9); the jitter keeps workers that lost the same engine from coming back in step.

use std::time::Duration;

/// Doubling delays between a base and a cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// Delay before the first repetition, before jitter.
    pub base: Duration,
    /// No delay is longer.
    pub cap: Duration,
}

impl Backoff {
    /// The delay before repetition number `attempt` (from 0); between half and the whole of the doubled base, as
    /// `random` goes from 0 to its maximum.
    pub fn delay(self, attempt: u32, random: u32) -> Duration {
        let doubled = self.base.saturating_mul(1_u32.checked_shl(attempt).unwrap_or(u32::MAX)).min(self.cap);
        let half = doubled / 2;
        half + half.mul_f64(f64::from(random) / f64::from(u32::MAX))
    }
}

/// A random number for [`Backoff::delay`].
pub fn random() -> u32 {
    uuid::Uuid::new_v4().as_fields().0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BACKOFF: Backoff = Backoff { base: Duration::from_millis(200), cap: Duration::from_secs(1) };

    #[test]
    fn delays_double_up_to_the_cap() {
        let longest = |attempt| BACKOFF.delay(attempt, u32::MAX).as_millis();
        assert_eq!(
            [0, 1, 2, 3, 4, 31, 32, 4_000_000_000].map(longest),
            [200, 400, 800, 1000, 1000, 1000, 1000, 1000]
        );
    }

    #[test]
    fn jitter_spans_the_upper_half() {
        assert_eq!(BACKOFF.delay(1, 0), Duration::from_millis(200));
        assert_eq!(BACKOFF.delay(1, u32::MAX), Duration::from_millis(400));
    }

    proptest! {
        #[test]
        fn every_delay_is_between_half_the_base_and_the_cap(attempt in any::<u32>(), random in any::<u32>()) {
            let delay = BACKOFF.delay(attempt, random);
            prop_assert!(delay >= BACKOFF.base / 2 && delay <= BACKOFF.cap);
        }
    }
}
