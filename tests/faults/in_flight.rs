//! A thousand calls are held and decided while the engine is killed under them: none lost, none invisible, each ended once.
//!
//! The callers behave as a harness and people do: without an answer they ask again, with the same words.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::engine::{Keep, is_real};
use crate::support::peer::Peer;
use crate::support::stage::ON_RESOLVED;
use crate::support::wait::within;
use crate::world::{World, ask_gate};

const HOLDS: usize = 1_000;
const CALLERS: usize = 32;
/// The engine is killed when so many calls were answered.
const KILL_AT: usize = 400;

/// How long one answer, or the load as a whole, may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(40);

type Call = (String, String);

/// What the callers still have to ask, what they were answered, and the console to ask through.
#[derive(Clone)]
struct Work<A> {
    left: Arc<Mutex<VecDeque<Call>>>,
    answers: Arc<Mutex<Vec<(Call, A)>>>,
    console: watch::Receiver<Peer>,
}

impl<A: Clone + Send + 'static> Work<A> {
    /// Every call is asked by one of the callers until it is answered.
    fn start<F>(
        calls: &[Call],
        console: watch::Receiver<Peer>,
        ask: fn(Peer, Call) -> F,
    ) -> (Self, JoinSet<()>)
    where
        F: Future<Output = Option<A>> + Send + 'static,
    {
        let left = Arc::new(Mutex::new(calls.iter().cloned().collect()));
        let work = Self { left, answers: Arc::default(), console };
        let mut callers = JoinSet::new();
        for _ in 0..CALLERS {
            let work = work.clone();
            callers.spawn(async move {
                while let Some(call) = work.next() {
                    let answer = within(PATIENCE, || {
                        let mut console = work.console.clone();
                        let asking = ask(console.borrow_and_update().clone(), call.clone());
                        async move {
                            tokio::select! {
                                answer = asking => answer,
                                // The console's engine is gone, and every answer with it.
                                _ = console.changed() => None,
                            }
                        }
                    })
                    .await;
                    let answer = answer.unwrap_or_else(|| panic!("no answer about {call:?}"));
                    work.answers.lock().unwrap().push((call, answer));
                }
            });
        }
        (work, callers)
    }

    fn next(&self) -> Option<Call> {
        self.left.lock().unwrap().pop_front()
    }

    fn answered(&self) -> usize {
        self.answers.lock().unwrap().len()
    }
}

/// Kills the engine when enough calls were answered and starts it with what it knew.
async fn kill_under(world: &mut World, answered: impl Fn() -> usize, console: &watch::Sender<Peer>) {
    let in_full_swing = within(PATIENCE, || {
        let enough = answered() >= KILL_AT;
        async move { enough.then_some(()) }
    });
    assert!(in_full_swing.await.is_some(), "only {} calls were answered", answered());
    // A real engine writes its state with a delay; what a kill takes from it is not the worker's to keep.
    world.restart_engine(is_real(), Keep::All).await;
    assert!(answered() < HOLDS, "the engine was killed too late");
    console.send_replace(world.console.clone());
    world.wire.refuse(false);
}

async fn decide(console: Peer, (session_id, call_id): Call, word: &'static str) -> Option<bool> {
    let request = json!({"session_id": session_id, "function_call_id": call_id, "decision": word});
    let answer = console.call_within("approval::resolve", request, Duration::from_secs(6)).await?;
    answer.ok()?["resolved"].as_bool()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_holds_survive_an_engine_killed_under_them() {
    let mut world = World::start(json!({"rules": ["!approval::*"]})).await;
    let calls: Vec<Call> =
        (0..HOLDS).map(|number| (format!("s_{}", number % 50), format!("c_{number}"))).collect();
    let (console, seen) = watch::channel(world.console.clone());

    let (work, callers) = Work::start(&calls, seen.clone(), |console, (session_id, call_id)| async move {
        ask_gate(&console, &session_id, &call_id).await
    });
    kill_under(&mut world, || work.answered(), &console).await;
    callers.join_all().await;
    let not_held: Vec<_> =
        work.answers.lock().unwrap().iter().filter(|(_, word)| word != "hold").cloned().collect();
    assert!(not_held.is_empty(), "{} were not held: {:?}", not_held.len(), not_held.first());
    let inbox = world.inbox().await;
    let shown: HashSet<&String> = inbox.iter().collect();
    let expected: HashSet<String> = calls.iter().map(|(session, call)| format!("{session}/{call}")).collect();
    assert_eq!(inbox.len(), HOLDS, "the inbox shows each hold once");
    assert_eq!(shown, expected.iter().collect());

    // Two people decide each of them at the same time, one way and the other.
    let (work, callers) = Work::start(&calls, seen, |console, call| async move {
        let both = (decide(console.clone(), call.clone(), "allow"), decide(console, call, "deny"));
        let (allowed, denied) = tokio::join!(both.0, both.1);
        Some((allowed?, denied?))
    });
    kill_under(&mut world, || work.answered(), &console).await;
    callers.join_all().await;
    let twice = work.answers.lock().unwrap().iter().filter(|(_, both)| *both == (true, true)).count();
    assert_eq!(twice, 0, "decided both ways");
    everything_has_ended_once(&world, &calls).await;
}

async fn everything_has_ended_once(world: &World, calls: &[Call]) {
    let empty = within(Duration::from_secs(20), || async {
        let rows = world.console.ask("state::list", json!({"scope": crate::support::stage::PENDING})).await;
        rows.as_array().unwrap().iter().all(Value::is_null).then_some(())
    })
    .await;
    assert!(empty.is_some(), "left in the inbox: {:?}", world.inbox().await);
    let mut told: HashMap<Call, HashMap<String, String>> = HashMap::new();
    for frame in world.wire.written_since(0) {
        let data = &frame["data"];
        if frame["type"] == "invokefunction" && frame["function_id"] == ON_RESOLVED {
            let text = |key: &str| data[key].as_str().unwrap_or_default().to_owned();
            let key = (text("session_id"), text("function_call_id"));
            told.entry(key).or_default().insert(text("event_id"), text("outcome"));
        }
    }
    for call in calls {
        let effective = match world.harness.told(&call.0, &call.1).first().map(String::as_str) {
            Some("execute") => "allow",
            Some("deliver") => "deny",
            other => panic!("{call:?}: the harness was told {other:?}"),
        };
        let outcomes: Vec<_> = told.get(call).into_iter().flat_map(HashMap::values).collect();
        assert_eq!(outcomes, [effective], "{call:?}: told {:?}", world.harness.told(&call.0, &call.1));
    }
}
