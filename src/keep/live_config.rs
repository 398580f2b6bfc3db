//! The policy in force: compiled once per configuration value, swapped whole, read without a lock.
//!
//! Reading it never waits. Every fetch is numbered when it is started, and a fetch that was started earlier never
//! overwrites the result of a later one, so an old answer that arrives late does not win. A value that cannot be
//! used leaves the last good one in force; where there is none, the gate is locked down (contract §1).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;

use super::background::{Background, retry_delay};
use crate::clock::Deadline;
use crate::iii::CallError;
use crate::policy::Policy;
use crate::siblings::configuration::{Configuration, Fetched, Unread};

/// The gate's own entry.
pub const ENTRY: &str = "approval-gate";
/// How long one fetch may take.
const FETCH_BUDGET: Duration = Duration::from_secs(5);
/// A value of so many bytes is read and compiled on the spot.
const SHORT: usize = 2 * 1024;
/// So many rules are taken apart on the spot.
const FEW_RULES: usize = 32;

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
}

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
            }),
        }
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
            Fetched::Value(value) => compile(value).await?,
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
                self.shared.policy.store(policy);
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
async fn compile(value: Unread) -> Result<Result<Policy, String>, CallError> {
    let understand = |value: &Unread| {
        let value = value.value()?;
        Ok(Policy::from_value(&value).map_err(|refusal| refusal.to_string()))
    };
    if value.bytes() <= SHORT {
        return understand(&value);
    }
    let elsewhere = tokio::task::spawn_blocking(move || understand(&value));
    elsewhere.await.unwrap_or_else(|_| Ok(Err("the rules could not be compiled".to_owned())))
}
