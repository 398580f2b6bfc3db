//! Decisions per second over one WebSocket with no engine's work in between, beside an echo of bare frames.
//!
//! The other end sends calls and counts answers, the same way for both. An answer that the worker repeats (it guards
//! against an engine that lost it) counts once.

use std::time::{Duration, Instant};

use approval_gate::boot;
use futures_util::{FutureExt, SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, accept_async, client_async};
use uuid::Uuid;

use crate::calls::rules;
use crate::engines::hook;
use crate::process;
use crate::report::{Samples, Table, times};

const IN_FLIGHT: usize = 64;

type WebSocket = WebSocketStream<TcpStream>;

pub async fn measure(table: &mut Table) {
    let (listener, echo_listener) = (listen().await, listen().await);
    let url = format!("ws://{}", listener.local_addr().unwrap());
    let worker = boot::start(&boot::Options { url, seed: None });
    let worker = tokio::spawn(worker.run(std::future::pending()));
    let mut gate = accept(&listener).await;
    serve_until_ready(&mut gate).await;
    let echo = tokio::spawn(bare_echo(echo_listener.local_addr().unwrap()));
    let mut bare = accept(&echo_listener).await;
    let (mut of_gate, mut of_echo) = (Vec::new(), Vec::new());
    let mut next = 0;
    for _ in 0..times(20) {
        of_echo.push(rate(&mut bare, &mut next).await);
        of_gate.push(rate(&mut gate, &mut next).await);
    }
    echo.abort();
    worker.abort();
    let middle = |rates: &mut Vec<f64>| {
        rates.sort_by(f64::total_cmp);
        (rates[0], rates[rates.len() / 2], rates[rates.len() - 1])
    };
    let (gate, echo) = (middle(&mut of_gate), middle(&mut of_echo));
    table.row(
        "decisions per second, 64 in flight, the other end in this process, against a bare WebSocket echo",
        "≥ 150,000, inside the echo's range",
        format!(
            "{:.0} ({:.0} to {:.0}) against {:.0} ({:.0} to {:.0})",
            gate.1, gate.0, gate.2, echo.1, echo.0, echo.2
        ),
        Some(gate.1 >= 150_000.0 && gate.1 >= echo.0),
    );
}

async fn listen() -> TcpListener {
    TcpListener::bind(("127.0.0.1", 0)).await.unwrap()
}

async fn accept(listener: &TcpListener) -> WebSocket {
    let (stream, _) = listener.accept().await.unwrap();
    stream.set_nodelay(true).unwrap();
    accept_async(stream).await.unwrap()
}

/// Sends back what comes, all that is there in one go.
async fn bare_echo(address: std::net::SocketAddr) {
    let stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (mut socket, _) = client_async(format!("ws://{address}"), stream).await.unwrap();
    while let Some(Ok(message)) = socket.next().await {
        socket.feed(message).await.unwrap();
        while let Some(Some(Ok(message))) = socket.next().now_or_never() {
            socket.feed(message).await.unwrap();
        }
        socket.flush().await.unwrap();
    }
}

/// Decisions of a process of its own while it loads 1,000 rules. Nothing else is at work: this end plays the engine and has
/// the answers ready.
pub async fn reload(table: &mut Table) {
    let listener = listen().await;
    let url = format!("ws://{}", listener.local_addr().unwrap());
    let mut worker = process::spawn(&url);
    let mut gate = accept(&listener).await;
    serve_until_ready(&mut gate).await;
    let (mut quiet, mut loading, mut next) = (Samples::default(), Samples::default(), 1 << 64);
    for round in 0..times(60) {
        window(&mut gate, &mut next, &mut quiet, None).await;
        // Each time another value, or nothing would change.
        let value =
            json!({"default_mode": "full", "grant_reask_limit": 1 + round % 5, "rules": rules(1_000)})
                .to_string();
        window(&mut gate, &mut next, &mut loading, Some(&value)).await;
    }
    let at = |share| (loading.at(share) / 1e3, quiet.at(share) / 1e3);
    let ((usual, usual_quiet), (longest, longest_quiet)) = (at(0.999), at(1.0));
    table.row(
        "decisions of a process of its own while it loads 1,000 rules, against quiet times, without an engine's work",
        "≤ 1 ms later",
        format!("p99.9 {usual:.2} against {usual_quiet:.2} ms, longest {longest:.2} against {longest_quiet:.2} ms"),
        Some(usual - usual_quiet <= 1.0),
    );
    worker.kill().await.unwrap();
}

/// Calls one after the other for a tenth of a second, from the notice of a new value on if there is one.
async fn window(socket: &mut WebSocket, next: &mut u128, samples: &mut Samples, value: Option<&str>) {
    if value.is_some() {
        let notice =
            json!({"type": "invokefunction", "function_id": "approval::on-config-change", "data": {}});
        socket.send(Message::text(notice.to_string())).await.unwrap();
    }
    let until = Instant::now() + Duration::from_millis(100);
    while Instant::now() < until {
        *next += 1;
        let asked = Instant::now();
        socket.send(Message::text(frame(*next))).await.unwrap();
        loop {
            let message = socket.next().await.unwrap().unwrap();
            let text = message.to_text().unwrap();
            if id_of(text) == Some(*next) {
                break;
            }
            if let (Some(value), true) = (value, text.contains("\"configuration::get\"")) {
                let call: Value = serde_json::from_str(text).unwrap();
                let id = &call["invocation_id"];
                let answer = format!(
                    r#"{{"type":"invocationresult","invocation_id":{id},"function_id":"configuration::get","result":{{"value":{value}}}}}"#
                );
                socket.send(Message::text(answer)).await.unwrap();
            }
        }
        samples.push(asked.elapsed());
    }
}

/// Plays the engine until the worker has asked for all it wants to know.
async fn serve_until_ready(socket: &mut WebSocket) {
    let hello = json!({"type": "workerregistered", "worker_id": "w_1"});
    socket.send(Message::text(hello.to_string())).await.unwrap();
    // It has nothing more to ask when it has been silent for a while.
    while let Ok(Some(Ok(message))) = tokio::time::timeout(Duration::from_millis(700), socket.next()).await {
        let Ok(text) = message.to_text() else { continue };
        let Ok(call) = serde_json::from_str::<Value>(text) else { continue };
        if call["type"] != "invokefunction" || call["invocation_id"].is_null() {
            continue;
        }
        let result = match call["function_id"].as_str().unwrap() {
            "configuration::get" => json!({"value": {"default_mode": "full", "rules": []}}),
            "state::list" => json!([]),
            "state::get" => Value::Null,
            _ => json!({"success": true}),
        };
        let answer = json!({"type": "invocationresult", "invocation_id": call["invocation_id"],
                            "function_id": call["function_id"], "result": result});
        socket.send(Message::text(answer.to_string())).await.unwrap();
    }
    // One decision, so that the session is known.
    let payload = hook("s_1", "c_1", "docs::read");
    let call = json!({"type": "invokefunction", "invocation_id": Uuid::nil().to_string(), "function_id": "approval::gate", "data": payload});
    socket.send(Message::text(call.to_string())).await.unwrap();
    while let Ok(Some(Ok(message))) = tokio::time::timeout(Duration::from_millis(700), socket.next()).await {
        let text = message.to_text().unwrap();
        if text.contains("state::get") {
            let call: Value = serde_json::from_str(text).unwrap();
            let answer = json!({"type": "invocationresult", "invocation_id": call["invocation_id"],
                                "function_id": "state::get", "result": null});
            socket.send(Message::text(answer.to_string())).await.unwrap();
        }
    }
}

/// Answers per second over some thousands of calls.
async fn rate(socket: &mut WebSocket, next: &mut u128) -> f64 {
    let total = times(20_000);
    let first = *next + 1;
    let frames: Vec<Message> = (0..total as u128).map(|at| Message::text(frame(first + at))).collect();
    *next += total as u128;
    let mut answered = vec![false; total];
    let mut note = |message: &Message| {
        let Some(id) = message.to_text().ok().and_then(id_of) else { return 0 };
        // What is repeated may belong to the round before.
        let Some(place) = id.checked_sub(first).and_then(|at| answered.get_mut(usize::try_from(at).ok()?))
        else {
            return 0;
        };
        usize::from(!std::mem::replace(place, true))
    };
    let started = Instant::now();
    let (mut frames, mut sent, mut done) = (frames.into_iter(), 0, 0);
    while done < total {
        let before = sent;
        while sent - done < IN_FLIGHT {
            let Some(frame) = frames.next() else { break };
            socket.feed(frame).await.unwrap();
            sent += 1;
        }
        if sent > before {
            socket.flush().await.unwrap();
        }
        done += note(&socket.next().await.unwrap().unwrap());
        while let Some(Some(Ok(message))) = socket.next().now_or_never() {
            done += note(&message);
        }
    }
    total as f64 / started.elapsed().as_secs_f64()
}

fn frame(id: u128) -> String {
    let payload = hook("s_1", "c_1", "docs::read");
    json!({"type": "invokefunction", "invocation_id": Uuid::from_u128(id).to_string(), "function_id": "approval::gate", "data": payload})
        .to_string()
}

fn id_of(text: &str) -> Option<u128> {
    let (_, rest) = text.split_once(r#""invocation_id":""#)?;
    Some(Uuid::try_parse(rest.get(..36)?).ok()?.as_u128())
}
