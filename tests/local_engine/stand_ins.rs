//! The stand-in harness, shell and session manager, with a hook that is told what to answer.

#![allow(clippy::unwrap_used)]

use approval_gate::local::{Engine, EngineOptions};
use serde_json::{Value, json};

use super::wire::Client;

const PRE: &str = "harness::hook::pre-trigger";
const POST: &str = "harness::hook::post-trigger";
const WATCH: &str = "approval::filesystem-access-watch";
const TRIGGER: &str = "harness::function::trigger";
const RESOLVE: &str = "harness::function::resolve";

struct Stage {
    engine: Engine,
    /// The worker with the hooks.
    hooks: Client,
    /// Plays the agent and the person.
    agent: Client,
}

async fn stage() -> Stage {
    let options = EngineOptions { harness: true, session_manager: true, ..EngineOptions::default() };
    let engine = Engine::start(options).await.unwrap();
    let hooks = Client::worker(engine.address(), "hooks").await;
    let agent = Client::worker(engine.address(), "agent").await;
    Stage { engine, hooks, agent }
}

impl Stage {
    async fn hook(&mut self, id: &str, point: &str, function_id: &str, config: Value) {
        self.hooks.function(function_id).await;
        self.hooks.bind(id, point, function_id, config).await;
    }

    async fn trigger(&mut self, function_id: &str, arguments: Value) -> String {
        let call = json!({ "session_id": "s", "turn_id": "t", "metadata": { "fs_scope": { "root": "/jail/app" } },
            "call": { "id": "c", "function_id": function_id, "arguments": arguments } });
        self.agent.start(TRIGGER, call).await
    }

    async fn resolve(&mut self, more: Value) -> String {
        let mut request = json!({ "session_id": "s", "turn_id": "t", "function_call_id": "c" });
        request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.agent.start(RESOLVE, request).await
    }

    async fn ask(&mut self, function_id: &str, answer: Value) -> Value {
        let question = self.hooks.invoked(function_id).await;
        self.hooks.reply(&question, answer).await;
        question["data"].clone()
    }

    async fn result(&mut self) -> Value {
        let question = json!({ "session_id": "s", "function_call_id": "c" });
        self.agent.call("harness::function::result", question).await.unwrap()
    }
}

#[tokio::test]
async fn given_hooks_that_continue_when_a_call_is_triggered_then_both_points_are_asked_in_the_documented_shape()
 {
    let mut stage = stage().await;
    stage.hook("pre", PRE, "h::pre", json!({ "functions": ["shell::*"] })).await;
    stage.hook("post", POST, "h::post", Value::Null).await;
    let id = stage.trigger("shell::exec", json!({ "command": "ls", "fs_scope": "mine" })).await;
    let mut asked = stage.ask("h::pre", json!({ "decision": "contineu" })).await;
    let caller = asked.as_object_mut().unwrap().remove("_caller_worker_id").unwrap();
    assert!(caller.is_string(), "the harness is a worker like any other");
    assert_eq!(
        asked,
        json!({ "point": "pre_trigger", "session_id": "s", "turn_id": "t", "step": 1, "depth": 0,
            "metadata": { "fs_scope": { "root": "/jail/app" } },
            "call": { "id": "c", "function_id": "shell::exec",
                      "arguments": { "command": "ls", "fs_scope": "mine" } } })
    );
    let asked = stage.ask("h::post", Value::Null).await;
    assert_eq!((&asked["point"], &asked["result"]["is_error"]), (&json!("post_trigger"), &json!(false)));
    assert_eq!(asked["result"]["details"]["exit_code"], 0);
    let done = stage.agent.answer(&id).await.unwrap();
    assert_eq!((&done["status"], &done["result"]), (&json!("done"), &asked["result"]));
}

#[tokio::test]
async fn given_several_hooks_when_asked_then_priority_and_id_order_them_and_the_first_objection_wins() {
    let mut stage = stage().await;
    stage.hook("1", PRE, "h::b", json!({ "priority": 5 })).await;
    stage.hook("2", PRE, "h::a", json!({ "priority": 5 })).await;
    stage.hook("3", PRE, "h::first", json!({ "priority": -1 })).await;
    let id = stage.trigger("shell::exec", json!({ "command": "ls" })).await;
    stage
        .ask(
            "h::first",
            json!({ "decision": "continue", "mutations": { "arguments": { "command": "pwd" } } }),
        )
        .await;
    let asked = stage.ask("h::a", json!({ "decision": "deny", "reason": "no" })).await;
    assert_eq!(asked["call"]["arguments"], json!({ "command": "pwd" }));
    let denied = stage.agent.answer(&id).await.unwrap();
    assert_eq!((&denied["status"], &denied["reason"]), (&json!("denied"), &json!("no")));
    assert!(stage.hooks.left_over().await.is_empty(), "h::b is not asked any more");
    assert_eq!(stage.engine.counts().invocations.get("shell::exec"), None);
}

#[tokio::test]
async fn given_a_hook_that_does_not_answer_when_its_budget_ends_then_closed_denies_and_open_goes_on() {
    let mut stage = stage().await;
    stage.hook("open", PRE, "h::open", json!({ "timeout_ms": 30, "on_error": "fail_open" })).await;
    stage.hook("closed", PRE, "h::shut", json!({ "timeout_ms": 30 })).await;
    let id = stage.trigger("shell::exec", json!({})).await;
    stage.hooks.invoked("h::open").await;
    let denied = stage.agent.answer(&id).await.unwrap();
    assert_eq!(denied["status"], "denied");
    assert!(denied["reason"].as_str().unwrap().contains("h::shut"), "{denied}");
}

#[tokio::test]
async fn given_a_held_call_when_executed_then_the_target_runs_inside_and_the_post_hook_is_asked_before_the_reply()
 {
    let mut stage = stage().await;
    stage.hook("pre", PRE, "h::gate", Value::Null).await;
    stage.hook("behind", PRE, "h::second", Value::Null).await;
    stage.hook("post", POST, "h::post", Value::Null).await;
    let id = stage.trigger("shell::exec", json!({ "command": "ls" })).await;
    stage.ask("h::gate", json!({ "decision": "hold" })).await;
    let held = stage.agent.answer(&id).await.unwrap();
    assert_eq!((&held["status"], &held["held_by"]), (&json!("pending"), &json!("h::gate")));
    let status = stage.agent.call("harness::status", json!({ "session_id": "s" })).await.unwrap();
    assert_eq!(
        (&status["status"], &status["pending_function_calls"]),
        (&json!("awaiting_functions"), &json!(["c"]))
    );

    let first = stage.resolve(json!({ "action": "execute" })).await;
    stage.ask("h::second", json!({ "decision": "continue" })).await;
    let asked = stage.hooks.invoked("h::post").await;
    let second = stage.resolve(json!({ "action": "execute" })).await;
    assert!(stage.agent.left_over().await.is_empty(), "both wait for the post hook");
    stage.hooks.reply(&asked, Value::Null).await;
    let resolved = stage.agent.answer(&first).await.unwrap();
    assert_eq!(resolved, json!({ "resolved": true, "turn_resumed": true }));
    let late = stage.agent.answer(&second).await.unwrap();
    assert_eq!(late, json!({ "resolved": false, "turn_resumed": false }));
    assert_eq!(stage.result().await["status"], "done");
    assert_eq!(stage.engine.counts().invocations["shell::exec"], 1);
    assert!(stage.hooks.left_over().await.is_empty(), "the holder is not asked again");
}

#[tokio::test]
async fn given_a_held_call_when_a_result_is_delivered_then_nothing_runs_and_the_result_is_what_was_delivered()
{
    let mut stage = stage().await;
    stage.hook("pre", PRE, "h::gate", Value::Null).await;
    let id = stage.trigger("shell::exec", json!({})).await;
    stage.ask("h::gate", json!({ "decision": "hold" })).await;
    stage.agent.answer(&id).await.unwrap();
    let unknown = stage.resolve(json!({ "action": "run" })).await;
    assert!(
        stage.agent.answer(&unknown).await.unwrap_err()["message"]
            .as_str()
            .unwrap()
            .contains("unknown resolve action")
    );
    let content = json!([{ "type": "text", "text": "no" }]);
    let deny = stage
        .resolve(json!({ "is_error": true, "content": content, "details": { "status": "denied" } }))
        .await;
    assert_eq!(stage.agent.answer(&deny).await.unwrap()["turn_resumed"], true);
    let result = stage.result().await["result"].clone();
    assert_eq!((&result["content"], &result["details"]["status"]), (&content, &json!("denied")));
    assert_eq!(stage.engine.counts().invocations.get("shell::exec"), None);
}

#[tokio::test]
async fn given_a_path_outside_the_jail_when_the_watch_holds_then_a_grant_lets_the_released_call_pass() {
    let mut stage = stage().await;
    stage.hook("watch", POST, WATCH, json!({ "functions": ["shell::*"], "on_error": "fail_open" })).await;
    let id = stage.trigger("shell::fs::read", json!({ "path": "/data/x.csv" })).await;
    let asked = stage.ask(WATCH, json!({ "decision": "hold" })).await;
    let error = &asked["result"]["details"]["error"];
    assert_eq!(error["code"], "S215");
    let message = error["message"].as_str().unwrap();
    assert!(
        message.starts_with("shell::fs::read: remote error (S215): path escapes the fs jail roots"),
        "{message}"
    );
    let tail = r#" filesystem_access_request={"v":1,"requested_root":"/data","attempted_path":"/data/x.csv","error_code":"S215"}"#;
    assert!(message.ends_with(tail), "{message}");
    assert_eq!(stage.agent.answer(&id).await.unwrap()["held_by"], WATCH);

    // Released without a grant it fails again and is parked again: the reply says so.
    let again = stage.resolve(json!({ "action": "execute" })).await;
    stage.ask(WATCH, json!({ "decision": "hold" })).await;
    let reparked = stage.agent.answer(&again).await.unwrap();
    assert_eq!(reparked, json!({ "resolved": true, "turn_resumed": false }));

    let once = stage.resolve(json!({ "action": "execute", "fs_scope": { "grants": ["/data"] } })).await;
    let asked = stage.ask(WATCH, json!({ "decision": "continue" })).await;
    assert_eq!(asked["result"]["is_error"], false);
    assert_eq!(stage.agent.answer(&once).await.unwrap()["turn_resumed"], true);

    for (function, root, roots) in [
        ("grant", "/opt", json!(["/opt"])),
        ("grant", "/data", json!(["/data", "/opt"])),
        ("grant", "/data", json!(["/data", "/opt"])),
        ("revoke", "/opt", json!(["/data"])),
        ("revoke", "/data/", json!(["/data"])),
    ] {
        let request = json!({ "session_id": "s", "root": root });
        let answer = stage.agent.call(&format!("harness::filesystem::{function}"), request).await.unwrap();
        assert_eq!(answer, json!({ "session_id": "s", "roots": roots }));
    }
    let id = stage.trigger("shell::fs::read", json!({ "path": "../../data/y" })).await;
    let asked = stage.ask(WATCH, Value::Null).await;
    assert_eq!(asked["result"]["is_error"], false, "the durable grant reaches it: {asked}");
    stage.agent.answer(&id).await.unwrap();
    let info = stage.agent.call("harness::filesystem::info", json!({})).await.unwrap();
    assert_eq!(info, json!({ "default_root": null, "boundary": "workspace" }));
}

#[tokio::test]
async fn given_a_parked_call_when_the_turn_is_stopped_then_listeners_hear_and_it_cannot_be_resolved() {
    let mut stage = stage().await;
    stage.hook("pre", PRE, "h::gate", Value::Null).await;
    stage.hooks.function("h::over").await;
    stage.hooks.bind("over", "harness::turn-completed", "h::over", json!({ "session_id": "s" })).await;
    let unknown_key = json!({ "session": "s" });
    stage.hooks.bind("bad", "harness::turn-completed", "h::over", unknown_key).await;
    stage.hooks.find("a refusal", |frame| frame["id"] == "bad" && frame.get("error").is_some()).await;
    let id = stage.trigger("shell::exec", json!({})).await;
    stage.ask("h::gate", json!({ "decision": "hold" })).await;
    stage.agent.answer(&id).await.unwrap();
    let stopped = stage.agent.call("harness::stop", json!({ "session_id": "s" })).await.unwrap();
    assert_eq!(stopped["stopped"], true);
    let event = stage.hooks.invoked("h::over").await["data"].clone();
    assert_eq!(
        (&event["session_id"], &event["turn_id"], &event["status"], &event["terminal"]),
        (&json!("s"), &json!("t"), &json!("cancelled"), &json!(true))
    );
    let late = stage.resolve(json!({ "action": "execute" })).await;
    assert_eq!(stage.agent.answer(&late).await.unwrap()["resolved"], false);
}

#[tokio::test]
async fn given_sessions_when_one_is_deleted_then_those_hear_whose_config_fits() {
    let mut stage = stage().await;
    stage.hooks.function("h::mine").await;
    stage.hooks.function("h::others").await;
    stage.hooks.bind("mine", "session::deleted", "h::mine", json!({ "metadata": { "owner": "u1" } })).await;
    stage
        .hooks
        .bind("others", "session::deleted", "h::others", json!({ "metadata": { "owner": "u2" } }))
        .await;
    let create = json!({ "session_id": "s", "title": "T", "metadata": { "owner": "u1", "more": 1 } });
    stage.agent.call("session::create", create).await.unwrap();
    let got = stage.agent.call("session::get", json!({ "session_id": "s" })).await.unwrap();
    assert_eq!((&got["meta"]["title"], &got["meta"]["metadata"]["owner"]), (&json!("T"), &json!("u1")));
    stage.agent.call("session::delete", json!({ "session_id": "s" })).await.unwrap();
    assert_eq!(stage.hooks.invoked("h::mine").await["data"]["session_id"], "s");
    assert_eq!(stage.agent.call("session::get", json!({ "session_id": "s" })).await.unwrap(), Value::Null);
    assert!(stage.hooks.left_over().await.is_empty());
}

#[tokio::test]
async fn given_a_parked_call_when_triggered_again_then_only_a_redelivery_asks_the_hook_once_more() {
    let mut stage = stage().await;
    stage.hook("pre", PRE, "h::gate", Value::Null).await;
    let id = stage.trigger("shell::exec", json!({ "command": "ls" })).await;
    let first = stage.ask("h::gate", json!({ "decision": "hold" })).await;
    stage.agent.answer(&id).await.unwrap();
    let again = stage.trigger("shell::exec", json!({ "command": "ls" })).await;
    assert_eq!(stage.agent.answer(&again).await.unwrap()["status"], "pending");
    assert!(stage.hooks.left_over().await.is_empty(), "a parked call is not dispatched again");
    let call = json!({ "session_id": "s", "turn_id": "t", "redeliver": true,
        "call": { "id": "c", "function_id": "shell::exec", "arguments": { "command": "ls" } } });
    let redelivered = stage.agent.start(TRIGGER, call).await;
    assert_eq!(stage.ask("h::gate", json!({ "decision": "hold" })).await, first, "the same question");
    assert_eq!(stage.agent.answer(&redelivered).await.unwrap()["held_by"], "h::gate");
}
