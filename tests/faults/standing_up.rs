//! Engine killed, network cut, engine frozen: the worker comes back by itself, once, and decides by what is stored now.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::engine::Keep;
use crate::support::peer::Peer;
use crate::support::stage::{ENTRY, PENDING, hook, register_entry};
use crate::support::wait::within;
use crate::world::{World, ask_gate};

/// How soon the worker serves again once the engine is back.
const BACK: Duration = Duration::from_secs(2);

/// What goes wrong, and how it is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outage {
    /// The network is gone for so long.
    Cut(Duration),
    /// The engine ends with its state written, and comes back.
    Restart,
    /// The engine is killed when its state is on disk, and comes back with it.
    Killed,
    /// The engine is killed and comes back without its state.
    KilledStateLost,
}

fn rules(word: &str) -> Value {
    json!({"rules": ["!approval::*", word]})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_cut_of_one_second_the_worker_stands_as_before() {
    survives(Outage::Cut(Duration::from_secs(1))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_cut_of_three_seconds_the_worker_stands_as_before() {
    survives(Outage::Cut(Duration::from_secs(3))).await;
}

/// Run by hand: `cargo test --test faults two_minutes -- --ignored`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes two minutes"]
async fn after_a_cut_of_two_minutes_the_worker_stands_as_before() {
    survives(Outage::Cut(Duration::from_mins(2))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_an_engine_restart_the_worker_stands_as_before() {
    survives(Outage::Restart).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_killed_engine_the_worker_stands_as_before() {
    survives(Outage::Killed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_an_engine_that_lost_its_state_the_worker_stands_empty() {
    survives(Outage::KilledStateLost).await;
}

async fn survives(outage: Outage) {
    let mut world = World::start(rules("demo::*")).await;
    assert_eq!(world.gate("s", "c").await.as_deref(), Some("hold"));
    assert_eq!(judged(&world.console, 0).await.as_deref(), Some("continue"));
    let before = standing(&world).await;
    let (connections, requests) = (world.relay.connections(), world.siblings.peer.bind_requests().len());

    let requests_before = match outage {
        Outage::Cut(length) => {
            world.wire.refuse(true);
            world.wire.cut();
            tokio::time::sleep(length).await;
            requests
        }
        Outage::Restart => {
            world.restart_engine(true, Keep::All).await;
            0
        }
        Outage::Killed => {
            world.engine().has_on_disk(PENDING, &["s/c".to_owned()]).await;
            world.restart_engine(false, Keep::All).await;
            0
        }
        Outage::KilledStateLost => {
            world.restart_engine(false, Keep::Configuration).await;
            0
        }
    };
    // Nobody tells the worker of this change: it happens while the worker is away.
    register_entry(&world.console, ENTRY, &json!({}), Some(rules("!demo::*"))).await;
    let prober = Prober::start(&world.console);
    world.wire.refuse(false);
    let back = Instant::now();
    let first = within(crate::support::wait::PATIENCE, || async { prober.first() }).await;
    let first = first
        .unwrap_or_else(|| panic!("{outage:?}: no answer; the worker said:\n{}", world.worker.log_text()));
    let away = first - back;
    println!("{outage:?}: serving {} ms after the engine was back", away.as_millis());
    assert!(away <= BACK, "{outage:?}: served only after {away:?}");
    world.serving().await;
    let answers = prober.end().await;
    assert!(answers.iter().all(|answer| answer == "deny"), "{outage:?}: judged by old rules: {answers:?}");

    assert_eq!(standing(&world).await, before, "{outage:?}");
    assert_eq!(world.relay.connections(), connections + 1, "{outage:?}: connected more than once");
    let requests = world.siblings.peer.bind_requests().len() - requests_before;
    assert_eq!(requests, 4, "{outage:?}: each binding is asked for once");
    assert_eq!(world.worker.ready_lines(), 2, "{outage:?}");

    let kept = outage != Outage::KilledStateLost;
    assert_eq!(world.listed("s").await, usize::from(kept), "{outage:?}");
    assert_eq!(world.resolve("s", "c", "allow").await, Some(kept), "{outage:?}");
    assert_eq!(world.gate("s", "c_2").await.as_deref(), Some("hold"));
    assert_eq!(world.resolve("s", "c_2", "deny").await, Some(true), "{outage:?}");
    assert!(world.inbox().await.is_empty(), "{outage:?}");

    // And it is told of changes again.
    register_entry(&world.console, ENTRY, &json!({}), Some(rules("demo::*"))).await;
    let told = within(crate::support::wait::PATIENCE, || async {
        (judged(&world.console, 1).await.as_deref() == Some("continue")).then_some(())
    });
    assert!(told.await.is_some(), "{outage:?}: a change of the configuration did not arrive");
}

/// What the engine knows of the worker: its bindings at their providers, and how many functions and triggers there are.
async fn standing(world: &World) -> (Vec<String>, usize, usize) {
    let count = |answer: &Value, key: &str| answer[key].as_array().map_or(0, Vec::len);
    let functions = world.console.ask("engine::functions::list", json!({"prefix": "approval::"})).await;
    let mut triggers = 0;
    for function_id in [
        "approval::gate",
        "approval::filesystem-access-watch",
        "approval::on-turn-completed",
        "approval::on-session-deleted",
        "approval::on-config-change",
    ] {
        let live = json!({"function_id": function_id, "include_internal": true});
        let live = world.console.ask("engine::registered-triggers::list", live).await;
        triggers += count(&live, "registered_triggers");
    }
    (world.bindings(), count(&functions, "functions"), triggers)
}

/// The decision on a call that only the rules decide.
async fn judged(console: &Peer, number: usize) -> Option<String> {
    let question = hook("probe", &format!("c_{number}"), "demo::run", json!({}));
    let answer = console.call_within("approval::gate", question, Duration::from_secs(6)).await?;
    Some(answer.ok()?["decision"].as_str()?.to_owned())
}

/// Asks the gate without pause, so that the very first call after a reconnect is among those asked.
struct Prober {
    stop: Arc<AtomicBool>,
    first: Arc<std::sync::OnceLock<Instant>>,
    asking: tokio::task::JoinHandle<Vec<String>>,
}

impl Prober {
    fn start(console: &Peer) -> Self {
        let (stop, first) = (Arc::new(AtomicBool::new(false)), Arc::new(std::sync::OnceLock::new()));
        let (over, seen, console) = (stop.clone(), first.clone(), console.clone());
        let asking = tokio::spawn(async move {
            let mut answers = Vec::new();
            let mut number = 1_000;
            while !over.load(Ordering::SeqCst) {
                number += 1;
                if let Some(answer) = judged(&console, number).await {
                    seen.get_or_init(Instant::now);
                    answers.push(answer);
                }
            }
            answers
        });
        Self { stop, first, asking }
    }

    fn first(&self) -> Option<Instant> {
        self.first.get().copied()
    }

    async fn end(self) -> Vec<String> {
        self.stop.store(true, Ordering::SeqCst);
        self.asking.await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_engine_costs_time_but_no_connection_and_no_answer() {
    frozen_for(Duration::from_millis(1_500)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_an_engine_froze_past_their_time_are_denied_and_leave_nothing() {
    frozen_for(Duration::from_secs(5)).await;
}

/// Calls keep coming while the engine is frozen and thawed. Each is answered; it is held if and only if it has a record.
async fn frozen_for(length: Duration) {
    let world = World::start(rules("demo::*")).await;
    let connections = world.relay.connections();
    let over = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..8)
        .map(|caller| {
            let (console, over) = (world.console.clone(), over.clone());
            tokio::spawn(async move {
                let mut answers = Vec::new();
                while !over.load(Ordering::SeqCst) {
                    let call = format!("c_{caller}_{}", answers.len());
                    // The caller's own clock stands still as well while its questions are frozen.
                    let question = hook("s", &call, "shell::exec", json!({"cmd": "ls"}));
                    let answer =
                        console.call_within("approval::gate", question, Duration::from_secs(15)).await;
                    let answer = answer.unwrap_or_else(|| panic!("{call} was not answered"));
                    answers.push((call, answer.unwrap()["decision"].as_str().unwrap().to_owned()));
                }
                answers
            })
        })
        .collect();
    let some_held =
        within(crate::support::wait::PATIENCE, || async { (world.inbox().await.len() >= 20).then_some(()) });
    some_held.await.expect("calls are held before the engine is frozen");
    world.engine().freeze().await;
    tokio::time::sleep(length).await;
    world.engine().thaw().await;
    let thawed = Instant::now();
    assert_eq!(ask_gate(&world.console, "s_2", "c").await.as_deref(), Some("hold"));
    let away = thawed.elapsed();
    println!("frozen for {length:?}: serving {} ms after the thaw", away.as_millis());
    assert!(away <= BACK, "served only {away:?} after the thaw");
    over.store(true, Ordering::SeqCst);
    let mut held = Vec::new();
    for caller in callers {
        let answers = caller.await.unwrap().into_iter();
        held.extend(answers.filter(|(_, word)| word == "hold").map(|(call, _)| format!("s/{call}")));
    }
    held.push("s_2/c".to_owned());
    held.sort();
    // Records of denied calls are taken back behind.
    let settled = within(crate::support::wait::PATIENCE, || async {
        let mut inbox = world.inbox().await;
        inbox.sort();
        (inbox == held).then_some(())
    })
    .await;
    assert!(settled.is_some(), "held {} but the inbox shows {}", held.len(), world.inbox().await.len());
    assert_eq!(world.relay.connections(), connections, "a frozen engine is no lost one");
    assert_eq!(world.worker.ready_lines(), 1);
}
