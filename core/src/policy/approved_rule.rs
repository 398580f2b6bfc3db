//! A rule that a person approved for one session, made from a call that waited: the narrow form of a remembered click.
//!
//! It is a rule of the configuration's form that can only allow, only one function, and only by its arguments. Must not
//! know how it is stored. Two things make it safe to remember. It is *narrower than a bare grant*: a condition that asks
//! for nothing is refused. And it is *proven* by the held call's record: the record shows a redacted excerpt, so a
//! condition may only look at arguments that the excerpt certainly shows as they came.

use std::fmt::Write as _;
use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::constraint::{Constraint, Test};
use super::parse;
use super::refusal::{Problem, Refusal, shown};
use super::rule::{Action, Rule};
use super::settings::{GrantedBy, grantable};
use super::{id, pattern};
use crate::redact;

/// How much of what is wrong with a rule is told, code points.
const TOLD: usize = 400;

/// A rule of the session's own.
#[derive(Debug, Clone)]
pub struct ApprovedRule {
    /// The rule. Its pattern is one exact function id, its action allow, its constraints are never empty.
    pub rule: Arc<Rule>,
    /// When it was added, milliseconds since the epoch.
    pub granted_at: i64,
    /// By whom.
    pub granted_by: GrantedBy,
}

/// Why a rule cannot be remembered. Texts repeat names of fields, clipped, and no values: neither the rule's nor the
/// call's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {what}")]
pub struct RuleProblem {
    /// The field of the rule, dotted; empty for the rule as a whole.
    pub field: String,
    /// What is wrong with it.
    pub what: String,
}

impl RuleProblem {
    fn new(field: impl Into<String>, what: impl Into<String>) -> Self {
        Self { field: field.into(), what: what.into() }
    }

    fn of_argument(constraint: &Constraint, what: &str) -> Self {
        Self::new(format!("args.{}", shown(&constraint.field)), what)
    }
}

impl ApprovedRule {
    /// Understands a rule in the configuration's form, where `action` may be left out, and sees that it is narrower than
    /// a bare grant of its function. Without a `rule_id` it is named after its content.
    pub fn understood(value: &Value, granted_at: i64, granted_by: GrantedBy) -> Result<Self, RuleProblem> {
        let Some(fields) = value.as_object() else {
            return Err(RuleProblem::new("", "must be an object with `function` and `args`"));
        };
        let mut rule = allowing(fields)?;
        narrow(&rule)?;
        if !fields.contains_key("rule_id") {
            rule.rule_id = name(&rule).into();
        }
        Ok(Self { rule: Arc::new(rule), granted_at, granted_by })
    }

    /// Its name, unique in its session.
    pub fn rule_id(&self) -> &str {
        &self.rule.rule_id
    }

    /// Whether the other one, whenever it was added, is the same rule.
    pub fn says_the_same(&self, other: &Self) -> bool {
        self.written() == other.written()
    }

    /// The rule in the configuration's form, fit to be put there.
    pub fn written(&self) -> Value {
        let (function, rule_id) = (&*self.rule.pattern, &*self.rule.rule_id);
        json!({"rule_id": rule_id, "function": function, "action": Action::Allow.as_str(), "args": args(&self.rule)})
    }

    /// Whether it allows this call.
    pub fn fits(&self, function_id: &str, arguments: &Value) -> bool {
        *self.rule.pattern == *function_id
            && arguments
                .as_object()
                .is_some_and(|fields| self.rule.constraints.iter().all(|one| one.holds(fields)))
    }

    /// Sees that it fits a held call, as far as that call's record can prove it: its function id as it is shown, and the
    /// redacted excerpt of its arguments.
    pub fn proven_by(&self, shown_id: &str, excerpt: &Value) -> Result<(), RuleProblem> {
        if *self.rule.pattern != *shown_id || !redact::is_verbatim(&Value::String(shown_id.to_owned())) {
            return Err(RuleProblem::new("function", "is not the function of the held call"));
        }
        let Some(fields) = excerpt.as_object() else {
            return Err(RuleProblem::new("args", "the held call has no arguments by name"));
        };
        for constraint in &self.rule.constraints {
            let Some(value) = fields.get(&*constraint.field) else {
                return Err(RuleProblem::of_argument(
                    constraint,
                    "the record of the held call shows no such argument",
                ));
            };
            let certain = redact::is_verbatim(value)
                && redact::is_verbatim(&Value::String((*constraint.field).to_owned()));
            if !certain {
                let what = "the record of the held call shows this argument redacted, shortened or spelled out, which \
                            proves nothing";
                return Err(RuleProblem::of_argument(constraint, what));
            }
            if !constraint.holds(fields) {
                return Err(RuleProblem::of_argument(constraint, "does not hold for the held call"));
            }
        }
        Ok(())
    }
}

impl PartialEq for ApprovedRule {
    fn eq(&self, other: &Self) -> bool {
        (self.granted_at, self.granted_by) == (other.granted_at, other.granted_by)
            && self.says_the_same(other)
    }
}

impl Eq for ApprovedRule {}

/// The rule, which may say that it allows and cannot say anything else.
fn allowing(fields: &Map<String, Value>) -> Result<Rule, RuleProblem> {
    for (field, what) in [
        ("modes", "is not accepted: an approved rule counts in every mode"),
        ("floor", "is not accepted: a rule that allows cannot be a floor"),
    ] {
        if fields.contains_key(field) {
            return Err(RuleProblem::new(field, what));
        }
    }
    if fields.get("action").is_some_and(|action| action != Action::Allow.as_str()) {
        return Err(RuleProblem::new("action", "must be `allow`, or left out"));
    }
    let mut rule = fields.clone();
    rule.insert("action".to_owned(), Action::Allow.as_str().into());
    parse::rule(&Value::Object(rule)).map_err(|refusal| bad_regex(fields).unwrap_or_else(|| retold(&refusal)))
}

/// What a configuration's refusal says, which repeats words of the rule's form only, its regular expressions apart.
fn retold(refusal: &Refusal) -> RuleProblem {
    let told = |problem: &Problem| match &problem.hint {
        Some(hint) => format!("{} ({hint})", problem.what),
        None => problem.what.clone(),
    };
    let texts: Vec<String> = refusal.problems().iter().map(told).collect();
    RuleProblem::new("", redact::visible(&texts.join("; "), TOLD))
}

/// The first regular expression that does not compile.
fn bad_regex(fields: &Map<String, Value>) -> Option<RuleProblem> {
    fields.get("args")?.as_object()?.iter().find_map(|(field, condition)| {
        let text = condition.get("matches")?.as_str().filter(|text| text.len() <= parse::MAX_REGEX_BYTES)?;
        let cause = parse::compiled(text).err()?;
        let what = format!("`matches` does not compile ({cause})");
        Some(RuleProblem::new(format!("args.{}", shown(field)), redact::visible(&what, TOLD)))
    })
}

/// Whether the rule opens less than a bare grant of its function would.
fn narrow(rule: &Rule) -> Result<(), RuleProblem> {
    if pattern::is_open(&rule.pattern) {
        return Err(RuleProblem::new("function", "must be one exact function id, without `*`"));
    }
    if let Some(problem) = id::problem(&rule.pattern) {
        return Err(RuleProblem::new("function", problem.to_string()));
    }
    grantable(&rule.pattern)
        .map_err(|_| RuleProblem::new("function", "names a human_only_function, which no rule can open"))?;
    if rule.constraints.is_empty() {
        let what = "must name at least one argument; `approval::approve-always` allows a function whatever its arguments";
        return Err(RuleProblem::new("args", what));
    }
    rule.constraints.iter().try_for_each(asks_for_something)
}

/// Whether a condition could turn a call away: `equals` null holds for every call that leaves the argument out, and a
/// regex may fit whatever there is.
fn asks_for_something(constraint: &Constraint) -> Result<(), RuleProblem> {
    let asks_nothing = match &constraint.test {
        Test::Equals => constraint.operand.is_null(),
        Test::Matches(regex) => regex.is_match("") || SAMPLES.iter().all(|sample| regex.is_match(sample)),
    };
    if asks_nothing {
        return Err(RuleProblem::of_argument(
            constraint,
            "fits nearly every call: ask for more of this argument",
        ));
    }
    Ok(())
}

/// How many texts a regex is tried on.
const SAMPLE_COUNT: usize = 8;

/// Texts that have every printable character in common and no two neighbours: a regex that is found in each of them
/// asks for characters and for nothing that they say.
static SAMPLES: LazyLock<[String; SAMPLE_COUNT]> = LazyLock::new(|| {
    let printable: Vec<char> = (' '..='~').chain("é漢\n".chars()).collect();
    // Steps that have no factor in common with 98 visit every character once, and each other neighbours.
    let steps = [3, 5, 9, 11, 13, 15, 17, 19];
    std::array::from_fn(|at| {
        let start = at * 12;
        (0..printable.len()).map(|n| printable[(start + n * steps[at]) % printable.len()]).collect()
    })
});

/// A name for a rule that has none: the same content, the same name.
fn name(rule: &Rule) -> String {
    let content = json!([&*rule.pattern, args(rule)]).to_string();
    let mut name = "rule-".to_owned();
    for byte in Sha256::digest(content).iter().take(6) {
        // Writing to a string cannot fail.
        let _ = write!(name, "{byte:02x}");
    }
    name
}

fn args(rule: &Rule) -> Value {
    let one = |constraint: &Constraint| {
        ((*constraint.field).to_owned(), json!({constraint.operator(): &*constraint.operand}))
    };
    Value::Object(rule.constraints.iter().map(one).collect())
}

#[cfg(test)]
mod tests;
