//! A session's approval settings as plain data, and every change to them as a function (contract §5).
//!
//! Knows nothing of how settings are stored; `wire::settings` converts, `keep::settings` remembers. Every change takes
//! the settings in force and gives the ones to store, so a first change starts from `Policy::default_settings`. What
//! was added to the published settings ([`Additions`]) is changed on its own and says nothing about the rest.

use super::approved_rule::ApprovedRule;
use super::prompting::PromptPolicy;
use super::{human_only, id, pattern};

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
    /// What the published settings do not have.
    pub additions: Additions,
}

/// What a session's record may say beyond the published settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Additions {
    /// Whether anybody is asked; `None` leaves it to the deployment.
    pub prompts: Option<PromptPolicy>,
    /// Consulted in every mode, where `approved_always` is: remembered human decisions about one kind of call.
    pub approved_rules: Vec<ApprovedRule>,
}

/// The most rules that one session remembers.
pub const MAX_APPROVED_RULES: usize = 200;

/// A rule could not be added to a session's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotAdded {
    /// Another rule of the session has that name.
    #[error("names another rule of this session")]
    NameInUse,
    /// There are [`MAX_APPROVED_RULES`] already.
    #[error("the session remembers 200 rules already; remove one first")]
    TooMany,
}

impl Additions {
    /// Nothing added.
    pub const NONE: Self = Self { prompts: None, approved_rules: Vec::new() };

    /// Whether nothing is added.
    pub const fn is_empty(&self) -> bool {
        self.prompts.is_none() && self.approved_rules.is_empty()
    }

    /// The same with this prompt policy; `None` goes back to the deployment's.
    #[must_use]
    pub fn with_prompts(self, prompts: Option<PromptPolicy>) -> Self {
        Self { prompts, ..self }
    }

    /// Adds a rule. One that is there under that name stays as it is, time included.
    pub fn with_rule(mut self, rule: ApprovedRule) -> Result<Self, NotAdded> {
        match self.approved_rules.iter().find(|known| known.rule_id() == rule.rule_id()) {
            Some(known) if known.says_the_same(&rule) => {}
            Some(_) => return Err(NotAdded::NameInUse),
            None if self.approved_rules.len() >= MAX_APPROVED_RULES => return Err(NotAdded::TooMany),
            None => self.approved_rules.push(rule),
        }
        Ok(self)
    }

    /// Removes the rule of that name; none is fine.
    #[must_use]
    pub fn without_rule(mut self, rule_id: &str) -> Self {
        self.approved_rules.retain(|rule| rule.rule_id() != rule_id);
        self
    }
}

impl Settings {
    /// What is in force when the stored record cannot be read: never wider than any record could be (contract §1.4).
    pub const fn fail_closed() -> Self {
        Self {
            mode: Mode::Manual,
            mode_set_at: 0,
            approved_always: Vec::new(),
            always_allow: Vec::new(),
            additions: Additions::NONE,
        }
    }

    /// Whether some rule of the session's own looks at the arguments of calls of this function.
    pub fn looks_at_arguments(&self, function_id: &str) -> bool {
        self.additions.approved_rules.iter().any(|approved| *approved.rule.pattern == *function_id)
    }

    /// The same settings in another mode, stamped even if the mode was in force already.
    #[must_use]
    pub fn with_mode(mut self, mode: Mode, now_ms: i64) -> Self {
        self.mode = mode;
        self.mode_set_at = now_ms;
        self
    }

    /// Adds what a person trusts in auto mode. An entry with that exact text stays as it is, time and origin included.
    #[must_use]
    pub fn with_always_allow(mut self, function_id: &str, now_ms: i64) -> Self {
        add(&mut self.always_allow, function_id, now_ms);
        self
    }

    /// Adds what a person approved for good, in every mode. An entry with that exact text stays as it is.
    #[must_use]
    pub fn with_approved_always(mut self, function_id: &str, now_ms: i64) -> Self {
        add(&mut self.approved_always, function_id, now_ms);
        self
    }

    /// Removes the `always_allow` entries with that exact text, seeded ones too; none is fine.
    #[must_use]
    pub fn without_always_allow(mut self, function_id: &str) -> Self {
        self.always_allow.retain(|grant| grant.function_id != function_id);
        self
    }
}

fn add(list: &mut Vec<Grant>, function_id: &str, now_ms: i64) {
    if list.iter().all(|grant| grant.function_id != function_id) {
        list.push(Grant {
            function_id: function_id.to_owned(),
            granted_at: now_ms,
            granted_by: GrantedBy::UserClick,
        });
    }
}

impl Grant {
    /// Says whether the entry covers a call of `function_id`.
    pub fn covers(&self, function_id: &str) -> bool {
        pattern::matches(&self.function_id, function_id)
    }
}

/// Why an id cannot be added to a list (contract §5). Carries no text of the caller's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotGrantable {
    /// Not a function id, nor a pattern over function ids.
    #[error("`function_id` {0}")]
    NotAnId(id::IdProblem),
    /// Only human-only functions could ever match, and no list opens those.
    #[error("`function_id` names a human_only_function, which no list can open")]
    HumanOnly,
}

/// Says whether `function_id` may be added to a list: an id, or a pattern, that could open something.
pub fn grantable(function_id: &str) -> Result<(), NotGrantable> {
    if let Some(problem) = id::problem_of_pattern(function_id) {
        return Err(NotGrantable::NotAnId(problem));
    }
    if human_only::names_only_human_only(function_id) { Err(NotGrantable::HumanOnly) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn ids(list: &[Grant]) -> Vec<&str> {
        list.iter().map(|grant| grant.function_id.as_str()).collect()
    }

    #[test]
    fn given_an_entry_when_it_is_added_again_then_the_first_one_stays() {
        let once = Settings::fail_closed().with_always_allow("web::fetch", 1);
        let twice = once.clone().with_always_allow("web::fetch", 2);
        assert_eq!(twice, once);
        let approved = Settings::fail_closed().with_approved_always("web::fetch", 1);
        assert_eq!(approved.clone().with_approved_always("web::fetch", 2), approved);
    }

    #[test]
    fn given_a_seed_when_a_person_adds_the_same_text_then_the_seed_stays() {
        let mut seeded = Settings::fail_closed();
        let seed = Grant { function_id: "a::b".into(), granted_at: 1, granted_by: GrantedBy::Seed };
        seeded.always_allow.push(seed.clone());
        assert_eq!(seeded.with_always_allow("a::b", 2).always_allow, [seed]);
    }

    #[test]
    fn additions_keep_their_order_and_touch_nothing_else() {
        let settings = Settings::fail_closed()
            .with_always_allow("z", 1)
            .with_always_allow("m", 2)
            .with_approved_always("a", 3);
        assert_eq!(ids(&settings.always_allow), ["z", "m"]);
        assert_eq!(ids(&settings.approved_always), ["a"]);
        assert_eq!((settings.mode, settings.mode_set_at), (Mode::Manual, 0));
    }

    #[test]
    fn removing_takes_the_exact_text_and_what_is_absent_is_no_error() {
        let settings = Settings::fail_closed().with_always_allow("a::*", 1).with_always_allow("a::b", 2);
        assert_eq!(ids(&settings.clone().without_always_allow("a::b").always_allow), ["a::*"]);
        assert_eq!(settings.clone().without_always_allow("never::there"), settings);
    }

    #[test]
    fn a_mode_is_stamped_each_time() {
        let settings = Settings::fail_closed().with_mode(Mode::Auto, 7).with_mode(Mode::Auto, 9);
        assert_eq!((settings.mode, settings.mode_set_at), (Mode::Auto, 9));
    }

    #[test]
    fn what_could_open_nothing_is_not_grantable() {
        for id in [
            "",
            "   ",
            " a::b",
            "a::b\n",
            "a\u{0}b",
            "approval::resolve",
            "approval::*",
            "configuration::set",
        ] {
            assert!(grantable(id).is_err(), "{id:?}");
        }
        for id in ["a", "shell::exec", "shell::*", "*", "approvals::x", "state::set"] {
            assert_eq!(grantable(id), Ok(()), "{id:?}");
        }
    }

    #[test]
    fn the_refusal_names_the_reason_and_not_the_text() {
        assert_eq!(grantable("  ").unwrap_err().to_string(), "`function_id` is blank");
        assert!(grantable("approval::resolve").unwrap_err().to_string().contains("human_only_function"));
    }
}
