//! Facts, in the order in which they became so, and the checks that can be made the moment a fact is known.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use approval_gate::iii::{Answer, CallError};
use approval_gate::wire::record::{PendingApprovalRecord, PendingKind, StoredRow};

use crate::harness::About;

/// A record that was written.
#[derive(Debug, Clone)]
pub struct Hold {
    pub row: String,
    pub record: PendingApprovalRecord,
    pub pending_at: i64,
    pub filesystem: bool,
    /// It was written while a denial of the hold before it was on its way. The denial names the call, not the hold,
    /// so the harness may apply it to this one, and nobody can tell which it was.
    pub overtaken: bool,
    pub generation: u64,
    /// When it was written, in ticks.
    written: u64,
}

/// An event that reached its listener.
#[derive(Debug, Clone)]
pub struct Heard {
    pub created: bool,
    pub hold: Option<String>,
    pub row: String,
    pub event_id: String,
    pub outcome: String,
}

/// An entry of the audit that reached its listener.
#[derive(Debug, Clone)]
pub struct Audited {
    pub asked: bool,
    pub event_id: String,
    pub outcome: String,
}

/// A decision that was sent to the harness.
pub struct Decision {
    pub hold: Option<String>,
    pub generation: u64,
    pub row: String,
    pub allow: bool,
    /// The harness found the call parked and did as it was told.
    pub took: bool,
    pub end: End,
}

/// What the worker knows of what it sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Waiting,
    Answered,
    Unanswered,
}

/// What a person asked for.
pub struct Ask {
    pub session: String,
    pub call: String,
    pub allow: bool,
    pub used: bool,
    /// When it was answered, and whether with yes.
    pub done: Option<(u64, bool)>,
}

/// A fetch of the configuration.
pub struct Fetch {
    pub generation: u64,
    pub link: u64,
    pub delivered: Option<(u64, Value)>,
}

/// Which sent thing an answer belongs to.
pub enum Sent {
    Decision(usize),
    Fetch(usize),
}

/// An acknowledged change of settings.
pub struct Grown {
    pub session: String,
    pub function: String,
    pub began: u64,
}

#[derive(Default)]
pub struct History {
    now: u64,
    pub tracing: bool,
    pub violations: Vec<String>,
    pub crashes: u64,
    dead: BTreeSet<u64>,
    pub cuts: u64,
    pub holds: BTreeMap<String, Hold>,
    /// Holds whose `hold` the harness got.
    pub parked: BTreeSet<String>,
    markers: BTreeMap<String, String>,
    pub heard: Vec<Heard>,
    pub audited: Vec<Audited>,
    pub decisions: Vec<Decision>,
    pub asks: Vec<Ask>,
    pub fetches: Vec<Fetch>,
    pub settings: BTreeMap<String, Vec<(u64, Value)>>,
    pub grown: Vec<Grown>,
    /// Clearings of settings: the session, and when they were over.
    pub wiped: Vec<(String, u64)>,
    /// Calls whose hook was not answered, so that a record of them may be left.
    pub unanswered: BTreeSet<String>,
    /// Turns whose end the worker was not told, as `session/turn`.
    pub unnoticed: BTreeSet<String>,
    /// Turns whose end a worker has taken note of and not cleared up yet.
    pub unfinished: Vec<(String, u64)>,
    pub runs: u64,
    /// What happened, as one number: two runs that went alike have the same.
    pub course: u64,
}

impl History {
    pub fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    pub fn note(&self, say: impl FnOnce() -> String) {
        if self.tracing {
            println!("{:>6} {}", self.now, say());
        }
    }

    /// Folds an answered request into the course of this run: when, which, about what, and whether it worked. Ids that
    /// are new in every run stay out.
    pub fn went_on(&mut self, now_ms: i64, function: &str, data: &Value, worked: bool) {
        let about = ["scope", "key", "session_id"].map(|name| data[name].as_str().unwrap_or_default());
        for byte in format!("{now_ms} {function} {about:?} {worked}").bytes() {
            self.course = (self.course ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    pub fn violated(&mut self, what: String) {
        self.note(|| format!("VIOLATED {what}"));
        self.violations.push(what);
    }

    /// Something was written to the store.
    pub fn stored(&mut self, generation: u64, function: &str, data: &Value) {
        let now = self.tick();
        let key = data["key"].as_str().unwrap_or_default();
        self.note(|| format!("    applied g{generation} {function} {key} {}", data["value"]));
        match (function, data["scope"].as_str()) {
            ("state::set", Some("approval_pending")) => match StoredRow::read(&data["value"]) {
                StoredRow::Live(record) => {
                    let denied = |one: &Decision| one.row == key && !one.allow && one.end == End::Waiting;
                    let hold = Hold {
                        overtaken: self.decisions.iter().any(denied),
                        row: key.to_owned(),
                        record: (*record).clone(),
                        pending_at: record.pending_at,
                        filesystem: record.kind == PendingKind::FilesystemAccess,
                        generation,
                        written: now,
                    };
                    self.holds.entry(record.hold_id.unwrap_or_default()).or_insert(hold);
                }
                StoredRow::Resolved(marker) => {
                    self.markers.insert(marker.event_id, marker.hold_id);
                }
                _ => {}
            },
            ("state::set", Some("approval_settings")) => {
                self.settings.entry(key.to_owned()).or_default().push((now, data["value"].clone()));
            }
            ("state::delete", Some("approval_settings")) => {
                self.settings.entry(key.to_owned()).or_default().push((now, Value::Null));
            }
            _ => {}
        }
    }

    /// Which hold a created event that is being sent tells of: the one just written. Row and date alone do not say, since
    /// the wall clock stands still in virtual time, and an older hold that was taken back untold may have the same.
    pub fn told_of(&self, payload: &Value) -> Option<String> {
        let row = row_of(payload);
        let is_told = |hold: &&Hold| hold.row == row && payload["pending_at"] == hold.pending_at;
        let told = self.holds.iter().filter(|(_, hold)| is_told(hold));
        told.max_by_key(|(_, hold)| hold.written).map(|(id, _)| id.clone())
    }

    /// A listener got an event: a created one of `told`, or a resolved one.
    pub fn heard(&mut self, created: bool, told: Option<String>, payload: &Value) {
        self.tick();
        let text = |name: &str| payload[name].as_str().unwrap_or_default().to_owned();
        let event_id = text("event_id");
        let row = row_of(payload);
        let hold = if created { told } else { self.markers.get(&event_id).cloned() };
        self.note(|| format!("    heard created={created} {row} {hold:?} {event_id}"));
        self.heard.push(Heard { created, hold, row, event_id, outcome: text("outcome") });
    }

    /// The audit's listener got an entry.
    pub fn audited(&mut self, payload: &Value) {
        let text = |name: &str| payload[name].as_str().unwrap_or_default().to_owned();
        let asked = payload["entry"] == "asked";
        self.audited.push(Audited { asked, event_id: text("event_id"), outcome: text("outcome") });
    }

    /// The worker sends a decision to the harness: somebody made it, and no other one is known for the hold.
    pub fn decision_sent(
        &mut self,
        generation: u64,
        session: &str,
        call: &str,
        allow: bool,
        hold: Option<String>,
    ) -> Sent {
        self.tick();
        let row = format!("{session}/{call}");
        let ask = self.asks.iter_mut().find(|ask| {
            !ask.used
                && ask.allow == allow
                && (ask.session.as_str(), ask.call.as_str()) == (session, call)
                && ask.done.is_none_or(|(_, yes)| yes)
        });
        match ask {
            Some(ask) => ask.used = true,
            None => self.violated(format!("unmade-decision: a decision that nobody made was sent for {row}")),
        }
        if let Some(hold) = &hold {
            let earlier = self
                .decisions
                .iter()
                .find(|decision| decision.hold.as_ref() == Some(hold) && decision.end != End::Unanswered);
            if let Some(earlier) = earlier {
                let end = earlier.end;
                self.violated(format!(
                    "second-decision: a second decision was sent for {row}, the first was {end:?}"
                ));
            }
        }
        self.decisions.push(Decision { hold, generation, row, allow, took: false, end: End::Waiting });
        Sent::Decision(self.decisions.len() - 1)
    }

    pub fn fetch_sent(&mut self, generation: u64, link: u64) -> Sent {
        self.tick();
        self.fetches.push(Fetch { generation, link, delivered: None });
        Sent::Fetch(self.fetches.len() - 1)
    }

    pub fn answered(&mut self, sent: Option<Sent>, result: &Result<Answer, CallError>) {
        let now = self.tick();
        match (sent, result) {
            (Some(Sent::Decision(number)), result) => {
                let answered = result.is_ok();
                self.decisions[number].end = if answered { End::Answered } else { End::Unanswered };
            }
            (Some(Sent::Fetch(number)), Ok(answer)) => {
                let mut answer = answer.value().unwrap_or_default();
                self.fetches[number].delivered = Some((now, answer["value"].take()));
            }
            _ => {}
        }
    }

    /// The harness takes up a parked call.
    pub fn took(&mut self, about: &About, allow: bool) {
        self.tick();
        self.note(|| format!("    harness takes {about:?} allow={allow}"));
        let row = about.row();
        // The newest decision of this kind under the key is the one that arrived: there is one at a time.
        let mut decisions = self.decisions.iter_mut().rev();
        if let Some(decision) = decisions.find(|one| one.row == row && one.allow == allow) {
            decision.took = true;
        }
    }

    /// Whether a decision on this call is on its way or may still be sent.
    pub fn is_being_decided(&self, session: &str, call: &str) -> bool {
        let row = format!("{session}/{call}");
        self.decisions.iter().any(|decision| decision.row == row && decision.end == End::Waiting)
            || self.asks.iter().any(|ask| ask.session == session && ask.call == call && ask.done.is_none())
    }

    /// Whether the end of the turn was told to nobody, or to a worker that took it with it when it died.
    pub fn may_not_know(&self, turn: &str) -> bool {
        let unfinished = self.unfinished.iter().filter(|(unfinished, _)| unfinished == turn);
        self.unnoticed.contains(turn) || unfinished.into_iter().any(|(_, by)| self.dead.contains(by))
    }

    pub fn is_dead(&self, generation: u64) -> bool {
        self.dead.contains(&generation)
    }

    /// A worker died: what it sent has no answer.
    pub fn crashed(&mut self, generation: u64) {
        self.tick();
        self.crashes += 1;
        self.dead.insert(generation);
        for decision in self.decisions.iter_mut().filter(|one| one.generation == generation) {
            // An answer that led to nothing in the store is forgotten with the worker that got it.
            let ended = self.markers.values().any(|hold| decision.hold.as_ref() == Some(hold));
            if decision.end == End::Waiting || !ended {
                decision.end = End::Unanswered;
            }
        }
    }
}

fn row_of(payload: &Value) -> String {
    let text = |name: &str| payload[name].as_str().unwrap_or_default();
    format!("{}/{}", text("session_id"), text("function_call_id"))
}
