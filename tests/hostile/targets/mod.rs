//! What is done with hostile bytes, and what must be so afterwards: one function for each way in.
//!
//! The fuzz targets and the ordinary tests run these same functions, so that what is found by one is kept by the other. A
//! function takes any bytes and never fails on account of them; it panics where a promise of the gate is broken. It
//! knows only what the crate shows to everybody, and judges by rules of its own wherever the crate could be wrong about
//! itself.

mod filesystem;
mod planted;
mod policy;
mod redaction;
mod wire;

use std::borrow::Cow;

use serde_json::Value;

/// What a target is: it takes any bytes, and panics if a promise is broken.
pub type Target = fn(&[u8]);

/// Every target: its name, which is also that of its directory of seeds, and its function.
pub const ALL: [(&str, Target); 9] = [
    ("access_request", filesystem::access_request),
    ("cursor", wire::cursor),
    ("frame", wire::frame),
    ("hook", wire::hook),
    ("path", filesystem::path),
    ("redaction", redaction::redaction),
    ("rules", policy::rules),
    ("seed_file", policy::seed_file),
    ("stored_row", wire::stored_row),
];

/// Runs one target.
pub fn run(name: &str, bytes: &[u8]) {
    let target = ALL.iter().find(|(known, _)| *known == name);
    let (_, check) = target.unwrap_or_else(|| panic!("there is no target `{name}`"));
    check(bytes);
}

fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// The bytes as JSON; what is no JSON is a string.
fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_else(|_| Value::String(text(bytes).into_owned()))
}

/// Whether a character can mislead a reader without being seen: written from the contract's words, not from the code.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}')
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        || matches!(c, '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// Fails if a text for people has hidden characters in it.
fn assert_plain(text: &str) {
    assert!(!text.chars().any(is_hidden), "hidden characters in {text:?}");
}
