//! A bare WebSocket client that keeps every frame it gets, so that what did *not* come can be seen too.

#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::stream::SplitSink;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

/// Longest wait for anything that must happen.
pub const PATIENCE: Duration = Duration::from_secs(15);

/// How a connection ended, as its client sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// A close frame came first.
    WithCloseFrame,
    /// The socket just ended.
    Dropped,
}

pub enum Event {
    Frame(Value),
    Ended(Ended),
}

pub struct Client {
    sink: SplitSink<WebSocketStream<TcpStream>, Message>,
    events: mpsc::UnboundedReceiver<Event>,
    pub worker_id: String,
    pub token: String,
    /// Frames that came and were not asked for yet.
    pub waiting: Vec<Value>,
    pub ended: Option<Ended>,
}

pub async fn upgrade(address: SocketAddr, path: &str) -> Result<WebSocketStream<TcpStream>, u16> {
    let stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let limits = WebSocketConfig::default().max_frame_size(None).max_message_size(None);
    let url = format!("ws://{address}{path}");
    match tokio_tungstenite::client_async_with_config(url, stream, Some(limits)).await {
        Ok((socket, _)) => Ok(socket),
        Err(tokio_tungstenite::tungstenite::Error::Http(response)) => Err(response.status().as_u16()),
        Err(error) => panic!("cannot connect: {error}"),
    }
}

impl Client {
    pub async fn open(address: SocketAddr, path: &str) -> Self {
        let socket = upgrade(address, path).await.unwrap();
        let (sink, mut stream) = socket.split();
        let (sender, events) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut ended = Ended::Dropped;
            while let Some(Ok(message)) = stream.next().await {
                match message {
                    Message::Text(text) => {
                        let _ = sender.send(Event::Frame(serde_json::from_str(text.as_str()).unwrap()));
                    }
                    Message::Close(_) => ended = Ended::WithCloseFrame,
                    _ => {}
                }
            }
            let _ = sender.send(Event::Ended(ended));
        });
        let mut client = Self {
            sink,
            events,
            worker_id: String::new(),
            token: String::new(),
            waiting: Vec::new(),
            ended: None,
        };
        let greeting = client.next().await;
        assert_eq!(greeting["type"], "workerregistered", "the first frame is the greeting");
        greeting["worker_id"].as_str().unwrap().clone_into(&mut client.worker_id);
        greeting["reattach_token"].as_str().unwrap().clone_into(&mut client.token);
        client
    }

    /// Opens and announces a worker.
    pub async fn worker(address: SocketAddr, name: &str) -> Self {
        let mut client = Self::open(address, "/").await;
        client.call("engine::workers::register", json!({ "name": name, "pid": 1 })).await.unwrap();
        client
    }

    pub async fn send(&mut self, frame: &Value) {
        self.send_text(frame.to_string()).await;
    }

    pub async fn send_text(&mut self, text: String) {
        let _ = self.sink.send(Message::text(text)).await;
    }

    pub async fn send_binary(&mut self, text: String) {
        let _ = self.sink.send(Message::binary(text.into_bytes())).await;
    }

    /// Asks to close, as a client does.
    pub async fn close(&mut self) {
        let _ = self.sink.close().await;
    }

    /// Takes in whatever comes next; false when the connection has ended.
    pub async fn take_in(&mut self) -> bool {
        match self.events.recv().await {
            Some(Event::Frame(frame)) => {
                self.waiting.push(frame);
                true
            }
            Some(Event::Ended(ended)) => {
                self.ended = Some(ended);
                false
            }
            None => false,
        }
    }

    /// Takes in whatever is there already.
    pub fn drain(&mut self) {
        while let Ok(event) = self.events.try_recv() {
            match event {
                Event::Frame(frame) => self.waiting.push(frame),
                Event::Ended(ended) => self.ended = Some(ended),
            }
        }
    }

    /// The next frame.
    pub async fn next(&mut self) -> Value {
        self.find("any frame", |_| true).await
    }

    /// The first frame that fits, waiting for it; others stay.
    pub async fn find(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let wait = async {
            loop {
                if let Some(at) = self.waiting.iter().position(&fits) {
                    return Some(self.waiting.remove(at));
                }
                if !self.take_in().await {
                    return None;
                }
            }
        };
        let came = tokio::time::timeout(PATIENCE, wait).await;
        match came.unwrap_or_else(|_| panic!("waited in vain for {what}; there is {:?}", self.waiting)) {
            Some(frame) => frame,
            None => panic!("the connection ended while waiting for {what}"),
        }
    }

    pub async fn until_ended(&mut self) -> Ended {
        let wait = async { while self.ended.is_none() && self.take_in().await {} };
        tokio::time::timeout(PATIENCE, wait).await.expect("the connection does not end");
        self.ended.unwrap()
    }

    /// Waits until the engine has read everything sent so far.
    pub async fn settle(&mut self) {
        self.send(&json!({ "type": "ping" })).await;
        self.find("pong", |frame| frame["type"] == "pong").await;
    }

    /// Sends a call and returns its id.
    pub async fn start(&mut self, function_id: &str, data: Value) -> String {
        let id = uuid::Uuid::new_v4().to_string();
        self.send(&json!({ "type": "invokefunction", "invocation_id": id, "function_id": function_id, "data": data }))
            .await;
        id
    }

    /// The answer to a call: the result (`null` when there is none), or the error.
    pub async fn answer(&mut self, id: &str) -> Result<Value, Value> {
        let frame = self
            .find("an answer", |frame| frame["type"] == "invocationresult" && frame["invocation_id"] == id)
            .await;
        frame.get("error").map_or_else(|| Ok(frame["result"].clone()), |error| Err(error.clone()))
    }

    pub async fn call(&mut self, function_id: &str, data: Value) -> Result<Value, Value> {
        let id = self.start(function_id, data).await;
        self.answer(&id).await
    }

    /// The next call to one of this worker's functions.
    pub async fn invoked(&mut self, function_id: &str) -> Value {
        self.find(function_id, |frame| {
            frame["type"] == "invokefunction" && frame["function_id"] == function_id
        })
        .await
    }

    pub async fn reply(&mut self, invocation: &Value, result: Value) {
        let frame = json!({ "type": "invocationresult", "invocation_id": invocation["invocation_id"],
            "function_id": invocation["function_id"], "result": result });
        self.send(&frame).await;
    }

    pub async fn function(&mut self, id: &str) {
        self.send(&json!({ "type": "registerfunction", "id": id })).await;
        self.settle().await;
    }

    pub async fn bind(&mut self, id: &str, trigger_type: &str, function_id: &str, config: Value) {
        self.send(&json!({ "type": "registertrigger", "id": id, "trigger_type": trigger_type,
            "function_id": function_id, "config": config }))
            .await;
        self.settle().await;
    }

    /// What has come and was not asked for, once the engine has read everything sent so far.
    pub async fn left_over(&mut self) -> Vec<Value> {
        self.settle().await;
        self.waiting.clone()
    }
}
