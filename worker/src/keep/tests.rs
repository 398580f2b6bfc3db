//! What the keep does against a store and siblings that are scripted here.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::background::Background;
use super::inbox::Inbox;
use super::live_config::LiveConfig;
use crate::clock::{self, Deadline};
use crate::events::Events;
use crate::iii::{Answer, CallError, Fire};
use crate::policy::settings::Mode;
use crate::siblings::configuration::Configuration;
use crate::siblings::harness::Harness;
use crate::siblings::state::State;
use crate::siblings::{BoxFuture, Engine, SharedEngine};

/// A store, and answers by function id; a function without one is not found.
#[derive(Default)]
struct Scripted {
    rows: Mutex<BTreeMap<(String, String), Value>>,
    answers: Mutex<HashMap<String, Vec<Script>>>,
}

/// One answer; the last one of a function is given again and again.
enum Script {
    Now(Value),
    When(oneshot::Receiver<Value>),
}

impl Scripted {
    fn with(self, function_id: &str, answer: Value) -> Self {
        self.answers.lock().unwrap().entry(function_id.to_owned()).or_default().push(Script::Now(answer));
        self
    }

    fn later(&self, function_id: &str) -> oneshot::Sender<Value> {
        let (give, given) = oneshot::channel();
        self.answers.lock().unwrap().entry(function_id.to_owned()).or_default().push(Script::When(given));
        give
    }

    fn put(&self, key: &str, value: Value) {
        self.rows.lock().unwrap().insert(("approval_pending".to_owned(), key.to_owned()), value);
    }

    fn keys(&self) -> Vec<String> {
        self.rows.lock().unwrap().keys().map(|(_, key)| key.clone()).collect()
    }

    fn state(&self, function_id: &str, data: &Value) -> Option<Value> {
        let mut rows = self.rows.lock().unwrap();
        let text = |field: &str| data[field].as_str().unwrap_or_default().to_owned();
        let place = (text("scope"), text("key"));
        Some(match function_id {
            "state::get" => rows.get(&place).cloned().unwrap_or_default(),
            "state::set" => {
                let old = rows.insert(place, data["value"].clone());
                json!({"old_value": old, "new_value": data["value"]})
            }
            "state::delete" => rows.remove(&place).unwrap_or_default(),
            "state::list" => {
                rows.iter().filter(|((scope, _), _)| *scope == place.0).map(|(_, v)| v.clone()).collect()
            }
            _ => return None,
        })
    }
}

impl Engine for Scripted {
    fn call<'a>(
        &'a self,
        function_id: &'a str,
        data: &'a Value,
        _: Deadline,
    ) -> BoxFuture<'a, Result<Answer, CallError>> {
        Box::pin(async move {
            let answer = |value: Value| Answer::new(function_id, Some(to_raw_value(&value).unwrap()));
            if let Some(value) = self.state(function_id, data) {
                return Ok(answer(value));
            }
            let script = {
                let mut answers = self.answers.lock().unwrap();
                let scripts = answers.get_mut(function_id).filter(|scripts| !scripts.is_empty());
                match scripts {
                    None => None,
                    Some(scripts) => match &scripts[0] {
                        Script::Now(value) if scripts.len() == 1 => Some(Script::Now(value.clone())),
                        _ => Some(scripts.remove(0)),
                    },
                }
            };
            match script {
                Some(Script::Now(value)) => Ok(answer(value)),
                Some(Script::When(given)) => Ok(answer(given.await.unwrap())),
                None => Err(CallError::Refused {
                    function_id: function_id.to_owned(),
                    code: "function_not_found".to_owned(),
                    message: String::new(),
                }),
            }
        })
    }

    fn fire(&self, _: &Fire<'_>) -> Result<(), CallError> {
        Ok(())
    }

    fn connection(&self) -> u64 {
        1
    }
}

fn record(turn: &str, call: &str, pending_at: i64) -> Value {
    json!({"session_id": "s", "turn_id": turn, "function_call_id": call, "function_id": "f::x",
        "pending_at": pending_at, "kind": "function"})
}

async fn reconciled(engine: Scripted) -> Vec<String> {
    let engine = Arc::new(engine);
    let shared: SharedEngine = engine.clone();
    let events = Events::new(shared.clone());
    events.listeners_known();
    let inbox = Inbox::new(State::new(shared.clone()), events, Background::default());
    inbox.reconcile(&Harness::new(shared)).await;
    engine.keys()
}

fn engine_with_records() -> Scripted {
    let engine = Scripted::default();
    engine.put("s/waits", record("t_1", "waits", 1_000));
    engine.put("s/forgotten", record("t_1", "forgotten", 1_000));
    engine.put("s/other_turn", record("t_0", "other_turn", 1_000));
    engine.put("s/young", record("t_0", "young", clock::now_ms() + 120_000));
    engine
}

#[tokio::test(start_paused = true)]
async fn records_that_the_harness_says_no_turn_waits_for_go_and_young_ones_stay() {
    let told = json!({"turn_id": "t_1", "status": "awaiting_functions", "pending_function_calls": ["waits", "other_turn"]});
    let left = reconciled(engine_with_records().with("harness::status", told)).await;
    assert_eq!(left, ["s/waits", "s/young"]);
}

#[tokio::test(start_paused = true)]
async fn in_doubt_every_record_stays() {
    for told in [json!(null), json!({"turn_id": "t_1"}), json!("ok"), json!({"pending_function_calls": []})] {
        let left = reconciled(engine_with_records().with("harness::status", told.clone())).await;
        assert_eq!(left.len(), 4, "{told}");
    }
    assert_eq!(reconciled(engine_with_records()).await.len(), 4, "no such function");
}

#[tokio::test(start_paused = true)]
async fn a_fetch_that_was_started_earlier_and_answers_later_changes_nothing() {
    let engine = Arc::new(Scripted::default());
    let (first, second) = (engine.later("configuration::get"), engine.later("configuration::get"));
    let shared: SharedEngine = engine.clone();
    let config = LiveConfig::new(Configuration::new(shared), Background::default());
    let fetch = |config: &LiveConfig| {
        let config = config.clone();
        tokio::spawn(async move { config.refetch().await })
    };
    let early = fetch(&config);
    tokio::time::sleep(Duration::from_millis(1)).await;
    let late = fetch(&config);
    tokio::time::sleep(Duration::from_millis(1)).await;
    second.send(json!({"id": "approval-gate", "value": {"default_mode": "manual"}})).unwrap();
    late.await.unwrap().unwrap();
    first.send(json!({"id": "approval-gate", "value": {"default_mode": "full"}})).unwrap();
    early.await.unwrap().unwrap();
    assert_eq!(config.policy().default_mode(), Mode::Manual);
}

#[tokio::test(start_paused = true)]
async fn a_refused_value_keeps_the_last_good_one_and_locking_down_lasts_until_the_next_answer() {
    let engine = Scripted::default()
        .with("configuration::get", json!({"value": {"default_mode": "auto"}}))
        .with("configuration::get", json!({"value": {"default_mode": "turbo"}}))
        .with("configuration::get", json!({"value": null}));
    let config = LiveConfig::new(Configuration::new(Arc::new(engine)), Background::default());
    assert!(config.policy().is_locked_down(), "before the first fetch");
    config.refetch().await.unwrap();
    config.refetch().await.unwrap();
    assert_eq!(config.policy().default_mode(), Mode::Auto, "the last good one");
    config.lock_down();
    assert!(config.policy().is_locked_down());
    config.refetch().await.unwrap();
    assert_eq!(
        config.policy().default_mode(),
        Mode::Auto,
        "the answer was no value, so the last good one is back"
    );
}

#[tokio::test(start_paused = true)]
async fn the_default_prompt_policy_is_told_from_one_good_value_to_the_next_and_no_lock_down_counts() {
    let never = json!({"value": {"prompt_policy": "never"}});
    let engine = Scripted::default()
        .with("configuration::get", never.clone())
        .with("configuration::get", json!({"value": {"prompt_policy": "later"}}))
        .with("configuration::get", never)
        .with("configuration::get", json!({"value": {}}));
    let config = LiveConfig::new(Configuration::new(Arc::new(engine)), Background::default());
    let told: Arc<Mutex<Vec<_>>> = Arc::default();
    let hears = Arc::clone(&told);
    config.on_prompts(move |before, after| hears.lock().unwrap().push((before.as_str(), after.as_str())));
    config.refetch().await.unwrap();
    config.refetch().await.unwrap();
    config.lock_down();
    config.refetch().await.unwrap();
    config.refetch().await.unwrap();
    assert_eq!(*told.lock().unwrap(), [("never", "never"), ("never", "ask")]);
}
