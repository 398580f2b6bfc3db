//! The settings functions: `set-mode`, `add-always-allow`, `remove-always-allow`, `approve-always`, `get-settings`,
//! `clear-settings` (contract §5). Each is one line of policy over `keep::settings`.

use std::sync::Arc;

use super::{Context, prompts};
use crate::hold::check_id;
use crate::keep::settings::{SettingsError, Source};
use crate::policy::settings::{Settings, grantable};
use crate::wire::error::{InvalidPayload, Refusal};
use crate::wire::settings::{
    AlwaysAllowMutationRequest, ApproveAlwaysRequest, ClearSettingsRequest, ClearSettingsResponse,
    GetSettingsRequest, GetSettingsResponse, SetModeRequest, SettingsResponse, SettingsSource,
};

/// Sets the mode and stamps when.
pub(super) async fn set_mode(
    context: Arc<Context>,
    request: SetModeRequest,
) -> Result<SettingsResponse, Refusal> {
    let mode = request.mode.into();
    change(&context, &request.session_id, |settings, now| settings.with_mode(mode, now)).await
}

/// Adds to the list that counts in auto mode.
pub(super) async fn add_always_allow(
    context: Arc<Context>,
    request: AlwaysAllowMutationRequest,
) -> Result<SettingsResponse, Refusal> {
    check_grantable(&request.function_id)?;
    let id = request.function_id;
    change(&context, &request.session_id, |settings, now| settings.with_always_allow(&id, now)).await
}

/// Removes from the list that counts in auto mode.
pub(super) async fn remove_always_allow(
    context: Arc<Context>,
    request: AlwaysAllowMutationRequest,
) -> Result<SettingsResponse, Refusal> {
    check_grantable(&request.function_id)?;
    let id = request.function_id;
    change(&context, &request.session_id, |settings, _| settings.without_always_allow(&id)).await
}

/// Remembers an approval for every mode.
pub(super) async fn approve_always(
    context: Arc<Context>,
    request: ApproveAlwaysRequest,
) -> Result<SettingsResponse, Refusal> {
    check_grantable(&request.function_id)?;
    let id = request.function_id;
    change(&context, &request.session_id, |settings, now| settings.with_approved_always(&id, now)).await
}

/// What is in force, and where it comes from; never writes.
pub(super) async fn get_settings(
    context: Arc<Context>,
    request: GetSettingsRequest,
) -> Result<GetSettingsResponse, Refusal> {
    check_session(&request.session_id)?;
    let (settings, source) =
        context.settings.effective(&request.session_id).await.map_err(|error| unavailable(&error))?;
    let source = match source {
        Source::Stored => SettingsSource::Stored,
        Source::Defaults => SettingsSource::Defaults,
    };
    Ok(GetSettingsResponse { settings: settings.into(), source })
}

/// Removes the session's record, with its prompt policy and its approved rules.
pub(super) async fn clear_settings(
    context: Arc<Context>,
    request: ClearSettingsRequest,
) -> Result<ClearSettingsResponse, Refusal> {
    check_session(&request.session_id)?;
    let cleared = context.settings.clear(&request.session_id).await.map_err(|error| unavailable(&error))?;
    prompts::tell(&context, &request.session_id, cleared.prompts, None);
    Ok(ClearSettingsResponse { cleared: cleared.existed })
}

async fn change(
    context: &Context,
    session_id: &str,
    change: impl FnOnce(Settings, i64) -> Settings,
) -> Result<SettingsResponse, Refusal> {
    check_session(session_id)?;
    let settings = context.settings.change(session_id, change).await.map_err(|error| unavailable(&error))?;
    Ok(SettingsResponse { settings: settings.into() })
}

pub(super) fn check_session(session_id: &str) -> Result<(), InvalidPayload> {
    check_id("session_id", session_id).map_err(InvalidPayload::from)
}

fn check_grantable(function_id: &str) -> Result<(), InvalidPayload> {
    grantable(function_id).map_err(|problem| InvalidPayload::new("function_id", problem.to_string()))
}

/// The store's failure, or the record's, as callers are told it.
pub(super) fn unavailable(error: &SettingsError) -> Refusal {
    Refusal::StateUnavailable(error.to_string())
}
