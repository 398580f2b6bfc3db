//! The tenancy filter: subset equality on a session's metadata (contract §6, §7).

use serde_json::{Map, Value};

/// Whether every wanted field is present with an equal value of the same type. No wanted field matches
/// everything; a record without metadata matches no wanted field, not even a wanted `null`.
pub fn contains_all(wanted: &Map<String, Value>, metadata: Option<&Map<String, Value>>) -> bool {
    wanted.iter().all(|(key, value)| metadata.and_then(|fields| fields.get(key)) == Some(value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_table_of_filters() {
        let rows = [
            (json!({}), json!(null), true),
            (json!({"tenant": "a"}), json!(null), false),
            (json!({"tenant": "a"}), json!({"tenant": "a", "team": "b"}), true),
            (json!({"tenant": "a", "team": "c"}), json!({"tenant": "a", "team": "b"}), false),
            (json!({"n": 7}), json!({"n": "7"}), false),
            (json!({"n": 1.0}), json!({"n": 1}), false),
            (json!({"nil": null}), json!({"nil": null}), true),
            (json!({"nil": null}), json!({}), false),
            (json!({"o": {"a": 1}}), json!({"o": {"a": 1, "b": 2}}), false),
        ];
        for (wanted, metadata, expected) in rows {
            let fields = wanted.as_object().cloned().unwrap_or_default();
            assert_eq!(contains_all(&fields, metadata.as_object()), expected, "{wanted} in {metadata}");
        }
    }
}
