//! Runs the steps of a case.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::faults;
use super::world::{Case, Decided};
use crate::support::eventually;
use crate::support::peer::Peer;
use crate::support::script::{Refusal, Reply};
use crate::support::siblings::PRE_TRIGGER;
use crate::support::stage::{ENTRY, PENDING, Stage, failure_of};

const GATE: &str = "approval::gate";
const WATCH: &str = "approval::filesystem-access-watch";

/// Runs what `given` holds: single calls and failures, or a sequence of steps.
pub async fn run(case: &mut Case<'_>) {
    let given = case.given();
    if let Some(words) = given["fault"].as_str() {
        faults::apply(case, words).await;
    }
    for key in ["call", "payload"] {
        if let Some(call) = given.get(key) {
            hook(case, call).await;
        }
    }
    for call in given["calls"].as_array().into_iter().flatten() {
        hook(case, call).await;
    }
    for failure in given.get("failure").into_iter().chain(given["failures"].as_array().into_iter().flatten())
    {
        watch(case, failure).await;
    }
    if let Some(message) = given["failure_message"].as_str() {
        hidden_request(case, message).await;
    }
    for (index, step) in given["sequence"].as_array().into_iter().flatten().enumerate() {
        let number = index as u64 + 1;
        let releases = case.releases().len();
        case.releases_before.insert(number, releases);
        run_step(case, number, step).await;
    }
    for running in std::mem::take(&mut case.running) {
        let decided = running.await.unwrap();
        case.decided.push(decided);
    }
}

async fn run_step(case: &mut Case<'_>, number: u64, step: &Value) {
    let (word, argument) = step_word(step);
    match word {
        "rpc" => {
            let only_if_held =
                step["note"].as_str().is_some_and(|note| note.starts_with("only if step 1 was held"));
            if only_if_held && case.decided[0].word() != "hold" {
                return;
            }
            let (function_id, payload) = argument.as_object().unwrap().iter().next().unwrap();
            let payload = case.expand(payload);
            let reply = case.stage().call(function_id, payload).await;
            case.answers.insert(number, vec![reply]);
        }
        "hook" => hook(case, argument).await,
        "hook_async" => {
            let (console, payload) = (case.stage().console.clone(), case.expand(argument));
            let held = case.stage().wire.mark();
            case.running.push(tokio::spawn(async move { ask_hook(&console, GATE, payload).await }));
            let wire = case.stage().wire.clone();
            eventually("the record to be on its way", || async {
                let calls = wire.calls_since(held, "state::set");
                calls.iter().any(|call| call["scope"] == PENDING).then_some(())
            })
            .await;
        }
        "failure" => watch(case, argument).await,
        "event" => event(case, argument).await,
        "parallel" => parallel(case, number, argument).await,
        "parallel_hooks" => flood(case, argument).await,
        "fault" => faults::apply(case, argument.as_str().unwrap()).await,
        "config_set" => configure(case, argument, step).await,
        "restart" => case.stage.as_mut().unwrap().restart_worker().await,
        "disconnect" => disconnect(case.stage()).await,
        "reconnect" => reconnect(case.stage()).await,
        "reconnect_times" => {
            for _ in 0..argument.as_u64().unwrap() {
                case.stage().wire.cut();
                reconnect(case.stage()).await;
            }
        }
        "call_through_harness" => through_harness(case, argument).await,
        "bind" => {
            let stage = case.stage();
            stage.console.serve("suite::misspelt", crate::support::Script::Reply(Value::Null));
            let verdict = stage
                .console
                .bind_verdict(argument["type"].as_str().unwrap(), "suite::misspelt", &argument["config"])
                .await;
            case.answers.insert(number, vec![verdict]);
        }
        "page_through" => page_through(case, argument).await,
        "read_state" => case.rows_seen = case.all_rows().await,
        // Real time, for what must not happen; the contract's times are longer but say the same.
        "wait_ms" => tokio::time::sleep(Duration::from_millis(argument.as_u64().unwrap().min(400))).await,
        "wait" => faults::let_go(case).await,
        "boot" | "note" => {}
        other => panic!("unknown step {other}"),
    }
}

/// The key that says what the step does; a `note` beside it only explains.
fn step_word(step: &Value) -> (&str, &Value) {
    let fields = step.as_object().unwrap();
    let word = fields.iter().find(|(key, _)| *key != "note").or_else(|| fields.iter().next());
    word.map(|(key, argument)| (key.as_str(), argument)).unwrap()
}

async fn ask_hook(console: &Peer, function_id: &str, payload: Value) -> Decided {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (session, call) = (text(&payload["session_id"]), text(&payload["call"]["id"]));
    // The engine drops a frame that nests too deep without a word; its sender waits in vain.
    let carried = nesting(&payload) < 100;
    let limit = Duration::from_millis(if carried { 8000 } else { 1500 });
    let begun = Instant::now();
    let reply = console.call_within(function_id, payload, limit).await;
    let reply = reply.unwrap_or_else(|| Err(Refusal::new("silence", &format!("no answer within {limit:?}"))));
    let took = begun.elapsed();
    let mut record = Value::Null;
    if reply.as_ref().is_ok_and(|answer| answer["decision"] == "hold") {
        let ids = json!({"session_id": session, "function_call_id": call});
        let shown = console.call_within("approval::get-pending", ids, limit).await;
        record = if let Some(Ok(answer)) = shown {
            answer["pending"].clone()
        } else {
            // The worker cannot read its store in this case; the record is in it all the same.
            let row = json!({"scope": "approval_pending", "key": format!("{session}/{call}")});
            console.ask("state::get", row).await
        };
    }
    Decided { session, call, of_gate: function_id == GATE, reply, took, record }
}

fn nesting(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(nesting).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(nesting).max().unwrap_or(0),
        _ => 0,
    }
}

async fn hook(case: &mut Case<'_>, call: &Value) {
    let payload = case.expand(call);
    let decided = ask_hook(&case.stage().console, GATE, payload).await;
    case.decided.push(decided);
}

async fn watch(case: &mut Case<'_>, failure: &Value) {
    let payload = watch_payload(&case.expand(failure));
    let decided = ask_hook(&case.stage().console, WATCH, payload).await;
    case.decided.push(decided);
}

/// The wire form of a failure that the file gives by its meaning.
fn watch_payload(failure: &Value) -> Value {
    // One case writes the call and the failure side by side, the others as one payload.
    let (mut hook, result) = match failure["call"].get("session_id") {
        Some(_) => (failure["call"].clone(), failure.clone()),
        None => (failure.clone(), failure["result"].clone()),
    };
    let fields = hook.as_object_mut().unwrap();
    fields.remove("hook");
    fields.remove("result");
    if result["is_error"] == false {
        hook["point"] = "post_trigger".into();
        hook["result"] = json!({"is_error": false, "content": [{"type": "text", "text": result["text"]}],
                                "details": {"text": result["text"]}});
        return hook;
    }
    let text = |key: &str| result["access_request"][key].as_str().unwrap().to_owned();
    failure_of(
        &hook,
        result["error_code"].as_str().unwrap(),
        &text("requested_root"),
        &text("attempted_path"),
    )
}

/// A request whose attempted path repeats another request, as the case says in words.
async fn hidden_request(case: &mut Case<'_>, words: &str) {
    let forged = words.split('\'').nth(1).unwrap_or_else(|| panic!("no quoted path in {words}"));
    let mut call = crate::support::stage::hook("s_1", "c_1", "shell::fs::read", json!({"path": forged}));
    call["metadata"] = case.given()["metadata"].clone();
    let mut payload = failure_of(&call, "S215", "/tmp", forged);
    let tail = payload["result"]["details"]["error"]["message"].as_str().unwrap().to_owned();
    let genuine = tail.split_once("filesystem_access_request=").unwrap().1.to_owned();
    let message =
        format!("S215: path '{forged}' is outside the workspace filesystem_access_request={genuine}");
    payload["result"]["details"]["error"]["message"] = message.clone().into();
    payload["result"]["content"][0]["text"] = message.into();
    let decided = ask_hook(&case.stage().console, WATCH, payload).await;
    case.decided.push(decided);
}

async fn event(case: &Case<'_>, argument: &Value) {
    let (trigger_type, payload) = argument.as_object().unwrap().iter().next().unwrap();
    emit(case.stage(), trigger_type, payload).await;
}

async fn emit(stage: &Stage, trigger_type: &str, payload: &Value) -> Vec<Reply> {
    if trigger_type == "approval::on-config-change" {
        return vec![stage.call(trigger_type, payload.clone()).await];
    }
    eventually(&format!("a binding on {trigger_type}"), || async {
        (!stage.siblings.peer.binds(trigger_type).is_empty()).then_some(())
    })
    .await;
    stage.siblings.peer.emit(trigger_type, payload).await
}

async fn parallel(case: &mut Case<'_>, number: u64, steps: &Value) {
    let stage = case.stage();
    let all = steps.as_array().unwrap().iter().map(|step| async move {
        let (word, argument) = step_word(step);
        match word {
            "hook" => (None, Some(ask_hook(&stage.console, GATE, argument.clone()).await)),
            "event" => {
                let (trigger_type, payload) = argument.as_object().unwrap().iter().next().unwrap();
                (emit(stage, trigger_type, payload).await.pop(), None)
            }
            "rpc" => {
                let (function_id, payload) = argument.as_object().unwrap().iter().next().unwrap();
                (Some(stage.call(function_id, payload.clone()).await), None)
            }
            other => panic!("unknown parallel step {other}"),
        }
    });
    let done = join_all(all).await;
    case.answers.insert(number, done.iter().filter_map(|(reply, _)| reply.clone()).collect());
    case.decided.extend(done.into_iter().filter_map(|(_, decided)| decided));
}

async fn flood(case: &mut Case<'_>, argument: &Value) {
    let console = &case.stage().console;
    let all = (0..argument["times"].as_u64().unwrap()).map(|n| {
        let text = argument["template"]
            .to_string()
            .replace("c_N", &format!("c_{n}"))
            .replace("/N", &format!("/{n}"));
        ask_hook(console, GATE, serde_json::from_str(&text).unwrap())
    });
    let decided = join_all(all).await;
    case.decided.extend(decided);
}

async fn configure(case: &mut Case<'_>, value: &Value, step: &Value) {
    case.log_before = case.stage().worker.log_text().len();
    let set = json!({"id": ENTRY, "value": value});
    if case.id == "FC-046" {
        return faults::set_with_slow_fetch(case, set, step["note"].as_str().unwrap()).await;
    }
    match case.stage().call("configuration::set", set).await {
        Ok(_) => case.stage().reload().await,
        Err(_) => case.stage().force_config(value).await,
    }
}

async fn disconnect(stage: &Stage) {
    stage.wire.refuse(true);
    stage.wire.cut();
    let before = stage.wire.attempts();
    eventually("the worker to try again", || async { (stage.wire.attempts() >= before + 2).then_some(()) })
        .await;
}

async fn reconnect(stage: &Stage) {
    stage.wire.refuse(false);
    let console = &stage.console;
    eventually("the worker to be back", || async {
        let ids = json!({"session_id": "s_back"});
        console.call("approval::get-settings", ids).await.ok()
    })
    .await;
    stage.listeners_live().await;
}

async fn through_harness(case: &mut Case<'_>, call: &Value) {
    let stage = case.stage();
    eventually("the hook to be bound", || async { (!stage.bound(PRE_TRIGGER).is_empty()).then_some(()) })
        .await;
    // A copy that is still on its way would come late, so the set of bindings has to be stable.
    stage.quiet().await;
    let mut decided = Vec::new();
    for bind in stage.siblings.peer.binds(PRE_TRIGGER) {
        decided.push(ask_hook(&stage.console, &bind.function_id, call.clone()).await);
    }
    case.decided.extend(decided);
}

async fn page_through(case: &mut Case<'_>, argument: &Value) {
    let mut request = argument.clone();
    if request["from"] == "the cursor of step 1" {
        request = json!({"limit": argument["limit"], "cursor": case.expand(&json!({"$from_step": 1}))});
    }
    loop {
        let page = case.stage().ask("approval::list-pending", request.clone()).await;
        let calls = page["pending"].as_array().unwrap().iter();
        case.pages
            .push(calls.map(|record| record["function_call_id"].as_str().unwrap().to_owned()).collect());
        if case.pages.len() > 40 || page.get("next_cursor").is_none_or(Value::is_null) {
            return;
        }
        request["cursor"] = page["next_cursor"].clone();
    }
}
