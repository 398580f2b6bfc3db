//! What the suite stands on: a real worker process, an engine, and peers that are an independent reading of the protocol.
//!
//! Nothing here uses the crate's own client, so a mistake in it cannot hide itself. The crate is used in one place:
//! `engine`, for the local engine.

pub mod cases;
pub mod engine;
pub mod frames;
pub mod peer;
pub mod real_engine;
pub mod script;
pub mod siblings;
pub mod stage;
pub mod values;
pub mod wait;
pub mod wire;
pub mod worker;

pub use script::{Latch, Script};
pub use stage::{Stage, StageOptions};
pub use wait::eventually;
