//! `approval::filesystem-access-watch`: the post-trigger hook (contract §4).
//!
//! Fail-open: every doubt is `continue`, so that the original error goes to the model. `approval::grant-watch` is the
//! same under its older name.

use std::fmt::Display;
use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;

use super::gate::{BUDGET, WRITE_RESERVE};
use super::{Context, unattended};
use crate::clock::Deadline;
use crate::fsaccess::{self, AccessRequest, Severity, StandDown};
use crate::hold::{Arrival, HoldKey, MAX_ID_BYTES};
use crate::keep::in_progress::Ticket;
use crate::redact;
use crate::wire::hook::{HookOutput, WatchInput};
use crate::wire::record::PendingApprovalRecord;

/// Looks at one finished call.
pub(super) async fn watch(context: Arc<Context>, payload: Box<RawValue>) -> HookOutput {
    let Some(input) = serde_json::from_str::<Value>(payload.get()).ok().as_ref().and_then(WatchInput::read)
    else {
        tracing::debug!("a post-trigger payload cannot be read");
        return HookOutput::Continue;
    };
    match consider(&context, &input).await {
        Ok(()) => HookOutput::Hold,
        Err(stand_down) => {
            report(&input, stand_down);
            HookOutput::Continue
        }
    }
}

/// The ladder: each rung either stands down or goes on; at the foot the call is held.
async fn consider(context: &Context, input: &WatchInput) -> Result<(), StandDown> {
    let deadline = Deadline::after(BUDGET);
    if !fsaccess::watches(&input.call.function_id) {
        return Err(StandDown::NotWatched);
    }
    let request = fsaccess::asked(&input.result)?;
    if fsaccess::carries_request(&input.call.arguments) {
        return Err(StandDown::ForgedRequest);
    }
    let key = HoldKey::new(&input.session_id, &input.call.id, "call.id")
        .ok()
        .filter(|_| input.turn_id.len() <= MAX_ID_BYTES)
        .ok_or(StandDown::Unkeyable)?;
    if let Some(stand_down) = fsaccess::stands_down(&request, workspace(input)) {
        return Err(stand_down);
    }
    let ticket = context.inbox.arrived(&input.session_id, &input.turn_id);
    if unattended::is(context, &input.session_id, deadline).await {
        unattended::let_pass(context, input, key, request, ticket, deadline).await;
        return Err(StandDown::PromptsDisabled);
    }
    let root = request.requested_root.as_str();
    let granted = context.harness.grants(key.session_id(), deadline).await.map_err(|error| {
        tracing::debug!(%error, "the grants of the session cannot be read");
        StandDown::GrantsUnknown
    })?;
    if fsaccess::covered_by(root, granted.iter().map(String::as_str)) {
        return Err(StandDown::AlreadyGranted);
    }
    let denied = context.filesystem.denied(key.session_id(), deadline).await.map_err(|error| {
        tracing::warn!(%error, "the refused roots of the session cannot be read");
        StandDown::Unavailable
    })?;
    if fsaccess::covered_by(root, denied.iter().map(String::as_str)) {
        return Err(StandDown::DeniedBefore);
    }
    ask(context, input, key, request, ticket, deadline).await
}

/// The last rung, and the hold. All of it under the key's lock, so that a count and its hold belong together.
async fn ask(
    context: &Context,
    input: &WatchInput,
    key: HoldKey,
    request: AccessRequest,
    ticket: Ticket,
    deadline: Deadline,
) -> Result<(), StandDown> {
    let unavailable = |error: &dyn Display| {
        tracing::warn!(session_id = input.session_id, %error, "a filesystem request could not be held");
        StandDown::Unavailable
    };
    let call = &input.call;
    let record = PendingApprovalRecord::for_function(&input.session_id, &input.turn_id, input.depth, call)
        .asking_for(request);
    let slot =
        context.inbox.open(key.clone(), ticket, deadline).await.map_err(|error| unavailable(&error))?;
    let arrival = slot.arrival(&record);
    if arrival == Arrival::Redelivery {
        return Ok(());
    }
    let asked = context
        .filesystem
        .attempts(&key, &input.turn_id, deadline)
        .await
        .map_err(|error| unavailable(&error))?;
    let policy = context.config.policy();
    if asked >= i64::from(policy.grant_reask_limit()) {
        return Err(StandDown::AskedOften);
    }
    let session = context.sessions.context(&input.session_id, deadline.keeping(WRITE_RESERVE)).await;
    let record = record.in_session(session);
    // Answerers are not asked about folders, so that only listeners count.
    if policy.require_listener() && context.events.nobody_hears(&record) {
        return Err(StandDown::NobodyListens);
    }
    let count = context.filesystem.count(&key, &input.turn_id, asked + 1, deadline).await;
    count.map_err(|error| unavailable(&error))?;
    slot.hold(record, arrival, deadline).await.map_err(|error| unavailable(&error))
}

/// The session's workspace, in either vocabulary (contract §0).
fn workspace(input: &WatchInput) -> Option<&str> {
    let metadata = input.metadata.as_ref()?;
    let scoped = metadata.get("fs_scope").and_then(|scope| scope.get("root"));
    scoped.or_else(|| metadata.get("working_dir")).and_then(Value::as_str)
}

fn report(input: &WatchInput, stand_down: StandDown) {
    let (session_id, function_id) = (&input.session_id, redact::visible_exact(&input.call.function_id));
    let what = "not asking for access";
    match stand_down.severity() {
        Severity::Error => tracing::error!(session_id, %function_id, reason = %stand_down, "{what}"),
        Severity::Warn => tracing::warn!(session_id, %function_id, reason = %stand_down, "{what}"),
        Severity::Quiet => tracing::debug!(session_id, %function_id, reason = %stand_down, "{what}"),
    }
}
