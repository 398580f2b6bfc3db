//! The listeners of one trigger type, found by session without looking at the others.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::sync::Notify;

use crate::hold::contains_all;
use crate::iii::{Bind, ErrorBody, Provider};
use crate::wire::error::{INVALID_PAYLOAD, InvalidPayload};
use crate::wire::events::BindingConfig;
use crate::wire::prompts::PromptBindingConfig;

/// How many bindings one trigger type takes.
const MAX_BINDINGS: usize = 10_000;
/// How large one may be, in bytes of ids and config.
const MAX_BINDING_BYTES: usize = 16 * 1024;

/// One binding of another worker.
#[derive(Debug)]
pub struct Listener {
    /// What to call.
    pub function_id: String,
    /// Handed to it beside each event.
    pub metadata: Option<Box<RawValue>>,
    /// Where its function lives; absent means the default namespace.
    pub namespace: Option<String>,
    config: BindingConfig,
}

/// All bindings of one trigger type. Ids are global to the engine: the same id again replaces.
#[derive(Default)]
pub struct Listeners {
    inner: RwLock<Inner>,
    bound: Notify,
    /// Whether a binding may name a session and nothing else.
    by_session_only: bool,
    /// Somebody was bound when the connection before was lost.
    missed: AtomicBool,
}

#[derive(Default)]
struct Inner {
    by_id: HashMap<String, Arc<Listener>>,
    /// Ids of bindings that name a session.
    by_session: HashMap<String, HashSet<String>>,
    /// Ids of bindings that do not.
    of_any_session: HashSet<String>,
}

impl Listeners {
    /// Listeners whose bindings may name a session and nothing else.
    pub fn by_session_only() -> Self {
        Self { by_session_only: true, ..Self::default() }
    }

    /// All of them.
    pub fn all(&self) -> Vec<Arc<Listener>> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner).by_id.values().cloned().collect()
    }

    /// Those whose filter matches.
    pub fn matching(&self, session_id: &str, metadata: Option<&Map<String, Value>>) -> Vec<Arc<Listener>> {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        let of_session = inner.by_session.get(session_id).into_iter().flatten();
        of_session
            .chain(&inner.of_any_session)
            .filter_map(|id| inner.by_id.get(id))
            .filter(|listener| {
                listener.config.metadata.as_ref().is_none_or(|wanted| contains_all(wanted, metadata))
            })
            .cloned()
            .collect()
    }

    /// Waits until there is one.
    pub async fn some(&self) {
        loop {
            let bound = self.bound.notified();
            if !self.is_empty() {
                return;
            }
            bound.await;
        }
    }

    /// Waits until there is one, if there was one before the connection was lost.
    pub async fn back(&self) {
        if self.missed.load(Ordering::Acquire) {
            self.some().await;
        }
    }

    /// How many bindings there are.
    pub fn len(&self) -> usize {
        self.inner.read().unwrap_or_else(PoisonError::into_inner).by_id.len()
    }

    /// Whether nobody listens.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Inner {
    fn remove(&mut self, id: &str) {
        let Some(listener) = self.by_id.remove(id) else { return };
        match &listener.config.session_id {
            Some(session) => {
                if let Some(ids) = self.by_session.get_mut(session) {
                    ids.remove(id);
                    if ids.is_empty() {
                        self.by_session.remove(session);
                    }
                }
            }
            None => {
                self.of_any_session.remove(id);
            }
        }
    }
}

impl Provider for Listeners {
    /// Accepts or refuses a binding. A refused one also ends the older binding of its id: the engine has dropped it.
    fn bind(&self, bind: Bind) -> Result<(), ErrorBody> {
        let bytes = bind.id.len() + bind.function_id.len() + bind.config.to_string().len();
        let config = if bytes > MAX_BINDING_BYTES {
            Err(InvalidPayload::new("config", "the binding is larger than 16 KiB"))
        } else if self.by_session_only {
            PromptBindingConfig::read(Some(&bind.config))
        } else {
            BindingConfig::read(Some(&bind.config))
        };
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        inner.remove(&bind.id);
        if inner.by_id.len() >= MAX_BINDINGS {
            return Err(ErrorBody::new(INVALID_PAYLOAD, "there are 10,000 bindings of this type already"));
        }
        let config = config.map_err(|invalid| ErrorBody::new(INVALID_PAYLOAD, invalid.to_string()))?;
        match &config.session_id {
            Some(session) => inner.by_session.entry(session.clone()).or_default().insert(bind.id.clone()),
            None => inner.of_any_session.insert(bind.id.clone()),
        };
        let listener = Listener {
            function_id: bind.function_id,
            metadata: bind.metadata,
            namespace: bind.namespace,
            config,
        };
        inner.by_id.insert(bind.id, Arc::new(listener));
        drop(inner);
        self.bound.notify_waiters();
        Ok(())
    }

    fn unbind(&self, id: &str) {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        inner.remove(id);
        if inner.by_id.is_empty() {
            self.missed.store(false, Ordering::Release);
        }
    }

    fn reset(&self) {
        let before = std::mem::take(&mut *self.inner.write().unwrap_or_else(PoisonError::into_inner));
        // A connection that never came to have listeners says nothing about them.
        self.missed.fetch_or(!before.by_id.is_empty(), Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn bind(id: &str, function: &str, config: Value) -> Bind {
        Bind { id: id.into(), function_id: function.into(), config, metadata: None, namespace: None }
    }

    fn functions(listeners: &Listeners, session: &str, metadata: &Value) -> Vec<String> {
        let mut found: Vec<String> = listeners
            .matching(session, metadata.as_object())
            .iter()
            .map(|listener| listener.function_id.clone())
            .collect();
        found.sort();
        found
    }

    #[test]
    fn listeners_are_found_by_session_and_metadata() {
        let listeners = Listeners::default();
        listeners.bind(bind("1", "all", Value::Null)).unwrap();
        listeners.bind(bind("2", "of_s1", json!({"session_id": "s_1"}))).unwrap();
        listeners.bind(bind("3", "of_acme", json!({"metadata": {"tenant": "acme"}}))).unwrap();
        assert_eq!(functions(&listeners, "s_1", &json!({"tenant": "acme"})), ["all", "of_acme", "of_s1"]);
        assert_eq!(functions(&listeners, "s_2", &json!({"tenant": "acme-eu"})), ["all"]);
        assert_eq!(functions(&listeners, "s_2", &Value::Null), ["all"]);
    }

    #[test]
    fn the_same_id_replaces_and_a_refusal_ends_the_older_binding() {
        let listeners = Listeners::default();
        listeners.bind(bind("1", "old", json!({"session_id": "s_1"}))).unwrap();
        listeners.bind(bind("1", "new", json!({}))).unwrap();
        assert_eq!(functions(&listeners, "s_1", &Value::Null), ["new"]);
        let refusal = listeners.bind(bind("1", "new", json!({"tenant": "acme"}))).unwrap_err();
        assert!(refusal.message.contains("tenant"), "{}", refusal.message);
        assert!(listeners.is_empty());
    }

    #[test]
    fn unbinding_and_a_new_connection_leave_nothing() {
        let listeners = Listeners::default();
        listeners.bind(bind("1", "a", json!({"session_id": "s_1"}))).unwrap();
        listeners.unbind("1");
        listeners.unbind("unknown");
        assert!(listeners.is_empty());
        listeners.bind(bind("2", "b", Value::Null)).unwrap();
        listeners.reset();
        assert_eq!(functions(&listeners, "s_1", &Value::Null), Vec::<String>::new());
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_listener_that_was_lost_with_its_connection_is_waited_for() {
        let listeners = Listeners::default();
        let comes_at_once =
            async || tokio::time::timeout(std::time::Duration::from_secs(1), listeners.back()).await.is_ok();
        listeners.reset();
        assert!(comes_at_once().await, "nobody was there");
        listeners.bind(bind("1", "a", Value::Null)).unwrap();
        listeners.reset();
        listeners.reset();
        assert!(!comes_at_once().await, "one was there and has not come back");
        listeners.bind(bind("1", "a", Value::Null)).unwrap();
        assert!(comes_at_once().await);
        listeners.unbind("1");
        listeners.reset();
        assert!(comes_at_once().await, "it had gone before");
    }
}
