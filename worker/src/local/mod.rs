//! A small engine in one process, for trying the worker out and for tests. It is not an engine to run anything on.
//!
//! It speaks the worker protocol of engine 0.23 on a loopback address, keeps `state` and `configuration` in memory,
//! and can stand in for the harness, the session manager and a jailed shell. It must not know the rest of this
//! crate: it is a second, independent reading of the protocol, so that a mistake on one side shows on the other.
//! The non-obvious fact: where the real engine lets a stuck reader block other connections, this one never does; it
//! cuts the stuck connection instead.
//!
//! | file | holds |
//! |--|--|
//! | `engine` | start, stop, the public handle |
//! | `connection` | one socket: handshake, reading, writing |
//! | `frame` | the words on the wire |
//! | `hub` | everything shared by the connections; routing of one call |
//! | `world` | who is connected and what they registered |
//! | `triggers` | trigger types and binds; who is told what when one comes or goes |
//! | `functions`, `workers` | the introspection calls, announcing and binding |
//! | `builtin` | the table of built-in functions and types |
//! | `state`, `state_update` | the `state` worker |
//! | `configuration`, `expand` | the `configuration` worker |
//! | `harness`, `harness_hooks`, `target`, `release`, `turns` | the stand-in harness |
//! | `filesystem` | the stand-in's folder grants and the pretend jailed shell |
//! | `session_manager` | the stand-in session manager |
//! | `faults` | the table of things that go wrong on demand |

mod builtin;
mod clock;
mod configuration;
mod connection;
mod engine;
mod expand;
mod faults;
mod filesystem;
mod frame;
mod functions;
mod harness;
mod harness_hooks;
mod hub;
mod release;
mod schema;
mod session_manager;
mod state;
mod state_update;
mod target;
mod triggers;
mod turns;
mod workers;
mod world;

pub use configuration::ConfigurationStore;
pub use engine::{Counts, Engine, EngineOptions, StartError, Stores};
pub use faults::{Fault, FaultId, Faults, Rule};
pub use session_manager::Sessions;
pub use state::StateStore;
pub use turns::Turns;

/// What the engine says of itself when it starts.
pub const BANNER: &str = "local engine: for trying out and for tests only; loopback only, nothing is kept on disk, nothing is secured";
