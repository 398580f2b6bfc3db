//! The world of one case: built from `given`, and what happened in it, for the checks.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::{checks, deliveries, steps};
use crate::support::cases::expand;
use crate::support::script::Reply;
use crate::support::stage::{ATTEMPTS, DENIED, PENDING, SETTINGS};
use crate::support::values::short;
use crate::support::{Latch, Stage, StageOptions};

/// One answer of the gate or of the watch.
#[derive(Debug, Clone)]
pub struct Decided {
    pub session: String,
    pub call: String,
    /// `approval::gate`, or the watch.
    pub of_gate: bool,
    pub reply: Reply,
    pub took: Duration,
    /// The record right after a hold.
    pub record: Value,
}

impl Decided {
    /// The decision word, or what came in its place.
    pub fn word(&self) -> String {
        match &self.reply {
            Ok(answer) => answer["decision"].as_str().unwrap_or("no decision").to_owned(),
            Err(refusal) => format!("error {}", refusal.code),
        }
    }
}

/// A case and everything that happened while it was played.
pub struct Case<'a> {
    pub case: &'a Value,
    pub id: &'a str,
    pub variant: String,
    pub stage: Option<Stage>,
    pub decided: Vec<Decided>,
    /// Answers by step, counted from 1; a parallel step has several.
    pub answers: HashMap<u64, Vec<Reply>>,
    /// Calls of the harness's release function that were heard when a step began.
    pub releases_before: HashMap<u64, usize>,
    /// As before, at the last `fault: none`.
    pub releases_while_broken: usize,
    /// The length of the worker's log when the configuration was last set.
    pub log_before: usize,
    /// Calls that lead a page walk: the call ids of each page.
    pub pages: Vec<Vec<String>>,
    pub rows_seen: Vec<Value>,
    pub latches: Vec<Latch>,
    pub running: Vec<JoinHandle<Decided>>,
    pub boot_mark: usize,
    pub problems: Mutex<Vec<String>>,
}

impl<'a> Case<'a> {
    pub fn new(case: &'a Value) -> Self {
        Self {
            case,
            id: case["id"].as_str().unwrap(),
            variant: String::new(),
            stage: None,
            decided: Vec::new(),
            answers: HashMap::new(),
            releases_before: HashMap::new(),
            releases_while_broken: 0,
            log_before: 0,
            pages: Vec::new(),
            rows_seen: Vec::new(),
            latches: Vec::new(),
            running: Vec::new(),
            boot_mark: 0,
            problems: Mutex::default(),
        }
    }

    /// Builds the world, runs the steps, and returns what differs.
    pub async fn play(mut self, config: Option<&Value>, variant: &str) -> Vec<String> {
        variant.clone_into(&mut self.variant);
        let alone = self.case["given"]["sequence"][0].get("boot").is_some();
        let rows = self.rows();
        let options = StageOptions {
            stored: config.map(|value| self.expand(value)),
            rows,
            alone,
            ..Default::default()
        };
        self.stage = Some(Stage::with(options).await);
        self.set_up_siblings();
        deliveries::bind(&self).await;
        self.boot_mark = self.stage().wire.mark();
        steps::run(&mut self).await;
        checks::check(&mut self).await;
        self.problems.into_inner().unwrap()
    }

    pub fn stage(&self) -> &Stage {
        self.stage.as_ref().unwrap()
    }

    pub fn given(&self) -> &'a Value {
        &self.case["given"]
    }

    pub fn expand(&self, value: &Value) -> Value {
        expand(value, &|step| match self.answers[&step][0].as_ref() {
            Ok(answer) => answer["next_cursor"].clone(),
            Err(refusal) => panic!("step {step} gave no cursor but {refusal:?}"),
        })
    }

    /// Notes a difference.
    pub fn problem(&self, text: String) {
        self.problems.lock().unwrap().push(text);
    }

    /// Notes a difference unless the condition holds.
    pub fn expect(&self, holds: bool, text: impl FnOnce() -> String) {
        if !holds {
            self.problem(text());
        }
    }

    fn rows(&self) -> Vec<(String, String, Value)> {
        let given = self.given();
        let mut rows = Vec::new();
        for key in ["settings", "raw_settings"] {
            for (session, value) in given[key].as_object().into_iter().flatten() {
                rows.push((SETTINGS.to_owned(), session.clone(), value.clone()));
            }
        }
        for row in given["state"]["pending"].as_array().into_iter().flatten() {
            let text = |key: &str| row[key].as_str().unwrap();
            let key = format!("{}/{}", text("session_id"), text("function_call_id"));
            rows.push((PENDING.to_owned(), key, row.clone()));
        }
        for (session, roots) in given["state"]["denied"].as_object().into_iter().flatten() {
            rows.push((DENIED.to_owned(), session.clone(), roots.clone()));
        }
        rows
    }

    fn set_up_siblings(&self) {
        let siblings = &self.stage().siblings;
        for (session, roots) in self.given()["state"]["grants"].as_object().into_iter().flatten() {
            let roots = roots.as_array().unwrap().iter().map(|root| root.as_str().unwrap().to_owned());
            siblings.set_grants(session, roots.collect());
        }
        for (session, meta) in self.given()["sessions"].as_object().into_iter().flatten() {
            siblings.describe(session, meta);
        }
    }

    /// The decisions of one call, in order.
    pub fn decisions_of(&self, call: &str) -> Vec<&Decided> {
        self.decided.iter().filter(|decided| decided.call == call).collect()
    }

    /// Every record that exists, as `session/call`, sorted.
    pub async fn pending_keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = self.pending().await.iter().map(record_key).collect();
        keys.sort();
        keys
    }

    /// Every record that exists.
    pub async fn pending(&self) -> Vec<Value> {
        self.stage().rows(PENDING).await
    }

    /// Everything stored in the worker's scopes.
    pub async fn all_rows(&self) -> Vec<Value> {
        let mut rows = Vec::new();
        for scope in [PENDING, SETTINGS, DENIED, ATTEMPTS] {
            rows.extend(self.stage().rows(scope).await);
        }
        rows
    }

    /// The events so far, in the order of the worker's wire, as the file writes them.
    pub fn events(&self) -> Vec<String> {
        let written = self.stage().wire.written_since(self.boot_mark).into_iter();
        written.filter_map(|frame| event_line(&frame)).collect()
    }

    /// The payloads of the events that listeners without a filter got.
    pub fn event_payloads(&self) -> Vec<Value> {
        self.stage().events().into_iter().map(|event| event.payload).collect()
    }

    /// What the harness's release function got.
    pub fn releases(&self) -> Vec<Value> {
        self.stage().siblings.peer.heard_by(crate::support::siblings::RESOLVE)
    }
}

/// `session/call` of a record.
pub fn record_key(record: &Value) -> String {
    format!(
        "{}/{}",
        record["session_id"].as_str().unwrap_or("?"),
        record["function_call_id"].as_str().unwrap_or("?")
    )
}

fn event_line(frame: &Value) -> Option<String> {
    use crate::support::stage::{ON_CREATED, ON_RESOLVED};
    if frame["type"] != "invokefunction" {
        return None;
    }
    let data = &frame["data"];
    match frame["function_id"].as_str()? {
        ON_CREATED => Some(format!("pending-created {}", record_key(data))),
        ON_RESOLVED => Some(format!("pending-resolved {} {}", record_key(data), data["outcome"].as_str()?)),
        _ => None,
    }
}

/// A reply as a short text.
pub fn shown(reply: &Reply) -> String {
    match reply {
        Ok(answer) => short(answer),
        Err(refusal) => short(&json!({"error": {"code": refusal.code, "message": refusal.message}})),
    }
}
