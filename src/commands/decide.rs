//! `approval-gate allow` and `deny`: which calls are meant, what is asked of the worker, and what became of each.
//!
//! The non-obvious fact: the worker's decision names a call, not a hold (contract §3). Between looking and deciding, the
//! call may have been held again with other arguments. So each decision looks at the record once more, and is made
//! only if it is the hold that was shown.

use std::process::ExitCode;

use futures_util::StreamExt as _;
use serde_json::json;

use super::inbox::asked;
use super::peer::{Failure, Filter, Gate};
use super::text::{padded, safe, word};
use crate::cli::person::{Chosen, Lasting};
use crate::wire::error::HARNESS_UNAVAILABLE;
use crate::wire::record::PendingApprovalRecord;

/// Decisions in flight at once: an allowed call can run for half a minute before its answer comes.
const AT_ONCE: usize = 8;
/// Columns of what is asked, in the summary.
const ASKED_COLUMNS: usize = 44;

/// What a person wants done with a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum What {
    Allow { lasting: Option<Lasting>, always_this_function: bool },
    Deny { reason: Option<String> },
}

impl Order {
    /// Let it run; with a folder request for so long, or without asking about its function again.
    pub fn allow(lasting: Option<Lasting>, always_this_function: bool) -> Self {
        Self { what: What::Allow { lasting, always_this_function } }
    }

    /// Refuse it, in these words.
    pub fn deny(reason: Option<String>) -> Self {
        Self { what: What::Deny { reason: reason.filter(|reason| !reason.is_empty()) } }
    }

    /// Whether the call is to run.
    pub fn allows(&self) -> bool {
        matches!(self.what, What::Allow { .. })
    }

    /// Why it cannot be carried out on this record, if so: a permission that means nothing there would leave a person
    /// believing in it.
    fn misfit(&self, record: &PendingApprovalRecord) -> Option<&'static str> {
        let What::Allow { lasting, always_this_function } = self.what else { return None };
        let wider = matches!(lasting, Some(Lasting::Session | Lasting::Always));
        match (&record.access_request, wider, always_this_function) {
            (None, true, false) => {
                Some("it asks for no folder; `--always-this-function` is the wider permission here")
            }
            (Some(_), false, true) => {
                Some("it asks for a folder; `--for session` is the wider permission here")
            }
            _ => None,
        }
    }

    /// The request to the worker.
    fn request(&self, record: &PendingApprovalRecord) -> serde_json::Value {
        let mut request = json!({"session_id": record.session_id, "function_call_id": record.function_call_id, "decision": "deny"});
        match &self.what {
            What::Allow { lasting, .. } => {
                request["decision"] = "allow".into();
                if let (Some(lasting), Some(_)) = (lasting, &record.access_request) {
                    request["access_duration"] = match lasting {
                        Lasting::Once => "once",
                        Lasting::Session => "session",
                        Lasting::Always => "always",
                    }
                    .into();
                }
            }
            What::Deny { reason: Some(reason) } => request["reason"] = reason.as_str().into(),
            What::Deny { reason: None } => {}
        }
        request
    }

    fn remembers(&self, record: &PendingApprovalRecord) -> bool {
        record.access_request.is_none() && matches!(self.what, What::Allow { always_this_function: true, .. })
    }
}

/// What became of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Done {
    /// It took effect.
    Taken {
        /// Whether the turn goes on, if that is known.
        turn_resumed: Option<bool>,
        /// What the same call asks for now, if it was held again.
        again: Option<String>,
    },
    /// Nothing waits under this id.
    Gone,
    /// The call was held again since it was shown; the newer hold was left alone.
    Replaced,
    /// The permission does not fit what is asked.
    Misfit(&'static str),
    /// The worker refused, or did not answer.
    Failed {
        /// Why.
        why: Failure,
        /// Whether the function is remembered all the same.
        remembered: bool,
    },
}

impl Done {
    /// Whether it took effect.
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Taken { .. })
    }

    /// What became of it, in words.
    pub fn sentence(&self, order: &Order) -> String {
        match self {
            Self::Taken { again: Some(asked), .. } => format!("allowed; it ran and is held again: {asked}"),
            Self::Taken { turn_resumed, .. } => {
                let decided = if order.allows() { "allowed" } else { "denied" };
                let turn = match turn_resumed {
                    Some(true) => "the turn goes on",
                    Some(false) => "the turn still waits for other calls",
                    None => "it is being carried out",
                };
                format!("{decided}; {turn}")
            }
            Self::Gone => {
                "not done: nothing waits there any more (decided already, or its turn is over)".to_owned()
            }
            Self::Replaced => "not done: the call was held again meanwhile; look at it anew".to_owned(),
            Self::Misfit(why) => format!("not done: {why}"),
            Self::Failed { why, remembered } => {
                let held = match why {
                    Failure::Refused { code, .. } if code == HARNESS_UNAVAILABLE => {
                        "the harness did not take it; still held, try again".to_owned()
                    }
                    why => why.to_string().lines().next().unwrap_or_default().to_owned(),
                };
                let but =
                    if *remembered { " (its function is approved for the session, though)" } else { "" };
                format!("not done: {held}{but}")
            }
        }
    }
}

/// Decides about the hold that `shown` is, and no other.
pub async fn carry_out(gate: &Gate, shown: &PendingApprovalRecord, order: &Order) -> Done {
    if let Some(why) = order.misfit(shown) {
        return Done::Misfit(why);
    }
    let failed = |remembered| move |why| Done::Failed { why, remembered };
    match gate.get(&shown.session_id, &shown.function_call_id).await {
        Ok(Some(now)) if now.pending_at == shown.pending_at => {}
        Ok(Some(_)) => return Done::Replaced,
        Ok(None) => return Done::Gone,
        Err(why) => return failed(false)(why),
    }
    let remembers = order.remembers(shown);
    if remembers {
        let request = json!({"session_id": shown.session_id, "function_id": shown.function_id});
        if let Err(why) = gate.change("approval::approve-always", &request).await {
            return failed(false)(why);
        }
    }
    match gate.resolve(&order.request(shown)).await {
        Err(why) => failed(remembers)(why),
        Ok(answer) if !answer.resolved => Done::Gone,
        Ok(answer) => {
            let held_again = order.allows() && answer.turn_resumed == Some(false);
            let now = if held_again {
                gate.get(&shown.session_id, &shown.function_call_id).await.ok().flatten()
            } else {
                None
            };
            let again =
                now.filter(|now| now.pending_at != shown.pending_at).map(|now| asked(&now, ASKED_COLUMNS));
            Done::Taken { turn_resumed: answer.turn_resumed, again }
        }
    }
}

/// Carries out one order on all chosen calls and prints what became of each. Exit status 0 if all took effect.
pub async fn run(gate: &Gate, chosen: &Chosen, order: &Order) -> Result<ExitCode, Failure> {
    let filter = Filter { session: Some(chosen.session.clone()), ..Filter::default() };
    let listing = gate.list(&filter).await?;
    let (meant, not_meant) = meant(&listing.held, chosen);
    if meant.is_empty() && not_meant.is_empty() {
        return Ok(super::print(&format!("nothing is held in session {}", word(&chosen.session))));
    }
    let width = meant.iter().map(|record| word(&record.function_call_id).len()).max().unwrap_or(0);
    let decisions =
        meant.into_iter().map(|record| async move { (record, carry_out(gate, record, order).await) });
    let mut decisions = futures_util::stream::iter(decisions).buffered(AT_ONCE);
    let mut all_done = not_meant.is_empty();
    while let Some((record, done)) = decisions.next().await {
        all_done &= done.is_done();
        let id = padded(&word(&record.function_call_id), width);
        let asked = asked(record, ASKED_COLUMNS);
        super::print(&format!("{id}  {}\n{}  {asked}", done.sentence(order), " ".repeat(width)));
    }
    for why in not_meant {
        eprintln!("approval-gate: {why}");
    }
    Ok(if all_done { ExitCode::SUCCESS } else { ExitCode::from(super::person::NOT_DONE) })
}

/// The records that are meant, each once, and a sentence for everything that names none.
fn meant<'a>(
    held: &'a [PendingApprovalRecord],
    chosen: &Chosen,
) -> (Vec<&'a PendingApprovalRecord>, Vec<String>) {
    let Some(calls) = &chosen.calls else { return (held.iter().collect(), Vec::new()) };
    let (mut meant, mut not_meant) = (Vec::new(), Vec::new());
    for call in calls {
        match find(held, call) {
            Found::One(record) if meant.contains(&record) => {}
            Found::One(record) => meant.push(record),
            found => not_meant.push(not_found(&found, &chosen.session, call)),
        }
    }
    (meant, not_meant)
}

/// What an id, or the beginning of one, names.
#[derive(Debug, PartialEq)]
pub enum Found<'a> {
    /// Nothing.
    None,
    /// One call.
    One(&'a PendingApprovalRecord),
    /// Several.
    Several(Vec<&'a PendingApprovalRecord>),
}

/// The call of this id, else the one whose id, as it is or as it is shown, begins so.
pub fn find<'a>(held: &'a [PendingApprovalRecord], call: &str) -> Found<'a> {
    if let Some(record) = held.iter().find(|record| record.function_call_id == call) {
        return Found::One(record);
    }
    let begins = |record: &&PendingApprovalRecord| {
        let id = &record.function_call_id;
        !call.is_empty() && (id.starts_with(call) || safe(id).starts_with(call))
    };
    let candidates: Vec<_> = held.iter().filter(begins).collect();
    match candidates.as_slice() {
        [] => Found::None,
        [one] => Found::One(one),
        _ => Found::Several(candidates),
    }
}

/// Why nothing, or not one thing, was found, and what to do.
pub fn not_found(found: &Found<'_>, session: &str, call: &str) -> String {
    let (call, session) = (word(call), word(session));
    match found {
        Found::Several(candidates) => {
            let list = candidates.iter().map(|record| {
                format!("\n  {}  {}", word(&record.function_call_id), asked(record, ASKED_COLUMNS))
            });
            format!(
                "{call} fits {} held calls; write more of the id:{}",
                candidates.len(),
                list.collect::<String>()
            )
        }
        _ => format!(
            "{call} is not held in session {session}: decided already, its turn is over, or another id\n  See what is held: approval-gate inbox --session {session}"
        ),
    }
}

#[cfg(test)]
mod tests;
