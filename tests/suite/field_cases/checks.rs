//! Checks each key of a case's `then`.

use std::time::Duration;

use serde_json::{Value, json};

use super::world::{Case, Decided, record_key, shown};
use super::{deliveries, phrases, prose};
use crate::support::siblings::GRANT;
use crate::support::values::{differences, short, visible_text};
use crate::support::wait::within;

/// The hook's own limit, which the harness enforces.
const HOOK_LIMIT: Duration = Duration::from_secs(5);

/// Checks everything; keys that need the world at rest see it so.
pub async fn check(case: &mut Case<'_>) {
    let then = case.case["then"].as_object().unwrap();
    settle(case, &case.case["then"]).await;
    for (key, expected) in then {
        check_one(case, key, expected).await;
    }
}

/// Waits for the events that are expected, and for quiet.
async fn settle(case: &Case<'_>, then: &Value) {
    let wanted =
        ["events", "events_any_order"].iter().filter_map(|key| then[*key].as_array()).map(Vec::len).sum();
    let _ = within(Duration::from_secs(4), || async { (case.events().len() >= wanted).then_some(()) }).await;
    case.stage().quiet().await;
}

async fn check_one(case: &mut Case<'_>, key: &str, expected: &Value) {
    if decisions(case, key, expected) || excerpts(case, key, expected) || harness(case, key, expected) {
        return;
    }
    match key {
        "responses" => phrases::responses(case, expected),
        "events" => same_list(case, key, &case.events(), &strings(expected)),
        "events_any_order" => same_list(case, key, &sorted(case.events()), &sorted(strings(expected))),
        "events_contain" => {
            let events = case.events();
            for event in strings(expected) {
                case.expect(events.contains(&event), || format!("no event `{event}` in {events:?}"));
            }
        }
        "pending_after" => pending_after(case, expected).await,
        "deliveries" => deliveries::check(case, expected).await,
        "answers_within" => within_limit(case, HOOK_LIMIT),
        "answers_within_ms" => within_limit(case, Duration::from_millis(expected.as_u64().unwrap())),
        "record" => {
            for (call, fields) in expected.as_object().unwrap() {
                let record = &case.decisions_of(call)[0].record;
                same(case, &format!("record of {call}"), fields, record);
            }
        }
        "record_kind" => same(case, key, expected, &case.decided[0].record["kind"]),
        "access_request" => same(case, key, expected, &case.decided[0].record["access_request"]),
        "collected" | "collected_after" => {
            let collected: Vec<String> = case.pages.concat();
            same_list(case, key, &collected, &strings(expected));
        }
        "pages_at_most" => {
            let pages = case.pages.len() as u64;
            case.expect(pages <= expected.as_u64().unwrap(), || format!("{pages} pages"));
        }
        "created_events" | "resolved_events" => count_events(case, key, expected),
        "records" => {
            let seen = case.pages.concat().len() as u64;
            case.expect(seen == expected.as_u64().unwrap(), || {
                format!("{seen} records, expected {expected}")
            });
        }
        "created_event_bytes_below" => {
            for payload in case.event_payloads() {
                let bytes = payload.to_string().len() as u64;
                case.expect(bytes < expected.as_u64().unwrap(), || format!("an event of {bytes} bytes"));
            }
        }
        _ => prose::check(case, key, expected).await,
    }
}

/// Keys about what the hooks answered.
fn decisions(case: &Case<'_>, key: &str, expected: &Value) -> bool {
    let all = || case.decided.iter();
    let words = |of: &dyn Fn(&Decided) -> bool| -> Vec<String> {
        all().filter(|d| of(d)).map(Decided::word).collect()
    };
    match key {
        "decision" => {
            case.expect(!case.decided.is_empty(), || "nothing was decided".to_owned());
            all().for_each(|one| is_one_of(case, one, std::slice::from_ref(expected)));
        }
        "decision_any_of" => all().for_each(|one| is_one_of(case, one, expected.as_array().unwrap())),
        "decision_not" => all().for_each(|one| is_not(case, one, expected)),
        "decisions" if expected.is_string() => all().for_each(|one| is_one_of(case, one, &[json!("hold")])),
        "decisions" => {
            per_call(case, expected, |one, wanted| is_one_of(case, one, std::slice::from_ref(wanted)))
        }
        "decision_not_for" => per_call(case, expected, |one, wanted| is_not(case, one, wanted)),
        "decision_any_of_for" => {
            per_call(case, expected, |one, wanted| is_one_of(case, one, wanted.as_array().unwrap()))
        }
        "decisions_by_session" => {
            for (session, wanted) in expected.as_object().unwrap() {
                for one in all().filter(|one| one.session == *session) {
                    is_one_of(case, one, std::slice::from_ref(wanted));
                }
            }
        }
        "decisions_per_step" | "decisions_per_hook" => {
            same_list(case, key, &words(&|one| one.of_gate), &strings(expected));
        }
        "decisions_per_failure" => same_list(case, key, &words(&|one| !one.of_gate), &strings(expected)),
        "reason_contains" => {
            for one in all() {
                let reason =
                    one.reply.as_ref().map(|answer| answer["reason"].to_string()).unwrap_or_default();
                case.expect(reason.contains(expected.as_str().unwrap()), || {
                    format!("the reason is {reason}")
                });
            }
        }
        _ => return false,
    }
    true
}

fn per_call(case: &Case<'_>, expected: &Value, check: impl Fn(&Decided, &Value)) {
    for (call, wanted) in expected.as_object().unwrap() {
        let decided = case.decisions_of(call);
        case.expect(!decided.is_empty(), || format!("{call} was never decided"));
        for one in decided {
            check(one, wanted);
        }
    }
}

fn is_one_of(case: &Case<'_>, one: &Decided, wanted: &[Value]) {
    let word = one.word();
    case.expect(wanted.iter().any(|wanted| *wanted == word.as_str()), || {
        format!("{}: expected {wanted:?}, got {}", one.call, shown(&one.reply))
    });
}

fn is_not(case: &Case<'_>, one: &Decided, unwanted: &Value) {
    case.expect(one.word() != unwanted.as_str().unwrap(), || format!("{}: got {unwanted}", one.call));
}

/// Keys about what the records show of the arguments.
fn excerpts(case: &Case<'_>, key: &str, expected: &Value) -> bool {
    let text_of = |call: Option<&str>| -> String {
        let of = case.decided.iter().filter(|one| call.is_none_or(|call| one.call == call));
        of.map(|one| visible_text(&one.record["arguments_excerpt"])).collect()
    };
    let check = |text: &str, parts: &Value, wanted: bool| {
        for part in parts.as_array().unwrap() {
            let part = case.expand(part).as_str().unwrap().to_owned();
            case.expect(text.contains(&part) == wanted, || {
                format!("{key}: `{part}` and the excerpt is {}", short(&text.into()))
            });
        }
    };
    match key {
        "excerpt_must_contain" => check(&text_of(None), expected, true),
        "excerpt_must_not_contain" => {
            check(&text_of(None), expected, false);
            let told: String = case.event_payloads().iter().map(visible_text).collect();
            check(&told, expected, false);
        }
        "excerpt_must_contain_for" | "excerpt_must_not_contain_for" => {
            for (call, parts) in expected.as_object().unwrap() {
                check(&text_of(Some(call)), parts, key == "excerpt_must_contain_for");
            }
        }
        "if_hold" => {
            let held = case.decided.iter().any(|one| one.word() == "hold");
            for (inner, value) in expected.as_object().into_iter().flatten().filter(|_| held) {
                match inner.as_str() {
                    "access_request.requested_root" => {
                        same(case, inner, value, &case.decided[0].record["access_request"]["requested_root"]);
                    }
                    "excerpt_must_contain" => check(&text_of(None), value, true),
                    other => case.problem(format!("unknown key if_hold.{other}")),
                }
            }
        }
        _ => return false,
    }
    true
}

/// Keys about what the harness was asked.
fn harness(case: &Case<'_>, key: &str, expected: &Value) -> bool {
    let releases = case.releases();
    let count = |got: usize| {
        case.expect(got as u64 == expected.as_u64().unwrap(), || {
            format!("{key}: {got}, expected {expected}: {}", short(&releases.clone().into()))
        });
    };
    match key {
        "harness_resolve_calls" | "harness_resolve_calls_total" => count(releases.len()),
        "harness_resolve_calls_before_step_3" => count(case.releases_before[&3]),
        "harness_execute_calls" => count(releases.iter().filter(|call| call["action"] == "execute").count()),
        "successful_releases" => count(releases.len() - case.releases_while_broken),
        "harness_grant_calls" => count(case.stage().siblings.peer.heard_by(GRANT).len()),
        "configuration_writes" => {
            count(case.stage().wire.calls_since(case.boot_mark, "configuration::set").len())
        }
        "harness_call" => {
            case.expect(releases.len() == 1, || format!("{} calls of the harness", releases.len()));
            same(case, key, expected, releases.first().unwrap_or(&Value::Null));
        }
        "denial_text_contains" => {
            let text =
                releases.first().map(|call| call["content"][0]["text"].to_string()).unwrap_or_default();
            for part in strings(expected) {
                case.expect(text.contains(&part), || format!("the denial's text is {text}"));
            }
        }
        _ => return false,
    }
    true
}

async fn pending_after(case: &Case<'_>, expected: &Value) {
    // A description in parentheses may follow the key.
    let wanted: Vec<(String, String)> = strings(expected)
        .iter()
        .map(|entry| {
            entry
                .split_once(' ')
                .map_or((entry.clone(), String::new()), |(key, rest)| (key.into(), rest.into()))
        })
        .collect();
    let keys = sorted(wanted.iter().map(|(key, _)| key.clone()).collect());
    let settled =
        within(Duration::from_secs(3), || async { (case.pending_keys().await == keys).then_some(()) }).await;
    case.expect(settled.is_some(), || format!("pending_after: expected {keys:?}"));
    if settled.is_none() {
        let got = case.pending_keys().await;
        case.problem(format!("pending_after: got {got:?}"));
    }
    for record in case.pending().await {
        let described =
            wanted.iter().find(|(key, _)| *key == record_key(&record)).map_or("", |(_, rest)| rest);
        let parts = described.trim_matches(['(', ')']).split(", ").filter(|part| !part.is_empty());
        for part in parts {
            let text = part.strip_prefix("turn ").unwrap_or(part);
            case.expect(visible_text(&record).contains(text), || format!("{record} does not show {text}"));
        }
    }
}

fn count_events(case: &Case<'_>, key: &str, expected: &Value) {
    let word = if key == "created_events" { "pending-created" } else { "pending-resolved" };
    let events = case.events();
    let mut of: Vec<_> = events.iter().filter(|event| event.starts_with(word)).collect();
    of.sort();
    of.dedup();
    let all = events.iter().filter(|event| event.starts_with(word)).count() as u64;
    case.expect(all == expected.as_u64().unwrap(), || format!("{all} {key}, expected {expected}"));
    case.expect(of.len() as u64 == all, || format!("{key}: some came twice"));
}

fn within_limit(case: &Case<'_>, limit: Duration) {
    for one in &case.decided {
        case.expect(one.took < limit, || format!("{} took {:?}", one.call, one.took));
    }
}

pub fn same(case: &Case<'_>, what: &str, expected: &Value, got: &Value) {
    for difference in differences(expected, got) {
        case.problem(format!("{what}{difference}"));
    }
}

fn same_list(case: &Case<'_>, what: &str, got: &[String], wanted: &[String]) {
    case.expect(got == wanted, || format!("{what}: expected {wanted:?}, got {got:?}"));
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(|item| item.as_str().unwrap().to_owned()).collect()
}

fn sorted(mut list: Vec<String>) -> Vec<String> {
    list.sort();
    list
}
