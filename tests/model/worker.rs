//! One life of the worker: its core over the simulated engine, brought up on each connection as `boot` does it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;

use approval_gate::boot;
use approval_gate::handlers::{Context, catalogue};
use approval_gate::iii::{Bind, CallError, Handler};
use approval_gate::siblings::SharedEngine;
use approval_gate::wire::schema::AUDIT;

use crate::engine::SimulatedEngine;
use crate::link::Link;
use crate::world::World;

/// As often as `boot` tries to read the configuration on one connection.
const CONFIGURE_TRIES: u32 = 4;

pub struct Worker {
    pub context: Arc<Context>,
    pub engine: Arc<SimulatedEngine>,
    handlers: BTreeMap<String, Handler>,
    /// The connection on which its functions are registered.
    ready: AtomicU64,
}

impl Worker {
    pub fn start(world: &Arc<World>) -> Arc<Self> {
        let engine = SimulatedEngine::new(world);
        let context = Context::new(&(Arc::clone(&engine) as SharedEngine));
        let handlers =
            catalogue(&context).into_iter().map(|function| (function.id, function.handler)).collect();
        Arc::new(Self { context, engine, handlers, ready: AtomicU64::new(0) })
    }

    pub fn is_dead(&self) -> bool {
        self.engine.is_dead()
    }

    pub fn handler(&self, function: &str) -> Handler {
        Arc::clone(&self.handlers[function])
    }

    pub fn ready_link(&self) -> Option<Arc<Link>> {
        let link = self.engine.link().filter(|_| !self.is_dead())?;
        (self.ready.load(Ordering::Acquire) == link.number).then_some(link)
    }

    /// Connects, unless it is connected.
    pub fn connect(self: &Arc<Self>) {
        if self.engine.link().is_none() {
            let link = self.engine.world.new_link();
            self.engine.attach(Arc::clone(&link));
            let worker = Arc::clone(self);
            tokio::spawn(async move {
                tokio::select! {
                    biased;
                    () = link.gone() => {}
                    () = worker.bring_up(&link) => {}
                }
            });
        }
    }

    async fn bring_up(&self, link: &Link) {
        let context = &self.context;
        if !self.configure().await {
            return;
        }
        for (provider, function) in [
            (context.events.created_provider(), "listener::created"),
            (context.events.resolved_provider(), "listener::resolved"),
            (context.events.added_provider(AUDIT).unwrap(), "listener::audit"),
        ] {
            provider.reset();
            let bind = Bind {
                id: function.to_owned(),
                function_id: function.to_owned(),
                config: Value::Null,
                metadata: None,
                namespace: None,
            };
            provider.bind(bind).unwrap();
        }
        self.ready.store(link.number, Ordering::Release);
        self.engine.world.inner().history.note(|| format!("ready on connection {}", link.number));
        context.events.listeners_known();
        let again = Arc::clone(context);
        context.background.spawn(async move { boot::after_connect(&again).await });
    }

    /// Whether functions may be registered.
    async fn configure(&self) -> bool {
        self.context.config.lock_down();
        for attempt in 0..CONFIGURE_TRIES {
            if attempt > 0 {
                tokio::time::sleep(Duration::from_millis(250 << attempt)).await;
            }
            match self.context.config.refetch().await {
                Ok(()) => return true,
                Err(CallError::NotConnected | CallError::ConnectionLost { .. }) => return false,
                Err(_) => {}
            }
        }
        let context = Arc::clone(&self.context);
        self.context.background.spawn(async move { context.config.refetch_or_later().await });
        true
    }
}
