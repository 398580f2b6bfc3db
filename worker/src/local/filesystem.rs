//! The stand-in's folder grants, and a pretend jailed shell to ask for folders with.
//!
//! Grants are kept in the state store where the real harness keeps them: exact strings, no prefix logic, read and
//! written without a guard. The pretend shell touches no file and runs nothing; it only judges paths, by their
//! components. The non-obvious fact: the folder it asks for is always the path's parent, since it may not look
//! whether the path is a directory.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use super::builtin::input;
use super::frame::{ErrorBody, Outcome};
use super::harness_hooks;
use super::hub::{Call, Caller, Hub};

const SCOPE: &str = "harness_filesystem_grants";

#[derive(Deserialize)]
struct GrantsInput {
    session_id: String,
}

#[derive(Deserialize)]
struct GrantInput {
    session_id: String,
    root: String,
}

/// Runs one of `harness::filesystem::*`.
pub(super) async fn run(hub: &Arc<Hub>, function_id: &str, data: Value) -> Outcome {
    match function_id {
        "harness::filesystem::grants" => {
            let GrantsInput { session_id } = input(function_id, data)?;
            let roots = durable_grants(hub, &session_id).await?;
            Ok(Some(json!({ "session_id": session_id, "roots": roots })))
        }
        "harness::filesystem::info" => {
            Ok(Some(json!({ "default_root": null, "boundary": harness_hooks::boundary(hub, None) })))
        }
        _ => {
            let GrantInput { session_id, root } = input(function_id, data)?;
            let mut roots = durable_grants(hub, &session_id).await?;
            roots.retain(|known| *known != root);
            if function_id == "harness::filesystem::grant" {
                roots.push(root);
            }
            roots.sort();
            let value = json!({ "scope": SCOPE, "key": session_id, "value": { "roots": roots } });
            hub.call(Call::new(Caller::Harness, "state::set", value)).await.outcome?;
            Ok(Some(json!({ "session_id": session_id, "roots": roots })))
        }
    }
}

/// The durable grants of a session, sorted.
pub(super) async fn durable_grants(hub: &Arc<Hub>, session_id: &str) -> Result<Vec<String>, ErrorBody> {
    let call = Call::new(Caller::Harness, "state::get", json!({ "scope": SCOPE, "key": session_id }));
    let stored = hub.call(call).await.outcome?.unwrap_or_default();
    Ok(strings(stored.get("roots")))
}

fn strings(list: Option<&Value>) -> Vec<String> {
    let items = list.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Runs one of the pretend shell's functions.
pub(super) fn shell(hub: &Hub, function_id: &str, data: &Value) -> Outcome {
    let text = |key: &str| data.get(key).and_then(Value::as_str);
    if function_id == "shell::exec" {
        let command = text("command").unwrap_or_default();
        let stdout = format!("pretend output of: {command}\n");
        return Ok(Some(json!({ "stdout": stdout, "stderr": "", "exit_code": 0, "pretend": true })));
    }
    let Some(path) = text("path") else {
        return Err(ErrorBody::new("S210", "missing field `path`"));
    };
    let scope = data.get("fs_scope");
    let root = scope.and_then(|scope| scope.get("root")).and_then(Value::as_str);
    let host_roots = hub
        .configuration()
        .value("shell")
        .map(|value| strings(value.pointer("/fs/host_roots")))
        .unwrap_or_default();
    let mut allowed = strings(scope.and_then(|scope| scope.get("grants")));
    allowed.extend(root.map(str::to_owned));
    allowed.extend(host_roots.iter().cloned());
    let resolved = resolve(root.unwrap_or("/"), path);
    if allowed.iter().any(|root| resolved.starts_with(resolve("/", root))) {
        return Ok(Some(
            json!({ "path": path, "content": format!("pretend content of {path}"), "pretend": true }),
        ));
    }
    Err(outside(&host_roots, &resolved, path))
}

/// An absolute path without `.` and `..`, by the look of it.
fn resolve(base: &str, path: &str) -> PathBuf {
    let mut resolved = PathBuf::new();
    for component in Path::new(base).join(path).components() {
        match component {
            Component::ParentDir => drop(resolved.pop()),
            Component::CurDir => {}
            other => resolved.push(other),
        }
    }
    resolved
}

/// The jail's refusal, with the question for a folder at its very end, keys in the order the real shell writes them.
fn outside(roots: &[String], resolved: &Path, attempted: &str) -> ErrorBody {
    let quoted = |text: &str| Value::from(text).to_string();
    let folder = resolved.parent().unwrap_or(resolved).to_string_lossy();
    let tail = format!(
        r#"filesystem_access_request={{"v":1,"requested_root":{},"attempted_path":{},"error_code":"S215"}}"#,
        quoted(&folder),
        quoted(attempted)
    );
    let jail = roots.join(", ");
    ErrorBody::new("S215", format!("path escapes the fs jail roots [{jail}]: {attempted} {tail}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_a_path_outside_when_it_is_refused_then_the_question_names_its_folder_and_ends_the_message() {
        let error = outside(
            &["/jail".to_owned()],
            &resolve("/jail/a", "../../data/x \"y\".csv"),
            "../../data/x \"y\".csv",
        );
        let tail =
            error.message.split_once(" filesystem_access_request=").map(|(_, tail)| tail).unwrap_or_default();
        let question: Value = serde_json::from_str(tail).unwrap_or_default();
        let wanted = json!({ "v": 1, "requested_root": "/data", "attempted_path": "../../data/x \"y\".csv",
            "error_code": "S215" });
        assert_eq!((error.code.as_str(), question), ("S215", wanted));
    }
}
