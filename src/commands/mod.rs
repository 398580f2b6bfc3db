//! What the binary does, one file per command. The only part of the worker that knows the local engine.

pub mod call;
pub mod demo;
pub mod embedded;
pub mod worker;
