//! Everything outside the worker, behind one lock that is never held over an await.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::faults::Faults;
use crate::harness::Harness;
use crate::history::History;
use crate::link::Link;
use crate::script::SESSIONS;
use crate::store::Store;
use crate::worker::Worker;

/// When every script begins.
const EPOCH_MS: i64 = 1_800_000_000_000;

pub struct World {
    inner: Mutex<Inner>,
    /// Requests to the state worker take their turn here, in the order in which they came.
    pub state_turn: tokio::sync::Mutex<()>,
    /// The harness does one thing at a time in a session.
    pub session_turns: [Arc<tokio::sync::Mutex<()>>; SESSIONS],
}

pub struct Inner {
    pub faults: Faults,
    pub store: Store,
    pub configuration: Value,
    pub harness: Harness,
    pub history: History,
    pub worker: Option<Arc<Worker>>,
    began: Instant,
    links: u64,
    generations: u64,
}

impl World {
    pub fn new(dice: u64) -> Arc<Self> {
        let inner = Inner {
            faults: Faults::new(dice),
            store: Store::default(),
            configuration: approval_gate::policy::Policy::shipped_value(),
            harness: Harness::default(),
            history: History::default(),
            worker: None,
            began: Instant::now(),
            links: 0,
            generations: 0,
        };
        Arc::new(Self {
            inner: Mutex::new(inner),
            state_turn: tokio::sync::Mutex::default(),
            session_turns: Default::default(),
        })
    }

    pub fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Virtual time, as what records carry.
    pub fn now_ms(&self) -> i64 {
        let since = self.inner().began.elapsed().as_millis();
        EPOCH_MS + i64::try_from(since).unwrap()
    }

    pub fn roll(&self, purpose: &str, below: u64) -> u64 {
        self.inner().faults.roll(purpose, below)
    }

    pub async fn pause(&self, purpose: &str, below_ms: u64) {
        let pause = self.inner().faults.ms(purpose, below_ms);
        tokio::time::sleep(pause).await;
    }

    pub fn new_link(&self) -> Arc<Link> {
        let mut inner = self.inner();
        inner.links += 1;
        Link::new(inner.links)
    }

    pub fn new_generation(&self) -> u64 {
        let mut inner = self.inner();
        inner.generations += 1;
        inner.generations
    }

    /// The worker that takes calls at this moment, and over which connection.
    pub fn serving(&self) -> Option<(Arc<Worker>, Arc<Link>)> {
        let worker = self.inner().worker.clone()?;
        let link = worker.ready_link()?;
        Some((worker, link))
    }

    /// The worker is started, or connects, if it is down.
    pub fn revive(self: &Arc<Self>) {
        let worker = self.inner().worker.clone().filter(|worker| !worker.is_dead());
        let worker = worker.unwrap_or_else(|| {
            let worker = Worker::start(self);
            self.inner().worker = Some(Arc::clone(&worker));
            worker
        });
        worker.connect();
    }

    pub fn revive_after(self: &Arc<Self>, ms: u64) {
        let world = Arc::clone(self);
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            world.revive();
        });
    }
}
