//! `approval::resolve`: a person's decision (contract §3). Harness first, then the record, then the event.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::Context;
use crate::clock::Deadline;
use crate::hold::{Decider, Ending, HoldKey, Outcome};
use crate::iii::CallError;
use crate::keep::inbox::{DecideError, Deciding};
use crate::wire::denial::{self, DenialEnvelope};
use crate::wire::error::{InvalidPayload, Refusal};
use crate::wire::harness::Released;
use crate::wire::resolve::{AccessDuration, Decision, ResolveRequest, ResolveResponse};

/// How long finding the hold may take.
const FIND_BUDGET: Duration = Duration::from_secs(10);
/// Callers' own clients give up after 30 s; before that they are told that the decision is on its way.
const PATIENCE: Duration = Duration::from_secs(25);
/// How long remembering a refused root may take before the denial is delivered without it.
const REMEMBER_BUDGET: Duration = Duration::from_secs(3);

/// Applies one decision, made by this caller.
pub(super) async fn resolve(
    context: Arc<Context>,
    caller: Option<String>,
    request: ResolveRequest,
) -> Result<ResolveResponse, Refusal> {
    let key = HoldKey::new(&request.session_id, &request.function_call_id, "function_call_id")
        .map_err(InvalidPayload::from)?;
    let by = Decider::human(caller);
    let ending = match request.decision {
        Decision::Allow => Ending::of(Outcome::Allow, by),
        Decision::Deny => Ending { reason: request.reason.clone(), ..Ending::of(Outcome::Deny, by) },
    };
    let patience = Deadline::after(PATIENCE);
    let shown = request.digest.as_deref();
    let found = context.inbox.decide(key, ending, shown, patience.at_most(FIND_BUDGET)).await;
    let Some(deciding) = found.map_err(refusal)? else {
        return Ok(ResolveResponse::NOTHING_WAITED);
    };
    let (answer, answered) = oneshot::channel();
    let background = context.background.clone();
    background.spawn(async move {
        let _ = answer.send(carry_out(&context, deciding, request).await);
    });
    match tokio::time::timeout_at(patience.instant(), answered).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(Refusal::HarnessUnavailable("the decision could not be carried out".to_owned())),
        Err(_) => Ok(ResolveResponse { resolved: true, turn_resumed: None }),
    }
}

fn refusal(error: DecideError) -> Refusal {
    match error {
        DecideError::Store(error) => Refusal::StateUnavailable(error.to_string()),
        DecideError::DigestMismatch => Refusal::DigestMismatch,
    }
}

async fn carry_out(
    context: &Context,
    deciding: Deciding,
    request: ResolveRequest,
) -> Result<ResolveResponse, Refusal> {
    let answer = match request.decision {
        Decision::Allow => release(context, &deciding, request.duration()).await,
        Decision::Deny => deny(context, &deciding, &request).await,
    };
    match answer {
        Ok(Released { resolved: true, turn_resumed }) => {
            let ending = deciding.claim.ending().clone();
            context.inbox.decided(deciding, ending).await;
            Ok(ResolveResponse { resolved: true, turn_resumed })
        }
        // Nothing was waiting there: the record goes, and its end is that of a decision whose answer never came.
        Ok(Released { resolved: false, .. }) => {
            let ending = deciding.claim.earlier_unanswered().unwrap_or(Ending::ABORTED);
            context.inbox.decided(deciding, ending).await;
            Ok(ResolveResponse::NOTHING_WAITED)
        }
        Err(error) => {
            tracing::error!(row = deciding.key.row(), %error, "the harness did not take a decision; the record stays");
            let may_have_happened = !error.never_sent() && !error.is_function_not_found();
            context.inbox.not_decided(deciding, may_have_happened);
            Err(Refusal::HarnessUnavailable(reason_for_people(&error)))
        }
    }
}

/// Allow: a plain release, or one with access to the root that was asked for.
async fn release(
    context: &Context,
    deciding: &Deciding,
    duration: Option<AccessDuration>,
) -> Result<Released, CallError> {
    let (key, record) = (&deciding.key, &deciding.live.record);
    let Some(root) = record.requested_root() else {
        if duration.is_some() {
            tracing::info!(
                row = key.row(),
                "access_duration is ignored: the record asks for no filesystem access"
            );
        }
        return context.harness.execute(key, &record.turn_id, None).await;
    };
    match duration.unwrap_or(AccessDuration::Once) {
        AccessDuration::Once => context.harness.execute(key, &record.turn_id, Some(root)).await,
        AccessDuration::Session => release_for_session(context, deciding, root, false).await,
        AccessDuration::Always => release_for_session(context, deciding, root, true).await,
    }
}

/// The grant comes first, or the call would run into the same wall; if it fails, the click still counts once, and
/// nothing is made durable.
async fn release_for_session(
    context: &Context,
    deciding: &Deciding,
    root: &str,
    for_good: bool,
) -> Result<Released, CallError> {
    let (key, turn_id) = (&deciding.key, &deciding.live.record.turn_id);
    let granted = {
        let _turn = context.granting.lock(key.session_id()).await;
        context.harness.grant(key.session_id(), root).await
    };
    match granted {
        Ok(()) if for_good => {
            let (released, ()) =
                tokio::join!(context.harness.execute(key, turn_id, None), persist(context, root));
            released
        }
        Ok(()) => context.harness.execute(key, turn_id, None).await,
        Err(error) => {
            tracing::warn!(row = key.row(), %error, "the grant failed; access is given for this call only");
            context.harness.execute(key, turn_id, Some(root)).await
        }
    }
}

/// Best effort: a failure is logged and never in the way of the release.
async fn persist(context: &Context, root: &str) {
    if let Err(error) = context.shell.append_host_root(root).await {
        tracing::warn!(%error, "the root could not be added to the shell worker's configuration");
    }
}

/// Deny: the root is remembered before the denial is delivered, so that the model's next try is not asked about.
async fn deny(
    context: &Context,
    deciding: &Deciding,
    request: &ResolveRequest,
) -> Result<Released, CallError> {
    let (key, record) = (&deciding.key, &deciding.live.record);
    if request.duration().is_some() {
        tracing::info!(row = key.row(), "access_duration is ignored on a denial");
    }
    if let Some(root) = record.requested_root() {
        let remembered =
            context.filesystem.deny(key.session_id(), root, Deadline::after(REMEMBER_BUDGET)).await;
        if let Err(error) = remembered {
            tracing::warn!(row = key.row(), %error, "the refused root could not be remembered");
        }
    }
    let reason = request.own_reason().map_or_else(|| default_reason(record.requested_root()), str::to_owned);
    let denial = DenialEnvelope::by_user(&record.function_id, reason, record.arguments_excerpt.clone());
    context.harness.deliver(key, &record.turn_id, denial).await
}

fn default_reason(root: Option<&str>) -> String {
    root.map_or_else(|| denial::OPERATOR_REJECTED.to_owned(), denial::filesystem_access_denied)
}

/// What a person can act on; the harness's own text is for the log.
fn reason_for_people(error: &CallError) -> String {
    if error.is_function_not_found() {
        return "no harness is connected; the call is still held".to_owned();
    }
    match error {
        CallError::Refused { code, .. } => format!("the harness answered `{code}`; the call is still held"),
        CallError::Deadline { waited_ms, .. } => {
            format!("the harness did not answer within {waited_ms} ms; the decision can be made again")
        }
        _ => format!("{error}; the decision can be made again"),
    }
}
