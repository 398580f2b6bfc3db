//! The worker as a person's command sees it: a connection under a name of its own, and typed questions over it.
//!
//! It knows the functions and nothing of how they are worked out, so that it works on any engine. The non-obvious
//! fact: the name that is announced is never the worker's. The engine leases that name to one connection at a time, and
//! a command that took it would make the worker stand by.

use std::fmt;
use std::process::ExitCode;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::text::safe;
use crate::clock::Deadline;
use crate::iii::{self, CallError, Client, Session};
use crate::wire::approved_rules::{ApproveRuleResponse, RemoveRuleResponse};
use crate::wire::error::decode_value;
use crate::wire::prompts::PromptPolicyResponse;
use crate::wire::record::{PendingApprovalRecord, StoredRow};
use crate::wire::resolve::ResolveResponse;
use crate::wire::settings::{ClearSettingsResponse, GetSettingsResponse, SettingsResponse};

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(5);
/// How long an ordinary answer may take.
const ANSWER: Duration = Duration::from_secs(10);
/// How long a decision may take: the worker answers after 25 s even if the approved call goes on.
const DECISION: Duration = Duration::from_secs(40);
/// How long an explanation may take: what it explains is shown without it.
const EXPLANATION: Duration = Duration::from_secs(3);
/// Records of one page.
const PAGE: usize = 200;
/// Pages of one listing: a worker that never ends its pages must not keep us for ever.
const MAX_PAGES: usize = 5_000;

/// A name for one connection of a person's command.
pub fn options(url: &str) -> iii::Options {
    let name = format!("approval-gate-cli-{}", Uuid::new_v4());
    let mut options = iii::Options::new(url, name, env!("CARGO_PKG_VERSION"), "a person's terminal");
    options.timings.connect = CONNECT;
    options
}

/// Connects for one command.
pub async fn connect(url: &str) -> Result<(Gate, Session), Failure> {
    let (client, session) = iii::connect_once_as(options(url)).await.map_err(|error| no_engine(&error))?;
    Ok((Gate::new(client), session))
}

/// The failure of a connection that was never made.
pub fn no_engine(why: &impl fmt::Display) -> Failure {
    Failure::NoEngine(safe(&why.to_string()))
}

/// Which calls a listing is about.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Filter {
    /// Only this session's.
    pub session: Option<String>,
    /// Only sessions whose metadata has these.
    pub metadata: Map<String, Value>,
}

impl Filter {
    /// From the command line.
    pub fn new(session: Option<String>, metadata: Vec<(String, Value)>) -> Self {
        Self { session, metadata: metadata.into_iter().collect() }
    }

    /// As a request's, or a binding's, fields.
    pub fn fields(&self) -> Map<String, Value> {
        let mut fields = Map::new();
        if let Some(session) = &self.session {
            fields.insert("session_id".to_owned(), session.as_str().into());
        }
        if !self.metadata.is_empty() {
            fields.insert("metadata".to_owned(), self.metadata.clone().into());
        }
        fields
    }
}

/// What a listing found.
#[derive(Debug, Default)]
pub struct Listing {
    /// The records as they came, the longest waiting first.
    pub raw: Vec<Value>,
    /// Those that can be read.
    pub held: Vec<PendingApprovalRecord>,
}

/// The worker's functions. Cheap to clone.
#[derive(Clone)]
pub struct Gate {
    client: Client,
}

impl Gate {
    /// Over this connection.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Everything that is held, page by page.
    pub async fn list(&self, filter: &Filter) -> Result<Listing, Failure> {
        let mut listing = Listing::default();
        let mut request = filter.fields();
        request.insert("limit".to_owned(), PAGE.into());
        for _ in 0..MAX_PAGES {
            let mut page =
                self.ask("approval::list-pending", &Value::Object(request.clone()), ANSWER).await?;
            let cursor = page["next_cursor"].take();
            let Value::Array(records) = page["pending"].take() else {
                return Err(Failure::unreadable("approval::list-pending"));
            };
            listing.held.extend(records.iter().filter_map(|record| StoredRow::read(record).live()));
            listing.raw.extend(records);
            if cursor.is_null() {
                return Ok(listing);
            }
            request.insert("cursor".to_owned(), cursor);
        }
        Err(Failure::unreadable("approval::list-pending"))
    }

    /// One record, as it came and as it reads; `None` if nothing of that name waits.
    pub async fn get(&self, session: &str, call: &str) -> Result<Option<PendingApprovalRecord>, Failure> {
        let request = json!({"session_id": session, "function_call_id": call});
        let mut answer = self.ask("approval::get-pending", &request, ANSWER).await?;
        match answer["pending"].take() {
            Value::Null => Ok(None),
            record => match StoredRow::read(&record).live() {
                Some(record) => Ok(Some(record)),
                None => Err(Failure::unreadable("approval::get-pending")),
            },
        }
    }

    /// Decides.
    pub async fn resolve(&self, request: &Value) -> Result<ResolveResponse, Failure> {
        self.ask_for("approval::resolve", request, DECISION).await
    }

    /// What is in force in a session.
    pub async fn settings(&self, session: &str) -> Result<GetSettingsResponse, Failure> {
        self.ask_for("approval::get-settings", &json!({"session_id": session}), ANSWER).await
    }

    /// Changes a session's settings with one of the functions that answer the whole record.
    pub async fn change(&self, function_id: &str, request: &Value) -> Result<SettingsResponse, Failure> {
        self.ask_for(function_id, request, ANSWER).await
    }

    /// Drops a session's settings.
    pub async fn clear(&self, session: &str) -> Result<ClearSettingsResponse, Failure> {
        self.ask_for("approval::clear-settings", &json!({"session_id": session}), ANSWER).await
    }

    /// Reads a session's prompt policy, or sets it, with the function of this id.
    pub async fn prompts(&self, function_id: &str, request: &Value) -> Result<PromptPolicyResponse, Failure> {
        self.ask_addition(function_id, request).await
    }

    /// Approves a rule, made from a held call.
    pub async fn approve_rule(&self, request: &Value) -> Result<ApproveRuleResponse, Failure> {
        self.ask_addition("approval::approve-rule", request).await
    }

    /// Takes a rule back.
    pub async fn remove_rule(&self, session: &str, rule_id: &str) -> Result<RemoveRuleResponse, Failure> {
        let request = json!({"session_id": session, "rule_id": rule_id});
        self.ask_addition("approval::remove-rule", &request).await
    }

    /// Why the gate held a call, in whatever shape it tells; `None` if it cannot tell.
    pub async fn why(&self, session: &str, call: &str) -> Option<Value> {
        let request = json!({"session_id": session, "function_call_id": call});
        self.ask("approval::evaluate", &request, EXPLANATION).await.ok()
    }

    /// Asks a function that older workers do not have.
    async fn ask_addition<T: DeserializeOwned>(
        &self,
        function_id: &str,
        request: &Value,
    ) -> Result<T, Failure> {
        self.ask_for(function_id, request, ANSWER).await.map_err(|failure| match failure {
            Failure::NoWorker => Failure::NoFunction(function_id.to_owned()),
            other => other,
        })
    }

    async fn ask_for<T: DeserializeOwned>(
        &self,
        function_id: &str,
        request: &Value,
        wait: Duration,
    ) -> Result<T, Failure> {
        let answer = self.ask(function_id, request, wait).await?;
        decode_value(&answer).map_err(|_| Failure::unreadable(function_id))
    }

    async fn ask(&self, function_id: &str, request: &Value, wait: Duration) -> Result<Value, Failure> {
        let answer = self.client.call(function_id, request, Deadline::after(wait)).await;
        answer.and_then(|answer| answer.value()).map_err(Failure::from)
    }
}

/// Why a question has no answer, in words that say what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// There is no engine, or no longer.
    NoEngine(String),
    /// There is an engine and no worker on it.
    NoWorker,
    /// There is no function of this id, which older workers do not have.
    NoFunction(String),
    /// The worker said no.
    Refused {
        /// The code of the answer.
        code: String,
        /// Its message, harmless.
        message: String,
    },
    /// No answer that can be used; whether it had an effect is not known.
    Unclear(String),
}

impl Failure {
    fn unreadable(function_id: &str) -> Self {
        Self::Unclear(format!(
            "the answer of `{function_id}` cannot be read: is this another version of the worker?"
        ))
    }

    /// The exit status that goes with it.
    pub fn status(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::NoEngine(_) | Self::NoWorker | Self::NoFunction(_) => super::person::NOT_ASKED,
            Self::Refused { .. } | Self::Unclear(_) => super::person::NOT_DONE,
        })
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        if error.is_function_not_found() {
            return Self::NoWorker;
        }
        match error {
            CallError::Refused { code, message, .. } => {
                Self::Refused { code: safe(&code), message: safe(&message) }
            }
            CallError::NotConnected => Self::NoEngine(error.to_string()),
            other => Self::Unclear(safe(&other.to_string())),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoEngine(why) => write!(
                formatter,
                "{why}\n  Is an engine running? Name its address with --url or III_URL. To try without one: approval-gate --embedded"
            ),
            Self::NoWorker => write!(
                formatter,
                "approval-gate does not run on this engine\n  Start it there (approval-gate --url …), or name another engine with --url or III_URL"
            ),
            Self::NoFunction(function_id) => write!(
                formatter,
                "nobody offers `{function_id}` on this engine: approval-gate does not run on it, or is an older version\n  See approval-gate inbox --url …, and start this version there"
            ),
            Self::Refused { code, message } if message.starts_with(code.as_str()) => {
                formatter.write_str(message)
            }
            Self::Refused { code, message } => write!(formatter, "{code}: {message}"),
            Self::Unclear(why) => {
                write!(formatter, "{why}\n  See what is held now: approval-gate inbox")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_name_is_a_connection_s_own_and_never_the_worker_s() {
        let (one, other) = (options("ws://a"), options("ws://a"));
        assert_ne!(one.worker_name, other.worker_name);
        assert!(one.worker_name.starts_with("approval-gate-cli-"));
    }

    #[test]
    fn a_refusal_is_told_once_and_cannot_move_the_cursor() {
        let refused = |code: &str, message: &str| {
            Failure::from(CallError::Refused {
                function_id: "f".into(),
                code: code.into(),
                message: message.into(),
            })
            .to_string()
        };
        assert_eq!(refused("approval/x", "approval/x: no"), "approval/x: no");
        assert_eq!(refused("e", "\u{1b}[2J"), r"e: \u{1b}[2J");
        assert!(refused(iii::FUNCTION_NOT_FOUND, "nobody").contains("does not run on this engine"));
    }

    #[test]
    fn a_filter_leaves_out_what_was_not_asked_for() {
        assert_eq!(Value::Object(Filter::default().fields()), json!({}));
        let filter = Filter::new(Some("s".into()), vec![("owner".into(), json!("u"))]);
        assert_eq!(Value::Object(filter.fields()), json!({"session_id": "s", "metadata": {"owner": "u"}}));
    }
}
