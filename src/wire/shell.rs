//! The one field of the shell worker's configuration entry that we ever touch: `fs.host_roots` (contract §3).
//!
//! Writing an entry replaces it whole, so the change is made on the value as it was read, placeholders and all.

use serde_json::{Map, Value, json};

/// The shell worker's configuration entry.
pub const SHELL_ENTRY: &str = "shell";

/// `entry` with `root` appended to its `fs.host_roots`, everything else untouched; `None` if it is there already.
///
/// What stands where an object or the list should be counts as empty.
pub fn append_host_root(entry: &Value, root: &str) -> Option<Value> {
    let mut entry = entry.as_object().cloned().unwrap_or_default();
    let mut filesystem: Map<String, Value> =
        entry.get("fs").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut roots = filesystem.get("host_roots").and_then(Value::as_array).cloned().unwrap_or_default();
    if roots.iter().any(|known| known == root) {
        return None;
    }
    roots.push(json!(root));
    filesystem.insert("host_roots".to_owned(), Value::Array(roots));
    entry.insert("fs".to_owned(), Value::Object(filesystem));
    Some(Value::Object(entry))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_absent_or_odd_entry_is_begun() {
        let begun = json!({"fs": {"host_roots": ["/data"]}});
        for entry in
            [json!(null), json!("x"), json!({}), json!({"fs": null}), json!({"fs": {"host_roots": "x"}})]
        {
            assert_eq!(append_host_root(&entry, "/data"), Some(begun.clone()), "{entry}");
        }
    }

    #[test]
    fn the_root_goes_to_the_end_and_the_rest_stays() {
        let entry = json!({"fs": {"host_roots": ["${HOME}", "/tmp"], "max": 5}, "exec": {"env": "${TOKEN}"}});

        let appended = append_host_root(&entry, "/data").unwrap();

        assert_eq!(
            appended,
            json!({"fs": {"host_roots": ["${HOME}", "/tmp", "/data"], "max": 5}, "exec": {"env": "${TOKEN}"}})
        );
    }

    proptest! {
        #[test]
        fn appending_twice_changes_nothing(roots in prop::collection::vec("/[a-c]{0,2}", 0..4), root in "/[a-c]{0,2}") {
            let entry = json!({"fs": {"host_roots": roots}});
            let appended = append_host_root(&entry, &root).unwrap_or(entry);
            prop_assert_eq!(append_host_root(&appended, &root), None);
        }
    }
}
