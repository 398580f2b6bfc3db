//! `approval::prompt-policy-changed`: who is told that a session, or the deployment, asks nobody any more, or asks again.
//!
//! Sent and forgotten, as all events are. Whoever was away asks `approval::get-prompt-policy` once.

use super::Events;
use crate::policy::PromptPolicy;
use crate::wire::prompts::PromptPolicyChangedEvent;

impl Events {
    /// The policy in force in a session has changed, if these two differ.
    pub fn prompts_changed(&self, session_id: &str, previous: PromptPolicy, policy: PromptPolicy) {
        if let Some(event) =
            PromptPolicyChangedEvent::of(Some(session_id), previous, policy, self.engine.now_ms())
        {
            self.send_to(self.prompts.matching(session_id, None), &event);
        }
    }

    /// The deployment's default has changed, if these two differ. Which sessions follow it nobody keeps, so all listeners
    /// are told, those of one session too.
    pub fn default_prompts_changed(&self, previous: PromptPolicy, policy: PromptPolicy) {
        if let Some(event) = PromptPolicyChangedEvent::of(None, previous, policy, self.engine.now_ms()) {
            self.send_to(self.prompts.all(), &event);
        }
    }
}
