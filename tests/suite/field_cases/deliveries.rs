//! Bindings that a case lists, and what they got.

use std::time::Duration;

use serde_json::{Value, json};

use super::world::Case;
use crate::support::Script;
use crate::support::wait::within;

/// Binds everything in `given.bindings`; a binding without an id is one of the two listeners that are always there.
pub async fn bind(case: &Case<'_>) {
    for (index, binding) in case.given()["bindings"].as_array().into_iter().flatten().enumerate() {
        let id = binding["id"].as_str().map_or_else(|| format!("b{index}"), str::to_owned);
        let function_id = format!("suite::{id}");
        let script = match binding["handler"].as_str() {
            Some("sleeps 30 s, then fails") => {
                Script::After(Duration::from_secs(30), Box::new(Script::refuse("late", "after 30 s")))
            }
            _ => Script::Reply(Value::Null),
        };
        let console = &case.stage().console;
        console.serve(&function_id, script);
        let config = binding.get("config").cloned().unwrap_or_else(|| json!({}));
        console
            .bind_live(&format!("suite/{id}"), binding["type"].as_str().unwrap(), &function_id, &config)
            .await;
    }
}

/// Compares what each binding got, as `created c_1`, or how many events.
pub async fn check(case: &Case<'_>, expected: &Value) {
    for (id, wanted) in expected.as_object().unwrap() {
        let function_id = format!("suite::{id}");
        let got = || case.stage().console.heard_by(&function_id);
        let count =
            wanted.as_array().map_or_else(|| wanted.as_u64().unwrap_or_default(), |list| list.len() as u64);
        let _ =
            within(Duration::from_secs(3), || async { (got().len() as u64 >= count).then_some(()) }).await;
        case.stage().quiet().await;
        let lines: Value = got().iter().map(line).collect();
        match wanted {
            Value::Array(_) => {
                case.expect(lines == *wanted, || format!("{id} got {lines}, expected {wanted}"))
            }
            _ => case
                .expect(got().len() as u64 == count, || format!("{id} got {lines}, expected {count} events")),
        }
    }
}

fn line(payload: &Value) -> String {
    let word = if payload.get("outcome").is_some() { "resolved" } else { "created" };
    format!("{word} {}", payload["function_call_id"].as_str().unwrap_or("?"))
}
