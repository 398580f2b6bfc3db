//! `approval::gate`: the pre-trigger hook. Reads as contract §1 and §2: first step that applies, and every failure is
//! a denial that a model can act on.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;

use super::judged::Judged;
use super::{Context, answering, unattended};
use crate::audit;
use crate::clock::Deadline;
use crate::hold::{Arrival, HoldKey, MAX_ID_BYTES, check_id};
use crate::keep::in_progress::Ticket;
use crate::keep::inbox::HoldError;
use crate::policy::{self, Because, Decision, Needed, Question};
use crate::wire::denial;
use crate::wire::error::{InvalidPayload, decode};
use crate::wire::hook::{HookCall, HookGlance, HookInput, HookOutput};
use crate::wire::record::PendingApprovalRecord;

/// The harness gives up after 5,000 ms, and the answer is promised within 4,500 ms whatever the peers do; what is
/// between is for scheduling and for the way through the engine.
pub(super) const BUDGET: Duration = Duration::from_millis(4_200);
/// What is kept of the budget for writing the record when the session's context is late.
pub(super) const WRITE_RESERVE: Duration = Duration::from_millis(1_500);

/// Whether the answer to one call is `continue`, as far as memory knows: everything that may end in anything else is for
/// [`gate`], which this agrees with whenever it says yes.
pub(super) fn continues(context: &Context, payload: &RawValue) -> bool {
    let Some(glance) = HookGlance::at(payload) else { return false };
    let ids_fit = check_id("session_id", &glance.session_id).is_ok()
        && check_id("call.id", &glance.call_id).is_ok()
        && glance.turn_id.len() <= MAX_ID_BYTES;
    if !ids_fit {
        return false;
    }
    let policy = context.config.policy();
    let Some(settings) = context.settings.known(&glance.session_id, &policy) else { return false };
    let needed = if settings.looks_at_arguments(&glance.function_id) {
        Needed::Whole
    } else {
        policy::needed(&glance.function_id, glance.arguments_text(), &policy)
    };
    let arguments = match needed {
        Needed::Nothing => Some(Value::Null),
        Needed::Members => glance.members(&|name| policy.looks_at(name)),
        Needed::Whole => glance.arguments(),
    };
    let Some(arguments) = arguments else { return false };
    let question = Question { function_id: &glance.function_id, arguments: &arguments };
    let verdict = policy::decide(&question, &settings, &policy);
    let continues = verdict.decision == Decision::Continue;
    if continues {
        audit::judged(&glance.session_id, &glance.call_id, &glance.function_id, &verdict);
    }
    continues
}

/// Answers one call.
pub(super) async fn gate(context: Arc<Context>, payload: Box<RawValue>) -> HookOutput {
    let deadline = Deadline::after(BUDGET);
    let input: HookInput = match decode(&payload) {
        Ok(input) => input,
        Err(invalid) => return does_not_fit(&invalid),
    };
    drop(payload);
    let Some(call) = &input.call else {
        audit::unreadable("call");
        return HookOutput::deny(denial::NO_CALL);
    };
    let question = Question { function_id: &call.function_id, arguments: &call.arguments };
    if let Some(verdict) = policy::screen(&question) {
        audit::judged(&input.session_id, &call.id, &call.function_id, &verdict);
        return HookOutput::deny(verdict.denial_text());
    }
    let key = match HoldKey::new(&input.session_id, &call.id, "call.id") {
        Ok(key) if input.turn_id.len() <= MAX_ID_BYTES => key,
        Ok(_) => return does_not_fit(&InvalidPayload::new("turn_id", "is longer than 512 bytes")),
        Err(bad) => return does_not_fit(&bad.into()),
    };
    let ticket = context.inbox.arrived(&input.session_id, &input.turn_id);
    let judged = Judged::now(&context, &input.session_id, call, deadline).await;
    let verdict = &judged.verdict;
    let noted = || audit::judged(&input.session_id, &call.id, &call.function_id, verdict);
    match verdict.decision {
        Decision::Continue => {
            noted();
            HookOutput::Continue
        }
        Decision::Deny if verdict.because == Because::PromptsDisabled => {
            unattended::deny(&context, &input, call, key, ticket, deadline, verdict).await
        }
        Decision::Deny => {
            noted();
            HookOutput::deny(judged.denial_text(call))
        }
        Decision::Hold => match hold(&context, &input, (call, &judged), key, ticket, deadline).await {
            Ok(answer) => answer,
            Err(error) => {
                let because = "gate_unavailable";
                audit::not_held(&input.session_id, &call.id, &call.function_id, Decision::Deny, because);
                tracing::error!(session_id = input.session_id, error = %Chain(&error), "a call could not be held");
                HookOutput::deny(denial::gate_unavailable(&error.to_string()))
            }
        },
    }
}

fn does_not_fit(invalid: &InvalidPayload) -> HookOutput {
    audit::unreadable(&invalid.field);
    HookOutput::deny(denial::payload_does_not_fit(invalid))
}

async fn hold(
    context: &Context,
    input: &HookInput,
    (call, judged): (&HookCall, &Judged),
    key: HoldKey,
    ticket: Ticket,
    deadline: Deadline,
) -> Result<HookOutput, HoldError> {
    let record = PendingApprovalRecord::for_function(&input.session_id, &input.turn_id, input.depth, call);
    if context.inbox.was_released(&record) {
        return Ok(released(&record));
    }
    let consulted = answering::consult(context, call, &record, &ticket, deadline).await?;
    if let Some(answer) = consulted.output {
        return Ok(answer);
    }
    let slot = context.inbox.open(key, ticket, deadline).await?;
    // Once more, because a decision may have been taken while we waited for the key.
    if context.inbox.was_released(&record) {
        return Ok(released(&record));
    }
    let arrival = slot.arrival(&record);
    if arrival == Arrival::Redelivery {
        return Ok(HookOutput::Hold);
    }
    let session = match consulted.session {
        Some(known) => known,
        None => context.sessions.context(&input.session_id, deadline.keeping(WRITE_RESERVE)).await,
    };
    let record = record.in_session(session);
    if let Some(denied) = answering::unseen(context, call, &record) {
        audit::not_held(&input.session_id, &call.id, &call.function_id, Decision::Deny, "no_listener");
        return Ok(denied);
    }
    let record = PendingApprovalRecord { held_because: Some(judged.held_because(call)), ..record };
    slot.hold(record, arrival, deadline).await?;
    Ok(HookOutput::Hold)
}

/// The answer to a call that a person has released already.
pub(super) fn released(record: &PendingApprovalRecord) -> HookOutput {
    let PendingApprovalRecord { session_id, function_call_id, function_id, .. } = record;
    audit::not_held(session_id, function_call_id, function_id, Decision::Continue, "released");
    HookOutput::Continue
}

/// An error with its causes, for the log.
struct Chain<'a>(&'a HoldError);

impl std::fmt::Display for Chain<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}", self.0)?;
        let mut source = std::error::Error::source(self.0);
        while let Some(cause) = source {
            write!(formatter, ": {cause}")?;
            source = cause.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
