//! A regex as a rule uses it: a search in one string (contract §1, "Rules").
//!
//! Knows nothing of rules. Not obvious: most regexes of rules begin with `^` and plain text, such as `^/srv/app/`, and most
//! strings begin otherwise. That is told by comparing, which costs a tenth of starting the regex.

use regex::Regex;
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{HirKind, Look};

/// A compiled regex, with the text that every match of it begins with.
#[derive(Debug, Clone)]
pub struct Search {
    regex: Regex,
    /// What every string that matches begins with; empty if nothing is known.
    head: Box<str>,
}

impl Search {
    /// A regex that compiled, with nesting of at most `nest_limit`.
    pub(super) fn new(regex: Regex, nest_limit: u32) -> Self {
        let head = head(regex.as_str(), nest_limit).unwrap_or_default();
        Self { regex, head }
    }

    /// Says whether the regex matches somewhere in `text`.
    pub fn is_match(&self, text: &str) -> bool {
        text.starts_with(&*self.head) && self.regex.is_match(text)
    }

    /// The regex as written.
    pub fn as_str(&self) -> &str {
        self.regex.as_str()
    }
}

/// The plain text behind a `^` that all of the regex stands behind, if it has one.
fn head(regex: &str, nest_limit: u32) -> Option<Box<str>> {
    if !regex.starts_with('^') {
        return None;
    }
    let hir = ParserBuilder::new().nest_limit(nest_limit).build().parse(regex).ok()?;
    let HirKind::Concat(parts) = hir.kind() else { return None };
    match [parts.first()?.kind(), parts.get(1)?.kind()] {
        [HirKind::Look(Look::Start), HirKind::Literal(text)] => {
            Some(std::str::from_utf8(&text.0).ok()?.into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    fn search(text: &str) -> Search {
        Search::new(Regex::new(text).unwrap(), 50)
    }

    #[test]
    fn the_text_behind_the_anchor_is_known_where_it_must_be_there() {
        let rows = [
            ("^/srv/app/", "/srv/app/"),
            ("^/srv/app$", "/srv/app"),
            (r"^a\.b(c|d)", "a.b"),
            ("^ab*", "a"),
            ("^été", "été"),
            ("^a|b", ""),
            ("^(a|b)c", ""),
            ("^(?i)ab", ""),
            ("(?i)^ab", ""),
            ("(?m)^ab", ""),
            ("^(?m)^ab", ""),
            ("^a?b", ""),
            ("^", ""),
            ("^$", ""),
            ("a^b", ""),
            ("ab", ""),
        ];
        for (regex, head) in rows {
            assert_eq!(&*search(regex).head, head, "{regex}");
        }
    }

    proptest! {
        #[test]
        fn a_search_finds_what_the_regex_finds(
            regex in r"\^?(a|b|\(a\|b\)|\(\?i\)a|a\?|b\*|\||\$|\(\?m\)\^|\^){0,5}", text in "[abAB\n]{0,6}"
        ) {
            if let Ok(compiled) = Regex::new(&regex) {
                prop_assert_eq!(search(&regex).is_match(&text), compiled.is_match(&text), "{}", regex);
            }
        }
    }
}
