//! What one `continue` costs this process: from the frame's text to the queued answer, both by the clock and in
//! allocations, the counting of them included.

use std::time::{Duration, Instant};

use approval_gate::handlers::catalogue;
use approval_gate::iii::{Offline, Registry};
use approval_gate::local::StateStore;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use stats_alloc::Region;

use crate::ALLOCATED;
use crate::engines::hook;
use crate::pure::rules;
use crate::report::{Samples, Table, times};
use crate::stand_in::{StandIn, ask, context, function};

const BATCH: u32 = 100;

pub async fn measure(table: &mut Table) {
    continues(table).await;
    holds(table).await;
}

/// Fresh holds over a store that answers at once: what the worker computes for one, its own part of the store's included.
async fn holds(table: &mut Table) {
    let context = context(&StandIn::new(json!({}), StateStore::default())).await;
    let gate = function(&context, "approval::gate");
    let mut samples = Samples::default();
    for at in 0..times(4_000) {
        let payload = hook("s_hold", &format!("c_{at}"), "unheard::of").to_string();
        let payload = RawValue::from_string(payload).unwrap();
        let started = Instant::now();
        let answer = ask(&gate, payload).await;
        samples.push(started.elapsed());
        assert!(answer.get().contains("hold"), "{answer}");
    }
    table.row(
        "`hold` in process, fresh call, without sockets and engine",
        "",
        format!("p50 {:.1} µs, p99 {:.1} µs", samples.at(0.5), samples.at(0.99)),
        None,
    );
}

async fn continues(table: &mut Table) {
    let plain = json!({"path": "/srv/app/readme.md", "range": {"from": 1, "to": 200}, "encoding": "utf-8"});
    let shell =
        json!({"command": "cargo", "args": ["build", "--workspace"], "cwd": "/srv/app", "timeout_ms": 60000});
    let full = json!({"default_mode": "full"});
    let ruled = json!({"rules": rules(10)});
    let shown = |with: Value, without: &Value| (with, without.clone());
    let cases = [
        ("mode full", shown(full.clone(), &plain), "docs::read", true),
        (
            "10 rules, the last allows, one looks into the arguments",
            shown(ruled, &plain),
            "wanted::call",
            true,
        ),
        (
            "mode full, a call that may describe another one, so that its arguments are read",
            shown(full.clone(), &shell),
            "shell::exec",
            true,
        ),
        ("the same by the full reader, without the short cut", shown(full, &shell), "shell::exec", false),
    ];
    for (what, (configuration, arguments), function_id, short_cut) in cases {
        let (cost, allocations) = cost(configuration, function_id, &arguments, short_cut).await;
        table.row(
            &format!("`continue` in process: {what}"),
            if short_cut { "≤ 3 µs at p50, ≤ 8 allocations" } else { "" },
            format!("p50 {:.2} µs, p99 {:.2} µs, {allocations:.1} allocations", cost.at(0.5), cost.at(0.99)),
            short_cut.then(|| cost.at(0.5) <= 3.0 && allocations <= 8.0),
        );
    }
}

async fn cost(configuration: Value, function_id: &str, arguments: &Value, short_cut: bool) -> (Samples, f64) {
    let context = context(&StandIn::new(configuration, StateStore::default())).await;
    let mut functions = catalogue(&context);
    if !short_cut {
        for function in &mut functions {
            function.on_the_spot = None;
        }
    }
    let (offline, guard) =
        Offline::new(Registry { functions, ..Registry::default() }, Duration::from_millis(5));
    let guard = tokio::spawn(guard);
    let frame = json!({
        "type": "invokefunction", "invocation_id": "0b9f9a0e-52c5-4ab4-a6c8-0c1fb4a4a6b1", "function_id": "approval::gate",
        "data": {
            "point": "pre_trigger", "session_id": "s_2f6c1a", "turn_id": "t_9a1b2c", "step": 4, "depth": 0,
            "metadata": {"fs_scope": {"root": "/srv/app"}, "channel": "console"},
            "call": {"id": "call_77aa", "function_id": function_id, "arguments": arguments},
        },
    })
    .to_string();
    let (mut samples, mut allocations) = (Samples::default(), 0);
    let batches = times(400) + 10;
    for batch in 0..batches {
        let region = Region::new(ALLOCATED);
        let started = Instant::now();
        for _ in 0..BATCH {
            offline.receive(&frame);
        }
        if batch >= 10 {
            samples.push(started.elapsed() / BATCH);
            let change = region.change();
            allocations += change.allocations + change.reallocations;
        }
        let written = offline.written();
        assert!(written.last().unwrap().to_text().unwrap().contains(r#""decision":"continue""#));
        // Lets the guard keep up, as it does when calls come with pauses between them.
        tokio::time::sleep(Duration::from_millis(if batch % 20 == 0 { 12 } else { 0 })).await;
        drop(offline.written());
    }
    guard.abort();
    let counted = (batches - 10) as f64 * f64::from(BATCH);
    (samples, allocations as f64 / counted)
}
