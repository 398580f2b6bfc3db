//! A new configuration of 1,000 rules while calls are coming in.

use std::time::{Duration, Instant};

use approval_gate::policy::Policy;
use serde_json::{Value, json};

use crate::calls::rules;
use crate::engines::{ECHO, Place, ask, hook};
use crate::process;
use crate::report::{Samples, Table, times, typical};
use crate::socket;

pub async fn measure(table: &mut Table) {
    let value = json!({"default_mode": "full", "rules": rules(1_000)});
    let compiling = typical(times(50), 1, || drop(Policy::from_value(&value).unwrap())) / 1_000.0;
    table.row(
        "1,000 rules, 100 with a regular expression, understood and compiled",
        "≤ 30 ms",
        format!("{compiling:.1} ms"),
        Some(compiling <= 30.0),
    );
    let place = Place::open().await;
    let mut worker = process::start(&place).await;
    place.ask("approval::set-mode", &json!({"session_id": "s_full", "mode": "full"})).await;
    let payload = hook("s_full", "c_1", "docs::read");
    let (mut quiet, mut loading) = (Sides::default(), Sides::default());
    for round in 0..times(30) {
        window(&place, &payload, &mut quiet).await;
        // Each time another value, or nothing would change.
        let value =
            json!({"default_mode": "manual", "grant_reask_limit": 1 + round % 5, "rules": rules(1_000)});
        let caller = place.caller.clone();
        let setting = tokio::spawn(async move {
            ask(&caller, "configuration::set", &json!({"id": "approval-gate", "value": value}))
                .await
                .unwrap();
        });
        window(&place, &payload, &mut loading).await;
        setting.await.unwrap();
    }
    let (gate, echo) = ([&quiet.gate, &loading.gate], [&quiet.echo, &loading.echo]);
    let at = |[quiet, loading]: [&Samples; 2], share| (loading.at(share) / 1e3, quiet.at(share) / 1e3);
    let show = |sides| {
        let ((loading, quiet), (longest, longest_quiet)) = (at(sides, 0.999), at(sides, 1.0));
        format!(
            "p99.9 {loading:.2} against {quiet:.2} ms, longest {longest:.2} against {longest_quiet:.2} ms"
        )
    };
    table.row(
        &format!(
            "decisions of a process of its own while 1,000 rules are loaded, against quiet times, {}",
            place.kind
        ),
        "",
        format!("{}; the echo {}", show(gate), show(echo)),
        None,
    );
    worker.kill().await.unwrap();
    socket::reload(table).await;
}

#[derive(Default)]
struct Sides {
    gate: Samples,
    echo: Samples,
}

/// Calls one after the other for a tenth of a second. The engine checks and stores the new value meanwhile, which the
/// echo feels as well.
async fn window(place: &Place, payload: &Value, sides: &mut Sides) {
    let until = Instant::now() + Duration::from_millis(100);
    while Instant::now() < until {
        for (function_id, samples) in [("approval::gate", &mut sides.gate), (ECHO, &mut sides.echo)] {
            let asked = Instant::now();
            ask(&place.caller, function_id, payload).await.unwrap();
            samples.push(asked.elapsed());
        }
    }
}
