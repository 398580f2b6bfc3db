//! What can be a function id, and what can be a pattern over function ids.
//!
//! A call's id comes from a model and is compared as it stands everywhere in the gate; whatever comes after the gate
//! may trim. So text that another program could read as a different id names no function here (contract §1.3).

/// The longest function id that a call may name, in bytes: it is part of every record, event and log line.
pub const MAX_BYTES: usize = 512;

/// Why a text is no function id. Never carries the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum IdProblem {
    /// Nothing, or only white space.
    #[error("is blank")]
    Blank,
    /// White space in front or behind, a byte order mark included.
    #[error("has white space at an end")]
    Padded,
    /// A control character, line breaks included.
    #[error("contains a control character")]
    Control,
    /// Longer than [`MAX_BYTES`].
    #[error("is longer than 512 bytes")]
    TooLong,
    /// A `*`: an approval of such a call would be a wildcard.
    #[error("contains a `*`, which only a pattern may")]
    Star,
}

/// What is wrong with the function id of a call, if anything.
pub fn problem(function_id: &str) -> Option<IdProblem> {
    if function_id.len() > MAX_BYTES {
        return Some(IdProblem::TooLong);
    }
    // Nearly every id, and it is asked for every call.
    if !function_id.is_empty() && function_id.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'*') {
        return None;
    }
    problem_of_pattern(function_id).or_else(|| function_id.contains('*').then_some(IdProblem::Star))
}

/// What is wrong with an entry of a list or the pattern of a rule, if anything. `*` is fine.
pub fn problem_of_pattern(pattern: &str) -> Option<IdProblem> {
    if pattern.chars().all(is_padding) {
        Some(IdProblem::Blank)
    } else if pattern.starts_with(is_padding) || pattern.ends_with(is_padding) {
        Some(IdProblem::Padded)
    } else if pattern.chars().any(char::is_control) {
        Some(IdProblem::Control)
    } else {
        None
    }
}

/// White space as Unicode has it, and the byte order mark, which scripting languages trim as well.
fn is_padding(c: char) -> bool {
    c.is_whitespace() || c == '\u{feff}'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_a_reader_might_trim_is_no_id() {
        for (id, expected) in [
            ("", IdProblem::Blank),
            (" \t", IdProblem::Blank),
            (" approval::resolve", IdProblem::Padded),
            ("configuration::set\n", IdProblem::Padded),
            ("\u{feff}approval::resolve", IdProblem::Padded),
            ("\u{a0}a::b", IdProblem::Padded),
            ("shell::a\nb", IdProblem::Control),
            ("shell::\u{7f}b", IdProblem::Control),
            ("shell::*", IdProblem::Star),
        ] {
            assert_eq!(problem(id), Some(expected), "{id:?}");
        }
    }

    #[test]
    fn odd_but_exact_ids_are_ids() {
        for id in ["a", "shell::", "shell::ex\u{200b}ec", "été::x", "a b", "!x", "::"] {
            assert_eq!(problem(id), None, "{id:?}");
        }
        assert_eq!(problem_of_pattern("shell::*"), None);
    }
}
