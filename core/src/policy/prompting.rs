//! Whether anybody is there to be asked, and what a model is told about it.
//!
//! A session says so itself, or the deployment does. Not obvious: under [`PromptPolicy::Never`] nothing is widened or
//! narrowed but the last step: what would wait is denied.

use super::Policy;
use super::settings::Settings;

/// What becomes of a call that would wait for a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PromptPolicy {
    /// It waits.
    Ask,
    /// It is denied at once: the run is unattended.
    Never,
}

impl PromptPolicy {
    /// Both, the shipped one first.
    pub const ALL: [Self; 2] = [Self::Ask, Self::Never];

    /// The word that crosses the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Never => "never",
        }
    }

    /// The policy of a wire word; exact lower case only.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.as_str() == word)
    }

    /// What is in force in a session with these settings: its own policy, else the deployment's.
    pub fn in_force(settings: &Settings, policy: &Policy) -> Self {
        settings.additions.prompts.unwrap_or(policy.prompt_policy())
    }

    /// The policy in words for a model, made to stand in a system prompt.
    pub const fn statement(self) -> &'static str {
        match self {
            Self::Ask => {
                "Some function calls need a person's approval. Such a call waits until a person has decided: make it once, \
                 do not repeat it while it waits, and take a refusal as the answer."
            }
            Self::Never => {
                "Nobody can be asked for approval in this session, so a function call that would need it is denied at \
                 once. Do not repeat a call that was denied and do not look for a way around the denial: do what can be \
                 done without it, and say what was left undone."
            }
        }
    }
}

/// Why a call is denied that would have waited, in words that a model can act on.
pub(super) const PROMPTS_ARE_DISABLED: &str = "approval prompts are disabled in this session, and this call needs a \
    person's approval, so it was denied without asking anybody: do not make it again and do not try to reach the same \
    by another way; go on without it and say that it was left undone";
