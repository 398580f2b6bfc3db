//! Calls that a person has just released: the same call that comes through the gate again is not held again.
//!
//! A second hook binding, or a redelivery that crosses the release, would otherwise park a call that nobody would
//! ever be asked about (contract §2). Bounded in number and age; forgotten when the turn or session ends.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::hold::hold_digest;
use crate::wire::record::{PendingApprovalRecord, PendingKind};

/// How many released calls are remembered.
const CAPACITY: usize = 10_000;
/// For how long.
const AGE: Duration = Duration::from_hours(1);

/// How many different calls under the same ids.
const CALLS: usize = 8;

/// The memory: the holds that were released, by session, turn and call id. The digest of one tells whether a call that
/// arrives there is its.
#[derive(Default)]
pub struct Released {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    calls: HashMap<Arc<Place>, Vec<Call>>,
    order: VecDeque<(Instant, Arc<Place>)>,
}

#[derive(PartialEq, Eq, Hash)]
struct Place {
    session: String,
    turn: String,
    call: String,
}

struct Call {
    salt: String,
    digest: String,
    at: Instant,
}

impl Released {
    /// Remembers the call of this hold as released from now on. A hold of an older worker, without a digest, cannot be.
    pub fn remember(&self, hold: &PendingApprovalRecord) {
        let (Some(salt), Some(digest)) = (hold.salt.clone(), hold.digest.clone()) else { return };
        let (place, at) = (Arc::new(Place::of(hold)), Instant::now());
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let here = inner.calls.entry(Arc::clone(&place)).or_default();
        if here.len() == CALLS {
            here.remove(0);
        }
        here.push(Call { salt, digest, at });
        inner.order.push_back((at, place));
        while inner.order.len() > CAPACITY || inner.order.front().is_some_and(|(at, _)| at.elapsed() > AGE) {
            let Some((at, place)) = inner.order.pop_front() else { break };
            inner.drop_calls(&place, |call| call.at == at);
        }
    }

    /// Whether the call of this arriving record was released.
    pub fn contains(&self, arriving: &PendingApprovalRecord) -> bool {
        let Some(of_call) = &arriving.call_digest else { return false };
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let mut here = inner.calls.get(&Place::of(arriving)).into_iter().flatten();
        here.any(|call| call.at.elapsed() <= AGE && call.digest == hold_digest(&call.salt, of_call))
    }

    /// The release did not happen. Where a folder was refused to a released call, the call is not run again unasked either.
    pub fn forget(&self, hold: &PendingApprovalRecord) {
        let of_any_call = hold.kind == PendingKind::FilesystemAccess;
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.drop_calls(&Place::of(hold), |call| {
            of_any_call || hold.digest.as_ref().is_some_and(|digest| *digest == call.digest)
        });
    }

    /// A turn ended; in every session, if the notice names none.
    pub fn forget_turn(&self, session_id: Option<&str>, turn_id: &str) {
        self.retain(|place| {
            place.turn != turn_id || session_id.is_some_and(|session_id| session_id != place.session)
        });
    }

    /// A session ended.
    pub fn forget_session(&self, session_id: &str) {
        self.retain(|place| place.session != session_id);
    }

    fn retain(&self, keep: impl Fn(&Place) -> bool) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let Inner { calls, order } = &mut *inner;
        calls.retain(|place, _| keep(place));
        order.retain(|(_, place)| calls.contains_key(place));
    }
}

impl Inner {
    fn drop_calls(&mut self, place: &Place, is_meant: impl Fn(&Call) -> bool) {
        let Some(here) = self.calls.get_mut(place) else { return };
        here.retain(|call| !is_meant(call));
        if here.is_empty() {
            self.calls.remove(place);
        }
    }
}

impl Place {
    fn of(record: &PendingApprovalRecord) -> Self {
        Self {
            session: record.session_id.clone(),
            turn: record.turn_id.clone(),
            call: record.function_call_id.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use uuid::Uuid;

    use super::*;
    use crate::fsaccess::AccessRequest;
    use crate::wire::hook::HookCall;

    fn arriving(session: &str, turn: &str, call: &str, arguments: Value) -> PendingApprovalRecord {
        let call = HookCall { id: call.to_owned(), function_id: "f::x".to_owned(), arguments };
        PendingApprovalRecord::for_function(session, turn, 0, &call)
    }

    fn release(released: &Released, record: &PendingApprovalRecord) {
        let mut hold = record.clone();
        hold.becomes_a_hold(Uuid::new_v4);
        released.remember(&hold);
    }

    #[tokio::test(start_paused = true)]
    async fn a_released_call_is_known_until_its_turn_or_session_ends_or_an_hour_has_passed() {
        let released = Released::default();
        let calls = [("s_1", "t_1"), ("s_1", "t_2"), ("s_2", "t_1")]
            .map(|(session, turn)| arriving(session, turn, "c", Value::Null));
        for call in &calls {
            release(&released, call);
        }
        released.forget_turn(Some("s_1"), "t_1");
        assert_eq!(calls.each_ref().map(|call| released.contains(call)), [false, true, true]);
        released.forget_turn(None, "t_1");
        assert!(!released.contains(&calls[2]));
        released.forget_session("s_1");
        assert!(!released.contains(&calls[1]));

        release(&released, &calls[0]);
        tokio::time::advance(AGE + Duration::from_secs(1)).await;
        assert!(!released.contains(&calls[0]));
    }

    #[test]
    fn only_the_very_same_call_is_known_however_often_it_was_held() {
        let released = Released::default();
        let call = arriving("s", "t", "c", json!({"pin": 1}));
        release(&released, &call);
        release(&released, &call);
        assert!(released.contains(&call));
        assert!(!released.contains(&arriving("s", "t", "c", json!({"pin": 2}))));
        assert!(!released.contains(&arriving("s", "t_2", "c", json!({"pin": 1}))));
    }

    #[test]
    fn a_denial_is_of_its_own_call_and_that_of_a_folder_of_all_under_its_ids() {
        let released = Released::default();
        let (call, other) = (arriving("s", "t", "c", json!(1)), arriving("s", "t", "c", json!(2)));
        release(&released, &call);
        let mut denied = other.clone();
        denied.becomes_a_hold(Uuid::new_v4);
        released.remember(&denied);
        released.forget(&denied);
        assert!(released.contains(&call) && !released.contains(&other));

        let request = AccessRequest {
            requested_root: "/data".into(),
            attempted_path: "/data/x".into(),
            error_code: "S215".into(),
        };
        released.forget(&call.clone().asking_for(request));
        assert!(!released.contains(&call));
        assert!(released.inner.lock().unwrap().calls.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn the_memory_is_bounded() {
        let released = Released::default();
        let call = |number: usize| arriving("s", "t", &number.to_string(), Value::Null);
        for number in 0..CAPACITY + 10 {
            release(&released, &call(number));
        }
        assert!(!released.contains(&call(0)));
        assert!(released.contains(&call(CAPACITY + 9)));
        assert!(released.inner.lock().is_ok_and(|inner| inner.calls.len() <= CAPACITY));
    }
}
