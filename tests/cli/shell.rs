//! A shell line: the binary with arguments, run to its end.

use super::support::worker;

/// What a command left behind.
#[derive(Debug)]
pub struct Ran {
    pub status: i32,
    pub out: String,
    pub err: String,
}

/// Runs the binary against the engine at `url`.
pub async fn run(url: &str, arguments: &[&str]) -> Ran {
    let output = worker::command().arg("--url").arg(url).args(arguments).output().await.unwrap();
    Ran {
        status: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

impl Ran {
    /// It ended so, with nothing on the error stream.
    pub fn well(&self) -> &str {
        assert!(self.status == 0 && self.err.is_empty(), "{self:?}");
        &self.out
    }

    /// It ended with this status.
    pub fn ended(&self, status: i32) -> &Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }
}
