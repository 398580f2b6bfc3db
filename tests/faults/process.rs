//! Looking at a process from outside, and sending it signals.

use tokio::process::Command;

/// Sends a signal by name, such as `STOP`.
pub async fn signal(pid: u32, name: &str) {
    let done = Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()).status().await;
    assert!(done.unwrap().success(), "the signal {name} could not be sent");
}

/// What a process uses at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Resident memory in KiB.
    pub rss_kib: u64,
    /// Open file descriptors.
    pub descriptors: usize,
    /// Threads.
    pub threads: usize,
}

/// Reads it; `None` once the process is gone, or where there is no `/proc`.
pub fn usage(pid: u32) -> Option<Usage> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count();
    Some(Usage { rss_kib: field("VmRSS:")?, descriptors, threads: usize::try_from(field("Threads:")?).ok()? })
}

/// The process that was started with this argument.
pub fn pid_with_argument(argument: &str) -> Option<u32> {
    let processes = std::fs::read_dir("/proc").ok()?;
    processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok()).find(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|one| one == argument.as_bytes())
    })
}
