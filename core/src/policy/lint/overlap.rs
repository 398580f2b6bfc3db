//! What two patterns have to do with each other: whether one covers the other, and a text that both cover.
//!
//! Both answers are exact. A `*` stands for any text, so a pattern covers another if it matches it with a character in
//! place of each `*` that no pattern can name: what takes that character takes any text there.

use std::collections::HashSet;

use crate::policy::pattern;

/// Stands for a `*` of the narrower pattern. A control character, and those are in no pattern.
const ANY: &str = "\0";

/// What a look at one pair of places costs, beside the look at the ends of two patterns.
const PLACE_COST: u64 = 10;

/// A pattern made ready to be compared with many.
#[derive(Debug)]
pub struct Outline<'a> {
    pattern: &'a str,
    /// The pattern with [`ANY`] in place of each `*`.
    sample: String,
}

impl<'a> Outline<'a> {
    /// Makes a pattern ready.
    pub fn new(pattern: &'a str) -> Self {
        Self { pattern, sample: pattern.replace('*', ANY) }
    }

    /// Says whether everything that `other` covers is covered by this one too.
    pub fn covers(&self, other: &Outline<'_>) -> bool {
        pattern::matches(self.pattern, &other.sample)
    }

    /// Says whether a look at the two ends already shows that no text is covered by both.
    fn apart(&self, other: &Outline<'_>) -> bool {
        let (heads, tails) = (
            (pattern::head(self.pattern), pattern::head(other.pattern)),
            (pattern::tail(self.pattern), pattern::tail(other.pattern)),
        );
        !(heads.0.starts_with(heads.1) || heads.1.starts_with(heads.0))
            || !(tails.0.ends_with(tails.1) || tails.1.ends_with(tails.0))
    }
}

/// A function id that both patterns cover, the shortest up to its looks; `None` if there is none, or if finding one
/// costs more than `budget`, which is then 0. It costs one for the look at the ends, and [`PLACE_COST`] for each pair of
/// places after that.
pub fn common(left: &Outline<'_>, right: &Outline<'_>, budget: &mut u64) -> Option<String> {
    *budget = budget.saturating_sub(1);
    if left.apart(right) {
        return None;
    }
    let found = search(left.pattern, right.pattern, budget)?;
    Some(prettier(found, left.pattern, right.pattern))
}

/// Walks both patterns at once, every pair of places once.
fn search(left: &str, right: &str, budget: &mut u64) -> Option<String> {
    let (left, right): (Vec<char>, Vec<char>) = (left.chars().collect(), right.chars().collect());
    let mut seen = HashSet::from([(0, 0)]);
    // Where from, and by which character.
    let mut steps: Vec<((usize, usize), usize, Option<char>)> = vec![((0, 0), 0, None)];
    let mut next = 0;
    while next < steps.len() {
        let ((i, j), ..) = steps[next];
        if i == left.len() && j == right.len() {
            return Some(spelled(&steps, next));
        }
        *budget = budget.saturating_sub(PLACE_COST);
        if *budget == 0 {
            return None;
        }
        let mut step = |to: (usize, usize), by: Option<char>| {
            if seen.insert(to) {
                steps.push((to, next, by));
            }
        };
        match (left.get(i), right.get(j)) {
            (Some('*'), Some('*')) => {
                step((i + 1, j), None);
                step((i, j + 1), None);
            }
            (Some('*'), other) => {
                step((i + 1, j), None);
                if let Some(c) = other {
                    step((i, j + 1), Some(*c));
                }
            }
            (other, Some('*')) => {
                step((i, j + 1), None);
                if let Some(c) = other {
                    step((i + 1, j), Some(*c));
                }
            }
            (Some(one), Some(other)) if one == other => step((i + 1, j + 1), Some(*one)),
            _ => {}
        }
        next += 1;
    }
    None
}

fn spelled(steps: &[((usize, usize), usize, Option<char>)], mut at: usize) -> String {
    let mut backwards = Vec::new();
    while at != 0 {
        let (_, from, by) = steps[at];
        backwards.extend(by);
        at = from;
    }
    backwards.into_iter().rev().collect()
}

/// A name in place of a missing one: `shell::` is no id that anybody would recognise.
fn prettier(found: String, left: &str, right: &str) -> String {
    let mut named = found.clone();
    if named.is_empty() || named.starts_with("::") {
        named.insert(0, 'x');
    }
    if named.ends_with("::") {
        named.push('x');
    }
    if pattern::matches(left, &named) && pattern::matches(right, &named) { named } else { found }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn covers(wide: &str, narrow: &str) -> bool {
        Outline::new(wide).covers(&Outline::new(narrow))
    }

    fn both(left: &str, right: &str) -> Option<String> {
        common(&Outline::new(left), &Outline::new(right), &mut 1_000_000)
    }

    #[test]
    fn a_pattern_covers_what_is_not_wider() {
        for (wide, narrow, expected) in [
            ("*", "a::*", true),
            ("a::*", "a::b", true),
            ("a::*", "a::b*", true),
            ("a::*", "a*", false),
            ("a::b", "a::*", false),
            ("*::get", "state::get", true),
            ("*a*", "*ba*", true),
            ("*a*b*", "*b*a*", false),
            ("**", "*", true),
            ("a*a", "a", false),
        ] {
            assert_eq!(covers(wide, narrow), expected, "`{wide}` over `{narrow}`");
        }
    }

    #[test]
    fn a_common_id_is_found_where_there_is_one() {
        for (left, right, expected) in [
            ("*::get", "secrets::*", Some("secrets::get")),
            ("shell::*", "*", Some("shell::x")),
            ("a::*", "b::*", None),
            ("*::get", "*::set", None),
            ("a*c", "ab*", Some("abc")),
            ("*", "*", Some("x")),
        ] {
            assert_eq!(both(left, right).as_deref(), expected, "`{left}` and `{right}`");
        }
    }

    #[test]
    fn a_search_that_costs_too_much_is_given_up() {
        let (left, right) = ("*a".repeat(200), "*b".repeat(200) + "*a");
        let mut budget = 100;
        assert_eq!(common(&Outline::new(&left), &Outline::new(&right), &mut budget), None);
        assert_eq!(budget, 0);
    }

    proptest! {
        #[test]
        fn what_the_narrower_covers_the_wider_covers(wide in "[ab*]{1,7}", narrow in "[ab*]{1,7}", id in "[abc]{0,9}") {
            if covers(&wide, &narrow) && pattern::matches(&narrow, &id) {
                prop_assert!(pattern::matches(&wide, &id));
            }
        }

        #[test]
        fn what_is_not_covered_has_an_example(wide in "[ab*]{1,6}", narrow in "[ab*]{1,6}") {
            // With a character that neither names in place of each star, the narrower one makes its own example.
            let example = narrow.replace('*', "c");
            prop_assert_eq!(covers(&wide, &narrow), pattern::matches(&wide, &example));
        }

        #[test]
        fn a_common_id_is_covered_by_both(left in "[ab*]{1,8}", right in "[ab*]{1,8}", id in "[ab]{0,8}") {
            match both(&left, &right) {
                Some(found) => prop_assert!(pattern::matches(&left, &found) && pattern::matches(&right, &found)),
                None => prop_assert!(!(pattern::matches(&left, &id) && pattern::matches(&right, &id))),
            }
        }
    }
}
