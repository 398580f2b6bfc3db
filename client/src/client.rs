//! The handle that the rest of the worker calls the engine with.
//!
//! It outlives connections: a call made while there is none fails at once with [`CallError::NotConnected`], and nothing
//! is kept to be sent later, because a hook's answer that comes after the reconnect helps nobody.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use serde::Serialize;
use serde_json::value::RawValue;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;
use uuid::Uuid;

use super::calls::{Answer, Outcome};
use super::connection::{Ending, Link};
use super::deadline::Deadline;
use super::error::CallError;
use super::frame::{Action, MAX_FRAME_BYTES, Outgoing, Unsendable};
use super::trace;

/// Calls functions on the engine. Cheap to clone; all clones share the one connection.
#[derive(Clone)]
pub struct Client {
    current: Arc<Current>,
}

/// The connection in use, if any. Set by the session, read by every call.
#[derive(Default)]
struct Current {
    link: RwLock<Option<Arc<Link>>>,
    connection: AtomicU64,
}

/// A call of the function that somebody has bound. Nobody waits for a fired one; an asked one is answered.
#[derive(Debug, Clone, Copy)]
pub struct Fire<'a> {
    /// The function to call.
    pub function_id: &'a str,
    /// The payload, serialised once and shared between listeners.
    pub data: &'a RawValue,
    /// The metadata of the listener's binding.
    pub metadata: Option<&'a RawValue>,
    /// The namespace of the listener's binding, if it named one.
    pub namespace: Option<&'a str>,
}

impl Client {
    pub(super) fn new() -> Self {
        Self { current: Arc::default() }
    }

    /// Calls `function_id` with `data` and waits for the answer, at most until `deadline`. The engine has no time limit
    /// of its own and can lose an answer, so there is no call without one.
    pub async fn call<T: Serialize + ?Sized>(
        &self,
        function_id: &str,
        data: &T,
        deadline: Deadline,
    ) -> Result<Answer, CallError> {
        let frame = |invocation_id| invoke_frame(function_id, data, Some(invocation_id), None, None);
        self.answered(function_id, frame, deadline).await
    }

    /// As [`Client::call`], of the function that somebody has bound: where it lives and with what it was bound.
    pub async fn ask(&self, question: &Fire<'_>, deadline: Deadline) -> Result<Answer, CallError> {
        let &Fire { function_id, data, metadata, namespace } = question;
        let frame = |invocation_id| invoke_frame(function_id, data, Some(invocation_id), metadata, namespace);
        self.answered(function_id, frame, deadline).await
    }

    async fn answered(
        &self,
        function_id: &str,
        frame: impl FnOnce(Uuid) -> Result<String, CallError>,
        deadline: Deadline,
    ) -> Result<Answer, CallError> {
        let started = Instant::now();
        if started >= deadline.instant() {
            return Err(CallError::Deadline { function_id: function_id.to_owned(), waited_ms: 0 });
        }
        let link = self.link().ok_or(CallError::NotConnected)?;
        let invocation_id = Uuid::new_v4();
        let frame = frame(invocation_id)?;
        let mut waiter = link.calls.expect(invocation_id).ok_or(CallError::NotConnected)?;
        link.send(Message::text(frame))?;
        let outcome = tokio::time::timeout_at(deadline.instant(), waiter.outcome()).await;
        let function_id = function_id.to_owned();
        match outcome {
            Ok(Outcome::Answered(result)) => Ok(Answer { function_id, result }),
            Ok(Outcome::Refused(body)) => {
                Err(CallError::Refused { function_id, code: body.code, message: body.message })
            }
            Ok(Outcome::Lost) => Err(CallError::ConnectionLost { function_id }),
            Err(_) => {
                let waited_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
                Err(CallError::Deadline { function_id, waited_ms })
            }
        }
    }

    /// Queues a call that nobody waits for, behind everything sent before it. Refused while so much waits that it would
    /// endanger answers and calls, which share the connection.
    pub fn fire(&self, event: &Fire<'_>) -> Result<(), CallError> {
        let link = self.link().ok_or(CallError::NotConnected)?;
        if link.is_crowded() {
            return Err(CallError::Crowded { function_id: event.function_id.to_owned() });
        }
        let frame = invoke_frame(event.function_id, event.data, None, event.metadata, event.namespace)?;
        link.send(Message::text(frame))
    }

    /// Number of the connection in use or last used; 0 before the first. A change means that everything in flight
    /// before it has failed.
    pub fn connection(&self) -> u64 {
        self.current.connection.load(Ordering::Acquire)
    }

    pub(super) fn attach(&self, link: Option<Arc<Link>>) {
        if let Some(link) = &link {
            self.current.connection.store(link.number, Ordering::Release);
        }
        *self.current.link.write().unwrap_or_else(PoisonError::into_inner) = link;
    }

    /// Ends the connection in use.
    pub(super) fn detach(&self) {
        let link = self.current.link.write().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(link) = link {
            link.end(Ending::Lost("the session was dropped".to_owned()));
        }
    }

    pub(super) fn pending_calls(&self) -> usize {
        self.link().map_or(0, |link| link.calls.len())
    }

    fn link(&self) -> Option<Arc<Link>> {
        self.current.link.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The frame of a call; without an id it is a void one.
fn invoke_frame<T: Serialize + ?Sized>(
    function_id: &str,
    data: &T,
    invocation_id: Option<Uuid>,
    metadata: Option<&RawValue>,
    namespace: Option<&str>,
) -> Result<String, CallError> {
    let trace = trace::current();
    let frame = Outgoing::InvokeFunction {
        invocation_id,
        function_id,
        data,
        action: invocation_id.is_none().then_some(Action::Void),
        metadata,
        namespace,
        traceparent: trace.as_ref().and_then(|trace| trace.traceparent.as_deref()),
        baggage: trace.as_ref().and_then(|trace| trace.baggage.as_deref()),
    };
    frame.write().map_err(|unsendable| {
        let function_id = function_id.to_owned();
        match unsendable {
            Unsendable::TooLarge(bytes) => CallError::TooLarge { function_id, bytes, limit: MAX_FRAME_BYTES },
            Unsendable::TooDeep => CallError::TooDeep { function_id },
            Unsendable::Unwritable => CallError::Unwritable { function_id },
        }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn connected() -> (Client, Arc<Link>) {
        let (client, link) = (Client::new(), Arc::new(Link::new(1)));
        client.attach(Some(Arc::clone(&link)));
        (client, link)
    }

    #[tokio::test]
    async fn without_a_connection_nothing_is_sent_and_nothing_is_kept() {
        let client = Client::new();
        let error = client.call("f", &json!(1), Deadline::after_ms(50)).await.unwrap_err();
        assert_eq!(error, CallError::NotConnected);
        assert!(error.never_sent());
        assert_eq!(client.connection(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_gives_up_at_its_deadline_and_leaves_nothing_behind() {
        let (client, _link) = connected();
        let error = client.call("f", &json!(1), Deadline::after_ms(50)).await.unwrap_err();
        assert_eq!(error, CallError::Deadline { function_id: "f".into(), waited_ms: 50 });
        assert!(!error.never_sent());
        assert_eq!(client.pending_calls(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_goes_where_its_function_was_bound_and_leaves_nothing_behind() {
        let (client, link) = connected();
        let data = RawValue::from_string("{\"a\":1}".into()).unwrap();
        let metadata = RawValue::from_string("{\"m\":2}".into()).unwrap();
        let question =
            Fire { function_id: "f", data: &data, metadata: Some(&metadata), namespace: Some("n") };
        let error = client.ask(&question, Deadline::after_ms(50)).await.unwrap_err();
        assert_eq!(error, CallError::Deadline { function_id: "f".into(), waited_ms: 50 });
        assert_eq!(client.pending_calls(), 0);
        link.outbound.finish();
        let sent = link.outbound.take().await.unwrap();
        let frame: serde_json::Value = serde_json::from_str(sent[0].to_text().unwrap()).unwrap();
        assert_eq!((&frame["data"], &frame["metadata"]), (&json!({"a": 1}), &json!({"m": 2})));
        assert_eq!(frame["namespace"], "n");
        assert!(frame["invocation_id"].is_string() && frame.get("action").is_none());
    }

    #[tokio::test]
    async fn a_call_whose_deadline_has_passed_is_not_sent() {
        let (client, link) = connected();
        let error = client.call("f", &json!(1), Deadline::after_ms(0)).await.unwrap_err();
        assert_eq!(error, CallError::Deadline { function_id: "f".into(), waited_ms: 0 });
        link.outbound.finish();
        assert!(link.outbound.take().await.is_none());
    }

    #[tokio::test]
    async fn what_the_engine_would_drop_is_refused_and_leaves_nothing_behind() {
        let (client, link) = connected();
        let large = "x".repeat(MAX_FRAME_BYTES);
        let error = client.call("f", &large, Deadline::after_ms(50)).await.unwrap_err();
        assert!(matches!(error, CallError::TooLarge { .. }) && error.never_sent());
        let deep = RawValue::from_string(format!("{}{}", "[".repeat(200), "]".repeat(200))).unwrap();
        let event = Fire { function_id: "f", data: &deep, metadata: None, namespace: None };
        assert!(matches!(client.fire(&event), Err(CallError::TooDeep { .. })));
        assert_eq!(client.pending_calls(), 0);
        link.outbound.finish();
        assert!(link.outbound.take().await.is_none());
    }
}
