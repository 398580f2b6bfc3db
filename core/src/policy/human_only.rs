//! Calls that only a person may make: no mode, list or rule opens them (contract §1.2).
//!
//! The two namespaces are the front doors. The others are calls through which a caller could rewrite the gate's own
//! decisions: its rows in `state`, the harness's release and file grants, a trigger or job that makes one of these
//! calls later, on nobody's behalf. Knows function ids and the few argument names that matter; must not know modes,
//! lists or rules.
//!
//! Not obvious: arguments need not be an object to be understood. The engine's own functions read an array by position,
//! and some targets take JSON as text, so `described` reads those too. Prose is never searched.
//!
//! `session::delete` and `harness::on-session-deleted` are ordinary. They end holds, which denies the calls, and they
//! drop a session's settings, which brings back the deployment's defaults; neither lets a held call run, and the
//! contract does not list them.

mod described;
mod fields;
mod kind;
mod registration;
#[cfg(test)]
mod tests;

use kind::Kind;
use serde_json::Value;

use super::pattern;

/// Which door a refused call was about to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Door {
    /// A function under `approval::`.
    Approval,
    /// A function under `configuration::`.
    Configuration,
    /// A write to one of the state scopes that hold decisions.
    State,
    /// The harness's own release of a held call.
    Release,
    /// The harness's file access grants.
    FilesystemGrants,
    /// A trigger, job or message that makes a human-only call later.
    Deferred,
    /// A binding to the harness's hooks, beside or in place of the gate.
    Hook,
    /// A binding to what the gate tells or asks other workers, beyond the two published events.
    Listener,
    /// The gate's own bindings.
    OwnBinding,
    /// A worker that signs on under the gate's name.
    OwnName,
}

impl Door {
    /// What the call would have done, for a sentence that begins with "the call".
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Approval => "addresses the approval gate itself",
            Self::Configuration => "addresses the configuration of workers",
            Self::State => "writes state that holds permission decisions",
            Self::Release => "releases a held call",
            Self::FilesystemGrants => "changes file access grants",
            Self::Deferred => "arranges for a human-only function to be called",
            Self::Hook => "binds to the harness's hooks",
            Self::Listener => "binds to what the approval gate tells or asks other workers",
            Self::OwnBinding => "touches a binding of the approval gate",
            Self::OwnName => "takes the name of the approval gate",
        }
    }
}

/// State scopes that begin with this are the gate's.
const OWN_SCOPES: &str = "approval_";
/// The scope in which the harness keeps what `harness::filesystem::grant` gave.
const GRANT_SCOPE: &str = "harness_filesystem_grants";
/// The gate's bindings have ids that begin with this (contract §9).
const OWN_BINDINGS: &str = "approval-gate/";
/// The name under which the gate is known to the engine.
const OWN_NAME: &str = "approval-gate";
const RELEASE: &str = "harness::function::resolve";
const HOOK_TYPES: &str = "harness::hook::";
/// Trigger types of the gate's own.
const OWN_TYPES: &str = "approval::";
/// Those of them that the published worker has, and to which anybody may bind.
const OPEN_TYPES: [&str; 2] = ["approval::pending-created", "approval::pending-resolved"];
const FILESYSTEM: [&str; 2] = ["harness::filesystem::", "harness::workspace::"];
const FILESYSTEM_READS: [&str; 2] = ["grants", "info"];

/// The door that this call would use, if it is human-only.
pub fn door(function_id: &str, arguments: &Value) -> Option<Door> {
    door_of_id(function_id).or_else(|| described::door_of_arguments(function_id, arguments))
}

/// Says whether arguments, given as JSON text, could open a door that the function's id alone does not. Coarse, and
/// never blind: arguments that are not looked at open none, nor does any part of them.
pub fn looks_at_arguments(function_id: &str, arguments: &str) -> bool {
    match Kind::of(function_id) {
        Kind::Plain => false,
        Kind::Registration => true,
        Kind::StateWrite | Kind::Deferral => kind::creates(function_id) || may_spell_a_door(arguments),
    }
}

/// The words without one of which no write, call or registration is a door, each with three bytes from its middle.
const WORDS: [(&[u8], [u8; 3]); 6] = [
    (b"approval", *b"ppr"),
    (b"configuration", *b"nfi"),
    (b"harness", *b"rne"),
    (b"register", *b"gis"),
    (b"bind", *b"bin"),
    (b"subscribe", *b"bsc"),
];

/// Whether one of [`WORDS`] stands in a text, in any case. Escapes could spell anything, and so could letters that are
/// capitals of others.
fn may_spell_a_door(text: &str) -> bool {
    let text = text.as_bytes();
    if has_no_trace_of_a_word(text) {
        return false;
    }
    text.iter().enumerate().any(|(at, byte)| match byte {
        b'\\' | 0x80.. => true,
        // No further than to the first letter for nearly all of them.
        b'a'..=b's' | b'A'..=b'S' => WORDS.iter().any(|(word, _)| {
            byte | 0x20 == word[0]
                && text[at..].get(..word.len()).is_some_and(|part| part.eq_ignore_ascii_case(word))
        }),
        _ => false,
    })
}

/// Whether a text, of ASCII without escapes, has the three bytes of no word in it. It takes many bytes at once.
fn has_no_trace_of_a_word(text: &[u8]) -> bool {
    let is_strange = |byte: &u8| u8::from(*byte == b'\\') | (byte & 0x80);
    let strange = text.iter().fold(0, |found, byte| found | is_strange(byte)) != 0;
    let behind = |places: usize| text.get(places..).unwrap_or_default();
    let holds = |(_, [first, second, third]): (&[u8], [u8; 3])| {
        let is = |byte: &u8, letter: u8| u8::from(byte | 0x20 == letter);
        let places = text.iter().zip(behind(1)).zip(behind(2));
        places.fold(0, |found, ((a, b), c)| found | (is(a, first) & is(b, second) & is(c, third))) != 0
    };
    !strange && !WORDS.into_iter().any(holds)
}

/// The door of an id that is human-only whatever its arguments.
///
/// The namespace is what stands before the first `::`, so `approvals::report` and `docs::approval::list` are ordinary.
pub fn door_of_id(function_id: &str) -> Option<Door> {
    if function_id.starts_with("approval::") {
        Some(Door::Approval)
    } else if function_id.starts_with("configuration::") {
        Some(Door::Configuration)
    } else if function_id == RELEASE {
        Some(Door::Release)
    } else {
        changes_filesystem_grants(function_id).then_some(Door::FilesystemGrants)
    }
}

/// Says whether a list entry could only ever name human-only functions, so that remembering it means nothing.
pub fn names_only_human_only(entry: &str) -> bool {
    if !pattern::is_open(entry) {
        return door_of_id(entry).is_some();
    }
    match door_of_id(pattern::head(entry)) {
        Some(Door::Approval | Door::Configuration) => true,
        // `harness::filesystem::*` also names the two that read.
        Some(Door::FilesystemGrants) => !FILESYSTEM.iter().any(|space| {
            FILESYSTEM_READS.iter().any(|read| pattern::matches(entry, &format!("{space}{read}")))
        }),
        _ => false,
    }
}

fn changes_filesystem_grants(function_id: &str) -> bool {
    FILESYSTEM
        .iter()
        .find_map(|space| function_id.strip_prefix(space))
        .is_some_and(|name| !FILESYSTEM_READS.contains(&name))
}

/// Whether rows of this scope are decisions.
fn holds_decisions(scope: &str) -> bool {
    scope.starts_with(OWN_SCOPES) || scope == GRANT_SCOPE
}

/// Whether an id is human-only. Text with blanks in it is a sentence about one.
fn is_human_only(text: &str) -> bool {
    let id = text.trim();
    door_of_id(id).is_some() && !id.contains(char::is_whitespace)
}
