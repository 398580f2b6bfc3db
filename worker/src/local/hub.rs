//! Everything the connections share, and the way of one call through it.
//!
//! Owns the locks; none is held over an await. It must not know sockets: it reaches a connection through its queue
//! in `world`. The non-obvious fact: every call is its own task, so calls sent back to back may overtake each
//! other, as on the real engine.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::builtin;
use super::clock;
use super::configuration::ConfigurationStore;
use super::faults::{Fault, Faults};
use super::frame::{self, Action, BindForm, ErrorBody, Inbound, InvokeForm, Outcome, Trace};
use super::session_manager::Sessions;
use super::state::StateStore;
use super::turns::Turns;
use super::world::{Executor, PendingCall, World};

/// Who calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Caller {
    /// A worker, by its connection.
    Connection(Uuid),
    /// The stand-in harness; what it calls sees an id as from any other worker.
    Harness,
    /// The engine itself: events. What it calls sees no caller id.
    Engine,
}

/// One call on its way.
pub(super) struct Call {
    pub(super) caller: Caller,
    /// The caller's id for it; `None` where the engine makes one.
    pub(super) id: Option<Uuid>,
    pub(super) namespace: Option<String>,
    pub(super) function_id: String,
    pub(super) data: Value,
    pub(super) metadata: Option<Value>,
    pub(super) trace: Trace,
}

impl Call {
    /// A plain call into the default namespace.
    pub(super) fn new(caller: Caller, function_id: impl Into<String>, data: Value) -> Self {
        let function_id = function_id.into();
        Self { caller, id: None, namespace: None, function_id, data, metadata: None, trace: Trace::default() }
    }
}

/// How a call ended and how often to say so.
pub(super) struct Answered {
    pub(super) outcome: Outcome,
    pub(super) copies: usize,
}

/// What the connections share.
pub(super) struct Hub {
    world: Mutex<World>,
    state: Mutex<StateStore>,
    configuration: Mutex<ConfigurationStore>,
    turns: Mutex<Turns>,
    sessions: Mutex<Sessions>,
    /// One lock per session for the stand-in harness, which may keep it over a call.
    session_locks: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    invocations: Mutex<BTreeMap<String, u64>>,
    /// Every task of the engine; stopping aborts them all and takes the set away, so that none can follow.
    tasks: Mutex<Option<JoinSet<()>>>,
    pub(super) faults: Faults,
    pub(super) environment: BTreeMap<String, String>,
    pub(super) harness_id: Uuid,
    pub(super) started_at_ms: u64,
}

/// A lock whose holder panicked still guards a usable value: every change here is a single step.
fn open<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hub {
    /// An engine without connections.
    pub(super) fn new(
        world: World,
        state: StateStore,
        configuration: ConfigurationStore,
        turns: Turns,
        sessions: Sessions,
        environment: BTreeMap<String, String>,
    ) -> Self {
        Self {
            world: Mutex::new(world),
            state: Mutex::new(state),
            configuration: Mutex::new(configuration),
            turns: Mutex::new(turns),
            sessions: Mutex::new(sessions),
            session_locks: Mutex::default(),
            invocations: Mutex::default(),
            tasks: Mutex::new(Some(JoinSet::new())),
            faults: Faults::new(),
            environment,
            harness_id: Uuid::new_v4(),
            started_at_ms: clock::now_ms(),
        }
    }

    /// Who is connected. Not to be kept over an await.
    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        open(&self.world)
    }

    /// The state store. Not to be kept over an await.
    pub(super) fn state(&self) -> MutexGuard<'_, StateStore> {
        open(&self.state)
    }

    /// The configuration entries. Not to be kept over an await.
    pub(super) fn configuration(&self) -> MutexGuard<'_, ConfigurationStore> {
        open(&self.configuration)
    }

    /// The stand-in harness's turns. Not to be kept over an await.
    pub(super) fn turns(&self) -> MutexGuard<'_, Turns> {
        open(&self.turns)
    }

    /// The stand-in session manager's sessions. Not to be kept over an await.
    pub(super) fn sessions(&self) -> MutexGuard<'_, Sessions> {
        open(&self.sessions)
    }

    /// The lock of one session.
    pub(super) fn session_lock(&self, session_id: &str) -> Arc<tokio::sync::Mutex<()>> {
        open(&self.session_locks).entry(session_id.to_owned()).or_default().clone()
    }

    /// How often each function has been called.
    pub(super) fn invocations(&self) -> BTreeMap<String, u64> {
        open(&self.invocations).clone()
    }

    /// Runs a task until it ends or the engine stops.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = open(&self.tasks);
        let Some(tasks) = tasks.as_mut() else { return };
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    /// Aborts every task; what it returns tells when they are gone.
    pub(super) fn abort(&self) -> JoinSet<()> {
        let mut tasks = open(&self.tasks).take().unwrap_or_default();
        tasks.abort_all();
        tasks
    }

    /// Takes one frame of a connection. Never waits.
    pub(super) fn receive(self: &Arc<Self>, from: Uuid, message: Inbound) {
        match message {
            Inbound::Ping => drop(self.world().send(from, json!({ "type": "pong" }))),
            Inbound::InvocationResult(answer) => self.world().settle(answer),
            Inbound::TriggerRegistrationResult(verdict) => self.world().verdict(from, verdict),
            Inbound::Reattach { previous_worker_id, reattach_token } => {
                let evicted = self.world().reattach(from, &previous_worker_id, reattach_token.as_deref());
                if let Some(evicted) = evicted {
                    self.worker_event("worker_disconnected", evicted);
                }
            }
            Inbound::InvokeFunction(form) => {
                let hub = self.clone();
                self.spawn(async move { hub.serve(from, form).await });
            }
            message if message.is_held_back() => self.world().register(from, message),
            _ => {}
        }
    }

    /// One call of a connection, from its frame to its answer.
    async fn serve(self: Arc<Self>, from: Uuid, form: InvokeForm) {
        let silent = form.invocation_id.is_none() || matches!(form.action, Some(Action::Void));
        let trace = Trace { traceparent: form.traceparent, baggage: form.baggage };
        let function_id = form.function_id.clone();
        let call = Call {
            caller: Caller::Connection(from),
            id: form.invocation_id.filter(|_| !silent),
            namespace: form.namespace,
            function_id: form.function_id,
            data: form.data,
            metadata: form.metadata,
            trace: trace.clone(),
        };
        self.count_active(from, true);
        let answered = match form.action {
            Some(Action::Enqueue { .. }) => Answered { outcome: Err(no_queue()), copies: 1 },
            _ => self.call(call).await,
        };
        self.count_active(from, false);
        let Some(id) = form.invocation_id.filter(|_| !silent) else { return };
        let world = self.world();
        for _ in 0..answered.copies {
            world.send(from, frame::invocation_result(id, &function_id, &answered.outcome, &trace));
        }
    }

    fn count_active(&self, id: Uuid, more: bool) {
        if let Some(connection) = self.world().connections.get_mut(&id) {
            connection.active =
                if more { connection.active + 1 } else { connection.active.saturating_sub(1) };
        }
    }

    /// Routes a call, under whatever fault is in force for it. Boxed because built-in functions call on.
    pub(super) fn call(self: &Arc<Self>, call: Call) -> Pin<Box<dyn Future<Output = Answered> + Send>> {
        let hub = self.clone();
        Box::pin(async move { hub.route(call).await })
    }

    async fn route(self: Arc<Self>, call: Call) -> Answered {
        *open(&self.invocations).entry(call.function_id.clone()).or_default() += 1;
        let caller = match call.caller {
            Caller::Connection(id) => self.world().name_of(id).to_owned(),
            Caller::Harness => "harness".to_owned(),
            Caller::Engine => "engine".to_owned(),
        };
        let Some(mut strike) = self.faults.strike(&call.function_id, &caller) else {
            return Answered { outcome: self.execute(call, 1).await, copies: 1 };
        };
        match strike.fault.clone() {
            Fault::Ignore => return std::future::pending().await,
            Fault::HoldInvocation => strike.released().await,
            Fault::Fail { code, message } => {
                return Answered { outcome: Err(ErrorBody::new(code, message)), copies: 1 };
            }
            _ => {}
        }
        let deliveries = if strike.fault == Fault::DuplicateInvocation { 2 } else { 1 };
        let mut outcome = self.execute(call, deliveries).await;
        let mut copies = 1;
        match strike.fault.clone() {
            Fault::DelayAnswer(delay) => tokio::time::sleep(delay).await,
            Fault::HoldAnswer => strike.released().await,
            Fault::DropAnswer => return std::future::pending().await,
            Fault::FailAfter { code, message } => outcome = Err(ErrorBody::new(code, message)),
            Fault::DuplicateAnswer => copies = 2,
            _ => {}
        }
        Answered { outcome, copies }
    }

    async fn execute(self: &Arc<Self>, mut call: Call, deliveries: usize) -> Outcome {
        let caller_id = match call.caller {
            Caller::Connection(id) => Some(id),
            Caller::Harness => Some(self.harness_id),
            Caller::Engine => None,
        };
        if let (Some(id), Value::Object(data)) = (caller_id, &mut call.data) {
            data.insert("_caller_worker_id".to_owned(), id.to_string().into());
        }
        let (built_in, reply) = {
            let mut world = self.world();
            match world.find(call.namespace.as_deref(), &call.function_id)?.executor.clone() {
                Executor::BuiltIn(function) => (Some(function), None),
                Executor::Worker(worker) => (None, Some(hand_over(&mut world, worker, &call, deliveries)?)),
            }
        };
        match (built_in, reply) {
            (Some(function), _) => builtin::run(self, function, call.caller, call.data).await,
            (None, Some(reply)) => {
                reply.await.unwrap_or_else(|_| Err(ErrorBody::new("invocation_error", "channel closed")))
            }
            (None, None) => Ok(None),
        }
    }

    /// Delivers one event to binds one after another, each waiting for the former's answer, as the real engine
    /// does: a subscriber that never answers keeps the event from those behind it.
    pub(super) fn tell_in_turn(self: &Arc<Self>, binds: Vec<BindForm>, payload: Value) {
        if binds.is_empty() {
            return;
        }
        let hub = self.clone();
        self.spawn(async move {
            for bind in binds {
                if hub.condition_holds(&bind, &payload).await {
                    let _ = hub.call(event_call(&bind, payload.clone())).await;
                }
            }
        });
    }

    async fn condition_holds(self: &Arc<Self>, bind: &BindForm, payload: &Value) -> bool {
        let Some(condition) = bind.config.get("condition_function_id").and_then(Value::as_str) else {
            return true;
        };
        let mut call = Call::new(Caller::Engine, condition, payload.clone());
        call.namespace.clone_from(&bind.namespace);
        match self.call(call).await.outcome {
            Ok(answer) => answer != Some(Value::Bool(false)),
            Err(_) => false,
        }
    }

    /// Delivers one event to binds all at once, waiting for nobody.
    pub(super) fn tell_all(self: &Arc<Self>, caller: Caller, binds: Vec<BindForm>, payload: &Value) {
        for bind in binds {
            let mut call = event_call(&bind, payload.clone());
            call.caller = caller;
            let hub = self.clone();
            self.spawn(async move { drop(hub.call(call).await) });
        }
    }

    /// Tells whoever listens that a worker came, changed or went.
    pub(super) fn worker_event(self: &Arc<Self>, event: &str, worker_id: Uuid) {
        let binds = self.world().engine_binds("engine::workers-available");
        self.tell_all(Caller::Engine, binds, &json!({ "event": event, "worker_id": worker_id.to_string() }));
    }

    /// Tells whoever listens when the set of functions has changed since the last look.
    pub(super) async fn watch_functions(self: Arc<Self>, period: Duration) {
        let mut known = self.function_ids();
        loop {
            tokio::time::sleep(period).await;
            let now = self.function_ids();
            if now != known {
                let binds = self.world().engine_binds("engine::functions-available");
                let functions = super::functions::all_summaries(&self.world());
                let payload = json!({ "event": "functions_changed", "functions": functions });
                self.tell_all(Caller::Engine, binds, &payload);
                known = now;
            }
        }
    }

    fn function_ids(&self) -> Vec<super::world::Key> {
        self.world().functions.keys().cloned().collect()
    }
}

fn event_call(bind: &BindForm, payload: Value) -> Call {
    let mut call = Call::new(Caller::Engine, bind.function_id.clone(), payload);
    call.namespace.clone_from(&bind.namespace);
    call.metadata.clone_from(&bind.metadata);
    call
}

/// Records the call and sends it. Recorded first: an answer cannot come before its call is known.
fn hand_over(
    world: &mut World,
    worker: Uuid,
    call: &Call,
    deliveries: usize,
) -> Result<oneshot::Receiver<Outcome>, ErrorBody> {
    let id = call.id.unwrap_or_else(Uuid::new_v4);
    let (reply, answered) = oneshot::channel();
    // An id already in flight is overwritten: its first caller is told that the channel is closed.
    world.calls.insert(id, PendingCall { executor: worker, reply });
    for _ in 0..deliveries {
        let message = frame::invoke_function(
            id,
            &call.function_id,
            call.data.clone(),
            call.metadata.as_ref(),
            &call.trace,
        );
        if !world.send(worker, message) {
            world.calls.remove(&id);
            return Err(ErrorBody::new("channel_send_failed", "the executing worker's connection is closed"));
        }
    }
    Ok(answered)
}

fn no_queue() -> ErrorBody {
    ErrorBody::new(
        "enqueue_error",
        "No queue provider is installed. `TriggerAction::Enqueue` routes through the `engine::queue::enqueue` \
         provider, which the standalone queue worker registers. Add it with `iii worker add queue`. (underlying: \
         Function engine::queue::enqueue not found in namespace default)",
    )
}
