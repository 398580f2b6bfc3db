//! From connect to close: the start sequence, what follows a loss, refusals, standby, shutdown.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use approval_gate::clock::Deadline;
use approval_gate::iii::{
    Bind, Binding, CallError, ConnectError, Connected, ErrorBody, Provider, Registry, Status, Timings,
    TriggerType, connect_once, handler, start,
};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::scripted::*;

struct NoListeners;

impl Provider for NoListeners {
    fn bind(&self, _: Bind) -> Result<(), ErrorBody> {
        Ok(())
    }
    fn unbind(&self, _: &str) {}
    fn reset(&self) {}
}

fn registry(provider: Arc<dyn Provider>) -> Registry {
    Registry {
        functions: vec![
            function("approval::gate", handler(|invocation| async move { Ok(invocation.data) })),
            function("approval::resolve", handler(|invocation| async move { Ok(invocation.data) })),
        ],
        trigger_types: vec![TriggerType {
            id: "approval::pending-created".into(),
            description: "a hold was created".into(),
            config_schema: json!({"title": "Config"}),
            payload_schema: Some(json!({"title": "Payload"})),
            provider,
        }],
        bindings: vec![Binding {
            id: "approval-gate/gate".into(),
            trigger_type: "harness::hook::pre-trigger".into(),
            function_id: "approval::gate".into(),
            config: json!({"functions": ["*"]}),
        }],
    }
}

fn plain_registry() -> Registry {
    registry(Arc::new(NoListeners))
}

#[tokio::test]
async fn the_start_sequence_is_prepare_types_functions_bindings_then_the_announcement() {
    let mut engine = Engine::listen().await;
    let prepare = preparing(|client, connected| {
        assert_eq!(connected, Connected { first: true, standing_by: false, connection: 1 });
        Box::pin(async move {
            let answer =
                client.call("configuration::get", &json!({"id": "x"}), Deadline::after(PATIENCE)).await;
            answer.map(|_| ()).map_err(|error| error.to_string())
        })
    });
    let (client, session) = start(options(engine.url(), quick()), |_| plain_registry(), prepare);
    let mut connection = engine.accept().await;

    let read = connection.next().await;
    assert_eq!((&read["function_id"], &read["data"]), (&json!("configuration::get"), &json!({"id": "x"})));
    assert_eq!(*session.status().borrow(), Status::Preparing);
    connection.answer(&read, json!({})).await;

    let frames = connection.start_sequence().await;
    assert_eq!(
        frames[..4],
        [
            json!({"type":"registertriggertype","id":"approval::pending-created","description":"a hold was created",
                "trigger_request_format":{"title":"Config"},"call_request_format":{"title":"Payload"}}),
            json!({"type":"registerfunction","id":"approval::gate","description":"describes approval::gate",
                "request_format":{"title":"Request"},"response_format":{"title":"Answer"}}),
            json!({"type":"registerfunction","id":"approval::resolve","description":"describes approval::resolve",
                "request_format":{"title":"Request"},"response_format":{"title":"Answer"}}),
            json!({"type":"registertrigger","id":"approval-gate/gate","trigger_type":"harness::hook::pre-trigger",
                "function_id":"approval::gate","config":{"functions":["*"]}}),
        ]
    );
    let announcement = &frames[4];
    assert!(announcement["invocation_id"].is_string(), "its answer is what makes us ready");
    assert_eq!(announcement["data"]["name"], "approval-gate");
    assert_eq!(announcement["data"]["version"], "1.2.3");
    assert_eq!(announcement["data"]["runtime"], "rust");
    assert_eq!(announcement["data"]["pid"], std::process::id());
    assert_eq!(*session.status().borrow(), Status::Preparing, "not ready before the answer");

    connection.answer(announcement, json!({"success": true})).await;
    assert_eq!(status(&session, |s| *s != Status::Preparing).await, Status::Ready { connection: 1 });
    assert_eq!(client.connection(), 1);
}

#[tokio::test]
async fn after_a_loss_the_old_connection_is_retired_first_and_everything_is_announced_again() {
    let mut engine = Engine::listen().await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let prepare = preparing(move |_, connected| {
        noted.lock().unwrap().push(connected);
        Box::pin(std::future::ready(Ok(())))
    });
    let (client, session) = start(options(engine.url(), quick()), |_| plain_registry(), prepare);
    let mut connection = engine.accept().await;
    let first = connection.welcome().await;
    status(&session, |s| *s == Status::Ready { connection: 1 }).await;

    drop(connection);

    let mut connection = engine.accept().await;
    let second = connection.welcome().await;
    assert_eq!(
        second[0],
        json!({"type":"reattach","previous_worker_id":"worker-1","reattach_token":"token-1"})
    );
    let last = first.len() - 1;
    assert_eq!(second[1..=last], first[..last]);
    status(&session, |s| *s == Status::Ready { connection: 2 }).await;
    assert_eq!(client.connection(), 2);
    let connected = |first, connection| Connected { first, standing_by: false, connection };
    assert_eq!(*seen.lock().unwrap(), [connected(true, 1), connected(false, 2)]);
}

#[tokio::test]
async fn an_engine_that_gave_no_token_is_not_asked_to_retire_anything() {
    let mut engine = Engine::listen().await;
    let (_client, session) = start(options(engine.url(), quick()), |_| plain_registry(), unprepared());
    let mut connection = engine.accept_silently().await;
    connection.send(&json!({"type":"workerregistered","worker_id":"w"})).await;
    connection.welcome().await;
    status(&session, |s| *s == Status::Ready { connection: 1 }).await;
    drop(connection);
    let mut connection = engine.accept().await;
    assert_eq!(connection.next().await["type"], "registertriggertype");
}

#[tokio::test]
async fn a_failed_preparation_registers_nothing_and_is_tried_again() {
    let mut engine = Engine::listen().await;
    let attempts = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&attempts);
    let prepare = preparing(move |_, connected| {
        assert!(connected.first);
        let attempt = counted.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            assert!(attempt != 1, "the second attempt panics");
            if attempt == 0 { Err("the configuration is bad".to_owned()) } else { Ok(()) }
        })
    });
    let (_client, session) = start(options(engine.url(), quick()), |_| plain_registry(), prepare);
    let mut told = session.status();
    let connection = engine.accept().await;
    let shown = within(
        "the error to show",
        told.wait_for(|s| matches!(s, Status::Connecting { last_error: Some(_), .. })),
    );
    assert!(
        matches!(&*shown.await.unwrap(), Status::Connecting { last_error: Some(error), .. } if error.contains("bad"))
    );
    connection.closed().await;
    engine.accept().await.closed().await;
    let mut connection = engine.accept().await;
    connection.welcome().await;
    status(&session, |s| *s == Status::Ready { connection: 3 }).await;
}

#[tokio::test]
async fn an_engine_that_is_not_there_is_waited_for() {
    let engine = Engine::listen().await;
    let url = engine.url();
    drop(engine);
    let (client, session) = start(options(url.clone(), quick()), |_| plain_registry(), unprepared());
    let shown = status(&session, |s| matches!(s, Status::Connecting { attempts: 2.., .. })).await;
    assert!(matches!(shown, Status::Connecting { last_error: Some(error), .. } if error.contains(&url)));
    assert_eq!(client.connection(), 0);
    session.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_silent_engine_is_dropped_and_connected_again() {
    let mut engine = Engine::listen().await;
    let timings = Timings { ping: Duration::from_millis(20), idle: Duration::from_millis(60), ..quick() };
    let (_client, _session) = start(options(engine.url(), timings), |_| plain_registry(), unprepared());
    // Accepted, greeted, and never read again: pings stay unanswered.
    let _mute = engine.accept().await;
    let mut connection = engine.accept().await;
    assert_eq!(connection.next().await["type"], "reattach");
}

#[tokio::test]
async fn an_announcement_that_is_not_accepted_is_tried_again() {
    let mut engine = Engine::listen().await;
    let (_client, session) = start(options(engine.url(), quick()), |_| plain_registry(), unprepared());
    let mut connection = engine.accept().await;
    let announcement = connection.start_sequence().await.pop().unwrap();
    connection.answer(&announcement, json!({"success": false})).await;
    let mut connection = engine.accept().await;
    connection.welcome().await;
    status(&session, |s| *s == Status::Ready { connection: 2 }).await;
}

#[tokio::test]
async fn a_refused_binding_is_sent_again_under_the_same_id_once_per_refusal() {
    let mut engine = Engine::listen().await;
    let (_client, session) = start(options(engine.url(), quick()), |_| plain_registry(), unprepared());
    let mut connection = engine.accept().await;
    let sent =
        connection.welcome().await.into_iter().find(|frame| frame["type"] == "registertrigger").unwrap();
    status(&session, |s| matches!(s, Status::Ready { .. })).await;
    for code in ["trigger_type_not_found", "trigger_type_not_found", "bad_config"] {
        connection
            .send(&json!({"type":"triggerregistrationresult","id":sent["id"],"trigger_type":sent["trigger_type"],
                "function_id":sent["function_id"],"error":{"code":code,"message":"m"}}))
            .await;
        assert_eq!(connection.next().await, sent);
    }
    // Refusals of what is not ours, and verdicts of acceptance, cause nothing.
    connection
        .send(&json!({"type":"triggerregistrationresult","id":"somebody/else","error":{"code":"c","message":"m"}}))
        .await;
    connection.send(&json!({"type":"triggerregistrationresult","id":sent["id"]})).await;
    tokio::time::sleep(quick().refused_binding * 2).await;
    assert!(connection.is_quiet().await);
}

#[tokio::test]
async fn a_function_owned_by_another_connection_is_asked_for_until_it_is_free() {
    let mut engine = Engine::listen().await;
    let (_client, session) = start(options(engine.url(), quick()), |_| plain_registry(), unprepared());
    let mut connection = engine.accept().await;
    let rejection = json!({"type":"registrationrejected","code":"FUNCTION_NAMESPACE_CONFLICT","namespace":"default",
        "function_id":"approval::resolve","owner_worker_id":"w"});
    // The engine may say so before it answers the announcement.
    let frames = connection.start_sequence().await;
    connection.send(&rejection).await;
    connection.answer(frames.last().unwrap(), json!({"success": true})).await;
    status(&session, |s| matches!(s, Status::Ready { .. })).await;
    for _ in 0..2 {
        let again = connection.next().await;
        assert_eq!((&again["type"], &again["id"]), (&json!("registerfunction"), &json!("approval::resolve")));
        connection.send(&rejection).await;
    }
}

#[tokio::test]
async fn a_taken_name_means_standby_and_taking_over_later() {
    let mut engine = Engine::listen().await;
    let (client, session) = start(options(engine.url(), quick()), |_| plain_registry(), unprepared());
    let mut told = session.status();
    for _ in 0..3 {
        let mut connection = engine.accept().await;
        connection.start_sequence().await;
        connection
            .send(&json!({"type":"registrationrejected","code":"WORKER_NAMESPACE_CONFLICT","namespace":"default",
                "worker_name":"approval-gate","owner_worker_id":"the-other"}))
            .await;
        let standby =
            within("standby", told.wait_for(|s| matches!(s, Status::Standby { .. }))).await.unwrap().clone();
        assert_eq!(standby, Status::Standby { owner_worker_id: "the-other".into() });
        connection.closed().await;
    }
    let mut connection = engine.accept().await;
    connection.start_sequence().await;
    assert!(matches!(*told.borrow(), Status::Standby { .. }), "standby is shown until it is over");
    drop(connection);
    let mut connection = engine.accept().await;
    connection.welcome().await;
    status(&session, |s| *s == Status::Ready { connection: 5 }).await;
    assert_eq!(client.connection(), 5);
}

#[derive(Default)]
struct Told(Mutex<Vec<String>>);

impl Provider for Told {
    fn bind(&self, bind: Bind) -> Result<(), ErrorBody> {
        let metadata = bind.metadata.map(|raw| raw.get().to_owned());
        self.0.lock().unwrap().push(format!("{} {} {} {metadata:?}", bind.id, bind.function_id, bind.config));
        if bind.config == json!({"bad": 1}) { Err(ErrorBody::new("bad_config", "no")) } else { Ok(()) }
    }
    fn unbind(&self, id: &str) {
        self.0.lock().unwrap().push(format!("-{id}"));
    }
    fn reset(&self) {
        self.0.lock().unwrap().push("reset".into());
    }
}

#[tokio::test]
async fn bindings_of_others_are_given_to_the_provider_and_replayed_on_a_new_connection() {
    let mut engine = Engine::listen().await;
    let told = Arc::new(Told::default());
    let provider = Arc::clone(&told);
    let (_client, _session) =
        start(options(engine.url(), quick()), move |_| registry(provider), unprepared());
    let bind = |id: &str, config: Value| {
        json!({"type":"registertrigger","id":id,"trigger_type":"approval::pending-created","function_id":"ui::show",
            "config":config,"metadata":{"m":1}})
    };
    let verdict = |id: &str| json!({"type":"triggerregistrationresult","id":id,"trigger_type":"approval::pending-created","function_id":"ui::show"});

    let mut connection = engine.accept().await;
    connection.welcome().await;
    connection.send(&bind("a", json!(null))).await;
    assert_eq!(connection.next().await, verdict("a"));
    connection.send(&bind("b", json!({"bad": 1}))).await;
    assert_eq!(connection.next().await["error"], json!({"code":"bad_config","message":"no"}));
    connection
        .send(&json!({"type":"unregistertrigger","id":"a","trigger_type":"approval::pending-created"}))
        .await;
    assert!(connection.is_quiet().await);
    drop(connection);
    let mut connection = engine.accept().await;
    connection.welcome().await;
    connection.send(&bind("c", json!({}))).await;
    assert_eq!(connection.next().await, verdict("c"));

    let metadata = r#"Some("{\"m\":1}")"#;
    assert_eq!(
        *told.0.lock().unwrap(),
        [
            "reset".to_owned(),
            format!("a ui::show null {metadata}"),
            format!(r#"b ui::show {{"bad":1}} {metadata}"#),
            "-a".to_owned(),
            "reset".to_owned(),
            format!("c ui::show {{}} {metadata}"),
        ]
    );
}

#[tokio::test]
async fn shutdown_withdraws_refuses_waits_and_says_goodbye() {
    let mut engine = Engine::listen().await;
    let gate = Arc::new(Notify::new());
    let opened = Arc::clone(&gate);
    let slow = handler(move |invocation| {
        let opened = Arc::clone(&opened);
        async move {
            opened.notified().await;
            Ok(invocation.data)
        }
    });
    let (client, session, mut connection) = ready(&mut engine, vec![function("slow", slow)]).await;
    let told = session.status();
    let running = connection.invoke("slow", &json!(1)).await;
    assert!(connection.is_quiet().await);
    assert_eq!(session.counts().running_handlers, 1);

    let shutdown = tokio::spawn(session.shutdown(PATIENCE));
    assert_eq!(connection.next().await, json!({"type":"unregisterfunction","id":"slow"}));
    let late = connection.invoke("slow", &json!(2)).await;
    let refused = connection.next().await;
    assert_eq!(
        (&refused["invocation_id"], &refused["error"]["code"]),
        (&json!(late), &json!("invocation_stopped"))
    );
    gate.notify_one();
    let finished = connection.next().await;
    assert_eq!((&finished["invocation_id"], &finished["result"]), (&json!(running), &json!(1)));
    assert!(connection.closed().await, "a close frame ends it");
    within("the shutdown", shutdown).await.unwrap();

    assert_eq!(*told.borrow(), Status::Stopped);
    let error = client.call("f", &1, Deadline::after(PATIENCE)).await.unwrap_err();
    assert_eq!(error, CallError::NotConnected);
}

#[tokio::test]
async fn a_handler_that_never_ends_does_not_outlive_the_grace() {
    let mut engine = Engine::listen().await;
    let held = Arc::new(());
    let captured = Arc::clone(&held);
    let forever = handler(move |_| {
        let captured = Arc::clone(&captured);
        async move {
            let reply = std::future::pending().await;
            drop(captured);
            reply
        }
    });
    let (client, session, mut connection) = ready(&mut engine, vec![function("forever", forever)]).await;
    connection.invoke("forever", &json!(1)).await;
    assert!(connection.is_quiet().await);
    within("the shutdown", session.shutdown(Duration::from_millis(20))).await;
    assert!(connection.closed().await);
    drop(client);
    assert_eq!(Arc::strong_count(&held), 1, "handler, registry and tasks are gone");
}

#[tokio::test]
async fn shutdown_works_while_connecting_preparing_and_standing_by() {
    let mut engine = Engine::listen().await;
    let never = preparing(|_, _| Box::pin(std::future::pending()));
    let (_client, session) = start(options(engine.url(), quick()), |_| plain_registry(), never);
    let connection = engine.accept().await;
    status(&session, |s| *s == Status::Preparing).await;
    within("the shutdown", session.shutdown(PATIENCE)).await;
    assert!(connection.closed().await);

    let (_client, session) = start(options(engine.url(), quick()), |_| plain_registry(), unprepared());
    // Not accepted: the upgrade never happens.
    within("the shutdown", session.shutdown(PATIENCE)).await;

    let mut engine = Engine::listen().await;
    let (_client, session) = start(options(engine.url(), quick()), |_| plain_registry(), unprepared());
    let mut connection = engine.accept().await;
    connection.start_sequence().await;
    connection
        .send(
            &json!({"type":"registrationrejected","code":"WORKER_NAMESPACE_CONFLICT","owner_worker_id":"w"}),
        )
        .await;
    status(&session, |s| matches!(s, Status::Standby { .. })).await;
    within("the shutdown", session.shutdown(PATIENCE)).await;
}

#[tokio::test]
async fn a_dropped_session_disconnects() {
    let mut engine = Engine::listen().await;
    let (client, session, connection) = ready(&mut engine, vec![]).await;
    drop(session);
    connection.closed().await;
    let error = client.call("f", &1, Deadline::after(PATIENCE)).await.unwrap_err();
    assert_eq!(error, CallError::NotConnected);
}

#[tokio::test]
async fn a_plain_client_registers_nothing_and_reports_failure_in_one_line() {
    let mut engine = Engine::listen().await;
    let url = engine.url();
    let asked = tokio::spawn(async move {
        let (client, session) = connect_once(&url, PATIENCE).await.unwrap();
        let answer = client.call("state::get", &json!({"key": "k"}), Deadline::after(PATIENCE)).await;
        session.shutdown(Duration::ZERO).await;
        answer.unwrap().value().unwrap()
    });
    let mut connection = engine.accept().await;
    let call = connection.next().await;
    assert_eq!(call["function_id"], "state::get");
    connection.answer(&call, json!([1])).await;
    assert!(connection.closed().await);
    assert_eq!(within("the answer", asked).await.unwrap(), json!([1]));

    let url = engine.url();
    drop(engine);
    let error = connect_once(&url, PATIENCE).await.err().unwrap();
    assert!(matches!(error, ConnectError::Refused { .. }));
    assert!(error.to_string().contains(&url) && !error.to_string().contains('\n'), "{error}");
}

#[tokio::test]
async fn a_plain_client_ends_with_its_connection() {
    let mut engine = Engine::listen().await;
    let url = engine.url();
    let connected = tokio::spawn(async move { connect_once(&url, PATIENCE).await.unwrap() });
    let connection = engine.accept().await;
    let (_client, session) = within("the connection", connected).await.unwrap();
    drop(connection);
    status(&session, |s| *s == Status::Stopped).await;
}
