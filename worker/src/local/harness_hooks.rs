//! The stand-in harness's hooks: which are bound, in what order they are asked, what their answers mean.
//!
//! It must not know what a hook decides by. The non-obvious fact: any answer that is not exactly one of the known
//! words means `continue`, so a mis-spelt decision is an allow.

use std::sync::Arc;
use std::time::Duration;

use globset::Glob;
use serde::Deserialize;
use serde_json::{Value, json};

use super::frame::BindForm;
use super::hub::{Call, Caller, Hub};
use super::triggers::object_or_empty;

/// Asked before a call runs.
pub(super) const PRE_TRIGGER: &str = "harness::hook::pre-trigger";
/// Asked after a call ran.
pub(super) const POST_TRIGGER: &str = "harness::hook::post-trigger";
/// The hook whose presence draws the workspace boundary. The real harness looks for this very id.
const WATCH: &str = "approval::filesystem-access-watch";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum OnError {
    FailClosed,
    FailOpen,
}

/// A hook's bind config.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct HookConfig {
    /// Globs over the target's id; absent = every call.
    functions: Option<Vec<String>>,
    /// Ascending; ties by function id.
    #[serde(default)]
    priority: i64,
    /// Budget of one question.
    #[serde(default = "five_seconds")]
    timeout_ms: u64,
    on_error: Option<OnError>,
}

fn five_seconds() -> u64 {
    5000
}

fn parse(config: &Value) -> Result<HookConfig, String> {
    HookConfig::deserialize(object_or_empty(config)).map_err(|error| format!("invalid hook config: {error}"))
}

/// Whether a pre-trigger bind's config can be read.
pub(super) fn accepts_pre(config: &Value) -> Result<(), String> {
    parse(config).map(drop)
}

/// Whether a post-trigger bind's config can be read.
pub(super) fn accepts_post(config: &Value) -> Result<(), String> {
    parse(config).map(drop)
}

impl HookConfig {
    /// Whether a target is this hook's business. A glob that does not compile matches nothing.
    fn concerns(&self, target: &str) -> bool {
        let Some(globs) = self.functions.as_ref().filter(|globs| !globs.is_empty()) else { return true };
        globs.iter().any(|glob| Glob::new(glob).is_ok_and(|glob| glob.compile_matcher().is_match(target)))
    }
}

/// A bound hook.
pub(super) struct Hook {
    bind: BindForm,
    config: HookConfig,
}

impl Hook {
    /// The function that is asked.
    pub(super) fn function_id(&self) -> &str {
        &self.bind.function_id
    }
}

/// The hooks to ask about a target, in order. Two binds of one function are two hooks.
pub(super) fn chain(hub: &Hub, point: &str, target: &str) -> Vec<Hook> {
    let mut hooks: Vec<Hook> = hub
        .world()
        .engine_binds(point)
        .into_iter()
        .filter_map(|bind| parse(&bind.config).ok().map(|config| Hook { bind, config }))
        .filter(|hook| hook.config.concerns(target))
        .collect();
    hooks.sort_by(|a, b| {
        (a.config.priority, a.function_id(), &a.bind.id).cmp(&(
            b.config.priority,
            b.function_id(),
            &b.bind.id,
        ))
    });
    hooks
}

/// The rest of a chain behind the first hook of this function id; empty when that one is no longer bound.
pub(super) fn after(hooks: Vec<Hook>, held_by: &str) -> Vec<Hook> {
    let behind = hooks.iter().position(|hook| hook.function_id() == held_by).map_or(hooks.len(), |at| at + 1);
    hooks.into_iter().skip(behind).collect()
}

/// How far a session may reach for this target: its workspace while the watch looks at such calls, else whatever
/// is configured.
pub(super) fn boundary(hub: &Hub, target: Option<&str>) -> &'static str {
    let watched = hub.world().engine_binds(POST_TRIGGER).into_iter().any(|bind| {
        bind.function_id == WATCH
            && parse(&bind.config).is_ok_and(|config| target.is_none_or(|target| config.concerns(target)))
    });
    if watched { "workspace" } else { "configured_roots" }
}

/// What every hook is told about a call.
#[derive(Debug, Clone)]
pub(super) struct Context {
    pub(super) session_id: String,
    pub(super) turn_id: String,
    pub(super) step: u64,
    pub(super) depth: u64,
    pub(super) metadata: Option<Value>,
    pub(super) call_id: String,
    pub(super) function_id: String,
}

impl Context {
    fn payload(&self, point: &str, arguments: &Value) -> Value {
        let mut payload = json!({ "point": point, "session_id": self.session_id, "turn_id": self.turn_id,
            "step": self.step, "depth": self.depth,
            "call": { "id": self.call_id, "function_id": self.function_id, "arguments": arguments } });
        if let Some(metadata) = &self.metadata {
            payload["metadata"] = metadata.clone();
        }
        payload
    }

    /// A result in the shape the model and the post-trigger hooks see.
    pub(super) fn result(&self, text: &str, is_error: bool, details: &Value) -> Value {
        json!({ "function_call_id": self.call_id, "function_id": self.function_id,
            "content": [{ "type": "text", "text": text }], "is_error": is_error, "details": details })
    }
}

/// Where a chain ended.
pub(super) enum ChainEnd {
    /// Nobody objected; the arguments or the result as the hooks left them.
    Passed(Value),
    Denied {
        reason: String,
    },
    Held {
        by: String,
    },
}

/// Asks the hooks before a call runs.
pub(super) async fn ask_before(
    hub: &Arc<Hub>,
    hooks: &[Hook],
    about: &Context,
    arguments: Value,
) -> ChainEnd {
    let mut arguments = arguments;
    for hook in hooks {
        let answer = ask(hub, hook, about.payload("pre_trigger", &arguments)).await;
        let closed = hook.config.on_error != Some(OnError::FailOpen);
        let answer = match answer {
            Ok(answer) => answer,
            Err(cause) if closed => {
                let reason = format!("hook {} could not be asked: {cause}", hook.function_id());
                return ChainEnd::Denied { reason };
            }
            Err(_) => continue,
        };
        match answer.get("decision").and_then(Value::as_str) {
            Some("deny") => {
                let reason = answer.get("reason").and_then(Value::as_str).unwrap_or("denied by a hook");
                return ChainEnd::Denied { reason: reason.to_owned() };
            }
            Some("hold") => return ChainEnd::Held { by: hook.function_id().to_owned() },
            _ => {
                if let Some(rewritten) = answer.pointer("/mutations/arguments") {
                    arguments = rewritten.clone();
                }
            }
        }
    }
    ChainEnd::Passed(arguments)
}

/// Asks the hooks after a call ran. A denial means nothing here.
pub(super) async fn ask_after(
    hub: &Arc<Hub>,
    hooks: &[Hook],
    about: &Context,
    arguments: &Value,
    result: Value,
) -> ChainEnd {
    let mut result = result;
    for hook in hooks {
        let mut payload = about.payload("post_trigger", arguments);
        payload["result"] = result.clone();
        let answer = match ask(hub, hook, payload).await {
            Ok(answer) => answer,
            Err(cause) if hook.config.on_error == Some(OnError::FailClosed) => {
                let reason = format!("hook {} could not be asked: {cause}", hook.function_id());
                result = about.result(&reason, true, &json!({ "error": "hook_failed" }));
                continue;
            }
            Err(_) => continue,
        };
        if answer.get("decision").and_then(Value::as_str) == Some("hold") {
            return ChainEnd::Held { by: hook.function_id().to_owned() };
        }
        for part in ["content", "details", "is_error"] {
            if let Some(rewritten) = answer.get("mutations").and_then(|mutations| mutations.get(part)) {
                result[part] = rewritten.clone();
            }
        }
    }
    ChainEnd::Passed(result)
}

/// Asks one hook within its budget.
async fn ask(hub: &Arc<Hub>, hook: &Hook, payload: Value) -> Result<Value, String> {
    let mut call = Call::new(Caller::Harness, hook.function_id(), payload);
    call.namespace.clone_from(&hook.bind.namespace);
    call.metadata.clone_from(&hook.bind.metadata);
    let budget = Duration::from_millis(hook.config.timeout_ms);
    match tokio::time::timeout(budget, hub.call(call)).await {
        Err(_) => Err(format!("no answer within {} ms", hook.config.timeout_ms)),
        Ok(answered) => match answered.outcome {
            Ok(answer) => Ok(answer.unwrap_or_default()),
            Err(error) => Err(format!("{}: {}", error.code, error.message)),
        },
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn given_a_config_with_an_unknown_key_when_bound_then_it_is_refused_by_name() {
        for config in
            [json!({"function":["*"]}), json!({"on_error":"open"}), json!({"timeout_ms":-1}), json!([])]
        {
            let refusal = accepts_pre(&config).unwrap_err();
            assert!(refusal.starts_with("invalid hook config"), "{config}: {refusal}");
        }
        assert_eq!(accepts_pre(&Value::Null), Ok(()));
    }

    #[test]
    fn given_globs_when_a_target_is_matched_then_a_star_crosses_the_separator_and_a_broken_one_matches_nothing()
     {
        for (globs, target, wanted) in [
            (json!(["*"]), "shell::fs::read", true),
            (json!(["shell::*"]), "shell::fs::read", true),
            (json!(["shell::*"]), "coder::read-file", false),
            (json!(["[", "state::get"]), "state::get", true),
            (json!(["["]), "[", false),
            (json!([]), "anything", true),
        ] {
            let config = parse(&json!({ "functions": globs })).unwrap();
            assert_eq!(config.concerns(target), wanted, "{globs} {target}");
        }
    }
}
