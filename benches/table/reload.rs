//! A new configuration of 1,000 rules while calls are coming in.

use std::sync::Arc;
use std::time::{Duration, Instant};

use approval_gate::policy::Policy;
use serde_json::json;

use crate::engines::{Place, ask, hook};
use crate::pure::rules;
use crate::report::{Samples, Table, times, typical};

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
    let worker = place.worker().await;
    place.ask("approval::set-mode", &json!({"session_id": "s_full", "mode": "full"})).await;
    let payload = Arc::new(hook("s_full", "c_1", "docs::read"));
    let (mut quiet, mut loading) = (Samples::default(), Samples::default());
    for round in 0..times(30) {
        quiet.extend(window(&place, &payload).await);
        // Each time another value, or nothing would change.
        let value =
            json!({"default_mode": "manual", "grant_reask_limit": 1 + round % 5, "rules": rules(1_000)});
        let caller = place.caller.clone();
        let setting = tokio::spawn(async move {
            ask(&caller, "configuration::set", &json!({"id": "approval-gate", "value": value}))
                .await
                .unwrap();
        });
        loading.extend(window(&place, &payload).await);
        setting.await.unwrap();
    }
    let later = (loading.at(0.999) - quiet.at(0.999)) / 1_000.0;
    table.row(
        &format!("decisions while 1,000 rules are loaded, against quiet times, {}", place.kind),
        "≤ 1 ms later",
        format!(
            "p99.9 {:.2} against {:.2} ms, longest {:.2} against {:.2} ms",
            loading.at(0.999) / 1e3,
            quiet.at(0.999) / 1e3,
            loading.at(1.0) / 1e3,
            quiet.at(1.0) / 1e3
        ),
        Some(later <= 1.0),
    );
    place.close(worker).await;
}

/// Calls one after the other for a tenth of a second.
async fn window(place: &Place, payload: &serde_json::Value) -> Samples {
    let mut samples = Samples::default();
    let until = Instant::now() + Duration::from_millis(100);
    while Instant::now() < until {
        let asked = Instant::now();
        ask(&place.caller, "approval::gate", payload).await.unwrap();
        samples.push(asked.elapsed());
    }
    samples
}
