//! The command line: arguments and environment to options, as a pure function of both.

pub mod person;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::commands::check::arguments::CheckArguments;

/// Where an engine listens when nothing says otherwise.
pub const DEFAULT_URL: &str = "ws://127.0.0.1:49134";

/// Holds function calls of agents until a person decides.
///
/// Without a subcommand it runs the worker against the engine at the URL.
#[derive(Debug, Parser)]
#[command(name = "approval-gate", version, after_help = EXAMPLES)]
pub struct Arguments {
    /// The engine's address. Else `III_URL`, else `III_ENGINE_URL`, else `ws://127.0.0.1:49134`.
    #[arg(long, global = true, value_name = "WS_URL")]
    pub url: Option<String>,

    /// A YAML file that seeds the configuration entry, if nothing is stored yet.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Print the registry manifest as JSON and exit.
    #[arg(long)]
    pub manifest: bool,

    /// Start a small engine in this process, on the address of the URL, and run against it. For trying out and for
    /// tests: nothing it holds outlives it.
    #[arg(long)]
    pub embedded: bool,

    /// What to do instead of running the worker.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What to do instead of running the worker.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Call any function on the engine and print its JSON result.
    ///
    /// Exit status: 0 with the result on standard output; 1 when the function answered with an error, printed as
    /// `code: message`; 2 when there is no engine or the arguments are not JSON.
    Call {
        /// The function, for example `approval::list-pending`.
        function_id: String,
        /// Its payload as JSON.
        #[arg(default_value = "{}")]
        payload: String,
        /// How long to wait for the answer, in seconds.
        #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
        timeout: u64,
    },
    /// Look at a rules file without any engine: what would be decided about a call and why, what is wrong or doubtful,
    /// and whether its cases hold.
    Check(CheckArguments),
    /// Play the whole story on an engine of its own and print it: what is allowed, denied, held, decided.
    Demo,
    /// What a person can do from a terminal.
    #[command(flatten)]
    Person(person::PersonCommand),
}

const EXAMPLES: &str = "\
Examples:
  approval-gate demo                                    see it work, no engine needed
  approval-gate --embedded                              an engine and the worker, to try out
  approval-gate watch                                   decide, from another terminal
  approval-gate inbox                                   what is held
  approval-gate allow s_1 c_1                           let one call run
  approval-gate check --rules gate.yaml                 what is wrong or doubtful in a rules file
  approval-gate call approval::get-settings '{\"session_id\":\"s_1\"}'
  approval-gate --url ws://127.0.0.1:49134              the worker on an engine that runs already";

impl Arguments {
    /// The engine's address. Empty variables count as unset.
    pub fn engine_url(&self, environment: impl Fn(&str) -> Option<String>) -> String {
        let set = |name| environment(name).filter(|value| !value.trim().is_empty());
        self.url
            .clone()
            .or_else(|| set("III_URL"))
            .or_else(|| set("III_ENGINE_URL"))
            .unwrap_or_else(|| DEFAULT_URL.to_owned())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn url(arguments: &[&str], environment: &[(&str, &str)]) -> String {
        let parsed = Arguments::try_parse_from(std::iter::once(&"approval-gate").chain(arguments)).unwrap();
        parsed.engine_url(|name| {
            environment.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_url_is_the_argument_then_either_variable_then_the_default() {
        let both = [("III_URL", "ws://a"), ("III_ENGINE_URL", "ws://b")];
        assert_eq!(url(&["--url", "ws://c"], &both), "ws://c");
        assert_eq!(url(&[], &both), "ws://a");
        assert_eq!(url(&[], &both[1..]), "ws://b");
        assert_eq!(url(&[], &[("III_URL", "")]), DEFAULT_URL);
        assert_eq!(url(&["call", "f", "--url", "ws://d"], &both), "ws://d");
    }

    #[test]
    fn the_command_line_is_well_formed() {
        use clap::CommandFactory as _;
        Arguments::command().debug_assert();
    }
}
