//! The engine client: the only place that touches the socket to the engine.
//!
//! What the rest sees: a [`Client`] to call and to fire with, a [`Registry`] of what this worker offers, and a
//! [`Session`] that keeps both alive over any number of connections. It knows nothing of what the functions mean.
//!
//! Who does what: `tcp` connects, `traffic` reads and writes one socket, `connection` is what is shared about it,
//! `outbound` what waits to be written, `frame` turns text into messages and back, `dispatch` runs handlers and asks
//! providers, `calls` pairs answers with callers, `guard` repeats answers that the engine may have lost, `registry` knows
//! what must exist on the engine and `retries` what it refused, `lifecycle` ties these together from one connection to
//! the next, `offline` does without one.
//!
//! The non-obvious fact: nothing that the engine accepts is acknowledged, only refusals are. Everything here that must
//! be certain is therefore either a call with an answer or repeated under the same id until no refusal comes back.

mod backoff;
mod calls;
mod client;
mod connection;
mod deadline;
mod dispatch;
mod error;
pub mod frame;
mod guard;
mod lifecycle;
mod offline;
mod outbound;
mod registry;
mod retries;
mod session;
mod tcp;
pub mod trace;
mod traffic;

use std::future::Future;
use std::pin::Pin;

pub use backoff::Backoff;
pub use calls::Answer;
pub use client::{Client, Fire};
pub use deadline::Deadline;
pub use error::{CallError, ConnectError, ErrorBody};
pub use error::{
    FUNCTION_NOT_FOUND, INVOCATION_FAILED, INVOCATION_STOPPED, TRIGGER_REGISTRATION_FAILED,
    TRIGGER_TYPE_NOT_FOUND,
};
pub use offline::Offline;
pub use registry::{
    Bind, Binding, Function, Handler, Invocation, OnTheSpot, Provider, Registry, Reply, TriggerType, handler,
};
pub use session::{
    Connected, Counts, KeepOpen, Options, Prepare, Session, Status, Timings, connect_once, connect_once_as,
    start,
};
pub use tcp::check_address;

/// A future that can be stored and sent between threads.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
