//! An engine to run on: the local one of the crate, or a real one when `III_ENGINE_BIN` names its binary.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use approval_gate::local;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use super::wait::eventually;

/// Names the real engine's binary.
const REAL_ENGINE: &str = "III_ENGINE_BIN";

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
        Self::start_on(free_port()).await
    }

    /// Starts an empty engine on this port.
    pub async fn start_on(port: u16) -> Self {
        match std::env::var_os(REAL_ENGINE) {
            Some(binary) => Self::start_real(Path::new(&binary), port, tempfile::tempdir().unwrap()).await,
            None => Self::start_local(port, None).await,
        }
    }

    /// Starts it again on the same port, with what was left. A real engine keeps configuration values only.
    pub async fn start_again(stopped: Stopped) -> Self {
        match stopped.rest {
            Rest::Real(place) => {
                let binary = std::env::var_os(REAL_ENGINE).unwrap();
                Self::start_real(Path::new(&binary), stopped.port, place).await
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
        let config = write_config(place.path(), port);
        let child = Command::new(binary)
            .arg("--config")
            .arg(&config)
            .arg("--no-update-check")
            .current_dir(place.path())
            .env("HOME", place.path())
            .env("XDG_DATA_HOME", place.path().join("data"))
            .env("III_TELEMETRY_ENABLED", "false")
            .env("IIIWORKER_DISABLE_BUILTIN_DAEMONS", "1")
            .env_remove("III_CONFIG_PATH")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        eventually("the engine's port to answer", || async move {
            TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.ok()
        })
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

/// Everything the engine writes stays in `place`; it is reachable over the loopback interface only.
fn write_config(place: &Path, port: u16) -> PathBuf {
    let directory = place.join("configuration");
    std::fs::create_dir_all(&directory).unwrap();
    let config = place.join("config.yaml");
    let text = format!(
        "workers:
  - name: iii-worker-manager
    config: {{ host: 127.0.0.1, port: {port} }}
  - name: configuration
    config:
      adapter: {{ name: fs, config: {{ directory: '{}' }} }}
  - name: iii-state
    config:
      adapter: {{ name: kv, config: {{ store_method: in_memory }} }}
  - name: iii-telemetry
    config: {{ enabled: false }}
  - name: iii-observability
    config: {{ enabled: false }}
",
        directory.display()
    );
    // The engine moves blocks out of this file at its first start, so it is written for every start anew.
    std::fs::write(&config, text).unwrap();
    config
}
