//! The key of a hold: `<session_id>/<function_call_id>`, as a type that cannot be malformed (contract §1.3, §2).

use thiserror::Error;

/// The longest session, turn or call id that is accepted, in bytes. Ids are part of every row, event and log
/// line, so a hostile one must not be able to fill them.
pub const MAX_ID_BYTES: usize = 512;

/// An id that cannot key a record. Names the field, never the value.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{field}` {problem}")]
pub struct BadId {
    /// The field that carried it.
    pub field: &'static str,
    /// What is wrong with it.
    pub problem: &'static str,
}

/// Checks an id that is to become part of a row key: not empty, no `/`, no control character, at most
/// [`MAX_ID_BYTES`].
pub fn check_id(field: &'static str, id: &str) -> Result<(), BadId> {
    let problem = if id.is_empty() {
        "must not be empty"
    } else if id.contains('/') {
        "must not contain `/`"
    } else if id.len() > MAX_ID_BYTES {
        "is longer than 512 bytes"
    } else if id.chars().any(char::is_control) {
        "must not contain control characters"
    } else {
        return Ok(());
    };
    Err(BadId { field, problem })
}

/// Which call of which session a hold stands for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HoldKey {
    session_id: String,
    function_call_id: String,
}

impl HoldKey {
    /// Checks both ids. `call_field` is the name under which the caller's payload carries the call id.
    pub fn new(session_id: &str, function_call_id: &str, call_field: &'static str) -> Result<Self, BadId> {
        check_id("session_id", session_id)?;
        check_id(call_field, function_call_id)?;
        Ok(Self { session_id: session_id.to_owned(), function_call_id: function_call_id.to_owned() })
    }

    /// The session.
    pub fn session_id(&self) -> &str {
        &self.session_id
    }

    /// The call, unique inside its session at best.
    pub fn function_call_id(&self) -> &str {
        &self.function_call_id
    }

    /// The key of the stored row. Unambiguous, because neither part contains `/`.
    pub fn row(&self) -> String {
        format!("{}/{}", self.session_id, self.function_call_id)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn ids_that_could_collide_when_joined_are_refused() {
        for (session, call, field) in [
            ("", "c", "session_id"),
            ("s/1", "c", "session_id"),
            ("s", "", "call.id"),
            ("s", "c/2", "call.id"),
        ] {
            assert_eq!(HoldKey::new(session, call, "call.id").unwrap_err().field, field);
        }
    }

    #[test]
    fn an_id_of_the_longest_length_is_accepted_and_one_byte_more_is_not() {
        assert!(check_id("session_id", &"x".repeat(MAX_ID_BYTES)).is_ok());
        assert!(check_id("session_id", &"x".repeat(MAX_ID_BYTES + 1)).is_err());
    }

    #[test]
    fn the_row_key_joins_session_and_call() {
        assert_eq!(HoldKey::new("s_1", "c_1", "call.id").unwrap().row(), "s_1/c_1");
    }
}
