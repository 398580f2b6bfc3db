//! A call with its verdict and with what it was judged by, so that what is told of the verdict rests on the same.

use std::sync::Arc;

use super::Context;
use crate::clock::Deadline;
use crate::policy::explain::{came_close, denial_text};
use crate::policy::settings::Settings;
use crate::policy::{self, Policy, Question, Verdict};
use crate::redact::visible;
use crate::wire::evaluation::{CameClose, HeldBecause};
use crate::wire::hook::HookCall;

/// Longest rule name that a record remembers, code points.
const RULE_ID_CODE_POINTS: usize = 256;

/// See the module.
pub(super) struct Judged {
    /// What it comes to.
    pub verdict: Verdict,
    /// The policy it rests on.
    pub policy: Arc<Policy>,
    settings: Arc<Settings>,
}

impl Judged {
    /// The verdict on a call by the policy and the settings of this moment.
    pub(super) async fn now(
        context: &Context,
        session_id: &str,
        call: &HookCall,
        deadline: Deadline,
    ) -> Self {
        let policy = context.config.policy();
        let settings = context.settings.for_gate(session_id, &policy, deadline).await;
        let verdict = policy::decide(&question(call), &settings, &policy);
        Self { verdict, policy, settings }
    }

    /// What the model is told of a denial.
    pub(super) fn denial_text(&self, call: &HookCall) -> String {
        denial_text(&question(call), &self.settings, &self.policy, &self.verdict)
    }

    /// What the record of the held call remembers of the reason.
    pub(super) fn held_because(&self, call: &HookCall) -> HeldBecause {
        let close = came_close(&question(call), &self.settings, &self.policy).into_iter();
        HeldBecause {
            rung: self.verdict.because.as_str().to_owned(),
            mode: self.settings.mode.into(),
            close: close
                .map(|(rule, miss)| CameClose {
                    index: rule.index,
                    rule_id: visible(&rule.rule_id, RULE_ID_CODE_POINTS),
                    miss: miss.as_str().to_owned(),
                })
                .collect(),
            configuration_revision: self.policy.revision().map(str::to_owned),
        }
    }
}

fn question(call: &HookCall) -> Question<'_> {
    Question { function_id: &call.function_id, arguments: &call.arguments }
}
