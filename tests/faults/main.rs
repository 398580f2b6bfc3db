//! Real processes under faults (contract §2, §3, §9): what is promised when the worker, the engine or the network fails.
//!
//! Every test runs on the crate's local engine and, when `III_ENGINE_BIN` names one, on a real engine. Peers, worker
//! process and the fault-injecting wire are those of the integration suite; this binary adds an engine that can be
//! killed, frozen and started again with or without its state, and a relay that stops the world at one named frame.
#![allow(clippy::unwrap_used)]

mod answer_guard;
mod crash_points;
mod engine;
mod in_flight;
mod leaks;
mod lost_and_late;
mod process;
mod relay;
mod soak;
mod standby;
mod standing_up;
#[path = "../suite/support/mod.rs"]
#[allow(dead_code, unused_imports, reason = "each of the two binaries uses its own part of it")]
#[allow(
    clippy::needless_pass_by_value,
    clippy::match_bool,
    clippy::type_complexity,
    reason = "as the suite allows"
)]
mod support;
mod world;
