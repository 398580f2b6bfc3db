//! The session manager: title, description and metadata of a session, for the card that a person sees.
//!
//! Best effort (contract §2): absent, late or odd answers leave the fields out.

use std::time::Duration;

use serde_json::json;

use super::SharedEngine;
use crate::clock::Deadline;
use crate::wire::session::{SESSION_GET, SessionContext, SessionGetRequest};

/// How much of the hook's budget the session's context may take.
const CONTEXT_BUDGET: Duration = Duration::from_millis(1_500);

/// The client.
#[derive(Clone)]
pub struct SessionManager {
    engine: SharedEngine,
}

impl SessionManager {
    /// Over this engine.
    pub fn new(engine: SharedEngine) -> Self {
        Self { engine }
    }

    /// What is known about the session; empty when nothing is.
    pub async fn context(&self, session_id: &str, deadline: Deadline) -> SessionContext {
        let data = json!(SessionGetRequest { session_id });
        let answer = self.engine.call(SESSION_GET, &data, deadline.at_most(CONTEXT_BUDGET)).await;
        match answer.and_then(|answer| answer.value()) {
            Ok(value) => {
                let mut context = SessionContext::read(&value);
                if let Some(bytes) = context.leave_out_large_metadata() {
                    tracing::warn!(session_id, bytes, "session metadata is too large for a record");
                }
                context
            }
            Err(error) => {
                tracing::debug!(session_id, %error, "session context is left out");
                SessionContext::default()
            }
        }
    }
}
