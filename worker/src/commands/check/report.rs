//! What `check` prints, line by line. The only way out: a line that comes in with a line break, an escape or a mark that
//! turns text around goes out with that spelled.

use std::io::Write as _;
use std::process::ExitCode;

use crate::redact::visible_exact;

/// Output collected until the end, so that a reader sees all of it or an error.
#[derive(Debug, Default)]
pub(super) struct Report {
    out: String,
    err: String,
}

impl Report {
    /// A line of the result.
    pub fn line(&mut self, line: &str) {
        self.out.push_str(&visible_exact(line));
        self.out.push('\n');
    }

    /// Lines of the result.
    pub fn lines(&mut self, lines: impl IntoIterator<Item = String>) {
        for line in lines {
            self.line(&line);
        }
    }

    /// A document that was made by this program and whose strings are visible already.
    pub fn document(&mut self, text: &str) {
        self.lines(text.lines().map(str::to_owned));
    }

    /// A line about a mistake in a file.
    pub fn mistake(&mut self, line: &str) {
        self.err.push_str(&visible_exact(line));
        self.err.push('\n');
    }

    /// A line about the command itself.
    pub fn error(&mut self, why: &str) {
        self.mistake(&format!("approval-gate: {why}"));
    }

    /// Prints everything. A standard output that is gone is a failure.
    pub fn print(self, status: u8) -> ExitCode {
        let _ = std::io::stderr().write_all(self.err.as_bytes());
        let mut out = std::io::stdout();
        match out.write_all(self.out.as_bytes()).and_then(|()| out.flush()) {
            Ok(()) => ExitCode::from(status),
            Err(_) => ExitCode::FAILURE,
        }
    }
}
