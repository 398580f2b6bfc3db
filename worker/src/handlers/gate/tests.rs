#![allow(clippy::unwrap_used)]
use proptest::prelude::*;
use serde_json::{json, value::to_raw_value};

use super::*;
use crate::handlers::evaluate::evaluate;
use crate::iii::{Answer, CallError, Fire};
use crate::siblings::{BoxFuture, Engine, SharedEngine};
use crate::wire::evaluation::EvaluateVerdict;

/// A store with one session's settings, a configuration, and no other peer.
struct Peers {
    configuration: Value,
    settings: Value,
}

impl Engine for Peers {
    fn call<'a>(
        &'a self,
        function_id: &'a str,
        data: &'a Value,
        _: Deadline,
    ) -> BoxFuture<'a, Result<Answer, CallError>> {
        let value = match function_id {
            "configuration::get" => json!({"value": self.configuration}),
            "state::get" if data["scope"] == "approval_settings" => self.settings.clone(),
            "state::get" => Value::Null,
            "state::set" => json!({"old_value": null, "new_value": data["value"]}),
            _ => return Box::pin(async { Err(CallError::NotConnected) }),
        };
        Box::pin(async move { Ok(Answer::new(function_id, to_raw_value(&value).ok())) })
    }

    fn fire(&self, _: &Fire<'_>) -> Result<(), CallError> {
        Ok(())
    }

    fn connection(&self) -> u64 {
        1
    }
}

async fn context(configuration: Value, settings: Value) -> Arc<Context> {
    let engine: SharedEngine = Arc::new(Peers { configuration, settings });
    let context = Context::new(&engine);
    context.config.refetch().await.unwrap();
    context.settings.open_view(1);
    context
}

fn raw(value: &Value) -> Box<RawValue> {
    to_raw_value(value).unwrap()
}

fn payload(session_id: &str, call_id: &str, function_id: &str, arguments: &Value) -> Value {
    json!({"session_id": session_id, "turn_id": "t", "step": 1, "depth": 0,
           "call": {"id": call_id, "function_id": function_id, "arguments": arguments}})
}

fn full_mode() -> Value {
    json!({"mode": "full", "mode_set_at": 1, "approved_always": [], "always_allow": []})
}

#[tokio::test]
async fn given_settings_that_are_not_in_memory_then_the_short_cut_leaves_the_call_alone() {
    let context = context(json!({"rules": ["docs::*"]}), full_mode()).await;
    let call = raw(&payload("s", "c", "docs::read", &json!({})));
    assert!(!continues(&context, &call));
    assert_eq!(gate(Arc::clone(&context), call.clone()).await, HookOutput::Continue);
    assert!(continues(&context, &call));
    context.settings.look_again("s");
    assert!(!continues(&context, &call));
}

#[tokio::test]
async fn given_full_mode_then_no_short_cut_leads_past_a_human_only_door_or_a_bad_id() {
    let context = context(json!({}), full_mode()).await;
    gate(Arc::clone(&context), raw(&payload("s", "c", "docs::read", &json!({})))).await;
    let own = json!({"scope": "approval_settings", "key": "s", "value": {}});
    for (session_id, call_id, function_id, arguments) in [
        ("s", "c", "approval::resolve", json!({})),
        ("s", "c", "state::set", own.clone()),
        ("s", "c", "job::run", json!({"function_id": "state::set", "payload": own})),
        ("s", "", "docs::read", json!({})),
        ("s", "a/b", "docs::read", json!({})),
        ("s", "c", "docs::*", json!({})),
        ("s", "c", " docs::read", json!({})),
    ] {
        let call = raw(&payload(session_id, call_id, function_id, &arguments));
        assert!(!continues(&context, &call), "{}", call.get());
        assert!(matches!(gate(Arc::clone(&context), call).await, HookOutput::Deny { .. }));
    }
}

#[tokio::test]
async fn given_a_rule_that_looks_into_the_arguments_then_the_short_cut_looks_too() {
    let rules = json!([{"function": "docs::*", "action": "deny", "args": {"path": {"matches": "secret"}}}, "docs::*"]);
    let context = context(json!({"rules": rules}), Value::Null).await;
    gate(Arc::clone(&context), raw(&payload("s", "c", "docs::read", &json!({})))).await;
    for (path, expected) in [("notes", true), ("secret", false), ("s\u{65}cret", false)] {
        let call = raw(&payload("s", "c", "docs::read", &json!({"path": path})));
        assert_eq!(continues(&context, &call), expected, "{path}");
    }
    let escaped =
        raw(&payload("s", "c", "docs::read", &json!({"path": "PATH"}))).get().replace("PATH", r"s\u0065cret");
    assert!(!continues(&context, &RawValue::from_string(escaped).unwrap()));
}

#[tokio::test]
async fn given_a_described_call_with_an_escaped_key_then_the_short_cut_sees_through_it() {
    let context = context(json!({}), full_mode()).await;
    gate(Arc::clone(&context), raw(&payload("s", "c", "docs::read", &json!({})))).await;
    let described = payload("s", "c", "job::run", &json!({"KEY": "approval::set-mode"}));
    for key in ["function_id", r"f\u0075nction_id", r"\u0066unction"] {
        let call = RawValue::from_string(described.to_string().replace("KEY", key)).unwrap();
        assert!(!continues(&context, &call), "{key}");
        assert!(matches!(gate(Arc::clone(&context), call).await, HookOutput::Deny { .. }), "{key}");
    }
    assert!(continues(&context, &raw(&payload("s", "c", "job::run", &json!({"command": "ls"})))));
}

#[tokio::test]
async fn given_a_rule_of_the_session_s_own_then_the_short_cut_looks_into_the_arguments_for_it() {
    let rule = json!({"function": "docs::read", "args": {"path": {"matches": "^notes/"}}});
    let settings = json!({"approved_rules": [{"rule": rule, "granted_at": 1, "granted_by": "user_click"}]});
    let context = context(json!({"rules": []}), settings).await;
    gate(Arc::clone(&context), raw(&payload("s", "w", "docs::read", &json!({"path": "notes/a"})))).await;
    for (function_id, arguments, expected) in [
        ("docs::read", json!({"path": "notes/a"}), true),
        ("docs::read", json!({"path": "secret/notes/a"}), false),
        ("docs::read", json!("notes/a"), false),
        ("docs::write", json!({"path": "notes/a"}), false),
    ] {
        let call = raw(&payload("s", "c", function_id, &arguments));
        assert_eq!(continues(&context, &call), expected, "{}", call.get());
    }
}

#[tokio::test]
async fn given_nobody_is_asked_then_a_call_that_would_wait_is_denied_without_a_write() {
    let context = context(json!({"rules": ["docs::*"], "prompt_policy": "never"}), Value::Null).await;
    let mark = context.inbox.counts();
    let answer = gate(Arc::clone(&context), raw(&payload("s", "c", "shell::exec", &json!({})))).await;
    let HookOutput::Deny { reason } = answer else { panic!("{answer:?}") };
    assert!(reason.contains("prompts are disabled"), "{reason}");
    assert_eq!(context.inbox.counts(), mark);
    let allowed = gate(Arc::clone(&context), raw(&payload("s", "c", "docs::read", &json!({})))).await;
    assert_eq!(allowed, HookOutput::Continue);
}

fn settings() -> impl Strategy<Value = Value> {
    let lists =
        prop::collection::vec(prop::sample::select(&["docs::*", "docs::read", "shell::*", "*"][..]), 0..2);
    let entries = |ids: Vec<&str>, by: &str| -> Vec<Value> {
        ids.iter().map(|id| json!({"function_id": id, "granted_at": 1, "granted_by": by})).collect()
    };
    let by = prop::sample::select(&["user_click", "seed"][..]);
    let mode = prop::sample::select(&["manual", "auto", "full"][..]);
    let record = (mode, lists.clone(), lists, by).prop_map(move |(mode, always, approved, by)| {
        json!({"mode": mode, "mode_set_at": 1, "always_allow": entries(always, by),
               "approved_always": entries(approved, "user_click")})
    });
    let row = prop_oneof![4 => record, 2 => Just(json!({})), 1 => Just(json!({"mode": "wide open"}))];
    let added = (row, prompts(), approved_rules()).prop_map(|(mut row, prompts, rules)| {
        if let Some(prompts) = prompts {
            row["prompt_policy"] = prompts;
        }
        if !rules.is_empty() {
            row["approved_rules"] = json!(rules);
        }
        row
    });
    prop_oneof![6 => added, 1 => Just(Value::Null)]
}

fn prompts() -> impl Strategy<Value = Option<Value>> {
    prop::option::of(prop::sample::select(vec![
        json!("ask"),
        json!("never"),
        json!("never"),
        json!("later"),
        Value::Null,
    ]))
}

fn approved_rules() -> impl Strategy<Value = Vec<Value>> {
    let function =
        prop::sample::select(&["docs::read", "shell::exec", "state::set", "job::run", "shell::*"][..]);
    let test = prop::sample::select(vec![
        json!({"matches": "^a"}),
        json!({"equals": "b"}),
        json!({"equals": 1}),
        json!({"matches": "."}),
    ]);
    let rule = (function, test).prop_map(|(function, test)| {
        json!({"rule": {"function": function, "args": {"path": test}}, "granted_at": 1, "granted_by": "user_click"})
    });
    prop::collection::vec(rule, 0..3)
}

fn configuration() -> impl Strategy<Value = Value> {
    let rule = prop_oneof![
        prop::sample::select(&["docs::*", "!docs::read", "!shell::*", "*", "state::*"][..])
            .prop_map(|rule| json!(rule)),
        (prop::sample::select(&["docs::*", "shell::*", "*"][..]), any::<bool>()).prop_map(
            |(function, allows)| {
                let action = if allows { "allow" } else { "deny" };
                json!({"function": function, "action": action, "args": {"path": {"matches": "^a"}}})
            }
        ),
        Just(json!({"function": "docs::*", "action": "allow", "modes": ["auto"]})),
    ];
    let mode = prop::sample::select(&["manual", "auto", "full"][..]);
    let prompts = prop::sample::select(&["ask", "never"][..]);
    (prop::collection::vec(rule, 0..4), mode, prompts).prop_map(
        |(rules, mode, prompts)| json!({"default_mode": mode, "rules": rules, "prompt_policy": prompts}),
    )
}

fn call() -> impl Strategy<Value = Value> {
    let ids = prop::sample::select(
        &["docs::read", "shell::exec", "state::set", "state::get", "approval::resolve", "", "a b", "*"][..],
    );
    let arguments = prop::sample::select(vec![
        json!({}),
        json!({"path": "a"}),
        json!({"path": "b"}),
        json!({"path": 1}),
        json!("a"),
        Value::Null,
        json!({"scope": "approval_settings", "key": "s", "value": null}),
        json!({"function_id": "approval::set-mode"}),
        json!({"deep": {"er": [{"function": "configuration::set"}]}}),
    ]);
    let call_id = prop::sample::select(&["c", "c", "c", "", "a/b", "\u{1}"][..]);
    (ids, arguments, call_id).prop_map(|(id, arguments, call_id)| payload("s", call_id, id, &arguments))
}

proptest! {
    #[test]
    fn whatever_the_short_cut_lets_through_the_gate_lets_through_and_it_misses_none_in_memory(
        configuration in configuration(), settings in settings(), calls in prop::collection::vec(call(), 1..6),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let context = context(configuration, settings).await;
            // Brings the settings into memory.
            gate(Arc::clone(&context), raw(&payload("s", "first", "warm::up", &Value::Null))).await;
            for call in calls {
                let short = continues(&context, &raw(&call));
                let whole = gate(Arc::clone(&context), raw(&call)).await;
                assert_eq!(short, whole == HookOutput::Continue, "{call}");
            }
        });
    }
    #[test]
    fn what_evaluate_says_is_what_the_gate_answers(
        configuration in configuration(), settings in settings(), calls in prop::collection::vec(call(), 1..6),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let context = context(configuration, settings).await;
            for (number, mut call) in calls.into_iter().enumerate() {
                // An id that cannot key a hold is not evaluated, and a call that waits already is another question.
                call["call"]["id"] = json!(format!("c_{number}"));
                let answered = gate(Arc::clone(&context), raw(&call)).await;
                let asked = json!({"session_id": "s", "function_id": call["call"]["function_id"],
                                   "arguments": call["call"]["arguments"]});
                let evaluated = evaluate(Arc::clone(&context), decode(&raw(&asked)).unwrap()).await.unwrap();
                let evaluated = match (evaluated.verdict, evaluated.reason) {
                    (EvaluateVerdict::Allow, None) => HookOutput::Continue,
                    (EvaluateVerdict::NeedsApproval, None) => HookOutput::Hold,
                    (EvaluateVerdict::Deny, Some(reason)) => HookOutput::deny(reason),
                    other => panic!("{other:?}"),
                };
                assert_eq!(evaluated, answered, "{call}");
            }
        });
    }
}
