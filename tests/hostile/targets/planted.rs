//! Values that can be recognised wherever they come out again.

use serde_json::Value;

/// Stands around every string value, and behind every word after which an error text of the gate goes on.
pub const MARK: &str = "zqmark";

/// The value with marks in all of its strings, keys excepted. No piece that starts or ends at an edge of a string, or
/// that begins where a reader of error texts would look for the gate's own words, is without one.
pub fn marked(value: &Value) -> Value {
    match value {
        Value::String(text) => {
            let inner = text.replace(", expected ", &format!(", expected {MARK}"));
            Value::String(format!("{MARK}{inner}{MARK}"))
        }
        Value::Array(items) => items.iter().map(marked).collect(),
        Value::Object(members) => {
            Value::Object(members.iter().map(|(key, member)| (key.clone(), marked(member))).collect())
        }
        other => other.clone(),
    }
}

/// Whether a mark stands in the value before any was planted; then nothing can be told from one.
pub fn is_marked(value: &Value) -> bool {
    value.to_string().contains(MARK)
}
