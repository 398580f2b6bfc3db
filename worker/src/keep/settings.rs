//! Sessions' settings: read leniently by the gate, strictly by changes, one change at a time (contract §5).

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use thiserror::Error;

use super::additions::{Cleared, fail_closed};
use super::background::Background;
use super::keyed_lock::{KeyGuard, KeyedLock};
use super::live_config::LiveConfig;
use super::settings_view::{Look, SettingsView, Standing};
use crate::clock::Deadline;
use crate::iii::CallError;
use crate::policy::Policy;
use crate::policy::settings::{NotAdded, Settings};
use crate::siblings::state::{Scope, State};
use crate::wire::settings::{ApprovalSettings, StoredSettings};

/// How much of the hook's budget reading the settings may take.
const GATE_READ: Duration = Duration::from_millis(1_500);
/// How long reading, or reading and writing, may take for a caller that changes settings.
pub(super) const CALLER_BUDGET: Duration = Duration::from_secs(10);

/// How long a change may wait for the earlier ones of its session; callers give up after 30 s.
const QUEUE_BUDGET: Duration = Duration::from_secs(25);
/// A write without an answer may still arrive; how long it is waited for before the next change of the session.
const LATE_WRITE: Duration = Duration::from_secs(2);

/// So many rules of a session are compiled on the spot.
const FEW_RULES: usize = 8;

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
    /// A rule cannot be added to the session's.
    #[error(transparent)]
    NotAdded(#[from] NotAdded),
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
    pub(super) state: State,
    pub(super) config: LiveConfig,
    changes: KeyedLock,
    pub(super) view: Arc<SettingsView>,
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
        match self.judged_by(session_id, policy, deadline).await {
            Ok((settings, _)) => settings,
            Err(error) => {
                tracing::warn!(session_id, %error, "settings could not be read; the session counts as manual");
                Arc::new(Settings::fail_closed())
            }
        }
    }

    /// What the gate judges by, and where its mode comes from. Never writes.
    pub async fn judged_by(
        &self,
        session_id: &str,
        policy: &Policy,
        deadline: Deadline,
    ) -> Result<(Arc<Settings>, Source), CallError> {
        let standing = match self.standing(session_id) {
            Some(standing) => standing,
            None => self.read_for_gate(session_id, deadline.at_most(GATE_READ)).await?,
        };
        let source = match &standing {
            Standing::Settings(_) => Source::Stored,
            Standing::NoRecord | Standing::Additions(_) => Source::Defaults,
        };
        Ok((in_force(standing, policy), source))
    }

    /// What is in force for the gate, if that is known without asking the store.
    pub fn known(&self, session_id: &str, policy: &Policy) -> Option<Arc<Settings>> {
        Some(in_force(self.standing(session_id)?, policy))
    }

    fn standing(&self, session_id: &str) -> Option<Standing> {
        let Look::Known { standing, ageing } = self.view.look(session_id, self.state.connection()) else {
            return None;
        };
        if ageing {
            let (keep, session_id) = (self.clone(), session_id.to_owned());
            self.background.spawn(async move {
                let _ = keep.read_for_gate(&session_id, Deadline::after(CALLER_BUDGET)).await;
            });
        }
        Some(standing)
    }

    async fn read_for_gate(&self, session_id: &str, deadline: Deadline) -> Result<Standing, CallError> {
        let (token, connection) = (self.view.token(), self.state.connection());
        let value = self.state.get(Scope::Settings, session_id, deadline).await?;
        let (is_null, narrowest) = (value.is_null(), fail_closed(&value));
        let standing = match understood(value).await {
            StoredSettings::Record(settings) => Standing::settings(settings),
            StoredSettings::Additions(additions) => Standing::additions(additions),
            StoredSettings::Absent if is_null => Standing::NoRecord,
            // Something that never was a record is no record to whoever changes settings (contract §5), but nobody
            // can say what stood there before: the gate takes the narrowest, as for a record it cannot read.
            StoredSettings::Absent | StoredSettings::Unreadable(_) => {
                tracing::warn!(session_id, "stored settings cannot be read; the session counts as manual");
                Standing::settings(narrowest)
            }
        };
        self.view.learn(token, connection, session_id, &standing);
        Ok(standing)
    }

    /// What is in force, and where it comes from. Never writes.
    pub async fn effective(&self, session_id: &str) -> Result<(Settings, Source), SettingsError> {
        let value = self.state.get(Scope::Settings, session_id, Deadline::after(CALLER_BUDGET)).await?;
        Ok(lenient(session_id, value, &self.config.policy()).await)
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
        let (before, _) = self.before_change(session_id, now, deadline).await?;
        let after = change(before, now);
        let (changing, connection) = (self.view.changing(session_id), self.state.connection());
        self.write(session_id, &json!(ApprovalSettings::from(after.clone())), deadline).await?;
        changing.written(connection, Standing::settings(after.clone()));
        Ok(after)
    }

    /// What a change starts from: the record, read strictly, or the defaults with entries of this time.
    pub(super) async fn before_change(
        &self,
        session_id: &str,
        granted_at: i64,
        deadline: Deadline,
    ) -> Result<(Settings, Source), SettingsError> {
        let row = self.state.get(Scope::Settings, session_id, deadline).await?;
        let defaults = || self.config.policy().default_settings(granted_at);
        over_defaults(understood(row).await, defaults).map_err(SettingsError::Unreadable)
    }

    /// Removes the record, readable or not.
    pub async fn clear(&self, session_id: &str) -> Result<Cleared, SettingsError> {
        let turn = self.turn(session_id).await?;
        let deadline = Deadline::after(CALLER_BUDGET);
        let row = self.state.get(Scope::Settings, session_id, deadline).await?;
        let (changing, connection) = (self.view.changing(session_id), self.state.connection());
        self.state.delete(Scope::Settings, session_id, deadline).await?;
        changing.written(connection, Standing::NoRecord);
        let prompts = StoredSettings::prompts_said(&row);
        Ok(Cleared { existed: !row.is_null(), prompts, _turn: turn })
    }

    /// Waits for this session's earlier changes; each has a budget of its own, and many may be ahead.
    pub(super) async fn turn(&self, session_id: &str) -> Result<KeyGuard, CallError> {
        let waiting = tokio::time::timeout(QUEUE_BUDGET, self.changes.lock(session_id));
        waiting.await.map_err(|_| CallError::Deadline {
            function_id: "state::set".to_owned(),
            waited_ms: u64::try_from(QUEUE_BUDGET.as_millis()).unwrap_or(u64::MAX),
        })
    }

    /// Writes the record; a lost answer is settled by reading what stands there. A write that is not there yet may
    /// still arrive, so the session's turn is kept for a while: it must not land on a later change.
    pub(super) async fn write(
        &self,
        session_id: &str,
        value: &Value,
        deadline: Deadline,
    ) -> Result<(), CallError> {
        let budget = deadline.at_most(CALLER_BUDGET / 2);
        match self.state.swap(Scope::Settings, session_id, value.clone(), budget).await {
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
        Standing::Additions(additions) => additions.over(policy.defaults()),
        Standing::NoRecord => Arc::clone(policy.defaults()),
    }
}

async fn lenient(session_id: &str, value: Value, policy: &Policy) -> (Settings, Source) {
    let narrowest = fail_closed(&value);
    over_defaults(understood(value).await, || policy.default_settings(0)).unwrap_or_else(|why| {
        tracing::warn!(session_id, %why, "stored settings cannot be read; the session counts as manual");
        (narrowest, Source::Stored)
    })
}

/// What a row says, with the defaults for what it leaves to them; an error says why it cannot be read.
fn over_defaults(
    stored: StoredSettings,
    defaults: impl FnOnce() -> Settings,
) -> Result<(Settings, Source), String> {
    match stored {
        StoredSettings::Record(settings) => Ok((settings, Source::Stored)),
        StoredSettings::Additions(additions) => Ok((Settings { additions, ..defaults() }, Source::Defaults)),
        StoredSettings::Absent => Ok((defaults(), Source::Defaults)),
        StoredSettings::Unreadable(why) => Err(why),
    }
}

/// What a row says. Many rules take a while to be compiled, in which a thread that serves calls would serve none.
async fn understood(value: Value) -> StoredSettings {
    let rules = value.get("approved_rules").and_then(Value::as_array).map_or(0, Vec::len);
    if rules <= FEW_RULES {
        return StoredSettings::read(&value);
    }
    let elsewhere = tokio::task::spawn_blocking(move || StoredSettings::read(&value));
    elsewhere
        .await
        .unwrap_or_else(|_| StoredSettings::Unreadable("approved_rules: could not be compiled".to_owned()))
}
