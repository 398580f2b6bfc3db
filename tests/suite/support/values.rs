//! Compares what came with what the cases expect: further fields are allowed, placeholders stand for what may vary.

use serde_json::Value;

/// Every difference, each with its place; empty when `actual` is as expected.
pub fn differences(expected: &Value, actual: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare(expected, actual, "", &mut found);
    found
}

fn compare(expected: &Value, actual: &Value, place: &str, found: &mut Vec<String>) {
    match (expected, actual) {
        (Value::String(text), _) if text.starts_with('<') && is_placeholder(text) => {
            if let Some(problem) = placeholder_problem(text, actual) {
                found.push(format!("{place}: {problem}, got {}", short(actual)));
            }
        }
        (Value::Object(wanted), Value::Object(got)) => {
            for (key, value) in wanted {
                match got.get(key) {
                    Some(there) => compare(value, there, &format!("{place}.{key}"), found),
                    None => found.push(format!("{place}.{key}: missing, expected {}", short(value))),
                }
            }
        }
        (Value::Array(wanted), Value::Array(got)) => {
            if wanted.len() != got.len() {
                found.push(format!(
                    "{place}: expected {} items, got {}: {}",
                    wanted.len(),
                    got.len(),
                    short(actual)
                ));
                return;
            }
            for (index, (value, there)) in wanted.iter().zip(got).enumerate() {
                compare(value, there, &format!("{place}[{index}]"), found);
            }
        }
        _ if expected == actual => {}
        _ => found.push(format!("{place}: expected {}, got {}", short(expected), short(actual))),
    }
}

fn is_placeholder(text: &str) -> bool {
    text == "<ts>" || text == "<the reason>" || text.starts_with("<text ")
}

fn placeholder_problem(placeholder: &str, actual: &Value) -> Option<String> {
    let text = actual.as_str().filter(|text| !text.is_empty());
    match placeholder {
        "<ts>" => actual.as_i64().is_none_or(|at| at <= 0).then(|| "expected a time".to_owned()),
        "<text naming human_only_function>" => text
            .is_none_or(|text| !text.contains("human_only_function"))
            .then(|| "expected a text naming human_only_function".to_owned()),
        _ => text.is_none().then(|| "expected a text".to_owned()),
    }
}

/// A value cut to what fits a report.
pub fn short(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= 400 { text } else { text.chars().take(400).chain("…".chars()).collect() }
}

/// Every string inside a value, keys included, decoded and joined: what a reader of it can see.
pub fn visible_text(value: &Value) -> String {
    let mut text = String::new();
    collect(value, &mut text);
    text
}

fn collect(value: &Value, text: &mut String) {
    match value {
        Value::String(string) => text.push_str(string),
        Value::Array(items) => items.iter().for_each(|item| collect(item, text)),
        Value::Object(fields) => {
            for (key, field) in fields {
                text.push_str(key);
                text.push('\n');
                collect(field, text);
            }
        }
        other => text.push_str(&other.to_string()),
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn additional_fields_and_placeholders_are_no_difference() {
        let expected = json!({"at": "<ts>", "why": "<text naming the cause>", "list": [1]});
        assert!(differences(&expected, &json!({"at": 5, "why": "x", "list": [1], "more": 1})).is_empty());
    }

    #[test]
    fn every_difference_is_named_with_its_place() {
        let expected = json!({"at": "<ts>", "a": {"b": 1}, "list": [1]});
        let found = differences(&expected, &json!({"at": 0, "a": {}, "list": []}));
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found.iter().any(|line| line.starts_with(".a.b")), "{found:?}");
    }
}
