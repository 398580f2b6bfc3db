//! Running the function an agent pretends to call, and putting what came of it into the shape hooks see.
//!
//! The non-obvious fact: an error code reaches the model through text, and the harness digs it out of two spellings;
//! both are played here from what the executing function answered.

use std::sync::Arc;

use serde_json::{Value, json};

use super::filesystem;
use super::frame::ErrorBody;
use super::harness_hooks::{self, ChainEnd, Context};
use super::hub::{Call, Caller, Hub};

/// Runs the target and then the whole post-trigger chain.
pub(super) async fn run(hub: &Arc<Hub>, about: &Context, arguments: &Value, once: &[String]) -> ChainEnd {
    let stamped = stamp(hub, about, arguments.clone(), once).await;
    let answered = hub.call(Call::new(Caller::Harness, about.function_id.clone(), stamped)).await;
    let result = match answered.outcome {
        Ok(value) => success(about, &value.unwrap_or_default()),
        Err(error) => failure(about, &error),
    };
    let hooks = harness_hooks::chain(hub, harness_hooks::POST_TRIGGER, &about.function_id);
    harness_hooks::ask_after(hub, &hooks, about, arguments, result).await
}

/// Writes the session's filesystem scope into the arguments of a shell or coder call, over whatever the model put
/// there.
async fn stamp(hub: &Arc<Hub>, about: &Context, mut arguments: Value, once: &[String]) -> Value {
    let target = about.function_id.as_str();
    let scoped = (target.starts_with("shell::") && !target.starts_with("shell::filesystem::"))
        || target.starts_with("coder::");
    let Some(fields) = arguments.as_object_mut().filter(|_| scoped) else { return arguments };
    fields.remove("fs_scope");
    let root = about.metadata.as_ref().and_then(|metadata| metadata.pointer("/fs_scope/root")).cloned();
    if let Some(root) = root.filter(Value::is_string) {
        let mut grants = filesystem::durable_grants(hub, &about.session_id).await.unwrap_or_default();
        grants.extend(once.iter().cloned());
        grants.sort();
        grants.dedup();
        let boundary = harness_hooks::boundary(hub, Some(target));
        let scope = json!({ "root": root, "grants": grants, "boundary": boundary });
        fields.insert("fs_scope".to_owned(), scope);
    }
    arguments
}

fn success(about: &Context, value: &Value) -> Value {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let is_error = value.get("is_error") == Some(&Value::Bool(true));
    about.result(&text, is_error, value)
}

fn failure(about: &Context, error: &ErrorBody) -> Value {
    let target = &about.function_id;
    let (code, message) = inner(&error.message)
        .unwrap_or_else(|| (error.code.clone(), format!("remote error ({}): {}", error.code, error.message)));
    let message = format!("{target}: {message}");
    about.result(&message, true, &json!({ "error": { "code": code, "message": message } }))
}

/// A code and message wrapped as JSON inside the message, bare or as a handler error.
fn inner(message: &str) -> Option<(String, String)> {
    let text = match message.strip_prefix("handler error: ") {
        Some(quoted) => serde_json::from_str::<String>(quoted).unwrap_or_else(|_| quoted.to_owned()),
        None => message.to_owned(),
    };
    let wrapped: Value = serde_json::from_str(&text).ok()?;
    let part = |key| wrapped.get(key).and_then(Value::as_str).map(str::to_owned);
    Some((part("code")?, part("message")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about() -> Context {
        Context {
            session_id: "s".to_owned(),
            turn_id: "t".to_owned(),
            step: 1,
            depth: 0,
            metadata: None,
            call_id: "c".to_owned(),
            function_id: "coder::read-file".to_owned(),
        }
    }

    #[test]
    fn given_either_spelling_of_a_coded_error_when_it_is_shaped_then_code_and_message_are_dug_out() {
        let quoted = json!(json!({"code":"C215","message":"no"}).to_string());
        for (code, message, wanted) in [
            ("C215", "no", json!({"code":"C215","message":"coder::read-file: remote error (C215): no"})),
            (
                "x",
                r#"{"code":"C215","message":"no"}"#,
                json!({"code":"C215","message":"coder::read-file: no"}),
            ),
            (
                "x",
                &format!("handler error: {quoted}"),
                json!({"code":"C215","message":"coder::read-file: no"}),
            ),
        ] {
            let shaped = failure(&about(), &ErrorBody::new(code, message));
            assert_eq!(shaped["details"]["error"], wanted);
            assert_eq!(shaped["content"][0]["text"], wanted["message"]);
            assert_eq!(shaped["is_error"], true);
        }
    }

    #[test]
    fn given_any_return_value_when_it_is_shaped_then_the_details_are_that_value() {
        for (value, is_error) in [(json!(null), false), (json!([1]), false), (json!({"is_error":true}), true)]
        {
            let shaped = success(&about(), &value);
            assert_eq!((&shaped["details"], &shaped["is_error"]), (&value, &json!(is_error)));
        }
    }
}
