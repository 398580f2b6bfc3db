//! An explanation as it is answered and printed: why a call was decided as it was (contract §1).
//!
//! Every text in it is fit to be shown already, so whoever prints it need not redact. Fields that say nothing are left
//! out; lists may be empty. More fields may come, none will change its meaning.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::policy::explain::{self, Explanation as Explained};
use crate::policy::settings::Mode;
use crate::wire::settings::{GrantedBy, PermissionMode};

/// Why a call was decided as it was.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Explanation {
    /// `continue`, `deny` or `hold`.
    pub decision: &'static str,
    /// The step that decided.
    pub rung: Rung,
    /// The same in one line of plain words, without any argument's value.
    pub reason: String,
    /// The session's mode.
    pub mode: PermissionMode,
    /// `stored`, `default`, or `given` if the question named it.
    pub mode_source: &'static str,
    /// The rule that decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<Rule>,
    /// The list entry that decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<Entry>,
    /// Rules that nearly decided, at most five.
    pub close: Vec<Close>,
    /// What would let the call run without asking anybody, at most five ways; any one of them is enough. What they say
    /// of arguments may be stopped by another rule.
    pub accepted: Vec<Accepted>,
}

/// A step of the ladder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Rung {
    /// Its number in the documented ladder; absent for `locked_down`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<u8>,
    /// `human_only_function`, `not_a_function_id`, `locked_down`, `floor`, `full_mode`, `approved_always`,
    /// `approved_rule`, `always_allow`, `rule`, `no_rule` or `prompts_disabled`.
    pub name: &'static str,
}

/// A rule of the list, with those of its conditions that are of interest here.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Rule {
    /// Position in the list, counted from 0.
    pub index: usize,
    /// The rule's name; its pattern if it has none.
    pub rule_id: String,
    /// The functions it is for.
    pub pattern: String,
    /// `allow` or `deny`.
    pub action: &'static str,
    /// Whether it is a floor.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub floor: bool,
    /// The modes it applies in; absent for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modes: Option<Vec<PermissionMode>>,
    /// All conditions of the rule that decided; of other rules those that do not hold.
    pub constraints: Vec<Constraint>,
}

/// A condition beside what it was compared with.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Constraint {
    /// The argument's name.
    pub field: String,
    /// `equals` or `matches`.
    pub operator: &'static str,
    /// What the rule asks for, redacted.
    pub operand: Value,
    /// What the call carries, redacted; absent if it carries no such argument.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compared: Option<Value>,
}

/// An entry of one of the session's lists.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Entry {
    /// `approved_always`, `approved_rules` or `always_allow`.
    pub list: &'static str,
    /// Position in it, counted from 0.
    pub index: usize,
    /// The functions it is for.
    pub pattern: String,
    /// The name of an approved rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule_id: Option<String>,
    /// How it came there.
    pub granted_by: GrantedBy,
    /// The conditions of an approved rule. All hold.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub constraints: Vec<Constraint>,
}

/// A rule that nearly decided.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Close {
    /// What kept it from deciding: `mode`, `arguments`, `mode_and_arguments`, `not_reached` or `spelling`.
    pub miss: &'static str,
    /// The rule.
    #[serde(flatten)]
    pub rule: Rule,
}

/// One way for the call to run without asking anybody.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Accepted {
    /// The same call in this mode of the session; absent if the mode is fine and the arguments are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<PermissionMode>,
    /// The allow rule; absent if an entry of the session's list does it. Its conditions are what is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<Rule>,
}

impl From<Explained> for Explanation {
    fn from(explained: Explained) -> Self {
        let Explained { rule, constraints, .. } = explained;
        let (of_rule, of_entry) =
            if rule.is_some() { (constraints, Vec::new()) } else { (Vec::new(), constraints) };
        Self {
            decision: explained.decision.as_str(),
            rung: Rung { number: explained.rung.number, name: explained.rung.name },
            reason: explained.reason,
            mode: explained.mode.into(),
            mode_source: explained.mode_source.as_str(),
            rule: rule.map(|rule| Rule::of(rule, of_rule)),
            entry: explained.entry.map(|entry| Entry {
                constraints: of_entry.into_iter().map(Constraint::from).collect(),
                ..Entry::from(entry)
            }),
            close: explained.close.into_iter().map(Close::from).collect(),
            accepted: explained.accepted.into_iter().map(Accepted::from).collect(),
        }
    }
}

impl Rule {
    fn of(rule: explain::RuleName, constraints: Vec<explain::Compared>) -> Self {
        Self {
            index: rule.index,
            rule_id: rule.rule_id,
            pattern: rule.pattern,
            action: rule.action.as_str(),
            floor: rule.floor,
            modes: rule.modes.map(|modes| modes.into_iter().map(Mode::into).collect()),
            constraints: constraints.into_iter().map(Constraint::from).collect(),
        }
    }
}

impl From<explain::Compared> for Constraint {
    fn from(compared: explain::Compared) -> Self {
        let explain::Compared { field, operator, operand, compared } = compared;
        Self { field, operator, operand, compared }
    }
}

impl From<explain::Entry> for Entry {
    fn from(entry: explain::Entry) -> Self {
        let explain::Entry { list, index, pattern, rule_id, granted_by } = entry;
        Self { list, index, pattern, rule_id, granted_by: granted_by.into(), constraints: Vec::new() }
    }
}

impl From<explain::Close> for Close {
    fn from(close: explain::Close) -> Self {
        Self { miss: close.miss.as_str(), rule: Rule::of(close.rule, close.unmet) }
    }
}

impl From<explain::Accepted> for Accepted {
    fn from(accepted: explain::Accepted) -> Self {
        match accepted {
            explain::Accepted::InMode { mode, rule } => {
                Self { mode: Some(mode.into()), rule: rule.map(|rule| Rule::of(rule, Vec::new())) }
            }
            explain::Accepted::WithArguments { rule, unmet } => {
                Self { mode: None, rule: Some(Rule::of(rule, unmet)) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;
    use crate::policy::explain::{ModeSource, explain};
    use crate::policy::{Policy, Question};

    fn told(config: &Value, function_id: &str, arguments: &Value) -> Value {
        let policy = Policy::from_value(config).unwrap();
        let question = Question { function_id, arguments };
        let explained = explain(&question, policy.defaults(), ModeSource::Default, &policy);
        serde_json::to_value(Explanation::from(explained)).unwrap()
    }

    #[test]
    fn a_denial_tells_the_rule_and_what_it_compared() {
        let config = json!({"rules": [
            {"function": "deploy::*", "action": "allow", "modes": ["auto"], "args": {"target": {"matches": "^p"}}},
            {"rule_id": "no-prod", "function": "deploy::*", "action": "deny", "floor": true,
             "args": {"target": {"equals": "prod"}}},
        ]});
        assert_eq!(
            told(&config, "deploy::run", &json!({"target": "prod"})),
            json!({
                "decision": "deny",
                "rung": {"number": 5, "name": "floor"},
                "reason": "floor rule 1 `no-prod` denies `deploy::run` because of its argument `target` (equals)",
                "mode": "manual",
                "mode_source": "default",
                "rule": {
                    "index": 1, "rule_id": "no-prod", "pattern": "deploy::*", "action": "deny", "floor": true,
                    "constraints": [{"field": "target", "operator": "equals", "operand": "prod", "compared": "prod"}],
                },
                "close": [],
                "accepted": [],
            })
        );
    }

    #[test]
    fn a_hold_tells_what_came_close_and_what_would_be_accepted() {
        let config = json!({"rules": [
            {"function": "deploy::*", "action": "allow", "modes": ["manual"], "args": {"target": {"equals": "test"}}},
        ]});
        let told = told(&config, "deploy::run", &json!({}));
        let rule = json!({
            "index": 0, "rule_id": "deploy::*", "pattern": "deploy::*", "action": "allow", "modes": ["manual"],
            "constraints": [{"field": "target", "operator": "equals", "operand": "test"}],
        });
        assert_eq!(told["accepted"], json!([{"rule": rule.clone()}]));
        let mut close = rule;
        close["miss"] = json!("arguments");
        assert_eq!(told["close"], json!([close]));
        assert_eq!(told["rung"], json!({"number": 9, "name": "no_rule"}));
    }
}
