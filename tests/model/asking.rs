//! Calls into the worker: hooks, notices, people. And whether the gate's `continue` was anybody's to give.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use tokio::time::Instant;

use approval_gate::iii::Invocation;
use approval_gate::policy::settings::Settings;
use approval_gate::policy::{Decision, Policy, Question, decide};
use approval_gate::wire::record::StoredRow;
use approval_gate::wire::settings::StoredSettings;

use crate::harness::About;
use crate::history::{Ask, Grown, History};
use crate::link::Reply;
use crate::world::{Inner, World};

/// What the harness makes of a hook's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookAnswer {
    Continue,
    Hold,
    /// Denied, or not answered.
    Stop,
}

/// The hook's budget in the harness.
const HOOK: Duration = Duration::from_secs(5);
/// What the gate promises of it, and the coarseness of timers.
const GATE: Duration = Duration::from_millis(4_500 + 5);
/// When a person's client gives up.
const CLIENT: Duration = Duration::from_secs(30);

/// How a call into the worker went, as the caller sees it.
struct Asked {
    reply: Option<Reply>,
    generation: u64,
    link: u64,
    began: u64,
    ended: u64,
    took: Duration,
}

async fn ask(world: &Arc<World>, function: &str, payload: Value, budget: Duration) -> Asked {
    let nobody = Asked { reply: None, generation: 0, link: 0, began: 0, ended: 0, took: Duration::ZERO };
    let deadline = Instant::now() + budget;
    let Some((worker, link)) = world.serving() else { return nobody };
    let transit = world.inner().faults.ms("inbound", 3);
    let arrival = link.receives(transit);
    tokio::time::sleep_until(arrival).await;
    if link.lost() {
        return nobody;
    }
    world.inner().history.note(|| format!("asks {function} {payload}"));
    let (handler, invocation) = (
        worker.handler(function),
        Invocation { function_id: function.into(), data: to_raw_value(&payload).unwrap(), metadata: None },
    );
    let (generation, number, clock) = (worker.engine.generation, link.number, Arc::clone(world));
    drop(worker);
    let task = tokio::spawn(async move {
        let (began, started) = (clock.inner().history.tick(), Instant::now());
        let reply = handler(invocation).await;
        let ended = clock.inner().history.tick();
        let reply = reply.map(|data| serde_json::from_str(data.get()).unwrap_or_default());
        Asked { reply: Some(reply), generation, link: number, began, ended, took: started.elapsed() }
    });
    let asked = tokio::select! {
        biased;
        () = link.gone() => return nobody,
        asked = tokio::time::timeout_at(deadline, task) => asked,
    };
    let Ok(asked) = asked else { return nobody };
    let Ok(asked) = asked else {
        world.inner().history.violated(format!("panic: {function} panicked"));
        return nobody;
    };
    world.pause("outbound", 3).await;
    world.inner().history.note(|| format!("answer of {function}: {:?} lost={}", asked.reply, link.lost()));
    if link.lost() { nobody } else { asked }
}

/// The call parks for the hold that stands under its key.
fn parked(inner: &mut Inner, about: &About) {
    let row = inner.store.row("approval_pending", &about.row());
    let hold_id = row["hold_id"].as_str().unwrap_or_default();
    if StoredRow::read(&row).live().is_some_and(|record| about.is_held_by(&record)) {
        inner.history.parked.insert(hold_id.to_owned());
    }
}

fn hook_answer(reply: &Reply) -> HookAnswer {
    match reply.as_ref().ok().and_then(|reply| reply["decision"].as_str()) {
        Some("continue") => HookAnswer::Continue,
        Some("hold") => HookAnswer::Hold,
        _ => HookAnswer::Stop,
    }
}

/// The hook before a call.
pub async fn gate(world: &Arc<World>, about: &About, payload: Value) -> HookAnswer {
    let asked = ask(world, "approval::gate", payload, HOOK).await;
    let mut inner = world.inner();
    let Some(reply) = &asked.reply else {
        inner.history.unanswered.insert(about.digest());
        return HookAnswer::Stop;
    };
    if asked.took > GATE {
        inner.history.violated(format!("slow-hook: the gate took {:?}", asked.took));
    }
    let answer = hook_answer(reply);
    if answer == HookAnswer::Hold {
        parked(&mut inner, about);
    }
    if answer == HookAnswer::Continue {
        inner.history.runs += 1;
        if !may_run(&inner.history, &asked, about) {
            inner
                .history
                .violated(format!("unallowed-run: nobody allowed {about:?} and the gate let it run"));
        }
    }
    answer
}

/// The hook after a call.
pub async fn watch(world: &Arc<World>, about: &About, payload: Value) -> HookAnswer {
    let asked = ask(world, "approval::filesystem-access-watch", payload, HOOK).await;
    let Some(reply) = &asked.reply else {
        world.inner().history.unanswered.insert(about.digest());
        return HookAnswer::Continue;
    };
    if asked.took > GATE {
        world.inner().history.violated(format!("slow-hook: the watch took {:?}", asked.took));
    }
    let answer = hook_answer(reply);
    if answer == HookAnswer::Hold {
        parked(&mut world.inner(), about);
    }
    answer
}

/// Whether some policy and some settings that were in force while the gate thought about it let the call run, or a
/// person did.
fn may_run(history: &History, asked: &Asked, about: &About) -> bool {
    let held = history.holds.values().any(|hold| about.is_held_by(&hold.record));
    let allowed = history.asks.iter().any(|ask| {
        ask.allow
            && ask.session == about.session
            && ask.call == about.call
            && ask.done.is_none_or(|(at, yes)| yes || at > asked.began)
    });
    if held && allowed {
        return true;
    }
    let question = Question { function_id: &about.function, arguments: &about.arguments };
    let settings = stored_settings(history, asked, &about.session);
    policies(history, asked).iter().any(|policy| {
        let defaults = [policy.default_settings(0), Settings::fail_closed()];
        let known = settings.iter().filter_map(Option::as_ref);
        let absent = settings.iter().any(Option::is_none);
        let defaults = defaults.iter().skip(usize::from(!absent));
        known
            .chain(defaults)
            .any(|settings| decide(&question, settings, policy).decision == Decision::Continue)
    })
}

/// What stood in the store at any moment of the handler's work; `None` is no record.
fn stored_settings(history: &History, asked: &Asked, session: &str) -> Vec<Option<Settings>> {
    let rows = history.settings.get(session).map(Vec::as_slice).unwrap_or_default();
    let before = rows.iter().rev().find(|(at, _)| *at < asked.began).map_or(&Value::Null, |(_, value)| value);
    let during = rows.iter().filter(|(at, _)| (asked.began..=asked.ended).contains(at));
    let values = std::iter::once(before).chain(during.map(|(_, value)| value));
    values
        .map(|value| match StoredSettings::read(value) {
            StoredSettings::Record(settings) => Some(settings),
            _ => None,
        })
        .collect()
}

/// What may have been in force: the newest valid value fetched before, if anything was fetched on this connection,
/// and whatever was fetched meanwhile.
fn policies(history: &History, asked: &Asked) -> Vec<Policy> {
    let delivered = history.fetches.iter().filter(|fetch| fetch.generation == asked.generation);
    let delivered: Vec<_> = delivered
        .filter_map(|fetch| fetch.delivered.as_ref().map(|(at, value)| (fetch.link, *at, value)))
        .collect();
    let fetched = delivered.iter().any(|(link, at, _)| *link == asked.link && *at < asked.ended);
    if !fetched {
        return Vec::new();
    }
    let valid = |(_, at, value): &(u64, u64, &Value)| Some((*at, Policy::from_value(value).ok()?));
    let mut valid: Vec<_> = delivered.iter().filter_map(valid).collect();
    let before = valid.iter().rposition(|(at, _)| *at < asked.began);
    let mut number = 0;
    valid.retain(|(at, _)| {
        number += 1;
        before == Some(number - 1) || (asked.began..=asked.ended).contains(at)
    });
    valid.into_iter().map(|(_, policy)| policy).collect()
}

/// A person decides.
pub async fn decision(world: Arc<World>, session: String, call: String, allow: bool, duration: usize) {
    let mut payload = json!({"session_id": session, "function_call_id": call,
        "decision": if allow { "allow" } else { "deny" }});
    if let Some(duration) = [None, Some("once"), Some("session"), Some("always")][duration] {
        payload["access_duration"] = json!(duration);
    }
    let number = {
        let mut inner = world.inner();
        inner.history.asks.push(Ask { session, call, allow, used: false, done: None });
        inner.history.asks.len() - 1
    };
    let asked = ask(&world, "approval::resolve", payload, CLIENT).await;
    let mut inner = world.inner();
    if let Some(reply) = asked.reply {
        let yes = reply.is_ok_and(|reply| reply["resolved"] == true);
        inner.history.asks[number].done = Some((asked.ended, yes));
    }
}

/// One change that adds a function to a list.
pub async fn grow(world: Arc<World>, session: String, function: String, list: &'static str) {
    let payload = json!({"session_id": session, "function_id": function});
    let asked = ask(&world, list, payload, CLIENT).await;
    if let Some(Ok(_)) = asked.reply {
        world.inner().history.grown.push(Grown { session, function, began: asked.began });
    }
}

pub async fn set_mode(world: Arc<World>, session: String, mode: &'static str) {
    ask(&world, "approval::set-mode", json!({"session_id": session, "mode": mode}), CLIENT).await;
}

pub async fn clear_settings(world: Arc<World>, session: String) {
    let payload = json!({"session_id": session});
    let asked = ask(&world, "approval::clear-settings", payload, CLIENT).await;
    wiped(&world, session, &asked);
}

/// Until when a clearing may have taken effect: until its answer, or for ever if there was none.
fn wiped(world: &World, session: String, asked: &Asked) {
    let done =
        asked.reply.as_ref().is_some_and(|reply| reply.as_ref().is_ok_and(|reply| reply["ok"] != false));
    world.inner().history.wiped.push((session, if done { asked.ended } else { u64::MAX }));
}

pub async fn session_deleted(world: &Arc<World>, session: &str, turn: &str) {
    let payload = json!({"session_id": session});
    let asked = ask(world, "approval::on-session-deleted", payload, CLIENT).await;
    noticed(world, session, turn, &asked);
    wiped(world, session.to_owned(), &asked);
}

pub async fn turn_completed(world: &Arc<World>, session: &str, turn: &str, names_session: bool) {
    let mut payload = json!({"turn_id": turn, "status": "completed", "terminal": false});
    if names_session {
        payload["session_id"] = json!(session);
    }
    let asked = ask(world, "approval::on-turn-completed", payload, CLIENT).await;
    noticed(world, session, turn, &asked);
}

/// The harness does not tell an ending twice: one that the worker did not answer may have left records.
fn noticed(world: &World, session: &str, turn: &str, asked: &Asked) {
    let (turn, mut inner) = (format!("{session}/{turn}"), world.inner());
    match &asked.reply {
        Some(Ok(reply)) if reply["ok"] == true => {}
        Some(_) => inner.history.unfinished.push((turn, asked.generation)),
        None => drop(inner.history.unnoticed.insert(turn)),
    }
}

pub async fn config_changed(world: Arc<World>) {
    ask(&world, "approval::on-config-change", json!({"id": "approval-gate"}), CLIENT).await;
}
