//! The request at the end of a jail error's message, in either vocabulary (contract §0, §4).
//!
//! It reads text that an agent can write into, by choosing file names: so the last marker alone counts, whatever it
//! turns out to be, and its JSON has to run to the very end. It does not judge what is asked.

use serde_json::Value;

use super::StandDown;

/// How much of the end of a message is looked at, in bytes.
const LOOKED_AT_BYTES: usize = 64 * 1024;

/// The words of one generation: its marker, and the names of root, path and code.
struct Vocabulary {
    marker: &'static str,
    root: &'static str,
    path: &'static str,
    code: &'static str,
}

const VOCABULARIES: [Vocabulary; 2] = [
    Vocabulary {
        marker: "filesystem_access_request=",
        root: "requested_root",
        path: "attempted_path",
        code: "error_code",
    },
    Vocabulary { marker: "grant_hint=", root: "dir", path: "path", code: "code" },
];

/// What a tail says, unjudged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tail {
    pub root: String,
    /// Empty if the tail names none.
    pub path: String,
    pub code: Option<String>,
}

/// Whether a text carries a marker of either vocabulary.
pub(super) fn has_marker(text: &str) -> bool {
    VOCABULARIES.iter().any(|words| text.contains(words.marker))
}

/// Reads the tail of a message. [`StandDown::NoTail`] means that there is no marker at all.
pub(super) fn read(message: &str) -> Result<Tail, StandDown> {
    let message = &message[message.ceil_char_boundary(message.len().saturating_sub(LOOKED_AT_BYTES))..];
    let last = VOCABULARIES
        .iter()
        .filter_map(|words| message.rfind(words.marker).map(|start| (start + words.marker.len(), words)))
        .max_by_key(|(start, _)| *start);
    let (start, words) = last.ok_or(StandDown::NoTail)?;
    let request: Value = serde_json::from_str(&message[start..]).map_err(|_| StandDown::UnreadableTail)?;
    if !request.is_object() {
        return Err(StandDown::UnreadableTail);
    }
    if request.get("v").and_then(Value::as_u64) != Some(1) {
        return Err(StandDown::OtherVersion);
    }
    Ok(Tail {
        root: text(&request, words.root)?.ok_or(StandDown::UnreadableTail)?,
        path: text(&request, words.path)?.unwrap_or_default(),
        code: text(&request, words.code)?,
    })
}

/// A member that may be absent but, when present, must be a string; `null` is absent.
fn text(request: &Value, name: &str) -> Result<Option<String>, StandDown> {
    match request.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(StandDown::UnreadableTail),
    }
}
