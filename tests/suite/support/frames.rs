//! The frames that a worker writes, as plain JSON: the suite's own reading of the protocol.

use serde_json::{Value, json};

/// Announces a connection; the answer comes after all held-back registrations are applied.
pub const ANNOUNCE: &str = "engine::workers::register";

pub fn invoke(invocation_id: &str, function_id: &str, data: &Value) -> Value {
    json!({"type": "invokefunction", "invocation_id": invocation_id, "function_id": function_id, "data": data})
}

pub fn register_function(id: &str) -> Value {
    json!({"type": "registerfunction", "id": id, "description": "a stand-in of the suite"})
}

pub fn unregister_function(id: &str) -> Value {
    json!({"type": "unregisterfunction", "id": id})
}

pub fn register_trigger_type(id: &str) -> Value {
    json!({"type": "registertriggertype", "id": id, "description": "a stand-in of the suite"})
}

pub fn register_trigger(id: &str, trigger_type: &str, function_id: &str, config: &Value) -> Value {
    json!({"type": "registertrigger", "id": id, "trigger_type": trigger_type, "function_id": function_id,
           "config": config})
}

pub fn unregister_trigger(id: &str) -> Value {
    json!({"type": "unregistertrigger", "id": id})
}

pub fn bind_verdict(bind: &Value, error: Option<&Value>) -> Value {
    let mut frame = json!({"type": "triggerregistrationresult", "id": bind["id"],
                           "trigger_type": bind["trigger_type"], "function_id": bind["function_id"]});
    if let Some(error) = error {
        frame["error"] = error.clone();
    }
    frame
}

pub fn answer(invocation: &Value, result: &Value) -> Value {
    json!({"type": "invocationresult", "invocation_id": invocation["invocation_id"],
           "function_id": invocation["function_id"], "result": result})
}

pub fn refusal(invocation: &Value, code: &str, message: &str) -> Value {
    json!({"type": "invocationresult", "invocation_id": invocation["invocation_id"],
           "function_id": invocation["function_id"], "error": {"code": code, "message": message}})
}
