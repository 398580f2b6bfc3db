//! `approval-gate demo`: the whole story on an engine of its own, printed so that a person can read it.
//!
//! It checks itself: every line that says what happened was compared with what should have, and the exit status is 0
//! only if all came out. `stage` sets up who takes part; `story` is what they do.

mod stage;
mod story;

use std::io::Write as _;
use std::process::ExitCode;

use stage::Stage;

/// Plays it.
pub async fn run() -> ExitCode {
    let mut stage = match Stage::set().await {
        Ok(stage) => stage,
        Err(why) => {
            eprintln!("approval-gate: the demo could not be set up: {why}");
            return ExitCode::FAILURE;
        }
    };
    let played = story::play(&mut stage).await;
    let (checks, failed) = stage.result();
    stage.strike().await;
    if let Err(why) = played {
        say(&format!("\nThe story broke off: {why}"));
        return ExitCode::FAILURE;
    }
    if failed > 0 {
        say(&format!("\n{failed} of {checks} checks failed."));
        return ExitCode::FAILURE;
    }
    say(&format!("\nAll {checks} checks came out as they should."));
    ExitCode::SUCCESS
}

/// Prints a line. A reader that has gone away ends nothing: the checks are what counts.
fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}
