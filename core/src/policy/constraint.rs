//! One condition on one argument of a call (contract §1, "Rules").
//!
//! A field name is one literal top-level key (`a.b` is a key, no path), and a missing field is `null`. A regex looks
//! at strings only and never at a serialised value: an array must not pass a test that was written for a path.

use std::sync::Arc;

use serde_json::Value;

use super::search::Search;

/// What is asked of a field.
#[derive(Debug, Clone)]
pub enum Test {
    /// JSON equality, by type: `2` is neither `"2"` nor `2.0`; objects compare by content.
    Equals,
    /// A search in a string; `^` and `$` are the ends of the whole text.
    Matches(Search),
}

/// One field and what is asked of it.
#[derive(Debug, Clone)]
pub struct Constraint {
    /// The literal top-level key of the arguments.
    pub field: Arc<str>,
    /// The operand as written: the value to equal, or the text of the regex.
    pub operand: Arc<Value>,
    /// How the operand is used.
    pub test: Test,
}

/// A constraint that took part in a verdict, as the denial envelope shows it (contract §3).
#[derive(Debug, Clone, PartialEq)]
pub struct MatchedConstraint {
    /// The argument's name.
    pub field: Arc<str>,
    /// `equals` or `matches`.
    pub operator: &'static str,
    /// What the rule asks for, never what the call carried. For `equals` the two are the same, so this value
    /// belongs into no text that is not redacted.
    pub value: Arc<Value>,
}

impl Constraint {
    /// Says whether these arguments, the members of an object, satisfy the constraint.
    pub fn holds(&self, arguments: &serde_json::Map<String, Value>) -> bool {
        let value = arguments.get(&*self.field).unwrap_or(&Value::Null);
        match &self.test {
            Test::Equals => *value == *self.operand,
            Test::Matches(search) => value.as_str().is_some_and(|text| search.is_match(text)),
        }
    }

    /// The operator's word in the configuration.
    pub const fn operator(&self) -> &'static str {
        match self.test {
            Test::Equals => "equals",
            Test::Matches(_) => "matches",
        }
    }

    /// The constraint as a report shows it; clones pointers only.
    pub fn shown(&self) -> MatchedConstraint {
        MatchedConstraint {
            field: Arc::clone(&self.field),
            operator: self.operator(),
            value: Arc::clone(&self.operand),
        }
    }
}

/// Says whether all constraints hold. Arguments that are no object satisfy none.
///
/// Comparisons first: they cost next to nothing, and one that fails spares the searches.
pub fn all_hold(constraints: &[Constraint], arguments: &Value) -> bool {
    if constraints.is_empty() {
        return true;
    }
    let Some(fields) = arguments.as_object() else { return false };
    let is_cheap = |one: &&Constraint| matches!(one.test, Test::Equals);
    let mut comparisons = constraints.iter().filter(is_cheap);
    let mut searches = constraints.iter().filter(|one| !is_cheap(one));
    comparisons.all(|one| one.holds(fields)) && searches.all(|one| one.holds(fields))
}
