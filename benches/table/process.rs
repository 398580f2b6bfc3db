//! The binary as it is shipped: its size, and what it takes while it has nothing to do.

use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::process::Child;

use crate::engines::{Place, ask, hook};
use crate::report::Table;

const BINARY: &str = env!("CARGO_BIN_EXE_approval-gate");

/// Starts the binary.
pub fn spawn(url: &str) -> Child {
    tokio::process::Command::new(BINARY)
        .args(["--url", url])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

/// Starts the binary on an engine and waits for its first answer.
pub async fn start(place: &Place) -> Child {
    let child = spawn(&place.url);
    let payload = hook("s_1", "c_1", "docs::read");
    while ask(&place.caller, "approval::gate", &payload).await.is_err() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    child
}

pub async fn measure(table: &mut Table) {
    let size = std::fs::metadata(BINARY).unwrap().len() as f64 / 1e6;
    table.row("release binary, stripped", "≤ 8 MB", format!("{size:.2} MB"), Some(size <= 8.0));
    let place = Place::open().await;
    let started = Instant::now();
    let mut child = start(&place).await;
    let first = started.elapsed();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let status = child.id().and_then(|pid| std::fs::read_to_string(format!("/proc/{pid}/status")).ok());
    let resident = status.as_deref().and_then(|status| {
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.split_whitespace().next()?.parse::<f64>().ok()
    });
    match resident {
        Some(kib) => {
            let mib = kib / 1024.0;
            table.row(
                "resident memory of an idle worker",
                "≤ 12 MB",
                format!("{mib:.1} MiB"),
                Some(mib <= 12.0),
            );
        }
        None => table.row("resident memory of an idle worker", "≤ 12 MB", "not told by this system", None),
    }
    table.row(
        "from the start of the process to its first answer",
        "",
        format!("{:.0} ms", first.as_secs_f64() * 1e3),
        None,
    );
    child.kill().await.unwrap();
}
