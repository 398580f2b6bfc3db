//! What is understood and in force, and still most likely not what its author meant.
//!
//! A warning is never a guess about what can happen: that a rule never decides follows from the rules before it, and that
//! a deny is opened is shown by a call that `decide` lets through. What cannot be shown is not warned of.

mod overlap;
mod pairs;
mod samples;
#[cfg(test)]
mod tests;

use super::constraint::{Constraint, Test};
use super::refusal::shown;
use super::rule::{Action, Rule};
use super::settings::Mode;
use super::{Policy, human_only, pattern};
use overlap::Outline;

/// How many steps comparing rules with each other may take in all, some seconds' work: all pairs of the longest list
/// take half of it.
const BUDGET: u64 = 200_000_000;

/// How much a finding weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Weight {
    /// Most likely a mistake.
    Warning,
    /// Worth knowing.
    Note,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lint {
    /// How much it weighs.
    pub weight: Weight,
    /// The kind of finding as one word.
    pub name: &'static str,
    /// The rule that it is about, counted from 0; `None` if it is about no single one.
    pub index: Option<usize>,
    /// What was found, in one line.
    pub what: String,
    /// What to do, if anything.
    pub hint: Option<&'static str>,
}

/// All findings about one configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lints {
    /// The findings, in rule order.
    pub found: Vec<Lint>,
    /// Whether all rules were compared with each other; very long lists are only compared in part.
    pub complete: bool,
}

/// Looks for mistakes.
pub fn lint(policy: &Policy) -> Lints {
    let outlines = policy.rules().iter().map(|rule| Outline::new(&rule.pattern)).collect();
    let mut lints = Lints { found: default_mode(policy).into_iter().collect(), complete: true };
    let mut pairs = pairs::Pairs { policy, outlines, budget: BUDGET };
    for (index, rule) in policy.rules().iter().enumerate() {
        // One finding about a rule that never decides says all that matters about it.
        if let Some(never) = never_in_mode(index, rule).or_else(|| pairs.shadowed(index, rule)) {
            lints.found.push(never);
            continue;
        }
        lints.found.extend(alone(index, rule));
        lints.found.extend(pairs.opened(index, rule));
    }
    lints.complete = pairs.budget > 0;
    lints
}

impl Lint {
    fn warning(name: &'static str, index: usize, what: String, hint: &'static str) -> Self {
        Self { weight: Weight::Warning, name, index: Some(index), what, hint: Some(hint) }
    }

    fn note(name: &'static str, index: usize, what: String, hint: Option<&'static str>) -> Self {
        Self { weight: Weight::Note, name, index: Some(index), what, hint }
    }
}

/// A rule as findings name it.
fn named(index: usize, rule: &Rule) -> String {
    format!("rule {index} `{}`", shown(&rule.rule_id))
}

/// The modes in which a rule is asked at all.
fn asked_in(rule: &Rule) -> impl Iterator<Item = Mode> + '_ {
    let reached = |mode: &Mode| rule.floor || *mode != Mode::Full;
    Mode::ALL.into_iter().filter(reached).filter(|mode| rule.in_mode(*mode))
}

fn default_mode(policy: &Policy) -> Option<Lint> {
    let sleeping = policy.rules().iter().filter(|rule| rule.action == Action::Deny && !rule.floor).count();
    (policy.default_mode() == Mode::Full && sleeping > 0).then(|| Lint {
        weight: Weight::Warning,
        name: "default_mode_full",
        index: None,
        what: format!(
            "`default_mode` is full, so in a session whose mode nobody set, deny rules do not count ({sleeping} here)"
        ),
        hint: Some("give the deny rules `floor: true`, or choose another mode"),
    })
}

fn never_in_mode(index: usize, rule: &Rule) -> Option<Lint> {
    asked_in(rule).next().is_none().then(|| {
        Lint::warning(
            "never_reached",
            index,
            format!(
                "{} never decides: it is for mode full only, in which rules are not asked",
                named(index, rule)
            ),
            "leave out `modes`, or make a deny a floor",
        )
    })
}

/// What can be said about a rule without looking at others.
fn alone(index: usize, rule: &Rule) -> Vec<Lint> {
    match rule.action {
        Action::Allow if human_only::names_only_human_only(&rule.pattern) => vec![Lint::warning(
            "human_only",
            index,
            format!("{} opens nothing: only a person may call what it covers", named(index, rule)),
            "remove it",
        )],
        Action::Allow => wide_pattern(index, rule).into_iter().chain(wide_conditions(index, rule)).collect(),
        Action::Deny => modes_of_deny(index, rule).into_iter().collect(),
    }
}

/// An allow whose pattern reaches further than one namespace, without any condition on arguments.
fn wide_pattern(index: usize, rule: &Rule) -> Option<Lint> {
    if !rule.constraints.is_empty() {
        return None;
    }
    let (name, pattern) = (named(index, rule), Outline::new(&rule.pattern));
    if pattern.covers(&Outline::new("*::*")) {
        let what = format!("{name} allows every function, those of workers still to come too");
        return Some(Lint::warning("allows_all", index, what, "name the namespaces, as in `state::*`"));
    }
    let head = pattern::head(&rule.pattern);
    let elsewhere = format!("{}2::x", head.trim_end_matches(':'));
    let open = !head.is_empty() && !head.contains("::") && pattern::matches(&rule.pattern, &elsewhere);
    open.then(|| {
        let what = format!("{name} covers other namespaces too, for example `{}`", shown(&elsewhere));
        Lint::warning("open_namespace", index, what, "write `::` in front of the `*`")
    })
}

/// An allow that asks for a text somewhere in an argument.
fn wide_conditions(index: usize, rule: &Rule) -> Vec<Lint> {
    rule.constraints.iter().filter_map(|constraint| unanchored(index, rule, constraint)).collect()
}

fn unanchored(index: usize, rule: &Rule, constraint: &Constraint) -> Option<Lint> {
    let Test::Matches(regex) = &constraint.test else { return None };
    let anchors = samples::anchors(regex.as_str())?;
    let (what, hint) = match (anchors.start, anchors.end) {
        (true, true) => return None,
        _ if anchors.empty => ("fits every text", "ask for the whole text with `^` and `$`"),
        (false, false) => ("fits anywhere in a longer text", "put `^` in front and `$` behind"),
        (true, false) => ("leaves open what follows", "put `$` behind, in all alternatives"),
        (false, true) => ("leaves open what stands in front", "put `^` in front, in all alternatives"),
    };
    let what = format!(
        "{} allows more than it looks: the regex `{}` on `{}` {what}",
        named(index, rule),
        shown(regex.as_str()),
        shown(&constraint.field)
    );
    Some(Lint::warning("unanchored", index, what, hint))
}

fn modes_of_deny(index: usize, rule: &Rule) -> Option<Lint> {
    let name = named(index, rule);
    if rule.floor {
        let modes: Vec<_> = asked_in(rule).map(Mode::as_str).collect();
        let (what, hint) = if modes.len() == Mode::ALL.len() {
            ("in every mode, whatever earlier rules and people's lists say".to_owned(), None)
        } else {
            (format!("in mode {} only", modes.join(" and ")), Some("leave out `modes` for all modes"))
        };
        return Some(Lint::note("floor", index, format!("{name} is a floor: it denies {what}"), hint));
    }
    rule.modes.as_ref().is_some_and(|modes| modes.contains(&Mode::Full)).then(|| {
        let what = format!("{name} names mode full, in which rules are not asked");
        Lint::warning("never_in_full", index, what, "give it `floor: true` to deny in mode full too")
    })
}
