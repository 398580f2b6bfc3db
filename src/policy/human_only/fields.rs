//! The names of arguments that matter: which say a function, which hold a payload.
//!
//! Must not know doors. Not obvious: a key is compared from its end, case and punctuation aside, since every worker
//! writes `function_id` its own way and puts its own words in front.

use serde_json::{Map, Value};

/// Last words of keys under which a function is named; an `id` or `name` may follow.
const FUNCTION_KEYS: [&str; 9] =
    ["function", "target", "tool", "fn", "handler", "callback", "method", "procedure", "callee"];

/// Last words of keys whose text is arguments or calls rather than content.
pub(super) const PAYLOAD_KEYS: [&str; 17] = [
    "payload",
    "data",
    "args",
    "arguments",
    "call",
    "calls",
    "job",
    "jobs",
    "task",
    "tasks",
    "message",
    "messages",
    "params",
    "parameters",
    "input",
    "request",
    "json",
];

/// A field that is text.
pub(super) fn text<'a>(fields: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    fields.get(key).and_then(Value::as_str)
}

/// The functions that an object names: as text, in a list, or as an object with an `id` or `name`.
///
/// What stands under a vaguer word than `function` and has no namespace is a file, a host, an environment.
pub(super) fn targets(fields: &Map<String, Value>) -> impl Iterator<Item = &str> {
    fields.iter().filter(|(key, _)| names_a_function(key)).flat_map(|(key, value)| {
        let plainly = ends(key, "function", "") || ends(key, "function", "id");
        let listed = value.as_array().into_iter().flatten();
        let described = ["id", "name"].into_iter().filter_map(|key| value.get(key));
        std::iter::once(value)
            .chain(listed)
            .chain(described)
            .filter_map(Value::as_str)
            .filter(move |text| plainly || text.contains("::"))
    })
}

/// `function_id`, `targetFunctionId`, `handler`, `function_path` and their like, however they are written.
pub(super) fn names_a_function(key: &str) -> bool {
    ends(key, "path", "")
        || FUNCTION_KEYS.iter().any(|word| ["", "id", "name"].iter().any(|tail| ends(key, word, tail)))
}

/// Whether a key ends with these two words; case and whatever is no letter or digit do not count.
fn ends(key: &str, word: &str, tail: &str) -> bool {
    let mut letters =
        key.chars().rev().filter(|one| one.is_alphanumeric()).map(|one| one.to_ascii_lowercase());
    tail.chars().rev().chain(word.chars().rev()).all(|expected| letters.next() == Some(expected))
}

/// Whether a key ends with one of the words for a payload.
pub(super) fn holds_a_payload(key: &str) -> bool {
    PAYLOAD_KEYS.iter().any(|word| ends(key, word, ""))
}
