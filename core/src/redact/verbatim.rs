//! Whether what an excerpt shows is certainly what the call carried.
//!
//! Nothing that leaves this folder changed is without a sign of it: a marker for what was hidden or left out, an ellipsis
//! for a cut, a backslash for a character that was spelled. A text that carries such a sign by itself is doubted as well.

use serde_json::Value;

use super::visible::ELLIPSIS;
use super::{MAX_DEPTH, REDACTED, TRUNCATED};

/// Whether this part of an excerpt is exactly what stood there. Doubts what only looks changed.
pub fn is_verbatim(shown: &Value) -> bool {
    match shown {
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
        Value::String(text) => is_verbatim_text(text),
        Value::Array(items) => items.iter().all(is_verbatim),
        Value::Object(fields) => {
            fields.iter().all(|(key, value)| is_verbatim_text(key) && is_verbatim(value))
        }
    }
}

fn is_verbatim_text(text: &str) -> bool {
    let marked = [REDACTED, MAX_DEPTH, TRUNCATED].iter().any(|marker| text.contains(marker));
    !marked && !text.contains(ELLIPSIS) && !has_spelling(text)
}

fn has_spelling(text: &str) -> bool {
    text.split('\\').skip(1).any(|after| after.starts_with(['n', 'r', 't']) || after.starts_with("u{"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::excerpt;
    use super::*;

    #[test]
    fn plain_values_are_verbatim_and_every_change_is_seen() {
        for plain in [
            json!(null),
            json!(2.5),
            json!("make deploy"),
            json!({"a": ["C:\\Users", {"b": true}]}),
            json!("漢 é"),
        ] {
            assert!(is_verbatim(&excerpt(&plain)), "{plain}");
        }
        let secret = json!({"token": "abc"});
        let long = json!("x".repeat(257));
        let deep = (0..70).fold(json!(1), |inner, _| json!([inner]));
        for changed in [
            secret,
            long,
            deep,
            json!("a\nb"),
            json!({"a\u{200b}": 1}),
            json!("curl -H 'Authorization: Bearer abcdefghijkl'"),
        ] {
            assert!(!is_verbatim(&excerpt(&changed)), "{changed}");
        }
        for doubtful in [json!("…"), json!("a\\nb"), json!("<redacted>")] {
            assert!(!is_verbatim(&excerpt(&doubtful)), "{doubtful}");
        }
    }

    fn text() -> impl Strategy<Value = String> {
        prop_oneof![
            ".{0,12}",
            "[a-z \\\\n…<>]{0,300}",
            "(password|token|--key|a)[=: ]{0,2}[a-zA-Z0-9]{0,30}",
            "\\{\"(token|a)\":\"[a-z]{0,20}\"\\}",
            ".{0,9}[\\n\\t\u{200b}]{1,2}.{0,9}",
        ]
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf =
            prop_oneof![Just(Value::Null), any::<i64>().prop_map(Value::from), text().prop_map(Value::from)];
        leaf.prop_recursive(4, 30, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map(text(), inner, 0..5).prop_map(|fields| json!(fields)),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_member_that_is_verbatim_with_its_name_is_the_argument_itself(arguments in prop::collection::btree_map(text(), value(), 0..6)) {
            let arguments = json!(arguments);
            let shown = excerpt(&arguments);
            for (key, member) in shown.as_object().into_iter().flatten() {
                if is_verbatim_text(key) && is_verbatim(member) {
                    prop_assert_eq!(arguments.get(key), Some(member));
                }
            }
        }
    }
}
