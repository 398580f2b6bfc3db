//! Typed questions to the workers around us, each with a deadline of its own.
//!
//! One file per peer. They know what to ask and how to read the answer; they remember nothing about holds and
//! decide nothing. What a failure means (deny, continue, keep the record) is the caller's to say.

pub mod configuration;
pub mod harness;
pub mod session_manager;
pub mod shell;
pub mod state;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::Value;

use crate::clock::{self, Deadline};
use crate::iii::{Answer, CallError, Client, Fire};

/// A boxed future, so that the seam below is object-safe.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What is outside, as the rest of the worker sees it: the engine, and the time. It has a second implementation in
/// tests: a simulated engine that delays, drops, reorders and fails, in virtual time.
pub trait Engine: Send + Sync + 'static {
    /// Calls a function and waits for its answer, at most until `deadline`.
    fn call<'a>(
        &'a self,
        function_id: &'a str,
        data: &'a Value,
        deadline: Deadline,
    ) -> BoxFuture<'a, Result<Answer, CallError>>;

    /// As [`Engine::call`], of the function that somebody has bound. A stand-in without bindings of its own calls it plainly.
    fn ask<'a>(
        &'a self,
        question: &'a Fire<'a>,
        deadline: Deadline,
    ) -> BoxFuture<'a, Result<Answer, CallError>> {
        Box::pin(async move {
            let data: Value = serde_json::from_str(question.data.get()).unwrap_or_default();
            self.call(question.function_id, &data, deadline).await
        })
    }

    /// Fires and forgets, in the order of the calls.
    fn fire(&self, event: &Fire<'_>) -> Result<(), CallError>;

    /// Which connection this is; it changes with every reconnect.
    fn connection(&self) -> u64;

    /// The time that records carry, in milliseconds since the Unix epoch.
    fn now_ms(&self) -> i64 {
        clock::now_ms()
    }
}

impl Engine for Client {
    fn call<'a>(
        &'a self,
        function_id: &'a str,
        data: &'a Value,
        deadline: Deadline,
    ) -> BoxFuture<'a, Result<Answer, CallError>> {
        Box::pin(Client::call(self, function_id, data, deadline))
    }

    fn ask<'a>(
        &'a self,
        question: &'a Fire<'a>,
        deadline: Deadline,
    ) -> BoxFuture<'a, Result<Answer, CallError>> {
        Box::pin(Client::ask(self, question, deadline))
    }

    fn fire(&self, event: &Fire<'_>) -> Result<(), CallError> {
        Client::fire(self, event)
    }

    fn connection(&self) -> u64 {
        Client::connection(self)
    }
}

/// A shared engine.
pub type SharedEngine = Arc<dyn Engine>;
