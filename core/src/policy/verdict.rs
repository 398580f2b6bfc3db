//! What was decided about a call, and because of what.
//!
//! A verdict explains itself: it carries the step that decided, so no reason is reconstructed later from logs. It is
//! owned and cheap: list entries are positions, rule parts are shared pointers, and neither continue nor hold
//! allocates. Its text never repeats an argument's value.

use std::fmt::Write as _;
use std::sync::Arc;

use super::constraint::MatchedConstraint;
use super::human_only::Door;
use super::id::IdProblem;
use super::prompting::PROMPTS_ARE_DISABLED;
use super::refusal::shown;
use super::rule::Action;
use super::settings::GrantedBy;

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Decision {
    /// It runs now.
    Continue,
    /// It does not run.
    Deny,
    /// It waits for a person.
    Hold,
}

impl Decision {
    /// The word that crosses the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Continue => "continue",
            Self::Deny => "deny",
            Self::Hold => "hold",
        }
    }
}

/// The step that decided (contract §1), with what it looked at.
#[derive(Debug, Clone, PartialEq)]
pub enum Because {
    /// Only a person may make this call.
    HumanOnly {
        /// The way it would have gone.
        door: Door,
    },
    /// The function id is none.
    NotAFunctionId {
        /// What is wrong with it.
        problem: IdProblem,
    },
    /// No valid configuration is in force.
    LockedDown,
    /// The session is in full mode.
    FullMode,
    /// A remembered approval covers it.
    ApprovedAlways {
        /// Position in `approved_always`.
        entry: usize,
    },
    /// A rule that a person approved for the session fits it.
    ApprovedRule {
        /// Position in `approved_rules`.
        entry: usize,
        /// The rule's name.
        rule_id: Arc<str>,
    },
    /// An entry that counts in auto mode covers it.
    AlwaysAllow {
        /// Position in `always_allow`.
        entry: usize,
        /// Who put it there.
        granted_by: GrantedBy,
    },
    /// A rule decided.
    Rule {
        /// Position in the rule list, counted from 0.
        index: usize,
        /// The rule's name.
        rule_id: Arc<str>,
        /// What the rule does.
        action: Action,
        /// The first of its constraints, if it has any.
        constraint: Option<MatchedConstraint>,
        /// Whether it decided as a floor, before mode and grants.
        floor: bool,
    },
    /// Nothing decided.
    NoRule,
    /// It would have waited for a person, and nobody is asked in this session.
    PromptsDisabled,
}

impl Because {
    /// The step as one word, for logs and reports.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::HumanOnly { .. } => "human_only_function",
            Self::NotAFunctionId { .. } => "not_a_function_id",
            Self::LockedDown => "locked_down",
            Self::FullMode => "full_mode",
            Self::ApprovedAlways { .. } => "approved_always",
            Self::ApprovedRule { .. } => "approved_rule",
            Self::AlwaysAllow { .. } => "always_allow",
            Self::Rule { floor: true, .. } => "floor",
            Self::Rule { .. } => "rule",
            Self::NoRule => "no_rule",
            Self::PromptsDisabled => "prompts_disabled",
        }
    }
}

/// A decision with its reason.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// What becomes of the call.
    pub decision: Decision,
    /// Why.
    pub because: Because,
}

impl Verdict {
    pub(super) const fn new(decision: Decision, because: Because) -> Self {
        Self { decision, because }
    }

    /// A reason that the model can act on: what stands in the way and what is left to do. One line; it never repeats
    /// an argument's value. Meant for denials; of other verdicts it says only how they came about.
    pub fn denial_text(&self) -> String {
        match &self.because {
            Because::HumanOnly { door } => format!(
                "human_only_function: the call {}, which only a person may do; no mode, approval or rule opens it, so \
                 do not retry it: ask the user to do it",
                door.describe()
            ),
            Because::NotAFunctionId { problem } => {
                format!("the function id {problem}, so it names no function: call a function by its exact id")
            }
            Because::Rule { index, rule_id, action, constraint, .. } => {
                rule_text(*index, rule_id, *action, constraint.as_ref())
            }
            Because::PromptsDisabled => PROMPTS_ARE_DISABLED.to_owned(),
            other => format!("decided by {}", other.as_str()),
        }
    }
}

fn rule_text(index: usize, rule_id: &str, action: Action, constraint: Option<&MatchedConstraint>) -> String {
    let verb = match action {
        Action::Allow => "allows",
        Action::Deny => "denies",
    };
    let mut text = format!("permission rule `{}` (rule {index}) {verb} this call", shown(rule_id));
    if let Some(constraint) = constraint {
        // Writing to a string cannot fail. The operand stays out: with `equals` it is the argument's own value.
        let _ =
            write!(text, " because of its argument `{}` ({})", shown(&constraint.field), constraint.operator);
    }
    if action == Action::Deny {
        text.push_str(": choose another way, or ask the user to change the rule");
    }
    text
}
