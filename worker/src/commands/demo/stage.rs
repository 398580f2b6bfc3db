//! Who takes part in the demo: a local engine, the worker, and one more worker that offers pretend functions, listens
//! to both trigger types and answers in a person's place. Also the bookkeeping of what was checked.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::boot::{self, BootError};
use crate::clock::Deadline;
use crate::iii::{self, Binding, CallError, Client, Function, Handler, Registry, Session, Status};
use crate::local::{Engine, EngineOptions};

/// How long any one step may take.
const STEP: Duration = Duration::from_secs(10);

/// Everything that was delivered to the second worker, in order: the function it was for, and its payload.
type Seen = Arc<Mutex<Vec<(&'static str, Value)>>>;

/// The stage.
pub(super) struct Stage {
    engine: Engine,
    worker: JoinHandle<Result<(), BootError>>,
    stop_worker: oneshot::Sender<()>,
    peer: Session,
    client: Client,
    seen: Seen,
    changed: watch::Receiver<usize>,
    checks: usize,
    failed: usize,
}

impl Stage {
    /// Starts everybody.
    pub(super) async fn set() -> Result<Self, String> {
        let options = EngineOptions { harness: true, session_manager: true, ..EngineOptions::default() };
        let engine = Engine::start(options).await.map_err(|error| error.to_string())?;
        let (stop_worker, stop) = oneshot::channel::<()>();
        let worker = boot::start(&boot::Options { url: engine.url(), seed: None });
        let ready = worker.status();
        let worker = tokio::spawn(worker.run(async {
            let _ = stop.await;
        }));
        becomes_ready(ready, "the worker").await?;
        let seen = Seen::default();
        let (announce, changed) = watch::channel(0);
        let registry = cast(&seen, announce);
        let peer = iii::Options::new(
            engine.url(),
            "demo",
            env!("CARGO_PKG_VERSION"),
            "pretend functions, listeners and an answerer",
        );
        let (client, peer) = iii::start(peer, |_| registry, Arc::new(|_, _| Box::pin(async { Ok(()) })));
        becomes_ready(peer.status(), "the demo's own worker").await?;
        Ok(Self { engine, worker, stop_worker, peer, client, seen, changed, checks: 0, failed: 0 })
    }

    /// Calls a function as a console would.
    pub(super) async fn call(&self, function_id: &str, data: Value) -> Result<Value, String> {
        let answer = self.client.call(function_id, &data, Deadline::after(STEP)).await;
        answer.and_then(|answer| answer.value()).map_err(|error| match error {
            CallError::Refused { code, message, .. } => format!("{code}: {message}"),
            other => other.to_string(),
        })
    }

    /// An agent's call, through the stand-in harness.
    pub(super) async fn agent(
        &self,
        call_id: &str,
        function_id: &str,
        arguments: Value,
    ) -> Result<Value, String> {
        let call = json!({"id": call_id, "function_id": function_id, "arguments": arguments});
        let metadata = json!({"fs_scope": {"root": "/work/app"}});
        let data = json!({"session_id": "s_demo", "turn_id": "t_1", "call": call, "metadata": metadata});
        self.call("harness::function::trigger", data).await
    }

    /// The first event or call since `from` that was delivered to this function of the second worker.
    pub(super) async fn delivered(&mut self, from: usize, function_id: &str) -> Result<Value, String> {
        let deadline = Deadline::after(STEP);
        loop {
            let found = {
                let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
                seen.iter().skip(from).find(|(id, _)| *id == function_id).map(|(_, payload)| payload.clone())
            };
            if let Some(payload) = found {
                return Ok(payload);
            }
            let waited = tokio::time::timeout_at(deadline.instant(), self.changed.changed()).await;
            if !matches!(waited, Ok(Ok(()))) {
                return Err(format!("nothing was delivered to {function_id}"));
            }
        }
    }

    /// How much has been delivered so far.
    pub(super) fn mark(&self) -> usize {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// How often this function of the second worker was called.
    pub(super) fn times(&self, function_id: &str) -> usize {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.iter().filter(|(id, _)| *id == function_id).count()
    }

    /// Prints what happened, and whether it should have.
    pub(super) fn check(&mut self, holds: bool, what: &str) {
        self.checks += 1;
        self.failed += usize::from(!holds);
        super::say(&format!("  {} {what}", if holds { "ok    " } else { "FAILED" }));
    }

    /// How many checks there were, and how many failed.
    pub(super) fn result(&self) -> (usize, usize) {
        (self.checks, self.failed)
    }

    /// Stops everybody.
    pub(super) async fn strike(self) {
        let _ = self.stop_worker.send(());
        let _ = self.worker.await;
        self.peer.shutdown(Duration::ZERO).await;
        self.engine.stop().await;
    }
}

async fn becomes_ready(mut status: watch::Receiver<Status>, who: &str) -> Result<(), String> {
    let ready = status.wait_for(|status| matches!(status, Status::Ready { .. }));
    match tokio::time::timeout(STEP, ready).await {
        Ok(Ok(_)) => Ok(()),
        _ => Err(format!("{who} did not become ready")),
    }
}

/// The second worker: ordinary functions, two listeners, and an answerer.
fn cast(seen: &Seen, announce: watch::Sender<usize>) -> Registry {
    let announce = Arc::new(announce);
    let function = |id: &'static str, description: &str, answer: Value| Function {
        id: id.to_owned(),
        description: description.to_owned(),
        request_schema: json!({"type": "object"}),
        response_schema: json!({}),
        metadata: None,
        handler: noting(id, answer, Arc::clone(seen), Arc::clone(&announce)),
        on_the_spot: None,
    };
    let binding = |id: &str, trigger_type: &str, function_id: &str, config: Value| Binding {
        id: format!("demo/{id}"),
        trigger_type: trigger_type.to_owned(),
        function_id: function_id.to_owned(),
        config,
    };
    let ours = json!({"session_id": "s_demo"});
    Registry {
        functions: vec![
            function("clock::now", "tells the time", json!({"now": "noon"})),
            function("deploy::run", "deploys, or would", json!({"deployed": true})),
            function("db::vacuum", "tidies a database, or would", json!({"tidied": true})),
            function("demo::judge", "knows when maintenance is welcome", json!({"decision": "allow"})),
            function("demo::on-created", "hears of new holds", Value::Null),
            function("demo::on-resolved", "hears of decisions", Value::Null),
        ],
        trigger_types: Vec::new(),
        bindings: vec![
            binding("created", "approval::pending-created", "demo::on-created", ours.clone()),
            binding("resolved", "approval::pending-resolved", "demo::on-resolved", ours),
            binding(
                "judge",
                "approval::answerer",
                "demo::judge",
                json!({"functions": ["db::vacuum", "db::migrate"]}),
            ),
        ],
    }
}

/// A function that notes what it was called with and answers the same each time.
fn noting(id: &'static str, answer: Value, seen: Seen, announce: Arc<watch::Sender<usize>>) -> Handler {
    Arc::new(move |invocation| {
        let payload = serde_json::from_str(invocation.data.get()).unwrap_or_default();
        seen.lock().unwrap_or_else(PoisonError::into_inner).push((id, payload));
        announce.send_modify(|count| *count += 1);
        let answer = to_raw_value(&answer).map_err(|error| iii::ErrorBody::new("demo", error.to_string()));
        Box::pin(async move { answer })
    })
}
