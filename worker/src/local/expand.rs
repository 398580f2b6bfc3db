//! Placeholders in configuration values: `${NAME}` and `${NAME:default}`.
//!
//! Values are stored as written and expanded when read. A text that is nothing but one placeholder takes the type
//! of what it expands to; mixed text stays text. Pure: the variables are a parameter.

use serde_json::Value;

/// An expanded value, and the variables that are unset and have no default. Their placeholders stay as text.
pub(super) fn expand(value: &Value, variable: &dyn Fn(&str) -> Option<String>) -> (Value, Vec<String>) {
    let mut unset = Vec::new();
    let expanded = walk(value, variable, &mut unset);
    (expanded, unset)
}

fn walk(value: &Value, variable: &dyn Fn(&str) -> Option<String>, unset: &mut Vec<String>) -> Value {
    match value {
        Value::String(text) => expand_text(text, variable, unset),
        Value::Array(items) => items.iter().map(|item| walk(item, variable, unset)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(key, field)| (key.clone(), walk(field, variable, unset))).collect()
        }
        other => other.clone(),
    }
}

fn expand_text(text: &str, variable: &dyn Fn(&str) -> Option<String>, unset: &mut Vec<String>) -> Value {
    let mut out = String::new();
    let mut rest = text;
    let mut alone = false;
    while let Some((before, placeholder, after)) = next_placeholder(rest) {
        out.push_str(before);
        let (name, default) =
            placeholder.split_once(':').map_or((placeholder, None), |(name, default)| (name, Some(default)));
        if let Some(found) = variable(name).or_else(|| default.map(str::to_owned)) {
            alone = rest.len() == text.len() && before.is_empty() && after.is_empty();
            out.push_str(&found);
        } else {
            unset.push(name.to_owned());
            out.push_str("${");
            out.push_str(placeholder);
            out.push('}');
        }
        rest = after;
    }
    out.push_str(rest);
    if alone { retype(out) } else { Value::String(out) }
}

fn next_placeholder(text: &str) -> Option<(&str, &str, &str)> {
    let start = text.find("${")?;
    let end = start + text[start..].find('}')?;
    Some((&text[..start], &text[start + 2..end], &text[end + 1..]))
}

fn retype(text: String) -> Value {
    match serde_json::from_str::<Value>(&text) {
        Ok(scalar @ (Value::Number(_) | Value::Bool(_) | Value::Null)) => scalar,
        _ => Value::String(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn with(value: &Value) -> (Value, Vec<String>) {
        expand(value, &|name| (name == "SET").then(|| "7".to_owned()))
    }

    #[test]
    fn given_a_lone_placeholder_when_expanded_then_it_takes_a_type_and_mixed_text_does_not() {
        let value = json!({ "a": "${SET:4}", "b": "v-${SET}-${X:d}", "c": "${X:true}", "d": ["${X:text}"] });
        let wanted = json!({ "a": 7, "b": "v-7-d", "c": true, "d": ["text"] });
        assert_eq!(with(&value), (wanted, vec![]));
    }

    #[test]
    fn given_an_unset_variable_without_default_when_expanded_then_the_text_stays_and_the_name_is_told() {
        assert_eq!(with(&json!("x ${NO} ${SET}")), (json!("x ${NO} 7"), vec!["NO".to_owned()]));
    }

    proptest! {
        #[test]
        fn text_without_placeholders_is_left_alone(text in "[^$]*") {
            prop_assert_eq!(with(&json!(text)), (json!(text), vec![]));
        }

        #[test]
        fn no_text_makes_it_fail(text in ".*[${}:]*.*") {
            let _ = with(&json!(text));
        }
    }
}
