//! An engine that says only what a test tells it to: one end of real sockets, no behaviour of its own.

use std::time::Duration;

use approval_gate::iii::{
    Backoff, BoxFuture, Client, Connected, Function, Handler, Options, Prepare, Registry, Session, Status,
    Timings, start,
};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

/// Nothing in these tests takes this long unless it is broken.
pub const PATIENCE: Duration = Duration::from_secs(10);

pub async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.unwrap_or_else(|_| panic!("waited in vain for {what}"))
}

pub struct Engine {
    listener: TcpListener,
    accepted: usize,
}

impl Engine {
    pub async fn listen() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").await.unwrap(), accepted: 0 }
    }

    pub fn url(&self) -> String {
        format!("ws://{}", self.listener.local_addr().unwrap())
    }

    /// The next connection, with the greeting sent: `worker-<n>` and `token-<n>`, counted from 1.
    pub async fn accept(&mut self) -> Connection {
        let mut connection = self.accept_silently().await;
        let n = self.accepted;
        connection
            .send(&json!({"type":"workerregistered","worker_id":format!("worker-{n}"),"reattach_token":format!("token-{n}")}))
            .await;
        connection
    }

    pub async fn accept_silently(&mut self) -> Connection {
        let (stream, _) = within("a connection", self.listener.accept()).await.unwrap();
        self.accepted += 1;
        Connection(within("the upgrade", tokio_tungstenite::accept_async(stream)).await.unwrap())
    }
}

pub struct Connection(pub WebSocketStream<TcpStream>);

impl Connection {
    pub async fn send(&mut self, frame: &Value) {
        self.send_text(frame.to_string()).await;
    }

    pub async fn send_text(&mut self, text: String) {
        within("the socket to take a frame", self.0.send(Message::text(text))).await.unwrap();
    }

    /// The next frame.
    pub async fn next(&mut self) -> Value {
        within("a frame", self.frame()).await.expect("the connection ended")
    }

    async fn frame(&mut self) -> Option<Value> {
        loop {
            match self.0.next().await? {
                Ok(Message::Text(text)) => return Some(serde_json::from_str(&text).unwrap()),
                Ok(Message::Close(_)) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    /// All frames up to and including the announcement of the worker.
    pub async fn start_sequence(&mut self) -> Vec<Value> {
        let mut frames = Vec::new();
        loop {
            let frame = self.next().await;
            let announced = frame["function_id"] == "engine::workers::register";
            frames.push(frame);
            if announced {
                return frames;
            }
        }
    }

    /// Reads the start sequence and accepts the worker.
    pub async fn welcome(&mut self) -> Vec<Value> {
        let frames = self.start_sequence().await;
        self.answer(frames.last().unwrap(), json!({"success": true})).await;
        frames
    }

    pub async fn answer(&mut self, call: &Value, result: Value) {
        let frame = json!({"type":"invocationresult","invocation_id":call["invocation_id"],"function_id":call["function_id"],"result":result});
        self.send(&frame).await;
    }

    /// Calls a function of the worker; the id that its answer will carry.
    pub async fn invoke(&mut self, function_id: &str, data: &Value) -> String {
        let id = uuid::Uuid::new_v4().to_string();
        self.send(&json!({"type":"invokefunction","invocation_id":id,"function_id":function_id,"data":data}))
            .await;
        id
    }

    /// Reads to the end; whether the worker said goodbye.
    pub async fn closed(mut self) -> bool {
        within("the end of the connection", async {
            loop {
                match self.0.next().await {
                    Some(Ok(Message::Close(_))) => return true,
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return false,
                }
            }
        })
        .await
    }

    /// Whether nothing but pings comes before a ping of ours is answered.
    pub async fn is_quiet(&mut self) -> bool {
        self.send(&json!({"type":"ping"})).await;
        self.next().await == json!({"type":"pong"})
    }
}

/// Short waits, and no repeated answers unless a test wants them.
pub fn quick() -> Timings {
    let backoff = Backoff { base: Duration::from_millis(10), cap: Duration::from_millis(40) };
    Timings {
        reconnect: backoff,
        function_conflict: backoff,
        missing_type: Duration::from_millis(20),
        refused_binding: Duration::from_millis(40),
        repeat_answer: Duration::ZERO,
        ..Timings::default()
    }
}

pub fn options(url: String, timings: Timings) -> Options {
    Options { timings, ..Options::new(url, "approval-gate", "1.2.3", "holds calls") }
}

pub fn unprepared() -> Prepare {
    Arc::new(|_, _| Box::pin(std::future::ready(Ok(()))))
}

pub fn preparing<F>(prepare: F) -> Prepare
where
    F: Fn(Client, Connected) -> BoxFuture<Result<(), String>> + Send + Sync + 'static,
{
    Arc::new(prepare)
}

pub fn function(id: &str, handler: Handler) -> Function {
    Function {
        id: id.into(),
        description: format!("describes {id}"),
        request_schema: json!({"title": "Request"}),
        response_schema: json!({"title": "Answer"}),
        metadata: None,
        handler,
        on_the_spot: None,
    }
}

/// A worker with these functions and nothing else, ready on its first connection.
pub async fn ready(engine: &mut Engine, functions: Vec<Function>) -> (Client, Session, Connection) {
    let registry = Registry { functions, ..Registry::default() };
    let (client, session) = start(options(engine.url(), quick()), |_| registry, unprepared());
    let mut connection = engine.accept().await;
    connection.welcome().await;
    status(&session, |status| matches!(status, Status::Ready { .. })).await;
    (client, session, connection)
}

pub async fn status(session: &Session, wanted: impl Fn(&Status) -> bool) -> Status {
    let mut status = session.status();
    within("a status", status.wait_for(wanted)).await.unwrap().clone()
}
