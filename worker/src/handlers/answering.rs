//! Answerers: workers that are asked about a call before a person is.
//!
//! They are asked one after the other until one decides, within the hook's budget and with no lock held that a person's
//! decision or the end of a turn waits for. Whatever is not a plain answer in time is `pass`. A `deny` is final. An
//! `allow` counts only where the configuration leaves the function to answerers, and only if the call, judged once more
//! by what is in force by then, would still be held.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::to_raw_value;
use tokio::time::Instant;

use super::Context;
use super::gate::WRITE_RESERVE;
use super::judged::Judged;
use crate::audit;
use crate::clock::Deadline;
use crate::events::Answerer;
use crate::hold::{Decider, Ending, Outcome};
use crate::iii::{CallError, Fire};
use crate::keep::in_progress::Ticket;
use crate::keep::inbox::HoldError;
use crate::keep::keyed_lock::KeyGuard;
use crate::policy::Decision;
use crate::redact;
use crate::wire::answerer::{AnswererAnswer, AnswererQuestion};
use crate::wire::denial;
use crate::wire::events::PendingCreatedEvent;
use crate::wire::hook::{HookCall, HookOutput};
use crate::wire::record::PendingApprovalRecord;
use crate::wire::session::SessionContext;

/// How many answerers are asked about one call.
const MAX_ASKED: usize = 8;
/// How much of an answerer's reason a denial repeats, in code points.
const REASON: usize = 512;
/// How much of an answerer's ids is shown, in code points.
const NAME: usize = 128;

/// What became of a call that was to be held, once answerers were asked.
#[derive(Default)]
pub(super) struct Consulted {
    /// The hook's answer; `None`: nobody decided, and the call is to be held.
    pub output: Option<HookOutput>,
    /// Who was asked, in order. Only the last one can have decided.
    pub asked: Vec<Asked>,
    /// What the session manager told meanwhile, if it was asked.
    pub session: Option<SessionContext>,
    /// Until it is dropped, another delivery of the call waits before it asks.
    turn: Option<KeyGuard>,
}

/// One answerer that was asked.
pub(super) struct Asked {
    /// The binding.
    pub answerer: Arc<Answerer>,
    /// What it said.
    pub said: Said,
    /// How long that took.
    pub took: Duration,
}

/// What an answerer said, as it counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Said {
    /// The call may run.
    Allow,
    /// It must not, with the answerer's reason, fit to be shown.
    Deny(Option<String>),
    /// Nothing that counts.
    Pass(Pass),
}

/// Why an answerer decided nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Pass {
    #[error("it passed")]
    Said,
    #[error("it allowed a function that is not answerable")]
    NotAnswerable,
    #[error("its answer is none")]
    NoAnswer,
    #[error("it answered an error, or could not be asked")]
    Failed,
    #[error("it did not answer in time")]
    Silent,
    #[error("too many questions are before it")]
    Busy,
    #[error("its binding ended while it was asked")]
    Unbound,
}

/// Puts a call that is about to be held to the answerers. An error if its turn or session ended meanwhile, or the connection
/// is lost.
pub(super) async fn consult(
    context: &Context,
    call: &HookCall,
    record: &PendingApprovalRecord,
    ticket: &Ticket,
    deadline: Deadline,
) -> Result<Consulted, HoldError> {
    let mut consulted = Consulted::default();
    let mut answerers = context.events.answerers().candidates(&record.session_id, &call.function_id);
    if answerers.is_empty() || context.config.policy().is_locked_down() {
        return Ok(consulted);
    }
    let until = deadline.keeping(WRITE_RESERVE);
    let turn = tokio::time::timeout_at(until.instant(), context.asking.lock(&record.row())).await;
    let Ok(turn) = turn else { return Ok(consulted) };
    consulted.turn = Some(turn);
    // A call that waits already is a person's, and so is one of which the store cannot say.
    if context.inbox.holds_call_of(record, until).await.unwrap_or(true) {
        return Ok(consulted);
    }
    let session = context.sessions.context(&record.session_id, until).await;
    let shown = PendingApprovalRecord { pending_at: context.engine.now_ms(), ..record.clone() };
    let shown = shown.in_session(session.clone());
    consulted.session = Some(session);
    answerers.retain(|answerer| answerer.is_about(shown.session_metadata.as_ref()));
    if answerers.is_empty() {
        return Ok(consulted);
    }
    let shown = PendingCreatedEvent::new(shown);
    consulted.asked = ask_in_turn(context, answerers, &shown, call, until).await?;
    consulted.output = settle(context, call, &shown.record, ticket, consulted.asked.last(), deadline).await?;
    Ok(consulted)
}

/// What the last answer comes to by what is in force now: a rule, a floor or a person may have spoken since.
async fn settle(
    context: &Context,
    call: &HookCall,
    record: &PendingApprovalRecord,
    ticket: &Ticket,
    last: Option<&Asked>,
    deadline: Deadline,
) -> Result<Option<HookOutput>, HoldError> {
    if let Some(Asked { answerer, said: Said::Deny(reason), .. }) = last {
        answered(context, record, answerer, Outcome::Deny, reason.clone());
        let reason = denial::denied_by_answerer(&name(&answerer.function_id), reason.as_deref());
        return Ok(Some(HookOutput::deny(reason)));
    }
    if ticket.ended() {
        return Err(HoldError::TurnEnded);
    }
    let judged = Judged::now(context, &record.session_id, call, deadline).await;
    let verdict = &judged.verdict;
    if verdict.decision != Decision::Hold {
        audit::judged(&record.session_id, &call.id, &call.function_id, verdict);
    }
    let allowed_by = last.filter(|asked| asked.said == Said::Allow).map(|asked| &asked.answerer);
    Ok(match (verdict.decision, allowed_by) {
        (Decision::Continue, _) => Some(HookOutput::Continue),
        (Decision::Deny, _) => Some(HookOutput::deny(judged.denial_text(call))),
        (Decision::Hold, Some(answerer)) if judged.policy.is_answerable(&call.function_id) => {
            answered(context, record, answerer, Outcome::Allow, None);
            Some(HookOutput::Continue)
        }
        (Decision::Hold, _) => None,
    })
}

/// The call was decided in a person's place.
fn answered(
    context: &Context,
    record: &PendingApprovalRecord,
    answerer: &Answerer,
    outcome: Outcome,
    reason: Option<String>,
) {
    let by = Decider::answerer(name(&answerer.function_id));
    context.audit.decided_at_once(record.clone(), &Ending { reason, ..Ending::of(outcome, by) });
}

/// Asks until one decides, the time is over, or [`MAX_ASKED`] were asked. An error if the connection is lost: the hook's
/// own answer can reach nobody any more, so that nothing may come to wait for it.
async fn ask_in_turn(
    context: &Context,
    answerers: Vec<Arc<Answerer>>,
    shown: &PendingCreatedEvent,
    call: &HookCall,
    until: Deadline,
) -> Result<Vec<Asked>, HoldError> {
    let mut asked = Vec::new();
    let all = answerers.len();
    for answerer in answerers.into_iter().take(MAX_ASKED) {
        if until.remaining().is_zero() {
            break;
        }
        let began = Instant::now();
        let said = ask(context, &answerer, shown, call, until.at_most(answerer.timeout())).await;
        let said = said.map_err(HoldError::Unavailable)?;
        let one = Asked { answerer, said, took: began.elapsed() };
        one.report(&shown.record);
        let decided = !matches!(one.said, Said::Pass(_));
        asked.push(one);
        if decided {
            return Ok(asked);
        }
    }
    if asked.len() < all {
        let left = all - asked.len();
        tracing::warn!(session_id = shown.record.session_id, left, "not every answerer could be asked");
    }
    Ok(asked)
}

/// What one answerer says, as it counts. An error only if the connection is lost.
async fn ask(
    context: &Context,
    answerer: &Arc<Answerer>,
    shown: &PendingCreatedEvent,
    call: &HookCall,
    deadline: Deadline,
) -> Result<Said, CallError> {
    let Some(_turn) = answerer.turn() else { return Ok(Said::Pass(Pass::Busy)) };
    let deadline_ms = u64::try_from(deadline.remaining().as_millis()).unwrap_or(u64::MAX);
    let Ok(data) = to_raw_value(&AnswererQuestion { record: shown, deadline_ms }) else {
        return Ok(Said::Pass(Pass::Failed));
    };
    let question = Fire {
        function_id: &answerer.function_id,
        data: &data,
        metadata: answerer.metadata.as_deref(),
        namespace: answerer.namespace.as_deref(),
    };
    let answer = match context.engine.ask(&question, deadline).await {
        Ok(answer) => answer,
        Err(lost @ (CallError::NotConnected | CallError::ConnectionLost { .. })) => return Err(lost),
        Err(CallError::Deadline { .. }) => return Ok(Said::Pass(Pass::Silent)),
        Err(_) => return Ok(Said::Pass(Pass::Failed)),
    };
    Ok(match AnswererAnswer::read(answer.raw()) {
        Err(_) => Said::Pass(Pass::NoAnswer),
        Ok(AnswererAnswer::Pass) => Said::Pass(Pass::Said),
        Ok(_) if !context.events.answerers().stands(answerer) => Said::Pass(Pass::Unbound),
        Ok(AnswererAnswer::Allow) if !context.config.policy().is_answerable(&call.function_id) => {
            Said::Pass(Pass::NotAnswerable)
        }
        Ok(AnswererAnswer::Allow) => Said::Allow,
        Ok(AnswererAnswer::Deny { reason }) => {
            Said::Deny(reason.map(|reason| redact::shown(reason.trim(), REASON)))
        }
    })
}

impl Asked {
    /// One line in the log, without anything that it said.
    fn report(&self, record: &PendingApprovalRecord) {
        let PendingApprovalRecord { session_id, function_call_id: call, function_id, .. } = record;
        let (binding, answerer) = (name(&self.answerer.binding_id), name(&self.answerer.function_id));
        let ms = u64::try_from(self.took.as_millis()).unwrap_or(u64::MAX);
        match &self.said {
            Said::Allow => {
                tracing::info!(
                    session_id,
                    call,
                    function_id,
                    answerer,
                    binding,
                    ms,
                    "an answerer allowed a call"
                );
            }
            Said::Deny(_) => {
                tracing::info!(
                    session_id,
                    call,
                    function_id,
                    answerer,
                    binding,
                    ms,
                    "an answerer denied a call"
                );
            }
            Said::Pass(why @ (Pass::Said | Pass::NotAnswerable)) => {
                tracing::debug!(session_id, call, answerer, binding, ms, %why, "an answerer decided nothing");
            }
            Said::Pass(why) => {
                tracing::warn!(session_id, call, answerer, binding, ms, %why, "an answerer decided nothing");
            }
        }
    }
}

/// An id of a binding, fit to be shown: whoever binds chooses it.
fn name(id: &str) -> String {
    redact::visible(id, NAME)
}

/// The denial of a call that would wait with nobody to see it, where the configuration asks for somebody.
pub(super) fn unseen(
    context: &Context,
    call: &HookCall,
    record: &PendingApprovalRecord,
) -> Option<HookOutput> {
    if !context.config.policy().require_listener() || !context.events.nobody_hears(record) {
        return None;
    }
    let answerers = context.events.answerers().candidates(&record.session_id, &call.function_id);
    if answerers.iter().any(|answerer| answerer.is_about(record.session_metadata.as_ref())) {
        return None;
    }
    let PendingApprovalRecord { session_id, function_id, .. } = record;
    tracing::warn!(session_id, function_id, "a call is denied because nobody listens who could show it");
    Some(HookOutput::deny(denial::gate_unavailable(denial::NOBODY_LISTENS)))
}

#[cfg(test)]
mod tests;
