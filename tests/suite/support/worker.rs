//! The worker under test: the real binary, started, watched on its error stream, stopped, and asked for its exit status.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

use super::wait::{eventually, within};

/// Names another binary to test, such as a release build.
const OTHER_BINARY: &str = "APPROVAL_GATE_BIN";

/// The binary under test.
pub fn binary() -> PathBuf {
    std::env::var_os(OTHER_BINARY).map_or_else(|| env!("CARGO_BIN_EXE_approval-gate").into(), PathBuf::from)
}

/// A command that runs the worker free of what the environment of the test run says.
pub fn command() -> Command {
    let mut command = Command::new(binary());
    command
        .env_remove("III_URL")
        .env_remove("III_ENGINE_URL")
        .env_remove("RUST_LOG")
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// Whether a logged line is of this level: the word stands alone, as error codes may contain it.
pub fn is_at(line: &str, level: &str) -> bool {
    line.split_whitespace().any(|word| word == level)
}

/// A running worker; it is killed when dropped.
pub struct Worker {
    child: Child,
    pid: u32,
    log: Arc<Mutex<Vec<String>>>,
    /// Ends with the error stream.
    reading: JoinHandle<()>,
}

impl Worker {
    /// Starts the binary with these arguments.
    pub fn start(arguments: &[&str]) -> Self {
        let mut command = command();
        command.args(arguments);
        Self::run(command)
    }

    /// Starts a prepared command.
    pub fn run(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap_or_else(|error| panic!("the worker did not start: {error}"));
        let pid = child.id().unwrap();
        let log = Arc::new(Mutex::new(Vec::new()));
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let to_log = log.clone();
        let reading = tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                to_log.lock().unwrap().push(line);
            }
        });
        Self { child, pid, log, reading }
    }

    /// Waits for the `ready` line; a worker that ends first fails the test with its log.
    pub async fn ready(&mut self) {
        let up = within(super::wait::PATIENCE, || {
            let up = self.says_ready();
            let over = !up && matches!(self.child.try_wait(), Ok(Some(_)));
            async move { if up { Some(true) } else { over.then_some(false) } }
        })
        .await;
        assert_eq!(up, Some(true), "the worker did not become ready; it said:\n{}", self.log_text());
    }

    /// Whether a line with the word `ready` was logged.
    pub fn says_ready(&self) -> bool {
        self.ready_lines() > 0
    }

    /// How many lines carry the word `ready`.
    pub fn ready_lines(&self) -> usize {
        let log = self.log.lock().unwrap();
        log.iter()
            .filter(|line| line.split(|c: char| !c.is_alphanumeric()).any(|word| word == "ready"))
            .count()
    }

    /// Everything it logged so far.
    pub fn log_text(&self) -> String {
        self.log.lock().unwrap().join("\n")
    }

    /// The lines of one level, such as `ERROR`.
    pub fn lines_at(&self, level: &str) -> Vec<String> {
        let log = self.log.lock().unwrap();
        log.iter().filter(|line| is_at(line, level)).cloned().collect()
    }

    /// Waits until a logged line satisfies the test, and returns it.
    pub async fn logged(&self, what: &str, matches: impl Fn(&str) -> bool) -> String {
        eventually(&format!("a log line {what}"), || {
            let found = self.log.lock().unwrap().iter().find(|line| matches(line)).cloned();
            async move { found }
        })
        .await
    }

    /// The exit status, when it ends in time. Killed by a signal: `None` inside. All that it said is in the log then.
    pub async fn ends_within(&mut self, limit: Duration) -> Option<Option<i32>> {
        let status = tokio::time::timeout(limit, self.child.wait()).await.ok()?.unwrap();
        if !self.reading.is_finished() {
            (&mut self.reading).await.unwrap();
        }
        Some(status.code())
    }

    /// Sends a signal by name, such as `TERM`.
    pub async fn signal(&self, name: &str) {
        let done = Command::new("kill").arg(format!("-{name}")).arg(self.pid.to_string()).status().await;
        assert!(done.unwrap().success(), "the signal {name} could not be sent");
    }

    /// Kills it as a crash would.
    pub async fn crash(&mut self) {
        self.child.kill().await.unwrap();
    }
}
