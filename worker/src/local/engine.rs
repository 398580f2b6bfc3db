//! The public handle: starting, stopping, and what can be asked of a running engine.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;

use super::BANNER;
use super::builtin;
use super::configuration::ConfigurationStore;
use super::connection;
use super::faults::Faults;
use super::hub::Hub;
use super::session_manager::Sessions;
use super::state::StateStore;
use super::turns::Turns;

/// How to start an engine. The default listens on a free loopback port with nothing carried over and both
/// stand-ins off.
#[derive(Debug)]
pub struct EngineOptions {
    /// Where to listen; must be a loopback address. Port 0 takes a free one.
    pub listen: SocketAddr,
    /// State carried over from an earlier engine; absent = empty, as after a restart with the in-memory store.
    pub state: Option<StateStore>,
    /// Configuration entries carried over; their schemas are forgotten, as on a real restart.
    pub configuration: Option<ConfigurationStore>,
    /// Whether to stand in for the harness and a jailed shell.
    pub harness: bool,
    /// Whether to stand in for the session manager.
    pub session_manager: bool,
    /// Turns of the stand-in harness carried over.
    pub turns: Option<Turns>,
    /// Sessions of the stand-in session manager carried over.
    pub sessions: Option<Sessions>,
    /// How long registrations wait for `engine::workers::register`.
    pub grace: Duration,
    /// How often `engine::functions-available` looks for a change.
    pub functions_period: Duration,
    /// Variables for `${NAME}` in configuration values, before those of the process.
    pub environment: BTreeMap<String, String>,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            state: None,
            configuration: None,
            harness: false,
            session_manager: false,
            turns: None,
            sessions: None,
            grace: Duration::from_secs(5),
            functions_period: Duration::from_secs(5),
            environment: BTreeMap::new(),
        }
    }
}

/// Why an engine did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The engine has no access control, so it keeps to the machine itself.
    #[error("`{0}` is not a loopback address and the local engine serves no other")]
    NotLoopback(SocketAddr),
    /// The address cannot be listened on.
    #[error("cannot listen on `{address}`: {source}")]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// What the system says.
        source: std::io::Error,
    },
}

/// What an engine leaves behind when it stops; feed it to the next one to play a restart.
#[derive(Debug, Default)]
pub struct Stores {
    /// The `state` worker's values.
    pub state: StateStore,
    /// The `configuration` worker's entries.
    pub configuration: ConfigurationStore,
    /// The stand-in harness's turns.
    pub turns: Turns,
    /// The stand-in session manager's sessions.
    pub sessions: Sessions,
}

/// How much of everything there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts {
    /// Live connections.
    pub connections: usize,
    /// Functions registered by workers.
    pub functions: usize,
    /// Trigger types registered by workers.
    pub trigger_types: usize,
    /// Binds that some provider serves.
    pub live_binds: usize,
    /// Binds that wait for a provider.
    pub parked_binds: usize,
    /// Calls handed to workers and not answered.
    pub calls_in_flight: usize,
    /// Calls routed since the start, by function id, built-in functions and events included.
    pub invocations: BTreeMap<String, u64>,
}

/// A running engine. Dropping it is as abrupt as [`Engine::stop`].
pub struct Engine {
    hub: Arc<Hub>,
    address: SocketAddr,
}

impl Engine {
    /// Starts an engine.
    ///
    /// # Errors
    /// The address is not a loopback address, or cannot be listened on.
    pub async fn start(options: EngineOptions) -> Result<Self, StartError> {
        let EngineOptions { listen, grace, functions_period, harness, session_manager, .. } = options;
        if !listen.ip().is_loopback() {
            return Err(StartError::NotLoopback(listen));
        }
        let failed = |source| StartError::Listen { address: listen, source };
        let listener = TcpListener::bind(listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let mut configuration = options.configuration.unwrap_or_default();
        configuration.after_restart(harness);
        let hub = Arc::new(Hub::new(
            builtin::world(harness, session_manager),
            options.state.unwrap_or_default(),
            configuration,
            options.turns.unwrap_or_default(),
            options.sessions.unwrap_or_default(),
            options.environment,
        ));
        hub.spawn(connection::accept(hub.clone(), listener, grace));
        hub.spawn(hub.clone().watch_functions(functions_period));
        tracing::info!(%address, "{BANNER}");
        Ok(Self { hub, address })
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address as a worker is given it.
    pub fn url(&self) -> String {
        format!("ws://{}", self.address)
    }

    /// Stops at once: connections are dropped without a close frame and calls in flight are lost, as when the real
    /// engine is killed.
    pub async fn stop(self) -> Stores {
        let mut tasks = self.hub.abort();
        while tasks.join_next().await.is_some() {}
        Stores {
            state: std::mem::take(&mut *self.hub.state()),
            configuration: std::mem::take(&mut *self.hub.configuration()),
            turns: std::mem::take(&mut *self.hub.turns()),
            sessions: std::mem::take(&mut *self.hub.sessions()),
        }
    }

    /// Drops the connections of one worker, by its registered name, without a close frame. Says how many.
    pub fn cut_worker(&self, name: &str) -> usize {
        let world = self.hub.world();
        let matching = world.connections.values().filter(|one| one.profile.name.as_deref() == Some(name));
        matching.map(|one| one.cut.notify_one()).count()
    }

    /// How much of everything there is right now.
    pub fn counts(&self) -> Counts {
        let invocations = self.hub.invocations();
        let world = self.hub.world();
        let live_binds = world.binds.values().filter(|bind| bind.served_by.is_some()).count();
        Counts {
            connections: world.connections.len(),
            functions: builtin::of_workers(&world),
            trigger_types: world.types.values().filter(|kind| !kind.is_built_in()).count(),
            live_binds,
            parked_binds: world.binds.len() - live_binds,
            calls_in_flight: world.calls.len(),
            invocations,
        }
    }

    /// The table of things that go wrong on demand.
    pub fn faults(&self) -> &Faults {
        &self.hub.faults
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        drop(self.hub.abort());
    }
}
