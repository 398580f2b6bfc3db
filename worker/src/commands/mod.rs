//! What the binary does, one file per command. The only part of the worker that knows the local engine.

pub mod call;
pub mod check;
pub mod decide;
pub mod demo;
pub mod embedded;
pub mod inbox;
pub mod peer;
pub mod person;
pub mod prompts;
pub mod settings;
pub mod show;
pub mod text;
pub mod watch;
pub mod worker;

use std::io::Write as _;
use std::process::ExitCode;

/// Prints a result. Whoever reads standard output may have gone away, which is a failure and no panic.
pub fn print(text: &str) -> ExitCode {
    match writeln!(std::io::stdout(), "{text}") {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "approval-gate: the result could not be printed: {error}");
            ExitCode::FAILURE
        }
    }
}
