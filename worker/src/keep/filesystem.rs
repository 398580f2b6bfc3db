//! What the filesystem watch remembers: roots the user refused in a session, and how often a call was asked about.

use serde_json::{Value, json};

use super::keyed_lock::KeyedLock;
use crate::clock::Deadline;
use crate::hold::HoldKey;
use crate::iii::CallError;
use crate::siblings::state::{Scope, State};
use crate::wire::filesystem::{Attempts, denied_roots};

/// How many refused roots of one session are kept; the oldest go first.
const MAX_DENIED: usize = 1_000;

/// The memory. Cheap to clone.
#[derive(Clone)]
pub struct FilesystemKeep {
    state: State,
    denying: KeyedLock,
}

impl FilesystemKeep {
    /// Over this store.
    pub fn new(state: State) -> Self {
        Self { state, denying: KeyedLock::default() }
    }

    /// The roots the user refused in this session, those of an older worker included.
    pub async fn denied(&self, session_id: &str, deadline: Deadline) -> Result<Vec<String>, CallError> {
        let (current, older) = tokio::join!(
            self.state.get(Scope::Denied, session_id, deadline),
            self.state.get(Scope::DeniedOlder, session_id, deadline),
        );
        let mut roots = denied_roots(&current?);
        roots.extend(denied_roots(&older?));
        Ok(roots)
    }

    /// Remembers a refused root. A row that cannot be read is replaced: it remembers nothing.
    pub async fn deny(&self, session_id: &str, root: &str, deadline: Deadline) -> Result<(), CallError> {
        let _turn = self.denying.lock(session_id).await;
        let mut denied = denied_roots(&self.state.get(Scope::Denied, session_id, deadline).await?);
        if denied.iter().any(|known| known == root) {
            return Ok(());
        }
        denied.push(root.to_owned());
        if denied.len() > MAX_DENIED {
            denied.remove(0);
        }
        self.state.swap(Scope::Denied, session_id, json!(denied), deadline).await.map(drop)
    }

    /// How often this call has been asked about in this turn. The caller holds the key's lock.
    pub async fn attempts(&self, key: &HoldKey, turn_id: &str, deadline: Deadline) -> Result<i64, CallError> {
        let row = self.state.get(Scope::Attempts, &key.row(), deadline).await?;
        let counted = Attempts::read(&row).filter(|attempts| attempts.turn_id == turn_id);
        Ok(counted.map_or(0, |attempts| attempts.count))
    }

    /// Stores the count. The caller holds the key's lock.
    pub async fn count(
        &self,
        key: &HoldKey,
        turn_id: &str,
        count: i64,
        deadline: Deadline,
    ) -> Result<(), CallError> {
        let row = Attempts {
            session_id: key.session_id().to_owned(),
            function_call_id: key.function_call_id().to_owned(),
            turn_id: turn_id.to_owned(),
            count,
        };
        self.state.swap(Scope::Attempts, &key.row(), json!(row), deadline).await.map(drop)
    }

    /// A turn has ended: its counts go, in every session if the notice names none.
    pub async fn turn_ended(
        &self,
        session_id: Option<&str>,
        turn_id: &str,
        deadline: Deadline,
    ) -> Result<(), CallError> {
        self.forget_attempts(deadline, |row| {
            text(row, "turn_id") == Some(turn_id)
                && session_id.is_none_or(|id| text(row, "session_id") == Some(id))
        })
        .await
    }

    /// A session has ended: its counts and its refused roots go.
    pub async fn session_ended(&self, session_id: &str, deadline: Deadline) -> Result<(), CallError> {
        let _turn = self.denying.lock(session_id).await;
        self.state.delete(Scope::Denied, session_id, deadline).await?;
        self.state.delete(Scope::DeniedOlder, session_id, deadline).await?;
        self.forget_attempts(deadline, |row| text(row, "session_id") == Some(session_id)).await
    }

    async fn forget_attempts(
        &self,
        deadline: Deadline,
        matches: impl Fn(&Value) -> bool,
    ) -> Result<(), CallError> {
        for row in self.state.list(Scope::Attempts, deadline).await?.iter().filter(|row| matches(row)) {
            if let (Some(session), Some(call)) = (text(row, "session_id"), text(row, "function_call_id")) {
                self.state.delete(Scope::Attempts, &format!("{session}/{call}"), deadline).await?;
            }
        }
        Ok(())
    }
}

fn text<'a>(row: &'a Value, field: &str) -> Option<&'a str> {
    row.get(field).and_then(Value::as_str)
}
