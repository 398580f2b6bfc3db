//! The `configuration` worker: typed documents with a schema.

use serde_json::{Value, json};

use super::SharedEngine;
use crate::clock::Deadline;
use crate::iii::{Answer, CallError};

/// The client.
#[derive(Clone)]
pub struct Configuration {
    engine: SharedEngine,
}

/// What reading an entry's value can say besides the value.
#[derive(Debug)]
pub enum Fetched {
    /// The value, placeholders expanded, valid under the registered schema. It may be long, so it is not parsed yet.
    Value(Unread),
    /// The entry is there and its value cannot be used; the text says why.
    Invalid(String),
}

/// A value as it came.
#[derive(Debug)]
pub struct Unread(Answer);

impl Unread {
    /// About as many bytes as its text has.
    pub fn bytes(&self) -> usize {
        self.0.raw().map_or(0, |text| text.get().len())
    }

    /// The value.
    pub fn value(&self) -> Result<Value, CallError> {
        self.0.value().map(value_of)
    }
}

impl Configuration {
    /// Over this engine.
    pub fn new(engine: SharedEngine) -> Self {
        Self { engine }
    }

    /// Which connection calls go over at this moment.
    pub fn connection(&self) -> u64 {
        self.engine.connection()
    }

    /// Registers an entry's schema. Never with an initial value: that would overwrite what is stored.
    pub async fn register(
        &self,
        id: &str,
        name: &str,
        description: &str,
        schema: &Value,
        deadline: Deadline,
    ) -> Result<(), CallError> {
        let data = json!({"id": id, "name": name, "description": description, "schema": schema});
        self.engine.call("configuration::register", &data, deadline).await.map(drop)
    }

    /// The stored text of a value, placeholders unexpanded, unchecked; `None` when there is no entry.
    pub async fn get_raw(&self, id: &str, deadline: Deadline) -> Result<Option<Value>, CallError> {
        let data = json!({"id": id, "raw": true});
        match self.engine.call("configuration::get", &data, deadline).await {
            Ok(answer) => Ok(Some(value_of(answer.value()?))),
            Err(CallError::Refused { code, .. }) if code == "NOT_FOUND" => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The value in force. A value that violates the schema or cannot be expanded is `Invalid`, not an error: the
    /// source answered, and what it holds cannot be used.
    pub async fn fetch(&self, id: &str, deadline: Deadline) -> Result<Fetched, CallError> {
        let data = json!({"id": id});
        match self.engine.call("configuration::get", &data, deadline).await {
            Ok(answer) => Ok(Fetched::Value(Unread(answer))),
            Err(CallError::Refused { code, message, .. })
                if code == "SCHEMA_INVALID" || code == "EXPAND_FAILED" =>
            {
                Ok(Fetched::Invalid(message))
            }
            Err(error) => Err(error),
        }
    }

    /// Replaces the whole value.
    pub async fn set(&self, id: &str, value: &Value, deadline: Deadline) -> Result<(), CallError> {
        let data = json!({"id": id, "value": value});
        self.engine.call("configuration::set", &data, deadline).await.map(drop)
    }
}

fn value_of(mut answer: Value) -> Value {
    answer.get_mut("value").map(Value::take).unwrap_or_default()
}
