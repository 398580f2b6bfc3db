//! Decides one call. Pure: the same question, settings and policy give the same verdict; no clock, no I/O, no wire.
//!
//! [`decide`] is the evaluation order of contract §1, readable from top to bottom; [`screen`] is the part of it that
//! needs no state and no configuration, so that a caller can deny before it asks anybody. A [`Policy`] can only be
//! made from a value that was understood completely, or be [`Policy::locked_down`].

mod affixes;
pub mod approved_rule;
pub mod compiled;
pub mod constraint;
pub mod explain;
pub mod human_only;
pub mod id;
pub mod lint;
mod nearest;
pub mod parse;
pub mod pattern;
pub mod prompting;
pub mod refusal;
pub mod rule;
pub mod search;
pub mod settings;
pub mod verdict;

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Value, json};

use compiled::{Compiled, Subject};
use settings::{Additions, Grant, GrantedBy, Mode, Settings};

pub use constraint::MatchedConstraint;
pub use human_only::Door;
pub use prompting::PromptPolicy;
pub use refusal::{Problem, Refusal};
pub use rule::{Action, Rule};
pub use verdict::{Because, Decision, Verdict};

/// The shipped `grant_reask_limit`.
const DEFAULT_REASK_LIMIT: u32 = 3;

/// The call that is asked about.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The function id exactly as the caller wrote it.
    pub function_id: &'a str,
    /// The call's arguments; `null` if it has none.
    pub arguments: &'a Value,
}

/// The denials that need neither state nor configuration: human-only targets (contract §1.2), then ids that are no
/// ids (§1.3).
pub fn screen(question: &Question<'_>) -> Option<Verdict> {
    let because = human_only::door(question.function_id, question.arguments)
        .map(|door| Because::HumanOnly { door })
        .or_else(|| id::problem(question.function_id).map(|problem| Because::NotAFunctionId { problem }))?;
    Some(Verdict::new(Decision::Deny, because))
}

/// What of a call's arguments can make a difference to [`decide`]. What is left out of them makes none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needed {
    /// Nothing: any value stands for them.
    Nothing,
    /// The members that [`Policy::looks_at`]; none of them if the arguments are no object.
    Members,
    /// They as a whole.
    Whole,
}

/// What [`decide`] needs to know of a call's arguments, which are given as JSON text.
// Kept apart, as is `decide`: within a caller that is built for size they would be built for size as well.
#[inline(never)]
pub fn needed(function_id: &str, arguments: &str, policy: &Policy) -> Needed {
    if human_only::looks_at_arguments(function_id, arguments) {
        Needed::Whole
    } else if policy.compiled.looks_at_arguments(function_id) {
        Needed::Members
    } else {
        Needed::Nothing
    }
}

/// Decides a call: the steps of contract §1 in their order, the first that applies.
///
/// `settings` are the effective ones: the session's stored record, else [`Policy::default_settings`]. What would wait
/// for a person is denied where nobody is asked.
#[inline(never)]
pub fn decide(question: &Question<'_>, settings: &Settings, policy: &Policy) -> Verdict {
    let verdict = ladder(question, settings, policy);
    if verdict.decision == Decision::Hold && PromptPolicy::in_force(settings, policy) == PromptPolicy::Never {
        return Verdict::new(Decision::Deny, Because::PromptsDisabled);
    }
    verdict
}

fn ladder(question: &Question<'_>, settings: &Settings, policy: &Policy) -> Verdict {
    if let Some(denied) = screen(question) {
        return denied;
    }
    if policy.is_locked_down() {
        return Verdict::new(Decision::Hold, Because::LockedDown);
    }
    if let Some(denied) = floor_verdict(question, settings.mode, policy) {
        return denied;
    }
    if settings.mode == Mode::Full {
        return Verdict::new(Decision::Continue, Because::FullMode);
    }
    if let Some(entry) = settings.approved_always.iter().position(|grant| grant.covers(question.function_id))
    {
        return Verdict::new(Decision::Continue, Because::ApprovedAlways { entry });
    }
    if let Some(approved) = approved_rule_verdict(question, &settings.additions) {
        return approved;
    }
    let by_rules = || rules_verdict(question, settings.mode, policy);
    if settings.mode == Mode::Auto {
        return always_allow_verdict(question, &settings.always_allow, by_rules);
    }
    by_rules()
}

/// The first of the session's own rules that fits.
fn approved_rule_verdict(question: &Question<'_>, additions: &Additions) -> Option<Verdict> {
    let fits =
        |approved: &approved_rule::ApprovedRule| approved.fits(question.function_id, question.arguments);
    let entry = additions.approved_rules.iter().position(fits)?;
    let rule_id = Arc::clone(&additions.approved_rules[entry].rule.rule_id);
    Some(Verdict::new(Decision::Continue, Because::ApprovedRule { entry, rule_id }))
}

/// The first entry that counts, else the rules. A person's entry outruns the rules; a seed is a copy of one of them
/// and counts only where they do not deny, else seeding would lift it over an earlier deny.
fn always_allow_verdict(
    question: &Question<'_>,
    always_allow: &[Grant],
    by_rules: impl Fn() -> Verdict,
) -> Verdict {
    let mut rules_say: Option<Verdict> = None;
    for (entry, grant) in
        always_allow.iter().enumerate().filter(|(_, grant)| grant.covers(question.function_id))
    {
        let granted_by = grant.granted_by;
        if granted_by == GrantedBy::UserClick
            || rules_say.get_or_insert_with(&by_rules).decision != Decision::Deny
        {
            return Verdict::new(Decision::Continue, Because::AlwaysAllow { entry, granted_by });
        }
    }
    rules_say.unwrap_or_else(by_rules)
}

fn rules_verdict(question: &Question<'_>, mode: Mode, policy: &Policy) -> Verdict {
    let subject = Subject { function_id: question.function_id, arguments: question.arguments, mode };
    let Some((index, rule)) = policy.compiled.first_match(subject) else {
        return Verdict::new(Decision::Hold, Because::NoRule);
    };
    by_rule(index, rule, false)
}

/// The first of the deny rules that no mode and nothing remembered opens.
fn floor_verdict(question: &Question<'_>, mode: Mode, policy: &Policy) -> Option<Verdict> {
    let subject = Subject { function_id: question.function_id, arguments: question.arguments, mode };
    let (place, rule) = policy.floor.compiled.first_match(subject)?;
    Some(by_rule(policy.floor.indices[place], rule, true))
}

fn by_rule(index: usize, rule: &Rule, floor: bool) -> Verdict {
    let decision = match rule.action {
        Action::Allow => Decision::Continue,
        Action::Deny => Decision::Deny,
    };
    let because = Because::Rule {
        index,
        rule_id: Arc::clone(&rule.rule_id),
        action: rule.action,
        constraint: rule.first_constraint(),
        floor,
    };
    Verdict::new(decision, because)
}

/// The floor rules once more, on their own, each with its position in the whole list.
#[derive(Debug, Clone, Default)]
struct Floor {
    compiled: Compiled,
    indices: Vec<usize>,
}

impl Floor {
    fn of(rules: &[Rule]) -> Self {
        let floor = || rules.iter().enumerate().filter(|(_, rule)| rule.floor);
        Self {
            indices: floor().map(|(index, _)| index).collect(),
            compiled: Compiled::new(floor().map(|(_, rule)| rule.clone()).collect()),
        }
    }
}

/// One configuration value, understood and compiled.
#[derive(Debug, Clone)]
pub struct Policy {
    default_mode: Mode,
    grant_reask_limit: u32,
    compiled: Compiled,
    floor: Floor,
    prompts: PromptPolicy,
    /// Patterns over the functions that an answerer may allow.
    answerable: Vec<Arc<str>>,
    require_listener: bool,
    /// The patterns that a session's `always_allow` starts with, in rule order, each once.
    seeds: Vec<Arc<str>>,
    /// [`Policy::default_settings`] as they are shown and judged by, made once.
    defaults: Arc<Settings>,
    locked_down: bool,
    revision: Option<Arc<str>>,
}

impl Policy {
    /// Understands a configuration value, or says everything that is wrong with it.
    ///
    /// Absent fields take their shipped defaults; `rules: []` is an empty list and stays one. One rule that is not
    /// understood refuses the value (contract §1, "Rules").
    pub fn from_value(value: &Value) -> Result<Self, Refusal> {
        Self::from_value_in_steps(value, &mut || {})
    }

    /// As [`Policy::from_value`]; `step` is called behind each rule, by which somebody who must not keep a processor to
    /// himself can take a rest.
    pub fn from_value_in_steps(value: &Value, step: &mut dyn FnMut()) -> Result<Self, Refusal> {
        let parsed = parse::parse(value, step)?;
        let rules = match parsed.rules {
            Some(rules) => rules,
            None => parse::parse(&Self::shipped_value(), step)?.rules.unwrap_or_default(),
        };
        let (default_mode, seeds) = (parsed.default_mode.unwrap_or(Mode::Manual), seeds(&rules));
        Ok(Self {
            default_mode,
            grant_reask_limit: parsed.grant_reask_limit.unwrap_or(DEFAULT_REASK_LIMIT),
            defaults: Arc::new(default_settings(default_mode, &seeds, 0)),
            seeds,
            floor: Floor::of(&rules),
            compiled: Compiled::new(rules),
            prompts: parsed.prompt_policy.unwrap_or(PromptPolicy::Ask),
            answerable: parsed.answerable.unwrap_or_default(),
            require_listener: parsed.require_listener.unwrap_or(false),
            locked_down: false,
            revision: None,
        })
    }

    /// What is in force when no valid configuration ever was: human-only denials stay, everything else holds,
    /// whatever the session's mode.
    pub fn locked_down() -> Self {
        Self {
            default_mode: Mode::Manual,
            grant_reask_limit: DEFAULT_REASK_LIMIT,
            compiled: Compiled::default(),
            floor: Floor::default(),
            prompts: PromptPolicy::Ask,
            answerable: Vec::new(),
            require_listener: false,
            seeds: Vec::new(),
            defaults: Arc::new(Settings::fail_closed()),
            locked_down: true,
            revision: None,
        }
    }

    /// The shipped configuration value.
    pub fn shipped_value() -> Value {
        json!({
            "default_mode": Mode::Manual.as_str(),
            "rules": ["!approval::*"],
            "grant_reask_limit": DEFAULT_REASK_LIMIT,
        })
    }

    /// The mode of a session without stored settings.
    pub const fn default_mode(&self) -> Mode {
        self.default_mode
    }

    /// How many times the filesystem watch may hold one call.
    pub const fn grant_reask_limit(&self) -> u32 {
        self.grant_reask_limit
    }

    /// What becomes of calls that would wait for a person, where a session says nothing else.
    pub const fn prompt_policy(&self) -> PromptPolicy {
        self.prompts
    }

    /// Whether an answerer's `allow` counts for this function; without a mark only a person can allow what is held.
    pub fn is_answerable(&self, function_id: &str) -> bool {
        self.answerable.iter().any(|marked| pattern::matches(marked, function_id))
    }

    /// Whether a call that nobody could ever see waiting is denied instead of held.
    pub const fn require_listener(&self) -> bool {
        self.require_listener
    }

    /// The same, known under this name.
    #[must_use]
    pub fn with_revision(self, revision: &str) -> Self {
        Self { revision: Some(revision.into()), ..self }
    }

    /// Which configuration this is; `None` in lock-down, and where nobody gave it a name.
    pub fn revision(&self) -> Option<&str> {
        self.revision.as_deref()
    }

    /// Whether this stands in for a configuration that is missing or was refused.
    pub const fn is_locked_down(&self) -> bool {
        self.locked_down
    }

    /// The settings of a session without a stored record, as the gate judges by them.
    pub const fn defaults(&self) -> &Arc<Settings> {
        &self.defaults
    }

    /// The settings of a session without a stored record: the default mode, never set, and the seeds.
    ///
    /// `granted_at` is in milliseconds since the epoch; 0 where the settings are only shown.
    pub fn default_settings(&self, granted_at: i64) -> Settings {
        default_settings(self.default_mode, &self.seeds, granted_at)
    }

    /// Whether some rule looks at an argument of this name.
    pub fn looks_at(&self, argument: &str) -> bool {
        self.compiled.looks_at(argument)
    }

    /// The rules, in order.
    pub fn rules(&self) -> &[Rule] {
        self.compiled.rules()
    }
}

fn default_settings(mode: Mode, seeds: &[Arc<str>], granted_at: i64) -> Settings {
    let seed = |pattern: &Arc<str>| Grant {
        function_id: pattern.as_ref().to_owned(),
        granted_at,
        granted_by: GrantedBy::Seed,
    };
    Settings {
        mode,
        mode_set_at: 0,
        approved_always: Vec::new(),
        always_allow: seeds.iter().map(seed).collect(),
        additions: Additions::NONE,
    }
}

fn seeds(rules: &[Rule]) -> Vec<Arc<str>> {
    let mut seen = HashSet::new();
    rules
        .iter()
        .filter(|rule| rule.seeds() && seen.insert(&*rule.pattern))
        .map(|rule| Arc::clone(&rule.pattern))
        .collect()
}

#[cfg(test)]
pub(crate) mod tests;
