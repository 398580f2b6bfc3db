#![allow(clippy::unwrap_used)]
use std::collections::BTreeMap;
use std::sync::Mutex;

use futures_util::future::join_all;
use proptest::prelude::*;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::super::gate::gate;
use super::*;
use crate::events::Answerers;
use crate::iii::{Answer, Bind, Provider};
use crate::siblings::{BoxFuture, Engine, SharedEngine};

/// How one answerer behaves.
#[derive(Debug, Clone)]
enum Script {
    Says(Value),
    SaysAfter(u64, Value),
    Fails,
    Lost,
    Never,
}

/// A store, a configuration, and answerers by function id.
struct World {
    configuration: Mutex<Value>,
    rows: Mutex<BTreeMap<String, Value>>,
    scripts: Mutex<BTreeMap<String, Script>>,
    /// Function and payload of every question, in order, and how many are being answered.
    asked: Mutex<Vec<(String, Value)>>,
    fired: Mutex<Vec<String>>,
}

impl World {
    fn state(&self, function_id: &str, data: &Value) -> Value {
        let mut rows = self.rows.lock().unwrap();
        let place =
            format!("{} {}", data["scope"].as_str().unwrap(), data["key"].as_str().unwrap_or_default());
        match function_id {
            "state::list" => {
                let of_scope = rows.iter().filter(|(other, _)| other.starts_with(&place));
                of_scope.map(|(_, value)| value.clone()).collect()
            }
            "state::get" => rows.get(&place).cloned().unwrap_or_default(),
            "state::set" => json!({"old_value": rows.insert(place, data["value"].clone())}),
            _ => rows.remove(&place).unwrap_or_default(),
        }
    }

    fn asked_of(&self) -> Vec<String> {
        self.asked.lock().unwrap().iter().map(|(function_id, _)| function_id.clone()).collect()
    }

    fn held(&self) -> usize {
        let rows = self.rows.lock().unwrap();
        rows.keys().filter(|place| place.starts_with("approval_pending ")).count()
    }
}

impl Engine for World {
    fn call<'a>(
        &'a self,
        function_id: &'a str,
        data: &'a Value,
        deadline: Deadline,
    ) -> BoxFuture<'a, Result<Answer, CallError>> {
        let not_found = || CallError::Refused {
            function_id: function_id.to_owned(),
            code: "function_not_found".to_owned(),
            message: String::new(),
        };
        Box::pin(async move {
            let answer = |value: Value| Ok(Answer::new(function_id, to_raw_value(&value).ok()));
            if function_id == "configuration::get" {
                return answer(json!({"value": *self.configuration.lock().unwrap()}));
            }
            if function_id.starts_with("state::") {
                return answer(self.state(function_id, data));
            }
            let script = self.scripts.lock().unwrap().get(function_id).cloned();
            let Some(script) = script else { return Err(not_found()) };
            self.asked.lock().unwrap().push((function_id.to_owned(), data.clone()));
            match script {
                Script::Says(value) => answer(value),
                Script::SaysAfter(ms, value) => {
                    let waited = tokio::time::timeout_at(
                        deadline.instant(),
                        tokio::time::sleep(Duration::from_millis(ms)),
                    );
                    match waited.await {
                        Ok(()) => answer(value),
                        Err(_) => {
                            Err(CallError::Deadline { function_id: function_id.to_owned(), waited_ms: ms })
                        }
                    }
                }
                Script::Fails => Err(not_found()),
                Script::Lost => Err(CallError::ConnectionLost { function_id: function_id.to_owned() }),
                Script::Never => {
                    tokio::time::sleep_until(deadline.instant()).await;
                    Err(CallError::Deadline { function_id: function_id.to_owned(), waited_ms: 0 })
                }
            }
        })
    }

    fn fire(&self, event: &Fire<'_>) -> Result<(), CallError> {
        self.fired.lock().unwrap().push(event.function_id.to_owned());
        Ok(())
    }

    fn connection(&self) -> u64 {
        1
    }
}

async fn world(configuration: Value) -> (Arc<World>, Arc<Context>) {
    let world = Arc::new(World {
        configuration: Mutex::new(configuration),
        rows: Mutex::default(),
        scripts: Mutex::default(),
        asked: Mutex::default(),
        fired: Mutex::default(),
    });
    let engine: SharedEngine = Arc::clone(&world) as _;
    let context = Context::new(&engine);
    context.config.refetch().await.unwrap();
    (world, context)
}

fn bind(context: &Context, id: &str, config: Value) {
    let bind =
        Bind { id: id.into(), function_id: format!("f::{id}"), config, metadata: None, namespace: None };
    let answerers: &Answerers = context.events.answerers();
    answerers.bind(bind).unwrap();
}

/// Binds answerers under these ids, each with a script.
fn answerers(world: &World, context: &Context, scripts: &[(&str, Script)]) {
    for (id, script) in scripts {
        world.scripts.lock().unwrap().insert(format!("f::{id}"), script.clone());
        bind(context, id, Value::Null);
    }
}

fn payload(call_id: &str, function_id: &str) -> Box<RawValue> {
    let call =
        json!({"id": call_id, "function_id": function_id, "arguments": {"cmd": "ls", "api_key": "hunter2"}});
    to_raw_value(&json!({"session_id": "s", "turn_id": "t", "call": call})).unwrap()
}

async fn ask_gate(context: &Arc<Context>, call_id: &str) -> HookOutput {
    gate(Arc::clone(context), payload(call_id, "shell::exec")).await
}

fn says(decision: &str) -> Script {
    Script::Says(json!({"decision": decision}))
}

fn answerable() -> Value {
    json!({"rules": [], "answerable": ["shell::*"]})
}

#[tokio::test(start_paused = true)]
async fn given_answerers_then_they_are_asked_in_order_until_one_decides() {
    let (world, context) = world(answerable()).await;
    let deny = Script::Says(json!({"decision": "deny", "reason": "not\u{202e} today"}));
    answerers(
        &world,
        &context,
        &[("c", deny), ("a", says("pass")), ("b", says("pass")), ("d", says("allow"))],
    );
    let HookOutput::Deny { reason } = ask_gate(&context, "c_1").await else { panic!("not denied") };
    assert!(reason.contains("answerer `f::c`") && reason.contains(r"not\u{202e} today"), "{reason}");
    assert_eq!(world.asked_of(), ["f::a", "f::b", "f::c"]);
    assert_eq!(world.held(), 0);
}

#[tokio::test(start_paused = true)]
async fn given_a_question_then_it_is_the_redacted_record_and_how_long_there_is() {
    let (world, context) = world(answerable()).await;
    answerers(&world, &context, &[("a", says("allow"))]);
    assert_eq!(ask_gate(&context, "c_1").await, HookOutput::Continue);
    let question = world.asked.lock().unwrap()[0].1.clone();
    assert_eq!(question["deadline_ms"], 1_000);
    let record = &question["record"];
    assert_eq!((&record["status"], &record["function_call_id"]), (&json!("pending"), &json!("c_1")));
    assert!(record["pending_at"].as_i64().unwrap() > 0);
    assert_eq!(record["arguments_excerpt"], json!({"cmd": "ls", "api_key": "<redacted>"}));
    assert!(record.get("hold_id").is_none() && !question.to_string().contains("hunter2"));
}

#[tokio::test(start_paused = true)]
async fn an_allow_counts_only_for_what_is_answerable() {
    for (configuration, expected) in [
        (answerable(), HookOutput::Continue),
        (json!({"rules": [], "answerable": ["db::*", "shell::exe"]}), HookOutput::Hold),
        (json!({"rules": []}), HookOutput::Hold),
    ] {
        let (world, context) = world(configuration.clone()).await;
        answerers(&world, &context, &[("a", says("allow")), ("b", says("pass"))]);
        assert_eq!(ask_gate(&context, "c_1").await, expected, "{configuration}");
        assert_eq!(world.held(), usize::from(expected == HookOutput::Hold));
        let asked = if expected == HookOutput::Hold { vec!["f::a", "f::b"] } else { vec!["f::a"] };
        assert_eq!(world.asked_of(), asked, "whoever comes next may still deny");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_no_answer_is_a_pass() {
    for script in [
        Script::Says(Value::Null),
        Script::Says(json!("allow")),
        Script::Says(json!({"decision": "ALLOW"})),
        Script::Says(json!({"decision": "allow", "and": "more"})),
        Script::Says(json!({"decision": "allow", "reason": "x".repeat(20_000)})),
        Script::SaysAfter(1_001, json!({"decision": "allow"})),
        Script::Fails,
        Script::Never,
        says("pass"),
    ] {
        let (world, context) = world(answerable()).await;
        answerers(&world, &context, &[("a", script.clone())]);
        assert_eq!(ask_gate(&context, "c_1").await, HookOutput::Hold, "{script:?}");
        assert_eq!(world.held(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_row_of_silent_answerers_leaves_time_for_the_record() {
    let (world, context) = world(answerable()).await;
    for number in 0..20 {
        let id = format!("a_{number:02}");
        world.scripts.lock().unwrap().insert(format!("f::{id}"), Script::Never);
        bind(&context, &id, json!({"timeout_ms": 3_000}));
    }
    let began = Instant::now();
    assert_eq!(ask_gate(&context, "c_1").await, HookOutput::Hold);
    assert!(began.elapsed() < Duration::from_millis(2_800), "{:?}", began.elapsed());
    assert_eq!(world.asked_of(), ["f::a_00"], "the first one took all the time there was");
}

#[tokio::test(start_paused = true)]
async fn so_many_are_asked_and_no_more() {
    let (world, context) = world(answerable()).await;
    for number in 0..20 {
        let id = format!("a_{number:02}");
        world.scripts.lock().unwrap().insert(format!("f::{id}"), says("pass"));
        bind(&context, &id, Value::Null);
    }
    assert_eq!(ask_gate(&context, "c_1").await, HookOutput::Hold);
    assert_eq!(world.asked_of().len(), MAX_ASKED);
    assert_eq!(world.asked_of().last().unwrap(), "f::a_07");
}

#[tokio::test(start_paused = true)]
async fn given_a_floor_that_comes_while_an_answerer_thinks_then_the_floor_wins() {
    let denied = json!({"rules": [{"function": "shell::*", "action": "deny", "floor": true}],
        "answerable": ["shell::*"]});
    for (then, expected) in [
        (denied, "deny"),
        (json!({"rules": [], "answerable": []}), "hold"),
        (json!({"rules": ["shell::exec"]}), "continue"),
        (answerable(), "continue"),
    ] {
        let (world, context) = world(answerable()).await;
        answerers(&world, &context, &[("a", Script::SaysAfter(500, json!({"decision": "allow"})))]);
        let changed = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            *world.configuration.lock().unwrap() = then.clone();
            context.config.refetch().await.unwrap();
        };
        let (answer, ()) = tokio::join!(ask_gate(&context, "c_1"), changed);
        assert_eq!(serde_json::to_value(answer).unwrap()["decision"], expected, "{then}");
    }
}

#[tokio::test(start_paused = true)]
async fn given_a_lock_down_then_nobody_is_asked_and_an_allow_from_before_it_counts_for_nothing() {
    let (world, context) = world(answerable()).await;
    answerers(&world, &context, &[("a", Script::SaysAfter(500, json!({"decision": "allow"})))]);
    let locked = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        context.config.lock_down();
    };
    let (answer, ()) = tokio::join!(ask_gate(&context, "c_1"), locked);
    assert_eq!(answer, HookOutput::Hold);
    assert_eq!(ask_gate(&context, "c_2").await, HookOutput::Hold);
    assert_eq!(world.asked_of().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn given_a_binding_that_ends_or_changes_while_it_is_asked_then_its_answer_counts_for_nothing() {
    for replaced in [false, true] {
        for decision in ["allow", "deny"] {
            let (world, context) = world(answerable()).await;
            answerers(&world, &context, &[("a", Script::SaysAfter(500, json!({"decision": decision})))]);
            let ends = async {
                tokio::time::sleep(Duration::from_millis(100)).await;
                context.events.answerers().unbind("a");
                if replaced {
                    bind(&context, "a", json!({"session_id": "other"}));
                }
            };
            let (answer, ()) = tokio::join!(ask_gate(&context, "c_1"), ends);
            assert_eq!(answer, HookOutput::Hold, "{decision} {replaced}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn given_a_turn_that_ends_while_an_answerer_thinks_then_nothing_runs_and_nothing_waits() {
    for decision in ["allow", "pass"] {
        let (world, context) = world(answerable()).await;
        answerers(&world, &context, &[("a", Script::SaysAfter(500, json!({"decision": decision})))]);
        let ends = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            context.inbox.turn_ended(Some("s"), "t").await;
        };
        let (answer, ()) = tokio::join!(ask_gate(&context, "c_1"), ends);
        assert!(matches!(answer, HookOutput::Deny { .. }), "{decision}: {answer:?}");
        assert_eq!(world.held(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn given_a_connection_that_is_lost_while_an_answerer_thinks_then_nothing_comes_to_wait() {
    let (world, context) = world(answerable()).await;
    answerers(&world, &context, &[("a", Script::Lost), ("b", says("allow"))]);
    assert!(matches!(ask_gate(&context, "c_1").await, HookOutput::Deny { .. }));
    assert_eq!((world.asked_of().len(), world.held()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_already_is_the_person_s() {
    let (world, context) = world(answerable()).await;
    assert_eq!(ask_gate(&context, "c_1").await, HookOutput::Hold);
    answerers(&world, &context, &[("a", says("allow"))]);
    assert_eq!(ask_gate(&context, "c_1").await, HookOutput::Hold);
    assert!(world.asked_of().is_empty());
    let other = gate(Arc::clone(&context), payload("c_1", "shell::other")).await;
    assert_eq!(other, HookOutput::Continue, "another call under the same id is another question");
}

#[tokio::test(start_paused = true)]
async fn one_call_that_is_delivered_twice_is_asked_about_once_and_held_once() {
    let (world, context) = world(answerable()).await;
    answerers(&world, &context, &[("a", Script::SaysAfter(800, json!({"decision": "pass"})))]);
    let both = tokio::join!(ask_gate(&context, "c_1"), ask_gate(&context, "c_1"));
    assert_eq!(both, (HookOutput::Hold, HookOutput::Hold));
    assert_eq!((world.asked_of().len(), world.held()), (1, 1));
    assert!(context.asking.is_empty());
}

#[tokio::test(start_paused = true)]
async fn while_an_answerer_thinks_the_call_s_key_is_free() {
    let (world, context) = world(answerable()).await;
    answerers(&world, &context, &[("a", Script::Never)]);
    let resolved = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let began = Instant::now();
        let request = json!({"session_id": "s", "function_call_id": "c_1", "decision": "allow"});
        let request = serde_json::from_value(request).unwrap();
        let answer = super::super::resolve::resolve(Arc::clone(&context), None, request).await.unwrap();
        assert_eq!(serde_json::to_value(answer).unwrap()["resolved"], false);
        began.elapsed()
    };
    let (answer, took) = tokio::join!(ask_gate(&context, "c_1"), resolved);
    assert_eq!((answer, took), (HookOutput::Hold, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_slow_answerer_gathers_no_crowd() {
    let (world, context) = world(answerable()).await;
    answerers(&world, &context, &[("a", Script::Never)]);
    let ids: Vec<String> = (0..100).map(|number| format!("c_{number}")).collect();
    let began = Instant::now();
    let answers = join_all(ids.iter().map(|id| ask_gate(&context, id))).await;
    assert!(answers.iter().all(|answer| *answer == HookOutput::Hold));
    assert_eq!(world.asked_of().len(), 64);
    assert_eq!(began.elapsed(), Duration::from_secs(1));
    let answerer = context.events.answerers().candidates("s", "shell::exec").remove(0);
    let turns: Vec<_> = std::iter::from_fn(|| answerer.turn()).collect();
    assert_eq!(turns.len(), 64, "each turn ended with its question");
    assert!(context.asking.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_nobody_could_see_is_denied_only_where_the_configuration_says_so() {
    let listener = |config: Value| Bind {
        id: "l".into(),
        function_id: "f::l".into(),
        config,
        metadata: None,
        namespace: None,
    };
    for (require, known, listens, answers, expected) in [
        (true, true, None, false, "deny"),
        (true, true, Some(json!({"session_id": "other"})), false, "deny"),
        (true, true, Some(json!({"metadata": {"owner": "kim"}})), false, "deny"),
        (true, true, Some(json!({"session_id": "s"})), false, "hold"),
        (true, true, None, true, "hold"),
        (true, false, None, false, "hold"),
        (false, true, None, false, "hold"),
    ] {
        let (world, context) = world(json!({"rules": [], "require_listener": require})).await;
        if known {
            context.events.listeners_known();
        }
        if let Some(config) = listens.clone() {
            context.events.created_provider().bind(listener(config)).unwrap();
        }
        if answers {
            answerers(&world, &context, &[("a", says("pass"))]);
        }
        let answer = serde_json::to_value(ask_gate(&context, "c_1").await).unwrap();
        assert_eq!(answer["decision"], expected, "{require} {known} {listens:?} {answers}");
        assert_eq!(world.held(), usize::from(expected == "hold"));
        if expected == "deny" {
            assert!(answer["reason"].as_str().unwrap().starts_with("gate_unavailable: "), "{answer}");
        }
    }
}

fn script() -> impl Strategy<Value = Script> {
    prop_oneof![
        prop::sample::select(&["allow", "deny", "pass", "Allow", ""][..]).prop_map(says),
        (0..4_000_u64, prop::sample::select(&["allow", "deny", "pass"][..]))
            .prop_map(|(ms, decision)| Script::SaysAfter(ms, json!({"decision": decision}))),
        Just(Script::Fails),
        Just(Script::Never),
        Just(Script::Says(json!({"decision": "allow", "x": 1}))),
    ]
}

/// What an answerer says in time, if it is an answer at all.
fn plain(script: &Script, timeout: u64) -> Option<String> {
    let value = match script {
        Script::Says(value) => value,
        Script::SaysAfter(ms, value) if *ms <= timeout => value,
        _ => return None,
    };
    let word = value["decision"].as_str().filter(|word| ["allow", "deny"].contains(word))?;
    (value.as_object()?.len() == 1).then(|| word.to_owned())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn whatever_answerers_do_only_a_plain_allow_of_something_answerable_lets_a_call_run_and_all_of_it_is_in_time(
        scripts in prop::collection::vec((script(), 1..=3_000_u64), 0..12), is_answerable in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let marked: &[&str] = if is_answerable { &["shell::*"] } else { &[] };
            let (world, context) = world(json!({"rules": [], "answerable": marked})).await;
            for (number, (script, timeout)) in scripts.iter().enumerate() {
                let id = format!("a_{number:02}");
                world.scripts.lock().unwrap().insert(format!("f::{id}"), script.clone());
                bind(&context, &id, json!({"timeout_ms": timeout}));
            }
            let began = Instant::now();
            let answer = ask_gate(&context, "c_1").await;
            assert!(began.elapsed() < Duration::from_millis(2_800), "{:?}", began.elapsed());
            let plain: Vec<String> = scripts.iter().filter_map(|(script, timeout)| plain(script, *timeout)).collect();
            match answer {
                HookOutput::Continue => assert!(is_answerable && plain.contains(&"allow".to_owned())),
                HookOutput::Deny { .. } => assert!(plain.contains(&"deny".to_owned())),
                HookOutput::Hold => assert_eq!(world.held(), 1),
            }
            assert!(context.asking.is_empty());
        });
    }
}
