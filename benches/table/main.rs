//! The performance targets as a table: each row a figure, what it is held against, and whether it is met. Ratios are
//! of two things measured by turns in the same run, so that a slow or busy machine does not change them much.
//!
//! `cargo bench` prints it on the local engine; with `III_ENGINE_BIN`, the path of an engine's binary, on that one.
//! `BENCH_SHORT=1` measures less of everything, in under a minute. Nothing fails on a missed target.
#![allow(clippy::unwrap_used, clippy::cast_precision_loss, missing_docs)] // a bench may give up, and rounds

mod call_cost;
mod calls;
mod engines;
mod holds;
mod hook;
mod inbox;
mod process;
mod pure;
mod reload;
mod report;
mod socket;
mod stand_in;

use report::{Table, is_chosen};

fn main() {
    let mut table = Table::new();
    if is_chosen("pure") {
        pure::measure(&mut table);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        if is_chosen("call-cost") {
            call_cost::measure(&mut table).await;
        }
        if is_chosen("hook") {
            hook::measure(&mut table).await;
        }
        if is_chosen("reload") {
            reload::measure(&mut table).await;
        }
        if is_chosen("socket") {
            socket::measure(&mut table).await;
        }
        if is_chosen("inbox") {
            inbox::measure(&mut table).await;
        }
        if is_chosen("process") {
            process::measure(&mut table).await;
        }
    });
    table.print();
}
