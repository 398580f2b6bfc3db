//! The part of the command line that is for people who decide: what is held, what becomes of it, a session's settings.

use clap::{Args, Subcommand, ValueEnum};
use clap_complete::Shell;
use serde_json::{Map, Value, json};

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
        metadata: Vec<(String, Value)>,
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
        /// Also stop asking about calls of the same function whose argument is so, for the rest of the session and in
        /// every mode. Repeatable: all conditions must hold. See below.
        #[arg(long, value_name = "CONDITION", value_parser = condition, conflicts_with = "always_this_function")]
        always_where: Vec<Condition>,
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
        metadata: Vec<(String, Value)>,
    },
    /// Print a session's mode, or set it.
    #[command(after_help = MODE)]
    Mode {
        /// The session.
        session: String,
        /// The mode from now on. Left out, the mode in force is printed.
        mode: Option<ModeWord>,
    },
    /// Print whether anybody is asked in a session, or say so.
    #[command(after_help = PROMPTS)]
    Prompts {
        /// The session.
        session: String,
        /// The policy from now on. Left out, the one in force is printed.
        policy: Option<PolicyWord>,
    },
    /// Print what a session may do without being asked, or change it.
    #[command(after_help = GRANTS)]
    Grants {
        /// The session.
        session: String,
        /// What to change. Left out, the lists and the rules are printed.
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

/// Whether anybody is asked in a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PolicyWord {
    /// What nothing decides waits for a person.
    Ask,
    /// It is denied at once: nobody is there to decide.
    Never,
    /// What the deployment says.
    Default,
}

/// What an argument must be like.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    field: String,
    operator: &'static str,
    operand: Value,
}

/// The conditions as a rule's `args`, or which argument is named twice.
pub fn arguments_of_rule(conditions: Vec<Condition>) -> Result<Value, String> {
    let mut arguments = Map::new();
    for Condition { field, operator, operand } in conditions {
        if arguments.contains_key(&field) {
            return Err(format!(
                "an argument is named in two conditions; write one, with `~` if need be: {field:?}"
            ));
        }
        arguments.insert(field, json!({operator: operand}));
    }
    Ok(Value::Object(arguments))
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
    /// Take back rules, as `allow --always-where` makes them.
    RemoveRule {
        /// Their names, as `grants` prints them.
        #[arg(required = true, value_name = "RULE")]
        rules: Vec<String>,
    },
    /// Drop the session's settings, its mode, prompt policy and rules too: the deployment's defaults are in force again.
    Clear,
}

/// Reads `key=value`.
fn metadata(text: &str) -> Result<(String, Value), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE, such as owner=u_1")?;
    Ok((key.to_owned(), json_or_text(value)))
}

/// Reads `argument=value` or `argument~regex`.
fn condition(text: &str) -> Result<Condition, String> {
    let at = text.find(['=', '~']).filter(|at| *at > 0);
    let at = at.ok_or("expected ARGUMENT=VALUE or ARGUMENT~REGEX, such as 'command~^make (test|lint)$'")?;
    let (field, operand) = (text[..at].to_owned(), &text[at + 1..]);
    Ok(if text.as_bytes()[at] == b'=' {
        Condition { field, operator: "equals", operand: json_or_text(operand) }
    } else {
        Condition { field, operator: "matches", operand: operand.into() }
    })
}

/// A condition of a rule's `args` as it is typed.
pub fn condition_text(field: &str, test: &Value) -> String {
    match (test["matches"].as_str(), &test["equals"]) {
        (Some(regex), _) => format!("{field}~{regex}"),
        (None, Value::String(plain)) if json_or_text(plain) == **plain => format!("{field}={plain}"),
        (None, value) => format!("{field}={value}"),
    }
}

fn json_or_text(value: &str) -> Value {
    serde_json::from_str(value).unwrap_or_else(|_| value.into())
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
  approval-gate allow s_1 c_1 --always-where 'command~^make (test|lint)$'   nor about calls of it that are like this
  approval-gate allow s_1 c_1 --always-where target=staging --always-where force=false

A CONDITION is ARGUMENT=VALUE or ARGUMENT~REGEX. VALUE is JSON if it reads as JSON, else text. REGEX is searched for:
anchor it with ^ and $. The call itself must satisfy it, as far as `show` shows its arguments.

`--for session` and `--for always` are for folder requests, `--always-…` for all others. What does not fit a call
leaves it held. A decision is about the call that was held when the command started, and about no later one.

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

const PROMPTS: &str = "\
Examples:
  approval-gate prompts s_1                which policy is in force, and its statement for a system prompt
  approval-gate prompts s_1 never          an unattended run: what would wait is denied at once
  approval-gate prompts s_1 default        what the deployment says

Calls that wait already go on waiting for a decision.";

const GRANTS: &str = "\
Examples:
  approval-gate grants s_1
  approval-gate grants s_1 add 'coder::*'
  approval-gate grants s_1 add deploy::run --every-mode
  approval-gate grants s_1 remove 'coder::*'
  approval-gate grants s_1 remove-rule rule-0a1b2c3d4e5f
  approval-gate grants s_1 clear

Rules with conditions are made from a held call: approval-gate allow --help";

const COMPLETIONS: &str = "\
Examples:
  approval-gate completions bash >~/.local/share/bash-completion/completions/approval-gate
  approval-gate completions zsh >~/.zfunc/_approval-gate
  approval-gate completions fish >~/.config/fish/completions/approval-gate.fish";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
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

    #[test]
    fn a_condition_is_an_equality_or_a_regex_whichever_sign_comes_first() {
        let args =
            |texts: &[&str]| arguments_of_rule(texts.iter().map(|text| condition(text).unwrap()).collect());
        assert_eq!(
            args(&["command~^a=b~c$", "n=5", "text=\"5\"", "target=a~b", "empty="]).unwrap(),
            json!({"command": {"matches": "^a=b~c$"}, "n": {"equals": 5}, "text": {"equals": "5"},
                "target": {"equals": "a~b"}, "empty": {"equals": ""}})
        );
        for typed in ["command~^a=b~c$", "n=5", "text=\"5\"", "target=a~b", "empty=", "list=[1]"] {
            let args = args(&[typed]).unwrap();
            let (field, test) = args.as_object().unwrap().iter().next().unwrap();
            assert_eq!(condition_text(field, test), typed, "it is shown as it was typed");
        }
        assert!(args(&["a=1", "a~x"]).is_err(), "the second would take the place of the first");
        for text in ["command", "", "=x", "~x"] {
            assert!(condition(text).is_err(), "{text}");
        }
    }
}
