//! The shell worker's configuration entry: adding a root for good (contract §3, `always`).

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::Mutex;

use super::configuration::Configuration;
use crate::clock::Deadline;
use crate::iii::CallError;
use crate::wire::shell::{Appended, SHELL_ENTRY, append_host_root};

/// How long reading and writing the entry may take together.
const BUDGET: Duration = Duration::from_secs(5);

/// Why a root was not added.
#[derive(Debug, Error)]
pub enum AppendError {
    /// There is no shell entry.
    #[error("there is no configuration entry `shell`")]
    NoEntry,
    /// The list of roots is a placeholder that only the operator can change.
    #[error("`fs.host_roots` of the entry `shell` comes from a placeholder and cannot be appended to")]
    BehindPlaceholder,
    /// The configuration worker failed.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// The client. Appends one at a time: `configuration::set` replaces the whole value, so two at once would lose one.
#[derive(Clone)]
pub struct Shell {
    configuration: Configuration,
    one_at_a_time: Arc<Mutex<()>>,
}

impl Shell {
    /// Over the configuration worker.
    pub fn new(configuration: Configuration) -> Self {
        Self { configuration, one_at_a_time: Arc::default() }
    }

    /// Appends `root` to `fs.host_roots` unless it is there; every other field stays as it is stored, placeholders
    /// unexpanded.
    pub async fn append_host_root(&self, root: &str) -> Result<(), AppendError> {
        let deadline = Deadline::after(BUDGET);
        let _turn = self.one_at_a_time.lock().await;
        let Some(stored) = self.configuration.get_raw(SHELL_ENTRY, deadline).await? else {
            return Err(AppendError::NoEntry);
        };
        match append_host_root(&stored, root) {
            Appended::Changed(entry) => Ok(self.configuration.set(SHELL_ENTRY, &entry, deadline).await?),
            Appended::AlreadyThere => Ok(()),
            Appended::BehindPlaceholder => Err(AppendError::BehindPlaceholder),
        }
    }
}
