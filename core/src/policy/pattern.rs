//! Patterns over function ids: `*` stands for any run of characters, also none; nothing else is special (contract §1).
//!
//! Knows nothing of rules or lists. A match takes time linear in pattern plus id: each literal piece is looked for
//! once, leftmost, and never tried again, so `a*a*a*a*b` against a long run of `a` costs no more than any other.

/// Says whether `pattern` covers the whole of `id`, case-sensitively.
///
/// A pattern without `*` covers exactly itself. `*` runs across `::` and line breaks.
pub fn matches(pattern: &str, id: &str) -> bool {
    // Most patterns of a list part from the id at its first byte, and a list is walked for every call.
    !parts_at_once(pattern, id) && Shape::of(pattern).covers(pattern, id)
}

/// Where the stars of a pattern are, so that a pattern that is asked often is taken apart once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    /// Where the first and the last star are; `None` without any.
    stars: Option<(usize, usize)>,
}

impl Shape {
    pub(super) fn of(pattern: &str) -> Self {
        Self { stars: pattern.find('*').zip(pattern.rfind('*')) }
    }

    /// As [`matches`], for the pattern that this is the shape of.
    pub(super) fn matches(self, pattern: &str, id: &str) -> bool {
        !parts_at_once(pattern, id) && self.covers(pattern, id)
    }

    fn covers(self, pattern: &str, id: &str) -> bool {
        let Some((first, last)) = self.stars else {
            return pattern == id;
        };
        // Head and tail may not share a character: `a*a` needs two.
        let open =
            id.strip_prefix(&pattern[..first]).and_then(|open| open.strip_suffix(&pattern[last + 1..]));
        let Some(open) = open else {
            return false;
        };
        if first == last {
            return true;
        }
        let middle = &pattern[first + 1..last];
        middle.split('*').filter(|piece| !piece.is_empty()).try_fold(open, after_first).is_some()
    }
}

fn parts_at_once(pattern: &str, id: &str) -> bool {
    matches!((pattern.as_bytes().first(), id.as_bytes().first()), (Some(a), Some(b)) if *a != b'*' && a != b)
}

/// What follows the first occurrence of `piece`; leaving the most behind is never worse for the pieces to come.
fn after_first<'a>(text: &'a str, piece: &str) -> Option<&'a str> {
    text.find(piece).map(|at| &text[at + piece.len()..])
}

/// The part of a pattern in front of its first `*`; the whole pattern if it has none.
pub fn head(pattern: &str) -> &str {
    pattern.split_once('*').map_or(pattern, |(head, _)| head)
}

/// The part of a pattern behind its last `*`; the whole pattern if it has none.
pub fn tail(pattern: &str) -> &str {
    pattern.rsplit_once('*').map_or(pattern, |(_, tail)| tail)
}

/// Says whether `pattern` stands for more than itself.
pub fn is_open(pattern: &str) -> bool {
    pattern.contains('*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition, spelled out with no regard to time: row by row over all prefixes of the id.
    fn reference(pattern: &str, id: &str) -> bool {
        let id: Vec<char> = id.chars().collect();
        let mut reachable = vec![false; id.len() + 1];
        reachable[0] = true;
        for symbol in pattern.chars() {
            let mut next = vec![false; id.len() + 1];
            for at in 0..=id.len() {
                next[at] = if symbol == '*' {
                    reachable[at] || (at > 0 && next[at - 1])
                } else {
                    at > 0 && reachable[at - 1] && id[at - 1] == symbol
                };
            }
            reachable = next;
        }
        reachable[id.len()]
    }

    /// pattern, id, whether it matches
    const TABLE: &[(&str, &str, bool)] = &[
        ("shell::run", "shell::run", true),
        ("shell::run", "shell::runner", false),
        ("shell::*", "shell::run", true),
        ("shell::*", "shell::", true),
        ("shell::*", "shell", false),
        ("shell::*", "shell:exec", false),
        ("shell::*", "my-shell::exec", false),
        ("shell::*", "shell::a\nb", true),
        ("*", "", true),
        ("*", "anything::at all", true),
        ("**", "x", true),
        ("*::get", "state::get", true),
        ("*::get", "state::set", false),
        ("a*b*c", "a-x-b-y-c", true),
        ("a*b*c", "a-x-c-y-b", false),
        ("a*a", "a", false),
        ("a*a", "aa", true),
        ("*a*", "banana", true),
        ("ab*ba", "aba", false),
        ("state::*::read", "state::users::read", true),
        ("*::list-*", "queue::list-topics", true),
        ("*::list-*", "queue::relist-topics", false),
        ("*::list-*", "queue::list", false),
        ("state::g.t", "state::get", false),
        ("db::?", "db::q", false),
        ("queue::[a-z]*", "queue::push", false),
        ("shell::ex[e]c", "shell::exec", false),
        (r"a\*", "a*", false),
        (r"a\*", r"a\b", true),
        ("Shell::*", "shell::exec", false),
        ("é*", "été::x", true),
        ("", "", true),
        ("", "a", false),
    ];

    #[test]
    fn a_star_is_any_run_and_nothing_else_is_special() {
        for &(pattern, id, expected) in TABLE {
            assert_eq!(matches(pattern, id), expected, "`{pattern}` against `{id}`");
            assert_eq!(reference(pattern, id), expected, "reference: `{pattern}` against `{id}`");
        }
    }

    #[test]
    fn many_stars_against_a_long_run_stay_cheap() {
        let pattern = format!("{}b", "a*".repeat(200));
        let id = "a".repeat(2_000_000);
        let before = std::time::Instant::now();
        assert!(!matches(&pattern, &id));
        // A backtracking matcher needs longer than the age of the universe here; any bound will do.
        assert!(before.elapsed() < std::time::Duration::from_secs(20));
    }

    proptest! {
        #[test]
        fn agrees_with_the_definition(pattern in "[ab:*é]{0,12}", id in "[ab:é\n]{0,16}") {
            prop_assert_eq!(matches(&pattern, &id), reference(&pattern, &id));
        }

        #[test]
        fn a_pattern_made_from_an_id_matches_it(id in "[a-c:]{0,20}", cuts in prop::collection::vec((0usize..21, 0usize..21), 0..4)) {
            let mut pattern = id.clone();
            for (from, to) in cuts {
                let (from, to) = (from.min(pattern.len()), to.min(pattern.len()));
                pattern.replace_range(from.min(to)..from.max(to), "*");
            }
            prop_assert!(matches(&pattern, &id));
        }

        #[test]
        fn head_and_tail_are_necessary(pattern in "[ab*]{0,8}", id in "[ab]{0,10}") {
            if matches(&pattern, &id) {
                prop_assert!(id.starts_with(head(&pattern)) && id.ends_with(tail(&pattern)));
            }
        }
    }
}
