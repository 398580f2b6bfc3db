//! A session's approval settings as plain data, and every change to them as a function (contract §5).
//!
//! Knows nothing of how settings are stored; `wire::settings` converts, `keep::settings` remembers.

/// A session's permission mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Every call that no remembered approval and no rule decides is held. `always_allow` sleeps.
    Manual,
    /// As manual, and `always_allow` counts.
    Auto,
    /// Everything but human-only targets continues.
    Full,
}

impl Mode {
    /// All modes, in the order of the contract.
    pub const ALL: [Self; 3] = [Self::Manual, Self::Auto, Self::Full];

    /// The word that crosses the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Manual => "manual",
            Self::Auto => "auto",
            Self::Full => "full",
        }
    }

    /// The mode of a wire word; exact lower case only.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == word)
    }
}

/// Where an entry of a list came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantedBy {
    /// A person added it.
    UserClick,
    /// Copied from an auto-scoped allow rule at the session's first settings change.
    Seed,
}

/// One entry of `approved_always` or `always_allow`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// An exact function id, or a pattern with `*`.
    pub function_id: String,
    /// When it was added, milliseconds since the epoch.
    pub granted_at: i64,
    /// By whom.
    pub granted_by: GrantedBy,
}

/// The settings in force for one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The permission mode.
    pub mode: Mode,
    /// When the mode was last set, milliseconds since the epoch; 0 if never.
    pub mode_set_at: i64,
    /// Consulted in every mode: remembered human decisions.
    pub approved_always: Vec<Grant>,
    /// Consulted in auto mode only.
    pub always_allow: Vec<Grant>,
}

impl Settings {
    /// What is in force when the stored record cannot be read: never wider than any record could be (contract §1.4).
    pub const fn fail_closed() -> Self {
        Self { mode: Mode::Manual, mode_set_at: 0, approved_always: Vec::new(), always_allow: Vec::new() }
    }
}
