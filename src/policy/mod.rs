//! Stub.

pub mod settings;
