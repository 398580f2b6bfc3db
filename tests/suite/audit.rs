//! The audit trail: what its listeners and its log are told, once for each hold and its end.

use serde_json::{Value, json};

use crate::support::peer::Peer;
use crate::support::siblings::RESOLVE;
use crate::support::stage::{ENTRY, PENDING, StageOptions, failure, hook};
use crate::support::worker::{Worker, command};
use crate::support::{Script, Stage, eventually};

const AUDIT: &str = "approval::audit";
const ON_AUDIT: &str = "suite::on-audit";

async fn listen(peer: &Peer, config: &Value) {
    peer.serve(ON_AUDIT, Script::Reply(Value::Null));
    peer.bind_live(AUDIT, AUDIT, ON_AUDIT, config).await;
}

async fn audited() -> Stage {
    let stage = Stage::start().await;
    listen(&stage.console, &json!({})).await;
    stage
}

async fn heard(stage: &Stage, count: usize) -> Vec<Value> {
    let entries = eventually(&format!("{count} audit entries"), || async {
        let heard = stage.console.heard_by(ON_AUDIT);
        (heard.len() >= count).then_some(heard)
    })
    .await;
    stage.quiet().await;
    assert_eq!(stage.console.heard_by(ON_AUDIT).len(), count, "{entries:?}");
    entries
}

/// The entries as the worker wrote them, in order: `asked c_1`, `decided c_1 allow human`.
fn written(stage: &Stage) -> Vec<String> {
    let frames = stage.wire.written_since(0).into_iter();
    let entries =
        frames.filter(|frame| frame["type"] == "invokefunction" && frame["function_id"] == ON_AUDIT);
    let words = |entry: &Value| {
        let fields = ["entry", "function_call_id", "outcome", "surface"];
        fields.iter().filter_map(|field| entry[*field].as_str()).collect::<Vec<_>>().join(" ")
    };
    entries.map(|frame| words(&frame["data"])).collect()
}

fn decide(call: &str, word: &str) -> Value {
    json!({"session_id": "s", "function_call_id": call, "decision": word, "reason": "not on prod",
        "_caller_worker_id": "somebody-else", "caller": "somebody-else"})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_is_asked_and_decided_with_one_id_and_an_attested_caller() {
    let stage = audited().await;
    stage.gate("s", "c_1", "shell::exec", json!({"command": "ls", "token": "hunter2"})).await;
    let digest = stage.ask("approval::list-pending", json!({})).await["pending"][0]["digest"].clone();
    stage.ask("approval::resolve", decide("c_1", "deny")).await;

    let entries = heard(&stage, 2).await;

    assert_eq!(written(&stage), ["asked c_1", "decided c_1 deny human"]);
    let id = stage.events()[1].payload["event_id"].clone();
    assert!(id.is_string());
    for entry in &entries {
        assert_eq!(entry["event_id"], id);
        assert_eq!(entry["digest"], digest);
        for (field, value) in
            [("session_id", "s"), ("turn_id", "t_1"), ("function_id", "shell::exec"), ("kind", "function")]
        {
            assert_eq!(entry[field], value, "{entry}");
        }
        assert!(!entry.to_string().contains("hunter2") && !entry.to_string().contains("ls"), "{entry}");
    }
    let decided = entries.iter().find(|entry| entry["entry"] == "decided").unwrap();
    assert_eq!(decided["reason"], "not on prod");
    let caller = decided["caller"].as_str().unwrap();
    assert!(uuid::Uuid::parse_str(caller).is_ok(), "{decided}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_connections_that_decide_are_told_apart() {
    let stage = audited().await;
    let other = Peer::connect(&stage.engine.url()).await;
    for call in ["c_1", "c_2", "c_3"] {
        stage.gate("s", call, "f::x", json!({})).await;
    }
    stage.ask("approval::resolve", decide("c_1", "allow")).await;
    stage.ask("approval::resolve", decide("c_2", "deny")).await;
    other.ask("approval::resolve", decide("c_3", "allow")).await;
    let entries = heard(&stage, 6).await;
    let caller = |call: &str| {
        let of_call = |entry: &&Value| entry["entry"] == "decided" && entry["function_call_id"] == call;
        entries.iter().find(of_call).unwrap()["caller"].clone()
    };
    assert_eq!(caller("c_1"), caller("c_2"));
    assert_ne!(caller("c_1"), caller("c_3"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_way_in_which_a_hold_ends_is_told_after_it_was_asked() {
    let stage = audited().await;
    stage.gate("s", "c_1", "f::x", json!({"n": 1})).await;
    stage.gate("s", "c_1", "f::x", json!({"n": 2})).await;
    stage.siblings.script(RESOLVE, Script::Reply(json!({"resolved": false})));
    stage.ask("approval::resolve", decide("c_1", "allow")).await;
    stage.gate("s", "c_2", "f::x", json!({})).await;
    let failure = failure("s", "c_3", "S215", "/data", "/data/f");
    stage.ask("approval::filesystem-access-watch", failure).await;
    stage.ask("approval::on-turn-completed", json!({"turn_id": "t_1", "session_id": "s"})).await;

    let entries = heard(&stage, 8).await;

    let mut told = written(&stage);
    assert_eq!(
        told[..4],
        ["asked c_1", "decided c_1 aborted abort", "asked c_1", "decided c_1 aborted abort"]
    );
    told[6..].sort();
    assert_eq!(
        told[4..],
        ["asked c_2", "asked c_3", "decided c_2 aborted abort", "decided c_3 aborted abort"]
    );
    for entry in entries.iter().filter(|entry| entry["entry"] == "decided") {
        assert!(entry.get("caller").is_none() && entry.get("reason").is_none(), "{entry}");
    }
    assert_eq!(entries.iter().filter(|entry| entry["kind"] == "filesystem_access").count(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_without_a_hold_and_refused_decisions_are_no_entries() {
    let stage = Stage::configured(json!({"rules": ["f::ok", "!f::no"]})).await;
    listen(&stage.console, &json!({})).await;
    assert_eq!(stage.gate("s", "c_1", "f::ok", json!({})).await, "continue");
    assert_eq!(stage.gate("s", "c_2", "f::no", json!({})).await, "deny");
    assert_eq!(stage.gate("s", "c_3", "f::x", json!({})).await, "hold");
    assert_eq!(stage.gate("s", "c_3", "f::x", json!({})).await, "hold");
    let mut forged = decide("c_3", "allow");
    forged["digest"] = "sha256:0".into();
    stage.call("approval::resolve", forged).await.unwrap_err();
    heard(&stage, 1).await;
    assert_eq!(written(&stage), ["asked c_3"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bindings_are_filtered_and_refused_as_those_of_the_other_types() {
    let stage = Stage::start().await;
    stage.siblings.describe("s", &json!({"metadata": {"tenant": "a"}}));
    listen(&stage.console, &json!({"metadata": {"tenant": "a"}})).await;
    for (config, field) in [(json!({"tenant": "a"}), "tenant"), (json!({"session_id": 5}), "session_id")] {
        let refusal = stage.console.bind_verdict(AUDIT, ON_AUDIT, &config).await.unwrap_err();
        assert!(refusal.message.contains(field), "{refusal:?}");
    }
    stage.gate("s", "c_1", "f::x", json!({})).await;
    stage.gate("other", "c_2", "f::x", json!({})).await;
    assert_eq!(heard(&stage, 1).await[0]["function_call_id"], "c_1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_cannot_listen() {
    let stage = Stage::start().await;
    stage.ask("approval::set-mode", json!({"session_id": "s", "mode": "full"})).await;
    let by_name = json!({"trigger_type": AUDIT, "function_id": "mine::log", "config": {}});
    for arguments in [by_name, json!([AUDIT, "mine::log", {}])] {
        let answer =
            stage.ask("approval::gate", hook("s", "c_1", "engine::register_trigger", arguments)).await;
        assert_eq!(answer["decision"], "deny");
        assert!(answer["reason"].as_str().unwrap().contains("human_only_function"), "{answer}");
    }
}

/// What a worker leaves that crashed before it told of an end.
fn left_behind(call: &str, audit: Option<&Value>) -> (String, String, Value) {
    let row = format!("s/{call}");
    let mut marker = json!({"approval_gate_outbox": 1, "event_id": format!("e_{call}"), "row": row, "hold_id": "h",
        "event": {"session_id": "s", "turn_id": "t_1", "function_call_id": call, "function_id": "f::x",
            "outcome": "allow", "resolved_at": 7, "digest": "sha256:d", "event_id": format!("e_{call}")}});
    if let Some(audit) = audit {
        marker["audit"] = audit.clone();
    }
    (PENDING.to_owned(), row, marker)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_that_a_crash_left_untold_is_told_with_who_decided() {
    let note = json!({"kind": "filesystem_access", "surface": "human", "caller": "w_1"});
    let rows = vec![
        left_behind("c_1", Some(&note)),
        left_behind("c_2", None),
        left_behind("c_3", Some(&json!({"surface": "oracle"}))),
    ];
    let mut stage = Stage::before_ready(StageOptions { rows, ..StageOptions::default() }).await;
    stage.console.serve(ON_AUDIT, Script::Reply(Value::Null));
    stage.console.bind(AUDIT, AUDIT, ON_AUDIT, &json!({}));
    stage.worker.ready().await;
    let entries = heard(&stage, 3).await;
    let entry = |call: &str| entries.iter().find(|entry| entry["function_call_id"] == call).unwrap();
    assert_eq!(
        *entry("c_1"),
        json!({"entry": "decided", "event_id": "e_c_1", "session_id": "s", "turn_id": "t_1",
            "function_call_id": "c_1", "function_id": "f::x", "kind": "filesystem_access", "digest": "sha256:d",
            "outcome": "allow", "surface": "human", "caller": "w_1", "at": 7})
    );
    for call in ["c_2", "c_3"] {
        let told = entry(call);
        assert_eq!((&told["surface"], &told["caller"]), (&json!("human"), &json!("unattested")), "{told}");
        assert!(told.get("kind").is_none(), "{told}");
    }
    for call in ["c_1", "c_2", "c_3"] {
        stage.row_gone(PENDING, &format!("s/{call}")).await;
    }
}

fn audit_lines(worker: &Worker) -> Vec<String> {
    let log = worker.log_text();
    log.lines().filter(|line| line.contains("approval_gate::audit")).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_has_one_line_for_each_entry_without_a_listener_and_nothing_secret() {
    let stage = Stage::start().await;
    assert_eq!(stage.gate("s", "c_1", "f::x", json!({"token": "hunter2", "n": "argument"})).await, "hold");
    let mut deny = decide("c_1", "deny");
    deny["reason"] = "password=hunter2\nINFO forged line".into();
    stage.ask("approval::resolve", deny).await;
    stage.worker.logged("that it was decided", |line| line.contains("entry=\"decided\"")).await;
    let lines = audit_lines(&stage.worker);
    let [asked, decided] = lines.as_slice() else { panic!("{lines:#?}") };
    assert!(asked.contains("INFO") && asked.contains("entry=\"asked\""), "{asked}");
    for word in ["outcome=\"deny\"", "surface=\"human\"", "caller=", "digest=\"sha256:", "event_id="] {
        assert!(decided.contains(word), "{word} in {decided}");
    }
    let log = stage.worker.log_text();
    assert!(!log.contains("hunter2") && !log.contains("argument"), "{log}");
    assert!(!log.lines().any(|line| line.starts_with("INFO forged")), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_debug_level_the_log_says_why_a_call_without_a_hold_was_answered() {
    let mut stage = Stage::start().await;
    let rules = json!({"rules": ["f::ok", {"rule_id": "no-x", "function": "f::no", "action": "deny"}]});
    stage.ask("configuration::set", json!({"id": ENTRY, "value": rules})).await;
    stage.worker.crash().await;
    let mut verbose = command();
    verbose.args(["--url", &stage.wire.url()]).env("APPROVAL_GATE_LOG", "info,approval_gate::audit=debug");
    stage.worker = Worker::run(verbose);
    stage.worker.ready().await;
    for function in ["f::ok", "f::no", "approval::resolve"] {
        // The second time the settings are known and the answer comes on the spot.
        for _ in 0..2 {
            stage.gate("s", "c_1", function, json!({"note": "argument"})).await;
        }
    }
    stage.ask("approval::gate", json!({"session_id": "s"})).await;
    stage.worker.logged("about the payload", |line| line.contains("because=\"payload\"")).await;
    let lines = audit_lines(&stage.worker);
    let expected = [
        ("f::ok", "decision=\"continue\" because=\"rule\" rule_id=\"f::ok\" rule=0"),
        ("f::no", "decision=\"deny\" because=\"rule\" rule_id=\"no-x\" rule=1"),
        ("approval::resolve", "decision=\"deny\" because=\"human_only_function\""),
    ];
    for (function, words) in expected {
        let found = lines.iter().filter(|line| line.contains(function) && line.contains(words));
        assert_eq!(found.count(), 2, "{function} {words} in {lines:#?}");
    }
    assert!(!stage.worker.log_text().contains("argument"));
}
