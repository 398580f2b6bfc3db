//! Calls that would be put before a person in a session where nobody is asked (prompt policy `never`).
//!
//! The gate denies, the watch stands down, and nothing is written. Not obvious: a call may be held from a time when
//! somebody was asked. When it comes again it is denied like any other, the harness goes on without it, and so its hold
//! ends here: a card that waits for nobody must not stay.

use super::Context;
use super::gate::released;
use crate::audit;
use crate::clock::Deadline;
use crate::fsaccess::AccessRequest;
use crate::hold::{Arrival, Decider, Ending, HoldKey, Outcome};
use crate::keep::in_progress::Ticket;
use crate::policy::{PromptPolicy, Verdict};
use crate::wire::hook::{HookCall, HookInput, HookOutput, WatchInput};
use crate::wire::record::PendingApprovalRecord;

/// A hold that is denied by no person's words.
const DENIED: Ending = Ending::of(Outcome::Deny, Decider::POLICY);

/// Whether nobody is asked in this session.
pub(super) async fn is(context: &Context, session_id: &str, deadline: Deadline) -> bool {
    let policy = context.config.policy();
    let settings = context.settings.for_gate(session_id, &policy, deadline).await;
    PromptPolicy::in_force(&settings, &policy) == PromptPolicy::Never
}

/// Denies the call, unless a person has just released it.
pub(super) async fn deny(
    context: &Context,
    input: &HookInput,
    call: &HookCall,
    key: HoldKey,
    ticket: Ticket,
    deadline: Deadline,
    verdict: &Verdict,
) -> HookOutput {
    let denied = || {
        audit::judged(&input.session_id, &call.id, &call.function_id, verdict);
        HookOutput::deny(verdict.denial_text())
    };
    let record = PendingApprovalRecord::for_function(&input.session_id, &input.turn_id, input.depth, call);
    if context.inbox.was_released(&record) {
        return released(&record);
    }
    // Whatever happens to an older hold, the call is denied: a store that fails costs a card, not the answer.
    let Ok(slot) = context.inbox.open(key, ticket, deadline).await else { return denied() };
    // Once more, because a decision may have been taken while we waited for the key.
    if context.inbox.was_released(&record) {
        return released(&record);
    }
    match slot.arrival(&record) {
        Arrival::New => {}
        Arrival::Redelivery => slot.end(DENIED).await,
        Arrival::Replaces(ending) => slot.end(ending).await,
    }
    denied()
}

/// Lets the failure of a call pass. A hold of this very failure ends; one that is being decided is left to its decision.
pub(super) async fn let_pass(
    context: &Context,
    input: &WatchInput,
    key: HoldKey,
    request: AccessRequest,
    ticket: Ticket,
    deadline: Deadline,
) {
    let record =
        PendingApprovalRecord::for_function(&input.session_id, &input.turn_id, input.depth, &input.call)
            .asking_for(request);
    let Ok(slot) = context.inbox.open(key, ticket, deadline).await else { return };
    if slot.arrival(&record) == Arrival::Redelivery {
        slot.end(DENIED).await;
    }
}
