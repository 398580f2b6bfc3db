//! Who is told and who is asked: the trigger types, their bindings, and the sending of events (contract §7).
//!
//! Sending is fire-and-forget: an event is put into the connection's outbound queue in the order of the calls, so
//! that each listener's created event is on the wire before its resolved event, and a slow listener delays nobody.
//! The payload is serialised once, whatever the number of listeners.

mod answerers;
mod listeners;
mod prompts;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;
use serde_json::Map;
use serde_json::Value;
use serde_json::value::to_raw_value;

pub use answerers::{Answerer, Answerers};
use listeners::Listener;
pub use listeners::Listeners;

use crate::iii::{CallError, Fire, Provider};
use crate::siblings::SharedEngine;
use crate::wire::audit::AuditEntry;
use crate::wire::events::{PendingCreatedEvent, PendingResolvedEvent};
use crate::wire::record::PendingApprovalRecord;
use crate::wire::schema::{ANSWERER, AUDIT, PROMPT_POLICY_CHANGED};

/// The events. Cheap to clone.
#[derive(Clone)]
pub struct Events {
    engine: SharedEngine,
    created: Arc<Listeners>,
    resolved: Arc<Listeners>,
    prompts: Arc<Listeners>,
    answerers: Arc<Answerers>,
    audit: Arc<Listeners>,
    /// The connection on which all listeners have been told to us. On a new one they come one by one.
    known_on: Arc<AtomicU64>,
}

impl Events {
    /// Without listeners yet.
    pub fn new(engine: SharedEngine) -> Self {
        Self {
            engine,
            created: Arc::default(),
            resolved: Arc::default(),
            prompts: Arc::new(Listeners::by_session_only()),
            answerers: Arc::default(),
            audit: Arc::default(),
            known_on: Arc::default(),
        }
    }

    /// All listeners of this connection are known now: the engine hands them over before it answers our announcement.
    pub fn listeners_known(&self) {
        self.known_on.store(self.engine.connection(), Ordering::Release);
    }

    /// Whether nobody listens to new holds of this session. Until all listeners are known nobody can say so.
    pub fn nobody_hears(&self, record: &PendingApprovalRecord) -> bool {
        self.are_known()
            && self.created.matching(&record.session_id, record.session_metadata.as_ref()).is_empty()
    }

    fn are_known(&self) -> bool {
        self.known_on.load(Ordering::Acquire) == self.engine.connection()
    }

    /// Waits until somebody listens to resolved events, and to the audit if somebody did before, at most for `patience`.
    /// After an engine's restart listeners may come back later than we do, and what an earlier run left to be told would be
    /// told to nobody.
    pub async fn listener_or(&self, patience: Duration) {
        let back = async { tokio::join!(self.resolved.some(), self.audit.back()) };
        let _ = tokio::time::timeout(patience, back).await;
    }

    /// The provider of `approval::pending-created`.
    pub fn created_provider(&self) -> Arc<dyn Provider> {
        Arc::clone(&self.created) as Arc<dyn Provider>
    }

    /// The provider of `approval::pending-resolved`.
    pub fn resolved_provider(&self) -> Arc<dyn Provider> {
        Arc::clone(&self.resolved) as Arc<dyn Provider>
    }

    /// The provider of a trigger type that the published worker does not have.
    pub fn added_provider(&self, trigger_type: &str) -> Option<Arc<dyn Provider>> {
        match trigger_type {
            PROMPT_POLICY_CHANGED => Some(Arc::clone(&self.prompts) as Arc<dyn Provider>),
            ANSWERER => Some(Arc::clone(&self.answerers) as Arc<dyn Provider>),
            AUDIT => Some(Arc::clone(&self.audit) as Arc<dyn Provider>),
            _ => None,
        }
    }

    /// Who is asked before a person is.
    pub fn answerers(&self) -> &Answerers {
        &self.answerers
    }

    /// The time that events carry, in milliseconds since the Unix epoch.
    pub fn now_ms(&self) -> i64 {
        self.engine.now_ms()
    }

    /// Which connection events go out on at this moment.
    pub fn connection(&self) -> u64 {
        self.engine.connection()
    }

    /// A call is held.
    pub fn created(&self, record: &PendingApprovalRecord) {
        let payload = PendingCreatedEvent::new(record.clone());
        let _ = self.send(&self.created, &record.session_id, record.session_metadata.as_ref(), &payload);
    }

    /// A hold has left the inbox. Says on which connection that was told; `None` when there was none, or its listeners
    /// are not known yet, and it has to be told again. A connection that is lost afterwards may have swallowed it.
    pub fn resolved(&self, event: &PendingResolvedEvent) -> Option<u64> {
        let connection = self.engine.connection();
        let told = self.send(&self.resolved, &event.session_id, event.session_metadata.as_ref(), event);
        told.then_some(connection)
    }

    /// An entry of the audit. Says whether it was told, as [`Events::resolved`] does.
    pub fn audited(&self, entry: &AuditEntry) -> bool {
        self.send(&self.audit, &entry.session_id, entry.session_metadata.as_ref(), entry)
    }

    /// False if the connection or its listeners were missing; any other failure would be one again.
    fn send(
        &self,
        listeners: &Listeners,
        session_id: &str,
        metadata: Option<&Map<String, Value>>,
        payload: &impl Serialize,
    ) -> bool {
        self.send_to(listeners.matching(session_id, metadata), payload)
    }

    fn send_to(&self, matching: Vec<Arc<Listener>>, payload: &impl Serialize) -> bool {
        let known = self.are_known();
        if matching.is_empty() {
            return known;
        }
        let data = match to_raw_value(payload) {
            Ok(data) => data,
            Err(error) => {
                tracing::error!(%error, "an event could not be written");
                return true;
            }
        };
        let mut told = known;
        for listener in matching {
            let fire = Fire {
                function_id: &listener.function_id,
                data: &data,
                metadata: listener.metadata.as_deref(),
                namespace: listener.namespace.as_deref(),
            };
            if let Err(error) = self.engine.fire(&fire) {
                told &= !matches!(
                    error,
                    CallError::NotConnected | CallError::ConnectionLost { .. } | CallError::Crowded { .. }
                );
                tracing::warn!(function_id = listener.function_id, %error, "an event could not be sent");
            }
        }
        told
    }
}
