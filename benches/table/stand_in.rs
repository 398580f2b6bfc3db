//! An engine with no socket: a store, a configuration, and answers at once. For what the worker itself costs.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use approval_gate::clock::Deadline;
use approval_gate::handlers::{Context, catalogue};
use approval_gate::iii::{Answer, CallError, Fire, Function, Invocation};
use approval_gate::local::StateStore;
use approval_gate::siblings::{BoxFuture, Engine, SharedEngine};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

pub struct StandIn {
    configuration: Value,
    store: Mutex<StateStore>,
    pub fired: AtomicUsize,
}

impl StandIn {
    pub fn new(configuration: Value, store: StateStore) -> Arc<Self> {
        Arc::new(Self { configuration, store: Mutex::new(store), fired: AtomicUsize::new(0) })
    }

    fn answer(&self, function_id: &str, data: &Value) -> Option<Value> {
        let text = |field: &str| data[field].as_str().unwrap_or_default();
        let mut store = self.store.lock().unwrap();
        match function_id {
            "configuration::get" => Some(json!({"value": self.configuration})),
            "state::get" => Some(store.get(text("scope"), text("key")).cloned().unwrap_or_default()),
            "state::list" => Some(Value::Array(store.list(text("scope")))),
            "state::set" => {
                let old = store.set(text("scope"), text("key"), data["value"].clone());
                Some(json!({"old_value": old, "new_value": data["value"]}))
            }
            "state::delete" => Some(store.delete(text("scope"), text("key")).unwrap_or_default()),
            _ => None,
        }
    }
}

impl Engine for StandIn {
    fn call<'a>(
        &'a self,
        function_id: &'a str,
        data: &'a Value,
        _: Deadline,
    ) -> BoxFuture<'a, Result<Answer, CallError>> {
        Box::pin(async move {
            match self.answer(function_id, data) {
                Some(value) => Ok(Answer::new(function_id, to_raw_value(&value).ok())),
                None => Err(CallError::NotConnected),
            }
        })
    }

    fn fire(&self, _: &Fire<'_>) -> Result<(), CallError> {
        self.fired.fetch_add(1, Relaxed);
        Ok(())
    }

    fn connection(&self) -> u64 {
        1
    }
}

/// A worker's inside over this engine, with what is in the store kept in memory.
pub async fn context(engine: &Arc<StandIn>) -> Arc<Context> {
    let context = Context::new(&(Arc::clone(engine) as SharedEngine));
    context.config.refetch().await.unwrap();
    context.settings.open_view(1);
    context.events.listeners_known();
    context.inbox.load_view().await;
    context
}

/// The function of this id.
pub fn function(context: &Arc<Context>, id: &str) -> Function {
    catalogue(context).into_iter().find(|function| function.id == id).unwrap()
}

/// Runs a function once.
pub async fn ask(function: &Function, data: Box<RawValue>) -> Box<RawValue> {
    (function.handler)(Invocation { function_id: function.id.as_str().into(), data, metadata: None })
        .await
        .unwrap()
}
