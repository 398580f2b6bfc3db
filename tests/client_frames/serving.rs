//! Calls of others: answered once each, whatever they carry, without leaving anything behind.

use std::time::Duration;

use approval_gate::clock::Deadline;
use approval_gate::iii::{ErrorBody, Fire, Registry, Status, Timings, handler, start};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use crate::scripted::*;

fn echo() -> approval_gate::iii::Function {
    let echo = handler(|invocation| async move {
        match serde_json::from_str::<Value>(invocation.data.get()) {
            Ok(_) => Ok(invocation.data),
            Err(_) => Err(ErrorBody::new("approval/invalid_payload", "cannot be read")),
        }
    });
    function("echo", echo)
}

#[tokio::test]
async fn deep_payloads_of_every_kind_neither_crash_nor_cut_the_connection() {
    let mut engine = Engine::listen().await;
    let (_client, _session, mut connection) = ready(&mut engine, vec![echo()]).await;
    let deep = format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
    let id = uuid::Uuid::new_v4().to_string();
    connection
        .send_text(format!(
            r#"{{"type":"invokefunction","invocation_id":"{id}","function_id":"echo","data":{deep}}}"#
        ))
        .await;
    let answer = connection.next().await;
    assert_eq!(
        (&answer["invocation_id"], &answer["error"]["code"]),
        (&json!(id), &json!("approval/invalid_payload"))
    );
    for frame in [
        format!(r#"{{"type":{deep}}}"#),
        format!(r#"{{"type":"registertrigger","id":{deep},"config":{deep}}}"#),
        format!(r#"{{"type":"invocationresult","invocation_id":"{id}","result":{deep},"error":{deep}}}"#),
        format!(r#"{{"type":"workerregistered","worker_id":{deep}}}"#),
        deep.clone(),
        "[".repeat(1_000_000),
    ] {
        connection.send_text(frame).await;
    }
    assert!(connection.is_quiet().await);
}

#[tokio::test]
async fn while_the_engine_reads_nothing_what_it_sends_is_still_handled() {
    let mut engine = Engine::listen().await;
    let (told, mut handled) = tokio::sync::mpsc::unbounded_channel();
    let note = handler(move |invocation| {
        let _ = told.send(invocation.data.get().to_owned());
        async move { Ok(invocation.data) }
    });
    let (client, _session, mut connection) = ready(&mut engine, vec![function("note", note)]).await;
    // More than the sockets in between take.
    let data = to_raw_value(&"x".repeat(8 << 20)).unwrap();
    for _ in 0..3 {
        client.fire(&Fire { function_id: "f", data: &data, metadata: None, namespace: None }).unwrap();
    }
    let id = connection.invoke("note", &json!(1)).await;
    assert_eq!(within("the handler", handled.recv()).await.as_deref(), Some("1"));

    // Everything comes in the order in which it was sent.
    for _ in 0..3 {
        assert_eq!(connection.next().await["function_id"], "f");
    }
    assert_eq!(connection.next().await["invocation_id"], json!(id));
}

#[tokio::test]
async fn a_thousand_calls_at_once_are_answered_in_order_and_calls_of_ours_go_between() {
    let mut engine = Engine::listen().await;
    let (client, _session, mut connection) = ready(&mut engine, vec![echo()]).await;
    let asking = tokio::spawn(async move {
        client.call("other", &json!({}), Deadline::after(Duration::from_secs(30))).await
    });
    let mut ids = Vec::new();
    for at in 0..1_000 {
        ids.push(connection.invoke("echo", &json!(at)).await);
    }
    let (mut answered, mut asked) = (Vec::new(), None);
    while answered.len() < ids.len() || asked.is_none() {
        let frame = connection.next().await;
        match frame["type"].as_str() {
            Some("invocationresult") => answered.push(frame["invocation_id"].as_str().unwrap().to_owned()),
            _ => asked = Some(frame),
        }
    }
    assert_eq!(answered, ids);
    connection.answer(&asked.unwrap(), json!("yes")).await;
    assert_eq!(asking.await.unwrap().unwrap().value().unwrap(), "yes");
}

#[tokio::test]
async fn large_payloads_are_served() {
    let mut engine = Engine::listen().await;
    let (_client, _session, mut connection) = ready(&mut engine, vec![echo()]).await;
    let large = json!("x".repeat(15 << 20));
    connection.invoke("echo", &large).await;
    assert_eq!(connection.next().await["result"], large);
    connection.invoke("echo", &json!("x".repeat(17 << 20))).await;
    assert_eq!(
        connection.next().await["error"]["code"],
        "invocation_failed",
        "it fits into no frame of ours"
    );
}

#[tokio::test]
async fn ten_thousand_calls_are_answered_once_each_and_nothing_is_left() {
    let mut engine = Engine::listen().await;
    let yielding = handler(|invocation| async move {
        tokio::task::yield_now().await;
        Ok(invocation.data)
    });
    let (_client, session, mut connection) =
        ready(&mut engine, vec![echo(), function("yielding", yielding)]).await;
    let mut open = std::collections::HashMap::new();
    for n in 0..10_000 {
        let id = connection.invoke(if n % 2 == 0 { "echo" } else { "yielding" }, &json!(n)).await;
        open.insert(id, n);
        while open.len() >= 64 {
            settle(&mut open, &connection.next().await);
        }
    }
    while !open.is_empty() {
        settle(&mut open, &connection.next().await);
    }
    assert!(connection.is_quiet().await);
    let counts = session.counts();
    assert_eq!((counts.running_handlers, counts.pending_calls), (0, 0));
}

fn settle(open: &mut std::collections::HashMap<String, i32>, answer: &Value) {
    let n = open.remove(answer["invocation_id"].as_str().unwrap()).expect("answered twice, or not asked");
    assert_eq!(answer["result"], n);
}

#[tokio::test]
async fn a_fast_answer_is_repeated_once_and_a_slow_one_never() {
    let mut engine = Engine::listen().await;
    let slow = handler(|invocation| async move {
        tokio::time::sleep(Duration::from_millis(120)).await;
        Ok(invocation.data)
    });
    let timings = Timings { repeat_answer: Duration::from_millis(20), ..quick() };
    let registry = Registry { functions: vec![echo(), function("slow", slow)], ..Registry::default() };
    let (_client, session) = start(options(engine.url(), timings), |_| registry, unprepared());
    let mut connection = engine.accept().await;
    connection.welcome().await;
    status(&session, |s| matches!(s, Status::Ready { .. })).await;

    connection.invoke("echo", &json!(1)).await;
    let first = connection.next().await;
    assert_eq!(connection.next().await, first);
    assert_eq!(session.counts().repeated_answers, 1);

    connection.invoke("slow", &json!(2)).await;
    assert_eq!(connection.next().await["result"], 2);
    tokio::time::sleep(timings.repeat_answer * 3).await;
    assert!(connection.is_quiet().await);
    assert_eq!(session.counts().repeated_answers, 1);
}

#[tokio::test]
async fn pings_of_both_kinds_are_answered() {
    use futures_util::{SinkExt, StreamExt};
    use tokio_tungstenite::tungstenite::{Bytes, Message};
    let mut engine = Engine::listen().await;
    let (_client, _session, mut connection) = ready(&mut engine, vec![]).await;
    connection.send(&json!({"type":"ping"})).await;
    assert_eq!(connection.next().await, json!({"type":"pong"}));
    connection.0.send(Message::Ping(Bytes::from_static(b"x"))).await.unwrap();
    let pong = within("a pong", connection.0.next()).await.unwrap().unwrap();
    assert_eq!(pong, Message::Pong(Bytes::from_static(b"x")));
}

#[tokio::test]
async fn the_same_json_in_a_binary_frame_is_understood() {
    use futures_util::SinkExt;
    use tokio_tungstenite::tungstenite::{Bytes, Message};
    let mut engine = Engine::listen().await;
    let (_client, _session, mut connection) = ready(&mut engine, vec![]).await;
    let ping = Message::Binary(Bytes::from_static(br#"{"type":"ping"}"#));
    connection.0.send(ping).await.unwrap();
    assert_eq!(connection.next().await, json!({"type":"pong"}));
}
