//! A relay that stops the world at one frame of the worker, or says every frame twice.
//!
//! Frames are passed on one by one, so a stop is exact: stopped *before* a frame, the engine never saw it; stopped *after*
//! it, the engine has carried it out, and the worker never learns. Nothing else passes from then on, in either direction,
//! until the worker is gone.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;

use crate::support::Latch;
use crate::support::peer::{no_limits, open};

/// On which side of the frame the world stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    Before,
    After,
}

type Matches = Box<dyn Fn(&Value) -> bool + Send>;

struct Armed {
    matches: Matches,
    when: When,
    reached: Latch,
}

struct Shared {
    engine: String,
    armed: Mutex<Option<Armed>>,
    twice: AtomicBool,
    answered: Mutex<HashSet<String>>,
    connections: AtomicU64,
    asked: Mutex<Vec<(String, Instant)>>,
}

/// See the module.
pub struct Relay {
    shared: Arc<Shared>,
    port: u16,
}

impl Relay {
    /// Listens on a free port of the loopback interface in front of an engine.
    pub async fn in_front_of(engine: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            engine: engine.to_owned(),
            armed: Mutex::default(),
            twice: AtomicBool::new(false),
            answered: Mutex::default(),
            connections: AtomicU64::new(0),
            asked: Mutex::default(),
        });
        let accepting = shared.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(relay(accepting.clone(), stream));
            }
        });
        Self { shared, port }
    }

    pub fn url(&self) -> String {
        format!("ws://127.0.0.1:{}", self.port)
    }

    /// How many connections of the worker came about.
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// When the worker was asked for a function.
    pub fn asked(&self, function_id: &str) -> Vec<Instant> {
        let asked = self.shared.asked.lock().unwrap();
        asked.iter().filter(|(asked, _)| asked == function_id).map(|(_, at)| *at).collect()
    }

    /// Arms the stop. The latch opens when the world has stopped.
    pub fn stop_at(&self, matches: impl Fn(&Value) -> bool + Send + 'static, when: When) -> Latch {
        let reached = Latch::new();
        let armed = Armed { matches: Box::new(matches), when, reached: reached.clone() };
        *self.shared.armed.lock().unwrap() = Some(armed);
        reached
    }

    /// While on, every frame passes twice, in both directions. Only a call of another worker passes once: the engine
    /// answers with an error of its own when it gets two of one id, and would do so for ever.
    pub fn say_twice(&self, on: bool) {
        self.shared.twice.store(on, Ordering::SeqCst);
    }
}

/// What is still let through on one connection.
enum Flow {
    Open,
    /// Stopped for the worker; its engine side waits for the answer to this call.
    AwaitingAnswer(String, Latch),
    Stopped,
}

async fn relay(shared: Arc<Shared>, stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let Ok(mut worker) = tokio_tungstenite::accept_async_with_config(stream, Some(no_limits())).await else {
        return;
    };
    let Some(mut engine) = open(&shared.engine).await else { return };
    shared.connections.fetch_add(1, Ordering::SeqCst);
    let mut flow = Flow::Open;
    loop {
        tokio::select! {
            message = worker.next() => {
                let Some(Ok(message)) = message else { return };
                let Flow::Open = flow else { continue };
                let frame = parsed(&message);
                let armed = frame.as_ref().and_then(|frame| shared.strike(frame));
                if let Some(Armed { when: When::Before, reached, .. }) = &armed {
                    reached.open();
                    flow = Flow::Stopped;
                    continue;
                }
                if shared.pass(&mut engine, message, frame.as_ref().is_some_and(may_come_twice)).await.is_none() {
                    return;
                }
                if let (Some(Armed { reached, .. }), Some(frame)) = (armed, frame) {
                    flow = after(&frame, reached);
                }
            }
            message = engine.next() => {
                let Some(Ok(message)) = message else { return };
                let frame = parsed(&message);
                shared.note(frame.as_ref());
                match &flow {
                    Flow::Open if shared.pass(&mut worker, message, frame.is_some()).await.is_none() => return,
                    Flow::AwaitingAnswer(id, reached)
                        if frame.as_ref().is_some_and(|frame| {
                            frame["type"] == "invocationresult" && frame["invocation_id"] == **id
                        }) =>
                    {
                        reached.open();
                        flow = Flow::Stopped;
                    }
                    _ => {}
                }
            }
        }
    }
}

/// A call has been carried out when its answer is there; everything else when it was written.
fn after(frame: &Value, reached: Latch) -> Flow {
    let wants_answer = frame["type"] == "invokefunction" && frame["action"]["type"] != "void";
    if let Some(id) = frame["invocation_id"].as_str().filter(|_| wants_answer) {
        return Flow::AwaitingAnswer(id.to_owned(), reached);
    }
    reached.open();
    Flow::Stopped
}

fn may_come_twice(frame: &Value) -> bool {
    let function_id = frame["function_id"].as_str().unwrap_or_default();
    let built_in =
        ["state::", "configuration::", "engine::"].iter().any(|group| function_id.starts_with(group));
    frame["type"] != "invokefunction" || frame["action"]["type"] == "void" || built_in
}

fn parsed(message: &Message) -> Option<Value> {
    let Message::Text(text) = message else { return None };
    serde_json::from_str(text).ok()
}

impl Shared {
    /// An answer that the worker repeats is no new frame of what it does now.
    fn strike(&self, frame: &Value) -> Option<Armed> {
        let answer = frame["type"] == "invocationresult";
        let id = frame["invocation_id"].as_str().unwrap_or_default();
        if answer && !self.answered.lock().unwrap().insert(id.to_owned()) {
            return None;
        }
        let mut armed = self.armed.lock().unwrap();
        if armed.as_ref().is_some_and(|armed| (armed.matches)(frame)) { armed.take() } else { None }
    }

    fn note(&self, frame: Option<&Value>) {
        let Some(frame) = frame.filter(|frame| frame["type"] == "invokefunction") else { return };
        let function_id = frame["function_id"].as_str().unwrap_or_default().to_owned();
        self.asked.lock().unwrap().push((function_id, Instant::now()));
    }

    /// A close frame is not passed on: the peer sees the connection drop.
    async fn pass<S>(&self, to: &mut S, message: Message, may_come_twice: bool) -> Option<()>
    where
        S: SinkExt<Message> + Unpin,
    {
        if matches!(message, Message::Close(_)) {
            return None;
        }
        if may_come_twice && self.twice.load(Ordering::SeqCst) {
            to.feed(message.clone()).await.ok()?;
        }
        to.send(message).await.ok()
    }
}
