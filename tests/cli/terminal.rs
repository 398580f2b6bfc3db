//! A pseudo-terminal with the binary in it: what it shows is kept as a screen, and keys can be typed.

use std::num::NonZeroU16;
use std::sync::{Arc, Mutex};

use pty_process::{Command, OwnedWritePty, Size};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Child;

use super::support::wait::{PATIENCE, within};
use super::support::worker;

/// See the module.
pub struct Terminal {
    keys: OwnedWritePty,
    seen: Arc<Mutex<Seen>>,
    child: Child,
}

struct Seen {
    screen: vt100::Parser,
    bytes: Vec<u8>,
}

impl Terminal {
    /// 80 columns and 24 lines, without colours.
    pub fn start(url: &str, arguments: &[&str]) -> Self {
        Self::with(url, arguments, |command| command.env("NO_COLOR", "1"))
    }

    /// With other settings.
    pub fn with(url: &str, arguments: &[&str], set: impl FnOnce(Command) -> Command) -> Self {
        let (pty, pts) = pty_process::open().unwrap();
        pty.resize(Size::new(24, 80)).unwrap();
        let command = Command::new(worker::binary())
            .arg("--url")
            .arg(url)
            .args(arguments)
            .env_remove("III_URL")
            .env_remove("III_ENGINE_URL")
            .env_remove("NO_COLOR")
            .env("TERM", "xterm-256color")
            .kill_on_drop(true);
        let child = set(command).spawn(pts).unwrap();
        let (mut output, keys) = pty.into_split();
        let seen = Arc::new(Mutex::new(Seen {
            screen: vt100::Parser::new(size(24), size(80), 0),
            bytes: Vec::new(),
        }));
        let kept = Arc::clone(&seen);
        tokio::spawn(async move {
            let mut piece = [0; 4096];
            // A terminal whose last process has ended is an error to read from.
            while let Ok(length @ 1..) = output.read(&mut piece).await {
                let mut kept = kept.lock().unwrap();
                kept.screen.process(&piece[..length]);
                kept.bytes.extend(&piece[..length]);
            }
        });
        Self { keys, seen, child }
    }

    /// Makes it larger or smaller.
    pub fn resize(&self, lines: u16, columns: u16) {
        self.keys.resize(Size::new(lines, columns)).unwrap();
        self.seen.lock().unwrap().screen.screen_mut().set_size(size(lines), size(columns));
    }

    /// Types.
    pub async fn types(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).await.unwrap();
    }

    /// The screen, line by line.
    pub fn lines(&self) -> Vec<String> {
        let seen = self.seen.lock().unwrap();
        seen.screen.screen().rows(0, 80).map(|line| line.trim_end().to_owned()).collect()
    }

    /// Waits until a line has this in it, and gives the screen.
    pub async fn shows(&self, text: &str) -> Vec<String> {
        self.becomes(text, |lines| lines.iter().any(|line| line.contains(text))).await
    }

    /// Waits until no line has this in it.
    pub async fn loses(&self, text: &str) {
        self.becomes(&format!("no `{text}`"), |lines| !lines.iter().any(|line| line.contains(text))).await;
    }

    /// Waits until the screen is so.
    pub async fn becomes(&self, what: &str, so: impl Fn(&[String]) -> bool) -> Vec<String> {
        let shown = within(PATIENCE, || {
            let lines = self.lines();
            let so = so(&lines);
            async move { so.then_some(lines) }
        })
        .await;
        shown.unwrap_or_else(|| panic!("gave up waiting for {what} on\n{}", self.lines().join("\n")))
    }

    /// Everything that was sent to the terminal.
    pub fn bytes(&self) -> Vec<u8> {
        self.seen.lock().unwrap().bytes.clone()
    }

    /// Waits for the process to end, and gives its status and whether the terminal was given back.
    pub async fn ends(&mut self) -> (Option<i32>, bool) {
        let status = tokio::time::timeout(PATIENCE, self.child.wait()).await.expect("it goes on").unwrap();
        let back = within(PATIENCE, || async {
            let seen = self.seen.lock().unwrap();
            (!seen.screen.screen().alternate_screen() && !seen.screen.screen().hide_cursor()).then_some(())
        });
        (status.code(), back.await.is_some())
    }
}

fn size(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).unwrap()
}
