//! Recorded frames of the engine drive the client: each decodes, and what we send for the recorded operations has the
//! keys and values of what the official SDK and hand-written workers sent.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use approval_gate::clock::Deadline;
use approval_gate::iii::frame::{Incoming, decode};
use approval_gate::iii::{
    Bind, Binding, ErrorBody, Fire, Function, Handler, Options, Provider, Registry, Session, TriggerType,
    handler, start,
};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use crate::scripted::*;

struct Line {
    connection: String,
    from_engine: bool,
    frame: Value,
}

#[derive(serde::Deserialize)]
struct RecordedLine {
    dir: String,
    conn: Option<String>,
    frame: Option<Box<RawValue>>,
}

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts")
}

/// The whole frames of one recording, in order.
fn recording(file: &str) -> Vec<Line> {
    let text = std::fs::read_to_string(directory().join(file)).unwrap();
    let lines = text.lines().filter_map(|line| {
        let line: RecordedLine = serde_json::from_str(line).unwrap();
        let from_engine = match line.dir.as_str() {
            "engine->worker" => true,
            "worker->engine" => false,
            _ => return None,
        };
        // A few recorded frames nest as deep as the engine lets them, which is one more than this reader does.
        let frame = serde_json::from_str(line.frame?.get()).ok()?;
        Some(Line { connection: line.conn?, from_engine, frame })
    });
    lines.collect()
}

fn variant(frame: &Incoming<'_>) -> &'static str {
    match frame {
        Incoming::WorkerRegistered { .. } => "workerregistered",
        Incoming::Invoke(_) => "invokefunction",
        Incoming::Answer { .. } => "invocationresult",
        Incoming::Bind(_) => "registertrigger",
        Incoming::Unbind { .. } => "unregistertrigger",
        Incoming::BindingVerdict { .. } => "triggerregistrationresult",
        Incoming::Rejected(_) => "registrationrejected",
        Incoming::Refused(_) => "error",
        Incoming::Ping => "ping",
        Incoming::Other => "other",
    }
}

#[test]
fn every_recorded_frame_of_the_engine_decodes_to_its_own_kind() {
    let mut kinds = HashSet::new();
    for entry in std::fs::read_dir(directory()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let is_recording = std::path::Path::new(&name).extension().is_some_and(|kind| kind == "jsonl");
        for line in
            is_recording.then(|| recording(&name)).into_iter().flatten().filter(|line| line.from_engine)
        {
            let text = line.frame.to_string();
            let decoded = decode(&text).unwrap_or_else(|error| panic!("{name}: {error:?}: {text}"));
            let kind = line.frame["type"].as_str().unwrap();
            // `pong` wants nothing of us; `someday` is the recording's own unknown type.
            let expected = if ["pong", "someday"].contains(&kind) { "other" } else { kind };
            assert_eq!(variant(&decoded), expected, "{name}: {text}");
            let has_result = line.frame.get("result").is_some();
            if let Incoming::Answer { outcome: Ok(result), .. } = &decoded {
                assert_eq!(result.is_some(), has_result, "{name}: {text}");
            }
            kinds.insert(kind.to_owned());
        }
    }
    assert!(kinds.len() >= 8, "the recordings are not there: {kinds:?}");
}

/// A frame without what differs from run to run or is not ours to match: ids of calls, backtraces, and an explicit null
/// result, which means the same as none.
fn comparable(frame: &Value) -> String {
    let mut frame = frame.clone();
    let object = frame.as_object_mut().unwrap();
    if object.get("invocation_id").is_some_and(Value::is_string) {
        object.insert("invocation_id".into(), json!("<id>"));
    }
    if let Some(error) = object.get_mut("error").and_then(Value::as_object_mut) {
        error.remove("stacktrace");
    }
    if object.get("result").is_some_and(Value::is_null) {
        object.remove("result");
    }
    frame.to_string()
}

fn sorted(frames: impl Iterator<Item = Value>) -> Vec<String> {
    let mut frames: Vec<_> = frames.map(|frame| comparable(&frame)).collect();
    frames.sort();
    frames
}

/// Refuses what the recorded providers refused.
struct Recorded;

impl Provider for Recorded {
    fn bind(&self, bind: Bind) -> Result<(), ErrorBody> {
        if bind.config["reject"] == true {
            Err(ErrorBody::new("bad_config", "config.reject is set"))
        } else if bind.config["reject"] == 1 {
            Err(ErrorBody::new("trigger_registration_failed", "handler error: bad config"))
        } else {
            Ok(())
        }
    }
    fn unbind(&self, _: &str) {}
    fn reset(&self) {}
}

fn refusing(code: &'static str, message: &'static str) -> Handler {
    handler(move |_| async move { Err(ErrorBody::new(code, message)) })
}

/// A function as the SDK registered it in the recording.
fn as_registered(frame: &Value, handler: Handler) -> Function {
    Function {
        id: frame["id"].as_str().unwrap().into(),
        description: frame["description"].as_str().unwrap_or_default().into(),
        request_schema: frame["request_format"].clone(),
        response_schema: frame["response_format"].clone(),
        metadata: frame.get("metadata").cloned(),
        handler,
        on_the_spot: None,
    }
}

fn type_as_registered(frame: &Value) -> TriggerType {
    TriggerType {
        id: frame["id"].as_str().unwrap().into(),
        description: frame["description"].as_str().unwrap().into(),
        config_schema: frame["trigger_request_format"].clone(),
        payload_schema: frame.get("call_request_format").cloned(),
        provider: Arc::new(Recorded),
    }
}

fn sdk_handler(id: &str) -> Handler {
    match id {
        "probe::err" => refusing("invocation_failed", "handler error: plain handler error"),
        "probe::remote" => refusing("my_code", "structured"),
        "probe::typed" => handler(|invocation| async move {
            if serde_json::from_str::<Value>(invocation.data.get()).unwrap()["n"].is_i64() {
                return Ok(to_raw_value(&json!({"ok": true})).unwrap());
            }
            let message = "serialization error: invalid type: string \"bad\", expected i64";
            Err(ErrorBody::new("invocation_failed", message))
        }),
        _ => handler(|invocation| async move { Ok(invocation.data) }),
    }
}

fn sdk_registry(frames: &[Value]) -> Registry {
    let of = |kind: &'static str| frames.iter().filter(move |frame| frame["type"] == kind);
    let text = |frame: &Value, key: &str| frame[key].as_str().unwrap().to_owned();
    Registry {
        functions: of("registerfunction")
            .map(|frame| as_registered(frame, sdk_handler(frame["id"].as_str().unwrap())))
            .collect(),
        trigger_types: of("registertriggertype").map(type_as_registered).collect(),
        bindings: of("registertrigger")
            .map(|frame| Binding {
                id: text(frame, "id"),
                trigger_type: text(frame, "trigger_type"),
                function_id: text(frame, "function_id"),
                config: frame["config"].clone(),
            })
            .collect(),
    }
}

/// The announcement as both sides mean it: the SDK sends it without waiting for an answer, and adds what describes it.
fn announcement(frame: &Value) -> Value {
    let mut data = frame["data"].clone();
    data.as_object_mut().unwrap().remove("telemetry");
    data["pid"] = json!("<pid>");
    data
}

#[tokio::test]
async fn we_send_what_the_official_sdk_sends_for_the_same_operations() {
    let recorded = recording("90-official-rust-sdk-against-a-recording-server.jsonl");
    let sent_by_sdk = |connection: &'static str| -> Vec<Value> {
        let ours = recorded.iter().filter(move |line| line.connection == connection && !line.from_engine);
        ours.map(|line| line.frame.clone()).collect()
    };
    let (first, second) = (sent_by_sdk("conn1"), sent_by_sdk("conn2"));
    let mut engine = Engine::listen().await;
    let mut timings = quick();
    // The recording ends with a rejection that the SDK never acts on.
    timings.function_conflict.base = PATIENCE * 10;
    timings.function_conflict.cap = PATIENCE * 10;
    let options = Options { timings, ..Options::new(engine.url(), "sdk-probe", "0.23.0-rc.4", "probe") };
    let registry = sdk_registry(&first);
    let (client, _session) = start(options, |_| registry, unprepared());

    let mut connection = engine.accept_silently().await;
    let from_engine = recorded.iter().filter(|line| line.connection == "conn1" && line.from_engine);
    let mut from_engine: Vec<_> = from_engine.map(|line| line.frame.clone()).collect();
    connection.send(&from_engine.remove(0)).await;
    let mut sent = connection.welcome().await;
    let asking = tokio::spawn({
        let client = client.clone();
        async move {
            client.call("state::get", &json!({"key": "k", "scope": "p"}), Deadline::after(PATIENCE)).await
        }
    });
    let call = connection.next().await;
    connection.answer(&call, json!(null)).await;
    within("the answer", asking).await.unwrap().unwrap();
    sent.push(call);
    let data = to_raw_value(&json!({"a": 1})).unwrap();
    client.fire(&Fire { function_id: "probe::void", data: &data, metadata: None, namespace: None }).unwrap();
    for frame in from_engine {
        connection.send(&frame).await;
    }
    connection.send(&json!({"type": "ping"})).await;
    // Two pings, the recorded one and ours, end the exchange.
    while sent.iter().filter(|frame| frame["type"] == "pong").count() < 2 {
        sent.push(connection.next().await);
    }
    sent.pop();

    compare(&first, &sent);

    drop(connection);
    let mut connection = engine.accept().await;
    let sent = connection.welcome().await;
    assert_eq!(sent[0], second[0], "the old connection is retired with the recorded id and token");
    compare(&second, &sent);
}

fn compare(theirs: &[Value], ours: &[Value]) {
    let is_announcement = |frame: &&Value| frame["function_id"] == "engine::workers::register";
    let rest = |frames: &[Value]| sorted(frames.iter().filter(|frame| !is_announcement(frame)).cloned());
    let announced = |frames: &[Value]| announcement(frames.iter().find(is_announcement).unwrap());
    assert_eq!(rest(ours), rest(theirs));
    if cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        assert_eq!(announced(ours), announced(theirs));
    }
}

/// A worker with this registry, on a connection that has been told nothing yet but that it is welcome.
async fn worker(engine: &mut Engine, registry: Registry) -> (Session, Connection) {
    let (_client, session) = start(options(engine.url(), quick()), |_| registry, unprepared());
    let mut connection = engine.accept().await;
    connection.welcome().await;
    (session, connection)
}

/// Sends `frames` and collects what the worker says to them.
async fn replies(connection: &mut Connection, frames: impl Iterator<Item = &Value>) -> Vec<Value> {
    for frame in frames {
        connection.send(frame).await;
    }
    connection.send(&json!({"type": "ping"})).await;
    let mut replies = Vec::new();
    loop {
        let frame = connection.next().await;
        if frame["type"] == "pong" {
            return replies;
        }
        replies.push(frame);
    }
}

#[tokio::test]
async fn recorded_calls_are_answered_as_they_were() {
    let recorded = recording("01-register-and-invoke.jsonl");
    let answered_alike = |frame: &Value| {
        let function = frame["function_id"].as_str().unwrap_or_default();
        // `both` answered with a result and an error at once, which we never do.
        function.starts_with("demo::") && function != "demo::both"
    };
    let on_a = |from_engine: bool, kind: &'static str| {
        let lines =
            recorded.iter().filter(move |line| line.connection == "A" && line.from_engine == from_engine);
        lines.map(|line| &line.frame).filter(move |frame| frame["type"] == kind && answered_alike(frame))
    };
    let got = handler(|invocation| async move {
        let data: Value = serde_json::from_str(invocation.data.get()).unwrap();
        let metadata = invocation.metadata.map(|raw| serde_json::from_str::<Value>(raw.get()).unwrap());
        let mut got = json!({ "got": data });
        if let Some(metadata) = metadata {
            got["metadata"] = metadata;
        }
        Ok(to_raw_value(&got).unwrap())
    });
    let null = || handler(|_| async { Ok(RawValue::NULL.to_owned()) });
    let functions = vec![
        function("demo::echo", got),
        function("demo::fail", refusing("approval_denied", "no")),
        function("demo::fail2", refusing("plain", "no trace")),
        function("demo::null", null()),
        function("demo::absent", null()),
    ];
    let mut engine = Engine::listen().await;
    let (_session, mut connection) = worker(&mut engine, Registry { functions, ..Registry::default() }).await;
    let ours = replies(&mut connection, on_a(true, "invokefunction")).await;

    let answer_to = |id: &Value, frames: &[&Value]| {
        frames.iter().find(|frame| frame["invocation_id"] == *id).map(|frame| comparable(frame))
    };
    let (ours, theirs): (Vec<_>, Vec<_>) = (ours.iter().collect(), on_a(false, "invocationresult").collect());
    let mut compared = 0;
    for call in on_a(true, "invokefunction") {
        let id = &call["invocation_id"];
        let mine = answer_to(id, &ours).unwrap_or_else(|| panic!("no answer to {call}"));
        // The recorded worker echoed metadata and headers in ways of its own, and was removed before the end.
        if call.get("metadata").is_none()
            && call.get("traceparent").is_none()
            && let Some(theirs) = answer_to(id, &theirs)
        {
            assert_eq!(mine, theirs);
            compared += 1;
        }
    }
    assert!(compared >= 10, "only {compared} answers were compared");
}

#[tokio::test]
async fn recorded_bindings_get_the_recorded_verdicts() {
    let recorded = recording("04-trigger-type-provider.jsonl");
    let on_p = |from_engine: bool| {
        let lines =
            recorded.iter().filter(move |line| line.connection == "P" && line.from_engine == from_engine);
        lines.map(|line| &line.frame)
    };
    let trigger_types =
        vec![type_as_registered(on_p(false).find(|f| f["type"] == "registertriggertype").unwrap())];
    let mut engine = Engine::listen().await;
    let (_session, mut connection) =
        worker(&mut engine, Registry { trigger_types, ..Registry::default() }).await;
    // The recorded provider kept silent on purpose about some; we always answer.
    let spoken = |frame: &&Value| {
        frame["type"] == "unregistertrigger"
            || frame["type"] == "registertrigger" && frame["config"].get("silent").is_none()
    };
    let ours = replies(&mut connection, on_p(true).filter(spoken)).await;

    let theirs = on_p(false).filter(|frame| frame["type"] == "triggerregistrationresult");
    let theirs = sorted(theirs.cloned());
    assert!(theirs.len() >= 5);
    assert_eq!(sorted(ours.into_iter()), theirs);
}
