//! What crosses the socket or lies in state: frames, payloads, cursors, rows.

use approval_gate::fsaccess;
use approval_gate::hold::Position;
use approval_gate::iii::frame::{Incoming, Undecodable, decode};
use approval_gate::policy::{self, Question};
use approval_gate::wire::error::{self, InvalidPayload};
use approval_gate::wire::events::BindingConfig;
use approval_gate::wire::filesystem::{Attempts, denied_roots};
use approval_gate::wire::harness::Released;
use approval_gate::wire::hook::{HookInput, WatchInput};
use approval_gate::wire::inbox::{GetPendingRequest, ListPendingRequest};
use approval_gate::wire::lifecycle::{OnConfigChangeEvent, SessionDeletedEvent, TurnCompletedEvent};
use approval_gate::wire::record::{PendingApprovalRecord, StoredRow};
use approval_gate::wire::resolve::ResolveRequest;
use approval_gate::wire::session::SessionContext;
use approval_gate::wire::settings::{
    AlwaysAllowMutationRequest, ApprovalSettings, SetModeRequest, StoredSettings,
};
use approval_gate::wire::shell::{Appended, append_host_root};
use base64::Engine as _;
use serde_json::Value;
use serde_json::value::RawValue;

use super::planted::{MARK, is_marked, marked};
use super::{json, text};

/// A message from the engine, as text. Where the same text is also read into a value, both readings agree.
pub fn frame(bytes: &[u8]) {
    let text = text(bytes);
    let decoded = decode(&text);
    let Ok(value) = serde_json::from_str::<Value>(&text) else {
        return;
    };
    let told = |key: &str| value.get(key).and_then(Value::as_str);
    let payload = |key: &str| value.get(key).cloned();
    let same = |raw: Option<&RawValue>| raw.map(|raw| serde_json::from_str::<Value>(raw.get()).unwrap());
    let id = || told("invocation_id").and_then(|id| uuid::Uuid::try_parse(id).ok());
    match decoded {
        Ok(Incoming::Invoke(call)) => {
            assert_eq!(told("type"), Some("invokefunction"));
            assert_eq!(told("function_id"), Some(&*call.function_id));
            assert_eq!((call.invocation_id, same(call.data)), (id(), payload("data")));
            assert_eq!(same(call.metadata), payload("metadata").filter(|metadata| !metadata.is_null()));
        }
        Ok(Incoming::Answer { invocation_id, outcome }) => {
            assert_eq!((told("type"), Some(invocation_id)), (Some("invocationresult"), id()));
            assert_eq!(outcome.is_err(), !value["error"].is_null());
            if let Ok(result) = outcome {
                assert_eq!(same(result), payload("result"));
            }
        }
        Ok(Incoming::Bind(binding)) => {
            assert_eq!(told("id"), Some(&*binding.id));
            assert_eq!(told("trigger_type"), Some(&*binding.trigger_type));
            assert_eq!(same(binding.config), payload("config"));
        }
        Ok(Incoming::Unbind { id, .. } | Incoming::BindingVerdict { id, .. }) => {
            assert_eq!(told("id"), Some(&*id));
        }
        Ok(Incoming::WorkerRegistered { worker_id, .. }) => assert_eq!(told("worker_id"), Some(&*worker_id)),
        Ok(Incoming::Rejected(rejection)) => assert_eq!(told("code"), Some(&*rejection.code)),
        Ok(Incoming::Ping) => assert_eq!(told("type"), Some("ping")),
        Ok(Incoming::Refused(_)) => assert_eq!(told("type"), Some("error")),
        Ok(Incoming::Other) => assert_ne!(told("type"), Some("invokefunction")),
        // Whoever can be answered is answered.
        Err(Undecodable::Invocation { invocation_id, .. }) => {
            assert_eq!((told("type"), Some(invocation_id)), (Some("invokefunction"), id()));
        }
        Err(Undecodable::Ignored(_)) => assert!(told("type") != Some("invokefunction") || id().is_none()),
    }
}

/// A payload for one of our functions, as JSON text: both readers of hook payloads, and all of the requests.
pub fn hook(bytes: &[u8]) {
    let Ok(raw) = serde_json::from_slice::<&RawValue>(bytes) else {
        return;
    };
    let Some(value) = serde_json::from_str::<Value>(raw.get()).ok().filter(|value| !is_marked(value)) else {
        return;
    };
    let strict = told::<HookInput>(error::decode(raw));
    let lenient = WatchInput::read(&value);
    if let Some((strict, call)) = strict.and_then(|strict| strict.call.clone().map(|call| (strict, call))) {
        // What the gate judges is what the watch will see.
        let watch = lenient.as_ref().unwrap();
        assert_eq!((&watch.session_id, &watch.turn_id), (&strict.session_id, &strict.turn_id));
        assert_eq!((&watch.call, watch.depth), (&call, strict.depth));
        assert_eq!(watch.metadata, strict.metadata);
    }
    if let Some(watch) = lenient {
        let arguments = marked(&watch.call.arguments);
        let question = Question { function_id: &watch.call.function_id, arguments: &arguments };
        if let Some(denied) = policy::screen(&question) {
            assert!(!denied.denial_text().contains(MARK), "the denial tells an argument");
        }
        let _ = fsaccess::asked(&watch.result);
        let _ = fsaccess::carries_request(&watch.call.arguments);
    }
    requests(&value);
    requests(&marked(&value));
}

fn requests(value: &Value) {
    told::<HookInput>(error::decode_value(value));
    told::<ListPendingRequest>(error::decode_value(value));
    told::<GetPendingRequest>(error::decode_value(value));
    told::<ResolveRequest>(error::decode_value(value));
    told::<SetModeRequest>(error::decode_value(value));
    told::<AlwaysAllowMutationRequest>(error::decode_value(value));
    told::<SessionDeletedEvent>(error::decode_value(value));
    told::<TurnCompletedEvent>(error::decode_value(value));
    told::<OnConfigChangeEvent>(error::decode_value(value));
    told::<BindingConfig>(BindingConfig::read(Some(value)));
    let raw = RawValue::from_string(value.to_string()).unwrap();
    told::<ResolveRequest>(error::decode(&raw));
    told::<HookInput>(error::decode(&raw));
}

/// The request, after a look at the error in its place: short, plain, and without any value of the payload.
fn told<T>(read: Result<T, InvalidPayload>) -> Option<T> {
    read.map_err(|invalid| complaint(&invalid.to_string())).ok()
}

fn complaint(text: &str) {
    assert!(text.len() <= 4096, "a complaint of {} bytes", text.len());
    assert!(!text.contains(MARK), "a value of the payload is repeated: {text}");
    assert!(!text.chars().any(char::is_control), "control characters in {text:?}");
}

/// A cursor from a caller, as it comes and as what it would stand for.
pub fn cursor(bytes: &[u8]) {
    let encoded = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes);
    for cursor in [&*text(bytes), &encoded] {
        if let Ok(position) = Position::from_cursor(cursor) {
            assert_eq!(Position::from_cursor(&position.cursor()), Ok(position));
        }
    }
    let text = text(bytes);
    let ids: Vec<&str> = text.splitn(2, '\n').collect();
    let position = Position {
        pending_at: i64::from_le_bytes(std::array::from_fn(|at| bytes.get(at).copied().unwrap_or(0))),
        session_id: ids[0].chars().take(512).collect(),
        function_call_id: ids.get(1).unwrap_or(&"").chars().take(512).collect(),
    };
    // Every position that a record can have makes a cursor that is understood.
    assert_eq!(Position::from_cursor(&position.cursor()), Ok(position));
}

/// A row of any of our scopes, or an answer of a sibling.
pub fn stored_row(bytes: &[u8]) {
    let value = json(bytes);
    if is_marked(&value) {
        return;
    }
    for value in [&value, &marked(&value)] {
        row(value);
        settings(value);
    }
    if let Some(attempts) = Attempts::read(&value) {
        assert!(attempts.count >= 0);
    }
    let _ = (denied_roots(&value), Released::read(&value));
    let context = SessionContext::read(&value);
    assert!(context.title.as_deref() != Some("") && context.description.as_deref() != Some(""));
    if let Appended::Changed(entry) = append_host_root(&value, "/srv/data") {
        assert_eq!(append_host_root(&entry, "/srv/data"), Appended::AlreadyThere);
    }
}

fn row(value: &Value) {
    match StoredRow::read(value) {
        StoredRow::Live(record) => {
            let stored = record.stored();
            assert_eq!(StoredRow::read(&stored), StoredRow::Live(record));
            assert!(told::<PendingApprovalRecord>(error::decode_value(&stored)).is_some());
        }
        StoredRow::Null => assert!(value.is_null()),
        StoredRow::Resolved(marker) => {
            // A reader that does not know markers must not take one for a hold.
            let stored = marker.stored();
            assert!(error::decode_value::<PendingApprovalRecord>(&stored).is_err());
            assert_eq!(StoredRow::read(&stored), StoredRow::Resolved(marker));
        }
        StoredRow::Unreadable(why) => complaint(&why),
    }
}

fn settings(value: &Value) {
    match StoredSettings::read(value) {
        StoredSettings::Absent => assert!(!value.is_object()),
        StoredSettings::Record(settings) => {
            let stored = serde_json::to_value(ApprovalSettings::from(settings.clone())).unwrap();
            assert_eq!(StoredSettings::read(&stored), StoredSettings::Record(settings));
        }
        StoredSettings::Additions(additions) => {
            let stored = StoredSettings::of_additions(&additions).unwrap();
            assert_eq!(StoredSettings::read(&stored), StoredSettings::Additions(additions));
        }
        StoredSettings::Unreadable(why) => {
            complaint(&why);
            assert!(value.is_object());
        }
    }
}
