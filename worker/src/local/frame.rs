//! The words on the wire: decoding what a worker sends, writing what the engine sends.
//!
//! A frame that does not decode is dropped by the caller without a word to anybody; that is the protocol, not
//! leniency of ours. The non-obvious fact: the 127 levels of nesting the engine allows are the recursion limit of
//! the JSON reader, so nothing here counts levels.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

/// The body of an error as it crosses the wire. Any further key is lost in transit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ErrorBody {
    /// The code callers compare.
    pub(super) code: String,
    /// Prose.
    pub(super) message: String,
    /// Passed on when given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) stacktrace: Option<String>,
}

impl ErrorBody {
    /// An error without a stack trace.
    pub(super) fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), stacktrace: None }
    }

    /// The refusal of a namespace that was named and left blank.
    pub(super) fn blank_namespace(key: &str) -> Self {
        let text = "is empty: it was named and left blank. Give it a name, or omit it to use `default`.";
        Self::new("INVALID_NAMESPACE", format!("`{key}` {text}"))
    }
}

/// How a call ends. `Ok(None)` is an answer without a `result` key, `Ok(Some(null))` one with `"result":null`.
pub(super) type Outcome = Result<Option<Value>, ErrorBody>;

/// What a caller wants done instead of a plain call.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(super) enum Action {
    /// No answer wanted.
    Void,
    /// Through a queue, which needs a worker this engine does not have.
    Enqueue {
        /// The name of the queue.
        #[serde(rename = "queue")]
        _queue: String,
    },
}

/// A function as its worker describes it.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct FunctionForm {
    pub(super) id: String,
    pub(super) description: Option<String>,
    pub(super) request_format: Option<Value>,
    pub(super) response_format: Option<Value>,
    pub(super) metadata: Option<Value>,
}

/// A trigger type as its provider describes it. `description` is required: without it the frame is dropped.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct TypeForm {
    pub(super) id: String,
    pub(super) description: String,
    pub(super) trigger_request_format: Option<Value>,
    pub(super) call_request_format: Option<Value>,
    pub(super) namespace: Option<String>,
}

/// A bind as its binder asks for it. `config` is required, `null` included.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct BindForm {
    pub(super) id: String,
    pub(super) trigger_type: String,
    pub(super) function_id: String,
    pub(super) config: Value,
    pub(super) metadata: Option<Value>,
    pub(super) namespace: Option<String>,
    pub(super) trigger_namespace: Option<String>,
}

/// A provider's word on a bind it was handed.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Verdict {
    pub(super) id: String,
    pub(super) trigger_type: String,
    #[serde(rename = "function_id")]
    _function_id: String,
    pub(super) error: Option<ErrorBody>,
}

/// A call as its caller sends it.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct InvokeForm {
    #[serde(default, deserialize_with = "optional_uuid")]
    pub(super) invocation_id: Option<Uuid>,
    pub(super) function_id: String,
    pub(super) data: Value,
    pub(super) action: Option<Action>,
    pub(super) metadata: Option<Value>,
    pub(super) namespace: Option<String>,
    pub(super) traceparent: Option<String>,
    pub(super) baggage: Option<String>,
}

/// An answer as the executing worker sends it. An error that is present and not null wins over the result.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct AnswerForm {
    #[serde(deserialize_with = "required_uuid")]
    pub(super) invocation_id: Uuid,
    #[serde(rename = "function_id")]
    _function_id: String,
    pub(super) result: Option<Value>,
    pub(super) error: Option<ErrorBody>,
}

/// Everything a worker may say.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(super) enum Inbound {
    RegisterFunction(FunctionForm),
    UnregisterFunction {
        id: String,
    },
    RegisterTriggerType(TypeForm),
    RegisterTrigger(BindForm),
    TriggerRegistrationResult(Verdict),
    UnregisterTrigger {
        id: String,
    },
    InvokeFunction(InvokeForm),
    InvocationResult(AnswerForm),
    Reattach {
        previous_worker_id: String,
        reattach_token: Option<String>,
    },
    /// An old grouping message; held back like the others and then ignored.
    RegisterService {},
    Ping,
    Pong,
}

impl Inbound {
    /// Whether the message waits until its connection has announced itself.
    pub(super) fn is_held_back(&self) -> bool {
        matches!(
            self,
            Self::RegisterFunction(_)
                | Self::UnregisterFunction { .. }
                | Self::RegisterTriggerType(_)
                | Self::RegisterTrigger(_)
                | Self::UnregisterTrigger { .. }
                | Self::RegisterService {}
        )
    }
}

fn optional_uuid<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Uuid>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    text.map(|text| Uuid::parse_str(&text).map_err(serde::de::Error::custom)).transpose()
}

fn required_uuid<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Uuid, D::Error> {
    optional_uuid(deserializer)?.ok_or_else(|| serde::de::Error::custom("no invocation id"))
}

/// Reads one text frame. Blank text is no frame at all.
pub(super) fn decode_text(text: &str) -> Result<Option<Inbound>, serde_json::Error> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    let value: Value = serde_json::from_str(text)?;
    Inbound::deserialize(value).map(Some)
}

/// Reads one binary frame: the same JSON, or telemetry, which is not for us.
pub(super) fn decode_binary(bytes: &[u8]) -> Result<Option<Inbound>, serde_json::Error> {
    if [b"OTLP", b"MTRC", b"LOGS"].iter().any(|tag| bytes.starts_with(*tag)) {
        return Ok(None);
    }
    let value: Value = serde_json::from_slice(bytes)?;
    Inbound::deserialize(value).map(Some)
}

/// The greeting of a new connection.
pub(super) fn worker_registered(worker_id: Uuid, token: &str) -> Value {
    json!({ "type": "workerregistered", "worker_id": worker_id.to_string(), "reattach_token": token })
}

/// The answer to a call, as its caller gets it.
pub(super) fn invocation_result(id: Uuid, function_id: &str, outcome: &Outcome, trace: &Trace) -> Value {
    let mut frame = object("invocationresult");
    frame.insert("invocation_id".into(), id.to_string().into());
    frame.insert("function_id".into(), function_id.into());
    match outcome {
        Ok(Some(result)) => drop(frame.insert("result".into(), result.clone())),
        Ok(None) => {}
        Err(error) => drop(frame.insert("error".into(), json!(error))),
    }
    trace.write(&mut frame, "");
    Value::Object(frame)
}

/// A call, as the executing worker gets it. The id is always there, also when nobody wants an answer.
pub(super) fn invoke_function(
    id: Uuid,
    function_id: &str,
    data: Value,
    metadata: Option<&Value>,
    trace: &Trace,
) -> Value {
    let mut frame = object("invokefunction");
    frame.insert("invocation_id".into(), id.to_string().into());
    frame.insert("function_id".into(), function_id.into());
    frame.insert("data".into(), data);
    if let Some(metadata) = metadata {
        frame.insert("metadata".into(), metadata.clone());
    }
    trace.write(&mut frame, function_id);
    Value::Object(frame)
}

/// A bind, as its provider gets it. The namespaces are left out when they are the default.
pub(super) fn register_trigger(bind: &BindForm) -> Value {
    let mut frame = object("registertrigger");
    frame.insert("id".into(), bind.id.clone().into());
    frame.insert("trigger_type".into(), bind.trigger_type.clone().into());
    frame.insert("function_id".into(), bind.function_id.clone().into());
    frame.insert("config".into(), bind.config.clone());
    if let Some(metadata) = &bind.metadata {
        frame.insert("metadata".into(), metadata.clone());
    }
    for (key, name) in [("namespace", &bind.namespace), ("trigger_namespace", &bind.trigger_namespace)] {
        if let Some(name) = name.as_ref().filter(|name| *name != "default") {
            frame.insert(key.into(), name.clone().into());
        }
    }
    Value::Object(frame)
}

/// A refused bind, as its binder is told.
pub(super) fn bind_refused(bind: &BindForm, error: &ErrorBody) -> Value {
    json!({ "type": "triggerregistrationresult", "id": bind.id, "trigger_type": bind.trigger_type,
            "function_id": bind.function_id, "error": error })
}

/// A bind that is gone, as its provider is told: id and type, nothing else.
pub(super) fn unregister_trigger(bind: &BindForm) -> Value {
    json!({ "type": "unregistertrigger", "id": bind.id, "trigger_type": bind.trigger_type })
}

/// The trace headers a caller sent along.
#[derive(Debug, Clone, Default)]
pub(super) struct Trace {
    pub(super) traceparent: Option<String>,
    pub(super) baggage: Option<String>,
}

impl Trace {
    /// Writes the headers; a function id, if given, is appended to the baggage as the engine does on the way out.
    fn write(&self, frame: &mut Map<String, Value>, function_id: &str) {
        if let Some(traceparent) = &self.traceparent {
            frame.insert("traceparent".into(), traceparent.clone().into());
        }
        if let Some(baggage) = &self.baggage {
            let tail = if function_id.is_empty() {
                String::new()
            } else {
                format!(",iii.function.id={function_id}")
            };
            frame.insert("baggage".into(), format!("{baggage}{tail}").into());
        }
    }
}

fn object(kind: &str) -> Map<String, Value> {
    Map::from_iter([("type".to_owned(), Value::from(kind))])
}
