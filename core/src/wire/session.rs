//! What the session manager tells about a session, as far as a record shows it (contract §2).
//!
//! Best effort: whatever is not as it should be counts as absent, and the rest is still used.

use serde::Serialize;
use serde_json::{Map, Value};

/// The function that tells a session's title, description and metadata.
pub const SESSION_GET: &str = "session::get";

/// Asks for a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SessionGetRequest<'a> {
    /// The session.
    pub session_id: &'a str,
}

/// What a record carries of its session.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SessionContext {
    /// Its title, never empty.
    pub title: Option<String>,
    /// Its description, never empty.
    pub description: Option<String>,
    /// Its metadata.
    pub metadata: Option<Map<String, Value>>,
}

impl SessionContext {
    /// Reads an answer; `null`, an unknown session and a malformed answer are all an empty context.
    pub fn read(answer: &Value) -> Self {
        let Some(meta) = answer.get("meta") else { return Self::default() };
        Self {
            title: text(meta, "title"),
            description: text(meta, "description"),
            metadata: meta.get("metadata").and_then(Value::as_object).cloned(),
        }
    }
}

fn text(meta: &Value, field: &str) -> Option<String> {
    meta.get(field)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_part_is_read_or_left_out_on_its_own() {
        let rows = [
            (
                json!({"title": "Fix", "description": "d", "metadata": {"n": 1}}),
                (Some("Fix"), Some("d"), true),
            ),
            (json!({"title": "", "description": "d", "metadata": {"n": 1}}), (None, Some("d"), true)),
            (json!({"title": 5, "description": "d", "metadata": {"n": 1}}), (None, Some("d"), true)),
            (json!({"title": "Fix", "metadata": null}), (Some("Fix"), None, false)),
            (json!({"title": "Fix", "metadata": "x"}), (Some("Fix"), None, false)),
        ];
        for (meta, (title, description, metadata)) in rows {
            let context = SessionContext::read(&json!({"meta": meta}));
            assert_eq!(context.title.as_deref(), title, "{meta}");
            assert_eq!(context.description.as_deref(), description, "{meta}");
            assert_eq!(context.metadata.is_some(), metadata, "{meta}");
        }
    }

    #[test]
    fn an_answer_without_a_session_is_an_empty_context() {
        for answer in
            [json!(null), json!([1]), json!("x"), json!({}), json!({"meta": null}), json!({"meta": []})]
        {
            assert_eq!(SessionContext::read(&answer), SessionContext::default());
        }
    }
}
