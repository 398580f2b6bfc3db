//! The rows of the table that count bytes and allocations. A program of its own: an allocator that counts slows down whatever
//! is timed beside it.
#![allow(clippy::unwrap_used, clippy::cast_precision_loss, missing_docs)] // a bench may give up, and rounds
#![allow(dead_code)] // what it shares with the table is not all used here

#[path = "../table/calls.rs"]
mod calls;
#[path = "../table/holds.rs"]
mod holds;
#[path = "../table/report.rs"]
mod report;
#[path = "../table/stand_in.rs"]
mod stand_in;

use std::alloc::System;

use approval_gate::local::StateStore;
use report::{Table, is_chosen, is_short, times};
use serde_json::json;
use stand_in::{StandIn, context};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const BATCH: u32 = 100;

fn main() {
    if !is_chosen("allocations") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut table = Table::new();
    runtime.block_on(async {
        of_calls(&mut table).await;
        of_holds(&mut table).await;
    });
    table.print();
}

/// From the frame's text to the queued answer, the guard's part included.
async fn of_calls(table: &mut Table) {
    for call in calls::continues() {
        let (mut allocations, batches) = (0, times(400));
        calls::in_batches(&call, batches, BATCH, |work| {
            let region = Region::new(ALLOCATED);
            work();
            let change = region.change();
            allocations += change.allocations + change.reallocations;
        })
        .await;
        let each = allocations as f64 / (batches as f64 * f64::from(BATCH));
        table.row(
            &format!("allocations for a `continue` in process: {}", call.what),
            if call.short_cut { "≤ 8" } else { "" },
            format!("{each:.1}"),
            call.short_cut.then_some(each <= 8.0),
        );
    }
}

/// What each hold in memory takes beyond its JSON.
async fn of_holds(table: &mut Table) {
    let count = if is_short() { 10_000 } else { 100_000 };
    let engine = StandIn::new(json!({}), holds::store(count));
    // What is made once is made here.
    drop(context(&StandIn::new(json!({}), StateStore::default())).await);
    let region = Region::new(ALLOCATED);
    let context = context(&engine).await;
    let change = region.change();
    #[allow(clippy::cast_possible_wrap)]
    let kept = change.bytes_allocated as i64 - change.bytes_deallocated as i64;
    let json: usize = (0..count).map(|at| holds::record(at).to_string().len()).sum();
    let each = (kept as f64 - json as f64) / count as f64;
    table.row(
        &format!("memory for each of {count} live holds beyond its JSON"),
        "≤ 1.5 KiB",
        format!("{each:.0} bytes"),
        Some(each <= 1_536.0),
    );
    drop(context);
}
