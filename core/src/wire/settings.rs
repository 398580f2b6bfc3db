//! A session's settings as stored and told, and the requests that read or change them (contract §5).
//!
//! The stored form is read strictly, for one reason: a record that cannot be read must be told from one that is not
//! there. The first keeps the gate closed and is never overwritten; the second is what defaults are for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::policy::PromptPolicy;
use crate::policy::approved_rule::ApprovedRule;
use crate::policy::settings::{self as policy, Additions, Grant, Mode, Settings};
use crate::wire::error::{decode_value, optional_word, word};

/// What is in force for one session.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalSettings {
    /// The permission mode.
    #[serde(default, deserialize_with = "word")]
    pub mode: PermissionMode,
    /// When the mode was last set, in milliseconds since the epoch; 0 if it never was.
    #[serde(default)]
    pub mode_set_at: i64,
    /// Functions that a person approved for good; they count in every mode.
    #[serde(default)]
    pub approved_always: Vec<AlwaysAllowEntry>,
    /// Functions that need no question in auto mode; they sleep in manual mode.
    #[serde(default)]
    pub always_allow: Vec<AlwaysAllowEntry>,
    /// Whether anybody is asked, if the session has a say of its own. An addition to the published settings.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "optional_word")]
    #[schemars(skip)]
    pub prompt_policy: Option<PromptWord>,
    /// Rules that a person approved for the session. An addition to the published settings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    pub approved_rules: Vec<ApprovedRuleEntry>,
}

/// What becomes of a call that would wait for a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "PromptPolicy")]
pub enum PromptWord {
    /// It waits.
    Ask,
    /// It is denied at once.
    Never,
}

/// One rule that a person approved for the session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovedRuleEntry {
    /// The rule in the configuration's form, with its name.
    pub rule: Value,
    /// When it was added, in milliseconds since the epoch.
    pub granted_at: i64,
    /// How it came into the list.
    #[serde(deserialize_with = "word")]
    pub granted_by: GrantedBy,
}

/// How much a session may do without being asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PermissionMode {
    /// whatever no remembered approval and no rule decides is held.
    #[default]
    Manual,
    /// as manual, and the session's auto list counts.
    Auto,
    /// everything runs but what only a person may call.
    Full,
}

/// One function, or pattern, that needs no question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AlwaysAllowEntry {
    /// A function id, or a pattern in which `*` stands for any run of characters.
    pub function_id: String,
    /// When it was added, in milliseconds since the epoch.
    pub granted_at: i64,
    /// How it came into the list.
    #[serde(deserialize_with = "word")]
    pub granted_by: GrantedBy,
}

/// How an entry came into its list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GrantedBy {
    /// A person added it.
    UserClick,
    /// It stood for an allow rule of the deployment when the session's settings were first changed.
    Seed,
}

/// What lies in a row of the scope `approval_settings`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredSettings {
    /// No record: nothing, `null`, or something that never was one. Defaults are in force.
    Absent,
    /// A record.
    Record(Settings),
    /// A record that says nothing of the published settings: for them the defaults are in force.
    Additions(Additions),
    /// A record that cannot be read. Carries the field and what is wrong with it, no value.
    Unreadable(String),
}

impl StoredSettings {
    /// Reads a row. What is missing in an object is defaulted; what is no object is no record.
    pub fn read(value: &Value) -> Self {
        if !value.is_object() {
            return Self::Absent;
        }
        let read = decode_value::<ApprovalSettings>(value)
            .map_err(|invalid| format!("{}: {}", invalid.field, invalid.what))
            .and_then(Settings::try_from);
        match read {
            Ok(settings)
                if !settings.additions.is_empty() && PUBLISHED.iter().all(|key| value.get(key).is_none()) =>
            {
                Self::Additions(settings.additions)
            }
            Ok(settings) => Self::Record(settings),
            Err(why) => Self::Unreadable(why),
        }
    }

    /// What a row says of the prompt policy, whatever else is wrong with it. A word that is not understood counts as
    /// the strict one: nothing runs under it, and it asks nobody who could let something run.
    pub fn prompts_said(value: &Value) -> Option<PromptPolicy> {
        match value.get("prompt_policy") {
            None | Some(Value::Null) => None,
            Some(word) => Some(word.as_str().and_then(PromptPolicy::parse).unwrap_or(PromptPolicy::Never)),
        }
    }

    /// A record that says nothing of the published settings, as it is stored; `None` if it would say nothing at all.
    pub fn of_additions(additions: &Additions) -> Option<Value> {
        if additions.is_empty() {
            return None;
        }
        let settings = Settings { additions: additions.clone(), ..Settings::fail_closed() };
        let mut row = serde_json::to_value(ApprovalSettings::from(settings)).unwrap_or_default();
        if let Some(fields) = row.as_object_mut() {
            fields.retain(|key, _| !PUBLISHED.contains(&key.as_str()));
        }
        Some(row)
    }
}

/// The fields of the published record.
const PUBLISHED: [&str; 4] = ["mode", "mode_set_at", "approved_always", "always_allow"];

impl From<PromptWord> for PromptPolicy {
    fn from(word: PromptWord) -> Self {
        match word {
            PromptWord::Ask => Self::Ask,
            PromptWord::Never => Self::Never,
        }
    }
}

impl From<PromptPolicy> for PromptWord {
    fn from(policy: PromptPolicy) -> Self {
        match policy {
            PromptPolicy::Ask => Self::Ask,
            PromptPolicy::Never => Self::Never,
        }
    }
}

impl From<PermissionMode> for Mode {
    fn from(mode: PermissionMode) -> Self {
        match mode {
            PermissionMode::Manual => Self::Manual,
            PermissionMode::Auto => Self::Auto,
            PermissionMode::Full => Self::Full,
        }
    }
}

impl From<Mode> for PermissionMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Manual => Self::Manual,
            Mode::Auto => Self::Auto,
            Mode::Full => Self::Full,
        }
    }
}

impl From<GrantedBy> for policy::GrantedBy {
    fn from(granted_by: GrantedBy) -> Self {
        match granted_by {
            GrantedBy::UserClick => Self::UserClick,
            GrantedBy::Seed => Self::Seed,
        }
    }
}

impl From<policy::GrantedBy> for GrantedBy {
    fn from(granted_by: policy::GrantedBy) -> Self {
        match granted_by {
            policy::GrantedBy::UserClick => Self::UserClick,
            policy::GrantedBy::Seed => Self::Seed,
        }
    }
}

impl From<AlwaysAllowEntry> for Grant {
    fn from(entry: AlwaysAllowEntry) -> Self {
        let granted_by = entry.granted_by.into();
        Self { function_id: entry.function_id, granted_at: entry.granted_at, granted_by }
    }
}

impl From<Grant> for AlwaysAllowEntry {
    fn from(grant: Grant) -> Self {
        let granted_by = grant.granted_by.into();
        Self { function_id: grant.function_id, granted_at: grant.granted_at, granted_by }
    }
}

impl TryFrom<ApprovalSettings> for Settings {
    type Error = String;

    /// Fails at a rule that is not understood: what was approved is not known then, so nothing is.
    fn try_from(stored: ApprovalSettings) -> Result<Self, String> {
        let mut additions = Additions::NONE.with_prompts(stored.prompt_policy.map(PromptPolicy::from));
        for (index, entry) in stored.approved_rules.into_iter().enumerate() {
            let at = |what: String| format!("approved_rules[{index}].rule: {what}");
            let rule = ApprovedRule::understood(&entry.rule, entry.granted_at, entry.granted_by.into())
                .map_err(|problem| at(problem.to_string()))?;
            additions = additions.with_rule(rule).map_err(|problem| at(problem.to_string()))?;
        }
        Ok(Self {
            mode: stored.mode.into(),
            mode_set_at: stored.mode_set_at,
            approved_always: stored.approved_always.into_iter().map(Grant::from).collect(),
            always_allow: stored.always_allow.into_iter().map(Grant::from).collect(),
            additions,
        })
    }
}

impl From<ApprovedRule> for ApprovedRuleEntry {
    fn from(rule: ApprovedRule) -> Self {
        Self { rule: rule.written(), granted_at: rule.granted_at, granted_by: rule.granted_by.into() }
    }
}

impl From<Settings> for ApprovalSettings {
    fn from(settings: Settings) -> Self {
        Self {
            mode: settings.mode.into(),
            mode_set_at: settings.mode_set_at,
            approved_always: settings.approved_always.into_iter().map(AlwaysAllowEntry::from).collect(),
            always_allow: settings.always_allow.into_iter().map(AlwaysAllowEntry::from).collect(),
            prompt_policy: settings.additions.prompts.map(PromptWord::from),
            approved_rules: settings
                .additions
                .approved_rules
                .into_iter()
                .map(ApprovedRuleEntry::from)
                .collect(),
        }
    }
}

/// Puts a session into a permission mode.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct SetModeRequest {
    /// The session to change.
    pub session_id: String,
    /// The mode from now on.
    #[serde(deserialize_with = "word")]
    pub mode: PermissionMode,
}

/// Adds a function to a session's auto list, or takes it out.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct AlwaysAllowMutationRequest {
    /// The session to change.
    pub session_id: String,
    /// The entry: a function id, or a pattern with `*`.
    pub function_id: String,
}

/// Approves a function for the rest of a session, in every mode.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct ApproveAlwaysRequest {
    /// The session to change.
    pub session_id: String,
    /// The entry: a function id, or a pattern with `*`.
    pub function_id: String,
}

/// Asks for what is in force in a session.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct GetSettingsRequest {
    /// The session to read.
    pub session_id: String,
}

/// Sends a session back to the deployment's defaults.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct ClearSettingsRequest {
    /// The session to reset.
    pub session_id: String,
}

/// The session's settings after a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SettingsResponse {
    /// The whole record, as stored.
    pub settings: ApprovalSettings,
}

/// What is in force in a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GetSettingsResponse {
    /// The settings in force.
    pub settings: ApprovalSettings,
    /// Where they come from.
    pub source: SettingsSource,
}

/// Where a session's settings come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SettingsSource {
    /// the session's own record.
    Stored,
    /// the deployment's configuration; the session has no record.
    Defaults,
}

/// Whether there was anything to clear.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClearSettingsResponse {
    /// True if the session had a record, which is gone now.
    pub cleared: bool,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_no_object_is_no_record() {
        for value in [json!(null), json!("garbage"), json!(5), json!([])] {
            assert_eq!(StoredSettings::read(&value), StoredSettings::Absent);
        }
    }

    #[test]
    fn an_object_is_a_record_and_what_it_lacks_is_defaulted() {
        assert_eq!(StoredSettings::read(&json!({})), StoredSettings::Record(Settings::fail_closed()));
        let StoredSettings::Record(read) = StoredSettings::read(&json!({"mode": "auto", "future": 1})) else {
            panic!("not a record");
        };
        assert_eq!(read, Settings { mode: Mode::Auto, ..Settings::fail_closed() });
    }

    #[test]
    fn a_record_that_does_not_parse_is_unreadable_and_not_absent() {
        let rows = [
            json!({"mode": "turbo"}),
            json!({"mode": "Full"}),
            json!({"mode": null}),
            json!({"mode": "auto", "always_allow": {}}),
            json!({"approved_always": ["shell::exec"]}),
            json!({"approved_always": [{"function_id": "a", "granted_at": 1, "granted_by": "agent"}]}),
        ];
        for value in rows {
            assert!(matches!(StoredSettings::read(&value), StoredSettings::Unreadable(_)), "{value}");
        }
    }

    #[test]
    fn the_record_is_told_with_all_of_its_fields() {
        let settings = Settings {
            mode: Mode::Full,
            mode_set_at: 3,
            approved_always: vec![Grant {
                function_id: "a::b".into(),
                granted_at: 1,
                granted_by: policy::GrantedBy::UserClick,
            }],
            always_allow: vec![Grant {
                function_id: "c::*".into(),
                granted_at: 2,
                granted_by: policy::GrantedBy::Seed,
            }],
            additions: Additions::NONE,
        };
        let told = serde_json::to_value(GetSettingsResponse {
            settings: settings.into(),
            source: SettingsSource::Stored,
        })
        .unwrap();
        assert_eq!(
            told,
            json!({"source": "stored", "settings": {"mode": "full", "mode_set_at": 3,
                "approved_always": [{"function_id": "a::b", "granted_at": 1, "granted_by": "user_click"}],
                "always_allow": [{"function_id": "c::*", "granted_at": 2, "granted_by": "seed"}]}})
        );
    }

    fn grants() -> impl Strategy<Value = Vec<Grant>> {
        let origin = prop::sample::select(vec![policy::GrantedBy::UserClick, policy::GrantedBy::Seed]);
        let grant = (".{0,9}", any::<i64>(), origin)
            .prop_map(|(function_id, granted_at, granted_by)| Grant { function_id, granted_at, granted_by });
        prop::collection::vec(grant, 0..4)
    }

    fn additions() -> impl Strategy<Value = Additions> {
        let prompts = prop::option::of(prop::sample::select(PromptPolicy::ALL.to_vec()));
        let rule = ("[a-z]{1,6}", "[a-z]{1,6}", any::<i64>()).prop_map(|(field, text, granted_at)| {
            let rule = json!({"function": "shell::exec", "args": {field: {"equals": text}}});
            ApprovedRule::understood(&rule, granted_at, policy::GrantedBy::UserClick).unwrap()
        });
        (prompts, prop::collection::vec(rule, 0..4)).prop_map(|(prompts, rules)| {
            let none = Additions::NONE.with_prompts(prompts);
            rules.into_iter().fold(none, |all, rule| all.clone().with_rule(rule).unwrap_or(all))
        })
    }

    #[test]
    fn a_record_of_additions_alone_says_nothing_of_the_rest() {
        for row in [
            json!({"prompt_policy": "never"}),
            json!({"approved_rules": [{"rule": {"function": "a::b", "args": {"x": {"equals": 1}}}, "granted_at": 1, "granted_by": "user_click"}]}),
        ] {
            let StoredSettings::Additions(additions) = StoredSettings::read(&row) else { panic!("{row}") };
            let stored = StoredSettings::of_additions(&additions).unwrap();
            assert!(PUBLISHED.iter().all(|key| stored.get(key).is_none()), "{stored}");
            assert_eq!(StoredSettings::read(&stored), StoredSettings::Additions(additions));
        }
        assert_eq!(StoredSettings::of_additions(&Additions::NONE), None);
        for row in [
            json!({"prompt_policy": null, "approved_rules": []}),
            json!({"prompt_policy": "never", "mode": "auto"}),
        ] {
            assert!(matches!(StoredSettings::read(&row), StoredSettings::Record(_)), "{row}");
        }
    }

    #[test]
    fn a_record_with_an_addition_that_is_not_understood_is_unreadable() {
        let rules = |rule: Value| json!({"mode": "full", "approved_rules": [{"rule": rule, "granted_at": 1, "granted_by": "user_click"}]});
        for row in [
            json!({"mode": "full", "prompt_policy": "Never"}),
            json!({"mode": "full", "prompt_policy": false}),
            json!({"approved_rules": {}}),
            json!({"approved_rules": [{}]}),
            rules(json!("shell::exec")),
            rules(json!({"function": "shell::*", "args": {"x": {"equals": 1}}})),
            rules(json!({"function": "shell::exec"})),
            rules(json!({"function": "shell::exec", "action": "deny", "args": {"x": {"equals": 1}}})),
            rules(json!({"function": "shell::exec", "args": {"x": {"matches": "("}}})),
            rules(json!({"function": "shell::exec", "args": {"x": {"starts_with": "a"}}})),
        ] {
            assert!(matches!(StoredSettings::read(&row), StoredSettings::Unreadable(_)), "{row}");
        }
    }

    #[test]
    fn what_is_said_of_prompts_is_read_from_a_damaged_record_too() {
        for (row, said) in [
            (json!({"mode": "turbo"}), None),
            (json!({"mode": "turbo", "prompt_policy": null}), None),
            (json!({"mode": "turbo", "prompt_policy": "never"}), Some(PromptPolicy::Never)),
            (json!({"mode": "turbo", "prompt_policy": "ask"}), Some(PromptPolicy::Ask)),
            (json!({"prompt_policy": "later"}), Some(PromptPolicy::Never)),
            (json!({"prompt_policy": 5}), Some(PromptPolicy::Never)),
            (json!("garbage"), None),
        ] {
            assert_eq!(StoredSettings::prompts_said(&row), said, "{row}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_stored_is_read_back_the_same(
            mode in prop::sample::select(Mode::ALL.to_vec()),
            mode_set_at: i64,
            approved_always in grants(),
            always_allow in grants(),
            additions in additions(),
        ) {
            let settings = Settings { mode, mode_set_at, approved_always, always_allow, additions };
            let stored = serde_json::to_value(ApprovalSettings::from(settings.clone())).unwrap();
            prop_assert_eq!(StoredSettings::read(&stored), StoredSettings::Record(settings));
        }
    }
}
