//! `responses`: by step as fields, as call ids, or as a phrase; an unknown phrase fails the case.

use serde_json::Value;

use super::checks::same;
use super::world::{Case, shown};
use crate::support::script::Reply;

pub fn responses(case: &Case<'_>, expected: &Value) {
    if let Some(phrase) = expected.as_str() {
        return all_answers(case, phrase);
    }
    for (step, wanted) in expected.as_object().unwrap() {
        let number: u64 = step.parse().unwrap();
        let Some([reply]) = case.answers.get(&number).map(Vec::as_slice) else {
            case.problem(format!("step {step} has no single answer"));
            continue;
        };
        match wanted {
            Value::String(phrase) => {
                let ok = one_answer(case, number, phrase, reply);
                case.expect(ok, || format!("step {step}: expected `{phrase}`, got {}", shown(reply)));
            }
            Value::Array(calls) => {
                let got = calls_in(reply);
                let wanted: Vec<&str> = calls.iter().map(|call| call.as_str().unwrap()).collect();
                case.expect(got == wanted, || format!("step {step}: expected {wanted:?}, got {got:?}"));
            }
            fields => answer_fields(case, number, fields, reply),
        }
    }
}

fn answer_fields(case: &Case<'_>, step: u64, fields: &Value, reply: &Reply) {
    let Ok(answer) = reply else {
        case.problem(format!("step {step}: got {}", shown(reply)));
        return;
    };
    let mut plain = fields.clone();
    let listed = plain.as_object_mut().unwrap().remove("always_allow_contains");
    same(case, &format!("step {step}"), &plain, answer);
    for entry in listed.iter().flat_map(|list| list.as_array().unwrap()) {
        let list = answer["settings"]["always_allow"].as_array().cloned().unwrap_or_default();
        let there = list.iter().any(|got| crate::support::values::differences(entry, got).is_empty());
        case.expect(there, || format!("step {step}: no {entry} in {list:?}"));
    }
}

/// Phrases about all answers together.
fn all_answers(case: &Case<'_>, phrase: &str) {
    let mut steps: Vec<_> = case.answers.iter().collect();
    steps.sort_by_key(|(step, _)| **step);
    let answers: Vec<&Reply> = steps.into_iter().flat_map(|(_, replies)| replies).collect();
    let resolved =
        |reply: &Reply, wanted: bool| reply.as_ref().is_ok_and(|answer| answer["resolved"] == wanted);
    let holds = match phrase {
        "one resolved:true, one resolved:false" => {
            let yes = answers.iter().filter(|reply| resolved(reply, true)).count();
            let no = answers.iter().filter(|reply| resolved(reply, false)).count();
            (yes, no) == (1, 1)
        }
        "resolved:false each time" => answers.iter().all(|reply| resolved(reply, false)),
        "both are refused with a message that names the field" => {
            let fields = ["metdata", "tenant"];
            answers.len() == 2
                && answers.iter().zip(fields).all(|(reply, field)| {
                    reply.as_ref().is_err_and(|refusal| refusal.message.contains(field))
                })
        }
        "an input error, or the first page; never a crash, a timeout or another filter's rows" => {
            answers.iter().all(|reply| is_input_error(reply) || calls_in(reply) == ["c_1"])
        }
        other => return case.problem(format!("unknown phrase `{other}`")),
    };
    case.expect(holds, || {
        let got: Vec<_> = answers.iter().map(|reply| shown(reply)).collect();
        format!("expected `{phrase}`, got {got:?}")
    });
}

fn is_input_error(reply: &Reply) -> bool {
    reply.as_ref().is_err_and(|refusal| {
        refusal.code == "approval/invalid_payload"
            && refusal.message.starts_with("approval/invalid_payload: ")
    })
}

fn calls_in(reply: &Reply) -> Vec<&str> {
    let pending = reply.as_ref().ok().and_then(|answer| answer["pending"].as_array());
    pending.into_iter().flatten().map(|record| record["function_call_id"].as_str().unwrap_or("?")).collect()
}

/// Phrases about one answer.
fn one_answer(case: &Case<'_>, step: u64, phrase: &str, reply: &Reply) -> bool {
    let none = Value::Null;
    let answer = reply.as_ref().unwrap_or(&none);
    let pending = &answer["pending"];
    let calls = calls_in(reply);
    let settings = &answer["settings"];
    let lists = |list: &str, id: &str| {
        let entries = settings[list].as_array().into_iter().flatten();
        entries.filter(|entry| entry["function_id"] == id).count()
    };
    let cursor = answer["next_cursor"].is_string();
    match phrase {
        "an error" => reply.is_err(),
        "input error" => is_input_error(reply),
        "input error that names session_id" => {
            is_input_error(reply)
                && reply.as_ref().is_err_and(|refusal| refusal.message.contains("session_id"))
        }
        "input error or resolved:false" => is_input_error(reply) || answer["resolved"] == false,
        "the record is still there" | "still waiting" => pending["function_call_id"].is_string(),
        "c_8 is still waiting" => pending["function_call_id"] == "c_8",
        "one entry" => lists("always_allow", "web::fetch") == 1,
        "no entry" | "no entry, no error" => settings.is_object() && lists("always_allow", "web::fetch") == 0,
        "web::fetch still in always_allow" => lists("always_allow", "web::fetch") == 1,
        "mode auto, a::one and b::two in always_allow, c::three in approved_always, every time" => {
            settings["mode"] == "auto"
                && lists("always_allow", "a::one") == 1
                && lists("always_allow", "b::two") == 1
                && lists("approved_always", "c::three") == 1
        }
        "c_held still listed" => calls == ["c_held"],
        "c_1 with its original pending_at and excerpt" => {
            let first = &case.decided[0].record;
            calls == ["c_1"]
                && pending[0]["pending_at"] == first["pending_at"]
                && pending[0]["arguments_excerpt"] == first["arguments_excerpt"]
        }
        "c_1 then c_2, complete records" => {
            calls == ["c_1", "c_2"]
                && pending.as_array().unwrap().iter().all(|record| {
                    ["turn_id", "session_id", "function_id", "kind"]
                        .iter()
                        .all(|key| record[*key].is_string())
                })
        }
        "c_1, without title or metadata" => calls == ["c_1"] && is_bare(&pending[0]),
        "record without title and metadata" => is_bare(pending),
        "only c_2" => calls == ["c_2"],
        "empty" => reply.is_ok() && calls.is_empty(),
        "three records, each with its own url" => {
            let mut urls: Vec<_> = pending
                .as_array()
                .into_iter()
                .flatten()
                .map(|r| r["arguments_excerpt"]["url"].to_string())
                .collect();
            urls.sort();
            urls.dedup();
            urls.len() == 3
        }
        "settings" => settings.is_object(),
        "50 rows and a cursor" => calls.len() == 50 && cursor,
        "1 row and a cursor" => calls.len() == 1 && cursor,
        "60 rows, or the largest page the contract allows, no row twice" => {
            let mut unique = calls.clone();
            unique.sort_unstable();
            unique.dedup();
            unique.len() == 60
        }
        "no failure" => reply.is_ok(),
        "no failure, and paging with it does not go on for ever" => {
            // Clamped to 1: each page moves on by one row.
            reply.is_ok() && calls.len() == 1 && cursor
        }
        "no record of t_1 stays for ever" => true,
        other => {
            case.problem(format!("unknown phrase `{other}` in step {step}"));
            true
        }
    }
}

fn is_bare(record: &Value) -> bool {
    let absent = |key: &str| record.get(key).is_none_or(Value::is_null);
    record["function_call_id"] == "c_1"
        && ["session_title", "session_description", "session_metadata"].iter().all(|key| absent(key))
}
