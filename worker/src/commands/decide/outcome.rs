//! What became of a decision, and the words for it.

use super::Order;
use crate::commands::peer::Failure;
use crate::commands::text::word;
use crate::wire::error::{HARNESS_UNAVAILABLE, INVALID_PAYLOAD, NOT_HELD, RULE_MISMATCH};

/// What is said of a call that is not held.
const NOTHING_WAITS: &str = "nothing waits there any more (decided already, or its turn is over)";

/// What became of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// How it ended.
    pub(super) end: End,
    /// What is allowed from now on, whether or not the decision itself took effect.
    pub(super) remembered: Option<Remembered>,
}

/// How a decision ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// It took effect.
    Taken {
        /// Whether the turn goes on, if that is known.
        turn_resumed: Option<bool>,
        /// What the same call asks for now, if it was held again.
        again: Option<String>,
    },
    /// Nothing waits under this id.
    Gone,
    /// The call was held again since it was shown; the newer hold was left alone.
    Replaced,
    /// The permission does not fit what is asked.
    Misfit(&'static str),
    /// The worker refused, or did not answer.
    Failed(Failure),
}

/// A permission that goes beyond one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Remembered {
    /// The call's function.
    Function,
    /// Calls that a rule fits.
    Rule {
        /// The rule's session.
        session: String,
        /// Its name there.
        rule_id: String,
    },
}

impl Done {
    /// An end before anything was remembered.
    pub(super) fn nothing(end: End) -> Self {
        Self { end, remembered: None }
    }

    /// Whether it took effect.
    pub fn is_done(&self) -> bool {
        matches!(self.end, End::Taken { .. })
    }

    /// What became of it, in words. One line.
    pub fn sentence(&self, order: &Order) -> String {
        match &self.end {
            End::Taken { again: Some(asked), .. } => {
                format!("allowed; it ran and is held again: {asked}{}", self.rule())
            }
            End::Taken { turn_resumed, .. } => {
                let decided = if order.allows() { "allowed" } else { "denied" };
                let turn = match turn_resumed {
                    Some(true) => "the turn goes on",
                    Some(false) => "the turn still waits for other calls",
                    None => "it is being carried out",
                };
                format!("{decided}; {turn}{}", self.rule())
            }
            End::Gone => self.not_done(NOTHING_WAITS),
            End::Replaced => self.not_done("another call waits there now; look again"),
            End::Misfit(why) => self.not_done(why),
            End::Failed(why) => self.not_done(&what_to_do(why)),
        }
    }

    /// The rule that was made, and how to take it back.
    fn rule(&self) -> String {
        match &self.remembered {
            Some(Remembered::Rule { session, rule_id }) => format!(
                "; calls like it run from now on (`grants {} remove-rule {}` takes that back)",
                word(session),
                word(rule_id)
            ),
            Some(Remembered::Function) | None => String::new(),
        }
    }

    fn not_done(&self, why: &str) -> String {
        let but = match &self.remembered {
            Some(Remembered::Function) => " (its function is approved for the session, though)".to_owned(),
            Some(Remembered::Rule { rule_id, .. }) => {
                format!(" (the rule {} is approved for the session, though)", word(rule_id))
            }
            None => String::new(),
        };
        format!("not done: {why}{but}")
    }
}

/// Why the worker did not do it, and what can be done then.
fn what_to_do(why: &Failure) -> String {
    let told = || why.to_string().lines().next().unwrap_or_default().to_owned();
    let Failure::Refused { code, message } = why else { return told() };
    match code.as_str() {
        HARNESS_UNAVAILABLE => "the harness did not take it; still held, try again".to_owned(),
        NOT_HELD => NOTHING_WAITS.to_owned(),
        RULE_MISMATCH => {
            format!("{}; still held. Compare the condition with what `show` shows", told())
        }
        INVALID_PAYLOAD if message.contains(": rule") => {
            format!("{}; still held. Ask for more, as in 'command~^make (test|lint)$'", told())
        }
        _ => told(),
    }
}
