//! The harness: releasing or denying a held call, and the filesystem grants of a session.
//!
//! `execute` runs the approved function inside the call, so its deadline is long, and our own watch is called back
//! before it answers (contract §2): nothing here may hold a lock across it.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use super::SharedEngine;
use crate::clock::Deadline;
use crate::hold::HoldKey;
use crate::iii::CallError;
use crate::wire::denial::DenialEnvelope;
use crate::wire::harness::{
    Action, FILESYSTEM_GRANT, FILESYSTEM_GRANTS, FUNCTION_RESOLVE, FunctionResolveRequest, GrantRequest,
    GrantsRequest, OlderGrantRequest, Released, STATUS, StatusRequest, WORKSPACE_GRANT, WORKSPACE_GRANTS,
    Waiting, roots,
};

/// How long an approved function may run.
const EXECUTE_BUDGET: Duration = Duration::from_mins(30);
/// How long a denial may take to be delivered.
const DELIVER_BUDGET: Duration = Duration::from_secs(10);
/// How long a grant may take to be made.
const GRANT_BUDGET: Duration = Duration::from_secs(5);
/// For how many sessions it is remembered that their harness speaks the older vocabulary.
const OLDER_SESSIONS: usize = 1_024;

/// The client.
#[derive(Clone)]
pub struct Harness {
    engine: SharedEngine,
    older: Arc<Mutex<OlderSessions>>,
}

/// Sessions whose grants were answered by the older control plane (contract §0). The oldest is forgotten first.
#[derive(Default)]
struct OlderSessions {
    known: HashSet<String>,
    order: VecDeque<String>,
}

impl Harness {
    /// Over this engine.
    pub fn new(engine: SharedEngine) -> Self {
        Self { engine, older: Arc::default() }
    }

    /// Runs the held call. `one_shot` is a root that it may use this one time.
    pub async fn execute(
        &self,
        key: &HoldKey,
        turn_id: &str,
        one_shot: Option<&str>,
    ) -> Result<Released, CallError> {
        let action = one_shot.map_or_else(Action::execute, |root| {
            Action::execute_once_with(root, self.is_older(key.session_id()))
        });
        self.resolve(key, turn_id, action, Deadline::after(EXECUTE_BUDGET)).await
    }

    /// Answers the held call with a denial, so that the model learns why.
    pub async fn deliver(
        &self,
        key: &HoldKey,
        turn_id: &str,
        denial: DenialEnvelope,
    ) -> Result<Released, CallError> {
        self.resolve(key, turn_id, Action::deny(denial), Deadline::after(DELIVER_BUDGET)).await
    }

    /// The durable grants of a session. An error means that there is no control plane to grant with.
    pub async fn grants(&self, session_id: &str, deadline: Deadline) -> Result<Vec<String>, CallError> {
        let request = json!(GrantsRequest { session_id });
        let answer = match self.ask(FILESYSTEM_GRANTS, &request, deadline).await {
            Err(error) if error.is_function_not_found() => {
                let answer = self.ask(WORKSPACE_GRANTS, &request, deadline).await?;
                self.remember_older(session_id);
                answer
            }
            answer => answer?,
        };
        Ok(roots(&answer))
    }

    /// Makes a root durable for the rest of the session.
    pub async fn grant(&self, session_id: &str, root: &str) -> Result<(), CallError> {
        let deadline = Deadline::after(GRANT_BUDGET);
        match self.ask(FILESYSTEM_GRANT, &json!(GrantRequest { session_id, root }), deadline).await {
            Err(error) if error.is_function_not_found() => {
                let request = json!(OlderGrantRequest { session_id, root, dir: root });
                self.ask(WORKSPACE_GRANT, &request, deadline).await?;
                self.remember_older(session_id);
                Ok(())
            }
            answer => answer.map(drop),
        }
    }

    /// What the session's turn waits for; `None` when the harness does not tell.
    pub async fn waiting(&self, session_id: &str, deadline: Deadline) -> Result<Option<Waiting>, CallError> {
        let answer = self.ask(STATUS, &json!(StatusRequest { session_id }), deadline).await?;
        Ok(Waiting::read(&answer))
    }

    async fn resolve(
        &self,
        key: &HoldKey,
        turn_id: &str,
        action: Action,
        deadline: Deadline,
    ) -> Result<Released, CallError> {
        let request = FunctionResolveRequest {
            session_id: key.session_id().to_owned(),
            turn_id: turn_id.to_owned(),
            function_call_id: key.function_call_id().to_owned(),
            action,
        };
        Ok(Released::read(&self.ask(FUNCTION_RESOLVE, &json!(request), deadline).await?))
    }

    async fn ask(&self, function_id: &str, request: &Value, deadline: Deadline) -> Result<Value, CallError> {
        self.engine.call(function_id, request, deadline).await?.value()
    }

    fn is_older(&self, session_id: &str) -> bool {
        self.older.lock().unwrap_or_else(PoisonError::into_inner).known.contains(session_id)
    }

    fn remember_older(&self, session_id: &str) {
        let mut older = self.older.lock().unwrap_or_else(PoisonError::into_inner);
        if older.known.insert(session_id.to_owned()) {
            older.order.push_back(session_id.to_owned());
            if older.order.len() > OLDER_SESSIONS
                && let Some(oldest) = older.order.pop_front()
            {
                older.known.remove(&oldest);
            }
        }
    }
}
