//! One connection between worker and engine: frames arrive in the order in which they were sent, or not at all.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use approval_gate::iii::ErrorBody;

/// What a caller gets.
pub type Reply = Result<Value, ErrorBody>;

const FRAME: Duration = Duration::from_millis(1);

pub struct Link {
    pub number: u64,
    up: watch::Sender<bool>,
    inner: Mutex<Inner>,
}

struct Inner {
    next_out: Instant,
    next_in: Instant,
    cut: Option<Instant>,
    calls: u64,
    waiting: BTreeMap<u64, oneshot::Sender<Reply>>,
}

impl Link {
    pub fn new(number: u64) -> Arc<Self> {
        let now = Instant::now();
        let inner = Inner { next_out: now, next_in: now, cut: None, calls: 0, waiting: BTreeMap::new() };
        Arc::new(Self { number, up: watch::Sender::new(true), inner: Mutex::new(inner) })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_up(&self) -> bool {
        *self.up.borrow()
    }

    /// Resolves once the connection is gone.
    pub async fn gone(&self) {
        let mut up = self.up.subscribe();
        let _ = up.wait_for(|up| !up).await;
    }

    /// Frames under way are lost; everybody who waits for an answer is told.
    pub fn cut(&self) {
        let mut inner = self.inner();
        inner.cut = Some(Instant::now());
        inner.waiting.clear();
        drop(inner);
        self.up.send_replace(false);
    }

    /// When the next frame of the worker reaches the engine: after all that were sent before it.
    pub fn sends(&self, transit: Duration) -> Instant {
        let mut inner = self.inner();
        inner.next_out = (inner.next_out + FRAME).max(Instant::now() + transit);
        inner.next_out
    }

    /// The same for a frame of the engine to the worker.
    pub fn receives(&self, transit: Duration) -> Instant {
        let mut inner = self.inner();
        inner.next_in = (inner.next_in + FRAME).max(Instant::now() + transit);
        inner.next_in
    }

    /// Whether a frame that should arrive now was lost on the way.
    pub fn lost(&self) -> bool {
        self.inner().cut.is_some()
    }

    pub fn wait_for_answer(&self) -> (u64, oneshot::Receiver<Reply>) {
        let (answer, answered) = oneshot::channel();
        let mut inner = self.inner();
        inner.calls += 1;
        let call = inner.calls;
        inner.waiting.insert(call, answer);
        (call, answered)
    }

    /// Says whether somebody still waited.
    pub fn answer(&self, call: u64, reply: Reply) -> bool {
        let waiting = self.inner().waiting.remove(&call);
        waiting.is_some_and(|answer| answer.send(reply).is_ok())
    }
}
