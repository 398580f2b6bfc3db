//! From one connection to the next: connect, re-attach, prepare, announce, serve, back off.
//!
//! Retiring the previous connection comes first on a new one, because the engine does not notice a dead peer and would
//! hold name and functions for it. Preparation comes before anything is registered, so that no call is ever answered by
//! a worker that does not know its configuration (contract §9). The worker is ready only when its announcement was
//! answered, which happens after the engine has applied all that was sent before it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::backoff;
use super::client::Client;
use super::connection::{self, Ending, Identity, Link};
use super::deadline::Deadline;
use super::dispatch::{Dispatch, Refusal};
use super::error::TRIGGER_TYPE_NOT_FOUND;
use super::frame::Plain;
use super::retries::{Registration, Retries};
use super::session::{Connected, Options, Prepare, Status};
use super::tcp::{self, WebSocket};
use super::traffic;

/// How long the last frames may take to leave.
const FAREWELL: Duration = Duration::from_secs(1);
/// Refusals that may wait for the session; there are never more than registrations in flight.
const MAX_REFUSALS: usize = 1024;

/// The state that outlives connections. Owned by the session's task.
pub(super) struct Lifecycle {
    options: Options,
    client: Client,
    dispatch: Arc<Dispatch>,
    prepare: Prepare,
    stop: watch::Receiver<Option<Duration>>,
    status: watch::Sender<Status>,
    /// Who we were on the last connection.
    previous: Option<Identity>,
    prepared: bool,
    /// Attempts since the worker was last ready.
    attempts: u32,
    /// While another connection has our name, attempts do not show in the status.
    standing_by: bool,
}

/// How a connection ended for the lifecycle.
enum End {
    Connection(Ending),
    Stopped,
}

impl Lifecycle {
    pub(super) fn new(
        options: Options,
        client: Client,
        dispatch: Arc<Dispatch>,
        prepare: Prepare,
        stop: watch::Receiver<Option<Duration>>,
        status: watch::Sender<Status>,
    ) -> Self {
        Self {
            options,
            client,
            dispatch,
            prepare,
            stop,
            status,
            previous: None,
            prepared: false,
            attempts: 0,
            standing_by: false,
        }
    }

    /// Lives until stopped.
    pub(super) async fn run(mut self) {
        loop {
            let mut stop = self.stop.clone();
            let connected = tokio::select! {
                biased;
                _ = stopped(&mut stop) => break,
                connected = tcp::connect(&self.options.url, self.options.timings.connect) => connected,
            };
            let end = match connected {
                Ok(socket) => self.serve(socket).await,
                Err(error) => End::Connection(Ending::Lost(error.to_string())),
            };
            let End::Connection(ending) = end else { break };
            self.note(ending);
            let delay = self.options.timings.reconnect.delay(self.attempts, backoff::random());
            self.attempts = self.attempts.saturating_add(1);
            tokio::select! {
                biased;
                _ = stopped(&mut stop) => break,
                () = tokio::time::sleep(delay) => {}
            }
        }
        self.end().await;
    }

    /// Lives as long as this one socket.
    pub(super) async fn run_once(mut self, socket: WebSocket) {
        self.serve(socket).await;
        self.end().await;
    }

    async fn end(self) {
        self.dispatch.stop();
        self.dispatch.abort().await;
        self.status.send_replace(Status::Stopped);
    }

    /// Shows how a connection, or an attempt at one, ended.
    fn note(&mut self, ending: Ending) {
        match ending {
            Ending::NameTaken { owner_worker_id } => {
                if !self.standing_by {
                    tracing::warn!(owner_worker_id, "standing by: another connection has our worker name");
                }
                self.standing_by = true;
                self.status.send_replace(Status::Standby { owner_worker_id });
            }
            Ending::Lost(reason) => {
                let repeats = matches!(&*self.status.borrow(),
                    Status::Connecting { last_error: Some(last), .. } if *last == reason);
                if repeats {
                    tracing::debug!(attempts = self.attempts, reason, "still not connected to the engine");
                } else {
                    tracing::warn!(
                        attempts = self.attempts,
                        reason,
                        "not connected to the engine, will try again"
                    );
                }
                self.standing_by = false;
                let (attempts, last_error) = (self.attempts.saturating_add(1), Some(reason));
                self.status.send_replace(Status::Connecting { attempts, last_error });
            }
        }
    }

    /// One connection from its first frame to its last.
    async fn serve(&mut self, socket: WebSocket) -> End {
        let link = Arc::new(Link::new(self.client.connection() + 1));
        self.retire_previous(&link);
        let (refusals, refused) = mpsc::channel(MAX_REFUSALS);
        let dispatch = Arc::clone(&self.dispatch);
        // Before anything is read: a handler may call back at once.
        self.client.attach(Some(Arc::clone(&link)));
        let mut io = JoinSet::new();
        io.spawn(traffic::serve(Arc::clone(&link), socket, move |link, text, received| {
            dispatch.receive(link, text, received, &refusals);
        }));

        let end = self.live(&link, refused).await;

        self.client.attach(None);
        if matches!(end, End::Stopped) {
            link.outbound.finish();
            let _ = tokio::time::timeout(FAREWELL, io.join_next()).await;
        }
        link.end(Ending::Lost("the connection was given up".to_owned()));
        io.shutdown().await;
        self.previous = link.identity.get().cloned().or(self.previous.take());
        end
    }

    /// The engine may still believe in our last connection; without the token it cannot be told otherwise.
    fn retire_previous(&self, link: &Link) {
        let Some(Identity { worker_id, reattach_token: Some(token) }) = &self.previous else { return };
        let frame = Plain::Reattach { previous_worker_id: worker_id, reattach_token: token };
        link.send_written(frame.write());
    }

    async fn live(&mut self, link: &Arc<Link>, refused: mpsc::Receiver<Refusal>) -> End {
        let mut stop = self.stop.clone();
        let timings = self.options.timings;
        let grace = tokio::select! {
            biased;
            grace = stopped(&mut stop) => grace,
            ending = link.ended() => return End::Connection(ending),
            () = connection::keep_alive(link, timings.ping, timings.idle) => {
                return End::Connection(link.ended().await);
            }
            ending = self.work(link, refused) => return End::Connection(ending),
        };
        self.wind_down(link, grace).await;
        End::Stopped
    }

    /// Brings the worker up on this connection and keeps it registered; returns only if that fails.
    async fn work(&mut self, link: &Arc<Link>, refused: mpsc::Receiver<Refusal>) -> Ending {
        if !self.standing_by {
            self.status.send_replace(Status::Preparing);
        }
        if let Err(reason) = self.bring_up(link).await {
            return Ending::Lost(reason);
        }
        self.attempts = 0;
        self.standing_by = false;
        self.status.send_replace(Status::Ready { connection: link.number });
        self.insist(link, refused).await
    }

    async fn bring_up(&mut self, link: &Link) -> Result<(), String> {
        let connected =
            Connected { first: !self.prepared, standing_by: self.standing_by, connection: link.number };
        let preparation = AssertUnwindSafe((self.prepare)(self.client.clone(), connected)).catch_unwind();
        preparation.await.unwrap_or_else(|_| Err("the preparation panicked".to_owned()))?;
        self.prepared = true;
        self.dispatch.reset_providers();
        for frame in self.dispatch.catalogue.announcement() {
            link.send_written(frame);
        }
        if self.options.worker_name.is_empty() { Ok(()) } else { self.announce().await }
    }

    /// Tells the engine who we are, as a call: its answer comes after the registrations before it were applied.
    async fn announce(&self) -> Result<(), String> {
        let options = &self.options;
        let worker = json!({
            "runtime": "rust",
            "version": options.worker_version,
            "name": options.worker_name,
            "description": options.worker_description,
            "os": format!("{} {} ({})", std::env::consts::OS, std::env::consts::ARCH, std::env::consts::FAMILY),
            "pid": std::process::id(),
        });
        let deadline = Deadline::after(options.timings.announce);
        let answer = self.client.call("engine::workers::register", &worker, deadline).await;
        let answer = answer.and_then(|answer| answer.value()).map_err(|error| error.to_string())?;
        if answer["success"] == true {
            Ok(())
        } else {
            Err("the engine did not register the worker".to_owned())
        }
    }

    /// Asks again for what was refused, for as long as the connection lives.
    async fn insist(&self, link: &Link, mut refused: mpsc::Receiver<Refusal>) -> Ending {
        let mut retries = Retries::default();
        loop {
            let next = retries.next();
            let due = async {
                match next {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                refusal = refused.recv() => match refusal {
                    Some(refusal) => self.plan(&mut retries, refusal),
                    None => return Ending::Lost("the reader ended".to_owned()),
                },
                () = due => {
                    for what in retries.take_due(Instant::now()) {
                        self.ask_again(link, &what);
                    }
                }
            }
        }
    }

    fn plan(&self, retries: &mut Retries, Refusal { what, reason }: Refusal) {
        let timings = self.options.timings;
        let (code, message) = (&reason.code, &reason.message);
        match &what {
            Registration::Function(id) if self.dispatch.catalogue.function(id).is_some() => {
                tracing::error!(function_id = id, code, message, "a function is owned by another connection");
                let delay = |before| timings.function_conflict.delay(before, backoff::random());
                retries.refused(what, |before| Instant::now() + delay(before));
            }
            Registration::Binding(id) if self.dispatch.catalogue.binding_frame(id).is_some() => {
                let missing = *code == TRIGGER_TYPE_NOT_FOUND;
                let delay = if missing { timings.missing_type } else { timings.refused_binding };
                let id = id.clone();
                let before = retries.refused(what, |_| Instant::now() + delay);
                match (before, missing) {
                    (0, true) => {
                        tracing::info!(binding = id, "the trigger type does not exist yet, will ask again");
                    }
                    (0, false) => {
                        tracing::warn!(binding = id, code, message, "a binding was refused, will ask again");
                    }
                    _ => tracing::debug!(binding = id, code, "a binding was refused again"),
                }
            }
            other => tracing::debug!(?other, code, "a refusal of something that is not ours"),
        }
    }

    fn ask_again(&self, link: &Link, what: &Registration) {
        let frame = match what {
            Registration::Function(id) => self.dispatch.catalogue.function_frame(id),
            Registration::Binding(id) => self.dispatch.catalogue.binding_frame(id),
        };
        if let Some(frame) = frame {
            link.send_written(frame);
        }
    }

    /// Leaves the engine without leaving a caller behind.
    async fn wind_down(&self, link: &Link, grace: Duration) {
        self.dispatch.stop();
        for frame in self.dispatch.catalogue.withdrawal() {
            link.send_written(frame);
        }
        tokio::select! {
            _ = link.ended() => {}
            () = self.dispatch.drained(grace) => {}
        }
    }
}

/// Waits for the order to stop and gives its grace. A dropped session is an order without grace.
async fn stopped(stop: &mut watch::Receiver<Option<Duration>>) -> Duration {
    stop.wait_for(Option::is_some).await.ok().and_then(|grace| *grace).unwrap_or_default()
}
