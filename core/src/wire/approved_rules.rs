//! Rules that are remembered for a session: how one is approved and how one is removed.
//!
//! An addition to the published contract. The rule itself is read by `policy::approved_rule`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::wire::settings::ApprovalSettings;

/// Lets calls that are like a held one run without a question in its session.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
pub struct ApproveRuleRequest {
    /// The session of the held call, and of the rule.
    pub session_id: String,
    /// The held call that the rule is made from.
    pub function_call_id: String,
    /// The rule in the configuration's form: `function`, one exact id; `args`, at least one condition; `rule_id` if it is
    /// to have a name of yours. `action` may say `allow`.
    pub rule: Value,
}

/// What was remembered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApproveRuleResponse {
    /// The rule's name in this session.
    pub rule_id: String,
    /// The session's settings after the change, with `approved_rules`.
    pub settings: ApprovalSettings,
}

/// Forgets a rule of a session.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct RemoveRuleRequest {
    /// The session to change.
    pub session_id: String,
    /// The rule's name.
    pub rule_id: String,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RemoveRuleResponse {
    /// Whether there was a rule of that name.
    pub removed: bool,
    /// The session's settings after the change.
    pub settings: ApprovalSettings,
}
