//! Plays a transcript of the real engine against an engine and compares what comes back.
//!
//! Ids, tokens and times are matched by shape: the first time a recorded id meets an actual one the two are paired
//! for good. Frames are matched in any order on a connection, since the real engine orders nothing; but nothing is
//! sent before all that was recorded earlier has arrived, and at the end nothing may be left over.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use super::wire::{Client, Ended, PATIENCE};

/// How to play one transcript.
#[derive(Default)]
pub struct Plan {
    pub file: &'static str,
    /// Stop before the note that begins so, and why.
    pub until: Option<(&'static str, &'static str)>,
    /// Calls whose answers need only be answers: part of the request's text, and why.
    pub loose: &'static [(&'static str, &'static str)],
    /// Frames from the engine that are left out, by part of their text, and why.
    pub skip: &'static [(&'static str, &'static str)],
    /// Frames that may come more often than recorded, by part of their text, and why.
    pub extra: &'static [(&'static str, &'static str)],
    /// Connections the engine ends, and how their client sees it.
    pub engine_ends: &'static [(&'static str, Ended)],
}

struct Line {
    conn: String,
    dir: String,
    body: Value,
    done: bool,
}

type Pairs = HashMap<String, String>;

fn is_id(text: &str) -> bool {
    uuid::Uuid::parse_str(text).is_ok()
}

/// Whether an actual value is a recorded one under some pairing of ids; extends the pairing.
fn same(recorded: &Value, actual: &Value, pairs: &mut Pairs) -> bool {
    match (recorded, actual) {
        (Value::String(text), _) if text == "<text elided>" => actual.is_string(),
        (Value::String(recorded), Value::String(actual)) if is_id(recorded) && is_id(actual) => {
            *pairs.entry(recorded.clone()).or_insert_with(|| actual.clone()) == *actual
        }
        (Value::Array(recorded), Value::Array(actual)) => {
            recorded.len() == actual.len() && recorded.iter().zip(actual).all(|(r, a)| same(r, a, pairs))
        }
        (Value::Object(recorded), Value::Object(actual)) => {
            let known = actual.keys().all(|key| recorded.contains_key(key));
            known && recorded.iter().all(|(key, value)| same_field(key, value, actual.get(key), pairs))
        }
        _ => recorded == actual,
    }
}

fn same_field(key: &str, recorded: &Value, actual: Option<&Value>, pairs: &mut Pairs) -> bool {
    match (key, actual) {
        ("description", None) => recorded == "<text elided>",
        (_, None) => false,
        ("connected_at_ms", Some(actual)) => actual.is_u64(),
        ("baggage", Some(actual)) => members(recorded) == members(actual),
        ("registered_triggers", Some(actual)) => same_set(recorded, actual, pairs),
        (_, Some(actual)) => same(recorded, actual, pairs),
    }
}

/// The members of a baggage header; their order is left open.
fn members(baggage: &Value) -> Vec<&str> {
    let mut members: Vec<&str> = baggage.as_str().unwrap_or_default().split(',').collect();
    members.sort_unstable();
    members
}

/// Lists whose order the engine leaves open.
fn same_set(recorded: &Value, actual: &Value, pairs: &mut Pairs) -> bool {
    let (Some(recorded), Some(actual)) = (recorded.as_array(), actual.as_array()) else { return false };
    let mut rest: Vec<&Value> = actual.iter().collect();
    recorded.len() == actual.len()
        && recorded.iter().all(|wanted| {
            let found = rest.iter().position(|one| {
                let mut tried = pairs.clone();
                let fits = same(wanted, one, &mut tried);
                if fits {
                    *pairs = tried;
                }
                fits
            });
            found.map(|at| rest.remove(at)).is_some()
        })
}

/// The text of a frame with every recorded id replaced by its partner.
fn translate(text: &str, pairs: &Pairs) -> String {
    let mut text = text.to_owned();
    for (recorded, actual) in pairs {
        if recorded != actual {
            text = text.replace(recorded.as_str(), actual);
        }
    }
    text
}

fn read(file: &str) -> Vec<Line> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts").join(file);
    let text = std::fs::read_to_string(path).unwrap();
    let parse = |line: &str| {
        let body: Value = serde_json::from_str(line).unwrap();
        let conn = body["conn"].as_str().unwrap_or_default().to_owned();
        let dir = body["dir"].as_str().unwrap().to_owned();
        Line { conn, dir, body, done: false }
    };
    text.lines().filter(|line| !line.trim().is_empty()).map(parse).collect()
}

struct Player<'a> {
    plan: &'a Plan,
    address: SocketAddr,
    lines: Vec<Line>,
    clients: BTreeMap<String, Client>,
    pairs: Pairs,
    /// Recorded invocation ids whose answers are not compared.
    loose_ids: Vec<String>,
    observer: Client,
}

/// Plays a transcript. Panics at the first difference.
pub async fn play(address: SocketAddr, plan: &Plan) {
    let mut lines = read(plan.file);
    if let Some((note, _)) = plan.until {
        let end = lines.iter().position(|line| {
            line.dir == "note" && line.body["note"].as_str().is_some_and(|text| text.starts_with(note))
        });
        lines.truncate(end.expect("the note to stop at is in the transcript"));
    }
    let observer = Client::open(address, "/").await;
    let mut player = Player {
        plan,
        address,
        lines,
        clients: BTreeMap::new(),
        pairs: Pairs::new(),
        loose_ids: Vec::new(),
        observer,
    };
    for at in 0..player.lines.len() {
        if !player.lines[at].done {
            player.step(at).await;
        }
    }
    player.catch_up(player.lines.len(), None).await;
    player.finish().await;
}

impl Player<'_> {
    async fn step(&mut self, at: usize) {
        let line = &self.lines[at];
        let (conn, body) = (line.conn.clone(), line.body.clone());
        match line.dir.as_str() {
            "event" => {
                self.lines[at].done = true;
                match body["event"].as_str().unwrap() {
                    "open" => self.open(&conn, body["path"].as_str().unwrap_or("/")).await,
                    "closed" | "tcp-abort" => self.end(at, &conn).await,
                    other => panic!("no way to play the event {other}"),
                }
            }
            "worker->engine" => {
                self.catch_up(at, None).await;
                self.send(at).await;
            }
            "engine->worker" if body["frame"]["type"] == "workerregistered" => {
                self.lines[at].done = true;
                let client = &self.clients[&conn];
                let (id, token) = (&body["frame"]["worker_id"], &body["frame"]["reattach_token"]);
                self.pairs.insert(id.as_str().unwrap().to_owned(), client.worker_id.clone());
                self.pairs.insert(token.as_str().unwrap().to_owned(), client.token.clone());
            }
            "engine->worker" => {
                let text = body.to_string();
                self.lines[at].done = self.plan.skip.iter().any(|(part, _)| text.contains(part));
                if self.lines[at].done {
                    self.until_callable(&body["frame"]["function_id"]).await;
                } else if text.contains("worker_disconnected") {
                    self.end_early(at).await;
                }
            }
            _ => self.lines[at].done = true,
        }
    }

    /// A call that is left out still tells that its function could be called by then.
    async fn until_callable(&mut self, function_id: &Value) {
        let callable = async {
            let question = json!({ "function_id": function_id });
            while self.observer.call("engine::functions::info", question.clone()).await.is_err() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(PATIENCE, callable).await.expect("the function appears");
    }

    /// The recording client noted its own disconnect only after the engine's word about it had come.
    async fn end_early(&mut self, at: usize) {
        let id = self.lines[at].body["frame"]["data"]["worker_id"].as_str().and_then(|id| self.pairs.get(id));
        let open = self.clients.iter().find(|(_, client)| Some(&client.worker_id) == id);
        let Some(conn) = open.map(|(conn, _)| conn.clone()) else { return };
        let close = self.lines.iter_mut().find(|line| line.conn == conn && line.body["event"] == "closed");
        close.expect("it closes some time").done = true;
        self.end(at, &conn).await;
    }

    async fn open(&mut self, conn: &str, path: &str) {
        let client = Client::open(self.address, path).await;
        // The recorded greeting may stand before or after other lines; pair it here as well.
        let greeting = self
            .lines
            .iter()
            .find(|line| line.conn == conn && line.body["frame"]["type"] == "workerregistered" && !line.done);
        if let Some(greeting) = greeting {
            let id = greeting.body["frame"]["worker_id"].as_str().unwrap().to_owned();
            self.pairs.insert(id, client.worker_id.clone());
        }
        self.clients.insert(conn.to_owned(), client);
    }

    /// Ends a connection, or sees that the engine does, and waits until the engine has forgotten it.
    async fn end(&mut self, at: usize, conn: &str) {
        self.catch_up(at, Some(conn)).await;
        let Some(mut client) = self.clients.remove(conn) else { return };
        client.drain();
        if let Some((_, wanted)) = self.plan.engine_ends.iter().find(|(label, _)| *label == conn) {
            assert_eq!(client.until_ended().await, *wanted, "{}: how {conn} ends", self.plan.file);
        } else {
            client.settle().await;
        }
        self.no_left_over(conn, &client);
        let id = client.worker_id.clone();
        client.close().await;
        drop(client);
        let forgotten = async {
            loop {
                let workers = self.observer.call("engine::workers::list", json!({})).await.unwrap();
                let known = workers["workers"].as_array().unwrap().iter().any(|worker| worker["id"] == id);
                if !known {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(PATIENCE, forgotten).await.expect("the engine forgets a closed connection");
    }

    async fn send(&mut self, at: usize) {
        self.lines[at].done = true;
        let (conn, body) = (self.lines[at].conn.clone(), self.lines[at].body.clone());
        let text =
            body.get("frame").map_or_else(|| body["raw"].as_str().unwrap().to_owned(), Value::to_string);
        if self.plan.loose.iter().any(|(part, _)| text.contains(part)) {
            self.loose_ids.push(body["frame"]["invocation_id"].as_str().unwrap().to_owned());
        }
        let text = translate(&text, &self.pairs);
        // A connection the engine has evicted may still be written to; that goes nowhere.
        let Some(client) = self.clients.get_mut(&conn) else { return };
        if body["opcode"] == "binary" {
            client.send_binary(text).await;
        } else {
            client.send_text(text).await;
        }
        let evicted = self.plan.engine_ends.iter().any(|(label, _)| *label == conn);
        if body["frame"]["type"] != "ping" && !evicted {
            client.settle().await;
        }
        if body["frame"]["action"]["type"] == "void" {
            // Nothing tells when a void call is done; the recording left 200 ms.
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits for every recorded frame before `at`, on one connection or on all.
    async fn catch_up(&mut self, at: usize, only: Option<&str>) {
        for line in 0..at {
            let wanted = !self.lines[line].done
                && self.lines[line].dir == "engine->worker"
                && only.is_none_or(|conn| conn == self.lines[line].conn);
            if wanted {
                self.expect(line, at).await;
            }
        }
    }

    /// Waits for one recorded frame. What comes instead and is recorded for later is taken, and answered as recorded.
    async fn expect(&mut self, wanted: usize, at: usize) {
        let conn = self.lines[wanted].conn.clone();
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            // An event's binds are served one after another: the wanted one may come only after another is answered.
            let conns: Vec<String> = self.clients.keys().cloned().collect();
            for conn in conns {
                self.clients.get_mut(&conn).unwrap().drain();
                self.take_early(&conn, wanted, at).await;
            }
            if self.lines[wanted].done {
                return;
            }
            let Some(client) = self.clients.get_mut(&conn) else { panic!("{conn} is gone") };
            let came = tokio::time::timeout(Duration::from_millis(10), client.take_in()).await;
            assert!(
                came != Ok(false) && tokio::time::Instant::now() < deadline,
                "{}: in vain on {conn}: {}\nwaiting there: {:#?}",
                self.plan.file,
                self.lines[wanted].body["frame"],
                client.waiting
            );
        }
    }

    async fn take_early(&mut self, conn: &str, wanted: usize, at: usize) {
        let mut frame_at = 0;
        while let Some(frame) =
            self.clients.get(conn).and_then(|client| client.waiting.get(frame_at)).cloned()
        {
            let Some(line) = self.recorded(conn, wanted, at, &frame) else {
                frame_at += 1;
                continue;
            };
            self.clients.get_mut(conn).unwrap().waiting.remove(frame_at);
            self.lines[line].done = true;
            if line != wanted {
                let id = self.lines[line].body["frame"]["invocation_id"].clone();
                let answer = self.lines.iter().position(|one| {
                    !one.done
                        && one.conn == conn
                        && one.dir == "worker->engine"
                        && one.body["frame"]["type"] == "invocationresult"
                        && one.body["frame"]["invocation_id"] == id
                });
                if let Some(answer) = answer {
                    Box::pin(self.send(answer)).await;
                }
            }
        }
    }

    /// The recorded line an actual frame stands for: the wanted one or one of the same burst.
    fn recorded(&mut self, conn: &str, wanted: usize, at: usize, frame: &Value) -> Option<usize> {
        let burst = (wanted..self.lines.len().min(at.max(wanted) + 20))
            .take_while(|line| *line < at.max(wanted) || self.lines[*line].dir != "note");
        let candidates: Vec<usize> = burst
            .filter(|line| {
                let line = &self.lines[*line];
                !line.done && line.conn == conn && line.dir == "engine->worker"
            })
            .collect();
        candidates.into_iter().find(|line| {
            let recorded = &self.lines[*line].body["frame"];
            let loose = recorded["invocation_id"]
                .as_str()
                .is_some_and(|id| self.loose_ids.iter().any(|one| one == id));
            let mut tried = self.pairs.clone();
            let fits = if loose {
                same(&recorded["invocation_id"], &frame["invocation_id"], &mut tried)
                    && recorded["type"] == frame["type"]
                    && recorded.get("error").is_some() == frame.get("error").is_some()
            } else {
                same(recorded, frame, &mut tried)
            };
            if fits {
                self.pairs = tried;
            }
            fits
        })
    }

    fn no_left_over(&self, conn: &str, client: &Client) {
        let allowed = |frame: &&Value| {
            let text = frame.to_string();
            !self.plan.extra.iter().any(|(part, _)| text.contains(part))
        };
        let rest: Vec<&Value> = client.waiting.iter().filter(allowed).collect();
        assert!(rest.is_empty(), "{}: not recorded on {conn}: {rest:#?}", self.plan.file);
    }

    async fn finish(mut self) {
        let clients = std::mem::take(&mut self.clients);
        for (conn, mut client) in clients {
            client.settle().await;
            self.no_left_over(&conn, &client);
        }
    }
}
