//! A load generator: 85 % of calls continue, 10 % are denied, 5 % are held and then decided, at 1, 16 and 256 in flight.
//! Prints p50, p90, p99 and throughput, beside a function of the same client that looks at nothing.
//!
//! `cargo run --release --example load [SECONDS]`; on the local engine, or on a real one whose binary `III_ENGINE_BIN`
//! names. A held call counts once when it is held and once when it is decided; the harness is played by this program.
#![allow(clippy::unwrap_used, clippy::cast_precision_loss, missing_docs)] // a generator may give up, and rounds

#[path = "../benches/table/engines.rs"]
mod engines;

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use approval_gate::iii::Client;
use serde_json::json;
use tokio::task::JoinSet;

use engines::{ECHO, Place, ask, hook};

/// What is timed.
const KINDS: [&str; 5] = ["echo", "continue", "deny", "hold", "resolve"];

type Times = Arc<[Mutex<Vec<Duration>>; KINDS.len()]>;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let seconds = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(5);
    let place = Place::open().await;
    let worker = place.worker().await;
    let value = json!({"default_mode": "manual", "rules": ["docs::*", "!danger::*"]});
    place.ask("configuration::set", &json!({"id": "approval-gate", "value": value})).await;
    // In force as soon as the engine has told the worker.
    while place.ask("approval::gate", &hook("s_0", "c_0", "docs::read")).await["decision"] != "continue" {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    println!("{}, {seconds} s each", place.kind);
    println!("| in flight | what | calls | p50 µs | p90 µs | p99 µs | per second |\n|--|--|--|--|--|--|--|");
    for in_flight in [1, 16, 256] {
        let times = Times::default();
        run(&place.caller, in_flight, Duration::from_secs(seconds), &times, true).await;
        run(&place.caller, in_flight, Duration::from_secs(seconds), &times, false).await;
        print(in_flight, seconds, &times);
    }
    place.close(worker).await;
}

/// So many lanes, each one call after the other, until the time is over.
async fn run(caller: &Client, in_flight: usize, time: Duration, times: &Times, echo: bool) {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let until = Instant::now() + time;
    let mut lanes = JoinSet::new();
    for _ in 0..in_flight {
        let (caller, times) = (caller.clone(), Arc::clone(times));
        lanes.spawn(async move {
            while Instant::now() < until {
                let at = CALLS.fetch_add(1, Relaxed);
                if echo {
                    timed(&caller, &times, 0, ECHO, at, "docs::read").await;
                } else {
                    mixed(&caller, &times, at).await;
                }
            }
        });
    }
    while lanes.join_next().await.is_some() {}
}

/// One call of the mix.
async fn mixed(caller: &Client, times: &Times, at: usize) {
    let (kind, function_id) = match at % 20 {
        0 | 10 => (2, "danger::rm"),
        5 => (3, "shell::exec"),
        _ => (1, "docs::read"),
    };
    timed(caller, times, kind, "approval::gate", at, function_id).await;
    if kind == 3 {
        let session_id = session_of(at);
        let decision =
            json!({"session_id": session_id, "function_call_id": format!("c_{at}"), "decision": "allow"});
        let started = Instant::now();
        let answer = ask(caller, "approval::resolve", &decision).await.unwrap();
        times[4].lock().unwrap().push(started.elapsed());
        assert_eq!(answer["resolved"], true);
    }
}

async fn timed(caller: &Client, times: &Times, kind: usize, function_id: &str, at: usize, asked: &str) {
    let payload = hook(&session_of(at), &format!("c_{at}"), asked);
    let started = Instant::now();
    let answer = ask(caller, function_id, &payload).await.unwrap();
    times[kind].lock().unwrap().push(started.elapsed());
    let expected = if kind == 0 { "continue" } else { KINDS[kind] };
    assert_eq!(answer["decision"], expected, "{answer}");
}

fn session_of(at: usize) -> String {
    format!("s_{}", at % 50)
}

fn print(in_flight: usize, seconds: u64, times: &Times) {
    let mut decisions = 0;
    for (kind, times) in KINDS.iter().zip(times.iter()) {
        let mut times = times.lock().unwrap().clone();
        if times.is_empty() {
            continue;
        }
        times.sort_unstable();
        let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e6;
        let rate = if *kind == "echo" { format!("{}", times.len() as u64 / seconds) } else { String::new() };
        println!(
            "| {in_flight} | {kind} | {} | {:.0} | {:.0} | {:.0} | {rate} |",
            times.len(),
            at(50),
            at(90),
            at(99)
        );
        decisions += if *kind == "echo" { 0 } else { times.len() };
    }
    println!("| {in_flight} | the mix | {decisions} | | | | {} |", decisions as u64 / seconds);
}
