//! Who is connected, what they registered, and which calls are in flight.
//!
//! One value behind one lock (held by `hub`), changed by synchronous methods only: a change and the frames it
//! causes are one step, so their order on each connection is the order of the changes. It must not await. The
//! non-obvious fact: a worker may replace a built-in function, and when it leaves the function is gone for good.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc, oneshot};
use uuid::Uuid;

use super::builtin::Builtin;
use super::frame::{AnswerForm, ErrorBody, FunctionForm, Inbound, Outcome};
use super::triggers::{Bind, TriggerType};

/// Namespace and id.
pub(super) type Key = (String, String);

/// The namespace of everything that names none.
pub(super) const DEFAULT: &str = "default";

/// What goes to a connection's writer.
pub(super) enum Outgoing {
    /// A frame.
    Frame(Value),
    /// A close frame, after which the socket is dropped.
    Close,
}

/// What a worker says of itself when it announces itself.
#[derive(Debug, Clone, Default)]
pub(super) struct Profile {
    pub(super) name: Option<String>,
    pub(super) version: Option<String>,
    pub(super) runtime: Option<String>,
    pub(super) os: Option<String>,
    pub(super) pid: Option<u32>,
    pub(super) description: Option<String>,
    pub(super) isolation: Option<String>,
}

impl Profile {
    /// Takes a later announcement: what it leaves out stays.
    fn update(&mut self, later: Self) {
        let earlier = std::mem::take(self);
        *self = Self {
            name: later.name.or(earlier.name),
            version: later.version.or(earlier.version),
            runtime: later.runtime.or(earlier.runtime),
            os: later.os.or(earlier.os),
            pid: later.pid.or(earlier.pid),
            description: later.description.or(earlier.description),
            isolation: later.isolation.or(earlier.isolation),
        };
    }
}

/// One live connection.
pub(super) struct Connection {
    pub(super) token: String,
    pub(super) outbox: mpsc::Sender<Outgoing>,
    /// Woken to drop the socket.
    pub(super) cut: Arc<Notify>,
    /// Fixed by the first announcement or by the end of the grace period.
    pub(super) namespace: Option<String>,
    /// Registrations that wait for the announcement; `None` once it came.
    pub(super) held: Option<Vec<Inbound>>,
    pub(super) profile: Profile,
    pub(super) connected_at_ms: u64,
    pub(super) address: String,
    /// Calls this connection has made and not got back.
    pub(super) active: usize,
}

impl Connection {
    pub(super) fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or(DEFAULT)
    }
}

/// Who answers calls of a function.
#[derive(Clone)]
pub(super) enum Executor {
    BuiltIn(&'static Builtin),
    Worker(Uuid),
}

/// A function that can be called.
#[derive(Clone)]
pub(super) struct Function {
    pub(super) executor: Executor,
    pub(super) form: FunctionForm,
}

/// A call handed to a worker and not yet answered.
pub(super) struct PendingCall {
    pub(super) executor: Uuid,
    pub(super) reply: oneshot::Sender<Outcome>,
}

/// The whole of what is registered.
#[derive(Default)]
pub(super) struct World {
    pub(super) connections: HashMap<Uuid, Connection>,
    pub(super) functions: BTreeMap<Key, Function>,
    pub(super) types: BTreeMap<Key, TriggerType>,
    pub(super) binds: BTreeMap<String, Bind>,
    pub(super) calls: HashMap<Uuid, PendingCall>,
}

/// What became of an announcement.
pub(super) enum Announced {
    Accepted,
    Refused(ErrorBody),
    /// The connection is being closed; nobody gets an answer.
    Conflict,
}

impl World {
    /// Queues a frame. A connection whose queue is full has stopped reading; it is cut rather than waited for.
    pub(super) fn send(&self, to: Uuid, frame: Value) -> bool {
        let Some(connection) = self.connections.get(&to) else { return false };
        let sent = connection.outbox.try_send(Outgoing::Frame(frame)).is_ok();
        if !sent {
            connection.cut.notify_one();
        }
        sent
    }

    /// Takes a registration message: keeps it while the connection is unannounced, else applies it.
    pub(super) fn register(&mut self, from: Uuid, message: Inbound) {
        let Some(connection) = self.connections.get_mut(&from) else { return };
        match &mut connection.held {
            Some(held) => held.push(message),
            None => self.apply(from, message),
        }
    }

    fn apply(&mut self, from: Uuid, message: Inbound) {
        match message {
            Inbound::RegisterFunction(form) => self.register_function(from, form),
            Inbound::UnregisterFunction { id } => self.unregister_function(from, id),
            Inbound::RegisterTriggerType(form) => self.register_type(from, form),
            Inbound::RegisterTrigger(form) => self.register_bind(from, &form),
            Inbound::UnregisterTrigger { id } => drop(self.unbind(&id)),
            _ => {}
        }
    }

    /// Fixes the namespace if it is still open and applies what was held back.
    pub(super) fn release(&mut self, id: Uuid, namespace: Option<&str>) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.namespace.is_none() {
            connection.namespace = Some(namespace.unwrap_or(DEFAULT).to_owned());
        }
        for message in connection.held.take().unwrap_or_default() {
            self.apply(id, message);
        }
    }

    /// Takes an announcement.
    pub(super) fn announce(&mut self, id: Uuid, profile: Profile, namespace: Option<&str>) -> Announced {
        if let Some(blank) = namespace.filter(|name| name.trim().is_empty()) {
            let name = profile.name.as_deref().unwrap_or_default();
            let message = format!(
                "namespace is empty: worker '{name}' declared \"{blank}\". Give it a name, or omit the field to register in 'default'."
            );
            return Announced::Refused(ErrorBody::new("INVALID_NAMESPACE", message));
        }
        let Some(connection) = self.connections.get(&id) else { return Announced::Conflict };
        let target = connection.namespace.as_deref().or(namespace).unwrap_or(DEFAULT).to_owned();
        if let Some(owner) = self.name_owner(id, &target, profile.name.as_deref()) {
            let frame = json!({ "type": "registrationrejected", "code": "WORKER_NAMESPACE_CONFLICT",
                "namespace": target, "worker_name": profile.name, "owner_worker_id": owner.to_string() });
            self.send(id, frame);
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.held = Some(Vec::new());
                let _ = connection.outbox.try_send(Outgoing::Close);
            }
            return Announced::Conflict;
        }
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.profile.update(profile);
        }
        self.release(id, namespace);
        Announced::Accepted
    }

    fn name_owner(&self, newcomer: Uuid, namespace: &str, name: Option<&str>) -> Option<Uuid> {
        let name = name?;
        self.connections
            .iter()
            .find(|(id, connection)| {
                **id != newcomer
                    && connection.namespace.as_deref() == Some(namespace)
                    && connection.profile.name.as_deref() == Some(name)
            })
            .map(|(id, _)| *id)
    }

    fn register_function(&mut self, from: Uuid, form: FunctionForm) {
        let Some(connection) = self.connections.get(&from) else { return };
        let key = (connection.namespace().to_owned(), form.id.clone());
        let owner = match self.functions.get(&key).map(|function| &function.executor) {
            Some(Executor::Worker(owner)) if *owner != from => Some(owner.to_string()),
            _ if key.0 != DEFAULT && key.1.starts_with("engine::") => Some(String::new()),
            _ => None,
        };
        if let Some(owner) = owner {
            let frame = json!({ "type": "registrationrejected", "code": "FUNCTION_NAMESPACE_CONFLICT",
                "namespace": key.0, "function_id": key.1, "owner_worker_id": owner });
            self.send(from, frame);
            return;
        }
        self.functions.insert(key, Function { executor: Executor::Worker(from), form });
    }

    fn unregister_function(&mut self, from: Uuid, id: String) {
        let Some(connection) = self.connections.get(&from) else { return };
        let key = (connection.namespace().to_owned(), id);
        if matches!(self.functions.get(&key), Some(Function { executor: Executor::Worker(owner), .. }) if *owner == from)
        {
            self.functions.remove(&key);
        }
    }

    /// Finds the function a call means, or the error that says where else it is.
    pub(super) fn find(&self, namespace: Option<&str>, id: &str) -> Result<&Function, ErrorBody> {
        if namespace.is_some_and(|name| name.trim().is_empty()) {
            return Err(ErrorBody::blank_namespace("namespace"));
        }
        let namespace = namespace.unwrap_or(DEFAULT);
        self.functions.get(&(namespace.to_owned(), id.to_owned())).ok_or_else(|| {
            let others: Vec<&str> =
                self.functions.keys().filter(|key| key.1 == id).map(|key| key.0.as_str()).collect();
            let hint = if others.is_empty() {
                String::new()
            } else {
                format!(" It is registered in namespace(s): {}.", others.join(", "))
            };
            ErrorBody::new(
                "function_not_found",
                format!("Function {id} not found in namespace {namespace}.{hint}"),
            )
        })
    }

    /// Takes an answer. It is matched by its invocation id alone; one that matches nothing is ignored.
    pub(super) fn settle(&mut self, answer: AnswerForm) {
        if let Some(call) = self.calls.remove(&answer.invocation_id) {
            let _ = call.reply.send(answer.error.map_or(Ok(answer.result), Err));
        }
    }

    /// Evicts the previous connection of a worker that proves it by token. Anything else is ignored.
    pub(super) fn reattach(&mut self, id: Uuid, previous: &str, token: Option<&str>) -> Option<Uuid> {
        let previous = Uuid::parse_str(previous).ok().filter(|previous| *previous != id)?;
        let old = self.connections.get(&previous).filter(|old| Some(old.token.as_str()) == token)?;
        old.cut.notify_one();
        self.disconnect(previous).then_some(previous)
    }

    /// Forgets a connection and everything that hung on it. Says whether there was anything to forget.
    pub(super) fn disconnect(&mut self, id: Uuid) -> bool {
        if self.connections.remove(&id).is_none() {
            return false;
        }
        self.functions
            .retain(|_, function| !matches!(function.executor, Executor::Worker(owner) if owner == id));
        self.drop_binds_of(id);
        self.drop_types_of(id);
        let stopped: Vec<Uuid> =
            self.calls.iter().filter(|(_, call)| call.executor == id).map(|(call_id, _)| *call_id).collect();
        for call in stopped.into_iter().filter_map(|call_id| self.calls.remove(&call_id)) {
            let _ = call.reply.send(Err(ErrorBody::new("invocation_stopped", "Invocation stopped")));
        }
        true
    }

    /// The name a connection goes by; empty before it announced one.
    pub(super) fn name_of(&self, id: Uuid) -> &str {
        self.connections
            .get(&id)
            .and_then(|connection| connection.profile.name.as_deref())
            .unwrap_or_default()
    }
}
