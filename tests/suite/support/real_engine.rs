//! How a real engine is started for a test: in a folder of its own, on the loopback interface only, with nothing of the
//! machine's own settings.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use super::wait::eventually;

/// The real engine's binary, if the tests are to run on one.
pub fn binary() -> Option<PathBuf> {
    std::env::var_os("III_ENGINE_BIN").map(PathBuf::from)
}

/// A state store whose rows end with the engine.
pub fn in_memory() -> Value {
    json!({ "store_method": "in_memory" })
}

/// Starts one that keeps everything in `place`, and waits until its port answers. Configuration values are kept there
/// from one start to the next; `store` says where rows are.
pub async fn start(
    binary: &Path,
    place: &Path,
    address: SocketAddr,
    store: &Value,
    environment: &BTreeMap<String, String>,
) -> Child {
    let config = write_config(place, address.port(), store);
    let child = Command::new(binary)
        .arg("--config")
        .arg(&config)
        .arg("--no-update-check")
        .current_dir(place)
        .env("HOME", place)
        .env("XDG_DATA_HOME", place.join("data"))
        .env("III_TELEMETRY_ENABLED", "false")
        .env("IIIWORKER_DISABLE_BUILTIN_DAEMONS", "1")
        .env_remove("III_CONFIG_PATH")
        .envs(environment)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    eventually("the engine's port to answer", || async move { TcpStream::connect(address).await.ok() }).await;
    child
}

fn write_config(place: &Path, port: u16, store: &Value) -> PathBuf {
    let directory = place.join("config");
    std::fs::create_dir_all(&directory).unwrap();
    let workers = json!({ "workers": [
        { "name": "iii-worker-manager", "config": { "host": "127.0.0.1", "port": port } },
        { "name": "configuration", "config": { "adapter": { "name": "fs", "config": { "directory": directory } } } },
        { "name": "iii-state", "config": { "adapter": { "name": "kv", "config": store } } },
        { "name": "iii-telemetry", "config": { "enabled": false } },
        { "name": "iii-observability", "config": { "enabled": false } },
    ] });
    let config = place.join("config.yaml");
    // JSON is YAML. The engine moves blocks out of this file at its first start, so it is written for every start anew.
    std::fs::write(&config, workers.to_string()).unwrap();
    config
}
