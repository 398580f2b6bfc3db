//! One hold has one life (contract §2, §8): one created event, then one resolved event, whatever crosses it.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::support::siblings::{PRE_TRIGGER, RESOLVE, SESSION_DELETED, TURN_COMPLETED};
use crate::support::stage::{
    ATTEMPTS, DENIED, PENDING, SETTINGS, decision, failure, failure_of, hook, hook_in,
};
use crate::support::wire::Act;
use crate::support::{Latch, Script, Stage, eventually};

const WATCH: &str = "approval::filesystem-access-watch";

fn resolve(session: &str, call: &str, word: &str) -> Value {
    json!({"session_id": session, "function_call_id": call, "decision": word})
}

async fn turn_ends(stage: &Stage, session: &str, turn: &str) {
    eventually("the turn binding", || async { (!stage.bound(TURN_COMPLETED).is_empty()).then_some(()) })
        .await;
    let event = json!({"session_id": session, "turn_id": turn, "status": "completed", "terminal": false, "timestamp": 1});
    for reply in stage.siblings.peer.emit(TURN_COMPLETED, &event).await {
        assert_eq!(reply, Ok(json!({"ok": true})));
    }
}

/// The harness as it is: an allowed call runs, and its failure reaches the watch, before the release is answered.
fn runs_into_the_jail(stage: &Stage, calls: Value) -> Script {
    let console = stage.console.clone();
    Script::run(move |_| {
        let (console, calls) = (console.clone(), calls.clone());
        async move {
            let word = decision(&console.ask(WATCH, calls).await);
            Script::Reply(json!({"resolved": true, "turn_resumed": word != "hold"}))
        }
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follow_up_hold_inside_the_release_is_a_new_hold_and_stays() {
    let stage = Stage::start().await;
    let call = hook("s", "c_1", "shell::fs::read", json!({"path": "/data/f"}));
    assert_eq!(decision(&stage.ask("approval::gate", call.clone()).await), "hold");
    let first = stage.row(PENDING, "s/c_1").await["pending_at"].as_i64().unwrap();
    let failed = failure_of(&call, "S215", "/data", "/data/f");
    stage.siblings.script(RESOLVE, runs_into_the_jail(&stage, failed));

    let answer = stage.ask("approval::resolve", resolve("s", "c_1", "allow")).await;
    assert_eq!(answer, json!({"resolved": true, "turn_resumed": false}));
    let follow_up = stage.row(PENDING, "s/c_1").await;
    assert_eq!(follow_up["kind"], "filesystem_access");
    assert!(follow_up["pending_at"].as_i64().unwrap() > first);
    stage.story_becomes("s", &["created c_1", "resolved c_1 allow", "created c_1"]).await;

    stage.siblings.reset();
    assert_eq!(stage.ask("approval::resolve", resolve("s", "c_1", "allow")).await["resolved"], true);
    stage
        .story_becomes("s", &["created c_1", "resolved c_1 allow", "created c_1", "resolved c_1 allow"])
        .await;
    stage.row_gone(PENDING, "s/c_1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_failure_during_its_own_release_is_counted_and_held_anew() {
    let stage = Stage::start().await;
    let payload = failure("s", "c_1", "S215", "/data", "/data/f");
    assert_eq!(decision(&stage.ask(WATCH, payload.clone()).await), "hold");
    stage.siblings.script(RESOLVE, runs_into_the_jail(&stage, payload));
    for round in 2..=3 {
        let answer = stage.ask("approval::resolve", resolve("s", "c_1", "allow")).await;
        assert_eq!(answer["turn_resumed"], false, "round {round}");
        assert_eq!(stage.row(ATTEMPTS, "s/c_1").await["count"], round);
        assert!(!stage.row(PENDING, "s/c_1").await.is_null(), "round {round}: held with nothing to click");
    }
    // The limit is three: this time the error goes to the model.
    assert_eq!(stage.ask("approval::resolve", resolve("s", "c_1", "allow")).await["turn_resumed"], true);
    stage.row_gone(PENDING, "s/c_1").await;
    let twice = ["created c_1", "resolved c_1 allow"].repeat(3);
    stage.story_becomes("s", &twice).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_gate_called_back_inside_its_own_release_lets_the_call_through() {
    let stage = Stage::start().await;
    let call = hook("s", "c_1", "shell::exec", json!({"cmd": "make"}));
    stage.ask("approval::gate", call.clone()).await;
    let console = stage.console.clone();
    stage.siblings.script(
        RESOLVE,
        Script::run(move |_| {
            let (console, call) = (console.clone(), call.clone());
            async move {
                let word = decision(&console.ask("approval::gate", call).await);
                Script::Reply(json!({"resolved": true, "turn_resumed": word == "continue"}))
            }
        }),
    );
    let answer = stage.ask("approval::resolve", resolve("s", "c_1", "allow")).await;
    assert_eq!(
        answer,
        json!({"resolved": true, "turn_resumed": true}),
        "a second hook binding held the released call"
    );
    stage.story_becomes("s", &["created c_1", "resolved c_1 allow"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_released_call_stays_released_until_its_turn_ends() {
    let stage = Stage::start().await;
    let gate = async |turn: &str, cmd: &str| {
        decision(
            &stage.ask("approval::gate", hook_in(turn, "s", "c_1", "shell::exec", json!({"cmd": cmd}))).await,
        )
    };
    assert_eq!(gate("t_1", "ls").await, "hold");
    stage.ask("approval::resolve", resolve("s", "c_1", "allow")).await;
    assert_eq!(gate("t_1", "ls").await, "continue");
    assert_eq!(gate("t_1", "rm").await, "hold", "other arguments were not released");
    stage.ask("approval::resolve", resolve("s", "c_1", "deny")).await;
    assert_eq!(gate("t_2", "ls").await, "hold", "another turn was not released");
    stage.ask("approval::resolve", resolve("s", "c_1", "deny")).await;
    assert_eq!(gate("t_1", "ls").await, "continue");
    turn_ends(&stage, "s", "t_1").await;
    assert_eq!(gate("t_1", "ls").await, "hold", "forgotten when the turn ends");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_denied_call_is_not_remembered_as_released() {
    let stage = Stage::start().await;
    assert_eq!(stage.gate("s", "c_1", "f::x", json!({})).await, "hold");
    stage.ask("approval::resolve", resolve("s", "c_1", "deny")).await;
    assert_eq!(stage.gate("s", "c_1", "f::x", json!({})).await, "hold");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_resolves_at_once_have_one_winner() {
    let stage = Stage::start().await;
    for n in 0..10 {
        let call = format!("c_{n}");
        stage.gate("s", &call, "f::x", json!({})).await;
        let decisions = ["allow", "deny", "allow", "deny"]
            .map(|word| stage.ask("approval::resolve", resolve("s", &call, word)));
        let won = join_all(decisions).await.iter().filter(|answer| answer["resolved"] == true).count();
        assert_eq!(won, 1, "{call}");
        stage.row_gone(PENDING, &format!("s/{call}")).await;
    }
    assert_eq!(stage.siblings.asked_of(RESOLVE, "s").len(), 10);
    stage.quiet().await;
    let story = stage.story_on_the_wire("s");
    assert_eq!(story.len(), 20, "{story:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resolve_against_the_end_of_its_turn_ends_the_hold_once() {
    let stage = Stage::start().await;
    for n in 0..10 {
        let call = format!("c_{n}");
        stage.gate("s", &call, "f::x", json!({})).await;
        tokio::join!(turn_ends(&stage, "s", "t_1"), async {
            let _ = stage.call("approval::resolve", resolve("s", &call, "allow")).await;
        });
        stage.row_gone(PENDING, &format!("s/{call}")).await;
        stage.quiet().await;
        let story: Vec<String> = stage
            .story_on_the_wire("s")
            .into_iter()
            .filter(|line| line.split(' ').nth(1) == Some(&call))
            .collect();
        assert_eq!(story.len(), 2, "{story:?}");
        assert!(story[0].starts_with("created") && story[1].starts_with("resolved"), "{story:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_ends_while_the_harness_releases_ends_the_hold_once() {
    let stage = Stage::start().await;
    stage.gate("s", "c_1", "f::x", json!({})).await;
    let latch = Latch::new();
    let yes = Script::Reply(json!({"resolved": true, "turn_resumed": true}));
    stage.siblings.script(RESOLVE, Script::When(latch.clone(), Box::new(yes)));
    let console = stage.console.clone();
    let asked =
        tokio::spawn(async move { console.call("approval::resolve", resolve("s", "c_1", "allow")).await });
    eventually("the harness to be asked", || async { stage.siblings.asked_of(RESOLVE, "s").pop() }).await;
    turn_ends(&stage, "s", "t_1").await;
    latch.open();
    asked.await.unwrap().unwrap();
    stage.row_gone(PENDING, "s/c_1").await;
    stage.quiet().await;
    let story = stage.story_on_the_wire("s");
    assert_eq!(story.len(), 2, "{story:?}");
    assert_eq!(story[0], "created c_1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holds_and_ends_at_once_leave_a_story_in_pairs() {
    let stage = Stage::start().await;
    let mut all = Vec::new();
    for n in 0..30 {
        let stage = &stage;
        all.push(async move {
            let call = format!("c_{}", n % 3);
            match n % 5 {
                0 | 1 => drop(stage.gate("s", &call, "f::x", json!({"n": n % 2})).await),
                2 => drop(stage.call("approval::resolve", resolve("s", &call, "allow")).await),
                3 => drop(stage.call("approval::resolve", resolve("s", &call, "deny")).await),
                _ => drop(
                    stage
                        .ask("approval::on-turn-completed", json!({"session_id": "s", "turn_id": "t_1"}))
                        .await,
                ),
            }
        });
    }
    join_all(all).await;
    stage.ask("approval::on-session-deleted", json!({"session_id": "s"})).await;
    eventually("the inbox to be empty", || async { stage.rows(PENDING).await.is_empty().then_some(()) })
        .await;
    stage.quiet().await;
    for call in ["c_0", "c_1", "c_2"] {
        let story: Vec<String> = stage
            .story_on_the_wire("s")
            .into_iter()
            .filter(|line| line.split(' ').nth(1) == Some(call))
            .collect();
        assert_eq!(story.len() % 2, 0, "{story:?}");
        for pair in story.chunks(2) {
            assert!(pair[0].starts_with("created") && pair[1].starts_with("resolved"), "{story:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_turn_takes_its_attempts_and_no_other_turn() {
    let stage = Stage::start().await;
    stage.ask(WATCH, failure("s", "c_1", "S215", "/data", "/data/f")).await;
    stage.ask("approval::gate", hook_in("t_2", "s", "c_2", "f::x", json!({}))).await;
    stage.gate("s_other", "c_3", "f::x", json!({})).await;
    turn_ends(&stage, "s", "t_1").await;
    stage.row_gone(PENDING, "s/c_1").await;
    stage.row_gone(ATTEMPTS, "s/c_1").await;
    assert!(!stage.row(PENDING, "s/c_2").await.is_null());
    assert!(!stage.row(PENDING, "s_other/c_3").await.is_null());
    stage.story_becomes("s", &["created c_1", "created c_2", "resolved c_1 aborted"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_session_leaves_nothing_behind() {
    let stage = Stage::start().await;
    stage.ask("approval::set-mode", json!({"session_id": "s", "mode": "manual"})).await;
    stage.ask(WATCH, failure("s", "c_1", "S215", "/data", "/data/f")).await;
    stage.ask("approval::resolve", resolve("s", "c_1", "deny")).await;
    stage.ask(WATCH, failure("s", "c_2", "S215", "/opt", "/opt/f")).await;
    eventually("the session binding", || async { (!stage.bound(SESSION_DELETED).is_empty()).then_some(()) })
        .await;
    stage.siblings.peer.emit(SESSION_DELETED, &json!({"session_id": "s", "timestamp": 1})).await;
    for scope in [PENDING, SETTINGS, DENIED, ATTEMPTS] {
        eventually(&format!("{scope} to be empty"), || async {
            stage.rows(scope).await.is_empty().then_some(())
        })
        .await;
    }
    stage
        .story_becomes("s", &["created c_1", "resolved c_1 deny", "created c_2", "resolved c_2 aborted"])
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_dies_in_a_release_leaves_a_hold_that_can_be_decided() {
    let mut stage = Stage::start().await;
    stage.gate("s", "c_1", "f::x", json!({})).await;
    stage.siblings.script(RESOLVE, Script::Never);
    let console = stage.console.clone();
    let asked =
        tokio::spawn(async move { console.call("approval::resolve", resolve("s", "c_1", "allow")).await });
    eventually("the harness to be asked", || async { stage.siblings.asked_of(RESOLVE, "s").pop() }).await;
    stage.restart_worker().await;
    assert!(asked.await.unwrap().is_err(), "the caller is told that the worker went");
    assert!(!stage.row(PENDING, "s/c_1").await.is_null());
    stage.siblings.reset();
    assert_eq!(stage.ask("approval::resolve", resolve("s", "c_1", "deny")).await["resolved"], true);
    stage.row_gone(PENDING, "s/c_1").await;
    stage.story_becomes("s", &["created c_1", "resolved c_1 deny"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_lost_while_the_record_is_written_leaves_no_record_without_a_way_out() {
    let stage = Stage::start().await;
    stage.wire.break_once(
        |function_id, data| function_id == "state::set" && data["scope"] == PENDING,
        Act::CutAfter,
    );
    let payload = hook("s", "c_1", "f::x", json!({}));
    // The engine answers for the lost worker; on the fail-closed hook that is a denial.
    let answer = stage.console.call_within("approval::gate", payload.clone(), Duration::from_secs(6)).await;
    assert!(answer.is_none_or(|reply| reply.is_err()));
    eventually("the worker to be back", || async {
        stage.call("approval::list-pending", json!({})).await.ok()
    })
    .await;
    stage.listeners_live().await;
    // The harness delivers the step again, and the hold is whole; the session's end removes whatever is there.
    assert_eq!(decision(&stage.ask("approval::gate", payload).await), "hold");
    stage.ask("approval::on-session-deleted", json!({"session_id": "s"})).await;
    stage.row_gone(PENDING, "s/c_1").await;
    stage.quiet().await;
    let ends = stage.story_on_the_wire("s").into_iter().filter(|line| line.starts_with("resolved")).count();
    assert!(ends >= 1, "{:?}", stage.story_on_the_wire("s"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_harness_asks_through_one_binding_only() {
    let stage = Stage::start().await;
    let bound = eventually("the hook", || async {
        let bound = stage.bound(PRE_TRIGGER);
        (!bound.is_empty()).then_some(bound)
    })
    .await;
    stage.quiet().await;
    assert_eq!(bound.len(), 1);
    assert_eq!(stage.bound(PRE_TRIGGER).len(), 1);
}
