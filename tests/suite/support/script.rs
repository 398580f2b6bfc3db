//! How a scripted peer function answers: a value, an error, late, never, once each in a row, or after running code.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;

/// What a call comes back with: the result, or the error body of the wire.
pub type Reply = Result<Value, Refusal>;

/// An error body as it crosses the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub code: String,
    pub message: String,
}

impl Refusal {
    pub fn new(code: &str, message: &str) -> Self {
        Self { code: code.to_owned(), message: message.to_owned() }
    }
}

type Running = Pin<Box<dyn Future<Output = Script> + Send>>;

/// One scripted answer.
#[derive(Clone)]
pub enum Script {
    /// Answers with this value.
    Reply(Value),
    /// Answers with this error body.
    Refuse(Refusal),
    /// Answers later.
    After(Duration, Box<Script>),
    /// Answers when the latch opens.
    When(Latch, Box<Script>),
    /// Never answers.
    Never,
    /// The first entry for the first call and so on; the last one stays.
    Sequence(VecDeque<Script>),
    /// Runs code that may call others before it says how to answer.
    Run(Arc<dyn Fn(Value) -> Running + Send + Sync>),
}

impl Script {
    /// An error answer.
    pub fn refuse(code: &str, message: &str) -> Self {
        Self::Refuse(Refusal::new(code, message))
    }

    /// Code in place of a fixed answer.
    pub fn run<F>(code: impl Fn(Value) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Self> + Send + 'static,
    {
        Self::Run(Arc::new(move |data| Box::pin(code(data))))
    }

    /// Answers in a row.
    pub fn sequence(scripts: impl IntoIterator<Item = Self>) -> Self {
        Self::Sequence(scripts.into_iter().collect())
    }

    /// The script of the next call; a sequence loses its head, unless it is the last entry.
    pub fn next(&mut self) -> Self {
        match self {
            Self::Sequence(rest) if rest.len() > 1 => rest.pop_front().map_or(Self::Never, |mut s| s.next()),
            Self::Sequence(rest) => rest.front_mut().map_or(Self::Never, Self::next),
            other => other.clone(),
        }
    }

    /// Plays the script to its answer; `None` is silence.
    pub async fn play(mut self, data: Value) -> Option<Reply> {
        loop {
            self = match self {
                Self::Reply(value) => return Some(Ok(value)),
                Self::Refuse(refusal) => return Some(Err(refusal)),
                Self::Never => return None,
                Self::After(delay, then) => {
                    tokio::time::sleep(delay).await;
                    *then
                }
                Self::When(latch, then) => {
                    latch.opened().await;
                    *then
                }
                mut sequence @ Self::Sequence(_) => sequence.next(),
                Self::Run(code) => code(data.clone()).await,
            }
        }
    }
}

/// Something a test holds back and lets go.
#[derive(Clone)]
pub struct Latch(Arc<watch::Sender<bool>>);

impl Latch {
    /// A closed latch.
    pub fn new() -> Self {
        Self(Arc::new(watch::channel(false).0))
    }

    /// Lets everything through, now and later.
    pub fn open(&self) {
        self.0.send_replace(true);
    }

    /// Waits until it is open.
    pub async fn opened(&self) {
        let mut seen = self.0.subscribe();
        // The sender lives in `self`, so the wait cannot end by a lost sender.
        let _ = seen.wait_for(|open| *open).await;
    }
}
