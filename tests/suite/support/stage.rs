//! A whole small world for one test: engine, relay, worker, siblings, and a console that listens and asks.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::engine::Engine;
use super::peer::Peer;
use super::script::{Reply, Script};
use super::siblings::Siblings;
use super::wait::{eventually, within};
use super::wire::{QUIET, Wire};
use super::worker::Worker;

pub const ENTRY: &str = "approval-gate";
pub const CREATED: &str = "approval::pending-created";
pub const RESOLVED: &str = "approval::pending-resolved";
pub const ON_CREATED: &str = "suite::on-created";
pub const ON_RESOLVED: &str = "suite::on-resolved";
pub const PENDING: &str = "approval_pending";
pub const SETTINGS: &str = "approval_settings";
pub const DENIED: &str = "approval_filesystem_access_denied";
pub const ATTEMPTS: &str = "approval_filesystem_access_attempts";

/// What is there before the worker starts.
#[derive(Default)]
pub struct StageOptions {
    /// The stored configuration value; none: the entry does not exist.
    pub stored: Option<Value>,
    /// Text of the seed file.
    pub seed: Option<String>,
    /// Rows of the state store: scope, key, value.
    pub rows: Vec<(String, String, Value)>,
    /// No harness, no session-manager.
    pub alone: bool,
}

impl StageOptions {
    /// Only a stored configuration value.
    pub fn stored(value: Value) -> Self {
        Self { stored: Some(value), ..Self::default() }
    }
}

/// An event as a listener got it.
#[derive(Debug, Clone)]
pub struct Event {
    /// `created` or `resolved`.
    pub listener: &'static str,
    pub payload: Value,
}

/// See the module.
pub struct Stage {
    pub engine: Engine,
    pub wire: Wire,
    pub worker: Worker,
    pub siblings: Siblings,
    pub console: Peer,
    /// Holds the seed file for as long as the worker may read it.
    _place: TempDir,
}

impl Stage {
    /// Everything up, shipped configuration.
    pub async fn start() -> Self {
        Self::with(StageOptions::default()).await
    }

    /// Everything up, with this configuration value stored beforehand.
    pub async fn configured(value: Value) -> Self {
        Self::with(StageOptions::stored(value)).await
    }

    /// Everything up.
    pub async fn with(options: StageOptions) -> Self {
        let mut stage = Self::before_ready(options).await;
        stage.worker.ready().await;
        stage.listeners_live().await;
        stage
    }

    /// Everything started; the worker need not be ready yet.
    pub async fn before_ready(options: StageOptions) -> Self {
        let engine = Engine::start().await;
        let wire = Wire::in_front_of(&engine.url()).await;
        let console = console(&engine.url()).await;
        let siblings = match options.alone {
            true => Siblings::silent(&engine.url()).await,
            false => Siblings::start(&engine.url()).await,
        };
        if let Some(value) = options.stored {
            register_entry(&console, ENTRY, &json!({}), Some(value)).await;
        }
        register_entry(&console, "shell", &json!({}), Some(shell_entry())).await;
        for (scope, key, value) in options.rows {
            console.ask("state::set", json!({"scope": scope, "key": key, "value": value})).await;
        }
        let place = tempfile::tempdir().unwrap();
        let url = wire.url();
        let mut arguments = vec!["--url".to_owned(), url];
        if let Some(seed) = options.seed {
            let path = place.path().join("seed.yaml");
            std::fs::write(&path, seed).unwrap();
            arguments.extend(["--config".to_owned(), path.display().to_string()]);
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let worker = Worker::start(&arguments);
        Self { engine, wire, worker, siblings, console, _place: place }
    }

    /// Crashes the worker and starts it again, without a seed.
    pub async fn restart_worker(&mut self) {
        self.worker.crash().await;
        self.start_worker().await;
    }

    /// Starts a worker in place of the one that is gone.
    pub async fn start_worker(&mut self) {
        self.worker = Worker::start(&["--url", &self.wire.url()]);
        self.worker.ready().await;
        self.listeners_live().await;
    }

    /// The two listeners of the console are bound at the worker.
    pub async fn listeners_live(&self) {
        for id in [CREATED, RESOLVED] {
            eventually(&format!("the listener on {id} to be live"), || async {
                self.console.call("engine::registered-triggers::info", json!({"id": id})).await.ok()
            })
            .await;
        }
    }

    /// Asks the worker and expects a result.
    pub async fn ask(&self, function_id: &str, data: Value) -> Value {
        self.console.ask(function_id, data).await
    }

    /// Asks the worker.
    pub async fn call(&self, function_id: &str, data: Value) -> Reply {
        self.console.call(function_id, data).await
    }

    /// The gate's decision on a call.
    pub async fn gate(&self, session_id: &str, call_id: &str, function_id: &str, arguments: Value) -> String {
        decision(&self.ask("approval::gate", hook(session_id, call_id, function_id, arguments)).await)
    }

    /// Sets the configuration value as a console does, and returns when the worker has taken it or turned it down.
    pub async fn configure(&self, value: &Value) {
        let set = self.call("configuration::set", json!({"id": ENTRY, "value": value})).await;
        set.unwrap_or_else(|refusal| panic!("the value {value} was refused at save: {refusal:?}"));
        self.reload().await;
    }

    /// Stores a value that the registered schema would turn down, so that the worker has to.
    pub async fn force_config(&self, value: &Value) {
        let registered = self.ask("configuration::schema", json!({"id": ENTRY})).await;
        register_entry(&self.console, ENTRY, &json!({}), None).await;
        self.ask("configuration::set", json!({"id": ENTRY, "value": value})).await;
        self.reload().await;
        register_entry(&self.console, ENTRY, &registered["schema"], None).await;
    }

    /// Has the worker fetch its configuration again.
    pub async fn reload(&self) {
        self.ask("approval::on-config-change", json!({"id": ENTRY})).await;
    }

    /// A row of the store; absent and `null` are both `Null`.
    pub async fn row(&self, scope: &str, key: &str) -> Value {
        self.ask("state::get", json!({"scope": scope, "key": key})).await
    }

    /// Writes a row of the store.
    pub async fn set_row(&self, scope: &str, key: &str, value: &Value) {
        self.ask("state::set", json!({"scope": scope, "key": key, "value": value})).await;
    }

    /// The live rows of a scope: a removed one may be a stored `null` for a moment.
    pub async fn rows(&self, scope: &str) -> Vec<Value> {
        let rows = self.ask("state::list", json!({"scope": scope})).await;
        rows.as_array().unwrap().iter().filter(|row| !row.is_null()).cloned().collect()
    }

    /// Waits until a row is gone.
    pub async fn row_gone(&self, scope: &str, key: &str) {
        eventually(&format!("the row {scope} {key} to go"), || async {
            self.row(scope, key).await.is_null().then_some(())
        })
        .await;
    }

    /// The events so far, of both listeners, in the order in which they arrived.
    pub fn events(&self) -> Vec<Event> {
        let heard = self.console.heard().into_iter();
        heard
            .filter_map(|heard| {
                let listener = match heard.function_id.as_str() {
                    ON_CREATED => "created",
                    ON_RESOLVED => "resolved",
                    _ => return None,
                };
                Some(Event { listener, payload: heard.data })
            })
            .collect()
    }

    /// The events of one session, written as `created c_1` and `resolved c_1 allow`.
    pub fn story(&self, session_id: &str) -> Vec<String> {
        let events = self.events().into_iter().filter(|event| event.payload["session_id"] == session_id);
        events.map(|event| event.line()).collect()
    }

    /// The same, in the order in which the worker wrote them: an engine may swap what it passes on.
    pub fn story_on_the_wire(&self, session_id: &str) -> Vec<String> {
        let written = self.wire.written_since(0).into_iter();
        written
            .filter(|frame| frame["type"] == "invokefunction" && frame["data"]["session_id"] == session_id)
            .filter_map(|frame| {
                let listener = match frame["function_id"].as_str() {
                    Some(ON_CREATED) => "created",
                    Some(ON_RESOLVED) => "resolved",
                    _ => return None,
                };
                Some(Event { listener, payload: frame["data"].clone() }.line())
            })
            .collect()
    }

    /// Waits for the story of a session to become this, and lets it stand for a moment.
    pub async fn story_becomes(&self, session_id: &str, expected: &[&str]) {
        let _ = within(Duration::from_secs(5), || async {
            (self.story(session_id).len() >= expected.len()).then_some(())
        })
        .await;
        self.quiet().await;
        assert_eq!(
            self.story_on_the_wire(session_id),
            expected,
            "events of {session_id} as the worker wrote them"
        );
        let (mut heard, mut wanted) = (self.story(session_id), expected.to_vec());
        heard.sort();
        wanted.sort_unstable();
        assert_eq!(heard, wanted, "events of {session_id} as they arrived");
    }

    /// Waits until the worker has nothing more to write for a moment.
    pub async fn quiet(&self) {
        let mut last = (self.wire.mark(), Instant::now());
        loop {
            tokio::time::sleep(QUIET / 4).await;
            let mark = self.wire.mark();
            if mark != last.0 {
                last = (mark, Instant::now());
            } else if last.1.elapsed() >= QUIET {
                return;
            }
        }
    }

    /// The bindings of the worker that a provider among the siblings holds, as `type -> function`.
    pub fn bound(&self, trigger_type: &str) -> Vec<(String, String)> {
        let binds = self.siblings.peer.binds(trigger_type).into_iter();
        binds.map(|bind| (bind.id, bind.function_id)).collect()
    }
}

impl Event {
    /// `created c_1`, or `resolved c_1 allow`.
    pub fn line(&self) -> String {
        let call = self.payload["function_call_id"].as_str().unwrap_or("?");
        match self.payload["outcome"].as_str() {
            Some(outcome) => format!("{} {call} {outcome}", self.listener),
            None => format!("{} {call}", self.listener),
        }
    }
}

/// A console: it listens to both event types.
pub async fn console(url: &str) -> Peer {
    let console = Peer::connect(url).await;
    for (trigger_type, function_id) in [(CREATED, ON_CREATED), (RESOLVED, ON_RESOLVED)] {
        console.serve(function_id, Script::Reply(Value::Null));
        console.bind(trigger_type, trigger_type, function_id, &json!({}));
    }
    console.barrier().await;
    console
}

/// What the suite stores under `shell` unless a test says otherwise.
pub fn shell_entry() -> Value {
    json!({"fs": {"host_roots": ["/work"], "sandbox": true}, "other": 1})
}

/// Registers a configuration entry; without a value, a stored one stays.
pub async fn register_entry(peer: &Peer, id: &str, schema: &Value, value: Option<Value>) {
    let mut data = json!({"id": id, "name": id, "description": "registered by the suite", "schema": schema});
    if let Some(value) = value {
        data["initial_value"] = value;
    }
    peer.ask("configuration::register", data).await;
}

/// A pre-trigger payload of turn `t_1`.
pub fn hook(session_id: &str, call_id: &str, function_id: &str, arguments: Value) -> Value {
    hook_in("t_1", session_id, call_id, function_id, arguments)
}

/// A pre-trigger payload.
pub fn hook_in(turn_id: &str, session_id: &str, call_id: &str, function_id: &str, arguments: Value) -> Value {
    json!({"point": "pre_trigger", "session_id": session_id, "turn_id": turn_id, "step": 1, "depth": 0,
           "call": {"id": call_id, "function_id": function_id, "arguments": arguments}})
}

/// A post-trigger payload of a call that failed at the jail.
pub fn failure(session_id: &str, call_id: &str, code: &str, root: &str, path: &str) -> Value {
    failure_of(&hook(session_id, call_id, "shell::fs::read", json!({"path": path})), code, root, path)
}

/// As [`failure`], for the call of a pre-trigger payload.
pub fn failure_of(hook: &Value, code: &str, root: &str, path: &str) -> Value {
    let tail = json!({"v": 1, "requested_root": root, "attempted_path": path, "error_code": code});
    let function_id = hook["call"]["function_id"].as_str().unwrap();
    let message =
        format!("{function_id}: remote error ({code}): path escapes filesystem_access_request={tail}");
    let mut payload = hook.clone();
    payload["point"] = "post_trigger".into();
    payload["result"] = json!({
        "function_call_id": hook["call"]["id"], "function_id": function_id, "is_error": true,
        "content": [{"type": "text", "text": message}],
        "details": {"error": {"code": code, "message": message}},
    });
    payload
}

/// The decision word of a hook's answer.
pub fn decision(answer: &Value) -> String {
    answer["decision"].as_str().unwrap_or_else(|| panic!("no decision in {answer}")).to_owned()
}

/// A record as it is stored.
pub fn record(session_id: &str, call_id: &str, pending_at: i64) -> Value {
    json!({"session_id": session_id, "turn_id": "t_1", "function_call_id": call_id, "function_id": "shell::exec",
           "arguments_excerpt": {"cmd": "ls"}, "pending_at": pending_at, "depth": 0, "kind": "function"})
}

/// A filesystem record as it is stored.
pub fn filesystem_record(session_id: &str, call_id: &str, root: &str) -> Value {
    let mut row = record(session_id, call_id, 1000);
    row["function_id"] = "shell::fs::read".into();
    row["kind"] = "filesystem_access".into();
    row["access_request"] =
        json!({"requested_root": root, "attempted_path": format!("{root}/f"), "error_code": "S215"});
    row
}
