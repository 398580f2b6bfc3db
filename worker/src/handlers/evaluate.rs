//! `approval::evaluate`: what the gate would answer to a call, and why; or why a call waits.
//!
//! Asks the very ladder that the gate asks, with the policy and the settings that it would use. Writes nothing, tells
//! nobody, and is in no audit. What comes behind the ladder is left out: answerers, releases, and whether anybody listens.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::Context;
use super::get_pending::find_held;
use super::settings::check_session;
use crate::clock::Deadline;
use crate::hold::HoldKey;
use crate::keep::settings::Source;
use crate::policy::explain::{ModeSource, explain};
use crate::policy::settings::Settings;
use crate::policy::{Policy, Question};
use crate::wire::error::{InvalidPayload, Refusal};
use crate::wire::evaluation::{
    EvaluateExplanation, EvaluateRequest, EvaluateResponse, EvaluateVerdict, Subject,
};

/// How long reading may take.
const BUDGET: Duration = Duration::from_secs(10);

/// What would become of a call, or why one waits.
pub(super) async fn evaluate(
    context: Arc<Context>,
    request: EvaluateRequest,
) -> Result<EvaluateResponse, Refusal> {
    check_session(&request.session_id)?;
    let session_id = request.session_id.clone();
    match request.subject()? {
        Subject::Call { function_id, arguments } => call(&context, &session_id, function_id, arguments).await,
        Subject::Hold(function_call_id) => hold(&context, &session_id, &function_call_id).await,
    }
}

async fn call(
    context: &Context,
    session_id: &str,
    function_id: String,
    arguments: Value,
) -> Result<EvaluateResponse, Refusal> {
    let policy = context.config.policy();
    let judged_by = context.settings.judged_by(session_id, &policy, Deadline::after(BUDGET)).await;
    let (settings, source) = judged_by.map_err(|error| Refusal::StateUnavailable(error.to_string()))?;
    // An explanation looks at every rule, which may take milliseconds in which a thread that serves calls would serve none.
    let explained =
        tokio::task::spawn_blocking(move || explained(&function_id, &arguments, &settings, source, &policy));
    explained.await.map_err(|_| InvalidPayload::new("arguments", "could not be judged").into())
}

fn explained(
    function_id: &str,
    arguments: &Value,
    settings: &Settings,
    source: Source,
    policy: &Policy,
) -> EvaluateResponse {
    let mode_source = match source {
        Source::Stored => ModeSource::Stored,
        Source::Defaults => ModeSource::Default,
    };
    let mut explanation = explain(&Question { function_id, arguments }, settings, mode_source, policy);
    EvaluateResponse {
        verdict: explanation.decision.into(),
        reason: explanation.denial.take(),
        explanation: Some(EvaluateExplanation {
            explanation: explanation.into(),
            configuration_revision: policy.revision().map(str::to_owned),
        }),
        held: None,
    }
}

async fn hold(
    context: &Context,
    session_id: &str,
    function_call_id: &str,
) -> Result<EvaluateResponse, Refusal> {
    let key = HoldKey::new(session_id, function_call_id, "function_call_id").map_err(InvalidPayload::from)?;
    let held = find_held(context, &key).await?;
    Ok(EvaluateResponse {
        verdict: EvaluateVerdict::NeedsApproval,
        reason: None,
        explanation: None,
        held: Some(held.record.into()),
    })
}
