//! Everything that is remembered, and for how long.
//!
//! | what | where | written by | ends with |
//! |---|---|---|---|
//! | held calls | store, `approval_pending` | [`inbox`] | resolve, turn end, session end, a newer hold |
//! | the inbox's rows as readers need them | memory, `inbox_view` | [`inbox`] | the row, a lost connection |
//! | settings as the gate needs them | memory, [`settings_view`] | [`settings`] | a change, a lost connection |
//! | settings, prompt policy, approved rules | store, `approval_settings` | [`settings`], [`additions`] | `clear-settings`, session end |
//! | refused roots | store, `approval_filesystem_access_denied` | [`filesystem`] | session end |
//! | how often the watch asked | store, `approval_filesystem_access_attempts` | [`filesystem`] | turn end, session end |
//! | decisions being carried out | memory, [`decisions`] | [`inbox`] | the harness's answer |
//! | calls just released | memory, [`released`] | [`inbox`] | an hour, turn end, session end |
//! | ends that were told and whose marker still stands | memory, [`inbox`] | [`inbox`] | the marker's deletion |
//! | calls that may come to be held | memory, [`in_progress`] | [`inbox`] | the write's answer |
//! | holds made while an earlier ending is cleared up | memory, `endings` | [`inbox`] | the end of the clearing up |
//! | the policy in force | memory, [`live_config`] | `configuration::get` | the next valid value |
//!
//! The store is the truth. One owner per row key at a time ([`keyed_lock`]), and never across a call into the
//! harness that could call us back.

pub mod additions;
pub mod background;
pub mod decisions;
mod endings;
pub mod filesystem;
pub mod in_progress;
pub mod inbox;
mod inbox_view;
pub mod keyed_lock;
pub mod live_config;
mod over_defaults;
mod purge;
mod reconcile;
pub mod released;
mod rows;
pub mod settings;
pub mod settings_view;
mod slot;
mod taking;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
