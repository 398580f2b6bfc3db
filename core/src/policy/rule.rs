//! A rule that was understood, as a value (contract §1, "Rules").
//!
//! Can only come out of `parse`; nothing here checks or compiles. `rule_id` is for people and reports and decides
//! nothing.

use std::sync::Arc;

use serde_json::Value;

use super::constraint::{Constraint, MatchedConstraint, all_hold};
use super::settings::Mode;

/// What a matching rule does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// The call continues.
    Allow,
    /// The call is denied, and the rule named.
    Deny,
}

impl Action {
    /// All actions, in the order of the contract.
    pub const ALL: [Self; 2] = [Self::Allow, Self::Deny];

    /// The word in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
        }
    }

    /// The action of a word; exact lower case only.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.as_str() == word)
    }
}

/// One rule of the list.
#[derive(Debug, Clone)]
pub struct Rule {
    /// The name that a denial gives; the pattern unless the rule says otherwise.
    pub rule_id: Arc<str>,
    /// An exact function id, or a pattern with `*`.
    pub pattern: Arc<str>,
    /// What it does.
    pub action: Action,
    /// The session modes it applies in; `None` is all of them. Never an empty list.
    pub modes: Option<Vec<Mode>>,
    /// Conditions on the arguments, sorted by field; all must hold.
    pub constraints: Vec<Constraint>,
    /// Whether the rule was written with `args`, even empty ones; such a rule seeds nothing.
    pub has_args: bool,
    /// Whether a deny is applied before mode full and before everything remembered. Never set on an allow.
    pub floor: bool,
}

impl Rule {
    /// Says whether the rule applies to a call whose function id its pattern already covers.
    pub fn applies(&self, mode: Mode, arguments: &Value) -> bool {
        self.in_mode(mode) && self.constraints_hold(arguments)
    }

    /// Says whether the rule applies in a mode at all.
    pub fn in_mode(&self, mode: Mode) -> bool {
        self.modes.as_ref().is_none_or(|modes| modes.contains(&mode))
    }

    /// Says whether its conditions hold for these arguments.
    pub fn constraints_hold(&self, arguments: &Value) -> bool {
        all_hold(&self.constraints, arguments)
    }

    /// Says whether the rule is copied into a session's `always_allow`: an allow that names auto mode itself and
    /// carries no `args`, which a list entry could not express.
    pub fn seeds(&self) -> bool {
        self.action == Action::Allow
            && !self.has_args
            && self.modes.as_ref().is_some_and(|modes| modes.contains(&Mode::Auto))
    }

    /// The constraint that a report names: the first by field name, if the rule has any.
    pub fn first_constraint(&self) -> Option<MatchedConstraint> {
        self.constraints.first().map(Constraint::shown)
    }
}
