//! Standing up and going down (contract §9): what is required, what is best effort, in which order.
//!
//! On every connection, the first included: register the configuration schema, see that a value is stored, fetch it
//! — and only then register functions, so that no call is ever decided by a policy that may be stale. Functions,
//! trigger types and bindings are registered by `iii`; this file says which.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::{Value, json};
use thiserror::Error;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::clock::Deadline;
use crate::handlers::{Context, catalogue};
use crate::iii::{self, Binding, CallError, Client, Connected, Registry, Session, Status, TriggerType};
use crate::keep::live_config::ENTRY;
use crate::policy::Policy;
use crate::seed;
use crate::siblings::SharedEngine;
use crate::siblings::state::Scope;
use crate::wire::config::configuration_schema;
use crate::wire::schema;

/// The worker's name on the engine: notification workers look for it.
pub(crate) const WORKER_NAME: &str = "approval-gate";
/// What the bindings are for that tell of changes in our own state.
const STATE_PENDING: &str = "state-pending";
const STATE_SETTINGS: &str = "state-settings";
/// How long each configuration call may take.
const CALL_BUDGET: Duration = Duration::from_secs(5);
/// How often the configuration is tried on one connection.
const CONFIGURE_TRIES: u32 = 4;
/// How long calls in flight may take to finish when the worker stops.
const GRACE: Duration = Duration::from_secs(5);

/// How to run.
#[derive(Debug, Clone)]
pub struct Options {
    /// The engine's address.
    pub url: String,
    /// The seed file, if one is given.
    pub seed: Option<PathBuf>,
}

/// Why the worker could not start. Each is one clear line.
#[derive(Debug, Error)]
pub enum BootError {
    /// The configuration worker is required.
    #[error("the configuration of the gate could not be read from the engine at {url}: {reason}")]
    Configuration {
        /// The engine's address.
        url: String,
        /// What went wrong.
        reason: String,
    },
}

/// A worker that is standing or trying to stand.
pub struct Worker {
    context: Arc<Context>,
    session: Session,
    fatal: mpsc::Receiver<String>,
    url: String,
    configuring: Arc<Configuring>,
    /// What is done behind on each connection. It ends with the connection or the worker, at any point.
    housekeeping: JoinSet<()>,
}

/// How the configuration entry is brought up.
struct Configuring {
    /// What is stored if nothing is.
    seed: Value,
    /// The seed comes from a file that somebody named.
    is_given: bool,
    /// The connection on which the schema was registered last.
    done_on: AtomicU64,
}

/// Starts connecting. Nothing has been reached yet when this returns.
pub fn start(options: &Options) -> Worker {
    let (failed, fatal) = mpsc::channel(1);
    let shared: Arc<OnceLock<Arc<Context>>> = Arc::default();
    let configuring = Arc::new(configuring(options));
    let prepare: iii::Prepare = {
        let (shared, configuring) = (Arc::clone(&shared), Arc::clone(&configuring));
        Arc::new(move |_: Client, connected: Connected| {
            let (shared, failed) = (Arc::clone(&shared), failed.clone());
            let configuring = Arc::clone(&configuring);
            Box::pin(async move {
                let Some(context) = shared.get() else { return Err("not built yet".to_owned()) };
                prepare(context, connected, &configuring, &failed).await
            })
        })
    };
    let session_options = iii::Options::new(
        &options.url,
        WORKER_NAME,
        env!("CARGO_PKG_VERSION"),
        env!("CARGO_PKG_DESCRIPTION"),
    );
    let built = |client: Client| {
        let engine: SharedEngine = Arc::new(client);
        Arc::clone(shared.get_or_init(|| Context::new(&engine)))
    };
    let (client, session) = iii::start(session_options, |client| registry(&built(client)), prepare);
    let context = built(client);
    Worker { context, session, fatal, url: options.url.clone(), configuring, housekeeping: JoinSet::new() }
}

impl Worker {
    /// Where the worker stands, to be watched.
    pub fn status(&self) -> watch::Receiver<Status> {
        self.session.status()
    }

    /// Runs until `stop` resolves, then goes down in order. An error only if the worker never came to stand.
    pub async fn run(mut self, stop: impl Future<Output = ()>) -> Result<(), BootError> {
        let mut status = self.session.status();
        let mut announced = 0;
        tokio::pin!(stop);
        loop {
            let seen = status.borrow_and_update().clone();
            self.report(&seen, &mut announced);
            tokio::select! {
                () = &mut stop => break,
                Some(reason) = self.fatal.recv() => {
                    self.session.shutdown(Duration::ZERO).await;
                    return Err(BootError::Configuration { url: self.url, reason });
                }
                changed = status.changed() => if changed.is_err() { break },
            }
        }
        self.housekeeping.shutdown().await;
        tracing::info!("stopping: no more calls are taken");
        let open = self.session.keep_open();
        let finish = async {
            self.context.background.idle(Deadline::after(GRACE)).await;
            drop(open);
        };
        tokio::join!(self.session.shutdown(GRACE), finish);
        Ok(())
    }

    fn report(&mut self, status: &Status, announced: &mut u64) {
        let Status::Ready { connection } = status else { return };
        if connection != announced {
            *announced = *connection;
            tracing::info!(url = self.url, connection, "ready");
            let (context, configuring) = (Arc::clone(&self.context), Arc::clone(&self.configuring));
            let connection = *connection;
            self.housekeeping.abort_all();
            self.housekeeping.spawn(async move {
                if configuring.done_on.load(Ordering::Acquire) != connection
                    && let Err(error) = configure(&context, &configuring).await
                {
                    tracing::warn!(%error, "the configuration schema could not be registered");
                }
                after_connect(&context).await;
            });
        }
    }
}

/// What an earlier run left undone is done once the worker serves again; it never delays serving.
pub async fn after_connect(context: &Context) {
    context.events.listeners_known();
    if is_told_of_changes(context).await {
        context.settings.open_view(context.engine.connection());
        context.inbox.load_view().await;
    }
    let tell = async {
        let events = context.inbox.send_what_was_left().await;
        if events > 0 {
            tracing::info!(events, "resolved events of an earlier run were sent");
        }
    };
    let reconcile = async {
        let records = context.inbox.reconcile(&context.harness).await;
        if records > 0 {
            tracing::info!(records, "records that no turn waits for were removed");
        }
    };
    tokio::join!(tell, reconcile);
}

/// Whether the engine tells us when somebody changes our rows. It accepts a binding without a word and parks it when
/// nobody provides its type, so that only asking tells; without it what is kept in memory cannot be relied on.
async fn is_told_of_changes(context: &Context) -> bool {
    for purpose in [STATE_PENDING, STATE_SETTINGS] {
        let data = json!({"id": format!("{WORKER_NAME}/{purpose}")});
        let deadline = Deadline::after(CALL_BUDGET);
        if let Err(error) = context.engine.call("engine::registered-triggers::info", &data, deadline).await {
            tracing::info!(%error, purpose, "no news of changes in the store: every read goes to it");
            return false;
        }
    }
    true
}

/// On each connection, before anything is registered on it. A lost connection is tried again for ever. On the first
/// connection everything else is fatal after a few tries; later the gate comes back locked down and recovers.
async fn prepare(
    context: &Arc<Context>,
    connected: Connected,
    configuring: &Configuring,
    failed: &mpsc::Sender<String>,
) -> Result<(), String> {
    context.config.lock_down();
    if connected.standing_by {
        // Somebody else is the gate and has its entry; registering it again each second would tell all the world.
        return context.config.refetch().await.map_err(|error| error.to_string());
    }
    let mut tried = Ok(());
    for attempt in 0..CONFIGURE_TRIES {
        if attempt > 0 {
            tokio::time::sleep(Duration::from_millis(250 << attempt)).await;
        }
        tried = configure(context, configuring).await;
        match &tried {
            Ok(()) => {
                configuring.done_on.store(connected.connection, Ordering::Release);
                return Ok(());
            }
            Err(CallError::NotConnected | CallError::ConnectionLost { .. }) => break,
            Err(error) => tracing::warn!(%error, attempt, "the configuration could not be read"),
        }
    }
    let Err(error) = tried else { return Ok(()) };
    match error {
        CallError::NotConnected | CallError::ConnectionLost { .. } => Err(error.to_string()),
        _ if connected.first => {
            let _ = failed.try_send(error.to_string());
            Err(error.to_string())
        }
        _ => {
            tracing::error!(%error, "locked down: every call is held until the configuration can be read");
            let context = Arc::clone(context);
            context.background.clone().spawn(async move { context.config.refetch_or_later().await });
            Ok(())
        }
    }
}

/// Registers the schema without a value, which would overwrite what is stored; stores the seed or the defaults only
/// if nothing is stored; adds missing rules; fetches.
async fn configure(context: &Context, configuring: &Configuring) -> Result<(), CallError> {
    let configuration = &context.configuration;
    let deadline = || Deadline::after(CALL_BUDGET);
    let (title, about) =
        ("Approval gate", "Who decides about function calls: default mode, rules, re-ask limit");
    configuration.register(ENTRY, title, about, &configuration_schema(), deadline()).await?;
    match configuration.get_raw(ENTRY, deadline()).await?.unwrap_or_default() {
        Value::Null => match configuration.set(ENTRY, &configuring.seed, deadline()).await {
            Err(CallError::Refused { message, .. }) => {
                tracing::warn!(message, "the seed was refused; the shipped defaults are stored instead");
                configuration.set(ENTRY, &Policy::shipped_value(), deadline()).await?;
            }
            stored => stored?,
        },
        stored if configuring.is_given && configuring.done_on.load(Ordering::Acquire) == 0 => {
            tracing::info!("a configuration is stored already; the seed file is not used");
            add_missing_rules(context, stored).await;
        }
        stored => add_missing_rules(context, stored).await,
    }
    context.config.refetch().await
}

/// A stored value without rules gets the shipped ones, so that they can be edited; nothing else is touched.
async fn add_missing_rules(context: &Context, stored: Value) {
    match stored {
        Value::Object(mut stored) if !stored.contains_key("rules") => {
            stored.insert("rules".to_owned(), Policy::shipped_value()["rules"].clone());
            let deadline = Deadline::after(CALL_BUDGET);
            if let Err(error) = context.configuration.set(ENTRY, &Value::Object(stored), deadline).await {
                tracing::warn!(%error, "the missing rules could not be added to the stored configuration");
            }
        }
        _ => {}
    }
}

/// What `--config` gives, or the shipped defaults. A seed that cannot be used is a warning: it only ever fills an
/// empty entry.
fn configuring(options: &Options) -> Configuring {
    let done_on = AtomicU64::new(0);
    let shipped = |done_on| Configuring { seed: Policy::shipped_value(), is_given: false, done_on };
    let Some(path) = &options.seed else { return shipped(done_on) };
    match seed::read(path) {
        Ok(seed) => Configuring { seed, is_given: true, done_on },
        Err(problem) => {
            tracing::warn!(%problem, "the seed file is not used");
            shipped(done_on)
        }
    }
}

/// What must exist on the engine. Binding ids are stable, so that binding twice replaces and never duplicates.
fn registry(context: &Arc<Context>) -> Registry {
    let [created, resolved] = schema::trigger_types();
    let trigger_type = |schema: schema::TriggerTypeSchema, provider| TriggerType {
        id: schema.id.to_owned(),
        description: schema.description.to_owned(),
        config_schema: schema.config,
        payload_schema: None,
        provider,
    };
    let mut trigger_types = vec![
        trigger_type(created, context.events.created_provider()),
        trigger_type(resolved, context.events.resolved_provider()),
    ];
    for added in schema::added_trigger_types() {
        if let Some(provider) = context.events.added_provider(added.id) {
            trigger_types.push(trigger_type(added, provider));
        }
    }
    Registry { functions: catalogue(context), trigger_types, bindings: bindings() }
}

/// The watch's id and globs are what tells the harness that filesystem access can be asked for at all.
fn bindings() -> Vec<Binding> {
    let binding = |purpose: &str, trigger_type: &str, function_id: &str, config: Value| Binding {
        id: format!("{WORKER_NAME}/{purpose}"),
        trigger_type: trigger_type.to_owned(),
        function_id: function_id.to_owned(),
        config,
    };
    vec![
        binding(
            "pre-trigger",
            "harness::hook::pre-trigger",
            schema::GATE,
            json!({"functions": ["*"], "timeout_ms": 5000, "on_error": "fail_closed"}),
        ),
        binding(
            "post-trigger",
            "harness::hook::post-trigger",
            schema::FILESYSTEM_ACCESS_WATCH,
            json!({"functions": ["shell::*", "coder::*"], "timeout_ms": 5000, "on_error": "fail_open"}),
        ),
        binding("turn-completed", "harness::turn-completed", schema::ON_TURN_COMPLETED, json!({})),
        binding("session-deleted", "session::deleted", schema::ON_SESSION_DELETED, json!({})),
        binding(
            "configuration",
            "configuration",
            schema::ON_CONFIG_CHANGE,
            json!({"configuration_id": ENTRY, "event_types": ["configuration:updated"]}),
        ),
        binding(STATE_PENDING, "state", schema::ON_STATE_CHANGED, json!({"scope": Scope::Pending.as_str()})),
        binding(
            STATE_SETTINGS,
            "state",
            schema::ON_STATE_CHANGED,
            json!({"scope": Scope::Settings.as_str()}),
        ),
    ]
}
