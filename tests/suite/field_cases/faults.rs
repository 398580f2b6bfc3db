//! The faults that cases name in words, made on the relay or at the siblings.

use std::time::Duration;

use serde_json::Value;

use super::world::Case;
use crate::support::eventually;
use crate::support::siblings::{GRANT, GRANTS, RESOLVE, SESSION_GET};
use crate::support::stage::PENDING;
use crate::support::wait::within;
use crate::support::wire::{Act, calls_of, state_calls};
use crate::support::{Latch, Script};

/// Breaks, or mends, what the words say.
pub async fn apply(case: &mut Case<'_>, words: &str) {
    let stage = case.stage();
    let failing = || Act::Instead(Script::refuse("SET_ERROR", "broken by the suite"));
    match words {
        "none" => {
            stage.wire.mend();
            stage.siblings.reset();
            case.releases_while_broken = case.releases().len();
        }
        "configuration::get answers null, then an error" => {
            let answers = [Script::Reply(Value::Null), Script::refuse("GET_ERROR", "broken by the suite")];
            stage.wire.break_once(calls_of("configuration::get"), Act::Instead(answers[0].clone()));
            stage.wire.break_calls(calls_of("configuration::get"), Act::Instead(answers[1].clone()));
            // Once for the null; the step that follows meets the error.
            stage.reload().await;
        }
        "harness::function::resolve fails or times out" => {
            stage.siblings.script(RESOLVE, Script::refuse("broken", "broken by the suite"));
        }
        "state::set for the pending record is slow" => {
            let latch = Latch::new();
            stage.wire.break_once(state_calls("state::set", PENDING), Act::HoldCall(latch.clone()));
            case.latches.push(latch);
        }
        "state::get never answers" => {
            stage.wire.break_calls(calls_of("state::get"), Act::Instead(Script::Never))
        }
        "state::get fails" => stage.wire.break_calls(calls_of("state::get"), failing()),
        "state::set fails for the pending record" => {
            stage.wire.break_calls(state_calls("state::set", PENDING), failing());
        }
        "session::get never answers" => stage.siblings.script(SESSION_GET, Script::Never),
        "the harness grant function fails" => {
            stage.siblings.script(GRANT, Script::refuse("broken", "broken by the suite"));
        }
        "the harness function that lists grants is not registered, or fails" => {
            stage.siblings.peer.withdraw(GRANTS);
            stage.siblings.peer.barrier().await;
        }
        other => panic!("unknown fault {other}"),
    }
}

/// Lets everything go that was held back, and waits for its effect.
pub async fn let_go(case: &mut Case<'_>) {
    for latch in case.latches.drain(..) {
        latch.open();
    }
    if case.id == "FC-046" {
        both_fetched(case).await;
    }
    for running in std::mem::take(&mut case.running) {
        let decided = running.await.unwrap();
        case.decided.push(decided);
    }
    case.stage().quiet().await;
}

/// Each change was fetched: at once, or, by a worker that fetches one at a time, after the one before.
async fn both_fetched(case: &Case<'_>) {
    let stage = case.stage();
    eventually("both changes to be fetched", || async {
        (stage.wire.calls_since(case.boot_mark, "configuration::get").len() >= 2).then_some(())
    })
    .await;
}

/// Sets a value whose fetch by the worker is slow or quick, as the step's note says.
pub async fn set_with_slow_fetch(case: &mut Case<'_>, set: Value, note: &str) {
    let slow = note.contains("slow");
    let mark = case.stage().wire.mark();
    if slow {
        let latch = Latch::new();
        case.stage().wire.break_once(calls_of("configuration::get"), Act::HoldAnswer(latch.clone()));
        case.latches.push(latch);
    }
    case.stage().ask("configuration::set", set).await;
    let stage = case.stage();
    if slow {
        // A coalescing worker fetches again only after this answer; the second change then cannot overtake.
        eventually("the worker to fetch", || async {
            (!stage.wire.calls_since(mark, "configuration::get").is_empty()).then_some(())
        })
        .await;
        return;
    }
    let _ = within(Duration::from_secs(1), || async {
        (!stage.wire.calls_since(mark, "configuration::get").is_empty()).then_some(())
    })
    .await;
    stage.quiet().await;
}
