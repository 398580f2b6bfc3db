//! What registrations and bindings say of themselves (contract §1.2): hooks, the gate's own bindings and name, targets.
//!
//! Must not search: calls described further in are for `described`. Not obvious: an event becomes the arguments of the
//! target, so some targets are doors with no human-only id in sight.

use serde_json::{Map, Value};

use super::fields::{targets, text};
use super::kind::{self, Kind};
use super::{
    Door, HOOK_TYPES, OPEN_TYPES, OWN_BINDINGS, OWN_NAME, OWN_TYPES, holds_decisions, is_human_only,
};

/// Functions in this namespace register and bind for everybody.
pub(super) const ENGINE: &str = "engine::";

/// How many arrays in arrays are read.
const DEPTH: u8 = 8;

/// What a registration itself says; calls described within it are looked for apart.
pub(super) fn door_of_registration(arguments: &Value, signs_on: bool, level: u8) -> Option<Door> {
    match arguments {
        Value::Object(fields) => door_of_named_registration(fields, signs_on),
        Value::Array(items) if level <= DEPTH => items.iter().find_map(|item| match item {
            Value::String(text) => door_of_positional_registration(text, signs_on),
            other => door_of_registration(other, signs_on, level + 1),
        }),
        _ => None,
    }
}

/// The door of a registration given by names. `signs_on` says that it may be that of a worker.
pub(super) fn door_of_named_registration(fields: &Map<String, Value>, signs_on: bool) -> Option<Door> {
    if let Some(door) = door_of_binding(fields, signs_on) {
        return Some(door);
    }
    // Whoever registers a function under a human-only id answers in its place.
    let deferred = text(fields, "id").is_some_and(is_human_only)
        || targets(fields).any(|target| {
            is_human_only(target) || (is_blind(target) && !watches_other_state(fields, target))
        });
    deferred.then_some(Door::Deferred)
}

/// What is bound, whatever it is bound to.
pub(super) fn door_of_binding(fields: &Map<String, Value>, signs_on: bool) -> Option<Door> {
    let text = |key| text(fields, key).unwrap_or_default();
    if text("trigger_type").starts_with(HOOK_TYPES) {
        return Some(Door::Hook);
    }
    if text("trigger_type").starts_with(OWN_TYPES) && !OPEN_TYPES.contains(&text("trigger_type")) {
        return Some(Door::Listener);
    }
    if text("id").starts_with(OWN_BINDINGS) {
        return Some(Door::OwnBinding);
    }
    if signs_on && ["name", "worker_name"].into_iter().any(|key| is_own_name(text(key))) {
        return Some(Door::OwnName);
    }
    None
}

/// The door of a registration of which this is some argument.
pub(super) fn door_of_positional_registration(text: &str, signs_on: bool) -> Option<Door> {
    if text.starts_with(HOOK_TYPES) {
        Some(Door::Hook)
    } else if text.starts_with(OWN_BINDINGS) {
        Some(Door::OwnBinding)
    } else if signs_on && is_own_name(text) {
        Some(Door::OwnName)
    } else {
        (is_human_only(text) || is_blind(text)).then_some(Door::Deferred)
    }
}

/// Consoles and people tell workers apart by eye, so a name that only looks like the gate's is taken for it.
pub(super) fn is_own_name(name: &str) -> bool {
    name.trim().to_lowercase() == OWN_NAME
}

/// An event becomes the arguments of a binding's target, and nobody sees them now. So a target whose harm lies in its
/// arguments cannot be let through: a queue message could be any state write, any further registration, any call.
pub(super) fn is_blind(target: &str) -> bool {
    match Kind::of(target) {
        Kind::StateWrite => true,
        Kind::Registration => target.starts_with(ENGINE),
        Kind::Deferral => kind::relays(target),
        Kind::Plain => false,
    }
}

/// A `state` trigger alone is known to repeat, to a state write, the scope that it watches.
fn watches_other_state(fields: &Map<String, Value>, target: &str) -> bool {
    let watched = fields.get("config").and_then(|config| config.get("scope")).and_then(Value::as_str);
    Kind::of(target) == Kind::StateWrite
        && text(fields, "trigger_type") == Some("state")
        && watched.is_some_and(|scope| !holds_decisions(scope))
}
