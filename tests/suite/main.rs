//! The integration suite: the real binary against an engine, through a real WebSocket.
//!
//! It runs on the crate's local engine and, when `III_ENGINE_BIN` names one, on a real engine. Expectations come from
//! the contract and from the case files in `tests/cases`, never from the code.
#![allow(clippy::unwrap_used)]

mod field_cases;
mod events;
mod gate;
mod inbox;
mod lifecycle;
mod observed;
mod resolve;
mod settings;
mod support;
mod watch;
