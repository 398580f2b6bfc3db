//! The policy in force: compiled once per configuration value, swapped whole, read without a lock.
//!
//! Reading it never waits. Every fetch is numbered when it is started, and a fetch that was started earlier never
//! overwrites the result of a later one, so an old answer that arrives late does not win. A value that cannot be
//! used leaves the last good one in force; where there is none, the gate is locked down (contract §1).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::background::{Background, retry_delay};
use crate::clock::Deadline;
use crate::iii::CallError;
use crate::policy::{Policy, PromptPolicy};
use crate::siblings::configuration::{Configuration, Fetched, Unread};

/// The gate's own entry.
pub const ENTRY: &str = "approval-gate";
/// How long one fetch may take.
const FETCH_BUDGET: Duration = Duration::from_secs(5);
/// A value of so many bytes is read and compiled on the spot.
const SHORT: usize = 2 * 1024;
/// So long rules are compiled without a rest, and so long is the rest.
const WORK: Duration = Duration::from_micros(300);
const REST: Duration = Duration::from_micros(100);
/// So many rules are taken apart on the spot.
const FEW_RULES: usize = 32;
/// So much of a value's digest is in its revision. No more: what a value holds could be guessed against the whole.
const REVISION_BYTES: usize = 6;

/// The policy in force. Cheap to clone.
#[derive(Clone)]
pub struct LiveConfig {
    shared: Arc<Shared>,
}

struct Shared {
    policy: ArcSwap<Policy>,
    configuration: Configuration,
    background: Background,
    started: AtomicU64,
    applied: Mutex<Applied>,
    /// A failed fetch is being tried again behind.
    retrying: AtomicBool,
    on_prompts: OnceLock<OnPrompts>,
}

/// Is told the deployment's prompt policy before and after each valid value but the first.
type OnPrompts = Box<dyn Fn(PromptPolicy, PromptPolicy) + Send + Sync>;

#[derive(Default)]
struct Applied {
    /// The number of the newest fetch whose answer was looked at.
    number: u64,
    /// The last policy that came from a valid value.
    last_good: Option<Arc<Policy>>,
}

impl LiveConfig {
    /// Locked down until the first fetch.
    pub fn new(configuration: Configuration, background: Background) -> Self {
        Self {
            shared: Arc::new(Shared {
                policy: ArcSwap::from_pointee(Policy::locked_down()),
                configuration,
                background,
                started: AtomicU64::new(0),
                applied: Mutex::default(),
                retrying: AtomicBool::new(false),
                on_prompts: OnceLock::new(),
            }),
        }
    }

    /// Has this told what a new value makes of the deployment's prompt policy, in the order of the values. A lock-down
    /// changes nothing in that sense. Only the first one asked for is told.
    pub fn on_prompts(&self, told: impl Fn(PromptPolicy, PromptPolicy) + Send + Sync + 'static) {
        let _ = self.shared.on_prompts.set(Box::new(told));
    }

    /// The policy in force at this moment.
    pub fn policy(&self) -> Arc<Policy> {
        self.shared.policy.load_full()
    }

    /// Fetches the entry and puts it in force, if it is valid and no later fetch was quicker.
    pub async fn refetch(&self) -> Result<(), CallError> {
        let number = self.shared.started.fetch_add(1, Ordering::AcqRel) + 1;
        let fetched = self.shared.configuration.fetch(ENTRY, Deadline::after(FETCH_BUDGET)).await?;
        // Compiled outside of the lock that `apply` takes: a large value must not make a quicker fetch wait.
        let compiled = match fetched {
            Fetched::Value(value) => compile(number, value).await?,
            Fetched::Invalid(why) => Err(why),
        };
        let replaced = self.apply(number, compiled);
        // Taking a thousand rules apart takes milliseconds too.
        if replaced.as_ref().is_some_and(|policy| policy.rules().len() > FEW_RULES) {
            tokio::task::spawn_blocking(move || drop(replaced));
        }
        Ok(())
    }

    /// As [`LiveConfig::refetch`]; a failure keeps what is in force and is tried again behind.
    pub async fn refetch_or_later(&self) {
        let Err(error) = self.refetch().await else { return };
        tracing::error!(%error, "the changed configuration could not be fetched; the last good one stays in force");
        if self.shared.retrying.swap(true, Ordering::AcqRel) {
            return;
        }
        let config = self.clone();
        self.shared.background.spawn(async move {
            let connection = config.shared.configuration.connection();
            let mut attempt = 0;
            // A new connection fetches by itself.
            while config.shared.configuration.connection() == connection {
                tokio::time::sleep(retry_delay(attempt)).await;
                if config.refetch().await.is_ok() {
                    break;
                }
                attempt += 1;
            }
            config.shared.retrying.store(false, Ordering::Release);
        });
    }

    /// Until the next fetch has answered, everything that could run is held: after a reconnect the stored value may
    /// be another one, and a stale policy must not decide.
    pub fn lock_down(&self) {
        let mut applied = self.shared.applied.lock().unwrap_or_else(PoisonError::into_inner);
        applied.number = self.shared.started.load(Ordering::Acquire);
        self.shared.policy.store(Arc::new(Policy::locked_down()));
    }

    /// Returns the policy that is no longer of use.
    fn apply(&self, number: u64, compiled: Result<Policy, String>) -> Option<Arc<Policy>> {
        let mut applied = self.shared.applied.lock().unwrap_or_else(PoisonError::into_inner);
        if number <= applied.number {
            return compiled.ok().map(Arc::new);
        }
        applied.number = number;
        match (compiled, &applied.last_good) {
            (Ok(policy), _) => {
                tracing::info!(rules = policy.rules().len(), "configuration in force");
                let policy = Arc::new(policy);
                let replaced = applied.last_good.replace(Arc::clone(&policy));
                self.shared.policy.store(Arc::clone(&policy));
                if let (Some(before), Some(told)) = (&replaced, self.shared.on_prompts.get()) {
                    told(before.prompt_policy(), policy.prompt_policy());
                }
                return replaced;
            }
            (Err(why), Some(last_good)) => {
                tracing::error!(%why, "the new configuration is refused; the last good one stays in force");
                self.shared.policy.store(Arc::clone(last_good));
            }
            (Err(why), None) => tracing::error!(
                %why,
                "the configuration entry `approval-gate` cannot be used and there is no last good one: locked down, \
                 every call is held until a valid value is set"
            ),
        }
        None
    }
}

/// A thousand rules take tens of milliseconds, in which a thread that serves calls would serve none.
async fn compile(number: u64, value: Unread) -> Result<Result<Policy, String>, CallError> {
    let understand = move |value: &Unread, step: &mut dyn FnMut()| {
        let value = value.value()?;
        let policy = Policy::from_value_in_steps(&value, step).map_err(|refusal| refusal.to_string());
        Ok(policy.map(|policy| policy.with_revision(&revision(number, &value))))
    };
    if value.bytes() <= SHORT {
        return understand(&value, &mut || {});
    }
    let elsewhere = tokio::task::spawn_blocking(move || understand(&value, &mut rests()));
    elsewhere.await.unwrap_or_else(|_| Ok(Err("the rules could not be compiled".to_owned())))
}

/// Rests now and then: where every processor is busy, a thread that serves calls would have to wait for this one.
fn rests() -> impl FnMut() {
    let mut since = Instant::now();
    move || {
        if since.elapsed() >= WORK {
            std::thread::sleep(REST);
            since = Instant::now();
        }
    }
}

/// The configuration worker numbers nothing, so the gate does: which fetch of this run the value came with, and the start
/// of a digest of it, by which it is known again in another run.
fn revision(number: u64, value: &Value) -> String {
    // Objects are ordered by key, so that the same value has the same text.
    let digest = Sha256::digest(value.to_string());
    digest.iter().take(REVISION_BYTES).fold(format!("{number}-"), |text, byte| format!("{text}{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_revision_tells_fetches_and_values_apart() {
        let value = json!({"rules": ["a::*"], "default_mode": "auto"});
        let same = json!({"default_mode": "auto", "rules": ["a::*"]});
        assert_eq!(revision(3, &value), revision(3, &same));
        assert!(revision(12, &value).starts_with("12-") && revision(12, &value).len() == 3 + 12);
        assert_eq!(revision(3, &value)[2..], revision(4, &value)[2..]);
        assert_ne!(revision(3, &value), revision(3, &json!({"rules": ["b::*"]})));
    }
}
