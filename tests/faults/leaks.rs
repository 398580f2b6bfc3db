//! What the worker holds comes back to where it was after faults: tasks, with the calls and timers they wait for, and
//! descriptors. The tasks are counted from inside, so there the worker runs in a runtime of its own in this process.

use std::time::Duration;

use approval_gate::boot;
use approval_gate::iii::Status;
use serde_json::json;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::engine::{Engine, Keep};
use crate::process::{pid_with_argument, usage};
use crate::support::peer::Peer;
use crate::support::siblings::{RESOLVE, SESSION_GET, TURN_COMPLETED};
use crate::support::stage::PENDING;
use crate::support::wait::within;
use crate::support::wire::{Act, Wire, state_calls};
use crate::support::{Script, eventually};
use crate::world::{Harness, World, ask_gate, neighbours};

const ROUNDS: usize = 6;
/// A write without an answer is watched for some seconds before its task ends.
const SETTLED: Duration = Duration::from_secs(25);

/// The fewest tasks seen over a while: what is left when nothing is going on.
async fn idle_tasks(worker: &Handle) -> usize {
    let mut fewest = usize::MAX;
    let _ = within(Duration::from_millis(300), || {
        fewest = fewest.min(worker.metrics().num_alive_tasks());
        async { None::<()> }
    })
    .await;
    fewest
}

async fn serving(console: &Peer) {
    eventually("the gate to serve", || async {
        console.call("approval::list-pending", json!({})).await.ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_task_outlives_the_faults_that_it_met() {
    let engine = Engine::start().await;
    let wire = Wire::in_front_of(&engine.url()).await;
    let (siblings, console) = neighbours(&engine.url(), &Harness::default()).await;
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let (handle, url) = (runtime.handle().clone(), wire.url());
    let worker = {
        let _inside = runtime.enter();
        boot::start(&boot::Options { url, seed: None })
    };
    let mut status = worker.status();
    let running = runtime.spawn(worker.run(async { drop(stopped.await) }));
    status.wait_for(|status| matches!(status, Status::Ready { .. })).await.unwrap();
    serving(&console).await;
    assert_eq!(ask_gate(&console, "s_first", "c").await.as_deref(), Some("hold"));
    let at_rest = idle_tasks(&handle).await;

    for round in 0..ROUNDS {
        disturb(&wire, &siblings, &console, round).await;
        serving(&console).await;
    }
    wire.mend();
    let settled = within(SETTLED, || {
        let alive = handle.metrics().num_alive_tasks();
        async move { (alive <= at_rest).then_some(()) }
    })
    .await;
    let alive = handle.metrics().num_alive_tasks();
    assert!(settled.is_some(), "{alive} tasks are alive, {at_rest} were before the faults");

    stop.send(()).unwrap();
    running.await.unwrap().unwrap();
    let left = within(Duration::from_secs(2), || {
        let alive = handle.metrics().num_alive_tasks();
        async move { (alive == 0).then_some(()) }
    })
    .await;
    assert!(left.is_some(), "{} tasks outlive the worker", handle.metrics().num_alive_tasks());
    runtime.shutdown_background();
}

/// One round: calls, decisions and writes that hang when the connection goes.
async fn disturb(wire: &Wire, siblings: &crate::support::siblings::Siblings, console: &Peer, round: usize) {
    let session = format!("s_{round}");
    assert_eq!(ask_gate(console, &session, "held").await.as_deref(), Some("hold"));
    siblings.script_for(&session, SESSION_GET, Script::Never);
    siblings.script_for(&session, RESOLVE, Script::Never);
    let armed = wire.mark();
    wire.break_once(state_calls("state::set", PENDING), Act::LoseAnswer);
    let mut asking = JoinSet::new();
    for number in 0..20 {
        let (console, session) = (console.clone(), session.clone());
        asking.spawn(async move { drop(ask_gate(&console, &session, &format!("c_{number}")).await) });
    }
    let (decider, request) =
        (console.clone(), json!({"session_id": session, "function_call_id": "held", "decision": "allow"}));
    asking.spawn(async move { drop(decider.call("approval::resolve", request).await) });
    eventually("the harness to be asked", || async {
        (!siblings.asked_of(RESOLVE, &session).is_empty()).then_some(())
    })
    .await;
    wire.cut();
    asking.join_all().await;
    serving(console).await;
    let ended = json!({"session_id": session, "turn_id": "t_1"});
    siblings.peer.emit(TURN_COMPLETED, &ended).await;
    // The end of the turn takes the hold out, if nothing was written before. Else the next round's hold would lose its answer.
    eventually("the write whose answer is lost", || async {
        let written = wire.calls_since(armed, "state::set");
        written.iter().any(|data| data["scope"] == PENDING).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_descriptor_outlives_its_connection() {
    let mut world = World::start(json!({"rules": ["!approval::*"]})).await;
    let Some(pid) = pid_with_argument(&world.relay.url()) else { return };
    let before = usage(pid).unwrap();
    for round in 0..5 {
        world.wire.cut();
        eventually("the worker to come back", || async {
            (world.worker.ready_lines() == round + 2).then_some(())
        })
        .await;
    }
    world.restart_engine(false, Keep::Configuration).await;
    world.wire.refuse(false);
    world.serving().await;
    let after = usage(pid).unwrap();
    assert_eq!((after.descriptors, after.threads), (before.descriptors, before.threads));
}
