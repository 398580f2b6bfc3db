//! A small world around the worker that can be taken down and put up again piece by piece.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::engine::{Engine, Keep};
use crate::relay::Relay;
use crate::support::peer::Peer;
use crate::support::siblings::{
    POST_TRIGGER, PRE_TRIGGER, RESOLVE, SESSION_DELETED, Siblings, TURN_COMPLETED,
};
use crate::support::stage::{
    CREATED, ENTRY, ON_CREATED, ON_RESOLVED, PENDING, RESOLVED, console, hook, register_entry,
};
use crate::support::wire::Wire;
use crate::support::worker::Worker;
use crate::support::{Script, eventually};

/// The field by which a resolved hold's marker is known in the store.
const MARKER: &str = "approval_gate_outbox";

/// The calls that a harness has been told to go on with: a call is applied once, later decisions find nothing waiting.
#[derive(Clone, Default)]
pub struct Harness(Arc<Mutex<Told>>);

/// The actions that came for a call, by session and call id.
type Told = HashMap<(String, String), Vec<String>>;

impl Harness {
    /// As a function of the siblings.
    pub fn script(&self) -> Script {
        let harness = self.clone();
        Script::run(move |data| {
            let first = harness.decide(&data);
            let answer = if first {
                json!({"resolved": true, "turn_resumed": true})
            } else {
                json!({"resolved": false})
            };
            async move { Script::Reply(answer) }
        })
    }

    fn decide(&self, data: &Value) -> bool {
        let text = |key: &str| data[key].as_str().unwrap_or_default().to_owned();
        let mut told = self.0.lock().unwrap();
        let told = told.entry((text("session_id"), text("function_call_id"))).or_default();
        told.push(text("action"));
        told.len() == 1
    }

    /// What it was told about a call, oldest first; only the first had an effect.
    pub fn told(&self, session_id: &str, call_id: &str) -> Vec<String> {
        let key = (session_id.to_owned(), call_id.to_owned());
        self.0.lock().unwrap().get(&key).cloned().unwrap_or_default()
    }
}

/// See the module. The worker reaches the engine through the relay and then the wire.
pub struct World {
    engine: Option<Engine>,
    engine_url: String,
    pub wire: Wire,
    pub relay: Relay,
    pub worker: Worker,
    pub siblings: Siblings,
    pub console: Peer,
    pub harness: Harness,
}

impl World {
    /// Everything up; `stored` is the configuration.
    pub async fn start(stored: Value) -> Self {
        let engine = Engine::start().await;
        let engine_url = engine.url();
        let wire = Wire::in_front_of(&engine_url).await;
        let relay = Relay::in_front_of(&wire.url()).await;
        let harness = Harness::default();
        let (siblings, console) = neighbours(&engine_url, &harness).await;
        register_entry(&console, ENTRY, &json!({}), Some(stored)).await;
        let mut worker = Worker::start(&["--url", &relay.url()]);
        worker.ready().await;
        let world =
            Self { engine: Some(engine), engine_url, wire, relay, worker, siblings, console, harness };
        world.serving().await;
        world
    }

    /// The engine's own address, for a second wire in front of it.
    pub fn wire_target(&self) -> String {
        self.engine_url.clone()
    }

    pub fn engine(&self) -> &Engine {
        self.engine.as_ref().unwrap()
    }

    /// Kills the worker and starts it again.
    pub async fn crash_worker(&mut self) {
        self.worker.crash().await;
        self.worker = Worker::start(&["--url", &self.relay.url()]);
        self.worker.ready().await;
        self.serving().await;
    }

    /// Kills the engine, so that nothing that was under way is answered, and starts the next one. The other peers are
    /// back before the worker may connect.
    pub async fn restart_engine(&mut self, gently: bool, keep: Keep) {
        self.wire.refuse(true);
        let engine = self.engine.take().unwrap();
        let stopped = if gently { engine.end().await } else { engine.kill().await };
        self.engine = Some(stopped.start_again(keep).await);
        (self.siblings, self.console) = neighbours(&self.engine_url, &self.harness).await;
    }

    /// The gate answers and its listeners are bound.
    pub async fn serving(&self) {
        eventually("the gate to serve", || async {
            for id in [CREATED, RESOLVED, "approval-gate/pre-trigger"] {
                self.console.call("engine::registered-triggers::info", json!({"id": id})).await.ok()?;
            }
            self.console.call("approval::list-pending", json!({"limit": 1})).await.ok()
        })
        .await;
    }

    /// Asks the gate about a call of turn `t_1`; `None` if nobody answered.
    pub async fn gate(&self, session_id: &str, call_id: &str) -> Option<String> {
        ask_gate(&self.console, session_id, call_id).await
    }

    /// Decides; `None` if there was no answer, else whether it was resolved.
    pub async fn resolve(&self, session_id: &str, call_id: &str, decision: &str) -> Option<bool> {
        let request = json!({"session_id": session_id, "function_call_id": call_id, "decision": decision});
        let answer = self.console.call_within("approval::resolve", request, Duration::from_secs(12)).await?;
        answer.ok()?["resolved"].as_bool()
    }

    /// The turn `t_1` of a session ends.
    pub async fn end_turn(&self, session_id: &str) {
        self.siblings.peer.emit(TURN_COMPLETED, &json!({"session_id": session_id, "turn_id": "t_1"})).await;
    }

    /// A session is deleted.
    pub async fn delete_session(&self, session_id: &str) {
        self.siblings.peer.emit(SESSION_DELETED, &json!({"session_id": session_id})).await;
    }

    /// The rows of a session in the store, markers of ended holds apart.
    pub async fn rows(&self, session_id: &str) -> Vec<Value> {
        let rows = self.console.ask("state::list", json!({"scope": PENDING})).await;
        let mut rows = rows.as_array().cloned().unwrap_or_default();
        rows.retain(|row| row["session_id"] == session_id && row.get(MARKER).is_none());
        rows
    }

    /// Everything that stands under a key, a marker included.
    pub async fn row(&self, session_id: &str, call_id: &str) -> Value {
        self.console
            .ask("state::get", json!({"scope": PENDING, "key": format!("{session_id}/{call_id}")}))
            .await
    }

    /// The whole inbox, page by page, as `session/call`.
    pub async fn inbox(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut request = json!({"limit": 500});
        loop {
            let page = self.console.ask("approval::list-pending", request.clone()).await;
            for record in page["pending"].as_array().unwrap() {
                let text = |key: &str| record[key].as_str().unwrap_or_default().to_owned();
                found.push(format!("{}/{}", text("session_id"), text("function_call_id")));
            }
            match page.get("next_cursor") {
                Some(cursor) if !cursor.is_null() => request["cursor"] = cursor.clone(),
                _ => return found,
            }
        }
    }

    /// The calls of a session in the inbox.
    pub async fn listed(&self, session_id: &str) -> usize {
        let page = self.console.ask("approval::list-pending", json!({"session_id": session_id})).await;
        page["pending"].as_array().unwrap().len()
    }

    /// The events of a session in order of arrival, a repeat of the same event once: `created`, `resolved allow`.
    pub fn story(&self, session_id: &str) -> Vec<String> {
        let mut seen = Vec::new();
        let mut story = Vec::new();
        for heard in self.console.heard().iter().filter(|heard| heard.data["session_id"] == session_id) {
            match heard.function_id.as_str() {
                ON_CREATED => story.push("created".to_owned()),
                ON_RESOLVED => {
                    let id = heard.data["event_id"].to_string();
                    if !seen.contains(&id) {
                        seen.push(id);
                        story.push(format!("resolved {}", heard.data["outcome"].as_str().unwrap_or("?")));
                    }
                }
                _ => {}
            }
        }
        story
    }

    /// How the gate's bindings stand at their providers: each purpose must be there once.
    pub fn bindings(&self) -> Vec<String> {
        let types = [PRE_TRIGGER, POST_TRIGGER, TURN_COMPLETED, SESSION_DELETED];
        types.iter().flat_map(|kind| self.siblings.peer.binds(kind)).map(|bind| bind.id).collect()
    }
}

/// Fresh siblings and a console on the engine.
pub async fn neighbours(url: &str, harness: &Harness) -> (Siblings, Peer) {
    let siblings = Siblings::start(url).await;
    siblings.script(RESOLVE, harness.script());
    (siblings, console(url).await)
}

/// One question to the gate, as a harness puts it.
pub async fn ask_gate(peer: &Peer, session_id: &str, call_id: &str) -> Option<String> {
    let payload = hook(session_id, call_id, "shell::exec", json!({"cmd": "ls"}));
    let answer = peer.call_within("approval::gate", payload, Duration::from_secs(6)).await?;
    Some(answer.ok()?["decision"].as_str()?.to_owned())
}
