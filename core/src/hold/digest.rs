//! What makes two deliveries the same call: a digest of session, turn, call id, function and arguments (contract §2).
//!
//! The stored excerpt is redacted and clipped, so it cannot tell two calls apart; the digest can. It hides only what cannot
//! be guessed, so it stays in memory: what is stored and shown is salted, anew for each hold. Object keys are taken in
//! sorted order, because JSON that crosses the engine is re-encoded.

use std::fmt::Write as _;

use serde_json::Value;
use sha2::{Digest, Sha256};

/// `sha256:<hex>` over the parts of a call. Every part is tagged and length-prefixed, so that no two different
/// calls are fed as the same bytes.
pub fn call_digest(
    session_id: &str,
    turn_id: &str,
    function_call_id: &str,
    function_id: &str,
    arguments: &Value,
) -> String {
    let mut hasher = Sha256::new();
    for part in [session_id, turn_id, function_call_id, function_id] {
        text(&mut hasher, part);
    }
    value(&mut hasher, arguments);
    written(hasher)
}

/// The digest of one hold: `sha256:<hex>` over its salt and its call's digest. Without the salt nobody can try guesses of
/// the arguments against it, and two holds of one call differ.
pub fn hold_digest(salt: &str, call_digest: &str) -> String {
    let mut hasher = Sha256::new();
    text(&mut hasher, salt);
    text(&mut hasher, call_digest);
    written(hasher)
}

fn written(hasher: Sha256) -> String {
    let mut out = String::with_capacity(7 + 64);
    out.push_str("sha256:");
    for byte in hasher.finalize() {
        // Writing to a string cannot fail.
        let _ = write!(out, "{byte:02x}");
    }
    out
}

fn text(hasher: &mut Sha256, part: &str) {
    hasher.update(b"s");
    hasher.update((part.len() as u64).to_le_bytes());
    hasher.update(part.as_bytes());
}

/// Recursion is bounded by the JSON reader, which refuses values nested deeper than 128.
fn value(hasher: &mut Sha256, json: &Value) {
    match json {
        Value::Null => hasher.update(b"n"),
        Value::Bool(false) => hasher.update(b"f"),
        Value::Bool(true) => hasher.update(b"t"),
        Value::Number(number) => {
            hasher.update(b"#");
            text(hasher, &number.to_string());
        }
        Value::String(string) => text(hasher, string),
        Value::Array(items) => {
            hasher.update(b"[");
            hasher.update((items.len() as u64).to_le_bytes());
            for item in items {
                value(hasher, item);
            }
        }
        Value::Object(fields) => {
            hasher.update(b"{");
            hasher.update((fields.len() as u64).to_le_bytes());
            let mut keys: Vec<&String> = fields.keys().collect();
            keys.sort_unstable();
            for key in keys {
                text(hasher, key);
                value(hasher, &fields[key.as_str()]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn of(arguments: &Value) -> String {
        call_digest("s", "t", "c", "f", arguments)
    }

    #[test]
    fn key_order_does_not_matter_and_content_does() {
        let one: Value = serde_json::from_str(r#"{"a":1,"b":[2]}"#).unwrap_or_default();
        let other: Value = serde_json::from_str(r#"{"b":[2],"a":1}"#).unwrap_or_default();
        assert_eq!(of(&one), of(&other));
        assert_ne!(of(&one), of(&json!({"a": 1, "b": [3]})));
        assert_ne!(of(&json!([])), of(&json!({})));
        assert_ne!(of(&json!("1")), of(&json!(1)));
        assert_ne!(of(&json!(null)), of(&json!(false)));
    }

    #[test]
    fn a_hold_s_digest_is_its_own_and_its_call_s() {
        let (one, other) = (of(&json!({"pin": "1234"})), of(&json!({"pin": "1235"})));
        assert_eq!(hold_digest("salt", &one), hold_digest("salt", &one));
        assert_ne!(hold_digest("salt", &one), hold_digest("pepper", &one));
        assert_ne!(hold_digest("salt", &one), hold_digest("salt", &other));
        assert_ne!(hold_digest("salt", &one), one);
    }

    proptest! {
        #[test]
        fn moving_a_character_between_neighbouring_ids_changes_the_digest(a in "[a-z]{1,4}", b in "[a-z]{1,4}") {
            let moved = format!("{a}{}", &b[..1]);
            prop_assert_ne!(
                call_digest(&a, &b, "c", "f", &Value::Null),
                call_digest(&moved, &b[1..], "c", "f", &Value::Null)
            );
        }

        #[test]
        fn nesting_is_part_of_the_digest(parts in proptest::collection::vec("[a-z]{0,3}", 1..5)) {
            let flat = json!(parts);
            prop_assert_ne!(of(&flat), of(&json!([flat])));
        }
    }
}
