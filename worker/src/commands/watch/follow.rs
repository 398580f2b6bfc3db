//! Keeps up with the worker: listens to both trigger types, and asks it how things stand.
//!
//! An event is a hint and no more. Whatever it says, the worker is asked about that one call, so a late, doubled or
//! forged event shows nothing that is not so. Questions are put one after the other, so that an older answer never comes
//! after a newer one. The function that events go to lies under `approval::`, where no agent may call it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc, watch};
use uuid::Uuid;

use super::holds::Ended;
use crate::commands::peer::{Failure, Filter, Gate};
use crate::iii::{Binding, Function, Registry, Status, handler};
use crate::wire::error::decode_value;
use crate::wire::events::PendingResolvedEvent;
use crate::wire::record::PendingApprovalRecord;

/// Calls to look at; with more of them it is cheaper to list everything.
const MAX_CALLS: usize = 100;
/// Until everything is listed again, in case an event was lost: soon after a connect, when bindings may not stand yet,
/// and seldom later.
const AGAIN_SOON: Duration = Duration::from_secs(3);
const AGAIN_LATER: Duration = Duration::from_secs(15);
/// Listings that are made soon.
const SOON: u32 = 3;
/// Until a worker that is not there is asked again.
const NO_WORKER: Duration = Duration::from_secs(1);

/// Whether we are up to date.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Link {
    /// The first answer has not come yet.
    Asking,
    /// Yes.
    Live,
    /// There is no connection.
    NoEngine(String),
    /// There is nobody to ask, or no answer.
    NoWorker(String),
}

/// What was found out.
#[derive(Debug)]
pub enum News {
    /// The connection changed.
    Link(Link),
    /// Everything that is held, and how many records cannot be read.
    Listed(Vec<PendingApprovalRecord>, usize),
    /// How it stands with one call.
    Looked {
        /// Its session.
        session: String,
        /// Its id.
        call: String,
        /// What is held under it.
        now: Option<Box<PendingApprovalRecord>>,
        /// How a hold of it ended, if an event said so.
        ended: Option<Ended>,
    },
}

/// What is to be asked next. Shared between the functions that events reach and the task that asks.
#[derive(Default)]
pub struct Questions {
    waiting: Mutex<Waiting>,
    changed: Notify,
}

#[derive(Default)]
struct Waiting {
    everything: bool,
    calls: BTreeMap<(String, String), Option<Ended>>,
}

impl Questions {
    /// Asks about one call; `ended` is what an event told of it.
    pub fn about(&self, session: &str, call: &str, ended: Option<Ended>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (session.to_owned(), call.to_owned());
        if waiting.calls.len() < MAX_CALLS || waiting.calls.contains_key(&key) {
            let known = waiting.calls.entry(key).or_default();
            *known = ended.or(known.take());
        } else {
            waiting.everything = true;
        }
        drop(waiting);
        self.changed.notify_one();
    }

    fn take(&self) -> Waiting {
        std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What the engine must know of us: one function, bound to both types.
pub fn registry(filter: &Filter, questions: &Arc<Questions>) -> Registry {
    let own = Uuid::new_v4();
    let function_id = format!("approval::watch-{own}");
    let bind = |what: &str| Binding {
        id: format!("approval-gate-cli/{own}/{what}"),
        trigger_type: format!("approval::pending-{what}"),
        function_id: function_id.clone(),
        config: Value::Object(filter.fields()),
    };
    let bindings = vec![bind("created"), bind("resolved")];
    let questions = Arc::clone(questions);
    let function = Function {
        id: function_id,
        description: "a person's terminal listens".to_owned(),
        request_schema: json!({"type": "object"}),
        response_schema: json!({"type": "null"}),
        metadata: Some(json!({"internal": true})),
        handler: handler(move |invocation| {
            hint(&questions, &invocation.data);
            std::future::ready(Ok(RawValue::NULL.to_owned()))
        }),
        on_the_spot: None,
    };
    Registry { functions: vec![function], trigger_types: Vec::new(), bindings }
}

/// Takes what an event is good for: which call to ask about, and how its hold ended.
fn hint(questions: &Questions, event: &RawValue) {
    let Ok(event) = serde_json::from_str::<Value>(event.get()) else { return };
    let (Some(session), Some(call)) = (event["session_id"].as_str(), event["function_call_id"].as_str())
    else {
        return;
    };
    let ended = decode_value::<PendingResolvedEvent>(&event).ok();
    let ended = ended.map(|event| Ended { outcome: event.outcome, reason: event.reason });
    questions.about(session, call, ended);
}

/// Follows for as long as somebody listens to `news`.
pub async fn follow(
    gate: Gate,
    filter: Filter,
    mut status: watch::Receiver<Status>,
    questions: Arc<Questions>,
    news: mpsc::Sender<News>,
) {
    let follower = Follower { gate, filter, questions, news };
    while !follower.news.is_closed() {
        let current = status.borrow_and_update().clone();
        let goes_on = match current {
            Status::Ready { .. } => tokio::select! {
                goes_on = follower.keep_up() => goes_on,
                changed = status.changed() => changed.is_ok(),
            },
            Status::Connecting { last_error: Some(why), .. } => {
                follower.tell(News::Link(Link::NoEngine(why))).await && status.changed().await.is_ok()
            }
            Status::Stopped => false,
            Status::Connecting { .. } | Status::Preparing | Status::Standby { .. } => {
                status.changed().await.is_ok()
            }
        };
        if !goes_on {
            return;
        }
    }
}

struct Follower {
    gate: Gate,
    filter: Filter,
    questions: Arc<Questions>,
    news: mpsc::Sender<News>,
}

impl Follower {
    /// Keeps up on one connection. Ends only when nobody listens.
    async fn keep_up(&self) -> bool {
        let mut listings = 0_u32;
        loop {
            let wait = match self.list().await {
                Some(true) => {
                    listings = listings.saturating_add(1);
                    if listings <= SOON { AGAIN_SOON } else { AGAIN_LATER }
                }
                Some(false) => NO_WORKER,
                None => return false,
            };
            let again = tokio::time::Instant::now() + wait;
            loop {
                tokio::select! {
                    () = tokio::time::sleep_until(again) => break,
                    () = self.questions.changed.notified() => {}
                }
                let waiting = self.questions.take();
                for ((session, call), ended) in waiting.calls {
                    if !self.look(session, call, ended).await {
                        return false;
                    }
                }
                if waiting.everything {
                    break;
                }
            }
        }
    }

    /// Lists everything. Whether it worked; `None` if nobody listens.
    async fn list(&self) -> Option<bool> {
        let (link, listed) = match self.gate.list(&self.filter).await {
            Ok(listing) => {
                let unreadable = listing.raw.len() - listing.held.len();
                (Link::Live, Some(News::Listed(listing.held, unreadable)))
            }
            Err(Failure::NoWorker) => (Link::NoWorker("no approval-gate on this engine".into()), None),
            Err(Failure::NoEngine(why)) => (Link::NoEngine(why), None),
            Err(failure) => (Link::NoWorker(first_line(&failure)), None),
        };
        let worked = listed.is_some();
        if let Some(listed) = listed
            && !self.tell(listed).await
        {
            return None;
        }
        self.tell(News::Link(link)).await.then_some(worked)
    }

    /// Looks at one call. A question without an answer is left to the next listing. Whether somebody listens.
    async fn look(&self, session: String, call: String, ended: Option<Ended>) -> bool {
        match self.gate.get(&session, &call).await {
            Ok(now) => self.tell(News::Looked { session, call, now: now.map(Box::new), ended }).await,
            Err(_) => !self.news.is_closed(),
        }
    }

    async fn tell(&self, news: News) -> bool {
        self.news.send(news).await.is_ok()
    }
}

fn first_line(failure: &Failure) -> String {
    failure.to_string().lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::wire::events::Outcome;

    fn event(value: &Value) -> Box<RawValue> {
        serde_json::value::to_raw_value(value).unwrap()
    }

    #[test]
    fn an_event_becomes_a_question_and_what_is_no_event_becomes_none() {
        let questions = Questions::default();
        hint(&questions, &event(&json!({"session_id": "s", "function_call_id": "c", "status": "pending"})));
        hint(
            &questions,
            &event(&json!({"session_id": "s", "function_call_id": "d", "turn_id": "t", "function_id": "f",
                "outcome": "deny", "reason": "no", "resolved_at": 1})),
        );
        for junk in [json!(null), json!([]), json!({"session_id": 1, "function_call_id": "c"})] {
            hint(&questions, &event(&junk));
        }
        let waiting = questions.take();
        let ended = Ended { outcome: Outcome::Deny, reason: Some("no".into()) };
        let key = |call: &str| ("s".to_owned(), call.to_owned());
        assert_eq!(waiting.calls, BTreeMap::from([(key("c"), None), (key("d"), Some(ended))]));
        assert!(!waiting.everything);
    }

    #[test]
    fn a_flood_of_events_becomes_one_listing() {
        let questions = Questions::default();
        (0..1000).for_each(|n| questions.about("s", &format!("c_{n}"), None));
        let waiting = questions.take();
        assert!(waiting.everything && waiting.calls.len() == MAX_CALLS);
    }

    #[test]
    fn the_function_is_one_that_no_agent_may_call() {
        let registry = registry(&Filter::default(), &Arc::default());
        let id = &registry.functions[0].id;
        assert!(id.starts_with("approval::"), "{id}");
        assert!(registry.bindings.iter().all(|binding| binding.function_id == *id));
    }
}
