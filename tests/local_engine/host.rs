//! The engine the transcripts are played on: the local one, or the real one whose binary `III_ENGINE_BIN` names.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use approval_gate::local::{ConfigurationStore, Engine, EngineOptions};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Child;

use super::real_engine;
use super::wire::{Client, PATIENCE};

/// An engine to play on. Ends when dropped.
pub struct Host {
    pub address: SocketAddr,
    running: Running,
}

enum Running {
    Local(Engine),
    Real { binary: PathBuf, folder: TempDir, child: Child },
}

impl Host {
    pub async fn start(environment: &[(&str, &str)]) -> Self {
        let environment = owned(environment);
        let Some(binary) = real_engine::binary() else {
            let engine = local(&environment, None).await;
            return Self { address: engine.address(), running: Running::Local(engine) };
        };
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let folder = tempfile::tempdir().unwrap();
        let child = real(&binary, &folder, address, &environment).await;
        Self { address, running: Running::Real { binary, folder, child } }
    }

    /// Puts a value into the state store before anything is played.
    pub async fn set(&self, scope: &str, key: &str, value: Value) {
        let mut client = Client::open(self.address, "/").await;
        client.call("state::set", json!({ "scope": scope, "key": key, "value": value })).await.unwrap();
    }

    /// Kills the engine and starts it again: configuration values survive, nothing else does.
    pub async fn restart(self, environment: &[(&str, &str)]) -> Self {
        let Self { address, running } = self;
        let variables = owned(environment);
        match running {
            Running::Local(engine) => {
                let engine = local(&variables, Some(engine.stop().await.configuration)).await;
                Self { address: engine.address(), running: Running::Local(engine) }
            }
            Running::Real { binary, folder, mut child } => {
                child.kill().await.unwrap();
                let child = real(&binary, &folder, address, &variables).await;
                Self { address, running: Running::Real { binary, folder, child } }
            }
        }
    }
}

fn owned(variables: &[(&str, &str)]) -> BTreeMap<String, String> {
    variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

async fn local(environment: &BTreeMap<String, String>, configuration: Option<ConfigurationStore>) -> Engine {
    let options = EngineOptions {
        grace: Duration::from_millis(300),
        functions_period: Duration::from_millis(200),
        environment: environment.clone(),
        configuration,
        ..EngineOptions::default()
    };
    Engine::start(options).await.unwrap()
}

async fn real(
    binary: &Path,
    folder: &TempDir,
    address: SocketAddr,
    environment: &BTreeMap<String, String>,
) -> Child {
    let child =
        real_engine::start(binary, folder.path(), address, &real_engine::in_memory(), environment).await;
    // It listens before its own workers have registered their settings, and tells of that.
    let settled = async {
        let mut client = Client::open(address, "/").await;
        for id in ["iii-state", "iii-observability"] {
            let known = |answer: Result<Value, Value>| answer.is_ok_and(|entry| !entry["schema"].is_null());
            while !known(client.call("configuration::schema", json!({ "id": id })).await) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    };
    tokio::time::timeout(PATIENCE, settled).await.expect("the engine's own workers are up");
    child
}
