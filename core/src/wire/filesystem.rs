//! What the filesystem watch remembers between failures, as stored: roots that a person denied, and how often a call
//! was put before one (contract §3, §4).
//!
//! Both are read leniently, each towards its own safe side: a denied list that cannot be read forgets a denial and asks
//! again, a count that cannot be read starts over. Neither ever opens anything.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::wire::error::decode_value;

/// How often one call was held by the watch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempts {
    /// The session that the call belongs to.
    pub session_id: String,
    /// The call.
    pub function_call_id: String,
    /// The turn of the count; a later turn that uses the call id again starts a new one.
    pub turn_id: String,
    /// Holds so far.
    pub count: i64,
}

impl Attempts {
    /// Reads a row; `None` if it is no count. A negative count is none.
    pub fn read(value: &Value) -> Option<Self> {
        let row: Self = decode_value(value).ok()?;
        Some(Self { count: row.count.max(0), ..row })
    }
}

/// The roots that a person denied in a session, as stored: an array of absolute paths. What is no path is skipped.
pub fn denied_roots(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    #[test]
    fn a_count_round_trips_and_a_negative_one_is_none() {
        let row = json!({"session_id": "s", "function_call_id": "c", "turn_id": "t", "count": 2});
        assert_eq!(serde_json::to_value(Attempts::read(&row).unwrap()).unwrap(), row);

        let negative = json!({"session_id": "s", "function_call_id": "c", "turn_id": "t", "count": -1});
        assert_eq!(Attempts::read(&negative).unwrap().count, 0);
    }

    #[test]
    fn what_is_no_count_is_none() {
        for row in [json!(null), json!("x"), json!({"count": 1}), json!(["s", "c", "t", 1])] {
            assert_eq!(Attempts::read(&row), None, "{row}");
        }
    }

    #[test]
    fn denied_roots_survive_what_lies_beside_them() {
        assert_eq!(denied_roots(&json!(["/a", 5, "/b"])), ["/a", "/b"]);
        for odd in [json!(null), json!("x"), json!({"roots": ["/a"]})] {
            assert!(denied_roots(&odd).is_empty());
        }
    }
}
