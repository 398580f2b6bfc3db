//! Whether anybody is there to be asked.

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
}
