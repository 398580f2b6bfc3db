//! What must exist on the engine as long as we are connected: functions, trigger types, bindings, all with stable ids.
//!
//! The engine forgets everything with the connection, so the whole registry is announced on each one. Because the ids
//! never change, announcing twice replaces and never stacks (contract §9).

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;

use super::BoxFuture;
use super::error::ErrorBody;
use super::frame::{Plain, Unsendable};

/// All that this worker offers and binds.
#[derive(Default)]
pub struct Registry {
    /// Functions that others may call.
    pub functions: Vec<Function>,
    /// Trigger types that others may bind to.
    pub trigger_types: Vec<TriggerType>,
    /// What our own functions are bound to.
    pub bindings: Vec<Binding>,
}

/// One function that others may call.
pub struct Function {
    /// The function id, `group::name`.
    pub id: String,
    /// One line for listings.
    pub description: String,
    /// JSON Schema of the request; the engine stores it and never enforces it.
    pub request_schema: Value,
    /// JSON Schema of the answer.
    pub response_schema: Value,
    /// Shown by listings; `{"internal": true}` hides the function from the default one.
    pub metadata: Option<Value>,
    /// What runs.
    pub handler: Handler,
    /// Tried first, if there is one.
    pub on_the_spot: Option<OnTheSpot>,
}

/// Runs one invocation. Polled once on the task that reads the socket, so it must not block; a panic in it becomes an
/// error answer.
pub type Handler = Arc<dyn Fn(Invocation) -> BoxFuture<Reply> + Send + Sync>;

/// What a handler answers: a JSON value as text, or an error body.
pub type Reply = Result<Box<RawValue>, ErrorBody>;

/// Answers an invocation from memory alone, looking at the payload where it lies in the frame; `None` leaves it to the
/// handler. Must do nothing that the handler would do again, and answer only what the handler would.
pub type OnTheSpot = Arc<dyn Fn(&RawValue) -> Option<Arc<RawValue>> + Send + Sync>;

/// A [`Handler`] from an async closure.
pub fn handler<F, Work>(run: F) -> Handler
where
    F: Fn(Invocation) -> Work + Send + Sync + 'static,
    Work: Future<Output = Reply> + Send + 'static,
{
    Arc::new(move |invocation| Box::pin(run(invocation)))
}

/// One call for a handler.
#[derive(Debug)]
pub struct Invocation {
    /// The function called.
    pub function_id: Arc<str>,
    /// The payload as it came, of any depth; `null` if there was none.
    pub data: Box<RawValue>,
    /// What the binding or the caller sent beside the payload.
    pub metadata: Option<Box<RawValue>>,
}

impl Invocation {
    /// The connection that called. The engine writes it and overwrites what a caller may claim, so it can be trusted;
    /// absent for events of the engine's own triggers and for payloads that are no objects.
    pub fn caller(&self) -> Option<String> {
        #[derive(serde::Deserialize)]
        struct Caller {
            #[serde(rename = "_caller_worker_id")]
            id: Option<String>,
        }
        // A derived struct also reads itself from an array, whose members anyone may choose.
        let object = Some(self.data.get()).filter(|text| text.starts_with('{'))?;
        serde_json::from_str::<Caller>(object).ok()?.id
    }
}

/// One trigger type that others may bind to.
pub struct TriggerType {
    /// The type id.
    pub id: String,
    /// One line; the engine drops a registration without it.
    pub description: String,
    /// JSON Schema of a binding's `config`; not enforced by the engine.
    pub config_schema: Value,
    /// JSON Schema of the event payload, if one is published.
    pub payload_schema: Option<Value>,
    /// Who keeps the bindings.
    pub provider: Arc<dyn Provider>,
}

/// Keeps the bindings of one trigger type. Called on the task that reads the socket, so it must not block.
pub trait Provider: Send + Sync {
    /// A binding, new or again; an id that is known is replaced. Refusing a new version of a known id drops the old one.
    fn bind(&self, bind: Bind) -> Result<(), ErrorBody>;
    /// The binding is gone; unknown ids are possible.
    fn unbind(&self, id: &str);
    /// A new connection: all bindings will be sent again, none of the old ones counts.
    fn reset(&self);
}

/// A binding of somebody to a trigger type of ours.
#[derive(Debug)]
pub struct Bind {
    /// Key of the binding, global to the engine.
    pub id: String,
    /// The function to call on each event.
    pub function_id: String,
    /// Whatever the binder wrote; `null` if nothing.
    pub config: Value,
    /// To be sent along with each event.
    pub metadata: Option<Box<RawValue>>,
    /// Where the function lives; `None` is the default namespace.
    pub namespace: Option<String>,
}

/// A binding of one of our functions to a trigger type.
#[derive(Debug, Clone)]
pub struct Binding {
    /// Stable over reconnects and restarts, `approval-gate/<purpose>`.
    pub id: String,
    /// The type, whether or not anyone provides it yet.
    pub trigger_type: String,
    /// Our function.
    pub function_id: String,
    /// For the provider.
    pub config: Value,
}

/// The registry with an index by id, as it is used while running.
#[derive(Default)]
pub(super) struct Catalogue {
    registry: Registry,
    functions: HashMap<Arc<str>, usize>,
    trigger_types: HashMap<String, usize>,
    bindings: HashMap<String, usize>,
}

impl Catalogue {
    pub(super) fn new(registry: Registry) -> Self {
        let functions = registry.functions.iter().enumerate();
        let trigger_types = registry.trigger_types.iter().enumerate();
        let bindings = registry.bindings.iter().enumerate();
        Self {
            functions: functions.map(|(at, function)| (function.id.as_str().into(), at)).collect(),
            trigger_types: trigger_types.map(|(at, kind)| (kind.id.clone(), at)).collect(),
            bindings: bindings.map(|(at, binding)| (binding.id.clone(), at)).collect(),
            registry,
        }
    }

    /// The function of this id, and the id in shared form.
    pub(super) fn function(&self, id: &str) -> Option<(&Arc<str>, &Function)> {
        let (id, at) = self.functions.get_key_value(id)?;
        Some((id, self.registry.functions.get(*at)?))
    }

    pub(super) fn trigger_type(&self, id: &str) -> Option<&TriggerType> {
        self.registry.trigger_types.get(*self.trigger_types.get(id)?)
    }

    pub(super) fn trigger_types(&self) -> &[TriggerType] {
        &self.registry.trigger_types
    }

    /// All that a new connection must be told, in the order in which the engine wants it: types, functions, bindings.
    pub(super) fn announcement(&self) -> impl Iterator<Item = Result<String, Unsendable>> {
        let types = self.registry.trigger_types.iter().map(TriggerType::frame);
        let functions = self.registry.functions.iter().map(Function::frame);
        let bindings = self.registry.bindings.iter().map(Binding::frame);
        types.chain(functions).chain(bindings)
    }

    /// The frames that withdraw every function.
    pub(super) fn withdrawal(&self) -> impl Iterator<Item = Result<String, Unsendable>> {
        self.registry.functions.iter().map(|function| Plain::UnregisterFunction { id: &function.id }.write())
    }

    /// The frame that asks for this function again.
    pub(super) fn function_frame(&self, id: &str) -> Option<Result<String, Unsendable>> {
        Some(self.function(id)?.1.frame())
    }

    /// The frame that asks for this binding again, under the same id.
    pub(super) fn binding_frame(&self, id: &str) -> Option<Result<String, Unsendable>> {
        Some(self.registry.bindings.get(*self.bindings.get(id)?)?.frame())
    }
}

impl TriggerType {
    fn frame(&self) -> Result<String, Unsendable> {
        Plain::RegisterTriggerType {
            id: &self.id,
            description: &self.description,
            trigger_request_format: &self.config_schema,
            call_request_format: self.payload_schema.as_ref(),
        }
        .write()
    }
}

impl Function {
    fn frame(&self) -> Result<String, Unsendable> {
        Plain::RegisterFunction {
            id: &self.id,
            description: &self.description,
            request_format: &self.request_schema,
            response_format: &self.response_schema,
            metadata: self.metadata.as_ref(),
        }
        .write()
    }
}

impl Binding {
    fn frame(&self) -> Result<String, Unsendable> {
        Plain::RegisterTrigger {
            id: &self.id,
            trigger_type: &self.trigger_type,
            function_id: &self.function_id,
            config: &self.config,
        }
        .write()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn invocation(data: &str) -> Invocation {
        let data = RawValue::from_string(data.to_owned()).unwrap();
        Invocation { function_id: "f".into(), data, metadata: None }
    }

    #[test]
    fn the_caller_is_read_from_objects_only() {
        assert_eq!(invocation(r#"{"a":[1],"_caller_worker_id":"w"}"#).caller().as_deref(), Some("w"));
        for data in ["{}", "null", "7", r#"["w"]"#, r#"{"_caller_worker_id":null}"#] {
            assert_eq!(invocation(data).caller(), None, "{data}");
        }
    }

    #[test]
    fn looking_for_the_caller_does_not_recurse() {
        let deep = format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
        let found = invocation(&format!(r#"{{"a":{deep},"_caller_worker_id":"w"}}"#)).caller();
        assert_eq!(found.as_deref(), Some("w"));
    }
}
