//! Calls of ours: answers of every kind, late and repeated ones, losses, and what nobody waits for.

use approval_gate::clock::Deadline;
use approval_gate::iii::{CallError, Fire, handler};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use crate::scripted::*;

#[tokio::test]
async fn an_answer_of_null_and_no_answer_value_stay_apart() {
    let mut engine = Engine::listen().await;
    let (client, session, mut connection) = ready(&mut engine, vec![]).await;
    let asking = tokio::spawn(async move {
        let mut answers = Vec::new();
        for _ in 0..3 {
            answers.push(client.call("state::get", &json!({}), Deadline::after(PATIENCE)).await.unwrap());
        }
        answers
    });
    let call = connection.next().await;
    connection.answer(&call, json!(null)).await;
    let call = connection.next().await;
    connection.send(&json!({"type":"invocationresult","invocation_id":call["invocation_id"],"function_id":"state::get"})).await;
    let call = connection.next().await;
    connection.answer(&call, json!({"a": 1})).await;
    let answers = within("the answers", asking).await.unwrap();

    assert_eq!(
        answers.iter().map(approval_gate::iii::Answer::is_absent).collect::<Vec<_>>(),
        [false, true, false]
    );
    assert_eq!(answers[0].raw().map(RawValue::get), Some("null"));
    assert_eq!(answers[2].value().unwrap(), json!({"a": 1}));
    assert_eq!(session.counts().pending_calls, 0);
}

#[tokio::test]
async fn a_refusal_carries_code_and_message() {
    let mut engine = Engine::listen().await;
    let (client, _session, mut connection) = ready(&mut engine, vec![]).await;
    let asking = tokio::spawn(async move { client.call("f", &json!({}), Deadline::after(PATIENCE)).await });
    let call = connection.next().await;
    connection
        .send(&json!({"type":"invocationresult","invocation_id":call["invocation_id"],"function_id":"f",
            "error":{"code":"function_not_found","message":"Function f not found","stacktrace":"s"}}))
        .await;
    let error = within("the answer", asking).await.unwrap().unwrap_err();
    assert!(error.is_function_not_found() && !error.never_sent());
}

#[tokio::test]
async fn late_repeated_and_foreign_answers_are_ignored() {
    let mut engine = Engine::listen().await;
    let (client, session, mut connection) = ready(&mut engine, vec![]).await;
    let error = client.call("late", &json!({}), Deadline::after_ms(10)).await.unwrap_err();
    assert!(matches!(error, CallError::Deadline { waited_ms: 10.., .. }));
    assert_eq!(session.counts().pending_calls, 0);
    let late = connection.next().await;
    connection.answer(&late, json!(1)).await;
    connection.answer(&late, json!(2)).await;
    connection.send(&json!({"type":"invocationresult","invocation_id":"no-uuid"})).await;
    connection.send(&json!({"type":"invocationresult"})).await;

    let asking = tokio::spawn(async move { client.call("f", &json!({}), Deadline::after(PATIENCE)).await });
    let call = connection.next().await;
    connection.answer(&call, json!("right")).await;
    connection.answer(&call, json!("again")).await;
    assert_eq!(within("the answer", asking).await.unwrap().unwrap().value().unwrap(), "right");
    assert!(connection.is_quiet().await);
}

#[tokio::test]
async fn an_answer_in_another_spelling_of_the_id_is_ours() {
    let mut engine = Engine::listen().await;
    let (client, _session, mut connection) = ready(&mut engine, vec![]).await;
    let asking = tokio::spawn(async move { client.call("f", &json!({}), Deadline::after(PATIENCE)).await });
    let mut call = connection.next().await;
    call["invocation_id"] = call["invocation_id"].as_str().unwrap().to_uppercase().replace('-', "").into();
    connection.answer(&call, json!(7)).await;
    assert_eq!(within("the answer", asking).await.unwrap().unwrap().value().unwrap(), 7);
}

#[tokio::test]
async fn pending_calls_fail_when_the_connection_is_lost() {
    let mut engine = Engine::listen().await;
    let (client, session, mut connection) = ready(&mut engine, vec![]).await;
    let asking = tokio::spawn({
        let client = client.clone();
        async move { client.call("f", &json!({}), Deadline::after(PATIENCE * 6)).await }
    });
    connection.next().await;
    assert_eq!(session.counts().pending_calls, 1);
    drop(connection);
    let error = within("the failure", asking).await.unwrap().unwrap_err();
    assert_eq!(error, CallError::ConnectionLost { function_id: "f".into() });
    assert!(!error.never_sent());
    assert_eq!(session.counts().pending_calls, 0);
}

#[tokio::test]
async fn fired_calls_keep_their_order_and_carry_what_the_binding_says() {
    let mut engine = Engine::listen().await;
    let (client, _session, mut connection) = ready(&mut engine, vec![]).await;
    let metadata = to_raw_value(&json!({"who": "d"})).unwrap();
    for n in 0..100 {
        let data = to_raw_value(&json!({ "n": n })).unwrap();
        let event = Fire {
            function_id: "ui::show",
            data: &data,
            metadata: Some(&metadata),
            namespace: Some("orders"),
        };
        client.fire(&event).unwrap();
    }
    for n in 0..100 {
        assert_eq!(
            connection.next().await,
            json!({"type":"invokefunction","invocation_id":null,"function_id":"ui::show","data":{"n":n},
                "action":{"type":"void"},"metadata":{"who":"d"},"namespace":"orders"})
        );
    }
}

#[tokio::test]
async fn an_answer_of_22_mib_is_read_whole() {
    let mut engine = Engine::listen().await;
    let (client, _session, mut connection) = ready(&mut engine, vec![]).await;
    let asking =
        tokio::spawn(async move { client.call("state::list", &json!({}), Deadline::after(PATIENCE)).await });
    let call = connection.next().await;
    let large = "x".repeat(22 << 20);
    connection.answer(&call, json!(large)).await;
    let answer = within("the answer", asking).await.unwrap().unwrap();
    assert_eq!(answer.parse::<String>().unwrap().len(), 22 << 20);
}

#[tokio::test]
async fn an_engine_that_stops_reading_costs_a_bounded_amount_of_memory() {
    let mut engine = Engine::listen().await;
    let (client, _session, connection) = ready(&mut engine, vec![]).await;
    let data = to_raw_value(&"x".repeat(8 << 20)).unwrap();
    let event = Fire { function_id: "f", data: &data, metadata: None, namespace: None };
    // Nothing is read on the other side: the queue fills, closes, and the worker reconnects.
    let refused = (0..64).map(|_| client.fire(&event)).position(|outcome| outcome.is_err());
    assert!(refused.is_some_and(|after| after <= 16), "{refused:?}");
    drop(connection);
    engine.accept().await;
}

#[tokio::test]
async fn the_trace_of_a_call_is_passed_on_to_the_calls_that_it_causes() {
    let mut engine = Engine::listen().await;

    let registry = |client: approval_gate::iii::Client| {
        let work = handler(move |_| {
            let client = client.clone();
            async move {
                tokio::task::yield_now().await;
                let _ = client.call("child", &json!({}), Deadline::after_ms(1)).await;
                let data = to_raw_value(&1).unwrap();
                let event = Fire { function_id: "event", data: &data, metadata: None, namespace: None };
                client.fire(&event).unwrap();
                Ok(data)
            }
        });
        approval_gate::iii::Registry { functions: vec![function("work", work)], ..Default::default() }
    };
    let (_client, _session) =
        approval_gate::iii::start(options(engine.url(), quick()), registry, unprepared());
    let mut connection = engine.accept().await;
    connection.welcome().await;

    let trace = ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "k=v,iii.function.id=work");
    connection
        .send(&json!({"type":"invokefunction","invocation_id":uuid::Uuid::new_v4().to_string(),"function_id":"work","data":{},
            "traceparent":trace.0,"baggage":trace.1}))
        .await;
    for function_id in ["child", "event"] {
        let caused = connection.next().await;
        assert_eq!(caused["function_id"], function_id);
        assert_eq!((&caused["traceparent"], &caused["baggage"]), (&json!(trace.0), &json!(trace.1)));
    }
    connection.next().await;
    connection.invoke("work", &json!({})).await;
    let untraced = connection.next().await;
    assert!(untraced.get("traceparent").is_none() && untraced.get("baggage").is_none());
}
