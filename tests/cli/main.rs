//! The commands for people: the real binary, typed at as a person or a script would, against an engine with a worker.
//!
//! What needs an engine runs on the crate's local engine and, when `III_ENGINE_BIN` names one, on a real engine. Peers and worker
//! process are those of the integration suite; this binary adds the command line and a terminal to type at.
#![allow(clippy::unwrap_used)]

mod bound;
mod check;
mod check_cases;
mod decisions;
mod listing;
#[cfg(unix)]
mod pictures;
mod session_settings;
mod shell;
#[path = "../suite/support/mod.rs"]
#[allow(dead_code, unused_imports, reason = "each of the binaries uses its own part of it")]
#[allow(
    clippy::needless_pass_by_value,
    clippy::match_bool,
    clippy::type_complexity,
    reason = "as the suite allows"
)]
mod support;
#[cfg(unix)]
mod terminal;
#[cfg(unix)]
mod watching;
