//! A session's settings as stored and told, and the requests that read or change them (contract §5).
//!
//! The stored form is read strictly, for one reason: a record that cannot be read must be told from one that is not
//! there. The first keeps the gate closed and is never overwritten; the second is what defaults are for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::policy::settings::{self as policy, Grant, Mode, Settings};
use crate::wire::error::{decode_value, word};

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
    /// A record that cannot be read. Carries the field and what is wrong with it, no value.
    Unreadable(String),
}

impl StoredSettings {
    /// Reads a row. What is missing in an object is defaulted; what is no object is no record.
    pub fn read(value: &Value) -> Self {
        if !value.is_object() {
            return Self::Absent;
        }
        match decode_value::<ApprovalSettings>(value) {
            Ok(stored) => Self::Record(stored.into()),
            Err(invalid) => Self::Unreadable(format!("{}: {}", invalid.field, invalid.what)),
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

impl From<AlwaysAllowEntry> for Grant {
    fn from(entry: AlwaysAllowEntry) -> Self {
        let granted_by = match entry.granted_by {
            GrantedBy::UserClick => policy::GrantedBy::UserClick,
            GrantedBy::Seed => policy::GrantedBy::Seed,
        };
        Self { function_id: entry.function_id, granted_at: entry.granted_at, granted_by }
    }
}

impl From<Grant> for AlwaysAllowEntry {
    fn from(grant: Grant) -> Self {
        let granted_by = match grant.granted_by {
            policy::GrantedBy::UserClick => GrantedBy::UserClick,
            policy::GrantedBy::Seed => GrantedBy::Seed,
        };
        Self { function_id: grant.function_id, granted_at: grant.granted_at, granted_by }
    }
}

impl From<ApprovalSettings> for Settings {
    fn from(stored: ApprovalSettings) -> Self {
        Self {
            mode: stored.mode.into(),
            mode_set_at: stored.mode_set_at,
            approved_always: stored.approved_always.into_iter().map(Grant::from).collect(),
            always_allow: stored.always_allow.into_iter().map(Grant::from).collect(),
        }
    }
}

impl From<Settings> for ApprovalSettings {
    fn from(settings: Settings) -> Self {
        Self {
            mode: settings.mode.into(),
            mode_set_at: settings.mode_set_at,
            approved_always: settings.approved_always.into_iter().map(AlwaysAllowEntry::from).collect(),
            always_allow: settings.always_allow.into_iter().map(AlwaysAllowEntry::from).collect(),
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

    proptest! {
        #[test]
        fn whatever_is_stored_is_read_back_the_same(
            mode in prop::sample::select(Mode::ALL.to_vec()),
            mode_set_at: i64,
            approved_always in grants(),
            always_allow in grants(),
        ) {
            let settings = Settings { mode, mode_set_at, approved_always, always_allow };
            let stored = serde_json::to_value(ApprovalSettings::from(settings.clone())).unwrap();
            prop_assert_eq!(StoredSettings::read(&stored), StoredSettings::Record(settings));
        }
    }
}
