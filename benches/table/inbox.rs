//! What many live holds cost: pages, turn ends, memory, starting, listeners.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use approval_gate::handlers::Context;
use approval_gate::iii::Bind;
use approval_gate::local::StateStore;
use approval_gate::wire::record::StoredRow;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use crate::engines::Place;
use crate::holds::{record, store};
use crate::report::{Samples, Table, is_short, times};
use crate::stand_in::{StandIn, ask, context, function};

const FEW: usize = 100;

/// How many holds are many.
fn many() -> usize {
    if is_short() { 10_000 } else { 100_000 }
}

pub async fn measure(table: &mut Table) {
    let (few, _) = stocked(FEW).await;
    let (many_holds, took) = stocked(many()).await;
    table.row(
        &format!("{} live holds read into memory, without the engine's part", many()),
        "",
        format!("{:.2} s, {:.1} µs each", took.as_secs_f64(), took.as_secs_f64() * 1e6 / many() as f64),
        None,
    );
    pages(table, &few, &many_holds).await;
    turn_ends(table, &few, &many_holds).await;
    listeners(table).await;
    drop((few, many_holds));
    start(table).await;
}

/// A worker's inside with so many holds in memory, and how long it took to read them.
async fn stocked(holds: usize) -> (Arc<Context>, Duration) {
    let engine = StandIn::new(json!({}), store(holds));
    let started = Instant::now();
    let context = context(&engine).await;
    (context, started.elapsed())
}

fn raw(value: &Value) -> Box<RawValue> {
    to_raw_value(value).unwrap()
}

async fn pages(table: &mut Table, few: &Arc<Context>, many_holds: &Arc<Context>) {
    let (list_few, list_many) =
        (function(few, "approval::list-pending"), function(many_holds, "approval::list-pending"));
    let mut sides = [Samples::default(), Samples::default()];
    let mut cursor = json!({"limit": 50});
    for _ in 0..times(1_000) {
        for (samples, list, request) in
            [(0, &list_few, json!({"limit": 50})), (1, &list_many, cursor.clone())]
        {
            let started = Instant::now();
            let page = black_box(ask(list, raw(&request)).await);
            sides[samples].push(started.elapsed());
            if samples == 1 {
                let page: Value = serde_json::from_str(page.get()).unwrap();
                cursor = json!({"limit": 50, "cursor": page["next_cursor"]});
            }
        }
    }
    compare(table, "`list-pending`, pages of 50 one after the other", &sides);
}

async fn turn_ends(table: &mut Table, few: &Arc<Context>, many_holds: &Arc<Context>) {
    let ends =
        [function(few, "approval::on-turn-completed"), function(many_holds, "approval::on-turn-completed")];
    let mut sides = [Samples::default(), Samples::default()];
    for at in 0..times(FEW - 10) {
        for (samples, end) in sides.iter_mut().zip(&ends) {
            let event = raw(&json!({"session_id": format!("s_{}", at % 997), "turn_id": format!("t_{at}")}));
            let started = Instant::now();
            assert_eq!(ask(end, event).await.get(), r#"{"ok":true}"#);
            samples.push(started.elapsed());
        }
    }
    compare(table, "`on-turn-completed` for a turn with one hold", &sides);
}

fn compare(table: &mut Table, what: &str, [few, many_holds]: &[Samples; 2]) {
    let ratio = many_holds.at(0.5) / few.at(0.5);
    table.row(
        &format!("{what}: {} live holds against {FEW}", many()),
        "≤ 2 ×",
        format!("{ratio:.2} × ({:.1} against {:.1} µs)", many_holds.at(0.5), few.at(0.5)),
        Some(ratio <= 2.0),
    );
}

async fn listeners(table: &mut Table) {
    let held = StoredRow::read(&record(1)).live().unwrap();
    let mut costs = Vec::new();
    for count in [1, 1_000] {
        let engine = StandIn::new(json!({}), StateStore::default());
        let context = context(&engine).await;
        for at in 0..count {
            let bind = Bind {
                id: format!("b_{at}"),
                function_id: "listener::hears".to_owned(),
                config: json!({"session_id": format!("s_{}", at + 1)}),
                metadata: None,
                namespace: None,
            };
            context.events.created_provider().bind(bind).unwrap();
        }
        let mut samples = Samples::default();
        for _ in 0..times(5_000) {
            let started = Instant::now();
            context.events.created(&held);
            samples.push(started.elapsed());
        }
        assert_eq!(engine.fired.load(std::sync::atomic::Ordering::Relaxed), samples.len());
        costs.push(samples.at(0.5));
    }
    let ratio = costs[1] / costs[0];
    table.row(
        "one event, one listener of its session: among 1,000 of other sessions against alone",
        "the matching ones' cost",
        format!("{ratio:.2} × ({:.2} against {:.2} µs)", costs[1], costs[0]),
        Some(ratio <= 1.5),
    );
}

async fn start(table: &mut Table) {
    let place = Place::open_local(store(many())).await;
    let started = Instant::now();
    let worker = place.worker().await;
    let ready = started.elapsed();
    // Until it comes from memory, a page costs a listing of the whole store, so it is asked for now and then only.
    let mut took = ready;
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let page = Instant::now();
        place.ask("approval::list-pending", &json!({"limit": 50})).await;
        took = page.elapsed();
        if took.as_millis() < 20 {
            break;
        }
    }
    table.row(
        &format!("start to ready with {} live holds in the store", many()),
        "≤ 2 s",
        format!(
            "{:.2} s; pages from memory after {:.1} s ({:.1} ms each)",
            ready.as_secs_f64(),
            started.elapsed().as_secs_f64(),
            took.as_secs_f64() * 1e3
        ),
        Some(ready.as_secs_f64() <= 2.0),
    );
    place.close(worker).await;
}
