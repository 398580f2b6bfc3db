//! No hook call stays without an answer, although the engine can lose one that comes too fast.
//!
//! By hand, with a release build of the worker:
//! `III_ENGINE_BIN=… APPROVAL_GATE_BIN=… FAULT_CALLS=1000000 cargo test --test faults hook_call_is_answered -- --ignored --nocapture`

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::JoinSet;

use crate::engine::Engine;
use crate::support::eventually;
use crate::support::peer::Peer;
use crate::support::stage::{ENTRY, hook, register_entry};
use crate::support::worker::Worker;

const IN_FLIGHT: u64 = 16;
/// As long as the harness waits for a hook.
const HOOK_TIMEOUT: Duration = Duration::from_secs(5);

/// A number from the environment.
pub fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes; meant for a real engine, which is the one that loses answers"]
async fn every_hook_call_is_answered() {
    let calls = setting("FAULT_CALLS", 100_000);
    let engine = Engine::start().await;
    let console = Peer::connect(&engine.url()).await;
    let stored = json!({"rules": ["!approval::*", "demo::*"]});
    register_entry(&console, ENTRY, &json!({}), Some(stored)).await;
    let mut worker = Worker::start(&["--url", &engine.url()]);
    worker.ready().await;
    eventually("the gate to serve", || async {
        console.call("approval::list-pending", json!({})).await.ok()
    })
    .await;

    let (next, unanswered) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let started = Instant::now();
    let mut callers = JoinSet::new();
    for _ in 0..IN_FLIGHT {
        let (console, next, unanswered) = (console.clone(), next.clone(), unanswered.clone());
        callers.spawn(async move {
            while let number = next.fetch_add(1, Ordering::Relaxed)
                && number < calls
            {
                // One of two is decided without asking anybody, and so answered as fast as can be.
                let function_id = if number % 2 == 0 { "approval::resolve" } else { "demo::run" };
                let question = hook("s", &format!("c_{number}"), function_id, json!({}));
                let Some(answer) = console.call_within("approval::gate", question, HOOK_TIMEOUT).await else {
                    println!(
                        "no answer to {function_id} as call {number}, {:.1} s in",
                        started.elapsed().as_secs_f64()
                    );
                    unanswered.fetch_add(1, Ordering::Relaxed);
                    continue;
                };
                let expected = if number % 2 == 0 { "deny" } else { "continue" };
                assert_eq!(answer.unwrap()["decision"], expected);
                if number % 100_000 == 0 {
                    println!("{number} calls after {:.1} s", started.elapsed().as_secs_f64());
                }
            }
        });
    }
    callers.join_all().await;
    let seconds = started.elapsed().as_secs_f64();
    #[allow(clippy::cast_precision_loss, reason = "a rate for people")]
    let rate = calls as f64 / seconds;
    let unanswered = unanswered.load(Ordering::Relaxed);
    println!("{calls} calls, {IN_FLIGHT} in flight: {unanswered} unanswered, {rate:.0} a second");
    assert_eq!(unanswered, 0);
}
