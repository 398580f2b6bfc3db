//! The table of faults, each seen from the caller.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use approval_gate::local::{Engine, EngineOptions, Fault, Rule};
use serde_json::{Value, json};

use super::wire::{Client, Ended};

const SET: &str = "state::set";
const SHORT: Duration = Duration::from_millis(60);

fn value(value: i64) -> Value {
    json!({ "scope": "s", "key": "k", "value": value })
}

async fn stored(client: &mut Client) -> Value {
    client.call("state::get", json!({ "scope": "s", "key": "k" })).await.unwrap()
}

async fn pair() -> (Engine, Client) {
    let engine = Engine::start(EngineOptions::default()).await.unwrap();
    let client = Client::worker(engine.address(), "caller").await;
    (engine, client)
}

#[tokio::test]
async fn given_a_held_answer_when_released_then_it_arrives_and_the_write_was_made_long_before() {
    let (engine, mut client) = pair().await;
    let fault = engine.faults().inject(Rule::on(SET, Fault::HoldAnswer));
    let id = client.start(SET, value(1)).await;
    engine.faults().struck(fault, 1).await;
    while stored(&mut client).await != json!(1) {
        tokio::task::yield_now().await;
    }
    assert!(client.left_over().await.is_empty());
    engine.faults().release(fault);
    client.answer(&id).await.unwrap();
    client.call(SET, value(2)).await.unwrap();
    assert_eq!(engine.faults().hits(fault), 1, "a released rule strikes no more");
}

#[tokio::test]
async fn given_a_held_or_ignored_invocation_when_others_follow_then_it_has_not_been_done() {
    let (engine, mut client) = pair().await;
    let held = engine.faults().inject(Rule::on(SET, Fault::HoldInvocation).once());
    let ignored = engine.faults().inject(Rule::on(SET, Fault::Ignore).once());
    let first = client.start(SET, value(1)).await;
    engine.faults().struck(held, 1).await;
    client.start(SET, value(2)).await;
    engine.faults().struck(ignored, 1).await;
    assert_eq!(stored(&mut client).await, Value::Null);
    engine.faults().release(held);
    client.answer(&first).await.unwrap();
    assert_eq!(stored(&mut client).await, json!(1));
    assert!(client.left_over().await.is_empty());
}

#[tokio::test]
async fn given_a_dropped_answer_when_the_value_is_read_then_the_write_was_made() {
    let (engine, mut client) = pair().await;
    engine.faults().inject(Rule::on(SET, Fault::DropAnswer).once());
    client.start(SET, value(1)).await;
    while stored(&mut client).await != json!(1) {
        tokio::task::yield_now().await;
    }
    assert!(client.left_over().await.is_empty());
}

#[tokio::test]
async fn given_a_failure_when_called_then_the_error_comes_with_or_without_the_write() {
    let (engine, mut client) = pair().await;
    let body = || ("SET_ERROR".to_owned(), "disk".to_owned());
    let (code, message) = body();
    engine.faults().inject(Rule::on(SET, Fault::Fail { code, message }).once());
    let error = client.call(SET, value(1)).await.unwrap_err();
    assert_eq!(error, json!({ "code": "SET_ERROR", "message": "disk" }));
    assert_eq!(stored(&mut client).await, Value::Null);
    let (code, message) = body();
    engine.faults().inject(Rule::on(SET, Fault::FailAfter { code, message }).once());
    assert_eq!(client.call(SET, value(2)).await.unwrap_err(), error);
    assert_eq!(stored(&mut client).await, json!(2));
}

#[tokio::test]
async fn given_a_delay_when_called_then_the_answer_comes_no_sooner() {
    let (engine, mut client) = pair().await;
    engine.faults().inject(Rule::on(SET, Fault::DelayAnswer(SHORT)).once());
    let started = tokio::time::Instant::now();
    client.call(SET, value(1)).await.unwrap();
    assert!(started.elapsed() >= SHORT);
}

#[tokio::test]
async fn given_duplicates_when_called_then_the_frame_comes_twice_under_one_id() {
    let (engine, mut client) = pair().await;
    let mut worker = Client::worker(engine.address(), "w").await;
    worker.function("w::f").await;
    engine.faults().inject(Rule::on("w::f", Fault::DuplicateInvocation).once());
    let id = client.start("w::f", json!({})).await;
    let (one, two) = (worker.invoked("w::f").await, worker.invoked("w::f").await);
    assert_eq!(one, two);
    worker.reply(&one, json!(1)).await;
    worker.reply(&two, json!(2)).await;
    assert_eq!(client.answer(&id).await.unwrap(), 1);
    engine.faults().inject(Rule::on(SET, Fault::DuplicateAnswer).once());
    let id = client.start(SET, value(1)).await;
    assert_eq!(client.answer(&id).await, client.answer(&id).await);
}

#[tokio::test]
async fn given_a_rule_for_one_caller_when_others_call_then_it_does_not_strike() {
    let (engine, mut client) = pair().await;
    let mut other = Client::worker(engine.address(), "other").await;
    let fault = engine.faults().inject(Rule::on("*", Fault::Ignore).from_caller("other"));
    client.call(SET, value(1)).await.unwrap();
    other.start(SET, value(2)).await;
    engine.faults().struck(fault, 1).await;
    assert_eq!(stored(&mut client).await, json!(1));
}

#[tokio::test]
async fn given_a_frozen_engine_when_thawed_then_what_was_sent_meanwhile_is_answered() {
    let (engine, mut client) = pair().await;
    engine.faults().freeze();
    let id = client.start(SET, value(1)).await;
    let early = tokio::time::timeout(SHORT, client.answer(&id)).await;
    assert!(early.is_err(), "frozen: {early:?}");
    engine.faults().thaw();
    client.answer(&id).await.unwrap();
}

#[tokio::test]
async fn given_a_cut_when_connections_are_refused_then_they_end_at_once_until_allowed_again() {
    let (engine, mut client) = pair().await;
    engine.faults().refuse_connections(true);
    engine.faults().cut_connections();
    assert_eq!(client.until_ended().await, Ended::Dropped);
    let stream = tokio::net::TcpStream::connect(engine.address()).await.unwrap();
    let url = format!("ws://{}/", engine.address());
    assert!(tokio_tungstenite::client_async(url, stream).await.is_err());
    engine.faults().refuse_connections(false);
    let mut again = Client::worker(engine.address(), "caller").await;
    again.call(SET, value(1)).await.unwrap();
}
