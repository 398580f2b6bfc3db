//! The arguments of `check`.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};

use crate::policy::settings::Mode;

/// What to check.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct CheckArguments {
    /// The rules: a YAML or JSON file, the same that `--config` takes.
    #[arg(long, value_name = "FILE")]
    pub rules: PathBuf,
    /// The session's mode, if not the file's `default_mode`.
    #[arg(long, value_name = "MODE", value_parser = mode())]
    pub mode: Option<Mode>,
    /// Run the cases of this file; it may be the rules file itself.
    #[arg(long, value_name = "FILE", conflicts_with = "function_id")]
    pub cases: Option<PathBuf>,
    /// Let warnings count as errors.
    #[arg(long, conflicts_with = "function_id")]
    pub strict: bool,
    /// Print the explanation as JSON.
    #[arg(long, requires = "function_id")]
    pub json: bool,
    /// The function that is called.
    pub function_id: Option<String>,
    /// The call's arguments as JSON.
    #[arg(default_value = "{}", requires = "function_id")]
    pub arguments: String,
}

fn mode() -> impl clap::builder::TypedValueParser<Value = Mode> {
    PossibleValuesParser::new(Mode::ALL.map(Mode::as_str))
        .try_map(|word| Mode::parse(&word).ok_or("not a mode"))
}

const EXAMPLES: &str = "\
Exit status: 0 when the call could be decided, whatever the decision, and when nothing is wrong with the file; 1 when the
file has a mistake, a case fails, or there is a warning and `--strict`; 2 when the command line is wrong or a file cannot
be read.

Examples:
  approval-gate check --rules gate.yaml                                      mistakes and doubtful rules
  approval-gate check --rules gate.yaml shell::exec '{\"command\":\"ls\"}'       what would be decided, and why
  approval-gate check --rules gate.yaml --mode auto shell::exec              the same in mode auto
  approval-gate check --rules gate.yaml --cases gate.yaml                    the cases in the file";
