//! The local engine against the transcripts of the real one, and what the transcripts do not show.

#![allow(clippy::unwrap_used)]

#[path = "local_engine/faults.rs"]
mod faults;
#[path = "local_engine/host.rs"]
mod host;
#[path = "local_engine/protocol.rs"]
mod protocol;
#[path = "suite/support/real_engine.rs"]
mod real_engine;
#[path = "local_engine/replay.rs"]
mod replay;
#[path = "local_engine/stand_ins.rs"]
mod stand_ins;
#[path = "local_engine/transcripts.rs"]
mod transcripts;
#[path = "suite/support/wait.rs"]
mod wait;
#[path = "local_engine/wire.rs"]
mod wire;
