//! A relay between the worker and the engine: records every frame in order, and breaks things on request.
//!
//! Faults live here and not in an engine, so that the same test breaks the same thing on every engine. What the worker
//! wrote is recorded before it is passed on: this is the order on its wire.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio_tungstenite::tungstenite::Message;

use super::peer::{no_limits, open};
use super::script::{Latch, Script};

/// Who wrote a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    Worker,
    Engine,
}

/// A frame that passed, or was swallowed by a fault.
#[derive(Debug, Clone)]
pub struct Passed {
    pub from: From,
    pub frame: Value,
}

/// What happens to a call of the worker that a fault matches.
#[derive(Clone)]
pub enum Act {
    /// The engine never sees it; the worker gets this answer, or silence.
    Instead(Script),
    /// The engine sees it when the latch opens.
    HoldCall(Latch),
    /// The engine sees it at once; the worker gets the answer when the latch opens.
    HoldAnswer(Latch),
    /// It takes effect, but the answer never comes.
    LoseAnswer,
    /// It is passed on, and the connection is cut when the answer comes.
    CutAfter,
}

struct Fault {
    matches: Box<dyn Fn(&str, &Value) -> bool + Send>,
    act: Act,
    left: Option<u64>,
}

enum AnswerFate {
    Hold(Latch),
    Lose,
    Cut,
}

struct Shared {
    engine: String,
    passed: Mutex<Vec<Passed>>,
    faults: Mutex<Vec<Fault>>,
    fates: Mutex<HashMap<String, AnswerFate>>,
    attempts: AtomicU64,
    refusing: AtomicBool,
    frozen: watch::Sender<bool>,
    cut: watch::Sender<u64>,
}

/// See the module.
#[derive(Clone)]
pub struct Wire {
    shared: Arc<Shared>,
    port: u16,
}

impl Wire {
    /// Listens on a free port of the loopback interface in front of an engine.
    pub async fn in_front_of(engine: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            engine: engine.to_owned(),
            passed: Mutex::default(),
            faults: Mutex::default(),
            fates: Mutex::default(),
            attempts: AtomicU64::new(0),
            refusing: AtomicBool::new(false),
            frozen: watch::channel(false).0,
            cut: watch::channel(0).0,
        });
        let accepting = shared.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                accepting.attempts.fetch_add(1, Ordering::SeqCst);
                if !accepting.refusing.load(Ordering::SeqCst) {
                    tokio::spawn(relay(accepting.clone(), stream));
                }
            }
        });
        Self { shared, port }
    }

    pub fn url(&self) -> String {
        format!("ws://127.0.0.1:{}", self.port)
    }

    /// Drops every connection, both sides, without a close frame.
    pub fn cut(&self) {
        self.shared.cut.send_modify(|count| *count += 1);
    }

    /// While on, new connections are dropped at once.
    pub fn refuse(&self, on: bool) {
        self.shared.refusing.store(on, Ordering::SeqCst);
    }

    /// While on, nothing passes in either direction and the sockets stay open.
    pub fn freeze(&self, on: bool) {
        self.shared.frozen.send_replace(on);
    }

    /// How often the worker tried to connect.
    pub fn attempts(&self) -> u64 {
        self.shared.attempts.load(Ordering::SeqCst)
    }

    /// Breaks every matching call from now on.
    pub fn break_calls(&self, matches: impl Fn(&str, &Value) -> bool + Send + 'static, act: Act) {
        self.add(matches, act, None);
    }

    /// Breaks the next matching call.
    pub fn break_once(&self, matches: impl Fn(&str, &Value) -> bool + Send + 'static, act: Act) {
        self.add(matches, act, Some(1));
    }

    fn add(&self, matches: impl Fn(&str, &Value) -> bool + Send + 'static, act: Act, left: Option<u64>) {
        self.shared.faults.lock().unwrap().push(Fault { matches: Box::new(matches), act, left });
    }

    /// Takes all faults away.
    pub fn mend(&self) {
        self.shared.faults.lock().unwrap().clear();
    }

    /// How much passed so far: a mark to look behind later.
    pub fn mark(&self) -> usize {
        self.shared.passed.lock().unwrap().len()
    }

    /// The frames that the worker wrote since the mark.
    pub fn written_since(&self, mark: usize) -> Vec<Value> {
        let passed = self.shared.passed.lock().unwrap();
        passed.iter().skip(mark).filter(|one| one.from == From::Worker).map(|one| one.frame.clone()).collect()
    }

    /// Payloads of the calls that the worker made of one function since the mark.
    pub fn calls_since(&self, mark: usize, function_id: &str) -> Vec<Value> {
        self.written_since(mark)
            .into_iter()
            .filter(|frame| frame["type"] == "invokefunction" && frame["function_id"] == function_id)
            .map(|frame| frame["data"].clone())
            .collect()
    }
}

async fn relay(shared: Arc<Shared>, stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let Ok(worker) = tokio_tungstenite::accept_async_with_config(stream, Some(no_limits())).await else {
        return;
    };
    let Some(engine) = open(&shared.engine).await else { return };
    let mut cut = shared.cut.subscribe();
    cut.mark_unchanged();
    let (mut to_worker, mut from_worker) = worker.split();
    let (mut to_engine, mut from_engine) = engine.split();
    let (worker_out, mut worker_queue) = mpsc::unbounded_channel::<Message>();
    let (engine_out, mut engine_queue) = mpsc::unbounded_channel::<Message>();
    let side = Side { shared: shared.clone(), worker_out, engine_out };
    let upward = async {
        while let Some(Ok(message)) = from_worker.next().await {
            thawed(&side.shared).await;
            if !matches!(message, Message::Close(_)) {
                side.pass_up(message);
            }
        }
    };
    let downward = async {
        while let Some(Ok(message)) = from_engine.next().await {
            thawed(&side.shared).await;
            side.pass_down(message);
        }
    };
    let write_up = async {
        while let Some(message) = engine_queue.recv().await {
            if to_engine.send(message).await.is_err() {
                break;
            }
        }
    };
    let write_down = async {
        while let Some(message) = worker_queue.recv().await {
            if to_worker.send(message).await.is_err() {
                break;
            }
        }
    };
    // Whichever ends first ends the connection: both sockets are dropped together.
    let was_cut = tokio::select! {
        () = upward => false,
        () = downward => false,
        () = write_up => false,
        () = write_down => false,
        _ = cut.changed() => true,
    };
    // A worker that closes has written its last words; only a cut may lose them.
    while let Ok(message) = engine_queue.try_recv() {
        if was_cut || to_engine.send(message).await.is_err() {
            break;
        }
    }
    let _ = to_engine.flush().await;
}

async fn thawed(shared: &Shared) {
    let mut frozen = shared.frozen.subscribe();
    let _ = frozen.wait_for(|frozen| !*frozen).await;
}

struct Side {
    shared: Arc<Shared>,
    worker_out: mpsc::UnboundedSender<Message>,
    engine_out: mpsc::UnboundedSender<Message>,
}

impl Side {
    fn record(&self, from: From, message: &Message) -> Option<Value> {
        let Message::Text(text) = message else { return None };
        let frame: Value = serde_json::from_str(text).ok()?;
        self.shared.passed.lock().unwrap().push(Passed { from, frame: frame.clone() });
        Some(frame)
    }

    fn pass_up(&self, message: Message) {
        let call = self.record(From::Worker, &message).filter(|frame| frame["type"] == "invokefunction");
        let act = call.as_ref().and_then(|frame| self.fault_for(frame));
        let (Some(frame), Some(act)) = (call, act) else {
            let _ = self.engine_out.send(message);
            return;
        };
        let id = frame["invocation_id"].as_str().unwrap_or_default().to_owned();
        match act {
            Act::Instead(script) => self.answer_instead(frame, script),
            Act::HoldCall(latch) => {
                let out = self.engine_out.clone();
                tokio::spawn(async move {
                    latch.opened().await;
                    let _ = out.send(message);
                });
            }
            Act::HoldAnswer(latch) => self.pass_with_fate(message, id, AnswerFate::Hold(latch)),
            Act::LoseAnswer => self.pass_with_fate(message, id, AnswerFate::Lose),
            Act::CutAfter => self.pass_with_fate(message, id, AnswerFate::Cut),
        }
    }

    fn fault_for(&self, frame: &Value) -> Option<Act> {
        let function_id = frame["function_id"].as_str().unwrap_or_default();
        let mut faults = self.shared.faults.lock().unwrap();
        let place = faults
            .iter()
            .position(|fault| fault.left != Some(0) && (fault.matches)(function_id, &frame["data"]))?;
        let fault = &mut faults[place];
        fault.left = fault.left.map(|left| left - 1);
        Some(fault.act.clone())
    }

    fn pass_with_fate(&self, message: Message, id: String, fate: AnswerFate) {
        self.shared.fates.lock().unwrap().insert(id, fate);
        let _ = self.engine_out.send(message);
    }

    fn answer_instead(&self, frame: Value, script: Script) {
        let out = self.worker_out.clone();
        tokio::spawn(async move {
            let mut answer = json!({"type": "invocationresult", "invocation_id": frame["invocation_id"],
                                    "function_id": frame["function_id"]});
            match script.play(frame["data"].clone()).await {
                Some(Ok(value)) => answer["result"] = value,
                Some(Err(refusal)) => {
                    answer["error"] = json!({"code": refusal.code, "message": refusal.message});
                }
                None => return,
            }
            let _ = out.send(Message::text(answer.to_string()));
        });
    }

    fn pass_down(&self, message: Message) {
        let answer = self.record(From::Engine, &message).filter(|frame| frame["type"] == "invocationresult");
        let fate = answer.and_then(|frame| {
            let id = frame["invocation_id"].as_str().unwrap_or_default().to_owned();
            self.shared.fates.lock().unwrap().remove(&id)
        });
        match fate {
            None => {
                let _ = self.worker_out.send(message);
            }
            Some(AnswerFate::Lose) => {}
            Some(AnswerFate::Cut) => self.shared.cut.send_modify(|count| *count += 1),
            Some(AnswerFate::Hold(latch)) => {
                let out = self.worker_out.clone();
                tokio::spawn(async move {
                    latch.opened().await;
                    let _ = out.send(message);
                });
            }
        }
    }
}

/// Matches a call of one function, whatever it carries.
pub fn calls_of(function_id: &'static str) -> impl Fn(&str, &Value) -> bool + Send + 'static {
    move |called, _| called == function_id
}

/// Matches a `state::*` call of one function in one scope.
pub fn state_calls(
    function_id: &'static str,
    scope: &'static str,
) -> impl Fn(&str, &Value) -> bool + Send + 'static {
    move |called, data| called == function_id && data["scope"] == scope
}

/// When the worker has written nothing for so long, it is taken to be done with what it was asked.
pub const QUIET: Duration = Duration::from_millis(40);
