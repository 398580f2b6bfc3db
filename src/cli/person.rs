//! The part of the command line that is for people who decide: what is held, what becomes of it, a session's settings.

use clap::{Args, Subcommand, ValueEnum};
use clap_complete::Shell;

/// What a person can do from a terminal.
#[derive(Debug, Subcommand)]
pub enum PersonCommand {
    /// Print what is held, the longest waiting first.
    #[command(after_help = INBOX)]
    Inbox {
        /// Only the calls of this session.
        #[arg(long, value_name = "SESSION")]
        session: Option<String>,
        /// Only sessions whose metadata has this. The value is JSON if it reads as JSON, else text. Repeatable.
        #[arg(long = "meta", value_name = "KEY=VALUE", value_parser = metadata)]
        metadata: Vec<(String, serde_json::Value)>,
        /// Print the records as JSON, one a line.
        #[arg(long)]
        json: bool,
    },
    /// Print one held call in full.
    #[command(after_help = SHOW)]
    Show {
        /// The session that the call belongs to.
        session: String,
        /// The call, or the beginning of its id.
        call: String,
        /// Print the record as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Let held calls run.
    #[command(after_help = ALLOW)]
    Allow {
        /// The calls.
        #[command(flatten)]
        which: Which,
        /// How long the folder stays open that a call asks for: this run, the session, or for the whole deployment.
        #[arg(long = "for", value_name = "HOW_LONG")]
        lasting: Option<Lasting>,
        /// Also stop asking about the function of each call, for the rest of its session and in every mode.
        #[arg(long)]
        always_this_function: bool,
    },
    /// Refuse held calls.
    #[command(after_help = DENY)]
    Deny {
        /// The calls.
        #[command(flatten)]
        which: Which,
        /// What the model is told. Left out, it is told that an operator rejected the call.
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Watch the inbox and decide with single keys; without a terminal, print one line per event.
    #[command(after_help = WATCH)]
    Watch {
        /// Only the calls of this session.
        #[arg(long, value_name = "SESSION")]
        session: Option<String>,
        /// Only sessions whose metadata has this, as for `inbox`.
        #[arg(long = "meta", value_name = "KEY=VALUE", value_parser = metadata)]
        metadata: Vec<(String, serde_json::Value)>,
    },
    /// Print a session's mode, or set it.
    #[command(after_help = MODE)]
    Mode {
        /// The session.
        session: String,
        /// The mode from now on. Left out, the mode in force is printed.
        mode: Option<ModeWord>,
    },
    /// Print what a session may do without being asked, or change it.
    #[command(after_help = GRANTS)]
    Grants {
        /// The session.
        session: String,
        /// What to change. Left out, both lists are printed.
        #[command(subcommand)]
        change: Option<GrantsChange>,
    },
    /// Print a completion script for a shell.
    #[command(after_help = COMPLETIONS)]
    Completions {
        /// The shell.
        shell: Shell,
    },
}

/// Which held calls are meant.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct Which {
    /// The session that the calls belong to.
    #[arg(value_name = "SESSION")]
    first: Option<String>,
    /// The calls, or the beginnings of their ids.
    #[arg(value_name = "CALL")]
    rest: Vec<String>,
    /// The session, in another place.
    #[arg(long = "session", value_name = "SESSION")]
    session: Option<String>,
    /// Everything that is held in the session.
    #[arg(long)]
    all: bool,
}

/// The session and the calls that a command line means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// The session.
    pub session: String,
    /// Ids of calls, or beginnings of them; `None` for everything held in the session.
    pub calls: Option<Vec<String>>,
}

impl Which {
    /// What is meant, or what is missing.
    pub fn chosen(self) -> Result<Chosen, &'static str> {
        let (session, calls) = match (self.session, self.first) {
            (Some(session), first) => (session, first.into_iter().chain(self.rest).collect()),
            (None, Some(session)) => (session, self.rest),
            (None, None) => return Err("which session? Name it first, or with `--session`"),
        };
        match (self.all, calls.is_empty()) {
            (true, true) => Ok(Chosen { session, calls: None }),
            (false, false) => Ok(Chosen { session, calls: Some(calls) }),
            (true, false) => Err("either calls or `--all`, not both"),
            (false, true) => Err("which calls? Name them behind the session, or all of it with `--all`"),
        }
    }
}

/// How long a folder stays open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Lasting {
    /// For this one run of the call.
    Once,
    /// Until the session ends.
    Session,
    /// Until the session ends, and for the deployment: the folder joins the shell worker's roots.
    Always,
}

/// A session's mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ModeWord {
    /// What no remembered approval and no rule decides is held.
    Manual,
    /// As manual, and the session's auto list counts.
    Auto,
    /// Everything runs but what only a person may call.
    Full,
}

/// A change of what a session may do without being asked.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum GrantsChange {
    /// Add functions to the list that counts in auto mode.
    Add {
        /// Function ids, or patterns with `*`.
        #[arg(required = true, value_name = "FUNCTION")]
        functions: Vec<String>,
        /// Approve them in every mode instead.
        #[arg(long)]
        every_mode: bool,
    },
    /// Take functions out of the list that counts in auto mode.
    Remove {
        /// The entries, by their exact text.
        #[arg(required = true, value_name = "FUNCTION")]
        functions: Vec<String>,
    },
    /// Drop the session's settings, its mode too: the deployment's defaults are in force again.
    Clear,
}

/// Reads `key=value`.
fn metadata(text: &str) -> Result<(String, serde_json::Value), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE, such as owner=u_1")?;
    let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
    Ok((key.to_owned(), value))
}

const INBOX: &str = "\
Examples:
  approval-gate inbox
  approval-gate inbox --session s_1
  approval-gate inbox --meta owner=u_1 --json | jq .function_id";

const SHOW: &str = "\
Examples:
  approval-gate show s_1 c_1
  approval-gate show s_1 toolu_01A         the beginning of an id is enough if no other call has it";

const ALLOW: &str = "\
Examples:
  approval-gate allow s_1 c_1              this one call
  approval-gate allow s_1 c_1 c_2 c_3      several
  approval-gate allow --session s_1 --all  everything that is held there now
  approval-gate allow s_1 c_4 --for session            a folder request: open it until the session ends
  approval-gate allow s_1 c_1 --always-this-function   and do not ask about this function again

`--for session` and `--for always` are for folder requests, `--always-this-function` for all others. What does not fit
a call leaves it held.

Exit status: 0 all done; 1 something was refused or could not be done; 2 wrong command line, no engine, or no worker on it.";

const DENY: &str = "\
Examples:
  approval-gate deny s_1 c_1
  approval-gate deny s_1 c_1 --reason \"not on a Friday\"
  approval-gate deny --session s_1 --all

Exit status: 0 all done; 1 something was refused or could not be done; 2 wrong command line, no engine, or no worker on it.";

const WATCH: &str = "\
Examples:
  approval-gate watch
  approval-gate watch --session s_1
  approval-gate watch --meta owner=u_1 >>approvals.log

`?` shows the keys. Nothing is selected until you move, and what you decide is the call that you see.";

const MODE: &str = "\
Examples:
  approval-gate mode s_1                   which mode is in force
  approval-gate mode s_1 auto              set it";

const GRANTS: &str = "\
Examples:
  approval-gate grants s_1
  approval-gate grants s_1 add 'coder::*'
  approval-gate grants s_1 add deploy::run --every-mode
  approval-gate grants s_1 remove 'coder::*'
  approval-gate grants s_1 clear";

const COMPLETIONS: &str = "\
Examples:
  approval-gate completions bash >~/.local/share/bash-completion/completions/approval-gate
  approval-gate completions zsh >~/.zfunc/_approval-gate
  approval-gate completions fish >~/.config/fish/completions/approval-gate.fish";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn which(first: Option<&str>, rest: &[&str], session: Option<&str>, all: bool) -> Which {
        let owned = |text: &str| text.to_owned();
        Which {
            first: first.map(owned),
            rest: rest.iter().copied().map(owned).collect(),
            session: session.map(owned),
            all,
        }
    }

    #[test]
    fn the_session_comes_first_or_by_name_and_calls_or_all_of_it_follow() {
        let rows = [
            (which(Some("s"), &["c", "d"], None, false), Some(vec!["c".to_owned(), "d".to_owned()])),
            (which(Some("c"), &["d"], Some("s"), false), Some(vec!["c".to_owned(), "d".to_owned()])),
            (which(Some("s"), &[], None, true), None),
            (which(None, &[], Some("s"), true), None),
        ];
        for (which, expected) in rows {
            let chosen = which.chosen().unwrap();
            assert_eq!((chosen.session.as_str(), &chosen.calls), ("s", &expected));
        }
    }

    #[test]
    fn half_a_choice_is_refused() {
        for which in [
            which(None, &[], None, true),
            which(Some("s"), &[], None, false),
            which(Some("s"), &["c"], None, true),
            which(None, &[], Some("s"), false),
        ] {
            assert!(which.clone().chosen().is_err(), "{which:?}");
        }
    }

    #[test]
    fn metadata_is_json_where_it_reads_as_json() {
        assert_eq!(metadata("owner=u_1").unwrap(), ("owner".to_owned(), json!("u_1")));
        assert_eq!(metadata("n=5").unwrap().1, json!(5));
        assert_eq!(metadata("n=\"5\"").unwrap().1, json!("5"));
        assert_eq!(metadata("a=b=c").unwrap().1, json!("b=c"));
        assert!(metadata("owner").is_err());
    }
}
