//! The rule list made ready for asking: first match in list order, found without trying every rule.
//!
//! A short list is simply walked. A long one is split by what every match must begin or end with, so that a call
//! looks only at the rules that share its text. Whatever the layout, the answer is the lowest index whose pattern
//! covers the id and whose modes and constraints hold; the layout never decides anything.

use std::collections::HashMap;

use serde_json::Value;

use super::pattern;
use super::rule::Rule;
use super::settings::Mode;

/// Up to this many rules a walk is as fast as the index.
const SHORT_LIST: usize = 48;

/// Rules in order, compiled once per configuration.
#[derive(Debug, Clone, Default)]
pub struct Compiled {
    rules: Vec<Rule>,
    index: Option<Index>,
    /// The rules that look at arguments.
    constrained: Vec<usize>,
}

/// A call, as far as rules look at it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Subject<'a> {
    pub function_id: &'a str,
    pub arguments: &'a Value,
    pub mode: Mode,
}

impl Compiled {
    /// Compiles a list; positions in it are the indices that verdicts report.
    pub fn new(rules: Vec<Rule>) -> Self {
        let index = (rules.len() > SHORT_LIST).then(|| Index::new(&rules));
        let looks = |(position, rule): (usize, &Rule)| (!rule.constraints.is_empty()).then_some(position);
        let constrained = rules.iter().enumerate().filter_map(looks).collect();
        Self { rules, index, constrained }
    }

    /// Whether some rule looks at the arguments of calls of this function.
    pub(super) fn looks_at_arguments(&self, function_id: &str) -> bool {
        self.constrained.iter().any(|position| pattern::matches(&self.rules[*position].pattern, function_id))
    }

    /// The rules, in order.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The first rule that applies, with its position.
    pub(super) fn first_match(&self, subject: Subject<'_>) -> Option<(usize, &Rule)> {
        match &self.index {
            None => self.walk(subject),
            Some(index) => {
                let mut search = Search { rules: &self.rules, subject, best: self.rules.len() };
                index.search(&mut search);
                self.rules.get(search.best).map(|rule| (search.best, rule))
            }
        }
    }

    fn walk(&self, subject: Subject<'_>) -> Option<(usize, &Rule)> {
        self.rules.iter().enumerate().find(|(_, rule)| {
            pattern::matches(&rule.pattern, subject.function_id)
                && rule.applies(subject.mode, subject.arguments)
        })
    }
}

/// Where to look: each rule is in exactly one place, positions ascending.
#[derive(Debug, Clone, Default)]
struct Index {
    /// Patterns without `*`.
    exact: HashMap<Box<str>, Vec<usize>>,
    /// Patterns that begin with text: by that text.
    by_head: Affixes,
    /// Patterns that begin with `*` and end with text: by that text.
    by_tail: Affixes,
    /// Patterns that say nothing about either end.
    anywhere: Vec<usize>,
}

/// Rules by the beginning, or the end, of the ids they cover.
#[derive(Debug, Clone, Default)]
struct Affixes {
    rules: HashMap<Box<str>, Vec<usize>>,
    /// The lengths that occur, bytes, ascending; a call looks up one slice of its id for each.
    lengths: Vec<usize>,
}

impl Affixes {
    fn insert(&mut self, affix: &str, position: usize) {
        self.rules.entry(affix.into()).or_default().push(position);
        if let Err(at) = self.lengths.binary_search(&affix.len()) {
            self.lengths.insert(at, affix.len());
        }
    }

    /// `slice` gives the part of the id that has this length, if it is that long and the cut falls between characters.
    fn search<'a>(&self, search: &mut Search<'_>, slice: impl Fn(usize) -> Option<&'a str>) {
        for &length in &self.lengths {
            let Some(affix) = slice(length) else { continue };
            if let Some(positions) = self.rules.get(affix) {
                search.candidates(positions);
            }
        }
    }
}

impl Index {
    fn new(rules: &[Rule]) -> Self {
        let mut index = Self::default();
        for (position, rule) in rules.iter().enumerate() {
            let (head, tail) = (pattern::head(&rule.pattern), pattern::tail(&rule.pattern));
            if !pattern::is_open(&rule.pattern) {
                index.exact.entry((*rule.pattern).into()).or_default().push(position);
            } else if !head.is_empty() {
                index.by_head.insert(head, position);
            } else if !tail.is_empty() {
                index.by_tail.insert(tail, position);
            } else {
                index.anywhere.push(position);
            }
        }
        index
    }

    fn search(&self, search: &mut Search<'_>) {
        let id = search.subject.function_id;
        if let Some(positions) = self.exact.get(id) {
            search.candidates(positions);
        }
        self.by_head.search(search, |length| id.get(..length));
        self.by_tail.search(search, |length| id.get(id.len().checked_sub(length)?..));
        search.candidates(&self.anywhere);
    }
}

/// The lowest position found so far that applies; the length of the list while there is none.
struct Search<'a> {
    rules: &'a [Rule],
    subject: Subject<'a>,
    best: usize,
}

impl Search<'_> {
    fn candidates(&mut self, positions: &[usize]) {
        for &position in positions {
            if position >= self.best {
                return;
            }
            let rule = &self.rules[position];
            if pattern::matches(&rule.pattern, self.subject.function_id)
                && rule.applies(self.subject.mode, self.subject.arguments)
            {
                self.best = position;
                return;
            }
        }
    }
}
