//! The way of a frame through the client with no socket at either end: for measuring what a call costs this process.
//!
//! Everything between the two sockets is the real thing, the guard of answers included. Nothing is ever connected, so
//! calls that a handler makes fail.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;

use super::connection::Link;
use super::dispatch::{Dispatch, Refusal};
use super::guard::Guard;
use super::registry::{Catalogue, Registry};

/// Handlers that may be waiting at once.
const MAX_RUNNING: usize = 1024;

/// A worker's inside.
pub struct Offline {
    dispatch: Arc<Dispatch>,
    link: Arc<Link>,
    refusals: mpsc::Sender<Refusal>,
}

impl Offline {
    /// This registry's inside, and the work of its guard, for someone to run.
    pub fn new(
        registry: Registry,
        repeat_answer: Duration,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (guard, work) = Guard::new(repeat_answer);
        let dispatch = Arc::new(Dispatch::new(Catalogue::new(registry), guard, MAX_RUNNING));
        let (refusals, _) = mpsc::channel(1);
        (Self { dispatch, link: Arc::new(Link::new(1)), refusals }, work)
    }

    /// Takes one frame in. Answers that need no waiting are queued when this returns.
    pub fn receive(&self, frame: &str) {
        self.dispatch.receive(&self.link, frame, Instant::now(), &self.refusals);
    }

    /// What would have been written by now.
    pub fn written(&self) -> Vec<Message> {
        let written = self.link.outbound.take().now_or_never().flatten().unwrap_or_default();
        self.link.outbound.written(written.iter().map(Message::len).sum());
        written
    }
}
