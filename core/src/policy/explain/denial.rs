//! A rule's denial in one line for the model: which rule, which argument, and what would be accepted.
//!
//! A model learns names of arguments and of rules, never what a rule compares with: with `equals` that is the argument's
//! own value, and an operand can be a secret of the operator's. What needs a person, such as another mode, is not told.

use super::Asked;
use super::close::{decided_at, unmet_by_arguments};
use crate::policy::refusal::shown;
use crate::policy::rule::Rule;
use crate::policy::settings::Settings;
use crate::policy::verdict::{Because, Verdict};
use crate::policy::{Policy, Question};

/// So many allow rules are named.
const RULES: usize = 2;
/// So many arguments of each are named.
const FIELDS: usize = 3;

/// What a model is told of a denial: [`Verdict::denial_text`], and what would be accepted. Never an argument's value.
pub fn denial_text(
    question: &Question<'_>,
    settings: &Settings,
    policy: &Policy,
    verdict: &Verdict,
) -> String {
    let mut text = verdict.denial_text();
    let Because::Rule { constraint, .. } = &verdict.because else { return text };
    if let Some(constraint) = constraint {
        text.push_str("; to a call with another `");
        text.push_str(&shown(&constraint.field));
        text.push_str("` this rule does not apply");
    }
    let asked = Asked { question, settings, policy };
    let before = decided_at(verdict, policy).unwrap_or(0);
    for (_, rule) in unmet_by_arguments(&asked, before).take(RULES) {
        text.push_str(&covers(rule, &asked));
    }
    text
}

fn covers(rule: &Rule, asked: &Asked<'_>) -> String {
    let fields: Vec<String> = asked.failing(rule).map(|constraint| shown(&constraint.field)).collect();
    let mut named: Vec<String> = fields.iter().take(FIELDS).map(|field| format!("`{field}`")).collect();
    if fields.len() > FIELDS {
        named.push("others".to_owned());
    }
    let (meet, condition) = if named.len() > 1 { ("meet", "conditions") } else { ("meets", "condition") };
    format!(
        "; the allow rule `{}` covers calls whose {} {meet} its {condition}",
        shown(&rule.rule_id),
        named.join(" and ")
    )
}
