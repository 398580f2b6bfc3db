//! What comes in: calls to handlers, bindings to providers, answers to callers, refusals to the session.
//!
//! Runs on the task that reads the socket and never waits there. A handler is polled once on the spot, since most
//! calls need nothing but memory, and becomes a task of its own only if that was not enough. Every invocation that wants
//! an answer gets exactly one, whatever the handler does (the guard's repetition aside, which the engine ignores).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::FutureExt;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};
use uuid::Uuid;

use super::calls::Outcome;
use super::connection::{Ending, Identity, Link};
use super::error::{
    ErrorBody, FUNCTION_NOT_FOUND, INVOCATION_FAILED, INVOCATION_STOPPED, TRIGGER_REGISTRATION_FAILED,
    TRIGGER_TYPE_NOT_FOUND,
};
use super::frame::{self, Incoming, Invoke, Plain, Rejection, Undecodable};
use super::guard::Guard;
use super::registry::{Bind, Catalogue, Function, Handler, Invocation, Reply};
use super::retries::Registration;
use super::trace::{self, Trace};

/// Code of a rejected worker name.
const WORKER_NAME_TAKEN: &str = "WORKER_NAMESPACE_CONFLICT";

/// The engine refused one of our registrations.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) what: Registration,
    pub(super) reason: ErrorBody,
}

/// Everything that incoming frames need; one for all connections of a session.
pub(super) struct Dispatch {
    pub(super) catalogue: Catalogue,
    pub(super) guard: Guard,
    max_running: usize,
    /// Handlers that did not finish on the spot. Owned here so that they can be stopped.
    tasks: Mutex<JoinSet<()>>,
    running: watch::Sender<usize>,
    stopping: AtomicBool,
}

impl Dispatch {
    pub(super) fn new(catalogue: Catalogue, guard: Guard, max_running: usize) -> Self {
        Self {
            catalogue,
            guard,
            max_running,
            tasks: Mutex::default(),
            running: watch::Sender::new(0),
            stopping: AtomicBool::new(false),
        }
    }

    /// Handles one message received at `received`; refusals go to `refusals`.
    pub(super) fn receive(
        self: &Arc<Self>,
        link: &Arc<Link>,
        text: &str,
        received: Instant,
        refusals: &mpsc::Sender<Refusal>,
    ) {
        match frame::decode(text) {
            Ok(Incoming::Invoke(invoke)) => self.invoke(link, invoke, received),
            Ok(Incoming::Answer { invocation_id, outcome }) => {
                link.calls.settle(invocation_id, || match outcome {
                    Ok(result) => Outcome::Answered(result.map(ToOwned::to_owned)),
                    Err(error) => Outcome::Refused(error),
                });
            }
            Ok(Incoming::Bind(binding)) => self.bind(link, &binding),
            Ok(Incoming::Unbind { id, trigger_type }) => self.unbind(&id, trigger_type.as_deref()),
            Ok(Incoming::BindingVerdict { id, refusal: Some(reason) }) => {
                refuse(refusals, Refusal { what: Registration::Binding(id.into_owned()), reason });
            }
            Ok(Incoming::Rejected(rejection)) => rejected(link, rejection, refusals),
            Ok(Incoming::Refused(error)) => {
                link.end(Ending::Lost(format!("the engine refused us: {}: {}", error.code, error.message)));
            }
            Ok(Incoming::WorkerRegistered { worker_id, reattach_token }) => {
                let _ = link.identity.set(Identity {
                    worker_id: worker_id.into_owned(),
                    reattach_token: reattach_token.map(std::borrow::Cow::into_owned),
                });
            }
            Ok(Incoming::Ping) => link.send_written(Plain::Pong.write()),
            Ok(Incoming::BindingVerdict { refusal: None, .. } | Incoming::Other) => {}
            Err(undecodable) => self.undecodable(link, undecodable, received),
        }
    }

    fn undecodable(&self, link: &Arc<Link>, undecodable: Undecodable, received: Instant) {
        match undecodable {
            Undecodable::Ignored(what) => tracing::debug!(what, "ignored a frame that cannot be read"),
            Undecodable::Invocation { invocation_id, what } => {
                let error = ErrorBody::new(INVOCATION_FAILED, format!("the call cannot be read: {what}"));
                self.answer(link, invocation_id, "unknown", Err(&error), received);
            }
        }
    }

    fn invoke(self: &Arc<Self>, link: &Arc<Link>, invoke: Invoke<'_>, received: Instant) {
        let refuse = |code: &str, message: &str| {
            if let Some(id) = invoke.invocation_id {
                let error = ErrorBody::new(code, message);
                self.answer(link, id, &invoke.function_id, Err(&error), received);
            }
        };
        if self.stopping.load(Ordering::Acquire) {
            return refuse(INVOCATION_STOPPED, "Invocation stopped");
        }
        let Some((function_id, function)) = self.catalogue.function(&invoke.function_id) else {
            return refuse(FUNCTION_NOT_FOUND, "Function not found");
        };
        if *self.running.borrow() >= self.max_running {
            return refuse(INVOCATION_FAILED, "overloaded: too many calls are being executed");
        }
        if let Some(result) = Self::on_the_spot(function, invoke.data) {
            if let Some(id) = invoke.invocation_id {
                self.answer(link, id, function_id, Ok(&*result), received);
            }
            return;
        }
        let call = Call {
            dispatch: Arc::clone(self),
            link: Arc::clone(link),
            invocation_id: invoke.invocation_id,
            function_id: Arc::clone(function_id),
            received,
        };
        let invocation = Invocation {
            function_id: Arc::clone(function_id),
            data: invoke.data.unwrap_or(RawValue::NULL).to_owned(),
            metadata: invoke.metadata.map(ToOwned::to_owned),
        };
        let trace = Trace::of(invoke.traceparent, invoke.baggage);
        self.run(call, contained(Arc::clone(&function.handler), invocation, trace));
    }

    /// The answer that needs neither a copy of the payload nor a future. A panic leaves the call to the handler.
    fn on_the_spot(function: &Function, data: Option<&RawValue>) -> Option<Arc<RawValue>> {
        let look = function.on_the_spot.as_ref()?;
        catch_unwind(AssertUnwindSafe(|| look(data.unwrap_or(RawValue::NULL)))).unwrap_or_default()
    }

    /// Polls once here, and carries on in a task if the handler has to wait for something.
    fn run(self: &Arc<Self>, call: Call, mut work: Pin<Box<dyn Future<Output = Reply> + Send>>) {
        // Nothing is lost by polling without a waker: the task polls again before it sleeps.
        if let Poll::Ready(reply) = work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return call.answer(&reply);
        }
        let running = Running::new(Arc::clone(self));
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(async move {
            let reply = work.await;
            call.answer(&reply);
            drop(running);
        });
    }

    fn answer(
        &self,
        link: &Arc<Link>,
        id: Uuid,
        function_id: &str,
        reply: Result<&RawValue, &ErrorBody>,
        received: Instant,
    ) {
        let frame: Utf8Bytes = answer_frame(id, function_id, reply).into();
        if link.send(Message::Text(frame.clone())).is_ok() {
            self.guard.answered(link, &frame, received);
        }
    }

    fn bind(&self, link: &Arc<Link>, binding: &frame::Binding<'_>) {
        let verdict = self.verdict(binding);
        let answer = Plain::TriggerRegistrationResult {
            id: &binding.id,
            trigger_type: &binding.trigger_type,
            function_id: &binding.function_id,
            error: verdict.as_ref().err(),
        };
        link.send_written(answer.write());
    }

    fn verdict(&self, binding: &frame::Binding<'_>) -> Result<(), ErrorBody> {
        let Some(kind) = self.catalogue.trigger_type(&binding.trigger_type) else {
            return Err(ErrorBody::new(TRIGGER_TYPE_NOT_FOUND, "Trigger type not found"));
        };
        let refused = |message| ErrorBody::new(TRIGGER_REGISTRATION_FAILED, message);
        let config = binding.config.map_or("null", RawValue::get);
        let Ok(config) = serde_json::from_str(config) else {
            // As when a provider refuses: an older version under this id does not live on.
            self.unbind(&binding.id, Some(&binding.trigger_type));
            return Err(refused("config cannot be read"));
        };
        let bind = Bind {
            id: binding.id.clone().into_owned(),
            function_id: binding.function_id.clone().into_owned(),
            config,
            metadata: binding.metadata.map(ToOwned::to_owned),
            namespace: binding.namespace.clone().map(std::borrow::Cow::into_owned),
        };
        catch_unwind(AssertUnwindSafe(|| kind.provider.bind(bind)))
            .unwrap_or_else(|_| Err(refused("the provider failed")))
    }

    fn unbind(&self, id: &str, trigger_type: Option<&str>) {
        // Ids are global, so without a type the id alone says enough.
        let kinds = self.catalogue.trigger_types().iter();
        for kind in kinds.filter(|kind| trigger_type.is_none_or(|wanted| wanted == kind.id)) {
            if catch_unwind(AssertUnwindSafe(|| kind.provider.unbind(id))).is_err() {
                tracing::error!(trigger_type = %kind.id, "a provider failed to forget a binding");
            }
        }
    }

    /// A new connection begins: no binding counts any more.
    pub(super) fn reset_providers(&self) {
        for kind in self.catalogue.trigger_types() {
            if catch_unwind(AssertUnwindSafe(|| kind.provider.reset())).is_err() {
                tracing::error!(trigger_type = %kind.id, "a provider failed to forget its bindings");
            }
        }
    }

    /// Handlers that are running as tasks.
    pub(super) fn running(&self) -> usize {
        *self.running.borrow()
    }

    /// From now on calls are answered with `invocation_stopped`.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// Waits for running handlers, at most `grace`.
    pub(super) async fn drained(&self, grace: Duration) {
        let mut running = self.running.subscribe();
        if tokio::time::timeout(grace, running.wait_for(|count| *count == 0)).await.is_err() {
            tracing::warn!(running = self.running(), "handlers did not finish in time");
        }
    }

    /// Ends the handlers that still run, and waits until they have.
    pub(super) async fn abort(&self) {
        let mut tasks = self.take_tasks();
        tasks.shutdown().await;
    }

    /// Takes the running handlers out; they end when the set is dropped.
    pub(super) fn take_tasks(&self) -> JoinSet<()> {
        std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// An invocation on its way to its one answer.
struct Call {
    dispatch: Arc<Dispatch>,
    link: Arc<Link>,
    invocation_id: Option<Uuid>,
    function_id: Arc<str>,
    received: Instant,
}

impl Call {
    fn answer(self, reply: &Reply) {
        if let Some(id) = self.invocation_id {
            self.dispatch.answer(&self.link, id, &self.function_id, reply.as_deref(), self.received);
        }
    }
}

/// Counts one running task, however it ends.
pub(super) struct Running(Arc<Dispatch>);

impl Running {
    pub(super) fn new(dispatch: Arc<Dispatch>) -> Self {
        dispatch.running.send_modify(|count| *count += 1);
        Self(dispatch)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.send_modify(|count| *count -= 1);
    }
}

/// The handler's work with its panics turned into an answer. The panic's own text stays out of it: it may quote
/// arguments, and the caller may be an agent.
fn contained(
    handler: Handler,
    invocation: Invocation,
    trace: Option<Arc<Trace>>,
) -> Pin<Box<dyn Future<Output = Reply> + Send>> {
    let function_id = Arc::clone(&invocation.function_id);
    let work = trace::scope(trace, async move { handler(invocation).await });
    Box::pin(AssertUnwindSafe(work).catch_unwind().map(move |outcome| {
        outcome.unwrap_or_else(|_| {
            tracing::error!(function_id = %function_id, "a handler panicked");
            Err(ErrorBody::new(INVOCATION_FAILED, "the handler failed"))
        })
    }))
}

/// The frame of an answer. What the engine would drop is replaced: a caller must not wait for ever.
fn answer_frame(invocation_id: Uuid, function_id: &str, reply: Result<&RawValue, &ErrorBody>) -> String {
    let frame = match reply {
        Ok(result) => frame::answer(invocation_id, function_id, result),
        Err(error) => {
            Plain::InvocationResult { invocation_id, function_id, result: None, error: Some(error) }.write()
        }
    };
    frame.unwrap_or_else(|unsendable| {
        tracing::error!(function_id, ?unsendable, "an answer does not fit into a frame");
        let error = ErrorBody::new(INVOCATION_FAILED, "the answer does not fit into a frame");
        // A function id that fits into no frame cannot have been read from one.
        let frame = Plain::InvocationResult { invocation_id, function_id, result: None, error: Some(&error) };
        frame.write().unwrap_or_default()
    })
}

fn rejected(link: &Link, rejection: Rejection<'_>, refusals: &mpsc::Sender<Refusal>) {
    let owner_worker_id = rejection.owner_worker_id.into_owned();
    if rejection.code == WORKER_NAME_TAKEN {
        link.end(Ending::NameTaken { owner_worker_id });
    } else if let Some(function_id) = rejection.function_id {
        let what = Registration::Function(function_id.into_owned());
        let owner = format!("owned by connection `{owner_worker_id}`");
        refuse(refusals, Refusal { what, reason: ErrorBody::new(rejection.code, owner) });
    } else {
        tracing::warn!(code = %rejection.code, "the engine rejected a registration of an unknown kind");
    }
}

fn refuse(refusals: &mpsc::Sender<Refusal>, refusal: Refusal) {
    if let Err(error) = refusals.try_send(refusal) {
        tracing::error!(%error, "more refusals than registrations: one was dropped");
    }
}

#[cfg(test)]
mod tests;
