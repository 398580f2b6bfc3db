//! The rule list made ready for asking: first match in list order, found without trying every rule.
//!
//! A short list is simply walked. A long one is split by what every match must begin or end with, so that a call
//! looks only at the rules that share its text. Whatever the layout, the answer is the lowest index whose pattern
//! covers the id and whose modes and constraints hold; the layout never decides anything.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::affixes::Index;
use super::pattern::Shape;
use super::rule::Rule;
use super::settings::Mode;

/// Up to this many rules a walk is as fast as the index.
const SHORT_LIST: usize = 24;

/// Rules in order, compiled once per configuration.
#[derive(Debug, Clone, Default)]
pub struct Compiled {
    rules: Vec<Rule>,
    /// Those of their patterns, in the same order.
    shapes: Vec<Shape>,
    index: Option<Index>,
    /// The rules that look at arguments, for themselves.
    constrained: Index,
    /// The arguments that some rule looks at.
    fields: BTreeSet<Arc<str>>,
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
        let patterns = || rules.iter().map(|rule| &*rule.pattern).enumerate();
        let index = (rules.len() > SHORT_LIST).then(|| Index::new(patterns()));
        let constrained = Index::new(patterns().filter(|(at, _)| !rules[*at].constraints.is_empty()));
        let constraints = rules.iter().flat_map(|rule| &rule.constraints);
        let fields = constraints.map(|constraint| Arc::clone(&constraint.field)).collect();
        let shapes = rules.iter().map(|rule| Shape::of(&rule.pattern)).collect();
        Self { rules, shapes, index, constrained, fields }
    }

    /// Whether some rule looks at the arguments of calls of this function.
    pub(super) fn looks_at_arguments(&self, function_id: &str) -> bool {
        let mut candidates = self.constrained.candidates(function_id);
        candidates.any(|positions| positions.iter().any(|at| self.covers(*at, function_id)))
    }

    /// Whether the pattern of the rule at `at` covers the function.
    fn covers(&self, at: usize, function_id: &str) -> bool {
        self.shapes[at].matches(&self.rules[at].pattern, function_id)
    }

    /// Whether some rule looks at an argument of this name.
    pub(super) fn looks_at(&self, field: &str) -> bool {
        self.fields.contains(field)
    }

    /// The rules, in order.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The first rule that applies, with its position.
    pub(super) fn first_match(&self, subject: Subject<'_>) -> Option<(usize, &Rule)> {
        let applies = |at: usize| {
            self.covers(at, subject.function_id) && self.rules[at].applies(subject.mode, subject.arguments)
        };
        let Some(index) = &self.index else {
            let first = (0..self.rules.len()).find(|at| applies(*at));
            return first.map(|at| (at, &self.rules[at]));
        };
        let mut best = self.rules.len();
        for positions in index.candidates(subject.function_id) {
            // No regular expression is run for a rule that stands behind one that applies.
            let mut better = positions.iter().take_while(|position| **position < best);
            if let Some(&position) = better.find(|at| applies(**at)) {
                best = position;
            }
        }
        self.rules.get(best).map(|rule| (best, rule))
    }
}
