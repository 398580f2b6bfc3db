//! The `state` worker: rows of the gate's own scopes, with the atomic swap that decides who removed a hold.
//!
//! `state::set` returns what it replaced, and that is the only conditional there is (contract §2). Reads are asked
//! again within their deadline, because asking twice is harmless; writes are not, because a write whose answer was
//! lost may still take effect.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::SharedEngine;
use crate::clock::Deadline;
use crate::iii::CallError;
use crate::wire::state::Written;

/// How long one try of a read may take before it is asked again.
const READ_TRY: Duration = Duration::from_millis(1_500);

/// How many scopes may be listed at once.
const LISTS_AT_ONCE: usize = 2;

/// The scopes that belong to the gate. All of them start with `approval_`, which no agent may write (contract §1.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Held calls, by `<session_id>/<function_call_id>`.
    Pending,
    /// Settings, by session.
    Settings,
    /// Roots the user refused, by session.
    Denied,
    /// The same, under the name an older worker used: read and removed, never written.
    DeniedOlder,
    /// How often the watch has asked, by `<session_id>/<function_call_id>`.
    Attempts,
}

impl Scope {
    /// The name in the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "approval_pending",
            Self::Settings => "approval_settings",
            Self::Denied => "approval_filesystem_access_denied",
            Self::DeniedOlder => "approval_grant_denied",
            Self::Attempts => "approval_filesystem_access_attempts",
        }
    }
}

/// The client.
#[derive(Clone)]
pub struct State {
    engine: SharedEngine,
    lists: Arc<Semaphore>,
}

impl State {
    /// Over this engine.
    pub fn new(engine: SharedEngine) -> Self {
        Self { engine, lists: Arc::new(Semaphore::new(LISTS_AT_ONCE)) }
    }

    /// Which connection calls go over at this moment.
    pub fn connection(&self) -> u64 {
        self.engine.connection()
    }

    /// The time that rows carry, in milliseconds since the Unix epoch.
    pub fn now_ms(&self) -> i64 {
        self.engine.now_ms()
    }

    /// The row, or `Null` when there is none: a stored null is no row (contract §2).
    pub async fn get(&self, scope: Scope, key: &str, deadline: Deadline) -> Result<Value, CallError> {
        let data = json!({"scope": scope.as_str(), "key": key});
        self.read("state::get", &data, deadline).await
    }

    /// All values of a scope, nulls included.
    pub async fn list(&self, scope: Scope, deadline: Deadline) -> Result<Vec<Value>, CallError> {
        let data = json!({"scope": scope.as_str()});
        // A scope may be megabytes: asked once, and few at a time, or the answers nobody waits for pile up in the engine.
        let turn = tokio::time::timeout_at(deadline.instant(), self.lists.acquire()).await;
        let Ok(Ok(_turn)) = turn else {
            let waited_ms = 0;
            return Err(CallError::Deadline { function_id: "state::list".to_owned(), waited_ms });
        };
        match self.engine.call("state::list", &data, deadline).await?.value()? {
            Value::Array(rows) => Ok(rows),
            _ => Ok(Vec::new()),
        }
    }

    /// Replaces the row and returns what it replaced, atomically.
    pub async fn swap(
        &self,
        scope: Scope,
        key: &str,
        value: Value,
        deadline: Deadline,
    ) -> Result<Value, CallError> {
        let mut data = json!({"scope": scope.as_str(), "key": key});
        data["value"] = value;
        let answer = self.engine.call("state::set", &data, deadline).await?;
        match answer.raw().and_then(Written::read) {
            Some(written) => Ok(written.old_value),
            // JSON of another shape says nothing of an old value; anything else is no answer.
            None => answer.value().map(|_| Value::Null),
        }
    }

    /// Removes the row; a missing one is not an error.
    pub async fn delete(&self, scope: Scope, key: &str, deadline: Deadline) -> Result<(), CallError> {
        let data = json!({"scope": scope.as_str(), "key": key});
        self.engine.call("state::delete", &data, deadline).await.map(drop)
    }

    async fn read(&self, function_id: &str, data: &Value, deadline: Deadline) -> Result<Value, CallError> {
        loop {
            let this_try = deadline.at_most(READ_TRY);
            match self.engine.call(function_id, data, this_try).await {
                Ok(answer) => return answer.value(),
                Err(CallError::Deadline { .. }) if this_try < deadline => {}
                Err(error) => return Err(error),
            }
        }
    }
}
