//! Changes of what a session's record says beyond the published settings: its prompt policy, its approved rules.
//!
//! They ride on the session's record, its lock, its view and its end. Not obvious: such a change never makes a record of
//! the published settings. A person who says "ask nobody" or "this kind of call is fine" has said nothing about the mode,
//! so the session goes on following the deployment's defaults, and nothing is seeded.

use serde_json::{Value, json};

use super::keyed_lock::KeyGuard;
use super::settings::{CALLER_BUDGET, SettingsError, SettingsKeep, Source};
use super::settings_view::Standing;
use crate::clock::Deadline;
use crate::policy::PromptPolicy;
use crate::policy::settings::{Additions, NotAdded, Settings};
use crate::siblings::state::Scope;
use crate::wire::settings::{ApprovalSettings, StoredSettings};

/// A change that was made. While it is kept, no other change of the session is: what is told of it comes in order.
pub struct Changed {
    /// What was said before.
    pub before: Additions,
    /// What is in force now.
    pub settings: Settings,
    /// Where the published settings come from.
    pub source: Source,
    _turn: KeyGuard,
}

/// A session's record that was removed. Kept as [`Changed`] is.
pub struct Cleared {
    /// Whether there was one.
    pub existed: bool,
    /// What it said about prompts.
    pub prompts: Option<PromptPolicy>,
    pub(super) _turn: KeyGuard,
}

impl SettingsKeep {
    /// Applies a change to the additions: reads strictly and writes once, if anything changes at all.
    pub async fn change_additions(
        &self,
        session_id: &str,
        change: impl FnOnce(Additions, i64) -> Result<Additions, NotAdded>,
    ) -> Result<Changed, SettingsError> {
        let turn = self.turn(session_id).await?;
        let deadline = Deadline::after(CALLER_BUDGET);
        let now = self.state.now_ms();
        let (mut settings, source) = self.before_change(session_id, 0, deadline).await?;
        let before = settings.additions.clone();
        settings.additions = change(before.clone(), now)?;
        if settings.additions != before {
            self.store_additions(session_id, &settings, source, deadline).await?;
        }
        Ok(Changed { before, settings, source, _turn: turn })
    }

    async fn store_additions(
        &self,
        session_id: &str,
        settings: &Settings,
        source: Source,
        deadline: Deadline,
    ) -> Result<(), SettingsError> {
        let (row, standing) = match source {
            Source::Stored => {
                let row = json!(ApprovalSettings::from(settings.clone()));
                (Some(row), Standing::settings(settings.clone()))
            }
            Source::Defaults => (
                StoredSettings::of_additions(&settings.additions),
                Standing::additions(settings.additions.clone()),
            ),
        };
        let (changing, connection) = (self.view.changing(session_id), self.state.connection());
        match row {
            Some(row) => self.write(session_id, &row, deadline).await?,
            None => self.state.delete(Scope::Settings, session_id, deadline).await?,
        }
        changing.written(connection, standing);
        Ok(())
    }

    /// What a session says about prompts itself. A record that cannot be read may still say that.
    pub async fn prompts(&self, session_id: &str) -> Result<Option<PromptPolicy>, SettingsError> {
        let row = self.state.get(Scope::Settings, session_id, Deadline::after(CALLER_BUDGET)).await?;
        Ok(StoredSettings::prompts_said(&row))
    }
}

/// What is in force when a record cannot be read: the narrowest, and what it says about prompts all the same.
pub(super) fn fail_closed(row: &Value) -> Settings {
    let additions = Additions::NONE.with_prompts(StoredSettings::prompts_said(row));
    Settings { additions, ..Settings::fail_closed() }
}
