//! The one field of the shell worker's configuration entry that we ever touch: `fs.host_roots` (contract §3).
//!
//! Writing an entry replaces it whole, so the change is made on the value as it was read, placeholders and all.

use serde_json::{Map, Value, json};

/// The shell worker's configuration entry.
pub const SHELL_ENTRY: &str = "shell";

/// What appending a root to an entry comes to.
#[derive(Debug, Clone, PartialEq)]
pub enum Appended {
    /// The entry with the root at the end of `fs.host_roots`, everything else untouched.
    Changed(Value),
    /// The root is there already.
    AlreadyThere,
    /// A placeholder stands for the list or for something around it, which a list would destroy; or the root itself
    /// would be taken for one.
    BehindPlaceholder,
}

/// Appends `root` to the `fs.host_roots` of an entry that was read unexpanded.
///
/// What stands where an object or the list should be counts as empty, unless it is a `${NAME}` placeholder.
pub fn append_host_root(entry: &Value, root: &str) -> Appended {
    let listed = entry.get("fs").and_then(|fs| fs.get("host_roots"));
    if root.contains("${") || [Some(entry), entry.get("fs"), listed].into_iter().flatten().any(is_placeholder)
    {
        return Appended::BehindPlaceholder;
    }
    let mut roots = listed.and_then(Value::as_array).cloned().unwrap_or_default();
    if roots.iter().any(|known| known == root) {
        return Appended::AlreadyThere;
    }
    roots.push(json!(root));
    let mut entry = entry.as_object().cloned().unwrap_or_default();
    let mut filesystem: Map<String, Value> =
        entry.get("fs").and_then(Value::as_object).cloned().unwrap_or_default();
    filesystem.insert("host_roots".to_owned(), Value::Array(roots));
    entry.insert("fs".to_owned(), Value::Object(filesystem));
    Appended::Changed(Value::Object(entry))
}

fn is_placeholder(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.contains("${"))
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
            assert_eq!(append_host_root(&entry, "/data"), Appended::Changed(begun.clone()), "{entry}");
        }
    }

    #[test]
    fn a_list_behind_a_placeholder_is_left_alone() {
        for entry in [json!("${ALL}"), json!({"fs": "${FS}"}), json!({"fs": {"host_roots": "${ROOTS:[]}"}})] {
            assert_eq!(append_host_root(&entry, "/data"), Appended::BehindPlaceholder, "{entry}");
        }
        assert_eq!(append_host_root(&json!({}), "/a/${B:..}"), Appended::BehindPlaceholder);
    }

    #[test]
    fn the_root_goes_to_the_end_and_the_rest_stays() {
        let entry = json!({"fs": {"host_roots": ["${HOME}", "/tmp"], "max": 5}, "exec": {"env": "${TOKEN}"}});

        let Appended::Changed(appended) = append_host_root(&entry, "/data") else { panic!("changed") };

        assert_eq!(
            appended,
            json!({"fs": {"host_roots": ["${HOME}", "/tmp", "/data"], "max": 5}, "exec": {"env": "${TOKEN}"}})
        );
    }

    proptest! {
        #[test]
        fn appending_twice_changes_nothing(roots in prop::collection::vec("/[a-c]{0,2}", 0..4), root in "/[a-c]{0,2}") {
            let entry = json!({"fs": {"host_roots": roots}});
            let Appended::Changed(appended) = append_host_root(&entry, &root) else { return Ok(()) };
            prop_assert_eq!(append_host_root(&appended, &root), Appended::AlreadyThere);
        }
    }
}
