//! Answers that come late or never, and frames that come twice: nothing is applied twice, nothing is left behind.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::siblings::RESOLVE;
use crate::support::stage::{PENDING, RESOLVED, hook};
use crate::support::wire::{Act, calls_of, state_calls};
use crate::support::{Latch, Script, eventually};
use crate::world::World;

/// A hook answers by then, whatever its peers do.
const HOOK_LIMIT: Duration = Duration::from_millis(4_500);

async fn world() -> World {
    World::start(json!({"rules": ["!approval::*"]})).await
}

fn writes(function_id: &'static str, row: &'static str) -> impl Fn(&str, &Value) -> bool + Send + 'static {
    move |called, data| called == function_id && data["scope"] == PENDING && data["key"] == row
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_outlived_its_hook_is_taken_back_when_its_answer_comes() {
    let world = world().await;
    let answer = Latch::new();
    world.wire.break_once(writes("state::set", "s/c"), Act::HoldAnswer(answer.clone()));
    let asked = Instant::now();
    assert_eq!(world.gate("s", "c").await.as_deref(), Some("deny"));
    assert!(asked.elapsed() < HOOK_LIMIT, "answered after {:?}", asked.elapsed());
    assert!(!world.row("s", "c").await.is_null(), "the write took effect, only its answer is late");
    answer.open();
    eventually("the record to be taken back", || async { world.row("s", "c").await.is_null().then_some(()) })
        .await;
    assert!(world.story("s").is_empty(), "nobody was told of a call that was denied: {:?}", world.story("s"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_outlived_its_hook_and_its_connection_is_taken_back_on_the_next() {
    let world = world().await;
    world.wire.break_once(writes("state::set", "s/c"), Act::LoseAnswer);
    assert_eq!(world.gate("s", "c").await.as_deref(), Some("deny"));
    assert!(!world.row("s", "c").await.is_null());
    world.wire.cut();
    eventually("the record to be taken back", || async { world.row("s", "c").await.is_null().then_some(()) })
        .await;
    world.serving().await;
    assert_eq!(world.inbox().await, Vec::<String>::new());
    assert_eq!(world.gate("s", "c").await.as_deref(), Some("hold"), "the key is free again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_without_an_answer_are_asked_again_within_the_hooks_time() {
    let world = world().await;
    world.wire.break_once(state_calls("state::get", "approval_settings"), Act::LoseAnswer);
    world.wire.break_once(state_calls("state::get", PENDING), Act::LoseAnswer);
    assert_eq!(world.gate("s", "c").await.as_deref(), Some("hold"));
    eventually("its listener to be told", || async { (world.story("s") == ["created"]).then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_swap_without_an_answer_is_settled_by_what_stands_there() {
    let world = world().await;
    for act in [Act::LoseAnswer, Act::CutAfter] {
        let session = if matches!(act, Act::LoseAnswer) { "s_lost" } else { "s_cut" };
        assert_eq!(world.gate(session, "c").await.as_deref(), Some("hold"));
        world.wire.break_once(state_calls("state::set", PENDING), act);
        let console = world.console.clone();
        let decision = json!({"session_id": session, "function_call_id": "c", "decision": "allow"});
        // The caller may lose its answer with the connection; the decision is carried out all the same.
        let asked = tokio::spawn(async move { console.call("approval::resolve", decision).await });
        eventually("the hold to end", || async {
            let told = world.story(session).iter().any(|line| line == "resolved allow");
            (told && world.row(session, "c").await.is_null()).then_some(())
        })
        .await;
        drop(asked.await.unwrap());
        world.serving().await;
        assert_eq!(world.story(session), ["created", "resolved allow"], "{session}");
        assert_eq!(world.harness.told(session, "c"), ["execute"], "{session}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_swap_that_the_store_carried_out_twice_still_tells_the_end() {
    let world = world().await;
    assert_eq!(world.gate("s", "c").await.as_deref(), Some("hold"));
    let console = world.console.clone();
    // The second answer is the one that comes, and what it gives back is the marker of the first.
    let twice = Script::run(move |data| {
        let console = console.clone();
        async move {
            console.ask("state::set", data.clone()).await;
            Script::Reply(console.ask("state::set", data).await)
        }
    });
    world.wire.break_once(writes("state::set", "s/c"), Act::Instead(twice));
    assert_eq!(world.resolve("s", "c", "allow").await, Some(true));
    eventually("the row to go", || async { world.row("s", "c").await.is_null().then_some(()) }).await;
    eventually("the end to be told", || async { (world.story("s").len() == 2).then_some(()) }).await;
    assert_eq!(world.story("s"), ["created", "resolved allow"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_that_failed_is_repeated_and_the_end_is_told_under_one_id() {
    let world = world().await;
    assert_eq!(world.gate("s", "c").await.as_deref(), Some("hold"));
    world.wire.break_once(
        state_calls("state::delete", PENDING),
        Act::Instead(Script::refuse("state_error", "on purpose")),
    );
    assert_eq!(world.resolve("s", "c", "allow").await, Some(true));
    eventually("the row to go", || async { world.row("s", "c").await.is_null().then_some(()) }).await;
    assert_eq!(world.story("s"), ["created", "resolved allow"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_whose_answer_was_lost_is_not_applied_twice() {
    let world = world().await;
    assert_eq!(world.gate("s", "c").await.as_deref(), Some("hold"));
    world.wire.break_once(calls_of(RESOLVE), Act::CutAfter);
    assert_eq!(world.resolve("s", "c", "deny").await, None, "nobody knows what became of it");
    world.serving().await;
    assert_eq!(world.listed("s").await, 1, "so it can be decided again");
    assert_eq!(world.resolve("s", "c", "allow").await, Some(false), "nothing waits for it any more");
    eventually("the row to go", || async { world.row("s", "c").await.is_null().then_some(()) }).await;
    eventually("the end to be told", || async { (world.story("s").len() == 2).then_some(()) }).await;
    assert_eq!(
        world.story("s"),
        ["created", "resolved deny"],
        "the end is that of the decision that took effect"
    );
    assert_eq!(world.harness.told("s", "c"), ["deliver", "execute"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frames_that_come_twice_change_nothing() {
    let world = world().await;
    world.relay.say_twice(true);
    world.wire.cut();
    eventually("the worker to come back", || async { (world.worker.ready_lines() == 2).then_some(()) }).await;
    world.serving().await;
    let ids = world.bindings();
    assert_eq!(ids.len(), 4, "{ids:?}");
    for number in 0..20 {
        let session = format!("s_{number}");
        assert_eq!(world.gate(&session, "c").await.as_deref(), Some("hold"), "{session}");
        assert_eq!(world.listed(&session).await, 1, "{session}");
        let outcome = ["allow", "deny", "aborted"][number % 3];
        eventually(&format!("the row of {session} to go"), || async {
            match outcome {
                "aborted" => world.end_turn(&session).await,
                decision => drop(world.resolve(&session, "c", decision).await),
            }
            world.row(&session, "c").await.is_null().then_some(())
        })
        .await;
        eventually(&format!("the end of {session} to be told"), || async {
            world.story(&session).iter().any(|line| line.starts_with("resolved")).then_some(())
        })
        .await;
        let resolved: Vec<_> = world.story(&session).into_iter().filter(|line| line != "created").collect();
        assert_eq!(resolved, [format!("resolved {outcome}")], "{session}");
    }
    assert_eq!(world.inbox().await, Vec::<String>::new());
    // An event of the gate is told twice by the relay alone.
    let told = world.console.heard_by("suite::on-resolved").len();
    assert!(told <= 40, "{told} resolved events for 20 holds said twice");
    let mine = json!({"id": RESOLVED});
    assert!(world.console.call("engine::registered-triggers::info", mine).await.is_ok());
    let question = hook("probe", "c", "approval::resolve", json!({}));
    assert_eq!(world.console.ask("approval::gate", question).await["decision"], "deny");
}
