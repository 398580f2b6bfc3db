//! What one `continue` costs this process, from the frame's text to the queued answer, and what one hold does.

use std::time::Instant;

use approval_gate::local::StateStore;
use serde_json::json;
use serde_json::value::RawValue;

use crate::calls;
use crate::engines::hook;
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
    for call in calls::continues() {
        let mut samples = Samples::default();
        calls::in_batches(&call, times(400), BATCH, |work| {
            let started = Instant::now();
            work();
            samples.push(started.elapsed() / BATCH);
        })
        .await;
        table.row(
            &format!("`continue` in process: {}", call.what),
            if call.short_cut { "≤ 3 µs at p50" } else { "" },
            format!("p50 {:.2} µs, p99 {:.2} µs", samples.at(0.5), samples.at(0.99)),
            call.short_cut.then(|| samples.at(0.5) <= 3.0),
        );
    }
}
