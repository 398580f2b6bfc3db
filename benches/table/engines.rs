//! Somewhere to run: the local engine, or a real one when `III_ENGINE_BIN` names its binary; a worker on it, and a
//! caller that also offers the functions that figures are held against.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use approval_gate::boot;
use approval_gate::clock::Deadline;
use approval_gate::iii::{self, Binding, CallError, Client, Function, Registry, Session, Status, handler};
use approval_gate::local::{self, StateStore};
use approval_gate::wire::schema;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The floor: answers what the gate answers, without looking at anything.
pub const ECHO: &str = "bench::echo";

/// The same, registered with the schemas of the gate: the real engine copies a function's schemas for every call of it.
pub const DESCRIBED_ECHO: &str = "bench::described-echo";

const LISTENER: &str = "bench::listener";

/// In this session the harness, and whoever listens to its holds, takes half a second over everything.
pub const SLOW_SESSION: &str = "s_slow";

/// How long anything may take.
const PATIENCE: Duration = Duration::from_mins(1);

/// An engine with a caller on it.
pub struct Place {
    pub kind: &'static str,
    pub url: String,
    pub caller: Client,
    sessions: [Session; 2],
    engine: Running,
}

enum Running {
    Local(Box<local::Engine>),
    Real { engine: Box<tokio::process::Child>, _place: tempfile::TempDir },
}

/// A worker on an engine, in this process.
pub struct Worker {
    stop: tokio::sync::oneshot::Sender<()>,
    task: JoinHandle<Result<(), boot::BootError>>,
}

impl Place {
    /// The engine that the environment asks for.
    pub async fn open() -> Self {
        match std::env::var_os("III_ENGINE_BIN") {
            Some(binary) => Self::open_real(Path::new(&binary)).await,
            None => Self::open_local(StateStore::default()).await,
        }
    }

    /// A local engine with this in its store.
    pub async fn open_local(state: StateStore) -> Self {
        let options = local::EngineOptions { state: Some(state), ..Default::default() };
        let engine = local::Engine::start(options).await.unwrap();
        let url = engine.url();
        Self::with_caller("local engine", url, Running::Local(Box::new(engine))).await
    }

    async fn open_real(binary: &Path) -> Self {
        let port =
            std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let place = tempfile::tempdir().unwrap();
        let text = format!(
            "workers:
  - name: iii-worker-manager
    config: {{ host: 127.0.0.1, port: {port} }}
  - name: configuration
    config: {{ adapter: {{ name: fs, config: {{ directory: '{}' }} }} }}
  - name: iii-state
    config: {{ adapter: {{ name: kv, config: {{ store_method: in_memory }} }} }}
  - name: iii-telemetry
    config: {{ enabled: false }}
  - name: iii-observability
    config: {{ enabled: false }}
",
            place.path().join("configuration").display()
        );
        std::fs::create_dir_all(place.path().join("configuration")).unwrap();
        std::fs::write(place.path().join("config.yaml"), text).unwrap();
        let engine = tokio::process::Command::new(binary)
            .args(["--config", "config.yaml", "--no-update-check"])
            .current_dir(place.path())
            .env("HOME", place.path())
            .env("XDG_DATA_HOME", place.path().join("data"))
            .env("III_TELEMETRY_ENABLED", "false")
            .env("IIIWORKER_DISABLE_BUILTIN_DAEMONS", "1")
            .env_remove("III_CONFIG_PATH")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Self::with_caller(
            "real engine",
            format!("ws://127.0.0.1:{port}"),
            Running::Real { engine: Box::new(engine), _place: place },
        )
        .await
    }

    async fn with_caller(kind: &'static str, url: String, engine: Running) -> Self {
        let listens = Binding {
            id: "bench/listener".to_owned(),
            trigger_type: "approval::pending-created".to_owned(),
            function_id: LISTENER.to_owned(),
            config: json!({"session_id": SLOW_SESSION}),
        };
        // Two connections, so that a call to the floor takes the same way as one to the worker.
        let connect = |name: &str, functions: Vec<Function>, bindings: Vec<Binding>| {
            let registry = Registry { functions, bindings, ..Registry::default() };
            let options = iii::Options::new(&url, name, "1", "what figures are held against");
            iii::start(options, |_| registry, Arc::new(|_, _| Box::pin(async { Ok(()) })))
        };
        let (_, floor) = connect("bench-floor", offered(), vec![listens]);
        let (caller, session) = connect("bench-caller", Vec::new(), Vec::new());
        ready(floor.status()).await;
        ready(session.status()).await;
        Self { kind, caller, sessions: [floor, session], engine, url }
    }

    /// Starts a worker and waits until it serves.
    pub async fn worker(&self) -> Worker {
        let worker = boot::start(&boot::Options { url: self.url.clone(), seed: None });
        let status = worker.status();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let task = tokio::spawn(worker.run(async {
            let _ = stopped.await;
        }));
        ready(status).await;
        Worker { stop, task }
    }

    /// Calls a function that must not fail.
    pub async fn ask(&self, function_id: &str, data: &Value) -> Value {
        ask(&self.caller, function_id, data).await.unwrap()
    }

    pub async fn close(self, worker: Worker) {
        let _ = worker.stop.send(());
        let _ = worker.task.await;
        for session in self.sessions {
            session.shutdown(Duration::ZERO).await;
        }
        match self.engine {
            Running::Local(engine) => drop(engine.stop().await),
            Running::Real { mut engine, .. } => engine.kill().await.unwrap(),
        }
    }
}

/// Calls a function.
pub async fn ask(caller: &Client, function_id: &str, data: &Value) -> Result<Value, CallError> {
    caller.call(function_id, data, Deadline::after(PATIENCE)).await?.value()
}

/// A payload of the hook.
pub fn hook(session_id: &str, call_id: &str, function_id: &str) -> Value {
    json!({
        "point": "pre_trigger", "session_id": session_id, "turn_id": "t_1", "step": 1, "depth": 0,
        "metadata": {"fs_scope": {"root": "/srv/app"}},
        "call": {"id": call_id, "function_id": function_id, "arguments": {"path": "/srv/app/readme.md", "limit": 200}},
    })
}

/// The echo, a harness that releases whatever it is told to, and a listener; the latter two are slow in one session.
fn offered() -> Vec<Function> {
    let constant = |id: &str, answer: &'static str| Function {
        id: id.to_owned(),
        description: "answers the same to everything".to_owned(),
        request_schema: json!({}),
        response_schema: json!({}),
        metadata: None,
        handler: handler(move |call| async move {
            if call.data.get().contains(SLOW_SESSION) {
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            Ok(RawValue::from_string(answer.to_owned()).unwrap())
        }),
        on_the_spot: None,
    };
    let answer = r#"{"decision":"continue"}"#;
    let gate = schema::functions().into_iter().find(|function| function.id == schema::GATE).unwrap();
    vec![
        constant(ECHO, answer),
        Function {
            description: gate.description.to_owned(),
            request_schema: gate.request,
            response_schema: gate.response,
            ..constant(DESCRIBED_ECHO, answer)
        },
        constant("harness::function::resolve", r#"{"resolved":true,"turn_resumed":true}"#),
        constant(LISTENER, "null"),
    ]
}

async fn ready(mut status: watch::Receiver<Status>) {
    let ready = status.wait_for(|status| matches!(status, Status::Ready { .. }));
    tokio::time::timeout(PATIENCE, ready).await.unwrap().unwrap();
}
