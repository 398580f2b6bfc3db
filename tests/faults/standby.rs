//! A second worker started by mistake says so, waits, and takes over when the first is gone; two gates never serve.
//!
//! Each worker has a relay of its own, so what each of them was asked, and when, is known to the frame.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::relay::Relay;
use crate::support::peer::Peer;
use crate::support::siblings::{PRE_TRIGGER, RESOLVE};
use crate::support::stage::hook;
use crate::support::worker::Worker;
use crate::support::{Latch, Script, eventually};
use crate::world::World;

/// From the end of the first worker to the first answer of the second.
const TAKE_OVER: Duration = Duration::from_secs(2);

/// Asks the gate again and again, and remembers when it answered.
struct Prober {
    stop: Arc<AtomicBool>,
    asking: tokio::task::JoinHandle<Vec<Instant>>,
}

impl Prober {
    fn start(console: &Peer) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (console, over) = (console.clone(), stop.clone());
        let asking = tokio::spawn(async move {
            let mut answered = Vec::new();
            while !over.load(Ordering::SeqCst) {
                let question = hook("probe", "c", "demo::free", json!({}));
                let answer = console.call_within("approval::gate", question, Duration::from_secs(1)).await;
                if let Some(Ok(answer)) = answer {
                    assert_eq!(answer["decision"], "continue", "{answer}");
                    answered.push(Instant::now());
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            answered
        });
        Self { stop, asking }
    }

    /// The longest time without an answer.
    async fn longest_gap(self) -> Duration {
        self.stop.store(true, Ordering::SeqCst);
        let answered = self.asking.await.unwrap();
        answered.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap()
    }
}

/// When a worker was asked as the gate, behind a mark.
fn asked(relay: &Relay, since: usize) -> Vec<Instant> {
    relay.asked("approval::gate").split_off(since)
}

async fn standing_by(worker: &Worker) {
    let line = worker.logged("that the name is taken", |line| line.contains("standing by")).await;
    assert!(line.contains("WARN"), "{line}");
    assert!(!worker.says_ready());
}

async fn one_gate_is_bound(world: &World) {
    world.serving().await;
    let ids: Vec<_> = world.siblings.peer.binds(PRE_TRIGGER).into_iter().map(|bind| bind.id).collect();
    assert_eq!(ids, ["approval-gate/pre-trigger"]);
    let listed = world
        .console
        .ask("engine::registered-triggers::list", json!({"function_id": "approval::gate"}))
        .await;
    assert_eq!(listed["registered_triggers"].as_array().unwrap().len(), 1, "{listed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_standby_takes_over_within_two_seconds_and_two_gates_never_serve() {
    let mut world = World::start(json!({"rules": ["!approval::*", "demo::*"]})).await;
    let spare = Relay::in_front_of(&world.wire_target()).await;
    for end in ["KILL", "TERM"] {
        let mut second = Worker::start(&["--url", &spare.url()]);
        standing_by(&second).await;
        let (mark, spare_mark) = (asked(&world.relay, 0).len(), asked(&spare, 0).len());
        let prober = Prober::start(&world.console);
        eventually("the first worker to be asked", || async {
            (asked(&world.relay, mark).len() > 20).then_some(())
        })
        .await;
        assert!(asked(&spare, spare_mark).is_empty(), "the standby was asked");

        world.worker.signal(end).await;
        world.worker.ends_within(Duration::from_secs(6)).await.expect("the first worker ends");
        second.ready().await;
        eventually("the second worker to be asked", || async {
            (asked(&spare, spare_mark).len() > 20).then_some(())
        })
        .await;
        let gap = prober.longest_gap().await;
        println!("after SIG{end} there was no gate for {} ms", gap.as_millis());
        assert!(gap <= TAKE_OVER, "no gate for {gap:?} after {end}");
        let (last, first) = (asked(&world.relay, mark), asked(&spare, spare_mark));
        assert!(last.iter().max() < first.iter().min(), "both were asked at one time after {end}");
        one_gate_is_bound(&world).await;

        // The roles are as at the start for the next round.
        second.crash().await;
        world.worker = Worker::start(&["--url", &world.relay.url()]);
        world.worker.ready().await;
        world.serving().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_that_lost_its_connection_stands_by_behind_the_one_that_took_over() {
    let world = World::start(json!({"rules": ["!approval::*", "demo::*"]})).await;
    let spare = Relay::in_front_of(&world.wire_target()).await;
    let mut second = Worker::start(&["--url", &spare.url()]);
    standing_by(&second).await;
    world.wire.refuse(true);
    world.wire.cut();
    second.ready().await;
    world.wire.refuse(false);
    world.worker.logged("that the name is taken", |line| line.contains("standing by")).await;
    one_gate_is_bound(&world).await;
    let (mark, spare_mark) = (asked(&world.relay, 0).len(), asked(&spare, 0).len());
    assert_eq!(world.gate("s", "c").await.as_deref(), Some("hold"));
    assert_eq!((asked(&world.relay, mark).len(), asked(&spare, spare_mark).len()), (0, 1));
    // What one gate held, the other decides.
    second.crash().await;
    eventually("the first worker to serve again", || async {
        (world.worker.ready_lines() == 2).then_some(())
    })
    .await;
    assert_eq!(world.resolve("s", "c", "allow").await, Some(true));
    one_gate_is_bound(&world).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_is_stopped_finishes_a_release_before_the_standby_takes_over() {
    let mut world = World::start(json!({"rules": ["!approval::*", "demo::*"]})).await;
    let spare = Relay::in_front_of(&world.wire_target()).await;
    let mut second = Worker::start(&["--url", &spare.url()]);
    standing_by(&second).await;
    assert_eq!(world.gate("s", "c").await.as_deref(), Some("hold"));
    let done = Latch::new();
    let released = Script::Reply(json!({"resolved": true, "turn_resumed": true}));
    world.siblings.script_for("s", RESOLVE, Script::When(done.clone(), Box::new(released)));
    let (console, decision) =
        (world.console.clone(), json!({"session_id": "s", "function_call_id": "c", "decision": "allow"}));
    let decided = tokio::spawn(async move { console.ask("approval::resolve", decision).await });
    eventually("the release to be under way", || async {
        (!world.siblings.asked_of(RESOLVE, "s").is_empty()).then_some(())
    })
    .await;
    world.worker.signal("TERM").await;
    eventually("the functions to be withdrawn", || async {
        world.console.call("approval::list-pending", json!({})).await.is_err().then_some(())
    })
    .await;
    assert!(!second.says_ready(), "the name is not free while the first worker finishes");
    done.open();
    assert_eq!(decided.await.unwrap()["resolved"], true);
    let status = world.worker.ends_within(TAKE_OVER).await.expect("the first worker ends");
    assert_eq!(status, Some(0));
    let ended = Instant::now();
    second.ready().await;
    assert!(ended.elapsed() <= TAKE_OVER, "taken over after {:?}", ended.elapsed());
    one_gate_is_bound(&world).await;
    eventually("the end to be told", || async { (world.story("s").len() == 2).then_some(()) }).await;
    assert_eq!(world.story("s"), ["created", "resolved allow"]);
    assert!(world.row("s", "c").await.is_null());
}
