//! Finds, in a call's arguments, the write, binding or later call that makes it human-only (contract §1.2).
//!
//! Must not guess at prose: strings are compared, as ids, scopes and types, where such a thing can stand, and are read as
//! JSON where a payload can stand. Not obvious: an array is an object whose field names were left out, so any of its
//! strings may be any field; and what is buried below [`DEPTH`] levels is no longer read but only looked through for
//! words that a door needs, since deep arguments alone are no offence.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::fields::{PAYLOAD_KEYS, holds_a_payload, names_a_function, targets, text};
use super::kind::{self, Kind};
use super::registration::{
    ENGINE, door_of_binding, door_of_named_registration, door_of_positional_registration,
    door_of_registration, is_blind, is_own_name,
};
use super::{
    Door, FILESYSTEM, GRANT_SCOPE, HOOK_TYPES, OWN_BINDINGS, OWN_NAME, OWN_SCOPES, RELEASE, holds_decisions,
    is_human_only,
};

/// How many levels of containers below the arguments themselves are read.
const DEPTH: u8 = 8;
const SIGN_ON: &str = "engine::workers::";

/// The door that a call opens by its arguments.
pub(super) fn door_of_arguments(function_id: &str, arguments: &Value) -> Option<Door> {
    let kind = Kind::of(function_id);
    if kind == Kind::Plain {
        return None;
    }
    let arguments = unwrapped(arguments);
    let arguments = arguments.as_ref();
    match kind {
        Kind::StateWrite => writes_decisions(arguments, 0).then_some(Door::State),
        Kind::Registration => {
            door_of_registration(arguments, function_id.starts_with(SIGN_ON), 0).or_else(|| {
                Search { deep_is_door: true }
                    .describes(arguments, Asked::default(), Place::Arguments, 0)
                    .then_some(Door::Deferred)
            })
        }
        Kind::Deferral => {
            let blind = kind::creates(function_id) && stands_for_unseen_arguments(arguments);
            let search = Search { deep_is_door: false };
            (blind || search.describes(arguments, Asked::default(), Place::Arguments, 0))
                .then_some(Door::Deferred)
        }
        Kind::Plain => None,
    }
}

/// A value, or what it says if it is JSON written as text, however often it was written so.
fn unwrapped(value: &Value) -> Cow<'_, Value> {
    let mut value = Cow::Borrowed(value);
    for _ in 0..DEPTH {
        match value.as_str().and_then(|text| parsed(text).ok()) {
            Some(inner) => value = Cow::Owned(inner),
            None => break,
        }
    }
    value
}

/// Text could not be read as JSON.
enum NotRead {
    /// It is no JSON.
    Prose,
    /// It is JSON, as far as it was read, nested past what the parser bears.
    TooDeep,
}

/// Linear in the text; each text is parsed once per level of writing, so the whole is bounded by [`DEPTH`].
fn parsed(text: &str) -> Result<Value, NotRead> {
    if !text.trim_start().starts_with(['{', '[', '"']) {
        return Err(NotRead::Prose);
    }
    serde_json::from_str(text).map_err(|error| {
        // The parser has no other way to tell this from a slip in the text.
        if error.to_string().starts_with("recursion limit") { NotRead::TooDeep } else { NotRead::Prose }
    })
}

/// Whether these are the arguments of a write to decisions, by name or by position.
fn writes_decisions(arguments: &Value, level: u8) -> bool {
    match arguments {
        Value::Object(fields) => fields.get("scope").and_then(Value::as_str).is_some_and(holds_decisions),
        Value::Array(items) if level <= DEPTH => items.iter().any(|item| match item {
            Value::String(text) => holds_decisions(text),
            other => writes_decisions(other, level + 1),
        }),
        Value::String(text) => matches!(parsed(text), Err(NotRead::TooDeep)) && text_speaks_of_a_door(text),
        _ => false,
    }
}

/// A standing order that shows no payload runs its target on an event, like a binding; one that shows it is read.
fn stands_for_unseen_arguments(arguments: &Value) -> bool {
    let Some(fields) = arguments.as_object() else { return false };
    let shown = fields.iter().any(|(key, value)| !value.is_null() && PAYLOAD_KEYS.contains(&key.as_str()));
    !shown && targets(fields).any(is_blind)
}

/// What a value stands for, by where it was found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The arguments of a call: text is JSON, an array is an object without its keys.
    Arguments,
    /// Under the name of a payload: text is JSON.
    Payload,
    /// Under the name of a function.
    Function,
    /// Anything.
    Other,
}

/// What the calls described further out do with their arguments, which is what is being read.
#[derive(Clone, Copy, Default)]
struct Asked {
    state_write: bool,
    /// Of whatever it is: a worker's too.
    registration: bool,
    relay: bool,
}

impl Asked {
    fn with(mut self, target: &str) -> Self {
        // Without a namespace it is a file, a host, an environment: `target: "run"`.
        if target.contains("::") {
            self.state_write |= Kind::of(target) == Kind::StateWrite;
            self.registration |= Kind::of(target) == Kind::Registration;
            self.relay |= kind::relays(target);
        }
        self
    }

    /// What holds one level further in. A relay gives its arguments a meaning of their own only where they stand.
    fn and_then(self, own: Self) -> Self {
        Self {
            state_write: self.state_write || own.state_write,
            registration: self.registration || own.registration,
            relay: false,
        }
    }

    fn any(self) -> bool {
        self.state_write || self.registration || self.relay
    }
}

/// Looks for a described call to a human-only function: in these arguments and in the containers within them.
///
/// Each value is seen once, however many targets are named: the arguments are hostile and may be long.
struct Search {
    /// Whether containers below [`DEPTH`] are a door whatever is in them.
    deep_is_door: bool,
}

impl Search {
    fn describes(&self, value: &Value, asked: Asked, place: Place, level: u8) -> bool {
        match value {
            Value::Object(_) | Value::Array(_) if level > DEPTH => {
                self.deep_is_door || asked.registration || speaks_of_a_door(value)
            }
            Value::Object(fields) => self.object_describes(fields, asked, level),
            Value::Array(items) => self.array_describes(items, asked, place, level),
            Value::String(text) => self.text_describes(text, asked, place, level),
            _ => false,
        }
    }

    fn object_describes(&self, fields: &Map<String, Value>, asked: Asked, level: u8) -> bool {
        let mut own = Asked::default();
        for target in targets(fields) {
            if is_human_only(target) {
                return true;
            }
            own = own.with(target);
        }
        let scope = text(fields, "scope");
        if ((asked.state_write || own.state_write) && scope.is_some_and(holds_decisions))
            || (asked.registration && door_of_named_registration(fields, true).is_some())
            || (own.registration && door_of_binding(fields, true).is_some())
        {
            return true;
        }
        fields.iter().any(|(key, value)| {
            let payload = holds_a_payload(key);
            let place = match key.as_str() {
                key if names_a_function(key) => Place::Function,
                _ if own.any() => Place::Arguments,
                _ if payload => Place::Payload,
                _ => Place::Other,
            };
            // A write that says its scope has said what it writes to; its value is content.
            let asked = Asked { state_write: asked.state_write && (scope.is_none() || payload), ..asked };
            self.describes(value, asked.and_then(own), place, level + 1)
        })
    }

    fn array_describes(&self, items: &[Value], asked: Asked, place: Place, level: u8) -> bool {
        let texts = || items.iter().filter_map(Value::as_str);
        // A name followed by arguments is a call written by position; names alone may be tags or words of a command.
        let is_call =
            texts().next().is_some() && items.iter().any(|item| item.is_object() || item.is_array());
        let by_position = is_call || matches!(place, Place::Arguments | Place::Function);
        if by_position && texts().any(is_human_only) {
            return true;
        }
        let own = if by_position { texts().fold(Asked::default(), Asked::with) } else { Asked::default() };
        let below = asked.and_then(own);
        // The registration that is named here is no argument of itself.
        let argues = |text: &&str| asked.registration || Kind::of(text) != Kind::Registration;
        let mut arguments = texts().filter(argues);
        if (below.state_write && texts().any(holds_decisions))
            || (below.registration
                && arguments.any(|text| door_of_positional_registration(text, true).is_some()))
        {
            return true;
        }
        let place = if own.any() { Place::Arguments } else { place };
        items.iter().any(|item| self.describes(item, below, place, level + 1))
    }

    fn text_describes(&self, text: &str, asked: Asked, place: Place, level: u8) -> bool {
        if place == Place::Function && is_human_only(text) {
            return true;
        }
        if place == Place::Other && !asked.any() {
            return false;
        }
        match parsed(text) {
            Ok(_) if level > DEPTH => self.deep_is_door || text_speaks_of_a_door(text),
            Ok(value) => self.describes(&value, asked, place, level + 1),
            Err(NotRead::TooDeep) => self.deep_is_door || text_speaks_of_a_door(text),
            Err(NotRead::Prose) => false,
        }
    }
}

/// Whether a string, anywhere in a value, could play a part in a door. Coarse, and never blind.
fn speaks_of_a_door(value: &Value) -> bool {
    let mut left = vec![value];
    while let Some(value) = left.pop() {
        match value {
            Value::String(text) if text_speaks_of_a_door(text) => return true,
            Value::Array(items) => left.extend(items),
            Value::Object(fields) => left.extend(fields.values()),
            _ => {}
        }
    }
    false
}

fn text_speaks_of_a_door(text: &str) -> bool {
    let text = text.trim();
    if text.starts_with(['{', '[', '"']) {
        // Escapes could spell anything; what is spelt out is found.
        let parts = ["approval::", "configuration::", RELEASE, HOOK_TYPES, OWN_SCOPES, GRANT_SCOPE, OWN_NAME];
        return text.contains("\\u") || parts.iter().chain(&FILESYSTEM).any(|part| text.contains(part));
    }
    is_human_only(text)
        || holds_decisions(text)
        || text.starts_with(HOOK_TYPES)
        || text.starts_with(OWN_BINDINGS)
        || is_own_name(text)
        || (text.starts_with(ENGINE) && Kind::of(text) == Kind::Registration)
}
