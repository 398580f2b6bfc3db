//! What the published worker was seen to do, replayed line by line against ours.
//!
//! A line without `departs` is how ours answers too, further fields aside. Where the contract changes a behaviour on
//! purpose, or contradicts a line, `expectation` says what ours does instead, and why.

mod boot;
mod expectation;

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::cases::observations;
use crate::support::stage::{
    ATTEMPTS, DENIED, ENTRY, PENDING, SETTINGS, record, register_entry, shell_entry,
};
use crate::support::values::{differences, short, visible_text};
use crate::support::wait::within;
use crate::support::{Script, Stage, eventually};
use expectation::{Expectation, expected_reply};

const EXTRA: &str = "suite::extra";

macro_rules! areas {
    ($($test:ident: $($area:literal),+;)+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                replay(&[$($area),+]).await;
            }
        )+

        /// A new area in the file would otherwise be skipped without a word.
        #[test]
        fn every_area_is_replayed() {
            let known = [$($($area),+),+, boot::AREA];
            let unknown: Vec<_> = observations()
                .iter()
                .filter(|line| !known.contains(&line["area"].as_str().unwrap()))
                .map(|line| line["id"].to_string())
                .collect();
            assert!(unknown.is_empty(), "no test replays {unknown:?}");
        }
    };
}

areas! {
    modes_and_patterns: "gate-mode", "gate-glob";
    stored_settings_and_seeds: "gate-stored", "gate-seed", "settings-seed";
    human_only_and_ids: "human-only", "gate-ids", "gate-payload";
    rules_that_are_understood: "rules", "rules-modes", "rules-args";
    rules_that_are_not: "rules-bad";
    holds: "hold";
    redaction: "redaction";
    settings: "settings";
    inbox: "inbox-get", "inbox-list";
    resolve: "resolve", "resolve-fs";
    watch: "watch";
    purge: "purge";
    configuration: "config";
    errors: "errors";
    events: "events";
}

/// `CASE=<id>` replays one line only.
fn wanted(id: &str) -> bool {
    std::env::var("CASE").map_or(true, |only| only == id)
}

async fn replay(areas: &[&str]) {
    let stage = Stage::start().await;
    let mut problems = Vec::new();
    for line in observations() {
        let id = line["id"].as_str().unwrap();
        if !areas.contains(&line["area"].as_str().unwrap()) || !wanted(id) {
            continue;
        }
        let mut one = Line {
            stage: &stage,
            line: &line,
            setup_replies: Vec::new(),
            problems: Vec::new(),
            forgotten: 0,
        };
        one.replay().await;
        problems.extend(one.problems.into_iter().map(|problem| format!("{id}: {problem}")));
    }
    assert!(problems.is_empty(), "{} differences:\n{}", problems.len(), problems.join("\n"));
}

struct Line<'a> {
    stage: &'a Stage,
    line: &'a Value,
    setup_replies: Vec<Value>,
    problems: Vec<String>,
    /// How many calls the siblings had heard at the last `forget`.
    forgotten: usize,
}

impl Line<'_> {
    async fn replay(&mut self) {
        let expectation = Expectation::of(self.line);
        self.clean().await;
        if let Some(good) = &expectation.good_before {
            self.stage.configure(good).await;
        }
        for step in self.line["setup"].as_array().unwrap() {
            self.set_up(step).await;
        }
        let reply = self.observe().await;
        self.check_replies(&expectation, &reply);
        self.check_events(&expectation).await;
        self.check_siblings(&expectation);
        self.check_rows(&expectation).await;
    }

    /// Everything as at the start: rows, scripts, configuration, what was heard.
    async fn clean(&mut self) {
        let stage = self.stage;
        stage.siblings.reset();
        stage.siblings.peer.barrier().await;
        let mut keys: Vec<(String, String)> = Vec::new();
        for scope in [PENDING, ATTEMPTS] {
            for row in stage.rows(scope).await {
                if let (Some(session), Some(call)) =
                    (row["session_id"].as_str(), row["function_call_id"].as_str())
                {
                    keys.push((scope.to_owned(), format!("{session}/{call}")));
                }
            }
        }
        let session = self.session();
        keys.extend([SETTINGS, DENIED].map(|scope| (scope.to_owned(), session.clone())));
        // Rows that no id can be read from are known by the step that wrote them.
        for line in observations().iter().filter(|line| line["area"] == self.line["area"]) {
            for step in line["setup"].as_array().unwrap().iter().filter(|step| step["do"] == "state") {
                let text = |key: &str| step[key].as_str().unwrap().to_owned();
                keys.push((text("scope"), text("key")));
            }
        }
        keys.sort();
        keys.dedup();
        for (scope, key) in keys {
            stage.ask("state::delete", json!({"scope": scope, "key": key})).await;
        }
        stage.configure(&json!({})).await;
        register_entry(&stage.console, "shell", &json!({}), Some(shell_entry())).await;
        stage.quiet().await;
        stage.console.forget();
        self.forgotten = stage.siblings.peer.heard().len();
    }

    fn session(&self) -> String {
        format!("s_{}", self.line["id"].as_str().unwrap())
    }

    async fn set_up(&mut self, step: &Value) {
        let stage = self.stage;
        match step["do"].as_str().unwrap() {
            "state" => {
                stage
                    .set_row(step["scope"].as_str().unwrap(), step["key"].as_str().unwrap(), &step["value"])
                    .await;
            }
            "config" | "config_only" => self.configure(&step["value"]).await,
            "call" => {
                let reply = stage.call(step["function_id"].as_str().unwrap(), step["payload"].clone()).await;
                self.setup_replies.push(as_json(reply));
            }
            "fake" => self.script(step["function_id"].as_str().unwrap(), &step["spec"]).await,
            "forget" => {
                stage.quiet().await;
                stage.console.forget();
                self.forgotten = stage.siblings.peer.heard().len();
            }
            "bind" => self.bind_extra(step).await,
            "unbind" => {
                stage.console.unbind(step["id"].as_str().unwrap());
                stage.console.barrier().await;
                // The worker has handled the unbind once it answers what came behind it.
                stage.ask("approval::list-pending", json!({"limit": 1})).await;
            }
            "seed" => self.fill_inbox(step).await,
            "shell_entry" => register_or_set_shell(stage, &step["value"]).await,
            other => panic!("unknown step {other}"),
        }
    }

    /// A value that the registered schema refuses is stored all the same, so that the worker has to refuse it too.
    async fn configure(&self, value: &Value) {
        let set = self.stage.call("configuration::set", json!({"id": ENTRY, "value": value})).await;
        match set {
            Ok(_) => self.stage.reload().await,
            Err(refusal) => {
                assert_eq!(refusal.code, "SCHEMA_INVALID", "{refusal:?}");
                self.stage.force_config(value).await;
            }
        }
    }

    async fn script(&self, function_id: &str, spec: &Value) {
        let siblings = &self.stage.siblings;
        if spec["absent"] == true {
            siblings.peer.withdraw(function_id);
            siblings.peer.barrier().await;
            return;
        }
        let script = match spec.get("error") {
            Some(error) => {
                Script::refuse(error["code"].as_str().unwrap(), error["message"].as_str().unwrap())
            }
            None => Script::Reply(spec["reply"].clone()),
        };
        let delay = Duration::from_millis(spec["delay_ms"].as_u64().unwrap_or(0));
        siblings.script(function_id, Script::After(delay, Box::new(script)));
    }

    async fn bind_extra(&self, step: &Value) {
        let console = &self.stage.console;
        console.serve(EXTRA, Script::Reply(Value::Null));
        let (id, trigger_type) = (step["id"].as_str().unwrap(), step["trigger_type"].as_str().unwrap());
        console.bind(id, trigger_type, EXTRA, &step["config"]);
        console.barrier().await;
        self.stage.ask("approval::list-pending", json!({"limit": 1})).await;
    }

    async fn fill_inbox(&self, step: &Value) {
        let session = step["session"].as_str().unwrap();
        for n in 0..step["count"].as_i64().unwrap() {
            let call = format!("c_{n:05}");
            self.stage
                .set_row(PENDING, &format!("{session}/{call}"), &record(session, &call, 1000 + n))
                .await;
        }
    }

    /// The step under observation, as `{"result": …}` or `{"error": …}`.
    async fn observe(&self) -> Value {
        let (stage, call) = (self.stage, &self.line["call"]);
        match call["do"].as_str() {
            None => as_json(stage.call(call["function_id"].as_str().unwrap(), call["payload"].clone()).await),
            Some("fire") => {
                let trigger_type = call["trigger_type"].as_str().unwrap();
                eventually(&format!("the worker to be bound to {trigger_type}"), || async {
                    (!stage.siblings.peer.binds(trigger_type).is_empty()).then_some(())
                })
                .await;
                let replies = stage.siblings.peer.emit(trigger_type, &call["payload"]).await;
                json!({"result": replies.into_iter().map(as_json).collect::<Vec<_>>()})
            }
            Some("bind") => {
                stage.console.serve(EXTRA, Script::Reply(Value::Null));
                let verdict = stage
                    .console
                    .bind_verdict(call["trigger_type"].as_str().unwrap(), EXTRA, &call["config"])
                    .await;
                match verdict {
                    Ok(bind) => {
                        stage.ask("engine::unregister_trigger", bind).await;
                        json!({"result": "<no refusal>"})
                    }
                    refused => as_json(refused),
                }
            }
            Some(other) => panic!("unknown observation {other}"),
        }
    }

    fn check_replies(&mut self, expectation: &Expectation, reply: &Value) {
        let reply = summarised(&expectation.reply, reply);
        if let Some(any) = &expectation.decisions {
            let got = reply["result"]["decision"].as_str().unwrap_or("no decision");
            if !any.contains(&got) {
                self.problems.push(format!("answer: expected one of {any:?}, got {}", short(&reply)));
            }
        } else {
            self.compare("answer", &expectation.reply, &reply);
        }
        if let Some(words) = &expectation.error_names {
            let message = reply["error"]["message"].as_str().unwrap_or_default();
            if !words.is_empty() && !words.iter().any(|word| message.contains(word)) {
                self.problems.push(format!("error: `{message}` names none of {words:?}"));
            }
        }
        let before: Vec<Value> = std::mem::take(&mut self.setup_replies);
        if let Some(wanted) = &expectation.setup_replies {
            for (index, (wanted, got)) in wanted.iter().zip(&before).enumerate() {
                self.compare(&format!("setup answer {index}"), &expected_reply(self.line, wanted), got);
            }
        }
    }

    async fn check_events(&mut self, expectation: &Expectation) {
        let Some(wanted) = &expectation.events else { return };
        let ours = || {
            let events = self.stage.events().into_iter();
            events
                .map(|event| json!({"listener": event.listener, "payload": event.payload}))
                .collect::<Vec<_>>()
        };
        let _ =
            within(Duration::from_secs(3), || async { (ours().len() >= wanted.len()).then_some(()) }).await;
        self.stage.quiet().await;
        let got = ours();
        for listener in ["created", "resolved"] {
            let of = |events: &[Value]| -> Value {
                events
                    .iter()
                    .filter(|event| event["listener"] == listener)
                    .map(|event| event["payload"].clone())
                    .collect()
            };
            self.compare(&format!("events {listener}"), &of(wanted), &of(&got));
        }
        if expectation.in_order {
            // As the worker wrote them: the engine may swap what it passes on.
            let story = self.stage.story_on_the_wire(&self.session());
            let order: Value = story.iter().map(|line| line.split(' ').next().unwrap()).skip(1).collect();
            let wanted: Value = wanted.iter().map(|event| event["listener"].clone()).collect();
            self.compare("order of events", &wanted, &order);
        }
        let shown = visible_text(&got.into());
        for secret in expectation.hidden.iter().filter(|secret| shown.contains(**secret)) {
            self.problems.push(format!("an event shows `{secret}`"));
        }
        let extra = self.stage.console.heard_by(EXTRA);
        if self.line["area"] == "events" && !extra.is_empty() {
            self.problems.push(format!("a listener that must hear nothing heard {}", short(&extra.into())));
        }
    }

    fn check_siblings(&mut self, expectation: &Expectation) {
        let Some(wanted) = &expectation.sibling_calls else { return };
        let heard = self.stage.siblings.peer.heard().into_iter().skip(self.forgotten);
        let mut got: Vec<Value> = heard
            .filter(|heard| {
                heard.function_id.starts_with("harness::") || heard.function_id.starts_with("session::")
            })
            .map(|heard| json!({"function_id": heard.function_id, "payload": heard.data}))
            .collect();
        // What is only asked may be asked in any order; what changes something keeps its order.
        let changes = |call: &Value| {
            call["function_id"] != "session::get" && call["function_id"] != "harness::filesystem::grants"
        };
        let mut wanted = wanted.clone();
        for calls in [&mut got, &mut wanted] {
            calls.sort_by_key(|call| match changes(call) {
                true => String::new(),
                false => call["function_id"].to_string(),
            });
        }
        self.compare("sibling calls", &wanted.into(), &got.into());
    }

    async fn check_rows(&mut self, expectation: &Expectation) {
        for row in &expectation.rows {
            let (scope, key) = (row["scope"].as_str().unwrap(), row["key"].as_str().unwrap());
            let read = || async {
                match scope {
                    "configuration" => {
                        self.stage.ask("configuration::get", json!({"id": key})).await["value"].clone()
                    }
                    _ => self.stage.row(scope, key).await,
                }
            };
            let same = |got: &Value| match row["value"].is_null() {
                true => got.is_null(),
                false => differences(&row["value"], got).is_empty(),
            };
            let settled =
                within(Duration::from_secs(2), || async { same(&read().await).then_some(()) }).await;
            let got = read().await;
            for secret in expectation.hidden.iter().filter(|secret| visible_text(&got).contains(**secret)) {
                self.problems.push(format!("the row {scope} {key} shows `{secret}`"));
            }
            if settled.is_none() {
                let differing = differences(&row["value"], &got).join("; ");
                self.problems.push(format!("row {scope} {key}: {differing} (it is {})", short(&got)));
            }
        }
    }

    fn compare(&mut self, what: &str, expected: &Value, got: &Value) {
        self.problems
            .extend(differences(expected, got).into_iter().map(|difference| format!("{what}{difference}")));
    }
}

/// A shell entry without a value exists all the same.
async fn register_or_set_shell(stage: &Stage, value: &Value) {
    stage.ask("configuration::set", json!({"id": "shell", "value": value})).await;
}

/// A reply as the file writes it.
fn as_json(reply: Result<Value, crate::support::script::Refusal>) -> Value {
    match reply {
        Ok(result) => json!({"result": result}),
        Err(refusal) => json!({"error": {"code": refusal.code, "message": refusal.message}}),
    }
}

/// The file shortens long lists to their count, first and last.
fn summarised(expected: &Value, reply: &Value) -> Value {
    let pending = reply["result"]["pending"].as_array().filter(|_| expected["result"].get("count").is_some());
    let Some(pending) = pending else { return reply.clone() };
    json!({"result": {"count": pending.len(), "first": pending.first(), "last": pending.last(),
                      "next_cursor": reply["result"].get("next_cursor")}})
}
