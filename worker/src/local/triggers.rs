//! Trigger types and binds: who is told what when one of either comes or goes.
//!
//! One map from id to bind for the whole engine: the same id again replaces, whoever sends it, and takes the bind
//! over. A bind nobody can serve is parked, silently, and offered again each time its type is registered. It must
//! not know what any type means; whether a built-in type accepts a config is asked of `builtin`. The non-obvious
//! fact: a bind made through the function path has no owner and outlives the connection that asked for it, but is
//! forgotten when refused.

use serde_json::Value;
use tokio::sync::oneshot;
use uuid::Uuid;

use super::builtin;
use super::frame::{self, BindForm, ErrorBody, TypeForm, Verdict};
use super::world::{DEFAULT, Key, World};

/// Who serves a trigger type.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Provider {
    Engine,
    Worker(Uuid),
}

/// A trigger type that can be bound.
#[derive(Clone)]
pub(super) struct TriggerType {
    pub(super) provider: Provider,
    pub(super) form: TypeForm,
}

/// A bind, live or parked.
pub(super) struct Bind {
    pub(super) form: BindForm,
    /// The connection it goes with; `None` for the function path.
    pub(super) owner: Option<Uuid>,
    /// The binder's own namespace, where a provider is looked for first.
    home: String,
    /// The type that serves it; `None` while parked.
    pub(super) served_by: Option<Key>,
    /// Someone who waits for the provider's word.
    waiter: Option<oneshot::Sender<Result<(), ErrorBody>>>,
}

/// What a binder is to be told.
pub(super) enum BindOutcome {
    /// Live, or parked; nobody says which.
    Taken,
    /// Handed to a worker whose word is awaited.
    Asked,
    Refused(ErrorBody),
}

impl World {
    /// Takes a bind from a connection and tells it about a refusal.
    pub(super) fn register_bind(&mut self, from: Uuid, form: &BindForm) {
        let Some(connection) = self.connections.get(&from) else { return };
        let home = connection.namespace().to_owned();
        if let BindOutcome::Refused(error) = self.bind(form.clone(), Some(from), &home, None) {
            self.send(from, frame::bind_refused(form, &error));
        }
    }

    /// Takes a bind. A waiter, if given, hears the provider's word when the outcome is `Asked`.
    pub(super) fn bind(
        &mut self,
        form: BindForm,
        owner: Option<Uuid>,
        home: &str,
        waiter: Option<oneshot::Sender<Result<(), ErrorBody>>>,
    ) -> BindOutcome {
        for (key, name) in [("namespace", &form.namespace), ("trigger_namespace", &form.trigger_namespace)] {
            if name.as_ref().is_some_and(|name| name.trim().is_empty()) {
                return BindOutcome::Refused(ErrorBody::blank_namespace(key));
            }
        }
        let id = form.id.clone();
        let served_by = self.provider_of(&form, home);
        self.forget_elsewhere(&id, served_by.as_ref());
        self.binds.insert(id.clone(), Bind { form, owner, home: home.to_owned(), served_by: None, waiter });
        let Some(key) = served_by else { return BindOutcome::Taken };
        let outcome = self.offer(&id, key);
        if owner.is_none() && matches!(outcome, BindOutcome::Refused(_)) {
            self.binds.remove(&id);
        }
        outcome
    }

    /// Hands a bind to the provider of `key` and counts it live, unless a built-in type refuses it.
    fn offer(&mut self, id: &str, key: Key) -> BindOutcome {
        let Some(provider) = self.types.get(&key).map(|kind| kind.provider) else {
            return BindOutcome::Taken;
        };
        let Some(bind) = self.binds.get_mut(id) else { return BindOutcome::Taken };
        match provider {
            Provider::Engine => {
                if let Err(message) = builtin::accepts(&bind.form.trigger_type, &bind.form.config) {
                    bind.served_by = None;
                    return BindOutcome::Refused(ErrorBody::new("trigger_registration_failed", message));
                }
                bind.served_by = Some(key);
                BindOutcome::Taken
            }
            Provider::Worker(worker) => {
                bind.served_by = Some(key);
                let message = frame::register_trigger(&bind.form);
                self.send(worker, message);
                BindOutcome::Asked
            }
        }
    }

    /// The type a bind resolves to: the namespace it names, or the binder's own and then the default one.
    fn provider_of(&self, form: &BindForm, home: &str) -> Option<Key> {
        let candidates =
            form.trigger_namespace.as_deref().map_or_else(|| vec![home, DEFAULT], |name| vec![name]);
        candidates
            .into_iter()
            .map(|namespace| (namespace.to_owned(), form.trigger_type.clone()))
            .find(|key| self.types.contains_key(key))
    }

    /// When an id moves to another type, its former provider is told that it is gone.
    fn forget_elsewhere(&mut self, id: &str, now: Option<&Key>) {
        if self.binds.get(id).is_some_and(|old| old.served_by.is_some() && old.served_by.as_ref() != now) {
            self.unbind(id);
        }
    }

    /// Takes a provider's word on a bind. A word from anybody else is ignored; a late refusal withdraws the bind.
    pub(super) fn verdict(&mut self, from: Uuid, verdict: Verdict) {
        let Some(bind) = self.binds.get(&verdict.id) else { return };
        let provider = bind.served_by.as_ref().and_then(|key| self.types.get(key)).map(|kind| kind.provider);
        if bind.form.trigger_type != verdict.trigger_type || provider != Some(Provider::Worker(from)) {
            return;
        }
        let Some(bind) = self.binds.get_mut(&verdict.id) else { return };
        let waiter = bind.waiter.take();
        let Some(error) = verdict.error else {
            if let Some(waiter) = waiter {
                let _ = waiter.send(Ok(()));
            }
            return;
        };
        bind.served_by = None;
        match (waiter, bind.owner) {
            (Some(waiter), _) => {
                let _ = waiter.send(Err(error));
                self.binds.remove(&verdict.id);
            }
            (None, Some(owner)) => {
                let message = frame::bind_refused(&bind.form, &error);
                self.send(owner, message);
            }
            (None, None) => {}
        }
    }

    /// Removes a bind, whoever asks. Says whether there was one.
    pub(super) fn unbind(&mut self, id: &str) -> bool {
        let Some(bind) = self.binds.remove(id) else { return false };
        self.tell_gone(&bind);
        true
    }

    fn tell_gone(&self, bind: &Bind) {
        let kind = bind.served_by.as_ref().and_then(|key| self.types.get(key));
        if let Some(Provider::Worker(worker)) = kind.map(|kind| kind.provider) {
            self.send(worker, frame::unregister_trigger(&bind.form));
        }
    }

    /// Takes a trigger type. Whoever registers last provides it; all its binds, live and parked, are offered again.
    pub(super) fn register_type(&mut self, from: Uuid, form: TypeForm) {
        let Some(connection) = self.connections.get(&from) else { return };
        let namespace = form.namespace.clone().unwrap_or_else(|| connection.namespace().to_owned());
        if namespace.trim().is_empty() {
            tracing::warn!(trigger_type = %form.id, "trigger type refused: blank namespace");
            return;
        }
        let key = (namespace, form.id.clone());
        self.types.insert(key.clone(), TriggerType { provider: Provider::Worker(from), form });
        let offered: Vec<String> = self
            .binds
            .values()
            .filter(|bind| bind.form.trigger_type == key.1)
            .filter(|bind| match &bind.served_by {
                Some(served_by) => *served_by == key,
                None => self.provider_of(&bind.form, &bind.home).as_ref() == Some(&key),
            })
            .map(|bind| bind.form.id.clone())
            .collect();
        for id in offered {
            self.offer(&id, key.clone());
        }
    }

    /// Forgets the binds of a connection that is gone.
    pub(super) fn drop_binds_of(&mut self, owner: Uuid) {
        let ids: Vec<String> = self
            .binds
            .iter()
            .filter(|(_, bind)| bind.owner == Some(owner))
            .map(|(id, _)| id.clone())
            .collect();
        for id in ids {
            self.unbind(&id);
        }
    }

    /// Forgets the types of a connection that is gone. Binds of others move to another provider or are parked.
    pub(super) fn drop_types_of(&mut self, provider: Uuid) {
        let gone: Vec<Key> = self
            .types
            .iter()
            .filter(|(_, kind)| kind.provider == Provider::Worker(provider))
            .map(|(key, _)| key.clone())
            .collect();
        for key in &gone {
            self.types.remove(key);
        }
        let orphans: Vec<String> = self
            .binds
            .values_mut()
            .filter(|bind| bind.served_by.as_ref().is_some_and(|key| gone.contains(key)))
            .map(|bind| {
                bind.served_by = None;
                bind.form.id.clone()
            })
            .collect();
        for id in orphans {
            let next = self.binds.get(&id).and_then(|bind| self.provider_of(&bind.form, &bind.home));
            if let Some(key) = next {
                self.offer(&id, key);
            }
        }
    }

    /// The live binds of a type the engine itself serves, with their configs.
    pub(super) fn engine_binds(&self, trigger_type: &str) -> Vec<BindForm> {
        self.binds
            .values()
            .filter(|bind| bind.form.trigger_type == trigger_type)
            .filter(|bind| {
                let kind = bind.served_by.as_ref().and_then(|key| self.types.get(key));
                kind.is_some_and(|kind| kind.provider == Provider::Engine)
            })
            .map(|bind| bind.form.clone())
            .collect()
    }
}

/// A config that an absent one and `null` mean alike: an empty object.
pub(super) fn object_or_empty(config: &Value) -> Value {
    if config.is_null() { Value::Object(serde_json::Map::new()) } else { config.clone() }
}

impl TriggerType {
    /// Whether the engine itself serves it.
    pub(super) fn is_built_in(&self) -> bool {
        self.provider == Provider::Engine
    }
}
