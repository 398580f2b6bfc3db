//! Sessions' settings: read leniently by the gate, strictly by changes, one change at a time (contract §5).

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use thiserror::Error;

use super::background::Background;
use super::keyed_lock::{KeyGuard, KeyedLock};
use super::live_config::LiveConfig;
use super::settings_view::{Look, SettingsView, Standing};
use crate::clock::Deadline;
use crate::iii::CallError;
use crate::policy::Policy;
use crate::policy::settings::Settings;
use crate::siblings::state::{Scope, State};
use crate::wire::settings::{ApprovalSettings, StoredSettings};

/// How much of the hook's budget reading the settings may take.
const GATE_READ: Duration = Duration::from_millis(1_500);
/// How long reading, or reading and writing, may take for a caller that changes settings.
const CALLER_BUDGET: Duration = Duration::from_secs(10);

/// How long a change may wait for the earlier ones of its session; callers give up after 30 s.
const QUEUE_BUDGET: Duration = Duration::from_secs(25);
/// A write without an answer may still arrive; how long it is waited for before the next change of the session.
const LATE_WRITE: Duration = Duration::from_secs(2);

/// Why settings could not be read or changed.
#[derive(Debug, Error)]
pub enum SettingsError {
    /// The state worker failed.
    #[error("the state worker is not available: {0}")]
    Unavailable(#[from] CallError),
    /// The stored record is not a settings record; nothing was overwritten.
    #[error(
        "the stored settings of this session cannot be read ({0}); `approval::clear-settings` removes them"
    )]
    Unreadable(String),
}

/// Where settings came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The session's own record.
    Stored,
    /// The deployment's defaults.
    Defaults,
}

/// The settings of all sessions. Cheap to clone.
#[derive(Clone)]
pub struct SettingsKeep {
    state: State,
    config: LiveConfig,
    changes: KeyedLock,
    view: Arc<SettingsView>,
    background: Background,
}

impl SettingsKeep {
    /// Over this store, with these defaults.
    pub fn new(state: State, config: LiveConfig, background: Background) -> Self {
        Self { state, config, changes: KeyedLock::default(), view: Arc::default(), background }
    }

    /// The view in memory may be used from now on, on this connection.
    pub fn open_view(&self, connection: u64) {
        self.view.open(connection);
    }

    /// A row of the settings scope has changed: it is looked at again at its next use.
    pub fn look_again(&self, session_id: &str) {
        self.view.look_again(session_id);
    }

    /// What is in force for the gate. A failed read and an unreadable record give the narrowest settings there are:
    /// not the defaults, which may be wider than the record that could not be read (contract §1.4).
    pub async fn for_gate(&self, session_id: &str, policy: &Policy, deadline: Deadline) -> Arc<Settings> {
        if let Some(settings) = self.known(session_id, policy) {
            return settings;
        }
        match self.read_for_gate(session_id, deadline.at_most(GATE_READ)).await {
            Ok(standing) => in_force(standing, policy),
            Err(error) => {
                tracing::warn!(session_id, %error, "settings could not be read; the session counts as manual");
                Arc::new(Settings::fail_closed())
            }
        }
    }

    /// What is in force for the gate, if that is known without asking the store.
    pub fn known(&self, session_id: &str, policy: &Policy) -> Option<Arc<Settings>> {
        let Look::Known { standing, ageing } = self.view.look(session_id, self.state.connection()) else {
            return None;
        };
        if ageing {
            let (keep, session_id) = (self.clone(), session_id.to_owned());
            self.background.spawn(async move {
                let _ = keep.read_for_gate(&session_id, Deadline::after(CALLER_BUDGET)).await;
            });
        }
        Some(in_force(standing, policy))
    }

    async fn read_for_gate(&self, session_id: &str, deadline: Deadline) -> Result<Standing, CallError> {
        let (token, connection) = (self.view.token(), self.state.connection());
        let value = self.state.get(Scope::Settings, session_id, deadline).await?;
        let standing = match StoredSettings::read(&value) {
            StoredSettings::Record(settings) => Standing::Settings(Arc::new(settings)),
            StoredSettings::Absent if value.is_null() => Standing::NoRecord,
            // Something that never was a record is no record to whoever changes settings (contract §5), but nobody
            // can say what stood there before: the gate takes the narrowest, as for a record it cannot read.
            StoredSettings::Absent | StoredSettings::Unreadable(_) => {
                tracing::warn!(session_id, "stored settings cannot be read; the session counts as manual");
                Standing::Settings(Arc::new(Settings::fail_closed()))
            }
        };
        self.view.learn(token, connection, session_id, &standing);
        Ok(standing)
    }

    /// What is in force, and where it comes from. Never writes.
    pub async fn effective(&self, session_id: &str) -> Result<(Settings, Source), SettingsError> {
        let value = self.state.get(Scope::Settings, session_id, Deadline::after(CALLER_BUDGET)).await?;
        Ok(lenient(session_id, &value, &self.config.policy()))
    }

    /// Applies a change: reads strictly, makes the record from the defaults if there is none, writes once. Changes
    /// of one session are applied one after the other, so that none is lost.
    pub async fn change(
        &self,
        session_id: &str,
        change: impl FnOnce(Settings, i64) -> Settings,
    ) -> Result<Settings, SettingsError> {
        let _turn = self.turn(session_id).await?;
        let deadline = Deadline::after(CALLER_BUDGET);
        let now = self.state.now_ms();
        let before = match StoredSettings::read(&self.state.get(Scope::Settings, session_id, deadline).await?)
        {
            StoredSettings::Record(settings) => settings,
            StoredSettings::Absent => self.config.policy().default_settings(now),
            StoredSettings::Unreadable(why) => return Err(SettingsError::Unreadable(why)),
        };
        let after = change(before, now);
        let (changing, connection) = (self.view.changing(session_id), self.state.connection());
        self.write(session_id, &json!(ApprovalSettings::from(after.clone())), deadline).await?;
        changing.written(connection, Standing::Settings(Arc::new(after.clone())));
        Ok(after)
    }

    /// Removes the record, readable or not; says whether there was one.
    pub async fn clear(&self, session_id: &str) -> Result<bool, SettingsError> {
        let _turn = self.turn(session_id).await?;
        let deadline = Deadline::after(CALLER_BUDGET);
        let existed = !self.state.get(Scope::Settings, session_id, deadline).await?.is_null();
        let (changing, connection) = (self.view.changing(session_id), self.state.connection());
        self.state.delete(Scope::Settings, session_id, deadline).await?;
        changing.written(connection, Standing::NoRecord);
        Ok(existed)
    }

    /// Waits for this session's earlier changes; each has a budget of its own, and many may be ahead.
    async fn turn(&self, session_id: &str) -> Result<KeyGuard, CallError> {
        let waiting = tokio::time::timeout(QUEUE_BUDGET, self.changes.lock(session_id));
        waiting.await.map_err(|_| CallError::Deadline {
            function_id: "state::set".to_owned(),
            waited_ms: u64::try_from(QUEUE_BUDGET.as_millis()).unwrap_or(u64::MAX),
        })
    }

    /// Writes the record; a lost answer is settled by reading what stands there. A write that is not there yet may
    /// still arrive, so the session's turn is kept for a while: it must not land on a later change.
    async fn write(&self, session_id: &str, value: &Value, deadline: Deadline) -> Result<(), CallError> {
        let budget = deadline.at_most(CALLER_BUDGET / 2);
        match self.state.swap(Scope::Settings, session_id, value, budget).await {
            Ok(_) => Ok(()),
            Err(error) if error.never_sent() => Err(error),
            Err(error) => {
                if self.stands(session_id, value, deadline).await {
                    return Ok(());
                }
                tokio::time::sleep(LATE_WRITE).await;
                if self.stands(session_id, value, Deadline::after(GATE_READ)).await {
                    Ok(())
                } else {
                    Err(error)
                }
            }
        }
    }

    async fn stands(&self, session_id: &str, value: &Value, deadline: Deadline) -> bool {
        self.state.get(Scope::Settings, session_id, deadline).await.is_ok_and(|standing| standing == *value)
    }
}

fn in_force(standing: Standing, policy: &Policy) -> Arc<Settings> {
    match standing {
        Standing::Settings(settings) => settings,
        Standing::NoRecord => Arc::clone(policy.defaults()),
    }
}

fn lenient(session_id: &str, value: &Value, policy: &Policy) -> (Settings, Source) {
    match StoredSettings::read(value) {
        StoredSettings::Record(settings) => (settings, Source::Stored),
        StoredSettings::Absent => (policy.default_settings(0), Source::Defaults),
        StoredSettings::Unreadable(why) => {
            tracing::warn!(session_id, %why, "stored settings cannot be read; the session counts as manual");
            (Settings::fail_closed(), Source::Stored)
        }
    }
}
