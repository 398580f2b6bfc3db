//! Calls that a person has just released: the same call that comes through the gate again is not held again.
//!
//! A second hook binding, or a redelivery that crosses the release, would otherwise park a call that nobody would
//! ever be asked about (contract §2). Bounded in number and age; forgotten when the turn or session ends.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How many released calls are remembered.
const CAPACITY: usize = 10_000;
/// For how long.
const AGE: Duration = Duration::from_secs(60 * 60);

/// The memory. Keyed by the digest of a call, which covers session, turn, call id, function and arguments.
#[derive(Default)]
pub struct Released {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    calls: HashMap<String, Call>,
    order: VecDeque<(Instant, String)>,
}

struct Call {
    session_id: String,
    turn_id: String,
    at: Instant,
}

impl Released {
    /// Remembers a call as released from now on.
    pub fn remember(&self, digest: &str, session_id: &str, turn_id: &str) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let at = Instant::now();
        let call = Call { session_id: session_id.to_owned(), turn_id: turn_id.to_owned(), at };
        inner.calls.insert(digest.to_owned(), call);
        inner.order.push_back((at, digest.to_owned()));
        while inner.order.len() > CAPACITY || inner.order.front().is_some_and(|(at, _)| at.elapsed() > AGE) {
            let Some((at, digest)) = inner.order.pop_front() else { break };
            if inner.calls.get(&digest).is_some_and(|call| call.at == at) {
                inner.calls.remove(&digest);
            }
        }
    }

    /// Whether this call was released.
    pub fn contains(&self, digest: &str) -> bool {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.calls.get(digest).is_some_and(|call| call.at.elapsed() <= AGE)
    }

    /// The release did not happen.
    pub fn forget(&self, digest: &str) {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).calls.remove(digest);
    }

    /// A turn ended; in every session, if the notice names none.
    pub fn forget_turn(&self, session_id: Option<&str>, turn_id: &str) {
        self.retain(|call| {
            call.turn_id != turn_id || session_id.is_some_and(|session| session != call.session_id)
        });
    }

    /// A session ended.
    pub fn forget_session(&self, session_id: &str) {
        self.retain(|call| call.session_id != session_id);
    }

    fn retain(&self, keep: impl Fn(&Call) -> bool) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let Inner { calls, order } = &mut *inner;
        calls.retain(|_, call| keep(call));
        order.retain(|(at, digest)| calls.get(digest).is_some_and(|call| call.at == *at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_released_call_is_known_until_its_turn_or_session_ends_or_an_hour_has_passed() {
        let released = Released::default();
        for (digest, session, turn) in [("a", "s_1", "t_1"), ("b", "s_1", "t_2"), ("c", "s_2", "t_1")] {
            released.remember(digest, session, turn);
        }
        released.forget_turn(Some("s_1"), "t_1");
        assert_eq!(["a", "b", "c"].map(|digest| released.contains(digest)), [false, true, true]);
        released.forget_turn(None, "t_1");
        assert!(!released.contains("c"));
        released.forget_session("s_1");
        assert!(!released.contains("b"));

        released.remember("d", "s_1", "t_1");
        tokio::time::advance(AGE + Duration::from_secs(1)).await;
        assert!(!released.contains("d"));
    }

    #[tokio::test(start_paused = true)]
    async fn the_memory_is_bounded() {
        let released = Released::default();
        for number in 0..CAPACITY + 10 {
            released.remember(&number.to_string(), "s", "t");
        }
        assert!(!released.contains("0"));
        assert!(released.contains(&(CAPACITY + 9).to_string()));
        assert!(released.inner.lock().is_ok_and(|inner| inner.calls.len() <= CAPACITY));
    }
}
