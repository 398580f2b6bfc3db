//! The hook through an engine, against a function of the same client on the same engine that looks at nothing.
//!
//! Both are asked by turns, a few hundred calls each, so that whatever else the machine does falls on both.

use std::sync::Arc;
use std::time::{Duration, Instant};

use approval_gate::iii::Client;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::calls::rules;
use crate::engines::{DESCRIBED_ECHO, ECHO, Place, SLOW_SESSION, ask, hook};
use crate::report::{Samples, Table, times};

/// What both sides took.
#[derive(Default)]
struct Sides {
    echo: Samples,
    gate: Samples,
    echo_took: Duration,
    gate_took: Duration,
}

pub async fn measure(table: &mut Table) {
    let place = Place::open().await;
    let worker = place.worker().await;
    place.ask("approval::set-mode", &json!({"session_id": "s_full", "mode": "full"})).await;
    let full = Arc::new(hook("s_full", "c_1", "docs::read"));
    continues(table, &place, "mode full", &full, &[1, 16]).await;
    described(table, &place, &full).await;
    for count in [10, 1_000] {
        let value = json!({"default_mode": "manual", "rules": rules(count)});
        place.ask("configuration::set", &json!({"id": "approval-gate", "value": value})).await;
        let ruled = Arc::new(hook("s_rules", "c_1", "wanted::call"));
        while place.ask("approval::gate", &ruled).await["decision"] != "continue" {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        continues(table, &place, &format!("{count} rules, decided by the last"), &ruled, &[1]).await;
    }
    beside_slow_ones(table, &place).await;
    holds(table, &place).await;
    changed_by_somebody_else(table, &place).await;
    place.close(worker).await;
}

async fn continues(table: &mut Table, place: &Place, what: &str, payload: &Arc<Value>, in_flight: &[usize]) {
    for &in_flight in in_flight {
        let mut sides = Sides::default();
        for _ in 0..times(60) {
            let (samples, took) = round(&place.caller, ECHO, payload, in_flight).await;
            sides.echo.extend(samples);
            sides.echo_took += took;
            let (samples, took) = round(&place.caller, "approval::gate", payload, in_flight).await;
            sides.gate.extend(samples);
            sides.gate_took += took;
        }
        let (p50, p99) = (sides.ratio(0.5), sides.ratio(0.99));
        let throughput = sides.echo_took.as_secs_f64() / sides.gate_took.as_secs_f64();
        table.row(
            &format!("hook, `continue`, {what}, {in_flight} in flight, {}", place.kind),
            "p50 ≤ 1.15 ×, p99 ≤ 1.5 ×, throughput ≥ 0.9 ×",
            format!(
                "p50 {p50:.2} × ({:.0} against {:.0} µs), p99 {p99:.2} ×, throughput {throughput:.2} × ({:.0}/s)",
                sides.gate.at(0.5),
                sides.echo.at(0.5),
                sides.gate.len() as f64 / sides.gate_took.as_secs_f64()
            ),
            Some(p50 <= 1.15 && p99 <= 1.5 && throughput >= 0.9),
        );
    }
}

/// The gate against an echo that the engine takes as much trouble over.
async fn described(table: &mut Table, place: &Place, payload: &Arc<Value>) {
    for in_flight in [1, 16] {
        let (mut sides, mut plain) = (Sides::default(), Samples::default());
        for _ in 0..times(30) {
            plain.extend(round(&place.caller, ECHO, payload, in_flight).await.0);
            sides.echo.extend(round(&place.caller, DESCRIBED_ECHO, payload, in_flight).await.0);
            sides.gate.extend(round(&place.caller, "approval::gate", payload, in_flight).await.0);
        }
        table.row(
            &format!(
                "the same against an echo with the gate's schemas, {in_flight} in flight, {}",
                place.kind
            ),
            "",
            format!(
                "p50 {:.2} ×, p99 {:.2} ×; that echo against the plain one: p50 {:.2} ×",
                sides.ratio(0.5),
                sides.ratio(0.99),
                sides.echo.at(0.5) / plain.at(0.5)
            ),
            None,
        );
    }
}

impl Sides {
    fn ratio(&self, share: f64) -> f64 {
        self.gate.at(share) / self.echo.at(share)
    }
}

/// 320 calls, so many at a time.
async fn round(
    caller: &Client,
    function_id: &'static str,
    payload: &Arc<Value>,
    in_flight: usize,
) -> (Samples, Duration) {
    let started = Instant::now();
    let mut lanes = JoinSet::new();
    for _ in 0..in_flight {
        let (caller, payload) = (caller.clone(), Arc::clone(payload));
        lanes.spawn(async move {
            let mut samples = Samples::default();
            for _ in 0..320 / in_flight {
                let asked = Instant::now();
                let answer = ask(&caller, function_id, &payload).await.unwrap();
                samples.push(asked.elapsed());
                assert_eq!(answer["decision"], "continue");
            }
            samples
        });
    }
    let mut samples = Samples::default();
    while let Some(lane) = lanes.join_next().await {
        samples.extend(lane.unwrap());
    }
    (samples, started.elapsed())
}

/// Calls that continue while 64 decisions wait for the harness and a listener takes its time with 64 events.
async fn beside_slow_ones(table: &mut Table, place: &Place) {
    let payload = Arc::new(hook("s_full", "c_1", "docs::read"));
    // The echo's side is the same call with nobody else about.
    let mut sides = Sides::default();
    for at in 0..times(20) {
        let (samples, took) = round(&place.caller, "approval::gate", &payload, 1).await;
        sides.echo.extend(samples);
        sides.echo_took += took;
        let mut decisions = JoinSet::new();
        for call in 0..64 {
            let call_id = format!("c_{at}_{call}");
            place.ask("approval::gate", &hook(SLOW_SESSION, &call_id, "unheard::of")).await;
            let decision =
                json!({"session_id": SLOW_SESSION, "function_call_id": call_id, "decision": "allow"});
            let caller = place.caller.clone();
            decisions.spawn(async move { ask(&caller, "approval::resolve", &decision).await.unwrap() });
        }
        let (samples, took) = round(&place.caller, "approval::gate", &payload, 1).await;
        assert!(decisions.try_join_next().is_none(), "the slow ones were not slow enough");
        sides.gate.extend(samples);
        sides.gate_took += took;
        while decisions.join_next().await.is_some() {}
    }
    let (p50, p99) = (sides.ratio(0.5), sides.ratio(0.99));
    table.row(
        &format!(
            "hook, `continue` beside 64 decisions in a slow harness and a slow listener, against alone, {}",
            place.kind
        ),
        "no call is delayed",
        format!(
            "p50 {p50:.2} × ({:.0} against {:.0} µs), p99 {p99:.2} ×",
            sides.gate.at(0.5),
            sides.echo.at(0.5)
        ),
        Some(p50 <= 1.15 && p99 <= 1.5),
    );
}

/// Fresh holds, with nobody listening; each is two calls of ours in one of the caller's.
async fn holds(table: &mut Table, place: &Place) {
    let mut sides = Sides::default();
    for at in 0..times(1_000) {
        let payload = hook("s_hold", &format!("c_{at}"), "unheard::of");
        let asked = Instant::now();
        ask(&place.caller, ECHO, &payload).await.unwrap();
        sides.echo.push(asked.elapsed());
        let asked = Instant::now();
        let answer = ask(&place.caller, "approval::gate", &payload).await.unwrap();
        sides.gate.push(asked.elapsed());
        assert_eq!(answer["decision"], "hold");
    }
    let (p50, p99) = (sides.ratio(0.5), sides.ratio(0.99));
    table.row(
        &format!("hook, `hold`, fresh call, {}", place.kind),
        "p50 ≤ 3 ×",
        format!(
            "p50 {p50:.2} × ({:.0} against {:.0} µs), p99 {p99:.2} ×",
            sides.gate.at(0.5),
            sides.echo.at(0.5)
        ),
        Some(p50 <= 3.0),
    );
}

/// Settings that somebody else writes into the store: from the store's answer to the first decision by them.
async fn changed_by_somebody_else(table: &mut Table, place: &Place) {
    let value = json!({"default_mode": "manual", "rules": ["!docs::*"]});
    place.ask("configuration::set", &json!({"id": "approval-gate", "value": value})).await;
    let payload = hook("s_outside", "c_1", "docs::read");
    let mut delays = Samples::default();
    let mut at_once = 0;
    for at in 0..times(200) {
        let (mode, decision) = if at % 2 == 0 { ("full", "continue") } else { ("manual", "deny") };
        let record = json!({"mode": mode, "mode_set_at": 1, "approved_always": [], "always_allow": []});
        place
            .ask("state::set", &json!({"scope": "approval_settings", "key": "s_outside", "value": record}))
            .await;
        let (written, mut tries) = (Instant::now(), 0);
        while place.ask("approval::gate", &payload).await["decision"] != decision {
            tries += 1;
        }
        delays.push(written.elapsed());
        at_once += usize::from(tries == 0);
    }
    table.row(
        &format!(
            "settings written into the store by somebody else, until a decision follows them, {}",
            place.kind
        ),
        "",
        format!(
            "p50 {:.2} ms, p99 {:.2} ms, the very next call in {at_once} of {}",
            delays.at(0.5) / 1e3,
            delays.at(0.99) / 1e3,
            delays.len()
        ),
        None,
    );
}
