//! `approval-gate prompts`: whether anybody is asked in a session.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::peer::{Failure, Gate};
use super::text::safe;
use crate::cli::person::PolicyWord;
use crate::wire::prompts::PromptSource;
use crate::wire::settings::PromptWord;

/// Prints the prompt policy of a session, or sets it first.
pub async fn run(gate: &Gate, session: &str, policy: Option<PolicyWord>) -> Result<ExitCode, Failure> {
    let in_force = match policy {
        None => gate.prompts("approval::get-prompt-policy", &json!({"session_id": session})).await?,
        Some(policy) => {
            let policy = match policy {
                PolicyWord::Ask => "ask".into(),
                PolicyWord::Never => "never".into(),
                PolicyWord::Default => Value::Null,
            };
            let request = json!({"session_id": session, "policy": policy});
            gate.prompts("approval::set-prompt-policy", &request).await?
        }
    };
    let policy = policy_line(in_force.policy, in_force.source);
    Ok(super::print(&format!("{policy}\nstatement for a system prompt:\n  {}", safe(&in_force.statement))))
}

/// The policy and where it comes from.
pub(super) fn policy_line(policy: PromptWord, source: PromptSource) -> String {
    let policy = match policy {
        PromptWord::Ask => "ask",
        PromptWord::Never => "never",
    };
    let from = match source {
        PromptSource::Stored => "set for this session",
        PromptSource::Default => "the deployment's default",
    };
    format!("{policy}, {from}")
}
