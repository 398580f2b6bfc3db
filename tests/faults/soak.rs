//! Ten minutes of everything at once: memory and descriptors stay flat, and every hold was told of once and ended once.
//!
//! By hand, with a release build of the worker:
//! `APPROVAL_GATE_BIN=… cargo test --test faults soak -- --ignored --nocapture` (`FAULT_SECONDS` for another length)

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use crate::answer_guard::setting;
use crate::engine::Engine;
use crate::process::{Usage, pid_with_argument, usage};
use crate::support::eventually;
use crate::support::peer::Peer;
use crate::support::siblings::{SESSION_DELETED, Siblings, TURN_COMPLETED};
use crate::support::stage::{ENTRY, ON_CREATED, ON_RESOLVED, PENDING, failure, hook, register_entry};
use crate::support::worker::Worker;
use crate::world::{Harness, neighbours};

/// Ten calls each time: 50,000 a minute.
const TICK: Duration = Duration::from_millis(12);
/// Every so many ticks one more hold lives its life: some seven a second.
const HOLD_EVERY: u64 = 12;
/// A machine that cannot keep up gets no more than this at a time; the calls made are told in the end.
const MOST_UNDER_WAY: usize = 256;
const SAMPLE_EVERY: Duration = Duration::from_secs(30);
/// What the allocator may still take after the first minutes.
const GROWTH_KIB: u64 = 8 * 1024;

#[derive(Default)]
struct Counts {
    gate_calls: AtomicU64,
    holds: AtomicU64,
    wrong: AtomicU64,
}

#[derive(Clone)]
struct Load {
    console: Peer,
    siblings: Siblings,
    counts: Arc<Counts>,
}

impl Load {
    fn expect(&self, what: &str, is_so: bool, seen: &dyn std::fmt::Debug) {
        if !is_so {
            self.counts.wrong.fetch_add(1, Ordering::Relaxed);
            println!("expected {what}, got {seen:?}");
        }
    }

    async fn gate(&self, session: &str, function_id: &str, expected: &str) {
        self.counts.gate_calls.fetch_add(1, Ordering::Relaxed);
        let question = hook(session, "c", function_id, json!({"cmd": "ls", "token": "x"}));
        self.hook("approval::gate", question, expected).await;
    }

    async fn hook(&self, function_id: &str, payload: Value, expected: &str) {
        let answer = self.console.call_within(function_id, payload, Duration::from_secs(5)).await;
        let decision = answer.as_ref().and_then(|answer| answer.as_ref().ok()?["decision"].as_str());
        self.expect(expected, decision == Some(expected), &answer);
    }

    async fn ask(&self, function_id: &str, data: Value) -> Value {
        let answer = self.console.call_within(function_id, data, Duration::from_secs(10)).await;
        self.expect(function_id, matches!(answer, Some(Ok(_))), &answer);
        answer.and_then(Result::ok).unwrap_or_default()
    }

    async fn resolve(&self, session: &str, more: &Value) {
        let mut request = json!({"session_id": session, "function_call_id": "c"});
        for (key, value) in more.as_object().into_iter().flatten() {
            request[key] = value.clone();
        }
        let answer = self.ask("approval::resolve", request).await;
        self.expect("a decision that counts", answer["resolved"] == true, &answer);
    }

    /// One hold from its beginning to its end, in one of five ways, in a session of its own.
    async fn live(&self, number: u64) {
        let session = format!("s_{number}");
        self.counts.holds.fetch_add(1, Ordering::Relaxed);
        let own = json!({"session_id": session});
        match number % 5 {
            0 => {
                self.gate(&session, "shell::exec", "hold").await;
                self.ask("approval::get-pending", json!({"session_id": session, "function_call_id": "c"}))
                    .await;
                self.resolve(&session, &json!({"decision": "allow"})).await;
            }
            1 => {
                self.gate(&session, "shell::exec", "hold").await;
                self.gate(&session, "shell::exec", "hold").await;
                self.resolve(&session, &json!({"decision": "deny", "reason": "not today"})).await;
            }
            2 => {
                self.gate(&session, "shell::exec", "hold").await;
                self.siblings
                    .peer
                    .emit(TURN_COMPLETED, &json!({"session_id": session, "turn_id": "t_1"}))
                    .await;
            }
            3 => {
                let failed = failure(&session, "c", "S215", "/data", "/data/f");
                self.hook("approval::filesystem-access-watch", failed, "hold").await;
                self.resolve(&session, &json!({"decision": "allow", "access_duration": "session"})).await;
            }
            _ => {
                self.ask("approval::set-mode", json!({"session_id": session, "mode": "auto"})).await;
                self.ask("approval::list-pending", own.clone()).await;
                self.gate(&session, "shell::exec", "hold").await;
                self.ask("approval::get-settings", own.clone()).await;
            }
        }
        self.siblings.peer.emit(SESSION_DELETED, &own).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes ten minutes"]
async fn a_soak_leaves_memory_flat_and_every_hold_ended_once() {
    let length = Duration::from_secs(setting("FAULT_SECONDS", 600));
    let engine = Engine::start().await;
    let (siblings, console) = neighbours(&engine.url(), &Harness::default()).await;
    let stored = json!({"rules": ["!approval::*", "demo::*"]});
    register_entry(&console, ENTRY, &json!({}), Some(stored.clone())).await;
    let mut worker = Worker::start(&["--url", &engine.url()]);
    worker.ready().await;
    eventually("the gate to serve", || async {
        console.call("approval::list-pending", json!({})).await.ok()
    })
    .await;
    let pid = pid_with_argument(&engine.url()).unwrap();
    let load = Load { console, siblings, counts: Arc::default() };

    let samples = run(&load, pid, length, &stored).await;

    let (calls, holds) =
        (load.counts.gate_calls.load(Ordering::Relaxed), load.counts.holds.load(Ordering::Relaxed));
    println!("{calls} gate calls, {holds} holds");
    eventually("the inbox to be empty", || async {
        let rows = load.console.ask("state::list", json!({"scope": PENDING})).await;
        rows.as_array().unwrap().iter().all(Value::is_null).then_some(())
    })
    .await;
    assert_eq!(load.counts.wrong.load(Ordering::Relaxed), 0, "answers that were not as expected");
    events_balance(&load.console, holds).await;
    flat(&samples);
}

async fn run(load: &Load, pid: u32, length: Duration, stored: &Value) -> Vec<Usage> {
    let started = Instant::now();
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let (mut samples, mut running) = (Vec::new(), JoinSet::new());
    for tick in 0.. {
        ticks.tick().await;
        if started.elapsed() >= SAMPLE_EVERY * u32::try_from(samples.len()).unwrap() {
            let sample = usage(pid).expect("the worker lives");
            println!("{:>4} s  {sample:?}  {} under way", started.elapsed().as_secs(), running.len());
            samples.push(sample);
            load.console.ask("configuration::set", json!({"id": ENTRY, "value": stored})).await;
        }
        if started.elapsed() >= length {
            break;
        }
        for call in 0..10 {
            let load = load.clone();
            running.spawn(async move {
                match call {
                    0 => load.gate("s", "approval::resolve", "deny").await,
                    _ => load.gate("s", "demo::run", "continue").await,
                }
            });
        }
        if tick % HOLD_EVERY == 0 {
            let load = load.clone();
            running.spawn(async move { load.live(tick / HOLD_EVERY).await });
        }
        while let Some(ended) = running.try_join_next() {
            ended.unwrap();
        }
        while running.len() > MOST_UNDER_WAY {
            running.join_next().await.unwrap().unwrap();
        }
    }
    running.join_all().await;
    samples
}

/// One created and one resolved event for each hold.
async fn events_balance(console: &Peer, holds: u64) {
    let told = || {
        let mut told: HashMap<String, (u64, u64)> = HashMap::new();
        for heard in console.heard() {
            let counts = told.entry(heard.data["session_id"].to_string()).or_default();
            match heard.function_id.as_str() {
                ON_CREATED => counts.0 += 1,
                ON_RESOLVED => counts.1 += 1,
                _ => {}
            }
        }
        told
    };
    eventually("the last events", || {
        let all = told().values().filter(|counts| counts.1 > 0).count() as u64 >= holds;
        async move { all.then_some(()) }
    })
    .await;
    let told = told();
    let uneven: Vec<_> = told.iter().filter(|(_, counts)| **counts != (1, 1)).take(5).collect();
    assert!(uneven.is_empty(), "created and resolved events: {uneven:?}");
    assert_eq!(told.len() as u64, holds);
}

/// The first two minutes fill caches and the allocator's pools; after them nothing grows.
fn flat(samples: &[Usage]) {
    let Some(settled) = samples.get(4) else { return };
    let last = samples.last().unwrap();
    assert!(last.rss_kib <= settled.rss_kib + GROWTH_KIB, "{settled:?} became {last:?}");
    let descriptors: Vec<_> = samples.iter().map(|sample| sample.descriptors).collect();
    assert!(descriptors.iter().all(|count| *count == descriptors[0]), "{descriptors:?}");
}
