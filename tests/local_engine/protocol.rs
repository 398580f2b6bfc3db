//! What the transcripts do not show of the protocol.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use approval_gate::local::{Engine, EngineOptions, StartError};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use super::wire::{Client, Ended, PATIENCE, upgrade};

async fn start() -> Engine {
    Engine::start(EngineOptions::default()).await.unwrap()
}

#[tokio::test]
async fn given_an_address_off_the_machine_when_started_then_it_is_refused() {
    let options = EngineOptions { listen: "0.0.0.0:0".parse().unwrap(), ..EngineOptions::default() };
    assert!(matches!(Engine::start(options).await, Err(StartError::NotLoopback(_))));
}

#[tokio::test]
async fn given_other_paths_when_connecting_then_only_the_root_serves_workers() {
    let engine = start().await;
    for path in ["/ws", "/other", "/ws/channels/nope?key=k&dir=read"] {
        assert_eq!(upgrade(engine.address(), path).await.err(), Some(404), "{path}");
    }
    for path in ["/", "", "/?a=1&b=2"] {
        drop(Client::open(engine.address(), path).await);
    }
    let mut telemetry = upgrade(engine.address(), "/otel").await.unwrap();
    telemetry.send(Message::text("{}")).await.unwrap();
    let silence = tokio::time::timeout(Duration::from_millis(100), telemetry.next()).await;
    assert!(silence.is_err(), "no greeting there: {silence:?}");
}

#[tokio::test]
async fn given_frames_at_and_over_the_limit_when_sent_then_the_first_is_answered_and_the_second_ends_the_connection()
 {
    let engine = start().await;
    for (size, taken) in [(16_777_216, true), (16_777_217, false)] {
        let mut client = Client::open(engine.address(), "/").await;
        let id = uuid::Uuid::new_v4().to_string();
        let frame = |value: &str| {
            json!({ "type": "invokefunction", "invocation_id": id, "function_id": "state::set",
                "data": { "scope": "s", "key": "k", "value": value } })
            .to_string()
        };
        let padding = size - frame("").len();
        client.send_text(frame(&"x".repeat(padding))).await;
        if taken {
            assert!(client.answer(&id).await.is_ok());
        } else {
            assert_eq!(client.until_ended().await, Ended::Dropped);
        }
    }
}

#[tokio::test]
async fn given_values_nested_to_and_past_the_limit_when_set_then_the_deeper_one_is_dropped_in_silence() {
    let engine = start().await;
    let mut client = Client::worker(engine.address(), "deep").await;
    for (depth, taken) in [(125, true), (126, false)] {
        let value = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let id = uuid::Uuid::new_v4().to_string();
        let text = format!(
            r#"{{"type":"invokefunction","invocation_id":"{id}","function_id":"state::set","data":{{"scope":"s","key":"k","value":{value}}}}}"#
        );
        client.send_text(text).await;
        if taken {
            client.answer(&id).await.unwrap();
        }
    }
    assert!(client.left_over().await.is_empty());
    assert_eq!(engine.counts().invocations["state::set"], 1);
}

#[tokio::test]
async fn given_no_announcement_when_the_grace_is_over_then_registrations_take_effect() {
    let options = EngineOptions { grace: Duration::from_millis(80), ..EngineOptions::default() };
    let engine = Engine::start(options).await.unwrap();
    let mut worker = Client::open(engine.address(), "/").await;
    let mut caller = Client::worker(engine.address(), "caller").await;
    worker.function("late::f").await;
    let started = tokio::time::Instant::now();
    assert_eq!(caller.call("late::f", json!({})).await.unwrap_err()["code"], "function_not_found");
    let id = loop {
        let id = caller.start("late::f", json!({})).await;
        if tokio::time::timeout(Duration::from_millis(10), worker.invoked("late::f")).await.is_ok() {
            break id;
        }
        assert!(started.elapsed() < PATIENCE, "never callable");
    };
    assert!(started.elapsed() >= Duration::from_millis(50), "{id}");
}

#[tokio::test]
async fn given_a_subscriber_that_never_answers_when_values_change_then_later_binds_wait_until_it_is_cut() {
    let engine = start().await;
    let mut mute = Client::worker(engine.address(), "mute").await;
    let mut good = Client::worker(engine.address(), "good").await;
    mute.function("mute::on").await;
    good.function("good::on").await;
    mute.bind("1-mute", "state", "mute::on", json!({ "scope": "s" })).await;
    good.bind("2-good", "state", "good::on", json!({ "scope": "s" })).await;
    for value in 0..3 {
        good.call("state::set", json!({ "scope": "s", "key": "k", "value": value })).await.unwrap();
        mute.invoked("mute::on").await;
    }
    assert!(good.left_over().await.is_empty(), "behind the mute one");
    assert_eq!(engine.cut_worker("mute"), 1);
    for _ in 0..3 {
        let event = good.invoked("good::on").await;
        assert_eq!(event["data"].get("_caller_worker_id"), None);
    }
}

#[tokio::test]
async fn given_a_provider_that_stopped_reading_when_another_binds_to_it_then_the_binder_is_not_blocked() {
    let engine = start().await;
    let mut stuck = upgrade(engine.address(), "/").await.unwrap();
    for frame in [
        json!({ "type": "registertriggertype", "id": "stuck::type", "description": "d" }),
        json!({ "type": "registerfunction", "id": "stuck::f" }),
        json!({ "type": "invokefunction", "function_id": "engine::workers::register", "data": { "name": "stuck" } }),
        json!({ "type": "ping" }),
    ] {
        stuck.send(Message::text(frame.to_string())).await.unwrap();
    }
    let mut binder = Client::worker(engine.address(), "binder").await;
    let known = json!({ "id": "stuck::type" });
    while binder.call("engine::triggers::info", known.clone()).await.is_err() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let load = json!({ "text": "x".repeat(256 << 10) });
    for _ in 0..100 {
        binder.send(&json!({ "type": "invokefunction", "function_id": "stuck::f", "data": load })).await;
    }
    binder.bind("b", "stuck::type", "binder::f", json!({})).await;
    binder.call("state::get", json!({ "scope": "a", "key": "b" })).await.unwrap();
    drop(stuck);
}

#[tokio::test]
async fn given_a_call_in_flight_when_the_engine_stops_then_sockets_just_end_and_the_stores_can_be_carried_on()
{
    let engine = Engine::start(EngineOptions { harness: true, ..EngineOptions::default() }).await.unwrap();
    let address = engine.address();
    let mut worker = Client::worker(address, "w").await;
    worker.function("w::f").await;
    worker.call("state::set", json!({ "scope": "s", "key": "k", "value": null })).await.unwrap();
    worker.call("configuration::set", json!({ "id": "shell", "value": { "fs": {} } })).await.unwrap();
    worker.start("w::f", json!({})).await;
    worker.invoked("w::f").await;
    let stores = engine.stop().await;
    assert_eq!(worker.until_ended().await, Ended::Dropped);
    assert!(worker.waiting.is_empty(), "nobody is told: {:?}", worker.waiting);

    let options = EngineOptions {
        listen: address,
        state: Some(stores.state),
        configuration: Some(stores.configuration),
        harness: true,
        ..EngineOptions::default()
    };
    let engine = Engine::start(options).await.unwrap();
    let mut worker = Client::worker(engine.address(), "w").await;
    let id = worker.start("state::get", json!({ "scope": "s", "key": "k" })).await;
    let frame = worker.find("the answer", |frame| frame["invocation_id"] == id).await;
    assert_eq!(frame.get("result"), Some(&Value::Null), "a stored null survives as a null");
    let shell = worker.call("configuration::get", json!({ "id": "shell" })).await.unwrap();
    assert_eq!(shell["value"], json!({ "fs": {} }));
    assert_eq!(worker.call("w::f", json!({})).await.unwrap_err()["code"], "function_not_found");
}

#[tokio::test]
async fn given_a_new_function_when_the_engine_looks_again_then_the_whole_list_is_sent() {
    let options = EngineOptions { functions_period: Duration::from_millis(20), ..EngineOptions::default() };
    let engine = Engine::start(options).await.unwrap();
    let mut worker = Client::worker(engine.address(), "w").await;
    worker.function("w::on").await;
    worker.bind("b", "engine::functions-available", "w::on", json!({})).await;
    worker.function("w::new").await;
    let has_new = |frame: &Value| frame["data"]["functions"].to_string().contains(r#""w::new""#);
    let event = worker.find("functions_changed with w::new", has_new).await;
    assert_eq!(event["data"]["event"], "functions_changed");
}

#[tokio::test]
async fn given_an_id_moved_to_another_type_when_bound_then_its_former_provider_is_told() {
    let engine = start().await;
    let mut provider = Client::worker(engine.address(), "p").await;
    provider.send(&json!({ "type": "registertriggertype", "id": "p::type", "description": "d" })).await;
    provider.settle().await;
    let mut binder = Client::worker(engine.address(), "b").await;
    binder.bind("id", "p::type", "b::f", json!({})).await;
    provider.find("the bind", |frame| frame["type"] == "registertrigger").await;
    binder.bind("id", "state", "b::f", json!({})).await;
    let gone = provider.find("its end", |frame| frame["type"] == "unregistertrigger").await;
    assert_eq!(gone, json!({ "type": "unregistertrigger", "id": "id", "trigger_type": "p::type" }));
    assert_eq!((engine.counts().live_binds, engine.counts().parked_binds), (1, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn given_many_writers_of_one_key_when_all_swap_at_once_then_each_value_is_replaced_exactly_once() {
    let engine = start().await;
    let mut writers = Vec::new();
    for writer in 0..8 {
        let address = engine.address();
        writers.push(tokio::spawn(async move {
            let mut client = Client::worker(address, &format!("w{writer}")).await;
            let mut calls = Vec::new();
            for number in 0..50 {
                let value = json!({ "scope": "s", "key": "k", "value": writer * 50 + number });
                calls.push(client.start("state::set", value).await);
            }
            let mut replaced = Vec::new();
            for call in calls {
                replaced.push(client.answer(&call).await.unwrap()["old_value"].clone());
            }
            replaced
        }));
    }
    let mut replaced = std::collections::BTreeMap::<String, usize>::new();
    for writer in writers {
        for value in writer.await.unwrap() {
            *replaced.entry(value.to_string()).or_default() += 1;
        }
    }
    assert_eq!(replaced.get("null"), Some(&1), "one writer was first");
    assert_eq!(replaced.len(), 400, "{replaced:?}");
}
