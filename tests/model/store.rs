//! The state worker: rows, and the swap that returns what it replaced.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use approval_gate::iii::ErrorBody;

use crate::link::Reply;

#[derive(Default)]
pub struct Store {
    scopes: BTreeMap<String, BTreeMap<String, Value>>,
}

impl Store {
    pub fn row(&self, scope: &str, key: &str) -> Value {
        self.scopes.get(scope).and_then(|rows| rows.get(key)).cloned().unwrap_or_default()
    }

    pub fn rows(&self, scope: &str) -> Vec<(String, Value)> {
        let rows = self.scopes.get(scope).into_iter().flatten();
        rows.map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    pub fn apply(&mut self, function: &str, data: &Value) -> Reply {
        let scope = data["scope"].as_str().unwrap_or_default().to_owned();
        let key = data["key"].as_str().unwrap_or_default().to_owned();
        let rows = self.scopes.entry(scope).or_default();
        match function {
            "state::get" => Ok(rows.get(&key).cloned().unwrap_or_default()),
            "state::list" => Ok(Value::Array(rows.values().cloned().collect())),
            "state::set" => {
                let old = rows.insert(key, data["value"].clone()).unwrap_or_default();
                Ok(json!({"old_value": old, "new_value": data["value"]}))
            }
            "state::delete" => Ok(rows.remove(&key).unwrap_or_default()),
            _ => Err(ErrorBody::new("function_not_found", function)),
        }
    }
}
