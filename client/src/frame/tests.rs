#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use uuid::Uuid;

use super::*;
use crate::ErrorBody;

const ID: &str = "a442f9e6-c8b9-4b9c-9909-485c2786f86c";

fn uuid() -> Uuid {
    Uuid::parse_str(ID).unwrap()
}

#[test]
fn an_answer_without_result_is_not_an_answer_of_null() {
    let absent =
        format!(r#"{{"type":"invocationresult","invocation_id":"{ID}","function_id":"state::get"}}"#);
    let null =
        format!(r#"{{"type":"invocationresult","invocation_id":"{ID}","function_id":"f","result":null}}"#);

    let Incoming::Answer { outcome: Ok(absent), .. } = decode(&absent).unwrap() else { panic!() };
    let Incoming::Answer { outcome: Ok(null), .. } = decode(&null).unwrap() else { panic!() };

    assert!(absent.is_none());
    assert_eq!(null.unwrap().get(), "null");
}

#[test]
fn a_null_error_is_no_error_and_an_error_wins_over_a_result() {
    let with = |error: &str| {
        format!(r#"{{"type":"invocationresult","invocation_id":"{ID}","result":1,"error":{error}}}"#)
    };
    let text = with("null");
    assert!(matches!(decode(&text), Ok(Incoming::Answer { outcome: Ok(Some(_)), .. })));
    let text = with(r#"{"code":"c","message":"m","stacktrace":"s"}"#);
    let Ok(Incoming::Answer { outcome: Err(error), .. }) = decode(&text) else { panic!() };
    assert_eq!(error, ErrorBody::new("c", "m"));
    let text = with(r#"{"code":7}"#);
    let Ok(Incoming::Answer { outcome: Err(error), .. }) = decode(&text) else { panic!() };
    assert_eq!(error.code, "unreadable_error");
}

#[test]
fn invocation_ids_are_compared_as_values() {
    for spelling in [ID.to_owned(), ID.to_uppercase(), ID.replace('-', "")] {
        let text = format!(r#"{{"type":"invocationresult","invocation_id":"{spelling}"}}"#);
        let Ok(Incoming::Answer { invocation_id, .. }) = decode(&text) else { panic!("{spelling}") };
        assert_eq!(invocation_id, uuid());
    }
}

#[test]
fn a_call_with_a_readable_id_is_owed_an_answer_whatever_else_is_wrong() {
    let text = format!(r#"{{"type":"invokefunction","invocation_id":"{ID}","function_id":7,"data":{{}}}}"#);
    let expected = Undecodable::Invocation { invocation_id: uuid(), what: "`function_id`" };
    assert_eq!(decode(&text).unwrap_err(), expected);
}

#[test]
fn unknown_types_keys_and_repeated_keys_are_tolerated() {
    assert!(matches!(decode(r#"{"type":"someday","x":[1,{"y":2}]}"#), Ok(Incoming::Other)));
    assert!(matches!(decode(r#"{"x":1,"type":"ping","x":2}"#), Ok(Incoming::Ping)));
    let text = r#"{"type":"ping","id":"a","id":"b","type":"unregistertrigger"}"#;
    assert!(matches!(decode(text), Ok(Incoming::Unbind { id, trigger_type: None }) if id == "b"));
}

#[test]
fn escaped_strings_are_unescaped() {
    let text = r#"{"type":"unregistertrigger","id":"a\"\u00e9\\","trigger_type":"t"}"#;
    assert!(matches!(decode(text), Ok(Incoming::Unbind { id, .. }) if id == "a\"é\\"));
}

#[test]
fn malformed_text_is_ignored_not_fatal() {
    for text in ["", "  ", "hello", "[1]", "7", "{", r#"{"id":"x"}"#, r#"{"type":"ping"} x"#, r#"{"type":7}"#]
    {
        assert!(matches!(decode(text), Err(Undecodable::Ignored(_))), "{text}");
    }
}

#[test]
fn a_million_nested_arrays_decode_without_recursion() {
    let deep = format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
    let text = format!(
        r#"{{"type":"invokefunction","extra":{deep},"invocation_id":"{ID}","function_id":"f","data":{deep}}}"#
    );
    let Ok(Incoming::Invoke(invoke)) = decode(&text) else { panic!() };
    assert_eq!(invoke.data.unwrap().get().len(), 2_000_000);
}

#[test]
fn frames_that_the_engine_would_drop_are_not_written() {
    let write = |data: &Value| {
        Outgoing::InvokeFunction {
            invocation_id: Some(uuid()),
            function_id: "f",
            data,
            action: None,
            metadata: None,
            namespace: None,
            traceparent: None,
            baggage: None,
        }
        .write()
    };
    let nested = |depth: usize| (0..depth).fold(json!(1), |inner, _| json!([inner]));

    assert!(write(&nested(126)).is_ok());
    assert_eq!(write(&nested(127)), Err(Unsendable::TooDeep));
    assert!(write(&json!("[".repeat(500) + "\\\"[")).is_ok());
    assert!(matches!(write(&json!("x".repeat(MAX_FRAME_BYTES))), Err(Unsendable::TooLarge(_))));
    let overhead = write(&json!("")).unwrap().len();
    assert_eq!(write(&json!("x".repeat(MAX_FRAME_BYTES - overhead))).unwrap().len(), MAX_FRAME_BYTES);
}

proptest! {
    #[test]
    fn no_text_makes_the_decoder_panic(text in any::<String>()) {
        let _ = decode(&text);
    }

    #[test]
    fn no_object_makes_the_decoder_panic(
        kind in "invokefunction|invocationresult|registertrigger|unregistertrigger|error|workerregistered",
        id in "\"[a-z\\\\\"]{0,3}\"|null|7|[\\[\\]{}]{0,4}",
        rest in "[\\[\\]{}\",:0-9a-z]{0,12}",
    ) {
        let _ = decode(&format!(r#"{{"type":"{kind}","id":{id},"invocation_id":{id},"function_id":{id},"data":{rest}}}"#));
    }

    #[test]
    fn an_answer_with_a_result_is_written_as_in_its_general_form(
        function_id in "[a-z:\"\\\\é\n]{0,6}", depth in 0usize..200, text in "[\\[{a\"]{0,200}"
    ) {
        let nested = format!("{}{}{}", "[".repeat(depth), json!(text), "]".repeat(depth));
        let result = RawValue::from_string(nested).unwrap();
        let general = Plain::InvocationResult {
            invocation_id: uuid(), function_id: &function_id, result: Some(&result), error: None,
        };
        prop_assert_eq!(answer(uuid(), &function_id, &result), general.write());
    }

    #[test]
    fn payload_text_arrives_byte_for_byte(text in ".*", number in any::<i64>()) {
        let data = json!({ "text": text, "number": number }).to_string();
        let frame = format!(r#"{{"type":"invokefunction","function_id":"f","data":{data}}}"#);
        let Ok(Incoming::Invoke(invoke)) = decode(&frame) else { panic!() };
        prop_assert_eq!(invoke.data.unwrap().get(), data);
    }
}
