//! An engine to run on: the local one of the crate, or a real one when `III_ENGINE_BIN` names its binary.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use approval_gate::local;
use tempfile::TempDir;
use tokio::process::Child;

use super::real_engine;

/// A running engine without any worker.
pub struct Engine {
    kind: Kind,
    port: u16,
}

enum Kind {
    Local(Box<local::Engine>),
    Real(Box<(Child, TempDir)>),
}

/// What outlives an engine: the local one's stores, or the real one's directory.
pub struct Stopped {
    port: u16,
    rest: Rest,
}

enum Rest {
    Local(Box<local::Stores>),
    Real(TempDir),
}

/// A port of the loopback interface that nobody listens on.
pub fn free_port() -> u16 {
    std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

impl Engine {
    /// Starts an empty engine.
    pub async fn start() -> Self {
        // A port that was free a moment ago may be another test's by now; the local engine takes one by itself.
        Self::start_on(if real_engine::binary().is_some() { free_port() } else { 0 }).await
    }

    /// Starts an empty engine on this port.
    pub async fn start_on(port: u16) -> Self {
        match real_engine::binary() {
            Some(binary) => Self::start_real(&binary, port, tempfile::tempdir().unwrap()).await,
            None => Self::start_local(port, None).await,
        }
    }

    /// Starts it again on the same port, with what was left. A real engine keeps configuration values only.
    pub async fn start_again(stopped: Stopped) -> Self {
        match stopped.rest {
            Rest::Real(place) => {
                let binary = real_engine::binary().unwrap();
                Self::start_real(&binary, stopped.port, place).await
            }
            Rest::Local(stores) => Self::start_local(stopped.port, Some(*stores)).await,
        }
    }

    async fn start_local(port: u16, stores: Option<local::Stores>) -> Self {
        let (state, configuration) =
            stores.map_or((None, None), |stores| (Some(stores.state), Some(stores.configuration)));
        let options = local::EngineOptions {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            state,
            configuration,
            harness: false,
            session_manager: false,
            ..Default::default()
        };
        let engine = local::Engine::start(options).await.unwrap();
        Self { port: engine.address().port(), kind: Kind::Local(Box::new(engine)) }
    }

    async fn start_real(binary: &Path, port: u16, place: TempDir) -> Self {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let child =
            real_engine::start(binary, place.path(), address, &real_engine::in_memory(), &BTreeMap::new())
                .await;
        Self { kind: Kind::Real(Box::new((child, place))), port }
    }

    pub fn url(&self) -> String {
        format!("ws://127.0.0.1:{}", self.port)
    }

    /// Stops it as a crash would: connections drop without a close frame.
    pub async fn stop(self) -> Stopped {
        let rest = match self.kind {
            Kind::Local(engine) => Rest::Local(Box::new(engine.stop().await)),
            Kind::Real(mut real) => {
                real.0.kill().await.unwrap();
                Rest::Real(real.1)
            }
        };
        Stopped { port: self.port, rest }
    }
}
