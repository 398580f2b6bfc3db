//! Things that go wrong on demand: a small table that is asked whenever a call is routed and when it is answered.
//!
//! A rule names a function and, if it likes, a caller. The same table serves built-in functions and those of
//! workers, calls of workers, of the stand-ins and of the engine itself (events). It must not know what any
//! function does. The non-obvious fact: a fault that never answers leaves its call running for good; such calls end
//! with the engine.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

/// What goes wrong with a matching call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The call is done, the answer comes this much later.
    DelayAnswer(Duration),
    /// The call is done, the answer is kept until [`Faults::release`].
    HoldAnswer,
    /// The call is done and never answered.
    DropAnswer,
    /// The call is kept as it came, neither done nor answered, until [`Faults::release`].
    HoldInvocation,
    /// The call is neither done nor answered.
    Ignore,
    /// The call is not done and answered with this error.
    Fail {
        /// The error's code.
        code: String,
        /// The error's message.
        message: String,
    },
    /// The call is done and then answered with this error.
    FailAfter {
        /// The error's code.
        code: String,
        /// The error's message.
        message: String,
    },
    /// The call is done once and its answer sent twice.
    DuplicateAnswer,
    /// The executing worker gets the call twice, under one invocation id.
    DuplicateInvocation,
}

/// When a fault strikes.
#[derive(Debug, Clone)]
pub struct Rule {
    /// The function called; `*` stands for every function.
    pub function_id: String,
    /// The calling worker's registered name, `harness` for the stand-in harness, `engine` for events; absent = anyone.
    pub caller: Option<String>,
    /// What goes wrong.
    pub fault: Fault,
    /// How often it strikes; absent = until released.
    pub times: Option<u32>,
}

impl Rule {
    /// A rule on one function, any caller, until released.
    pub fn on(function_id: impl Into<String>, fault: Fault) -> Self {
        Self { function_id: function_id.into(), caller: None, fault, times: None }
    }

    /// The same rule, striking once.
    #[must_use]
    pub fn once(mut self) -> Self {
        self.times = Some(1);
        self
    }

    /// The same rule for one caller only.
    #[must_use]
    pub fn from_caller(mut self, caller: impl Into<String>) -> Self {
        self.caller = Some(caller.into());
        self
    }
}

/// Names an injected rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FaultId(u64);

/// A rule in force. `released` wakes the calls it keeps, `hits` tells how often it struck.
struct Armed {
    id: FaultId,
    rule: Rule,
    active: bool,
    released: watch::Sender<bool>,
    hits: watch::Sender<u32>,
}

/// The table. All methods take effect at once and may be called from any thread.
#[derive(Debug)]
pub struct Faults {
    rules: Mutex<Vec<Armed>>,
    next: AtomicU64,
    frozen: watch::Sender<bool>,
    cuts: watch::Sender<u64>,
    refusing: AtomicBool,
}

impl std::fmt::Debug for Armed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Armed")
            .field("id", &self.id)
            .field("rule", &self.rule)
            .finish_non_exhaustive()
    }
}

/// A fault that struck one call.
pub(super) struct Strike {
    pub(super) fault: Fault,
    released: watch::Receiver<bool>,
}

impl Strike {
    /// Waits until the rule is released. A rule that vanished with its engine counts as released.
    pub(super) async fn released(&mut self) {
        let _ = self.released.wait_for(|released| *released).await;
    }
}

impl Faults {
    pub(super) fn new() -> Self {
        Self {
            rules: Mutex::new(Vec::new()),
            next: AtomicU64::new(0),
            frozen: watch::Sender::new(false),
            cuts: watch::Sender::new(0),
            refusing: AtomicBool::new(false),
        }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Vec<Armed>) -> T) -> T {
        act(&mut self.rules.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts a rule into force. Where several match a call, the oldest strikes.
    pub fn inject(&self, rule: Rule) -> FaultId {
        let id = FaultId(self.next.fetch_add(1, Ordering::Relaxed));
        let armed = Armed {
            id,
            rule,
            active: true,
            released: watch::Sender::new(false),
            hits: watch::Sender::new(0),
        };
        self.with(|rules| rules.push(armed));
        id
    }

    /// Ends a rule and lets go of every call it keeps. An unknown id does nothing.
    pub fn release(&self, id: FaultId) {
        self.with(|rules| {
            for armed in rules.iter_mut().filter(|armed| armed.id == id) {
                armed.active = false;
                armed.released.send_replace(true);
            }
        });
    }

    /// Ends every rule, as [`Faults::release`] does.
    pub fn clear(&self) {
        self.with(|rules| {
            for armed in rules.iter_mut() {
                armed.active = false;
                armed.released.send_replace(true);
            }
        });
    }

    /// How many calls a rule has struck.
    pub fn hits(&self, id: FaultId) -> u32 {
        self.with(|rules| rules.iter().find(|armed| armed.id == id).map_or(0, |armed| *armed.hits.borrow()))
    }

    /// Waits until a rule has struck at least `count` calls. An unknown id never has.
    pub async fn struck(&self, id: FaultId, count: u32) {
        let hits =
            self.with(|rules| rules.iter().find(|armed| armed.id == id).map(|armed| armed.hits.subscribe()));
        match hits {
            Some(mut hits) => drop(hits.wait_for(|hits| *hits >= count).await.map(|_| ())),
            None => std::future::pending().await,
        }
    }

    /// Stops reading from and writing to every connection, and accepting new ones.
    pub fn freeze(&self) {
        self.frozen.send_replace(true);
    }

    /// Goes on where [`Faults::freeze`] stopped. Nothing sent meanwhile is lost.
    pub fn thaw(&self) {
        self.frozen.send_replace(false);
    }

    /// Drops every connection without a close frame. New ones are accepted.
    pub fn cut_connections(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// While set, a new connection is dropped as soon as it is accepted.
    pub fn refuse_connections(&self, refuse: bool) {
        self.refusing.store(refuse, Ordering::SeqCst);
    }

    pub(super) fn is_refusing(&self) -> bool {
        self.refusing.load(Ordering::SeqCst)
    }

    pub(super) async fn thawed(&self) {
        if *self.frozen.borrow() {
            let _ = self.frozen.subscribe().wait_for(|frozen| !frozen).await;
        }
    }

    pub(super) fn cuts(&self) -> watch::Receiver<u64> {
        self.cuts.subscribe()
    }

    /// Asks the table about one call.
    pub(super) fn strike(&self, function_id: &str, caller: &str) -> Option<Strike> {
        self.with(|rules| {
            let armed = rules.iter_mut().find(|armed| armed.matches(function_id, caller))?;
            let hits = *armed.hits.borrow() + 1;
            armed.hits.send_replace(hits);
            armed.active = armed.rule.times.is_none_or(|times| hits < times);
            Some(Strike { fault: armed.rule.fault.clone(), released: armed.released.subscribe() })
        })
    }
}

impl Armed {
    fn matches(&self, function_id: &str, caller: &str) -> bool {
        self.active
            && (self.rule.function_id == "*" || self.rule.function_id == function_id)
            && self.rule.caller.as_deref().is_none_or(|wanted| wanted == caller)
    }
}
