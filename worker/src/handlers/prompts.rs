//! `approval::set-prompt-policy` and `approval::get-prompt-policy`: whether anybody is asked in a session.

use std::sync::Arc;

use super::Context;
use super::settings::{check_session, unavailable};
use crate::policy::PromptPolicy;
use crate::wire::error::Refusal;
use crate::wire::prompts::{GetPromptPolicyRequest, PromptPolicyResponse, SetPromptPolicyRequest};

/// Sets the session's policy, or goes back to the deployment's, and tells the listeners if that changes anything.
pub(super) async fn set_prompt_policy(
    context: Arc<Context>,
    request: SetPromptPolicyRequest,
) -> Result<PromptPolicyResponse, Refusal> {
    check_session(&request.session_id)?;
    let wanted = request.policy.map(PromptPolicy::from);
    let change =
        context.settings.change_additions(&request.session_id, |said, _| Ok(said.with_prompts(wanted)));
    let changed = change.await.map_err(|error| unavailable(&error))?;
    tell(&context, &request.session_id, changed.before.prompts, wanted);
    Ok(PromptPolicyResponse::of(wanted, context.config.policy().prompt_policy()))
}

/// What is in force, and where it comes from; never writes.
pub(super) async fn get_prompt_policy(
    context: Arc<Context>,
    request: GetPromptPolicyRequest,
) -> Result<PromptPolicyResponse, Refusal> {
    check_session(&request.session_id)?;
    let said = context.settings.prompts(&request.session_id).await.map_err(|error| unavailable(&error))?;
    Ok(PromptPolicyResponse::of(said, context.config.policy().prompt_policy()))
}

/// Tells the listeners if what a session says of itself now changes what is in force in it.
pub(super) fn tell(
    context: &Context,
    session_id: &str,
    before: Option<PromptPolicy>,
    after: Option<PromptPolicy>,
) {
    let default = context.config.policy().prompt_policy();
    context.events.prompts_changed(session_id, before.unwrap_or(default), after.unwrap_or(default));
}
