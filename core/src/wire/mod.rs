//! What crosses the socket between this worker, its callers and the workers around it.
//!
//! Every derive below is a promise to somebody outside, so nothing here decides anything: shapes, strict and lenient
//! readers, and the texts that go with them. `hook` faces the harness's hook chain, `inbox`, `resolve`, `settings`,
//! `lifecycle`, `events` and `answerer` are our own functions and trigger types, `record`, `settings` and `filesystem` are what lies
//! in state, `harness`, `session`, `shell` and `state` are what we ask of siblings. Unknown fields are ignored everywhere but in
//! `events::BindingConfig` and `answerer`; an older word is accepted where contract §0 lists it, and sent nowhere but to an older
//! peer. `schema` publishes the shapes; its output is held to the published worker's by a test.

pub mod answerer;
pub mod approved_rules;
pub mod audit;
pub mod config;
pub mod denial;
pub mod error;
pub mod evaluation;
pub mod events;
pub mod explanation;
pub mod filesystem;
pub mod harness;
pub mod hook;
pub mod inbox;
pub mod lifecycle;
pub mod prompts;
pub mod record;
pub mod resolve;
pub mod schema;
pub mod session;
pub mod settings;
pub mod shell;
pub mod state;
