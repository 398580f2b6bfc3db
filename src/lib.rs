//! `approval-gate`: where an agent's function call is allowed, denied, or held for a person.
//!
//! Three rings. The pure core (`policy`, `hold`, `redact`, `fsaccess`) turns values into values and knows neither
//! sockets nor clocks. The edges (`iii`, `siblings`, `keep`, `events`, `audit`) remember, ask and tell. `handlers` holds one
//! file per registered function and joins the two. `wire` is what crosses the socket. `local` is a small engine in
//! one process; nothing but the command line knows it.

pub mod audit;
pub mod boot;
pub mod cli;
pub mod clock;
pub mod commands;
pub mod events;
pub mod fsaccess;
pub mod handlers;
pub mod hold;
pub mod iii;
pub mod keep;
pub mod local;
pub mod manifest;
pub mod policy;
pub mod redact;
pub mod seed;
pub mod siblings;
pub mod wire;
