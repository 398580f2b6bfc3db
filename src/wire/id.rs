//! Session and call ids that can key a stored row (contract §1.3, §2).
//!
//! A row's key is `<session_id>/<function_call_id>`, so a slash or an empty part would let one call name another's row.
//! The length bound and the ban on control characters are ours: ids end up in keys, log lines and prompts.

use std::fmt;

use crate::wire::error::InvalidPayload;

/// The longest id, in bytes.
pub const ID_LIMIT: usize = 512;

/// Whether `id` can key a row; `field` is named in the refusal.
///
/// # Errors
/// What rules the id out; never the id itself.
pub fn check_id(field: &str, id: &str) -> Result<(), InvalidPayload> {
    let what = if id.is_empty() {
        "must not be empty"
    } else if id.contains('/') {
        "must not contain `/`"
    } else if id.len() > ID_LIMIT {
        "must not be longer than 512 bytes"
    } else if id.chars().any(char::is_control) {
        "must not contain control characters"
    } else {
        return Ok(());
    };
    Err(InvalidPayload::new(field, what))
}

/// Whether `function_id`, an id or a pattern for a settings list, says anything at all (contract §5).
///
/// # Errors
/// It is empty or white space.
pub fn check_function_id(function_id: &str) -> Result<(), InvalidPayload> {
    if function_id.trim().is_empty() {
        return Err(InvalidPayload::new("function_id", "must not be blank"));
    }
    Ok(())
}

/// A session's id, fit for a key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(String);

impl SessionId {
    /// Checks the `session_id` of a request.
    ///
    /// # Errors
    /// The id cannot key a row.
    pub fn new(id: impl Into<String>) -> Result<Self, InvalidPayload> {
        let id = id.into();
        check_id("session_id", &id)?;
        Ok(Self(id))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// A function call's id within a session, fit for a key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(String);

impl CallId {
    /// Checks the `function_call_id` of a request.
    ///
    /// # Errors
    /// The id cannot key a row.
    pub fn new(id: impl Into<String>) -> Result<Self, InvalidPayload> {
        Self::named("function_call_id", id)
    }

    /// Checks the `call.id` of a hook payload.
    ///
    /// # Errors
    /// The id cannot key a row.
    pub fn of_hook(id: impl Into<String>) -> Result<Self, InvalidPayload> {
        Self::named("call.id", id)
    }

    fn named(field: &str, id: impl Into<String>) -> Result<Self, InvalidPayload> {
        let id = id.into();
        check_id(field, &id)?;
        Ok(Self(id))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn an_id_that_could_not_key_a_row_is_refused_by_its_field() {
        for (id, what) in [("", "empty"), ("a/b", "`/`"), ("a\u{7}", "control"), (&"x".repeat(513), "512")] {
            let refused = SessionId::new(id).unwrap_err();
            assert_eq!(refused.field, "session_id");
            assert!(refused.what.contains(what), "{refused}");
            assert_eq!(CallId::new(id).unwrap_err().field, "function_call_id");
            assert_eq!(CallId::of_hook(id).unwrap_err().field, "call.id");
        }
    }

    #[test]
    fn any_other_id_is_kept_as_it_is() {
        for id in ["s_1", " ", "ü", "a:b|c", &"x".repeat(512)] {
            assert_eq!(SessionId::new(id).unwrap().as_str(), id);
            assert_eq!(CallId::new(id).unwrap().to_string(), id);
        }
    }

    #[test]
    fn a_blank_function_id_is_refused() {
        assert!(check_function_id(" \t").is_err());
        assert!(check_function_id("shell::*").is_ok());
    }
}
