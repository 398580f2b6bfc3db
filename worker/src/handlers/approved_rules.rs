//! `approval::approve-rule` and `approval::remove-rule`: one kind of call is remembered for a session, and forgotten.
//!
//! The rule is made from a call that waits. It is judged by that call's record, which has the arguments redacted, so what
//! the record does not show cannot be approved.

use std::sync::Arc;

use super::Context;
use super::get_pending::find_held;
use super::settings::{check_session, unavailable};
use crate::hold::HoldKey;
use crate::keep::inbox::Live;
use crate::keep::settings::SettingsError;
use crate::policy::approved_rule::{ApprovedRule, RuleProblem};
use crate::policy::settings::{Additions, GrantedBy, NotAdded};
use crate::wire::approved_rules::{
    ApproveRuleRequest, ApproveRuleResponse, RemoveRuleRequest, RemoveRuleResponse,
};
use crate::wire::error::{InvalidPayload, Refusal};
use crate::wire::record::PendingKind;

/// Remembers a rule for the session of a held call that it fits. The call itself goes on waiting.
pub(super) async fn approve_rule(
    context: Arc<Context>,
    request: ApproveRuleRequest,
) -> Result<ApproveRuleResponse, Refusal> {
    let key = HoldKey::new(&request.session_id, &request.function_call_id, "function_call_id")
        .map_err(InvalidPayload::from)?;
    let rule = ApprovedRule::understood(&request.rule, context.engine.now_ms(), GrantedBy::UserClick)
        .map_err(|problem| InvalidPayload::new(field(&problem), problem.what.clone()))?;
    let held = find_held(&context, &key).await?;
    check_held(&held, &key, &rule)?;
    let rule_id = rule.rule_id().to_owned();
    let changed =
        context.settings.change_additions(&request.session_id, |said, _| said.with_rule(rule)).await;
    match changed {
        Ok(changed) => Ok(ApproveRuleResponse { rule_id, settings: changed.settings.into() }),
        Err(SettingsError::NotAdded(why)) => {
            let field = if why == NotAdded::NameInUse { "rule.rule_id" } else { "rule" };
            Err(InvalidPayload::new(field, why.to_string()).into())
        }
        Err(error) => Err(unavailable(&error)),
    }
}

/// Forgets a rule of the session.
pub(super) async fn remove_rule(
    context: Arc<Context>,
    request: RemoveRuleRequest,
) -> Result<RemoveRuleResponse, Refusal> {
    check_session(&request.session_id)?;
    let change = |said: Additions, _| Ok(said.without_rule(&request.rule_id));
    let changed = context.settings.change_additions(&request.session_id, change).await;
    let changed = changed.map_err(|error| unavailable(&error))?;
    let removed = changed.before != changed.settings.additions;
    Ok(RemoveRuleResponse { removed, settings: changed.settings.into() })
}

/// Whether the record of the held call shows that the rule fits it.
fn check_held(held: &Live, key: &HoldKey, rule: &ApprovedRule) -> Result<(), Refusal> {
    let record = &held.record;
    let mismatch = |what: &str| Refusal::RuleMismatch(what.to_owned());
    if record.kind == PendingKind::FilesystemAccess {
        return Err(mismatch("the call waits for access to a folder, which no rule gives"));
    }
    if record.session_id != key.session_id() || record.function_call_id != key.function_call_id() {
        return Err(mismatch("the record names another call than its key"));
    }
    // Another worker's excerpt may be changed in ways that this one would not see.
    if record.hold_id.is_none() {
        return Err(mismatch(
            "the call was held by an older worker, whose record proves nothing about its arguments",
        ));
    }
    rule.proven_by(&record.function_id, &record.arguments_excerpt)
        .map_err(|problem| Refusal::RuleMismatch(format!("{}: {}", field(&problem), problem.what)))
}

fn field(problem: &RuleProblem) -> String {
    if problem.field.is_empty() { "rule".to_owned() } else { format!("rule.{}", problem.field) }
}
