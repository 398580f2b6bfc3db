//! The integration suite: the real binary against an engine, through a real WebSocket.
//!
//! It runs on the crate's local engine and, when `III_ENGINE_BIN` names one, on a real engine. Expectations come from
//! the contract and from the case files in `tests/cases`, never from the code. `CASE=<id>` plays one case only, and
//! `APPROVAL_GATE_BIN` names another binary to test.
#![allow(clippy::unwrap_used)]
// Payloads are written in place and handed over; a `match` on a condition lines its two outcomes up.
#![allow(clippy::needless_pass_by_value, clippy::match_bool, clippy::match_same_arms)]
#![allow(clippy::semicolon_if_nothing_returned, clippy::struct_field_names, clippy::type_complexity)]

mod answerers;
mod approved_rules;
mod audit;
mod boot;
mod digest;
mod evaluate;
mod events;
mod field_cases;
mod gate;
mod house_rules;
mod inbox;
mod lifecycle;
mod observed;
mod process;
mod prompt_policy;
mod resolve;
mod settings;
mod support;
mod watch;
