//! A worker and client on a raw WebSocket: calls, is called, provides trigger types, binds, and remembers everything it heard.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use uuid::Uuid;

use super::frames;
use super::script::{Refusal, Reply, Script};
use super::wait::eventually;

/// How long a call of the suite itself may take before the test fails.
const CALL_LIMIT: Duration = Duration::from_secs(12);

/// One call that reached a function of the peer.
#[derive(Debug, Clone)]
pub struct Heard {
    pub function_id: String,
    /// The payload without the caller id that the engine adds.
    pub data: Value,
    /// The binding's metadata, when it was an event.
    pub metadata: Option<Value>,
    /// What an answer has to name; null when none is wanted.
    pub invocation_id: Value,
}

/// A binding that the engine handed to the peer as provider.
#[derive(Debug, Clone)]
pub struct Bind {
    pub id: String,
    pub trigger_type: String,
    pub function_id: String,
    pub config: Value,
}

#[derive(Default)]
struct Memory {
    waiting: HashMap<String, oneshot::Sender<(Reply, bool)>>,
    scripts: HashMap<String, Script>,
    heard: Vec<Heard>,
    binds: HashMap<String, Bind>,
    bind_requests: Vec<Bind>,
    bind_refusal: HashMap<String, Value>,
    refused: HashMap<String, Refusal>,
}

/// See the module.
#[derive(Clone)]
pub struct Peer {
    out: mpsc::UnboundedSender<Message>,
    memory: Arc<Mutex<Memory>>,
}

/// No limit of our own: an inbox is one message.
pub fn no_limits() -> WebSocketConfig {
    WebSocketConfig::default().max_message_size(None).max_frame_size(None)
}

/// Opens a WebSocket to an address of the form `ws://host:port`.
pub async fn open(url: &str) -> Option<WebSocketStream<TcpStream>> {
    let stream = TcpStream::connect(url.strip_prefix("ws://")?).await.ok()?;
    stream.set_nodelay(true).ok()?;
    let opened = tokio_tungstenite::client_async_with_config(url, stream, Some(no_limits())).await.ok()?;
    Some(opened.0)
}

impl Peer {
    /// Connects and announces itself without a name, so that any number of peers can live side by side.
    pub async fn connect(url: &str) -> Self {
        let socket = open(url).await.unwrap_or_else(|| panic!("the peer could not connect to {url}"));
        let (mut write, mut read) = socket.split();
        let (out, mut queue) = mpsc::unbounded_channel::<Message>();
        let memory = Arc::new(Mutex::new(Memory::default()));
        tokio::spawn(async move {
            while let Some(message) = queue.recv().await {
                if write.send(message).await.is_err() {
                    break;
                }
            }
            let _ = write.close().await;
        });
        let peer = Self { out, memory: memory.clone() };
        let listener = peer.clone();
        tokio::spawn(async move {
            while let Some(Ok(message)) = read.next().await {
                let text = match message {
                    Message::Text(text) => text,
                    Message::Close(_) => break,
                    _ => continue,
                };
                if let Ok(frame) = serde_json::from_str::<Value>(&text) {
                    listener.receive(&frame);
                }
            }
            memory.lock().unwrap().waiting.clear();
        });
        peer.call(frames::ANNOUNCE, json!({"runtime": "suite", "version": "0", "pid": std::process::id()}))
            .await
            .unwrap_or_else(|refusal| panic!("the engine refused the peer: {refusal:?}"));
        peer
    }

    /// Writes a frame as it is.
    pub fn send(&self, frame: &Value) {
        let _ = self.out.send(Message::text(frame.to_string()));
    }

    /// Calls and waits; silence fails the test.
    pub async fn call(&self, function_id: &str, data: Value) -> Reply {
        self.call_within(function_id, data, CALL_LIMIT)
            .await
            .unwrap_or_else(|| panic!("no answer from {function_id} within {CALL_LIMIT:?}"))
    }

    /// Calls and expects a result.
    pub async fn ask(&self, function_id: &str, data: Value) -> Value {
        let shown = data.to_string().chars().take(300).collect::<String>();
        self.call(function_id, data)
            .await
            .unwrap_or_else(|refusal| panic!("{function_id} {shown} was refused: {refusal:?}"))
    }

    /// Calls and waits for so long; `None` is silence, or a lost connection.
    pub async fn call_within(&self, function_id: &str, data: Value, limit: Duration) -> Option<Reply> {
        self.call_with_presence(function_id, data, limit).await.map(|(reply, _)| reply)
    }

    /// As [`Self::call_within`], and whether the `result` key was there: absent and `null` differ for built-ins.
    pub async fn call_with_presence(
        &self,
        function_id: &str,
        data: Value,
        limit: Duration,
    ) -> Option<(Reply, bool)> {
        let id = Uuid::new_v4().to_string();
        let (send, receive) = oneshot::channel();
        self.memory.lock().unwrap().waiting.insert(id.clone(), send);
        self.send(&frames::invoke(&id, function_id, &data));
        tokio::time::timeout(limit, receive).await.ok().and_then(Result::ok)
    }

    /// Everything sent so far on this connection has been handled when this returns.
    pub async fn barrier(&self) {
        let _ = self.call("engine::registered-triggers::info", json!({"id": "suite-barrier"})).await;
    }

    /// Exports a function, or changes how an exported one answers.
    pub fn serve(&self, function_id: &str, script: Script) {
        let known = self.memory.lock().unwrap().scripts.insert(function_id.to_owned(), script).is_some();
        if !known {
            self.send(&frames::register_function(function_id));
        }
    }

    /// Withdraws a function.
    pub fn withdraw(&self, function_id: &str) {
        if self.memory.lock().unwrap().scripts.remove(function_id).is_some() {
            self.send(&frames::unregister_function(function_id));
        }
    }

    /// Becomes provider of a trigger type.
    pub fn provide(&self, trigger_type: &str) {
        self.send(&frames::register_trigger_type(trigger_type));
    }

    /// As provider, refuses binds of this type from now on, with this error body; `None` accepts again.
    pub fn refuse_binds(&self, trigger_type: &str, error: Option<Value>) {
        let mut memory = self.memory.lock().unwrap();
        match error {
            Some(error) => memory.bind_refusal.insert(trigger_type.to_owned(), error),
            None => memory.bind_refusal.remove(trigger_type),
        };
    }

    /// Binds as a frame; nothing says that it worked.
    pub fn bind(&self, id: &str, trigger_type: &str, function_id: &str, config: &Value) {
        self.send(&frames::register_trigger(id, trigger_type, function_id, config));
    }

    /// Unbinds.
    pub fn unbind(&self, id: &str) {
        self.send(&frames::unregister_trigger(id));
    }

    /// Binds and waits until the engine lists it as live.
    pub async fn bind_live(&self, id: &str, trigger_type: &str, function_id: &str, config: &Value) {
        self.bind(id, trigger_type, function_id, config);
        eventually(&format!("the binding {id} on {trigger_type} to be live"), || async {
            if let Some(refusal) = self.bind_refused(id) {
                panic!("the binding {id} was refused: {refusal:?}");
            }
            self.call("engine::registered-triggers::info", json!({"id": id})).await.ok()
        })
        .await;
    }

    /// The verdict on a bind, from the function path, which waits for the provider.
    pub async fn bind_verdict(&self, trigger_type: &str, function_id: &str, config: &Value) -> Reply {
        self.call(
            "engine::register_trigger",
            json!({"trigger_type": trigger_type, "function_id": function_id, "config": config}),
        )
        .await
    }

    /// The refusal of a bind that was sent as a frame, if one came.
    pub fn bind_refused(&self, id: &str) -> Option<Refusal> {
        self.memory.lock().unwrap().refused.get(id).cloned()
    }

    /// As provider: the live binds of a type.
    pub fn binds(&self, trigger_type: &str) -> Vec<Bind> {
        let memory = self.memory.lock().unwrap();
        let mut binds: Vec<_> =
            memory.binds.values().filter(|bind| bind.trigger_type == trigger_type).cloned().collect();
        binds.sort_by(|a, b| a.id.cmp(&b.id));
        binds
    }

    /// As provider: every bind request, repeated ones too.
    pub fn bind_requests(&self) -> Vec<Bind> {
        self.memory.lock().unwrap().bind_requests.clone()
    }

    /// As provider: fires at every bind of the type, and returns what the targets answered.
    pub async fn emit(&self, trigger_type: &str, payload: &Value) -> Vec<Reply> {
        let mut replies = Vec::new();
        for bind in self.binds(trigger_type) {
            replies.push(self.call(&bind.function_id, payload.clone()).await);
        }
        replies
    }

    /// Every call that reached this peer, oldest first.
    pub fn heard(&self) -> Vec<Heard> {
        self.memory.lock().unwrap().heard.clone()
    }

    /// The payloads that one function got, oldest first.
    pub fn heard_by(&self, function_id: &str) -> Vec<Value> {
        self.heard()
            .into_iter()
            .filter(|heard| heard.function_id == function_id)
            .map(|heard| heard.data)
            .collect()
    }

    /// Forgets what it heard.
    pub fn forget(&self) {
        self.memory.lock().unwrap().heard.clear();
    }

    fn receive(&self, frame: &Value) {
        match frame["type"].as_str() {
            Some("invocationresult") => self.receive_answer(frame),
            Some("invokefunction") => self.receive_call(frame.clone()),
            Some("registertrigger") => self.receive_bind(frame),
            Some("unregistertrigger") => {
                let id = frame["id"].as_str().unwrap_or_default();
                self.memory.lock().unwrap().binds.remove(id);
            }
            Some("triggerregistrationresult") => {
                if let Some(refusal) = refusal_of(frame) {
                    let id = frame["id"].as_str().unwrap_or_default().to_owned();
                    self.memory.lock().unwrap().refused.insert(id, refusal);
                }
            }
            Some("ping") => self.send(&json!({"type": "pong"})),
            _ => {}
        }
    }

    fn receive_answer(&self, frame: &Value) {
        let id = frame["invocation_id"].as_str().unwrap_or_default();
        let waiting = self.memory.lock().unwrap().waiting.remove(id);
        if let Some(waiting) = waiting {
            let reply = match refusal_of(frame) {
                Some(refusal) => Err(refusal),
                None => Ok(frame["result"].clone()),
            };
            let _ = waiting.send((reply, frame.get("result").is_some()));
        }
    }

    fn receive_call(&self, frame: Value) {
        let function_id = frame["function_id"].as_str().unwrap_or_default().to_owned();
        let mut data = frame["data"].clone();
        if let Some(fields) = data.as_object_mut() {
            fields.remove("_caller_worker_id");
        }
        let script = {
            let mut memory = self.memory.lock().unwrap();
            memory.heard.push(Heard {
                function_id: function_id.clone(),
                data: data.clone(),
                metadata: frame.get("metadata").cloned(),
                invocation_id: frame["invocation_id"].clone(),
            });
            memory.scripts.get_mut(&function_id).map(Script::next)
        };
        let peer = self.clone();
        tokio::spawn(async move {
            // The engine can lose an answer that beats its own bookkeeping, so no answer is instant.
            tokio::time::sleep(Duration::from_millis(1)).await;
            let Some(script) = script else {
                peer.send(&frames::refusal(&frame, "function_not_found", "not served here"));
                return;
            };
            match script.play(data).await {
                Some(Ok(value)) => peer.send(&frames::answer(&frame, &value)),
                Some(Err(refusal)) => peer.send(&frames::refusal(&frame, &refusal.code, &refusal.message)),
                None => {}
            }
        });
    }

    fn receive_bind(&self, frame: &Value) {
        let text = |key: &str| frame[key].as_str().unwrap_or_default().to_owned();
        let bind = Bind {
            id: text("id"),
            trigger_type: text("trigger_type"),
            function_id: text("function_id"),
            config: frame["config"].clone(),
        };
        let refusal = {
            let mut memory = self.memory.lock().unwrap();
            memory.bind_requests.push(bind.clone());
            let refusal = memory.bind_refusal.get(&bind.trigger_type).cloned();
            match refusal {
                Some(_) => memory.binds.remove(&bind.id),
                None => memory.binds.insert(bind.id.clone(), bind),
            };
            refusal
        };
        self.send(&frames::bind_verdict(frame, refusal.as_ref()));
    }
}

fn refusal_of(frame: &Value) -> Option<Refusal> {
    let error = frame.get("error").filter(|error| !error.is_null())?;
    Some(Refusal::new(
        error["code"].as_str().unwrap_or_default(),
        error["message"].as_str().unwrap_or_default(),
    ))
}
