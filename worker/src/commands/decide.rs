//! `approval-gate allow` and `deny`: which calls are meant, what is asked of the worker, and what became of each.
//!
//! The non-obvious fact: the worker's decision names a call, not a hold (contract §3). Between looking and deciding, the
//! call may have been held again with other arguments. So each decision carries the digest of the record that was shown,
//! and the worker refuses it for any other. Each also looks at the record once more, for the records without a digest,
//! and so that nothing is remembered on account of another call.

mod outcome;

use std::process::ExitCode;

use futures_util::StreamExt as _;
use serde_json::{Value, json};

pub use self::outcome::Done;
use self::outcome::{End, Remembered};
use super::inbox::asked;
use super::peer::{Failure, Filter, Gate};
use super::text::{padded, safe, word};
use crate::cli::person::{Chosen, Lasting};
use crate::wire::error::DIGEST_MISMATCH;
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
    Allow { lasting: Option<Lasting>, beyond: Beyond },
    Deny { reason: Option<String> },
}

/// What is allowed beyond this one call, for the rest of its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Beyond {
    /// Nothing.
    Nothing,
    /// Every call of its function.
    Function,
    /// Calls of its function whose arguments satisfy these, in the form of a rule's `args`.
    Where(Value),
}

impl Order {
    /// Let it run; with a folder request for so long, or with what is like it.
    pub fn allow(lasting: Option<Lasting>, beyond: Beyond) -> Self {
        Self { what: What::Allow { lasting, beyond } }
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
        let What::Allow { lasting, beyond } = &self.what else { return None };
        let wider = matches!(lasting, Some(Lasting::Session | Lasting::Always));
        match (&record.access_request, wider, *beyond != Beyond::Nothing) {
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
    fn request(&self, record: &PendingApprovalRecord) -> Value {
        let mut request = json!({"session_id": record.session_id, "function_call_id": record.function_call_id, "decision": "deny"});
        if let Some(digest) = &record.digest {
            request["digest"] = digest.as_str().into();
        }
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
}

/// Decides about the hold that `shown` is, and no other.
pub async fn carry_out(gate: &Gate, shown: &PendingApprovalRecord, order: &Order) -> Done {
    if let Some(why) = order.misfit(shown) {
        return Done::nothing(End::Misfit(why));
    }
    match gate.get(&shown.session_id, &shown.function_call_id).await {
        Ok(Some(now)) if (now.pending_at, &now.digest) == (shown.pending_at, &shown.digest) => {}
        Ok(Some(_)) => return Done::nothing(End::Replaced),
        Ok(None) => return Done::nothing(End::Gone),
        Err(why) => return Done::nothing(End::Failed(why)),
    }
    let remembered = match remember(gate, shown, order).await {
        Ok(remembered) => remembered,
        Err(why) => return Done::nothing(End::Failed(why)),
    };
    let end = match gate.resolve(&order.request(shown)).await {
        Err(Failure::Refused { code, .. }) if code == DIGEST_MISMATCH => End::Replaced,
        Err(why) => End::Failed(why),
        Ok(answer) if !answer.resolved => End::Gone,
        Ok(answer) => {
            let held_again = order.allows() && answer.turn_resumed == Some(false);
            let now = if held_again {
                gate.get(&shown.session_id, &shown.function_call_id).await.ok().flatten()
            } else {
                None
            };
            let again =
                now.filter(|now| now.pending_at != shown.pending_at).map(|now| asked(&now, ASKED_COLUMNS));
            End::Taken { turn_resumed: answer.turn_resumed, again }
        }
    };
    Done { end, remembered }
}

/// Makes the wider permission, if the order has one. It comes before the decision: after it, nothing is held that a rule
/// could be made from.
async fn remember(
    gate: &Gate,
    shown: &PendingApprovalRecord,
    order: &Order,
) -> Result<Option<Remembered>, Failure> {
    let What::Allow { beyond, .. } = &order.what else { return Ok(None) };
    match beyond {
        _ if shown.access_request.is_some() => Ok(None),
        Beyond::Nothing => Ok(None),
        Beyond::Function => {
            let request = json!({"session_id": shown.session_id, "function_id": shown.function_id});
            gate.change("approval::approve-always", &request).await?;
            Ok(Some(Remembered::Function))
        }
        Beyond::Where(conditions) => {
            let rule = json!({"function": shown.function_id, "args": conditions});
            let request = json!({"session_id": shown.session_id, "function_call_id": shown.function_call_id, "rule": rule});
            let rule_id = gate.approve_rule(&request).await?.rule_id;
            Ok(Some(Remembered::Rule { session: shown.session_id.clone(), rule_id }))
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
