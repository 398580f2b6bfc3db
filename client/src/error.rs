//! What can go wrong between us and the engine, as values that callers compare.
//!
//! No variant carries arguments or results: errors are logged, and payloads may hold secrets. The one thing every
//! caller needs to know is on the type: whether a call may have been executed ([`CallError::never_sent`]).

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Code of an answer for a function that nobody offers, as the engine spells it.
pub const FUNCTION_NOT_FOUND: &str = "function_not_found";
/// Code of an answer given while we are stopping, as the engine spells it for a worker that left.
pub const INVOCATION_STOPPED: &str = "invocation_stopped";
/// Code of an answer for a handler that failed without a code of its own.
pub const INVOCATION_FAILED: &str = "invocation_failed";
/// Code of a refused binding whose trigger type nobody provides.
pub const TRIGGER_TYPE_NOT_FOUND: &str = "trigger_type_not_found";
/// Code of a refused binding without a code of its own.
pub const TRIGGER_REGISTRATION_FAILED: &str = "trigger_registration_failed";

/// The error of an answer, in both directions. The engine strips any other key, so detail belongs in `message`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// What callers compare, case-sensitively.
    pub code: String,
    /// What people read.
    pub message: String,
}

impl ErrorBody {
    /// An error body of these two texts.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into() }
    }
}

/// Why a call has no usable answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CallError {
    /// There is no connection, or it was closing when the call was made. Nothing was sent.
    #[error("not connected to the engine")]
    NotConnected,
    /// No answer in time. The call may have been executed, or may still be, unless nothing was waited for: a call whose
    /// deadline has passed is not sent.
    #[error("no answer from `{function_id}` within {waited_ms} ms")]
    Deadline {
        /// The function called.
        function_id: String,
        /// How long we waited, milliseconds.
        waited_ms: u64,
    },
    /// The connection ended before the answer. The call may have been executed.
    #[error("the connection was lost before `{function_id}` answered")]
    ConnectionLost {
        /// The function called.
        function_id: String,
    },
    /// The engine or the function answered with an error.
    #[error("`{function_id}` answered {code}: {message}")]
    Refused {
        /// The function called.
        function_id: String,
        /// The code of the answer.
        code: String,
        /// The message of the answer.
        message: String,
    },
    /// The answer does not have the shape that the caller expects.
    #[error("the answer of `{function_id}` cannot be read: {reason}")]
    Unreadable {
        /// The function called.
        function_id: String,
        /// Position and kind of the mistake, without values.
        reason: String,
    },
    /// The call would be larger than one frame may be; the engine would drop the connection. Nothing was sent.
    #[error("a call of `{function_id}` would take {bytes} bytes, more than the {limit} of one frame")]
    TooLarge {
        /// The function called.
        function_id: String,
        /// Size of the frame in bytes.
        bytes: usize,
        /// The largest frame in bytes.
        limit: usize,
    },
    /// The call nests deeper than the engine decodes; it would drop the frame unseen. Nothing was sent.
    #[error("a call of `{function_id}` nests too deeply for the engine")]
    TooDeep {
        /// The function called.
        function_id: String,
    },
    /// So much waits to be sent that events are left out. Nothing was sent.
    #[error("too much waits to be sent for an event to `{function_id}`")]
    Crowded {
        /// The function that was to be told.
        function_id: String,
    },
    /// The data of the call cannot be written as JSON. Nothing was sent.
    #[error("the data for `{function_id}` cannot be written as JSON")]
    Unwritable {
        /// The function called.
        function_id: String,
    },
}

impl CallError {
    /// Whether the answer says that nobody offers the function.
    pub fn is_function_not_found(&self) -> bool {
        matches!(self, Self::Refused { code, .. } if code == FUNCTION_NOT_FOUND)
    }

    /// Whether the call certainly never left: repeating it cannot execute it twice.
    pub fn never_sent(&self) -> bool {
        matches!(
            self,
            Self::NotConnected
                | Self::TooLarge { .. }
                | Self::TooDeep { .. }
                | Self::Crowded { .. }
                | Self::Unwritable { .. }
        )
    }
}

/// Why there is no connection. One line each, fit for a terminal.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConnectError {
    /// The address is not one we can connect to.
    #[error("`{url}` is not an engine address: {reason}")]
    Address {
        /// The address as given.
        url: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Nothing answered in time.
    #[error("no engine answered at `{url}` within {waited_ms} ms")]
    Timeout {
        /// The address as given.
        url: String,
        /// How long we waited, milliseconds.
        waited_ms: u64,
    },
    /// The connection was refused or broke while it was made.
    #[error("cannot connect to the engine at `{url}`: {reason}")]
    Refused {
        /// The address as given.
        url: String,
        /// The cause.
        reason: String,
    },
}
