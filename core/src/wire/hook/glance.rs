//! A pre-trigger payload looked at where it lies in its frame, for calls that can be decided from memory.
//!
//! Takes only what [`HookInput`](super::HookInput) takes, with the same meaning, and builds nothing: most payloads are
//! read to be answered `continue` and forgotten. What it does not take is for the full reader, which also knows how to
//! say what is wrong. The non-obvious fact: text that is merely skipped is not wholly checked; `readable` does the rest.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::readable;
use crate::wire::error::Object;

/// What a gate needs to know of a payload, borrowed from it.
#[derive(Debug)]
pub struct HookGlance<'a> {
    /// The session whose turn makes the call.
    pub session_id: Cow<'a, str>,
    /// The turn that makes the call.
    pub turn_id: Cow<'a, str>,
    /// The id of the call.
    pub call_id: Cow<'a, str>,
    /// The function that is to run.
    pub function_id: Cow<'a, str>,
    /// Its arguments, known to be readable; `None` is `null`.
    arguments: Option<&'a RawValue>,
}

impl<'a> HookGlance<'a> {
    /// Looks at a payload. `None` says nothing about it but that the full reader has to.
    // Kept apart: within a caller that is built for size it would be built for size as well.
    #[inline(never)]
    pub fn at(payload: &'a RawValue) -> Option<Self> {
        let Object(payload): Object<Payload<'a>> = serde_json::from_str(payload.get()).ok()?;
        let Object(call) = payload.call?;
        if payload.metadata.is_some_and(|metadata| !metadata.get().starts_with('{')) {
            return None;
        }
        let open = [payload.metadata, call.arguments];
        if !open.into_iter().flatten().all(readable::is_readable) {
            return None;
        }
        Some(Self {
            session_id: payload.session_id.0,
            turn_id: payload.turn_id.0,
            call_id: call.id.0,
            function_id: call.function_id.0,
            arguments: call.arguments,
        })
    }

    /// The arguments as JSON text.
    pub fn arguments_text(&self) -> &'a str {
        self.arguments.map_or("null", RawValue::get)
    }

    /// The arguments as a value.
    pub fn arguments(&self) -> Option<Value> {
        serde_json::from_str(self.arguments_text()).ok()
    }

    /// The arguments as an object of these members only; `null` if they are no object.
    pub fn members(&self, wanted: &dyn Fn(&str) -> bool) -> Option<Value> {
        let text = self.arguments_text();
        if !text.starts_with('{') {
            return Some(Value::Null);
        }
        let mut reader = serde_json::Deserializer::from_str(text);
        reader.deserialize_map(Members { wanted }).ok().map(Value::Object)
    }
}

/// The fields of `HookInput`, each as strict as there.
#[derive(Deserialize)]
struct Payload<'a> {
    #[serde(default, borrow, rename = "point")]
    _point: Option<Text<'a>>,
    #[serde(borrow)]
    session_id: Text<'a>,
    #[serde(borrow)]
    turn_id: Text<'a>,
    #[serde(default, rename = "step")]
    _step: Option<i64>,
    #[serde(default, rename = "depth")]
    _depth: i64,
    #[serde(default, borrow)]
    metadata: Option<&'a RawValue>,
    #[serde(default, borrow)]
    call: Option<Object<Call<'a>>>,
    /// Only a call that has not run is decided here.
    #[serde(default, rename = "result")]
    _result: (),
}

#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow)]
    id: Text<'a>,
    #[serde(borrow)]
    function_id: Text<'a>,
    #[serde(default, borrow)]
    arguments: Option<&'a RawValue>,
}

/// A string, borrowed unless it has escapes.
struct Text<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Borrow;
        impl<'de> Visitor<'de> for Borrow {
            type Value = Cow<'de, str>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a string")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Cow::Borrowed(text))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Cow::Owned(text.to_owned()))
            }
        }
        deserializer.deserialize_str(Borrow).map(Self)
    }
}

/// The members of an object with these names, the last of each.
struct Members<F> {
    wanted: F,
}

impl<'de, F: Fn(&str) -> bool> Visitor<'de> for Members<F> {
    type Value = Map<String, Value>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut kept = Map::new();
        while let Some(Text(name)) = members.next_key()? {
            if (self.wanted)(&name) {
                kept.insert(name.into_owned(), members.next_value()?);
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        Ok(kept)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::wire::error::decode;
    use crate::wire::hook::HookInput;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    /// Whether a glance was enough; if so, the full reader must agree with all of it.
    fn agrees(payload: &RawValue) -> bool {
        let Some(glance) = HookGlance::at(payload) else { return false };
        let full: HookInput = decode(payload).unwrap();
        let call = full.call.unwrap();
        assert_eq!(full.result, None);
        assert_eq!((&*glance.session_id, &*glance.turn_id), (&*full.session_id, &*full.turn_id));
        assert_eq!((&*glance.call_id, &*glance.function_id), (&*call.id, &*call.function_id));
        assert_eq!(glance.arguments().unwrap(), call.arguments);
        let wanted = |name: &str| !name.starts_with('a');
        let some = call.arguments.as_object().map(|fields| {
            let some = fields.iter().filter(|(name, _)| wanted(name));
            some.map(|(name, value)| (name.clone(), value.clone())).collect::<Map<_, _>>()
        });
        assert_eq!(glance.members(&wanted).unwrap(), some.map_or(Value::Null, Value::Object));
        true
    }

    #[test]
    fn given_what_a_harness_sends_then_a_glance_is_enough() {
        for arguments in
            [json!({"path": "a\n\u{e9}", "n": [1, -2, 3.5, null, true]}), json!(null), json!("text")]
        {
            let payload = json!({
                "point": "pre_trigger", "session_id": "s", "turn_id": "t", "step": 3, "depth": 0, "result": null,
                "metadata": {"fs_scope": {"root": "/a"}}, "unknown": [{}],
                "call": {"id": "c", "function_id": "shell::exec", "arguments": arguments},
            });
            assert!(agrees(&raw(&payload.to_string())), "{payload}");
        }
        assert!(agrees(&raw(r#"{"session_id":"s","turn_id":"t","call":{"id":"c","function_id":"f"}}"#)));
    }

    #[test]
    fn given_what_the_full_reader_refuses_or_reads_otherwise_then_it_is_left_to_it() {
        let with = |members: &str, call: &str| {
            format!(
                r#"{{"session_id":"s","turn_id":"t"{members},"call":{{"id":"c","function_id":"f"{call}}}}}"#
            )
        };
        let nested = |levels: usize| format!(r#","arguments":{}{}"#, "[".repeat(levels), "]".repeat(levels));
        for text in [
            with("", r#","arguments":"\ud800""#),
            with("", r#","arguments":{"a":1e999}"#),
            with("", r#","arguments":{"$serde_json::private::RawValue":"[1]"}"#),
            with("", r#","arguments":1,"arguments":2"#),
            with("", &nested(130)),
            with("", &nested(60)),
            with(r#","metadata":[]"#, ""),
            with(r#","metadata":{"a":1e999}"#, ""),
            with(r#","result":{"is_error":true}"#, ""),
            with(r#","depth":null"#, ""),
            with(r#","step":1.5"#, ""),
            with(r#","turn_id":"again""#, ""),
            r#"["pre_trigger","s","t"]"#.to_owned(),
            r#"{"session_id":"s","turn_id":"t"}"#.to_owned(),
            r#"{"session_id":"s","turn_id":"t","call":["c","f"]}"#.to_owned(),
            r#"{"session_id":"s","turn_id":"t","call":null}"#.to_owned(),
        ] {
            assert!(HookGlance::at(&raw(&text)).is_none(), "{text}");
        }
    }

    /// JSON text of a value, now and then of something that is nearly one.
    fn any_json() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            Just("null".to_owned()),
            Just("true".to_owned()),
            any::<i64>().prop_map(|number| number.to_string()),
            Just("1e999".to_owned()),
            Just("-0.5e-3".to_owned()),
            Just(r#""\ud800""#.to_owned()),
            Just(r#""\u00e9\n""#.to_owned()),
            "[a-z:]{0,8}".prop_map(|text| format!("\"{text}\"")),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            let key = prop_oneof![
                Just("a".to_owned()),
                Just("$serde_json::private::RawValue".to_owned()),
                "[a-z]{1,4}"
            ];
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(","))),
                prop::collection::vec((key, inner), 0..4).prop_map(|members| {
                    let members: Vec<_> =
                        members.into_iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
                    format!("{{{}}}", members.join(","))
                }),
            ]
        })
    }

    fn members(names: &'static [&'static str]) -> impl Strategy<Value = String> {
        let texts = prop_oneof![3 => "[a-z]{1,4}".prop_map(|text| format!("\"{text}\"")), 1 => any_json()];
        prop::collection::vec((prop::sample::select(names), prop_oneof![2 => texts, 1 => any_json()]), 0..5)
            .prop_map(|members| {
                let members: Vec<_> =
                    members.into_iter().map(|(name, value)| format!(",\"{name}\":{value}")).collect();
                members.concat()
            })
    }

    proptest! {
        #[test]
        fn whatever_a_glance_takes_the_full_reader_takes_and_means_the_same(
            outer in members(&["point", "step", "depth", "metadata", "result", "extra", "session_id"]),
            call in members(&["arguments", "more", "function_id"]),
        ) {
            let text = format!(
                r#"{{"session_id":"s","turn_id":"t"{outer},"call":{{"id":"c","function_id":"f::g"{call}}}}}"#
            );
            if let Ok(payload) = RawValue::from_string(text) {
                agrees(&payload);
            }
        }
    }
}
