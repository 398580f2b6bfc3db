//! Decisions that are being carried out: one per hold at a time, and what is known of earlier tries.
//!
//! A hold is named by its identity, not by its key: while a release runs, a follow-up hold may stand under the same
//! key and be decided on its own (contract §2, §3).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::hold::Ending;

/// The decisions under way.
#[derive(Clone, Default)]
pub struct Decisions {
    table: Arc<Mutex<HashMap<String, Deciding>>>,
}

#[derive(Default)]
struct Deciding {
    /// The decision being carried out.
    now: Option<Ending>,
    /// The harness has answered; only the row is still to be removed.
    settled: bool,
    /// An earlier decision whose answer never came: it may have taken effect.
    unanswered: Option<Ending>,
    /// The hold has left the inbox meanwhile: nothing is remembered once the decision has come to its end.
    gone: bool,
}

/// The right to carry out one decision. Dropping it gives the hold back, whatever happened to the holder.
pub struct Claim {
    table: Arc<Mutex<HashMap<String, Deciding>>>,
    identity: String,
    ending: Ending,
}

impl Decisions {
    /// Takes the hold for this decision, unless another one is being carried out.
    pub fn claim(&self, identity: &str, ending: Ending) -> Option<Claim> {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let deciding = table.entry(identity.to_owned()).or_default();
        if deciding.now.is_some() {
            return None;
        }
        deciding.now = Some(ending.clone());
        Some(Claim { table: Arc::clone(&self.table), identity: identity.to_owned(), ending })
    }

    /// The decision that is being carried out for this hold.
    pub fn under_way(&self, identity: &str) -> Option<Ending> {
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.get(identity).and_then(|deciding| deciding.now.clone())
    }

    /// Whether the hold is decided and only its row is left: readers of the inbox pass it over.
    pub fn is_settled(&self, identity: &str) -> bool {
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.get(identity).is_some_and(|deciding| deciding.settled)
    }

    /// The hold is gone; nothing about it is needed any more.
    pub fn forget(&self, identity: &str) {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(deciding) = table.get_mut(identity) else { return };
        deciding.gone = true;
        if deciding.now.is_none() {
            table.remove(identity);
        }
    }

    /// How many holds something is remembered of.
    pub fn len(&self) -> usize {
        self.table.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Claim {
    /// Whose hold it is.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// The decision.
    pub fn ending(&self) -> &Ending {
        &self.ending
    }

    /// An earlier decision on this hold whose answer never came; without its reason, which nobody may have heard.
    pub fn earlier_unanswered(&self) -> Option<Ending> {
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.get(&self.identity).and_then(|deciding| deciding.unanswered.clone())
    }

    /// The decision was sent and no answer came: it may have taken effect. Kept for the next try.
    pub fn unanswered(self) {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(deciding) = table.get_mut(&self.identity) {
            deciding.unanswered.get_or_insert_with(|| Ending { reason: None, ..self.ending.clone() });
        }
    }

    /// The harness has answered.
    pub fn settled(&self) {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(deciding) = table.get_mut(&self.identity) {
            deciding.settled = true;
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(deciding) = table.get_mut(&self.identity) {
            deciding.now = None;
            if deciding.unanswered.is_none() || deciding.settled || deciding.gone {
                table.remove(&self.identity);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::hold::{Decider, Outcome};

    fn ending(outcome: Outcome) -> Ending {
        Ending::of(outcome, Decider::human(None))
    }

    #[test]
    fn one_of_two_decisions_at_once_gets_the_hold() {
        let decisions = Decisions::default();
        let first = decisions.claim("h", ending(Outcome::Allow)).unwrap();
        assert!(decisions.claim("h", ending(Outcome::Deny)).is_none());
        assert_eq!(decisions.under_way("h"), Some(ending(Outcome::Allow)));
        drop(first);
        assert!(decisions.claim("h", ending(Outcome::Deny)).is_some());
        assert!(decisions.is_empty());
    }

    #[test]
    fn the_first_decision_without_an_answer_is_known_to_the_next_try() {
        let decisions = Decisions::default();
        decisions.claim("h", ending(Outcome::Allow)).unwrap().unanswered();
        let second = decisions.claim("h", ending(Outcome::Deny)).unwrap();
        assert_eq!(second.earlier_unanswered(), Some(ending(Outcome::Allow)));
        second.settled();
        assert!(decisions.is_settled("h"));
        drop(second);
        assert!(decisions.is_empty());
    }

    #[test]
    fn what_is_known_of_a_hold_goes_with_it() {
        let decisions = Decisions::default();
        decisions.claim("h", ending(Outcome::Allow)).unwrap().unanswered();
        assert_eq!(decisions.len(), 1);
        decisions.forget("h");
        assert!(decisions.is_empty());
    }

    #[test]
    fn a_hold_that_goes_while_it_is_decided_leaves_nothing_when_the_answer_never_comes() {
        let decisions = Decisions::default();
        let claim = decisions.claim("h", ending(Outcome::Allow)).unwrap();
        decisions.forget("h");
        assert_eq!(decisions.under_way("h"), Some(ending(Outcome::Allow)));
        claim.unanswered();
        assert!(decisions.is_empty());
    }
}
