//! What the `state` worker answers (contract §2), as far as it is read.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::error::Object;

/// The answer to a write. The new value, which it repeats, is not read.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
pub struct Written {
    /// What was replaced; `null` if there was nothing.
    #[serde(default)]
    pub old_value: Value,
}

impl Written {
    /// Reads an answer; `None` if it is no object.
    pub fn read(answer: &RawValue) -> Option<Self> {
        serde_json::from_str(answer.get()).ok().map(|Object(written)| written)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_replaced_is_read_from_objects_only() {
        let read = |text: &str| Written::read(&RawValue::from_string(text.to_owned()).unwrap());
        let old_value = |text: &str| read(text).unwrap().old_value;
        assert_eq!(old_value(r#"{"old_value": {"a": 1}, "new_value": {"b": 2}}"#), json!({"a": 1}));
        assert_eq!(old_value(r#"{"new_value": 1}"#), json!(null));
        for other in ["null", "7", r#"[{"a": 1}]"#] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
