//! The worker itself: runs until it is told to stop.

use std::process::ExitCode;

use crate::{boot, iii};

/// Runs against the engine at the URL. Exit status 0 after SIGINT or SIGTERM, 1 if it never came to stand.
pub async fn run(options: boot::Options) -> ExitCode {
    if let Err(error) = iii::check_address(&options.url) {
        eprintln!("approval-gate: {error}");
        return ExitCode::FAILURE;
    }
    match boot::start(&options).run(stop_requested()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("approval-gate: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Resolves when the process is asked to end: SIGINT or, where there is one, SIGTERM.
pub(super) async fn stop_requested() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        match signal(SignalKind::terminate()) {
            Ok(mut terminate) => tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            },
            Err(_) => drop(tokio::signal::ctrl_c().await),
        }
    }
    #[cfg(not(unix))]
    drop(tokio::signal::ctrl_c().await);
}
