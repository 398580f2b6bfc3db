//! Reads the case files, and the notation in which they write long texts, deep objects and earlier answers.

use serde_json::{Map, Value};

/// What a step answered, for `$from_step`: its cursor.
pub type Cursors<'a> = &'a dyn Fn(u64) -> Value;

/// The situations from the field.
pub fn field_cases() -> Vec<Value> {
    let file: Value = serde_json::from_str(include_str!("../../cases/field-cases.json")).unwrap();
    file["cases"].as_array().unwrap().clone()
}

/// What the published worker was seen to do.
pub fn observations() -> Vec<Value> {
    include_str!("../../cases/observed.jsonl")
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Writes the notation out in full, everywhere inside a value.
pub fn expand(value: &Value, cursors: Cursors) -> Value {
    match value {
        Value::Array(items) => items.iter().map(|item| expand(item, cursors)).collect(),
        Value::Object(fields) => match special(fields) {
            Some((name, argument)) => expand_special(name, argument, cursors),
            None => fields.iter().map(|(key, field)| (key.clone(), expand(field, cursors))).collect(),
        },
        plain => plain.clone(),
    }
}

fn special(fields: &Map<String, Value>) -> Option<(&str, &Value)> {
    let (key, argument) = fields.iter().next().filter(|_| fields.len() == 1)?;
    Some((key.strip_prefix('$')?, argument))
}

fn expand_special(name: &str, argument: &Value, cursors: Cursors) -> Value {
    let number = |key: &str| usize::try_from(argument[key].as_u64().unwrap()).unwrap();
    match name {
        "repeat" => argument["text"].as_str().unwrap().repeat(number("times")).into(),
        "concat" => {
            let parts = argument.as_array().unwrap().iter();
            parts.map(|part| expand(part, cursors).as_str().unwrap().to_owned()).collect::<String>().into()
        }
        "nest" => {
            let leaf = expand(&argument["leaf"], cursors);
            (0..number("depth"))
                .fold(leaf, |inner, _| Value::Object(Map::from_iter([("n".to_owned(), inner)])))
        }
        "list" => vec![expand(&argument["item"], cursors); number("times")].into(),
        "object" => {
            let item = expand(&argument["item"], cursors);
            Value::Object((0..number("times")).map(|n| (format!("k{n}"), item.clone())).collect())
        }
        "from_step" => cursors(argument.as_u64().unwrap()),
        other => panic!("unknown notation ${other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_notation_is_written_out_in_full() {
        let written = json!({
            "long": {"$concat": ["a", {"$repeat": {"text": "bc", "times": 2}}]},
            "deep": {"$nest": {"depth": 2, "leaf": {"x": 1}}},
            "plain": {"$repeat": 1, "other": 2},
            "back": {"$from_step": 3},
        });
        let expanded = expand(&written, &|step| format!("cursor of {step}").into());
        assert_eq!(
            expanded,
            json!({"long": "abcbc", "deep": {"n": {"n": {"x": 1}}}, "plain": {"$repeat": 1, "other": 2},
                   "back": "cursor of 3"})
        );
    }
}
