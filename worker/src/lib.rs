//! `approval-gate`: where an agent's function call is allowed, denied, or held for a person.
//!
//! Three rings. The pure core (`policy`, `hold`, `redact`, `fsaccess`, a crate of its own) turns values into values and
//! knows neither sockets nor clocks. The edges (`iii`, `siblings`, `keep`, `events`, `audit`) remember, ask and tell. `handlers` holds one
//! file per registered function and joins the two. `wire` is what crosses the socket. `local` is a small engine in
//! one process; nothing but the command line knows it.

pub mod audit;
pub mod boot;
pub mod cli;
pub mod clock;
pub mod commands;
pub mod events;
pub mod handlers;
pub mod keep;
pub mod local;
pub mod manifest;
pub mod seed;
pub mod siblings;

pub use approval_gate_core::{fsaccess, hold, policy, redact, wire};
pub use iii_client as iii;
