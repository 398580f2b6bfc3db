//! What the engine refused, and when to ask again.
//!
//! Pure: time is a parameter. There is no acceptance to wait for, so an entry that was asked again is simply quiet
//! until it is refused again; its count stays, so that the delays of a standing conflict grow.

use std::collections::HashMap;

use tokio::time::Instant;

/// A registration of ours that can be refused.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Registration {
    /// A function, by id.
    Function(String),
    /// A binding, by id.
    Binding(String),
}

/// The refused registrations of one connection.
#[derive(Default)]
pub(super) struct Retries(HashMap<Registration, Entry>);

#[derive(Default)]
struct Entry {
    refusals: u32,
    due: Option<Instant>,
}

impl Retries {
    /// Counts a refusal and plans the next attempt by the number of refusals before this one, which is returned.
    pub(super) fn refused(&mut self, what: Registration, next: impl FnOnce(u32) -> Instant) -> u32 {
        let entry = self.0.entry(what).or_default();
        let before = entry.refusals;
        entry.refusals = before.saturating_add(1);
        // A second refusal of the same attempt must not bring the next one forward.
        entry.due = entry.due.max(Some(next(before)));
        before
    }

    /// When the next attempt is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.0.values().filter_map(|entry| entry.due).min()
    }

    /// Takes what is due at `now`; each is due once per refusal.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<Registration> {
        let due = self.0.iter_mut().filter(|(_, entry)| entry.due.is_some_and(|due| due <= now));
        due.map(|(what, entry)| {
            entry.due = None;
            what.clone()
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_refused_binding_is_asked_again_once_per_refusal() {
        let (mut retries, now) = (Retries::default(), Instant::now());
        let binding = Registration::Binding("b".into());
        let after = |ms| now + Duration::from_millis(ms);

        assert_eq!(retries.refused(binding.clone(), |_| after(10)), 0);
        assert_eq!(retries.next(), Some(after(10)));
        assert!(retries.take_due(after(9)).is_empty());
        assert_eq!(retries.take_due(after(10)), std::slice::from_ref(&binding));
        assert_eq!(retries.next(), None);
        assert!(retries.take_due(after(99)).is_empty());
        assert_eq!(retries.refused(binding, |before| after(100 + u64::from(before))), 1);
        assert_eq!(retries.next(), Some(after(101)));
    }

    #[test]
    fn refusals_before_the_next_attempt_do_not_stack() {
        let (mut retries, now) = (Retries::default(), Instant::now());
        for ms in [10, 5] {
            retries.refused(Registration::Function("f".into()), |_| now + Duration::from_millis(ms));
        }
        assert_eq!(retries.next(), Some(now + Duration::from_millis(10)));
        assert_eq!(retries.take_due(now + Duration::from_secs(1)).len(), 1);
    }
}
