//! Texts that a regular expression matches, and arguments that satisfy the conditions of two rules at once.
//!
//! Nothing here proves that there are none; what is given has been tried, so it can be held up as an example.

use regex_syntax::hir::{Class, ClassUnicodeRange, Hir, HirKind, Look};
use serde_json::{Map, Value};

use crate::policy::constraint::{Constraint, Test};
use crate::policy::search::Search;

/// Longest sample, bytes.
const LONGEST: usize = 256;
/// How many samples are made of one expression.
const VARIANTS: usize = 4;
/// Characters that read well, in the order in which they are tried.
const FAMILIAR: [char; 10] = ['a', 'x', 'A', '0', '1', '-', '_', '.', '/', ' '];

/// What an expression says about the ends of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Anchors {
    /// Every match begins where the text does.
    pub start: bool,
    /// Every match ends where the text does.
    pub end: bool,
    /// Nothing has to be there.
    pub empty: bool,
}

/// The anchors of an expression that compiles; `None` for one that does not.
pub fn anchors(expression: &str) -> Option<Anchors> {
    let hir = regex_syntax::parse(expression).ok()?;
    let properties = hir.properties();
    Some(Anchors {
        start: properties.look_set_prefix().contains(Look::Start),
        end: properties.look_set_suffix().contains(Look::End),
        empty: properties.minimum_len() == Some(0) && properties.look_set().is_empty(),
    })
}

/// Arguments that satisfy both lists of conditions, if some were found.
pub fn arguments(left: &[Constraint], right: &[Constraint]) -> Option<Value> {
    let mut fields = Map::new();
    for one in left {
        let other = right.iter().find(|other| other.field == one.field);
        fields.insert((*one.field).to_owned(), value(one, other)?);
    }
    for one in right.iter().filter(|one| left.iter().all(|other| other.field != one.field)) {
        fields.insert((*one.field).to_owned(), value(one, None)?);
    }
    let fits = |constraints: &[Constraint]| constraints.iter().all(|one| one.holds(&fields));
    (fits(left) && fits(right)).then_some(Value::Object(fields))
}

fn value(one: &Constraint, other: Option<&Constraint>) -> Option<Value> {
    match (&one.test, other.map(|other| (&other.test, other))) {
        (Test::Equals, _) => Some((*one.operand).clone()),
        (Test::Matches(_), Some((Test::Equals, other))) => Some((*other.operand).clone()),
        (Test::Matches(regex), Some((Test::Matches(other), _))) => {
            text_of_both(regex, other).map(Value::String)
        }
        (Test::Matches(regex), None) => samples(regex).into_iter().next().map(Value::String),
    }
}

/// A text that both expressions match: a sample of one, or the two beside each other.
fn text_of_both(left: &Search, right: &Search) -> Option<String> {
    let (of_left, of_right) = (samples(left), samples(right));
    for one in &of_left {
        for other in &of_right {
            let beside = |joint: &str| [format!("{one}{joint}{other}"), format!("{other}{joint}{one}")];
            let tried = [one.clone(), other.clone()].into_iter().chain(beside(" ")).chain(beside(""));
            if let Some(found) = tried.into_iter().find(|text| left.is_match(text) && right.is_match(text)) {
                return Some(found);
            }
        }
    }
    None
}

/// Some texts that the expression matches, perhaps none.
fn samples(regex: &Search) -> Vec<String> {
    let Ok(hir) = regex_syntax::parse(regex.as_str()) else { return Vec::new() };
    let mut found: Vec<String> = Vec::new();
    for variant in 0..VARIANTS {
        let mut text = String::new();
        if append(&hir, variant, &mut text).is_some() && regex.is_match(&text) && !found.contains(&text) {
            found.push(text);
        }
    }
    found
}

/// Writes the variant of a text that fits; `None` if it grows too long, or nothing can fit.
fn append(hir: &Hir, variant: usize, text: &mut String) -> Option<()> {
    if text.len() > LONGEST {
        return None;
    }
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => text.push_str(std::str::from_utf8(&literal.0).ok()?),
        HirKind::Class(class) => text.push(character(class)?),
        HirKind::Capture(capture) => append(&capture.sub, variant, text)?,
        HirKind::Repetition(repetition) => {
            for _ in 0..repetition.min {
                append(&repetition.sub, variant, text)?;
            }
        }
        HirKind::Concat(parts) => parts.iter().try_for_each(|part| append(part, variant, text))?,
        HirKind::Alternation(branches) => {
            let branch = branches.get(variant % branches.len().max(1))?;
            append(branch, variant, text)?;
        }
    }
    Some(())
}

fn character(class: &Class) -> Option<char> {
    let holds = |c: char| match class {
        Class::Unicode(class) => class.ranges().iter().any(|range| range.start() <= c && c <= range.end()),
        Class::Bytes(class) => u8::try_from(c).is_ok_and(|c| {
            c.is_ascii() && class.ranges().iter().any(|range| range.start() <= c && c <= range.end())
        }),
    };
    let first = || match class {
        Class::Unicode(class) => class.ranges().first().map(ClassUnicodeRange::start),
        Class::Bytes(class) => class.ranges().first().map(|range| char::from(range.start())),
    };
    FAMILIAR.into_iter().find(|c| holds(*c)).or_else(first)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn regex(text: &str) -> Search {
        crate::policy::parse::compiled(text).unwrap()
    }

    #[test]
    fn anchors_count_only_if_every_match_has_them() {
        for (text, start, end) in [
            ("^a$", true, true),
            (r"\Aa\z", true, true),
            ("^(a|b)$", true, true),
            ("^a$|^b$", true, true),
            ("^a|b$", false, false),
            ("^a|^b$", true, false),
            ("^git ", true, false),
            ("(?m)^a$", false, false),
            ("a", false, false),
            ("(^a)?b$", false, true),
        ] {
            let found = anchors(text).unwrap();
            assert_eq!((found.start, found.end), (start, end), "{text}");
        }
        assert!(
            anchors(".*").unwrap().empty && !anchors("a+").unwrap().empty && !anchors("^$").unwrap().empty
        );
    }

    #[test]
    fn a_sample_matches() {
        for text in [
            "^git (status|diff)$",
            "rm",
            "[0-9]{3}-x",
            r"\w+@\w+",
            "(?i)DROP",
            "",
            "^/srv/[^/]+$",
            r"\brm\b",
            "é|[à-ü]",
        ] {
            let samples = samples(&regex(text));
            assert!(!samples.is_empty(), "{text}");
            assert!(samples.iter().all(|sample| regex(text).is_match(sample)), "{text}");
        }
        assert_eq!(samples(&regex("^git (status|diff)$")), ["git status", "git diff"]);
        assert!(samples(&regex("(a{100}){100}")).is_empty());
    }

    #[test]
    fn two_expressions_meet_in_an_example_or_not_at_all() {
        let meet = |left, right| text_of_both(&regex(left), &regex(right));
        assert_eq!(meet("^git ", "rm").as_deref(), Some("git  rm"));
        assert_eq!(meet("^git (status|diff)$", "diff").as_deref(), Some("git diff"));
        assert_eq!(meet("^git ", "^rm "), None);
        assert_eq!(meet("^git$", "rm"), None);
    }
}
