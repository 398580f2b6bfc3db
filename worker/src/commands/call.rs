//! `approval-gate call`: any function on the engine at the URL, from a shell.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;

use crate::clock::Deadline;
use crate::iii::{self, CallError};

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(5);
/// The status of "there is no engine", "that is not JSON", and "no answer".
const NOT_CALLED: u8 = 2;

/// Calls it and prints the result. A remote error is status 1; everything that kept the call from being answered is 2.
pub async fn run(url: &str, function_id: &str, payload: &str, timeout_seconds: u64) -> ExitCode {
    let data: Value = match serde_json::from_str(payload) {
        Ok(data) => data,
        Err(error) => return not_called(&format!("the payload is not JSON: {error}")),
    };
    let (client, session) = match iii::connect_once(url, CONNECT).await {
        Ok(connected) => connected,
        Err(error) => return not_called(&error.to_string()),
    };
    let deadline = Deadline::after(Duration::from_secs(timeout_seconds));
    let answer = client.call(function_id, &data, deadline).await.and_then(|answer| answer.value());
    session.shutdown(Duration::ZERO).await;
    match answer {
        Ok(result) => super::print(&format!("{result:#}")),
        Err(CallError::Refused { code, message, .. }) => {
            eprintln!("{code}: {message}");
            ExitCode::FAILURE
        }
        Err(error) => not_called(&error.to_string()),
    }
}

fn not_called(why: &str) -> ExitCode {
    eprintln!("approval-gate: {why}");
    ExitCode::from(NOT_CALLED)
}
