//! Starting, watching and stopping the worker's life on the engine.
//!
//! The session owns the task that connects, announces and reconnects (`lifecycle`); the client that is handed out is
//! only a handle to whatever connection that task has at the moment.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::BoxFuture;
use super::backoff::Backoff;
use super::client::Client;
use super::dispatch::{Dispatch, Running};
use super::error::ConnectError;
use super::guard::Guard;
use super::lifecycle::Lifecycle;
use super::registry::{Catalogue, Registry};
use super::tcp;

/// Where to connect, and as what.
#[derive(Debug, Clone)]
pub struct Options {
    /// The engine's address, `ws://host:port`.
    pub url: String,
    /// The name that the engine leases to one connection at a time; empty for a connection that announces nothing.
    pub worker_name: String,
    /// Shown by listings.
    pub worker_version: String,
    /// Shown by listings, one line.
    pub worker_description: String,
    /// How long to wait for what.
    pub timings: Timings,
}

impl Options {
    /// A worker of this name and version with the default timings.
    pub fn new(
        url: impl Into<String>,
        name: impl Into<String>,
        version: impl Into<String>,
        description: impl Into<String>,
    ) -> Self {
        Self {
            url: url.into(),
            worker_name: name.into(),
            worker_version: version.into(),
            worker_description: description.into(),
            timings: Timings::default(),
        }
    }
}

/// The waits and bounds of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timings {
    /// For TCP and upgrade together.
    pub connect: Duration,
    /// For the engine's answer to the worker's announcement; it may hold registrations back for 5 s.
    pub announce: Duration,
    /// Between pings.
    pub ping: Duration,
    /// Without any frame the connection is taken for dead.
    pub idle: Duration,
    /// Between attempts to connect.
    pub reconnect: Backoff,
    /// Between attempts to register a function that another connection owns.
    pub function_conflict: Backoff,
    /// Until a binding is sent again whose trigger type does not exist.
    pub missing_type: Duration,
    /// Until a binding is sent again that was refused for another reason.
    pub refused_binding: Duration,
    /// Until an answer given within 100 ms is repeated, at most; half of it at least. Zero for never.
    pub repeat_answer: Duration,
    /// Handlers that may be waiting for something at once; further calls are refused.
    pub max_running: usize,
}

impl Default for Timings {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            announce: Duration::from_secs(10),
            ping: Duration::from_secs(20),
            idle: Duration::from_mins(1),
            reconnect: Backoff { base: Duration::from_millis(200), cap: Duration::from_secs(1) },
            function_conflict: Backoff { base: Duration::from_millis(500), cap: Duration::from_secs(5) },
            missing_type: Duration::from_secs(3),
            refused_binding: Duration::from_secs(30),
            repeat_answer: Duration::from_millis(200),
            max_running: 4096,
        }
    }
}

/// What is done on each connection before anything is registered on it, such as reading the configuration again. An
/// error drops the connection; it is tried again with backoff, and the text is visible in [`Status`].
pub type Prepare = Arc<dyn Fn(Client, Connected) -> BoxFuture<Result<(), String>> + Send + Sync>;

/// The connection that is being prepared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connected {
    /// No preparation has succeeded before.
    pub first: bool,
    /// Another live connection had our name at the last try, so that this one may come to nothing.
    pub standing_by: bool,
    /// Number of the connection, as [`Client::connection`].
    pub connection: u64,
}

/// Where the session stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// Trying to reach the engine.
    Connecting {
        /// Attempts since the worker was last ready.
        attempts: u32,
        /// Why the last one failed, or why the connection was lost.
        last_error: Option<String>,
    },
    /// Connected; preparing and registering.
    Preparing,
    /// Another live connection has our name. We keep asking, and take over once it is gone.
    Standby {
        /// The connection that has it.
        owner_worker_id: String,
    },
    /// Everything is registered and calls are served.
    Ready {
        /// Number of the connection.
        connection: u64,
    },
    /// The end; nothing follows.
    Stopped,
}

/// What is going on inside, for tests that look for leaks and for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Calls of ours waiting for an answer.
    pub pending_calls: usize,
    /// Handlers running as tasks of their own.
    pub running_handlers: usize,
    /// Answers that were repeated because they came very fast.
    pub repeated_answers: u64,
    /// Answers that should have been repeated and were not, for lack of room.
    pub unrepeated_answers: u64,
}

/// The worker's life on the engine. Dropping it ends that life at once; [`Session::shutdown`] ends it with grace.
#[must_use = "dropping the session disconnects"]
pub struct Session {
    client: Client,
    dispatch: Arc<Dispatch>,
    status: watch::Receiver<Status>,
    stop: watch::Sender<Option<Duration>>,
    /// The lifecycle and the answer guard. Aborted with the session.
    tasks: JoinSet<()>,
}

impl Session {
    /// Follows where the session stands.
    pub fn status(&self) -> watch::Receiver<Status> {
        self.status.clone()
    }

    /// A look inside.
    pub fn counts(&self) -> Counts {
        Counts {
            pending_calls: self.client.pending_calls(),
            running_handlers: self.dispatch.running(),
            repeated_answers: self.dispatch.guard.repeated(),
            unrepeated_answers: self.dispatch.guard.skipped(),
        }
    }

    /// While this is held, a shutdown waits with disconnecting, at most for its grace: for work that goes on after its
    /// caller was answered.
    pub fn keep_open(&self) -> KeepOpen {
        KeepOpen { _running: Running::new(Arc::clone(&self.dispatch)) }
    }

    /// Withdraws the functions, refuses new calls, waits at most `grace` for running handlers, and disconnects. Works in
    /// every state; afterwards the status is [`Status::Stopped`].
    pub async fn shutdown(mut self, grace: Duration) {
        self.stop.send_replace(Some(grace));
        let _ = self.status.wait_for(|status| *status == Status::Stopped).await;
        self.tasks.shutdown().await;
    }
}

/// See [`Session::keep_open`].
pub struct KeepOpen {
    _running: Running,
}

impl Drop for Session {
    fn drop(&mut self) {
        // The tasks in `tasks` go with the set; what handlers started belongs to the dispatch.
        self.dispatch.stop();
        drop(self.dispatch.take_tasks());
        self.client.detach();
    }
}

/// Starts a session and returns at once. `registry` is given the client, so that handlers can hold it. Must be called
/// within a tokio runtime.
pub fn start(
    options: Options,
    registry: impl FnOnce(Client) -> Registry,
    prepare: Prepare,
) -> (Client, Session) {
    let client = Client::new();
    let registry = registry(client.clone());
    let (lifecycle, session) = assemble(options, client.clone(), registry, prepare);
    (client, spawn(session, lifecycle.run()))
}

/// A connection that offers nothing and is not repaired when it breaks: for a command that asks and ends.
pub async fn connect_once(url: &str, timeout: Duration) -> Result<(Client, Session), ConnectError> {
    let mut options = Options::new(url, "", "", "");
    options.timings.connect = timeout;
    connect_once_as(options).await
}

/// As [`connect_once`], under a name that listings show.
pub async fn connect_once_as(options: Options) -> Result<(Client, Session), ConnectError> {
    let socket = tcp::connect(&options.url, options.timings.connect).await?;
    let client = Client::new();
    let prepare: Prepare = Arc::new(|_, _| Box::pin(std::future::ready(Ok(()))));
    let (lifecycle, session) = assemble(options, client.clone(), Registry::default(), prepare);
    let session = spawn(session, lifecycle.run_once(socket));
    let mut status = session.status();
    // Neither state is awaited for long: nothing has to be prepared, and announcing has a deadline.
    let _ = status.wait_for(|status| matches!(status, Status::Ready { .. } | Status::Stopped)).await;
    Ok((client, session))
}

fn assemble(options: Options, client: Client, registry: Registry, prepare: Prepare) -> (Lifecycle, Session) {
    let (guard, repetitions) = Guard::new(options.timings.repeat_answer);
    let dispatch = Arc::new(Dispatch::new(Catalogue::new(registry), guard, options.timings.max_running));
    let (stop, stopped) = watch::channel(None);
    let (status_sender, status) = watch::channel(Status::Connecting { attempts: 0, last_error: None });
    let lifecycle =
        Lifecycle::new(options, client.clone(), Arc::clone(&dispatch), prepare, stopped, status_sender);
    let mut tasks = JoinSet::new();
    tasks.spawn(repetitions);
    (lifecycle, Session { client, dispatch, status, stop, tasks })
}

fn spawn(mut session: Session, life: impl Future<Output = ()> + Send + 'static) -> Session {
    session.tasks.spawn(life);
    session
}
