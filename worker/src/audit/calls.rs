//! Calls that never came to be held, at debug level and in the log only.
//!
//! On the path of every call: where nobody reads this level, nothing is written, copied or looked up.

use super::TARGET;
use crate::policy::{Because, Decision, Verdict};

/// How much of an id is logged, in bytes. Calls are turned away before their ids are measured.
const ID_BYTES: usize = 512;

/// A call was allowed or denied at once, by this verdict.
pub fn judged(session_id: &str, function_call_id: &str, function_id: &str, verdict: &Verdict) {
    if !tracing::enabled!(target: TARGET, tracing::Level::DEBUG) {
        return;
    }
    let (rule_id, rule) = match &verdict.because {
        Because::Rule { index, rule_id, .. } => (Some(clipped(rule_id)), Some(*index)),
        Because::ApprovedRule { rule_id, .. } => (Some(clipped(rule_id)), None),
        _ => (None, None),
    };
    tracing::debug!(
        target: TARGET,
        session_id = clipped(session_id), function_call_id = clipped(function_call_id),
        function_id = clipped(function_id), decision = verdict.decision.as_str(),
        because = verdict.because.as_str(), rule_id, rule,
        "a call was judged"
    );
}

/// A call that was to be held was answered in another way; why, in one word.
pub fn not_held(
    session_id: &str,
    function_call_id: &str,
    function_id: &str,
    decision: Decision,
    because: &str,
) {
    tracing::debug!(
        target: TARGET,
        session_id = clipped(session_id), function_call_id = clipped(function_call_id),
        function_id = clipped(function_id), decision = decision.as_str(), because,
        "a call was judged"
    );
}

/// A payload that names no call to be judged was denied; the field that is wrong.
pub fn unreadable(field: &str) {
    tracing::debug!(
        target: TARGET,
        decision = Decision::Deny.as_str(), because = "payload", field = clipped(field),
        "a call was judged"
    );
}

fn clipped(id: &str) -> &str {
    &id[..id.floor_char_boundary(ID_BYTES)]
}
