//! Stand-ins for the workers around us: the harness, the session-manager and the owner of the `shell` entry.
//!
//! Answers are scripted per function, or per function and session, so that one stage can serve many sessions at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::peer::Peer;
use super::script::Script;

pub const RESOLVE: &str = "harness::function::resolve";
pub const GRANTS: &str = "harness::filesystem::grants";
pub const GRANT: &str = "harness::filesystem::grant";
pub const SESSION_GET: &str = "session::get";
pub const PRE_TRIGGER: &str = "harness::hook::pre-trigger";
pub const POST_TRIGGER: &str = "harness::hook::post-trigger";
pub const TURN_COMPLETED: &str = "harness::turn-completed";
pub const SESSION_DELETED: &str = "session::deleted";

const FUNCTIONS: [&str; 4] = [RESOLVE, GRANTS, GRANT, SESSION_GET];
const TRIGGER_TYPES: [&str; 4] = [PRE_TRIGGER, POST_TRIGGER, TURN_COMPLETED, SESSION_DELETED];

#[derive(Default)]
struct Table {
    for_all: HashMap<String, Script>,
    for_session: HashMap<(String, String), Script>,
    grants: HashMap<String, Vec<String>>,
}

/// See the module.
#[derive(Clone)]
pub struct Siblings {
    pub peer: Peer,
    table: Arc<Mutex<Table>>,
}

impl Siblings {
    /// Connects and serves everything.
    pub async fn start(url: &str) -> Self {
        let siblings = Self::silent(url).await;
        siblings.serve_all();
        siblings.peer.barrier().await;
        siblings
    }

    /// Connects and serves nothing yet.
    pub async fn silent(url: &str) -> Self {
        Self { peer: Peer::connect(url).await, table: Arc::default() }
    }

    /// Registers all functions and trigger types.
    pub fn serve_all(&self) {
        for trigger_type in TRIGGER_TYPES {
            self.peer.provide(trigger_type);
        }
        for function_id in FUNCTIONS {
            self.serve(function_id);
        }
    }

    /// Registers one function with its table of answers.
    pub fn serve(&self, function_id: &'static str) {
        let table = self.table.clone();
        self.peer.serve(
            function_id,
            Script::run(move |data| {
                let script = table.lock().unwrap().script_for(function_id, &data);
                async move { script }
            }),
        );
    }

    /// Scripts a function for every session that has no script of its own.
    pub fn script(&self, function_id: &str, script: Script) {
        self.table.lock().unwrap().for_all.insert(function_id.to_owned(), script);
    }

    /// Scripts a function for one session.
    pub fn script_for(&self, session_id: &str, function_id: &str, script: Script) {
        let key = (function_id.to_owned(), session_id.to_owned());
        self.table.lock().unwrap().for_session.insert(key, script);
    }

    /// Sets the durable folder grants of a session.
    pub fn set_grants(&self, session_id: &str, roots: Vec<String>) {
        self.table.lock().unwrap().grants.insert(session_id.to_owned(), roots);
    }

    /// Back to the answers of a harness that says yes and a session-manager that knows no session.
    pub fn reset(&self) {
        *self.table.lock().unwrap() = Table::default();
        for function_id in FUNCTIONS {
            self.serve(function_id);
        }
    }

    /// What session-manager tells about a session.
    pub fn describe(&self, session_id: &str, meta: &Value) {
        let mut meta = meta.clone();
        meta["session_id"] = session_id.into();
        self.script_for(session_id, SESSION_GET, Script::Reply(json!({"meta": meta})));
    }

    /// What the worker asked about one session, oldest first: function and payload.
    pub fn asked(&self, session_id: &str) -> Vec<(String, Value)> {
        let heard = self.peer.heard().into_iter();
        heard
            .filter(|heard| heard.data["session_id"] == session_id)
            .map(|heard| (heard.function_id, heard.data))
            .collect()
    }

    /// Payloads that one function got about one session, oldest first.
    pub fn asked_of(&self, function_id: &str, session_id: &str) -> Vec<Value> {
        let asked = self.asked(session_id).into_iter();
        asked.filter(|(asked, _)| asked == function_id).map(|(_, data)| data).collect()
    }
}

impl Table {
    fn script_for(&mut self, function_id: &str, data: &Value) -> Script {
        let session_id = data["session_id"].as_str().unwrap_or_default().to_owned();
        let key = (function_id.to_owned(), session_id.clone());
        if let Some(script) = self.for_session.get_mut(&key) {
            return script.next();
        }
        if let Some(script) = self.for_all.get_mut(function_id) {
            return script.next();
        }
        Script::Reply(match function_id {
            RESOLVE => json!({"resolved": true, "turn_resumed": true}),
            GRANTS => {
                json!({"session_id": session_id, "roots": self.grants.get(&session_id).cloned().unwrap_or_default()})
            }
            GRANT => {
                let roots = self.grants.entry(session_id.clone()).or_default();
                roots.push(data["root"].as_str().unwrap_or_default().to_owned());
                json!({"session_id": session_id, "roots": roots})
            }
            _ => Value::Null,
        })
    }
}
