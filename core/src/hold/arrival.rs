//! What a call that asks to be held means, given what already stands under its key (contract §2).

use super::Ending;

/// What the store shows under the key of the arriving call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// No live hold.
    Nothing,
    /// A live hold.
    Live {
        /// It was made by the same call: same session, turn, call id, function, arguments, and the same question.
        same_call: bool,
        /// The decision that is being carried out for it at this moment, if any.
        deciding: Option<Ending>,
    },
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arrival {
    /// The same question once more: answer `hold`, write nothing, tell nobody.
    Redelivery,
    /// A new hold under a free key.
    New,
    /// A new hold in the place of an older one, whose end is told first.
    Replaces(Ending),
}

/// Decides it. While a decision is being carried out, the same call coming back is new: the release ran it and it
/// failed again, so treating it as a redelivery would park it with nobody left to decide.
pub fn arrival(standing: Standing) -> Arrival {
    match standing {
        Standing::Nothing => Arrival::New,
        Standing::Live { same_call: true, deciding: None } => Arrival::Redelivery,
        Standing::Live { same_call: false, deciding: None } => Arrival::Replaces(Ending::ABORTED),
        Standing::Live { deciding: Some(ending), .. } => Arrival::Replaces(ending),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hold::{Decider, Outcome};

    fn decided(outcome: Outcome) -> Ending {
        Ending::of(outcome, Decider::human(None))
    }

    #[test]
    fn the_table_of_arrivals() {
        let rows = [
            (Standing::Nothing, Arrival::New),
            (Standing::Live { same_call: true, deciding: None }, Arrival::Redelivery),
            (Standing::Live { same_call: false, deciding: None }, Arrival::Replaces(Ending::ABORTED)),
            (
                Standing::Live { same_call: true, deciding: Some(decided(Outcome::Allow)) },
                Arrival::Replaces(decided(Outcome::Allow)),
            ),
            (
                Standing::Live { same_call: false, deciding: Some(decided(Outcome::Deny)) },
                Arrival::Replaces(decided(Outcome::Deny)),
            ),
        ];
        for (standing, expected) in rows {
            let asked = format!("{standing:?}");
            assert_eq!(arrival(standing), expected, "{asked}");
        }
    }
}
