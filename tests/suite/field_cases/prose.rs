//! Keys of `then` whose meaning is written in words: each case's words, and the code that stands for them.

use serde_json::{Value, json};

use super::world::{Case, shown};
use crate::support::siblings::{GRANT, RESOLVE};
use crate::support::stage::ENTRY;
use crate::support::values::visible_text;
use crate::support::wait::eventually;
use crate::support::worker::is_at;

pub async fn check(case: &mut Case<'_>, key: &str, expected: &Value) {
    match (case.id, key) {
        (_, "operator_sees") => operator_sees(case).await,
        (_, "consistency") => consistency(case).await,
        (_, "release") => release(case, expected.as_str().unwrap()),
        (_, "excerpt") => excerpt(case),
        (_, "worker_alive_after") => {
            let answer = case.stage().call("approval::list-pending", json!({})).await;
            case.expect(answer.is_ok(), || shown(&answer));
        }
        // Page walks note what they collected; an error in them has failed the test already.
        ("FC-132", "no_error") | ("FC-133", "no_failure") => {}
        ("FC-131" | "FC-135", "each_exactly_once") => each_once(case),
        ("FC-026", "record_display") => {
            let shown = case.decisions_of("c_1")[0].record["function_id"].to_string();
            case.expect(!shown.contains('\u{200b}'), || format!("{shown} hides a character"));
        }
        ("FC-110", "record_display") => {
            let asked = case.decisions_of("c_1")[0].record["access_request"]["requested_root"].clone();
            let fits = asked == "/srv/secrets" || asked.as_str().is_some_and(|root| root.contains(".."));
            case.expect(fits, || format!("the record asks for {asked}"));
        }
        ("FC-041", "stored_after") => stored_after(case).await,
        // That the last good value is in force shows in the decision that follows; nothing is written.
        ("FC-045", "configuration_after") => {
            let writes = case.stage().wire.calls_since(case.boot_mark, "configuration::set").len();
            case.expect(writes == 0, || format!("the worker wrote its configuration {writes} times"));
        }
        ("FC-051", "settings_after") => {
            let answer = case.stage().ask("approval::get-settings", json!({"session_id": "s_1"})).await;
            let lists = [&answer["settings"]["approved_always"], &answer["settings"]["always_allow"]];
            case.expect(lists.iter().all(|list| **list == json!([])), || format!("{answer}"));
        }
        ("FC-066", "must_not_appear_in") => must_not_appear(case, expected),
        ("FC-081", "pending_at_after") => {
            let told = case.event_payloads()[0]["pending_at"].clone();
            let kept = case.pending().await[0]["pending_at"].clone();
            case.expect(told == kept, || format!("{kept} is stored, {told} was told"));
        }
        ("FC-095", "gate_invocations_for_the_call") => {
            let count = case.decided.len() as u64;
            case.expect(count == expected.as_u64().unwrap(), || format!("the harness asked {count} times"));
        }
        ("FC-105", "reason") => {
            let reason = case.decided[0].reply.as_ref().map(|answer| answer["reason"].to_string());
            let reason = reason.unwrap_or_default();
            case.expect(reason.contains("unavailable"), || format!("the reason is {reason}"));
        }
        ("FC-116", "harness_calls_in_order") => grant_before_release(case),
        ("FC-122", "never") => {
            let asked: Vec<_> = case
                .decided
                .iter()
                .map(|one| one.record["access_request"]["requested_root"].clone())
                .collect();
            case.expect(asked.iter().all(|root| root != "/"), || format!("asked for {asked:?}"));
        }
        (id, key) => case.problem(format!("no check for `{key}` of {id}")),
    }
}

async fn operator_sees(case: &Case<'_>) {
    // Each is what the words of the case name, as it stands in its configuration.
    let parts: &[&str] = match case.id {
        "FC-036" => &["shell::exec", "arg"],
        "FC-038" => &["0", "(rm|dd"],
        "FC-044" => &["1"],
        other => return case.problem(format!("no check for what the operator of {other} sees")),
    };
    let from = case.log_before;
    let worker = &case.stage().worker;
    let found = eventually("a line for the operator", || async {
        let log = worker.log_text();
        let mut loud = log
            .get(from..)
            .unwrap_or_default()
            .lines()
            .filter(|line| is_at(line, "ERROR") || is_at(line, "WARN"));
        loud.find(|line| parts.iter().all(|part| line.contains(part))).map(str::to_owned)
    });
    match tokio::time::timeout(std::time::Duration::from_secs(3), found).await {
        Ok(_) => {}
        Err(_) => case.problem(format!("no warning with {parts:?} in the log:\n{}", worker.log_text())),
    }
}

async fn consistency(case: &Case<'_>) {
    match case.id {
        "FC-084" => {
            let releases = case.releases();
            let events = case.events();
            let executed = releases.iter().any(|call| call["action"] == "execute");
            let allowed = events.iter().any(|event| event.ends_with(" allow"));
            case.expect(executed == allowed, || format!("{releases:?} and {events:?}"));
            let won = case.answers[&1]
                .iter()
                .filter(|reply| reply.as_ref().is_ok_and(|a| a["resolved"] == true))
                .count();
            case.expect(won == 1, || format!("{won} decisions took effect"));
        }
        "FC-089" => every_call_has_its_own_record(case).await,
        "FC-099" => created_and_resolved_or_neither(case).await,
        other => case.problem(format!("no check for the consistency of {other}")),
    }
}

async fn every_call_has_its_own_record(case: &Case<'_>) {
    let words = ["first", "second", "third", "fourth"];
    for (one, word) in case.decided.iter().zip(words) {
        if one.word() == "deny" {
            continue;
        }
        let ids = json!({"session_id": one.session, "function_call_id": one.call});
        let record = case.stage().ask("approval::get-pending", ids).await;
        let text = visible_text(&record["pending"]["arguments_excerpt"]);
        case.expect(text.contains(word), || format!("{}/{} shows {text}", one.session, one.call));
        for other in words.iter().filter(|other| **other != word) {
            case.expect(!text.contains(other), || format!("{}/{} shows {text}", one.session, one.call));
        }
    }
}

/// A record that the turn's end did not meet must be one that the next end, of the turn or the session, removes.
async fn created_and_resolved_or_neither(case: &Case<'_>) {
    if !case.pending().await.is_empty() {
        let turn = json!({"turn_id": "t_1", "session_id": "s_1"});
        case.stage().siblings.peer.emit("harness::turn-completed", &turn).await;
        case.stage().row_gone(crate::support::stage::PENDING, "s_1/c_1").await;
        case.stage().quiet().await;
    }
    let events = case.events();
    let both = ["pending-created s_1/c_1", "pending-resolved s_1/c_1 aborted"];
    case.expect(events.is_empty() || events == both, || format!("{events:?}"));
}

fn release(case: &Case<'_>, words: &str) {
    let releases = case.releases();
    let plain = json!({"function_call_id": "c_1", "action": "execute"});
    let [call] = releases.as_slice() else {
        return case.problem(format!("{} releases", releases.len()));
    };
    super::checks::same(case, "release", &plain, call);
    let one_shot = call.get("fs_scope").map(|scope| scope["grants"].clone());
    let wanted = words.contains("one-shot trust for /data/x").then(|| json!(["/data/x"]));
    case.expect(one_shot == wanted, || format!("one-shot trust is {one_shot:?}, expected {wanted:?}"));
}

fn grant_before_release(case: &Case<'_>) {
    let asked: Vec<_> = case
        .stage()
        .siblings
        .asked("s_1")
        .into_iter()
        .filter(|(function_id, _)| function_id == GRANT || function_id == RESOLVE)
        .collect();
    let order: Vec<&str> = asked.iter().map(|(function_id, _)| function_id.as_str()).collect();
    case.expect(order == [GRANT, RESOLVE], || format!("{order:?}"));
    if let [(_, grant), (_, release)] = asked.as_slice() {
        super::checks::same(case, "grant", &json!({"session_id": "s_1", "root": "/data/x"}), grant);
        super::checks::same(
            case,
            "release",
            &json!({"action": "execute", "function_call_id": "c_1"}),
            release,
        );
        case.expect(release.get("fs_scope").is_none(), || format!("{release}"));
    }
}

/// The cases about clipping and spoofing say in words what the excerpt looks like.
fn excerpt(case: &Case<'_>) {
    let text = |call: &str, key: &str| {
        let record = &case.decisions_of(call)[0].record;
        record["arguments_excerpt"][key].as_str().unwrap_or_default().to_owned()
    };
    let sent = |index: usize| case.expand(&case.given()["calls"][index]["call"]["arguments"]["text"]);
    match case.id {
        "FC-073" => {
            case.expect(sent(0) == text("c_1", "text").as_str(), || {
                "256 code points were changed".to_owned()
            });
            let clipped = text("c_2", "text");
            case.expect(clipped.chars().count() <= 256 && clipped.contains('…'), || clipped);
        }
        "FC-074" => {
            for (index, call) in ["c_1", "c_2", "c_3"].iter().enumerate() {
                case.expect(sent(index) == text(call, "text").as_str(), || format!("{call} was changed"));
            }
        }
        "FC-075" => {
            for call in ["c_1", "c_2"] {
                let clipped = text(call, "text");
                let fits =
                    clipped.chars().count() <= 256 && !clipped.contains('\u{fffd}') && !clipped.is_empty();
                case.expect(fits, || format!("{call}: {clipped}"));
            }
        }
        "FC-076" => {
            let command = text("c_1", "command");
            case.expect(command.ends_with("| sh") || command.contains('…'), || command);
        }
        other => case.problem(format!("no check for the excerpt of {other}")),
    }
}

async fn stored_after(case: &Case<'_>) {
    let stored =
        case.stage().ask("configuration::get", json!({"id": ENTRY, "raw": true})).await["value"].clone();
    let fits = match case.variant.as_str() {
        "omitted" => stored["default_mode"] == "manual" && stored["rules"] == json!(["!approval::*"]),
        _ => stored["rules"] == json!([]),
    };
    case.expect(fits, || format!("stored: {stored}"));
}

fn must_not_appear(case: &Case<'_>, expected: &Value) {
    let mut places = vec![("log", case.stage().worker.log_text())];
    places.extend(case.event_payloads().iter().map(|payload| ("event", visible_text(payload))));
    places.extend(case.answers.values().flatten().map(|reply| ("answer", shown(reply))));
    places.extend(case.rows_seen.iter().map(|row| ("row", visible_text(row))));
    places.extend(case.releases().iter().map(|call| ("denial", visible_text(call))));
    case.expect(case.rows_seen.len() == 1, || format!("{} rows were seen", case.rows_seen.len()));
    for secret in expected["strings"].as_array().unwrap().iter().map(|secret| secret.as_str().unwrap()) {
        for (place, text) in places.iter().filter(|(_, text)| text.contains(secret)) {
            case.problem(format!("`{secret}` in the {place}: {text}"));
        }
    }
}

fn each_once(case: &Case<'_>) {
    let mut collected: Vec<String> = case.pages.concat();
    let all = collected.len();
    collected.sort();
    collected.dedup();
    case.expect(collected.len() == all, || format!("{} of {all} rows are repeated", all - collected.len()));
}
