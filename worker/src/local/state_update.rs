//! The operations of `state::update`, as a function from a value to a value.
//!
//! All operations of a call apply in order; one that fails is reported and does not stop the others. Pure. The
//! non-obvious fact: a path given as a string is one literal key, dots included.

use serde::Deserialize;
use serde_json::{Map, Value, json};

const DOC_URL: &str = "https://iii.dev/docs/workers/iii-state#error-codes";
const MAX_SEGMENTS: usize = 32;
const MAX_SEGMENT_BYTES: usize = 256;
const MAX_MERGE_KEYS: usize = 1024;
const MAX_MERGE_DEPTH: usize = 16;
const POLLUTED: [&str; 3] = ["__proto__", "constructor", "prototype"];

/// Where an operation applies: one literal key, or a way down.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum Path {
    Field(String),
    Way(Vec<String>),
}

/// One operation.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(super) enum Op {
    Set {
        path: String,
        #[serde(default)]
        value: Value,
    },
    Merge {
        path: Option<Path>,
        value: Value,
    },
    Increment {
        path: String,
        by: i64,
    },
    Decrement {
        path: String,
        by: i64,
    },
    Append {
        path: Option<Path>,
        value: Value,
    },
    Remove {
        path: String,
    },
}

/// A code without its operation's name, or with it where the code is not shared; and the message.
type Failure = (String, String);

/// Applies all operations to a value, absent for a missing key. Returns the new value and the failures.
pub(super) fn apply(old: Option<&Value>, ops: &[Op]) -> (Value, Vec<Value>) {
    // A missing key starts as an object, except that an operation on the root may make something else of it.
    let mut missing = old.is_none();
    let mut value = old.cloned().unwrap_or_else(|| json!({}));
    let mut errors = Vec::new();
    for (index, op) in ops.iter().enumerate() {
        match apply_one(&mut value, missing, op) {
            Ok(()) => missing = false,
            Err((code, message)) => {
                errors
                    .push(json!({ "op_index": index, "code": code, "message": message, "doc_url": DOC_URL }));
            }
        }
    }
    (value, errors)
}

fn apply_one(root: &mut Value, missing: bool, op: &Op) -> Result<(), Failure> {
    match op {
        Op::Set { path, value } if path.is_empty() => *root = value.clone(),
        Op::Set { path, value } => {
            let fields = object("set", path, root)?;
            fields.insert(path.clone(), value.clone());
        }
        Op::Remove { path } if path.is_empty() => *root = Value::Null,
        Op::Remove { path } => drop(object("remove", path, root)?.remove(path)),
        Op::Increment { path, by } => add("increment", root, missing, path, *by)?,
        Op::Decrement { path, by } => add("decrement", root, missing, path, by.wrapping_neg())?,
        Op::Merge { path, value } => merge(root, &way(path.as_ref()), value)?,
        Op::Append { path, value } => append(root, missing, &way(path.as_ref()), value)?,
    }
    Ok(())
}

/// The segments of a path; none means the root.
fn way(path: Option<&Path>) -> Vec<String> {
    match path {
        None => Vec::new(),
        Some(Path::Field(field)) if field.is_empty() => Vec::new(),
        Some(Path::Field(field)) => vec![field.clone()],
        Some(Path::Way(way)) => way.clone(),
    }
}

fn check_segments<'a>(op: &str, segments: impl ExactSizeIterator<Item = &'a str>) -> Result<(), Failure> {
    let fail = |code: &str, message: String| Err((format!("{op}.path.{code}"), message));
    if segments.len() > MAX_SEGMENTS {
        return fail("too_deep", format!("Path has more than {MAX_SEGMENTS} segments."));
    }
    for segment in segments {
        if segment.is_empty() {
            return fail("empty_segment", "Path segments must not be empty.".to_owned());
        }
        if segment.len() > MAX_SEGMENT_BYTES {
            return fail(
                "segment_too_long",
                format!("Path segment is longer than {MAX_SEGMENT_BYTES} bytes."),
            );
        }
        if POLLUTED.contains(&segment) {
            return fail(
                "proto_polluted",
                format!("Path segment '{segment}' is not allowed (prototype pollution)."),
            );
        }
    }
    Ok(())
}

fn object<'a>(op: &str, path: &str, root: &'a mut Value) -> Result<&'a mut Map<String, Value>, Failure> {
    check_segments(op, [path].into_iter())?;
    let kind = kind(root);
    root.as_object_mut().ok_or_else(|| {
        let message = format!("Cannot {op} at path '{path}': target is {kind}, expected object.");
        (format!("{op}.target_not_object"), message)
    })
}

fn add(op: &str, root: &mut Value, missing: bool, path: &str, by: i64) -> Result<(), Failure> {
    let (target, name) = if path.is_empty() {
        if missing {
            *root = json!(0);
        }
        (root, "root")
    } else {
        (object(op, path, root)?.entry(path).or_insert_with(|| json!(0)), path)
    };
    let sum = match (target.as_i64(), target.as_f64()) {
        (Some(number), _) => json!(number.wrapping_add(by)),
        #[allow(clippy::cast_precision_loss)]
        (None, Some(number)) => json!(number + by as f64),
        (None, None) => {
            let message = format!("Expected number at path '{name}', got {}.", kind(target));
            return Err((format!("{op}.not_number"), message));
        }
    };
    *target = sum;
    Ok(())
}

fn merge(root: &mut Value, way: &[String], value: &Value) -> Result<(), Failure> {
    check_segments("merge", way.iter().map(String::as_str))?;
    let fail = |code: &str, message: &str| Err((format!("merge.value.{code}"), message.to_owned()));
    let Some(fields) = value.as_object() else {
        return fail("not_an_object", "Merge value must be a JSON object");
    };
    if fields.len() > MAX_MERGE_KEYS {
        return fail("too_many_keys", "Merge value has too many keys");
    }
    if depth(value) > MAX_MERGE_DEPTH {
        return fail("too_deep", "Merge value is nested too deeply");
    }
    if fields.keys().any(|key| POLLUTED.contains(&key.as_str())) {
        return fail("proto_polluted", "Merge value has a key that is not allowed (prototype pollution)");
    }
    // A merge onto a root that is no object does nothing and says nothing.
    if root.is_object() {
        descend(root, way).extend(fields.clone());
    }
    Ok(())
}

/// Walks down, replacing whatever is missing or no object.
fn descend<'a>(root: &'a mut Value, way: &[String]) -> &'a mut Map<String, Value> {
    let mut target = root;
    for segment in way {
        target = as_object(target).entry(segment).or_insert_with(|| json!({}));
    }
    as_object(target)
}

fn as_object(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = json!({});
    }
    match value {
        Value::Object(fields) => fields,
        _ => unreachable!("it was made an object just above"),
    }
}

fn append(root: &mut Value, missing: bool, way: &[String], value: &Value) -> Result<(), Failure> {
    check_segments("append", way.iter().map(String::as_str))?;
    let Some((last, above)) = way.split_last() else {
        if missing {
            *root = Value::Null;
        }
        return append_to(root, "root", value, false);
    };
    if !root.is_object() {
        let message =
            format!("Cannot append at path '{}': target is {}, expected object.", way.join("."), kind(root));
        return Err(("append.target_not_object".to_owned(), message));
    }
    let target = descend(root, above).entry(last).or_insert(Value::Null);
    append_to(target, &way.join("."), value, way.len() > 1)
}

fn append_to(target: &mut Value, name: &str, value: &Value, nested: bool) -> Result<(), Failure> {
    match (&mut *target, value) {
        (Value::Array(items), _) => items.push(value.clone()),
        (Value::String(text), Value::String(more)) => text.push_str(more),
        (Value::Null, Value::String(_)) if !nested => *target = value.clone(),
        (Value::Null, _) => *target = json!([value]),
        _ => {
            let message = format!(
                "Cannot append at path '{name}': target is {}, expected array, string, null, or missing field.",
                kind(target)
            );
            return Err(("append.type_mismatch".to_owned(), message));
        }
    }
    Ok(())
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn run(old: Option<&Value>, ops: Value) -> (Value, Vec<String>) {
        let ops: Vec<Op> = serde_json::from_value(ops).unwrap();
        let (new, errors) = apply(old, &ops);
        (new, errors.iter().map(|error| error["code"].as_str().unwrap().to_owned()).collect())
    }

    #[test]
    fn given_each_bound_when_it_is_passed_then_the_operation_is_reported_and_nothing_changes() {
        let deep = (0..16).fold(json!({}), |inner, _| json!({ "a": inner }));
        let wide: Map<String, Value> = (0..1025).map(|n| (n.to_string(), json!(n))).collect();
        for (op, code) in [
            (json!({"type":"append","path":vec!["a"; 33],"value":1}), "append.path.too_deep"),
            (json!({"type":"set","path":"x".repeat(257),"value":1}), "set.path.segment_too_long"),
            (json!({"type":"merge","path":["a",""],"value":{}}), "merge.path.empty_segment"),
            (json!({"type":"remove","path":"constructor"}), "remove.path.proto_polluted"),
            (json!({"type":"merge","value":{"prototype":1}}), "merge.value.proto_polluted"),
            (json!({"type":"merge","value":deep}), "merge.value.too_deep"),
            (json!({"type":"merge","value":wide}), "merge.value.too_many_keys"),
        ] {
            let (new, codes) = run(Some(&json!({"k":1})), json!([op]));
            assert_eq!((new, codes), (json!({"k":1}), vec![code.to_owned()]), "{op}");
        }
    }

    #[test]
    fn given_a_missing_key_when_the_root_is_appended_to_then_text_stays_text_and_all_else_becomes_a_list() {
        assert_eq!(run(None, json!([{"type":"append","value":"t"}])).0, json!("t"));
        assert_eq!(run(None, json!([{"type":"append","value":{"e":1}}])).0, json!([{"e":1}]));
        assert_eq!(
            run(None, json!([{"type":"append","path":["a","b"],"value":"t"}])).0,
            json!({"a":{"b":["t"]}})
        );
    }

    proptest! {
        #[test]
        fn increments_and_decrements_of_one_field_add_up(steps in prop::collection::vec(-1000_i64..1000, 0..20)) {
            let ops: Vec<Value> = steps.iter().map(|by| json!({"type":"increment","path":"n","by":by})).collect();
            let (new, errors) = run(None, json!(ops));
            let sum: i64 = steps.iter().sum();
            prop_assert!(errors.is_empty());
            prop_assert_eq!(new, if steps.is_empty() { json!({}) } else { json!({"n": sum}) });
        }
    }
}
