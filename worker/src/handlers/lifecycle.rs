//! The handlers of what others announce: a session deleted, a turn completed, the configuration changed (contract §8).

use std::sync::Arc;
use std::time::Duration;

use super::Context;
use crate::clock::Deadline;
use crate::iii::CallError;
use crate::keep::background::try_again;
use crate::siblings::state::Scope;
use crate::wire::error::Refusal;
use crate::wire::lifecycle::{
    EventAck, OnConfigChangeResponse, SessionDeletedEvent, StateChangedEvent, TurnCompletedEvent,
};

/// How long one try of a clean-up may take.
const CLEAN_UP_BUDGET: Duration = Duration::from_secs(10);
/// How often a clean-up that failed is tried again behind.
const CLEAN_UP_TRIES: u32 = 12;

/// Settings, refused roots and counts of the session go, and its records.
pub(super) async fn on_session_deleted(
    context: Arc<Context>,
    event: SessionDeletedEvent,
) -> Result<EventAck, Refusal> {
    let session_id = event.session_id;
    let purged = context.inbox.session_ended(&session_id).await;
    let forgotten = forget_session(&context, &session_id).await;
    if let Err(error) = &forgotten {
        tracing::warn!(session_id, error, "a deleted session could not be forgotten yet");
        let again = Arc::clone(&context);
        context.background.spawn(async move {
            let forget = || async { forget_session(&again, &session_id).await.is_ok() };
            if !try_again(CLEAN_UP_TRIES, forget).await {
                tracing::error!(session_id, "a deleted session could not be forgotten");
            }
        });
    }
    Ok(EventAck { ok: purged && forgotten.is_ok() })
}

async fn forget_session(context: &Context, session_id: &str) -> Result<(), String> {
    context.settings.clear(session_id).await.map_err(|error| error.to_string())?;
    let deadline = Deadline::after(CLEAN_UP_BUDGET);
    context.filesystem.session_ended(session_id, deadline).await.map_err(|error| error.to_string())
}

/// The records and counts of the turn go; whatever the notice says about the session's future, the turn is over.
pub(super) async fn on_turn_completed(
    context: Arc<Context>,
    event: TurnCompletedEvent,
) -> Result<EventAck, Refusal> {
    let (session_id, turn_id) = (event.session_id, event.turn_id);
    let purged = context.inbox.turn_ended(session_id.as_deref(), &turn_id).await;
    let forgotten = forget_turn(&context, session_id.as_deref(), &turn_id).await;
    if let Err(error) = &forgotten {
        tracing::warn!(turn_id, %error, "the counts of an ended turn could not be removed yet");
        let again = Arc::clone(&context);
        context.background.spawn(async move {
            let forget = || async { forget_turn(&again, session_id.as_deref(), &turn_id).await.is_ok() };
            try_again(CLEAN_UP_TRIES, forget).await;
        });
    }
    Ok(EventAck { ok: purged && forgotten.is_ok() })
}

async fn forget_turn(context: &Context, session_id: Option<&str>, turn_id: &str) -> Result<(), CallError> {
    context.filesystem.turn_ended(session_id, turn_id, Deadline::after(CLEAN_UP_BUDGET)).await
}

/// Fetches the entry again, whatever the notice claims.
pub(super) async fn on_config_change(context: Arc<Context>) -> OnConfigChangeResponse {
    context.config.refetch_or_later().await;
    OnConfigChangeResponse::OK
}

/// A row of ours was changed, by us or by somebody else. Answered at once: the engine serves its listeners one after
/// the other. What has to be looked at is looked at behind.
pub(super) async fn on_state_changed(
    context: Arc<Context>,
    event: StateChangedEvent,
) -> Result<EventAck, Refusal> {
    if event.scope == Scope::Settings.as_str() {
        context.settings.look_again(&event.key);
    } else if event.scope == Scope::Pending.as_str() {
        context.inbox.row_changed(&event.key, &event.new_value);
    }
    Ok(EventAck { ok: true })
}
