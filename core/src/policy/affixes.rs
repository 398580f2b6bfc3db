//! Patterns by the text that every id they cover must begin or end with.
//!
//! Must not know rules: it hands out positions, all that could matter and some that do not, and never decides.
//!
//! Not obvious: of texts in order, all that an id begins with are the beginnings of one single text, the last that is not
//! behind the id. So one binary search finds that one, and each text knows the next shorter one that it begins with.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::iter;

use super::pattern;

/// Positions of patterns. Each is in exactly one place.
#[derive(Debug, Clone, Default)]
pub(super) struct Index {
    /// Patterns without `*`.
    exact: HashMap<Box<str>, Vec<usize>>,
    /// Patterns that begin with text.
    heads: Affixes,
    /// Patterns that begin with `*` and end with text.
    tails: Affixes,
    /// Patterns that say nothing about either end.
    anywhere: Vec<usize>,
}

impl Index {
    /// Of patterns with their positions, which must ascend.
    pub(super) fn new<'a>(patterns: impl Iterator<Item = (usize, &'a str)>) -> Self {
        let mut index = Self::default();
        let (mut heads, mut tails) = (HashMap::new(), HashMap::new());
        for (position, text) in patterns {
            let place = match (pattern::head(text), pattern::tail(text)) {
                _ if !pattern::is_open(text) => index.exact.entry(text.into()).or_default(),
                ("", "") => &mut index.anywhere,
                ("", tail) => tails.entry(tail).or_default(),
                (head, _) => heads.entry(head).or_default(),
            };
            place.push(position);
        }
        index.heads = Affixes::new(heads, End::Head);
        index.tails = Affixes::new(tails, End::Tail);
        index
    }

    /// The positions of all patterns that could cover this id, in several lists that each ascend.
    pub(super) fn candidates<'a>(&'a self, id: &'a str) -> impl Iterator<Item = &'a [usize]> {
        let exact = self.exact.get(id).map(Vec::as_slice);
        let open = self.heads.of(id, End::Head).chain(self.tails.of(id, End::Tail));
        exact.into_iter().chain(open).chain(iter::once(self.anywhere.as_slice()))
    }
}

#[derive(Debug, Clone, Copy)]
enum End {
    Head,
    Tail,
}

impl End {
    /// The order of texts, read from this end.
    fn compare(self, left: &[u8], right: &[u8]) -> Ordering {
        match self {
            Self::Head => left.cmp(right),
            Self::Tail => left.iter().rev().cmp(right.iter().rev()),
        }
    }

    fn is_of(self, affix: &[u8], text: &[u8]) -> bool {
        match self {
            Self::Head => text.starts_with(affix),
            Self::Tail => text.ends_with(affix),
        }
    }
}

/// Texts in their order from one end, with the positions of the patterns that have them.
#[derive(Debug, Clone, Default)]
struct Affixes(Vec<Affix>);

#[derive(Debug, Clone)]
struct Affix {
    text: Box<[u8]>,
    positions: Vec<usize>,
    /// Where the longest other text stands that this one has at that end.
    shorter: Option<usize>,
}

impl Affixes {
    fn new(texts: HashMap<&str, Vec<usize>>, end: End) -> Self {
        let mut affixes: Vec<_> = texts
            .into_iter()
            .map(|(text, positions)| Affix { text: text.as_bytes().into(), positions, shorter: None })
            .collect();
        affixes.sort_unstable_by(|left, right| end.compare(&left.text, &right.text));
        for at in 1..affixes.len() {
            let mut shorter = Some(at - 1);
            while let Some(candidate) = shorter
                && !end.is_of(&affixes[candidate].text, &affixes[at].text)
            {
                shorter = affixes[candidate].shorter;
            }
            affixes[at].shorter = shorter;
        }
        Self(affixes)
    }

    fn of<'a>(&'a self, id: &'a str, end: End) -> impl Iterator<Item = &'a [usize]> {
        let id = id.as_bytes();
        let not_behind = self.0.partition_point(|affix| end.compare(&affix.text, id).is_le());
        iter::successors(not_behind.checked_sub(1), |at| self.0[*at].shorter)
            .map(|at| &self.0[at])
            .filter(move |affix| end.is_of(&affix.text, id))
            .map(|affix| affix.positions.as_slice())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_pattern_that_covers_an_id_is_among_its_candidates_once_and_in_order(
            patterns in prop::collection::vec("[ab:*é]{0,6}", 0..80), id in "[ab:é]{0,8}"
        ) {
            let index = Index::new(patterns.iter().map(String::as_str).enumerate());
            let lists: Vec<_> = index.candidates(&id).collect();
            prop_assert!(lists.iter().all(|list| list.is_sorted()));
            let mut candidates: Vec<usize> = lists.concat();
            candidates.sort_unstable();
            prop_assert!(candidates.windows(2).all(|pair| pair[0] != pair[1]));
            for (position, pattern) in patterns.iter().enumerate() {
                let could = id.starts_with(pattern::head(pattern)) && id.ends_with(pattern::tail(pattern));
                if pattern::matches(pattern, &id) {
                    prop_assert!(could && candidates.contains(&position), "{pattern}");
                }
            }
        }

        #[test]
        fn a_pattern_that_begins_with_other_text_is_no_candidate(
            heads in prop::collection::vec("[ab]{1,5}", 1..40), id in "[ab]{0,8}"
        ) {
            let patterns: Vec<_> = heads.iter().map(|head| format!("{head}*")).collect();
            let index = Index::new(patterns.iter().map(String::as_str).enumerate());
            for position in index.candidates(&id).flatten() {
                prop_assert!(id.starts_with(&heads[*position]));
            }
        }
    }
}
