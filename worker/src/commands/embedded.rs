//! `--embedded`: a small engine in this process, and the worker against it through the socket, as against any engine.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use super::worker::stop_requested;
use crate::boot;
use crate::local::{BANNER, Engine, EngineOptions};

/// Runs both until told to stop. Exit status 1 if the address cannot be served.
pub async fn run(url: &str, seed: Option<PathBuf>) -> ExitCode {
    let listen = match address(url).await {
        Ok(listen) => listen,
        Err(why) => return failed(&why),
    };
    let options = EngineOptions { listen, harness: true, session_manager: true, ..EngineOptions::default() };
    let engine = match Engine::start(options).await {
        Ok(engine) => engine,
        Err(error) => return failed(&error.to_string()),
    };
    eprintln!("{BANNER}\nlistening on {}", engine.url());
    let worker = boot::start(&boot::Options { url: engine.url(), seed });
    let outcome = worker.run(stop_requested()).await;
    engine.stop().await;
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error.to_string()),
    }
}

/// The socket address that a `ws://host:port` URL names.
async fn address(url: &str) -> Result<SocketAddr, String> {
    let authority = url.strip_prefix("ws://").and_then(|rest| rest.split(['/', '?']).next());
    let authority = authority.ok_or_else(|| format!("`{url}` is not a ws:// address"))?;
    let host_and_port =
        if authority.contains(':') { authority.to_owned() } else { format!("{authority}:80") };
    let mut found = tokio::net::lookup_host(&host_and_port)
        .await
        .map_err(|error| format!("`{url}` names no address of this machine: {error}"))?;
    found.next().ok_or_else(|| format!("`{url}` names no address of this machine"))
}

fn failed(why: &str) -> ExitCode {
    eprintln!("approval-gate: {why}");
    ExitCode::FAILURE
}
