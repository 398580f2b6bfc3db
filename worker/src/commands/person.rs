//! The commands for people, from the command line to the exit status.

use std::process::ExitCode;
use std::time::Duration;

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::decide::Beyond;
use super::peer::{self, Failure, Filter, Gate};
use super::{decide, inbox, prompts, settings, show, watch};
use crate::cli::Arguments;
use crate::cli::person::{Condition, PersonCommand, Which, arguments_of_rule};

/// The status of "something was refused or not done".
pub(super) const NOT_DONE: u8 = 1;
/// The status of "wrong command line" and "there is nobody to ask".
pub(super) const NOT_ASKED: u8 = 2;

/// Runs one of them. Exit status 0 if all was done, 1 if something was not, 2 if nobody could be asked.
pub async fn run(url: &str, command: PersonCommand) -> ExitCode {
    let outcome = match command {
        PersonCommand::Inbox { session, metadata, json } => {
            let filter = Filter::new(session, metadata);
            connected(url, async |gate| inbox::run(gate, &filter, json).await).await
        }
        PersonCommand::Show { session, call, json } => {
            connected(url, async |gate| show::run(gate, &session, &call, json).await).await
        }
        PersonCommand::Allow { which, lasting, always_this_function, always_where } => {
            match beyond(always_this_function, always_where) {
                Ok(beyond) => decided(url, which, &decide::Order::allow(lasting, beyond)).await,
                Err(why) => {
                    eprintln!("approval-gate: {why}");
                    Ok(ExitCode::from(NOT_ASKED))
                }
            }
        }
        PersonCommand::Deny { which, reason } => decided(url, which, &decide::Order::deny(reason)).await,
        PersonCommand::Watch { session, metadata } => watch::run(url, Filter::new(session, metadata)).await,
        PersonCommand::Mode { session, mode } => {
            connected(url, async |gate| settings::mode(gate, &session, mode).await).await
        }
        PersonCommand::Prompts { session, policy } => {
            connected(url, async |gate| prompts::run(gate, &session, policy).await).await
        }
        PersonCommand::Grants { session, change } => {
            connected(url, async |gate| settings::grants(gate, &session, change).await).await
        }
        PersonCommand::Completions { shell } => Ok(completions(shell)),
    };
    outcome.unwrap_or_else(|failure| {
        eprintln!("approval-gate: {failure}");
        failure.status()
    })
}

/// A command that asks and ends, on a connection of its own.
async fn connected(
    url: &str,
    command: impl AsyncFnOnce(&Gate) -> Result<ExitCode, Failure>,
) -> Result<ExitCode, Failure> {
    let (gate, session) = peer::connect(url).await?;
    let outcome = command(&gate).await;
    session.shutdown(Duration::ZERO).await;
    outcome
}

/// What an `allow` opens beyond the calls that it names.
fn beyond(this_function: bool, conditions: Vec<Condition>) -> Result<Beyond, String> {
    Ok(if this_function {
        Beyond::Function
    } else if conditions.is_empty() {
        Beyond::Nothing
    } else {
        Beyond::Where(arguments_of_rule(conditions)?)
    })
}

async fn decided(url: &str, which: Which, order: &decide::Order) -> Result<ExitCode, Failure> {
    match which.chosen() {
        Ok(chosen) => connected(url, async |gate| decide::run(gate, &chosen, order).await).await,
        Err(why) => {
            eprintln!(
                "approval-gate: {why}\n  See `approval-gate inbox` for what is held, and --help for examples"
            );
            Ok(ExitCode::from(NOT_ASKED))
        }
    }
}

fn completions(shell: Shell) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "approval-gate", &mut script);
    super::print(String::from_utf8_lossy(&script).trim_end())
}
