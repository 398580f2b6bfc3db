//! The calls of ours that wait for an answer on one connection, and what an answer is.
//!
//! Answers are matched by invocation id alone; one that matches nothing came late, or twice, and is ignored. When the
//! connection ends, every waiting call is told at once: its answer cannot arrive on another connection.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use uuid::Uuid;

use super::error::{CallError, ErrorBody};

/// The answer to a call. `state::get` answers *nothing* for a missing key and `null` for a stored null, so the two
/// stay apart here.
#[derive(Debug)]
pub struct Answer {
    pub(super) function_id: String,
    pub(super) result: Option<Box<RawValue>>,
}

impl Answer {
    /// An answer as a stand-in for the engine gives it; `None` is an answer without a value.
    pub fn new(function_id: impl Into<String>, result: Option<Box<RawValue>>) -> Self {
        Self { function_id: function_id.into(), result }
    }

    /// Whether the answer has no value at all.
    pub fn is_absent(&self) -> bool {
        self.result.is_none()
    }

    /// The value as text, if there is one.
    pub fn raw(&self) -> Option<&RawValue> {
        self.result.as_deref()
    }

    /// The value; `null` if there is none.
    pub fn value(&self) -> Result<Value, CallError> {
        self.parse()
    }

    /// The value as a `T`; an absent value is parsed as `null`.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, CallError> {
        let text = self.result.as_deref().map_or("null", RawValue::get);
        serde_json::from_str(text).map_err(|error| CallError::Unreadable {
            function_id: self.function_id.clone(),
            reason: describe(&error),
        })
    }
}

/// Kind and place of a mistake. `serde_json`'s own text quotes the value, which may be a secret.
fn describe(error: &serde_json::Error) -> String {
    let kind = match error.classify() {
        serde_json::error::Category::Data => "unexpected shape",
        _ => "not readable JSON",
    };
    format!("{kind} at line {} column {}", error.line(), error.column())
}

/// What a waiting call is told.
pub(super) enum Outcome {
    Answered(Option<Box<RawValue>>),
    Refused(ErrorBody),
    Lost,
}

/// The calls waiting on one connection.
#[derive(Default)]
pub(super) struct Calls(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    by_id: HashMap<Uuid, oneshot::Sender<Outcome>>,
    ended: bool,
}

impl Calls {
    /// A place to wait for the answer to `id`; `None` once the connection has ended.
    pub(super) fn expect(&self, id: Uuid) -> Option<Waiter<'_>> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.lock();
        if waiting.ended {
            return None;
        }
        waiting.by_id.insert(id, sender);
        Some(Waiter { calls: self, id, receiver })
    }

    /// Tells the call `id`; whether it was still waiting.
    pub(super) fn settle(&self, id: Uuid, outcome: impl FnOnce() -> Outcome) -> bool {
        let sender = self.lock().by_id.remove(&id);
        sender.is_some_and(|sender| sender.send(outcome()).is_ok())
    }

    /// The connection has ended: tells everyone, and lets nobody wait any more.
    pub(super) fn end(&self) {
        let mut waiting = self.lock();
        waiting.ended = true;
        let abandoned = std::mem::take(&mut waiting.by_id);
        drop(waiting);
        for (_, sender) in abandoned {
            let _ = sender.send(Outcome::Lost);
        }
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.lock().by_id.len()
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One call's place in the table; gives it up when dropped, so that a caller that stops waiting leaves nothing behind.
pub(super) struct Waiter<'a> {
    calls: &'a Calls,
    id: Uuid,
    receiver: oneshot::Receiver<Outcome>,
}

impl Waiter<'_> {
    /// Waits to be told.
    pub(super) async fn outcome(&mut self) -> Outcome {
        (&mut self.receiver).await.unwrap_or(Outcome::Lost)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.calls.lock().by_id.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn answer(result: Option<&str>) -> Answer {
        let result = result.map(|text| RawValue::from_string(text.to_owned()).unwrap());
        Answer { function_id: "f".into(), result }
    }

    #[test]
    fn absent_and_null_are_apart_and_both_parse_as_none() {
        assert!(answer(None).is_absent());
        assert!(!answer(Some("null")).is_absent());
        assert_eq!(answer(None).value().unwrap(), Value::Null);
        assert_eq!(answer(None).parse::<Option<u8>>().unwrap(), None);
        assert_eq!(answer(Some("7")).parse::<Option<u8>>().unwrap(), Some(7));
    }

    #[test]
    fn an_answer_of_another_shape_is_an_error_that_does_not_quote_it() {
        let error = answer(Some(r#""hunter2""#)).parse::<u8>().unwrap_err();
        assert!(matches!(error, CallError::Unreadable { .. }));
        assert!(!error.to_string().contains("hunter2"));
    }

    #[test]
    fn a_deeply_nested_answer_is_an_error_not_a_crash() {
        let deep = format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
        assert!(answer(Some(&deep)).value().is_err());
    }

    #[tokio::test]
    async fn a_call_is_told_once_and_later_answers_match_nothing() {
        let calls = Calls::default();
        let id = Uuid::new_v4();
        let mut waiter = calls.expect(id).unwrap();
        assert!(calls.settle(id, || Outcome::Answered(None)));
        assert!(!calls.settle(id, || Outcome::Lost));
        assert!(matches!(waiter.outcome().await, Outcome::Answered(None)));
    }

    #[tokio::test]
    async fn the_end_of_the_connection_tells_everyone_and_lets_nobody_in() {
        let calls = Calls::default();
        let mut waiter = calls.expect(Uuid::new_v4()).unwrap();
        calls.end();
        assert!(matches!(waiter.outcome().await, Outcome::Lost));
        assert!(calls.expect(Uuid::new_v4()).is_none());
    }

    #[test]
    fn a_caller_that_stops_waiting_leaves_nothing_behind() {
        let calls = Calls::default();
        drop(calls.expect(Uuid::new_v4()));
        assert_eq!(calls.len(), 0);
    }
}
