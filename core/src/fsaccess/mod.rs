//! When a jail error of the shell or the coder becomes a question to a person (contract §4): the pure rungs.
//!
//! Every rung answers by standing down, because the hook fails open: what is not surely a request goes to the model
//! as the error it was. The order is the contract's: [`asked`] takes rungs 1 to 3, [`stands_down`] rung 4, and the
//! caller, who knows grants, denials and counts, asks [`covered_by`] for rungs 5 and 6. Containment is lexical; see
//! [`path`].

pub mod path;
mod tail;

#[cfg(test)]
mod tests;

use serde_json::Value;

use crate::redact::{is_hidden, visible_exact};

/// The codes of a jail error that a person can lift.
const CODES: [&str; 4] = ["S215", "S220", "C215", "C218"];

/// Longest path that is asked about, in bytes.
const PATH_BYTES: usize = 4096;

/// What a jail error asks to be let into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessRequest {
    /// The folder, absolute, normalised, never empty. It is what a grant names, and grants compare exact strings.
    pub requested_root: String,
    /// The path as the caller wrote it, hidden characters spelled; for show only. Empty if the error named none.
    pub attempted_path: String,
    /// The code of the error, else that of the tail: one of the four that can be lifted.
    pub error_code: String,
}

/// Why the watch lets an error pass without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StandDown {
    /// The call is none of the shell's or the coder's.
    #[error("the function is not watched")]
    NotWatched,
    /// The ids of the call cannot key a record.
    #[error("the ids of the call cannot key a record")]
    Unkeyable,
    /// Nobody is asked in this session.
    #[error("approval prompts are disabled in the session")]
    PromptsDisabled,
    /// What the gate remembers could not be read or written.
    #[error("the store is not available")]
    Unavailable,
    /// Rung 1: the call did not fail.
    #[error("the result is not an error")]
    NotAnError,
    /// Rung 1: `details.error` is absent or not an object.
    #[error("the result carries no error details")]
    NoError,
    /// Rung 2: not one of the codes that a person can lift.
    #[error("the error code is none that access could lift")]
    OtherCode,
    /// Rung 3: no marker where one may stand.
    #[error("the error carries no access request")]
    NoTail,
    /// Rung 3: a marker without readable JSON up to the end, or with a member of the wrong type.
    #[error("the access request cannot be read")]
    UnreadableTail,
    /// Rung 3: `v` is not the integer 1.
    #[error("the access request is of another version")]
    OtherVersion,
    /// Rung 3: the root is empty or relative.
    #[error("the requested root is not an absolute path")]
    RootNotAbsolute,
    /// Rung 3: the root or the path is longer than any file system takes.
    #[error("a path of the access request is too long")]
    PathTooLong,
    /// Rung 3: the root has characters in it that a reader would not see.
    #[error("the requested root has hidden characters in it")]
    DisguisedRoot,
    /// Rung 3: the call's own arguments carry a marker, so the request may be the agent's and not the jail's.
    #[error("the arguments of the call carry an access request of their own")]
    ForgedRequest,
    /// Rung 3: the root has a `${` in it, which a configuration would expand to another directory.
    #[error("the requested root has a placeholder in it")]
    PlaceholderRoot,
    /// Rung 4: the root is the session's workspace or under it, where access was given already.
    #[error("the requested root is inside the session workspace")]
    InsideWorkspace,
    /// Rung 4: one click would open the whole disk.
    #[error("the requested root is the whole disk")]
    WholeDisk,
    /// Rung 5: the grants could not be read, so an allow might loop.
    #[error("the grants of the session are unknown")]
    GrantsUnknown,
    /// Rung 5: a durable grant covers the root.
    #[error("the requested root is granted already")]
    AlreadyGranted,
    /// Rung 6: the root is under one that was denied in this session.
    #[error("the requested root was denied before in this session")]
    DeniedBefore,
    /// Rung 7: this call has been asked about as often as is allowed.
    #[error("the call has been asked about often enough")]
    AskedOften,
    /// Rung 8: the configuration wants somebody to be told, and nobody listens.
    #[error("nobody listens who could show the request")]
    NobodyListens,
}

/// How loudly a stand-down is to be logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Ordinary; nobody has to act.
    Quiet,
    /// An operator may want to look.
    Warn,
    /// Another worker is at fault.
    Error,
}

impl StandDown {
    /// How loudly to log it (contract §4).
    pub fn severity(self) -> Severity {
        match self {
            Self::InsideWorkspace => Severity::Error,
            Self::WholeDisk
            | Self::DisguisedRoot
            | Self::PlaceholderRoot
            | Self::ForgedRequest
            | Self::NobodyListens => Severity::Warn,
            _ => Severity::Quiet,
        }
    }
}

/// Whether the watch is about calls of this function: `shell::*` and `coder::*` (contract §4).
pub fn watches(function_id: &str) -> bool {
    function_id.starts_with("shell::") || function_id.starts_with("coder::")
}

/// Whether the call's own arguments carry a marker. An error message may repeat them to its very end without a tail
/// of its own, and would then ask for whatever the agent wrote.
pub fn carries_request(arguments: &Value) -> bool {
    match arguments {
        Value::String(text) => tail::has_marker(text),
        Value::Array(items) => items.iter().any(carries_request),
        Value::Object(fields) => {
            fields.iter().any(|(key, value)| tail::has_marker(key) || carries_request(value))
        }
        _ => false,
    }
}

/// What a post-trigger `result` asks for, if it asks: rungs 1 to 3. Any JSON is taken; what is not understood is not
/// a request.
pub fn asked(result: &Value) -> Result<AccessRequest, StandDown> {
    if result.get("is_error") != Some(&Value::Bool(true)) {
        return Err(StandDown::NotAnError);
    }
    let error =
        result.get("details").and_then(|details| details.get("error")).filter(|error| error.is_object());
    let error = error.ok_or(StandDown::NoError)?;
    let code = match error.get("code") {
        None | Some(Value::Null) => None,
        Some(code) => Some(code.as_str().filter(|code| CODES.contains(code)).ok_or(StandDown::OtherCode)?),
    };
    let message = error.get("message").and_then(Value::as_str).unwrap_or_default();
    let tail = match tail::read(message) {
        // Without a code the error may be a command's own, whose output could forge the request.
        Err(StandDown::NoTail) if code.is_some() => tail::read(first_text(result).unwrap_or_default()),
        read => read,
    }?;
    let code =
        code.or(tail.code.as_deref()).filter(|code| CODES.contains(code)).ok_or(StandDown::OtherCode)?;
    if tail.root.len() > PATH_BYTES || tail.path.len() > PATH_BYTES {
        return Err(StandDown::PathTooLong);
    }
    let requested_root = path::normalise(&tail.root).ok_or(StandDown::RootNotAbsolute)?;
    if requested_root.contains("${") {
        return Err(StandDown::PlaceholderRoot);
    }
    if requested_root.chars().any(is_hidden) {
        return Err(StandDown::DisguisedRoot);
    }
    Ok(AccessRequest {
        requested_root,
        attempted_path: visible_exact(&tail.path).into_owned(),
        error_code: code.to_owned(),
    })
}

/// The first text block of a result's content; blocks of other kinds are passed over.
fn first_text(result: &Value) -> Option<&str> {
    let blocks = result.get("content")?.as_array()?;
    blocks.iter().find_map(|block| block.get("text").and_then(Value::as_str))
}

/// Rung 4: whether the root is one that is never asked about. A workspace that is absent, empty or relative is
/// unknown, and nothing is inside it.
pub fn stands_down(request: &AccessRequest, workspace: Option<&str>) -> Option<StandDown> {
    if workspace.is_some_and(|workspace| path::contains(workspace, &request.requested_root)) {
        return Some(StandDown::InsideWorkspace);
    }
    (request.requested_root == "/").then_some(StandDown::WholeDisk)
}

/// Rungs 5 and 6: whether one of `roots` is `root` or above it. Relative entries cover nothing; an empty one covers
/// everything, as it does for the published worker: either answer of these rungs is to stand down, and that is the side to
/// err on.
pub fn covered_by<'a>(root: &str, roots: impl IntoIterator<Item = &'a str>) -> bool {
    roots.into_iter().any(|covering| covering.is_empty() || path::contains(covering, root))
}
