//! An engine that can be killed, frozen, and started again on the same port with or without what it knew.
//!
//! A real engine keeps its state in files here and writes them with a delay, so a test that wants the state kept ends it
//! with [`Engine::end`] or first waits for [`Engine::has_on_disk`].

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use approval_gate::local;
use serde_json::json;
use tempfile::TempDir;
use tokio::process::Child;

use crate::process::signal;
use crate::support::engine::free_port;
use crate::support::eventually;
use crate::support::real_engine;

/// A running engine without any worker.
pub struct Engine {
    kind: Kind,
    port: u16,
}

enum Kind {
    Local(Box<local::Engine>),
    Real(Box<Real>),
}

struct Real {
    child: Child,
    place: TempDir,
}

/// An engine that is gone, with what it left.
pub struct Stopped {
    port: u16,
    left: Left,
}

enum Left {
    Local(Box<local::Stores>),
    Real(TempDir),
}

/// What the next engine finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Everything.
    All,
    /// Configuration values; the state store is empty.
    Configuration,
}

/// Whether the tests run on a real engine.
pub fn is_real() -> bool {
    real_engine::binary().is_some()
}

impl Engine {
    /// Starts an empty engine on a free port.
    pub async fn start() -> Self {
        let port = free_port();
        match real_engine::binary() {
            Some(binary) => Self::start_real(&binary, port, tempfile::tempdir().unwrap()).await,
            None => Self::start_local(port, local::Stores::default()).await,
        }
    }

    async fn start_local(port: u16, stores: local::Stores) -> Self {
        let options = local::EngineOptions {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            state: Some(stores.state),
            configuration: Some(stores.configuration),
            ..Default::default()
        };
        Self { kind: Kind::Local(Box::new(local::Engine::start(options).await.unwrap())), port }
    }

    async fn start_real(binary: &Path, port: u16, place: TempDir) -> Self {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let store = json!({
            "store_method": "file_based", "file_path": place.path().join("state"), "save_interval_ms": 100,
        });
        let child = real_engine::start(binary, place.path(), address, &store, &BTreeMap::new()).await;
        Self { kind: Kind::Real(Box::new(Real { child, place })), port }
    }

    pub fn url(&self) -> String {
        format!("ws://127.0.0.1:{}", self.port)
    }

    /// Ends it so that its state survives: a local engine as by a crash, a real one with time to write its files.
    pub async fn end(mut self) -> Stopped {
        if let Kind::Real(real) = &mut self.kind {
            signal(real.child.id().unwrap(), "TERM").await;
            real.child.wait().await.unwrap();
        }
        self.kill().await
    }

    /// Ends it as a crash does.
    pub async fn kill(self) -> Stopped {
        let left = match self.kind {
            Kind::Local(engine) => Left::Local(Box::new(engine.stop().await)),
            Kind::Real(mut real) => {
                real.child.kill().await.unwrap();
                Left::Real(real.place)
            }
        };
        Stopped { port: self.port, left }
    }

    /// Waits until the rows of a scope that carry these words would survive a crash.
    pub async fn has_on_disk(&self, scope: &str, words: &[String]) {
        let Kind::Real(real) = &self.kind else { return };
        let file = real.place.path().join("state").join(format!("{scope}.bin"));
        eventually("the state store to write its file", || async {
            let bytes = std::fs::read(&file).ok()?;
            let text = String::from_utf8_lossy(&bytes);
            words.iter().all(|word| text.contains(word.as_str())).then_some(())
        })
        .await;
    }

    /// Nothing is read, written or accepted any more; the sockets stay open.
    pub async fn freeze(&self) {
        match &self.kind {
            Kind::Local(engine) => engine.faults().freeze(),
            Kind::Real(real) => signal(real.child.id().unwrap(), "STOP").await,
        }
    }

    /// Goes on where it was frozen.
    pub async fn thaw(&self) {
        match &self.kind {
            Kind::Local(engine) => engine.faults().thaw(),
            Kind::Real(real) => signal(real.child.id().unwrap(), "CONT").await,
        }
    }
}

impl Stopped {
    /// Starts the next engine on the same port.
    pub async fn start_again(self, keep: Keep) -> Engine {
        match self.left {
            Left::Local(mut stores) => {
                if keep == Keep::Configuration {
                    stores.state = local::StateStore::default();
                }
                Engine::start_local(self.port, *stores).await
            }
            Left::Real(place) => {
                if keep == Keep::Configuration {
                    let _ = std::fs::remove_dir_all(place.path().join("state"));
                }
                Engine::start_real(&real_engine::binary().unwrap(), self.port, place).await
            }
        }
    }
}
