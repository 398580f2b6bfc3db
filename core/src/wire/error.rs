//! What is wrong with a payload, and the error bodies that callers see (contract §9).
//!
//! A message names the field and what was expected there. It never repeats what was found: a payload may carry
//! arguments or secrets, and error texts end up in logs and chats. Deserialisers like to quote the offending value, so
//! `describe` keeps only the parts of their messages that come from our own types.

use crate::hold::BadId;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, IntoDeserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use thiserror::Error;

/// The code of a payload that does not fit.
pub const INVALID_PAYLOAD: &str = "approval/invalid_payload";
/// The code of a change that was refused because the store did not answer or holds what cannot be read.
pub const STATE_UNAVAILABLE: &str = "approval/state_unavailable";
/// The code of a decision that the harness did not take.
pub const HARNESS_UNAVAILABLE: &str = "approval/harness_unavailable";

/// The code of a rule that was to be made from a call that is not held.
pub const NOT_HELD: &str = "approval/not_held";
/// The code of a rule that the held call it was to be made from does not bear out.
pub const RULE_MISMATCH: &str = "approval/rule_mismatch";
/// The code of a decision that was made about another hold than the one that waits.
pub const DIGEST_MISMATCH: &str = "approval/digest_mismatch";

/// Fields whose inside is the caller's own: nothing below them is ever named in a message.
const OPAQUE: [&str; 5] = ["arguments", "arguments_excerpt", "metadata", "session_metadata", "details"];

/// The longest piece of caller-made text that a message repeats, in code points: a field name.
const NAME_LIMIT: usize = 64;

/// A payload that does not fit its schema. The text carries the code, as callers of the published worker expect.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("approval/invalid_payload: {field}: {what}")]
pub struct InvalidPayload {
    /// The path of the field, dotted; `payload` for the whole.
    pub field: String,
    /// What is wrong with it, without its value.
    pub what: String,
}

impl From<BadId> for InvalidPayload {
    fn from(bad: BadId) -> Self {
        Self::new(bad.field, bad.problem)
    }
}

impl InvalidPayload {
    /// `field` is wrong in the way that `what` says. Neither may carry a value from the payload.
    pub fn new(field: impl Into<String>, what: impl Into<String>) -> Self {
        Self { field: field.into(), what: what.into() }
    }
}

/// Everything that a caller of our functions can be refused with; the two hooks never send one (contract §9).
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The payload does not fit.
    #[error(transparent)]
    InvalidPayload(#[from] InvalidPayload),
    /// State did not answer, refused, or holds a record that cannot be read. Carries the cause, in a few words.
    #[error("approval/state_unavailable: {0}")]
    StateUnavailable(String),
    /// The harness did not take the decision; the hold is kept. Carries the cause, in a few words.
    #[error("approval/harness_unavailable: {0}")]
    HarnessUnavailable(String),
    /// No call of that name is held in that session.
    #[error("approval/not_held: {0}")]
    NotHeld(String),
    /// The record of the held call does not show that the rule fits it. Names the field of the rule.
    #[error("approval/rule_mismatch: {0}")]
    RuleMismatch(String),
    /// Another call waits there than the one that was shown; nothing was done.
    #[error("approval/digest_mismatch: the call that waits is not the one that was shown; look at it again")]
    DigestMismatch,
}

impl Refusal {
    /// The stable code; callers compare this, never the text.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::InvalidPayload(_) => INVALID_PAYLOAD,
            Self::StateUnavailable(_) => STATE_UNAVAILABLE,
            Self::HarnessUnavailable(_) => HARNESS_UNAVAILABLE,
            Self::NotHeld(_) => NOT_HELD,
            Self::RuleMismatch(_) => RULE_MISMATCH,
            Self::DigestMismatch => DIGEST_MISMATCH,
        }
    }
}

/// Reads a request, which must be a JSON object.
///
/// # Errors
/// The first field that does not fit, named by its path (contract §9).
pub fn decode<T: DeserializeOwned>(raw: &RawValue) -> Result<T, InvalidPayload> {
    // Following the path costs as much again as reading does, and only a mistake needs it: then the text is read twice.
    let plain = Object::deserialize(&mut serde_json::Deserializer::from_str(raw.get()));
    plain.map(|Object(request)| request).or_else(|_| read(&mut serde_json::Deserializer::from_str(raw.get())))
}

/// As [`decode`], for a value that is already parsed.
///
/// # Errors
/// The first field that does not fit, named by its path (contract §9).
pub fn decode_value<T: DeserializeOwned>(value: &Value) -> Result<T, InvalidPayload> {
    read(value)
}

fn read<'de, D, T>(reader: D) -> Result<T, InvalidPayload>
where
    D: Deserializer<'de, Error = serde_json::Error>,
    T: DeserializeOwned,
{
    serde_path_to_error::deserialize::<_, Object<T>>(reader)
        .map(|Object(request)| request)
        .map_err(|error| describe(&error.path().to_string(), &error.inner().to_string()))
}

/// A struct read from a JSON object only. Derived readers also take an array, field after field, which no schema of
/// ours allows; without this wrapper `["s_1", "full"]` would be a `set-mode` request.
pub(super) struct Object<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        object(deserializer).map(Self)
    }
}

/// For `deserialize_with`: a field that must be a JSON object.
pub(super) fn object<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    deserializer.deserialize_map(ObjectVisitor(PhantomData))
}

/// For `deserialize_with`: a field that must be a JSON object or `null`.
pub(super) fn optional_object<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::<Object<T>>::deserialize(deserializer)?.map(|Object(inner)| inner))
}

/// For `deserialize_with`: a word of an enum. Derived readers also take `{"word": null}`, which no schema of ours
/// allows.
pub(super) fn word<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(String::deserialize(deserializer)?.into_deserializer())
}

/// For `deserialize_with`: a word of an enum, or `null`.
pub(super) fn optional_word<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::<String>::deserialize(deserializer)?
        .map(|word| T::deserialize(word.into_deserializer()))
        .transpose()
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

/// Turns a path and a deserialiser's message into words that repeat no value.
fn describe(path: &str, message: &str) -> InvalidPayload {
    let field = visible_path(path);
    if let Some(name) = quoted_after(message, "missing field `") {
        return InvalidPayload::new(within(&field, &name), "missing");
    }
    if let Some(name) = quoted_after(message, "unknown field `") {
        let parent = field.strip_suffix(&name).map_or(field.as_str(), |parent| parent.trim_end_matches('.'));
        return InvalidPayload::new(within(parent, &name), "unknown field");
    }
    if let Some(name) = quoted_after(message, "duplicate field `") {
        return InvalidPayload::new(within(&field, &name), "given twice");
    }
    let field = if field.is_empty() { "payload".to_owned() } else { field };
    InvalidPayload::new(field, expectation(message))
}

/// The path up to the first field whose inside belongs to the caller; empty for the whole payload.
fn visible_path(path: &str) -> String {
    let mut shown: Vec<String> = Vec::new();
    for segment in path.split('.').filter(|segment| !segment.is_empty() && *segment != "?") {
        shown.push(clipped(segment));
        if OPAQUE.contains(&segment.split('[').next().unwrap_or(segment)) {
            break;
        }
    }
    shown.join(".")
}

fn within(parent: &str, name: &str) -> String {
    if parent.is_empty() || parent == name { name.to_owned() } else { format!("{parent}.{name}") }
}

/// The back-quoted name that follows `lead` at the start of `message`.
fn quoted_after(message: &str, lead: &str) -> Option<String> {
    let rest = message.strip_prefix(lead)?;
    let name = rest.split_once('`').map_or(rest, |(name, _)| name);
    Some(clipped(name))
}

fn clipped(name: &str) -> String {
    let mut clipped = String::new();
    for character in name.chars().take(NAME_LIMIT) {
        if character.is_control() {
            clipped.extend(character.escape_default());
        } else {
            clipped.push(character);
        }
    }
    clipped
}

/// What was expected, in a reader's words. Only the tail after the *last* marker is ours: a quoted value comes before.
fn expectation(message: &str) -> String {
    let message = without_place(message);
    let Some((_, expected)) = message.rsplit_once(", expected ") else {
        return if message.starts_with("recursion limit") { "nested too deeply" } else { "does not fit" }
            .to_owned();
    };
    let words = match expected {
        "usize" | "u64" | "u32" => "a whole number, 0 or more",
        "i64" | "i32" => "a whole number",
        "a map" => "an object",
        "a sequence" => "an array",
        other if other.starts_with("struct ") => "an object",
        other => other,
    };
    format!("expected {words}")
}

/// The message without the ` at line 1 column 2` that a reader of text puts behind it. A reader of values puts nothing
/// there, and then the same words can only be part of a value that is quoted.
fn without_place(message: &str) -> &str {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match message.rsplit_once(" at line ") {
        Some((text, place))
            if place.split_once(" column ").is_some_and(|(line, column)| number(line) && number(column)) =>
        {
            text
        }
        _ => message,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::wire::events::BindingConfig;
    use crate::wire::hook::HookInput;
    use crate::wire::inbox::ListPendingRequest;
    use crate::wire::lifecycle::{SessionDeletedEvent, TurnCompletedEvent};
    use crate::wire::resolve::ResolveRequest;
    use crate::wire::settings::SetModeRequest;

    fn raw(value: &Value) -> Box<RawValue> {
        RawValue::from_string(value.to_string()).unwrap()
    }

    fn complaint<T: DeserializeOwned>(value: &Value) -> String {
        decode::<T>(&raw(value)).map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn a_payload_that_does_not_fit_is_answered_with_code_and_field() {
        let invalid = decode::<SetModeRequest>(&raw(&json!({"mode": "auto"}))).map(|_| ()).unwrap_err();

        let refusal = Refusal::from(invalid);

        assert_eq!(refusal.code(), "approval/invalid_payload");
        assert_eq!(refusal.to_string(), "approval/invalid_payload: session_id: missing");
    }

    #[test]
    fn each_kind_of_misfit_names_its_field_and_what_was_expected() {
        let rows = [
            (
                complaint::<SetModeRequest>(&json!({"session_id": 5, "mode": "auto"})),
                "session_id: expected a string",
            ),
            (
                complaint::<SetModeRequest>(&json!({"session_id": "s", "mode": "turbo"})),
                "mode: expected one of `manual`, `auto`, `full`",
            ),
            (complaint::<SetModeRequest>(&json!({"session_id": "s", "mode": 3})), "mode: expected a string"),
            (
                complaint::<SetModeRequest>(&json!({"session_id": "s", "mode": {"full": null}})),
                "mode: expected a string",
            ),
            (complaint::<SetModeRequest>(&json!("x")), "payload: expected an object"),
            (complaint::<SetModeRequest>(&json!(null)), "payload: expected an object"),
            (complaint::<SetModeRequest>(&json!(["s", "full"])), "payload: expected an object"),
            (
                complaint::<ListPendingRequest>(&json!({"limit": -1})),
                "limit: expected a whole number, 0 or more",
            ),
            (
                complaint::<ListPendingRequest>(&json!({"limit": 1.5})),
                "limit: expected a whole number, 0 or more",
            ),
            (complaint::<ListPendingRequest>(&json!({"metadata": "x"})), "metadata: expected an object"),
            (
                complaint::<HookInput>(&json!({"session_id": "s", "turn_id": "t", "call": {"id": "c"}})),
                "call.function_id: missing",
            ),
            (
                complaint::<HookInput>(&json!({"session_id": "s", "turn_id": "t", "call": ["c", "f"]})),
                "call: expected an object",
            ),
            (
                complaint::<HookInput>(
                    &json!({"session_id": "s", "turn_id": "t", "result": {"content": "text"}}),
                ),
                "result.content: expected an array",
            ),
        ];
        for (said, expected) in rows {
            assert_eq!(said, format!("approval/invalid_payload: {expected}"));
        }
    }

    #[test]
    fn a_message_never_repeats_what_was_found() {
        for secret in ["hunter2-value", "hunter2-value, expected `hunter2-value", "hunter2-value at line 1"] {
            let payloads = [
                json!({"session_id": "s", "turn_id": "t", "call": secret}),
                json!({"session_id": "s", "turn_id": "t", "depth": secret}),
                json!({"session_id": "s", "turn_id": "t", "metadata": [secret]}),
                json!({"session_id": [secret], "turn_id": "t"}),
                json!({"session_id": "s", "turn_id": "t", "result": {"details": {"error": {"message": {"a": secret}}}}}),
            ];
            for payload in payloads {
                let said = complaint::<HookInput>(&payload);
                assert!(!said.contains("hunter2"), "{said}");
            }
        }
    }

    #[test]
    fn arguments_nested_past_the_parser_are_refused_without_naming_their_keys() {
        let deep = format!("{}1{}", "{\"secretkey\":".repeat(200), "}".repeat(200));
        let text = format!(
            r#"{{"session_id":"s","turn_id":"t","call":{{"id":"c","function_id":"f","arguments":{deep}}}}}"#
        );
        let raw = RawValue::from_string(text).unwrap();

        let said = decode::<HookInput>(&raw).map(|_| ()).unwrap_err().to_string();

        assert!(!said.contains("secretkey"), "{said}");
        assert!(said.contains("call.arguments: nested too deeply"), "{said}");
    }

    #[test]
    fn a_field_given_twice_is_refused() {
        let raw =
            RawValue::from_string(r#"{"session_id":"a","mode":"auto","mode":"full"}"#.to_owned()).unwrap();
        let said = decode::<SetModeRequest>(&raw).map(|_| ()).unwrap_err();
        assert_eq!((said.field.as_str(), said.what.as_str()), ("mode", "given twice"));
    }

    #[test]
    fn a_field_name_of_the_caller_s_making_is_clipped_and_made_visible() {
        let long = "x".repeat(500);
        let rows = [("a.b", "a.b"), ("a\u{1b}[2Jb", "a\\u{1b}[2Jb"), (long.as_str(), &long[..64])];
        for (name, shown) in rows {
            let config = Value::Object([(name.to_owned(), json!(1))].into_iter().collect());
            let refused = BindingConfig::read(Some(&config)).unwrap_err();
            assert_eq!((refused.field.as_str(), refused.what.as_str()), (shown, "unknown field"));
        }
    }

    #[test]
    fn unknown_fields_of_a_request_are_ignored() {
        let request = json!({"session_id": "s", "mode": "full", "_caller_worker_id": "w"});
        assert!(decode::<SetModeRequest>(&raw(&request)).is_ok());
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let names = prop::sample::select(vec![
            "session_id",
            "turn_id",
            "call",
            "id",
            "function_id",
            "arguments",
            "mode",
            "metadata",
            "result",
            "details",
            "error",
            "content",
            "limit",
            "decision",
            "depth",
            "other",
        ]);
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map(names.clone().prop_map(str::to_owned), inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_json_is_read_or_refused_alike_from_text_and_from_a_value(value in any_json()) {
            let text = raw(&value);
            prop_assert_eq!(
                decode::<HookInput>(&text).map(|_| ()).map_err(|invalid| invalid.field),
                decode_value::<HookInput>(&value).map(|_| ()).map_err(|invalid| invalid.field)
            );
            let _ = decode::<ResolveRequest>(&text);
            let _ = decode::<ListPendingRequest>(&text);
            let _ = decode::<TurnCompletedEvent>(&text);
            let _ = decode::<SessionDeletedEvent>(&text);
            let _ = decode::<SetModeRequest>(&text);
            let _ = BindingConfig::read(Some(&value));
            let _ = crate::wire::record::StoredRow::read(&value);
            let _ = crate::wire::hook::WatchInput::read(&value);
            let _ = crate::wire::settings::StoredSettings::read(&value);
            let _ = crate::wire::session::SessionContext::read(&value);
            let _ = crate::wire::shell::append_host_root(&value, "/data");
            let _ = crate::wire::harness::Released::read(&value);
            let _ = crate::wire::harness::roots(&value);
        }
    }
}
