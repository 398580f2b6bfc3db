//! The `approval-gate` binary: arguments to options, outcome to exit status.

use std::process::ExitCode;

use approval_gate::cli::{Arguments, Command};
use approval_gate::{boot, commands, manifest};
use clap::Parser as _;
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.manifest {
        return commands::print(&format!("{:#}", manifest::manifest()));
    }
    match &arguments.command {
        // Its screen is all it says.
        Some(Command::Person(_)) => {}
        Some(Command::Demo) => start_logging("error"),
        _ => start_logging("info"),
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("approval-gate: cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    let url = arguments.engine_url(|name| std::env::var(name).ok());
    let status = runtime.block_on(async {
        match arguments.command {
            Some(Command::Call { function_id, payload, timeout }) => {
                commands::call::run(&url, &function_id, &payload, timeout).await
            }
            Some(Command::Demo) => commands::demo::run().await,
            Some(Command::Check(check)) => commands::check::run(&check),
            Some(Command::Person(command)) => commands::person::run(&url, command).await,
            None if arguments.embedded => commands::embedded::run(&url, arguments.config).await,
            None => commands::worker::run(boot::Options { url, seed: arguments.config }).await,
        }
    });
    // Work that is still blocked must not keep the process: everything that matters has been waited for.
    runtime.shutdown_background();
    status
}

/// Logs go to standard error, so that results and manifests have standard output to themselves.
fn start_logging(default_level: &str) {
    let filter =
        EnvFilter::try_from_env("APPROVAL_GATE_LOG").unwrap_or_else(|_| EnvFilter::new(default_level));
    let color =
        std::io::IsTerminal::is_terminal(&std::io::stderr()) && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(color)
        .log_internal_errors(false)
        .init();
}
