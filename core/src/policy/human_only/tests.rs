//! Which calls are doors, and which only look like one.
#![allow(clippy::unwrap_used)]
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;

/// Every door that a test here finds, the look at the text must have left open.
fn door(function_id: &str, arguments: &Value) -> Option<Door> {
    let door = super::door(function_id, arguments);
    if door != door_of_id(function_id) {
        assert!(looks_at_arguments(function_id, &arguments.to_string()), "{function_id} {arguments}");
    }
    door
}

#[test]
fn the_namespace_is_what_stands_before_the_first_separator() {
    for id in ["approval::resolve", "approval::", "approval::x::y", "approval:::x"] {
        assert_eq!(door_of_id(id), Some(Door::Approval), "{id}");
    }
    assert_eq!(door_of_id("configuration::get"), Some(Door::Configuration));
    for id in ["approval", "approvals::x", "docs::approval::list", "approval_flow::start", "Approval::x", ""]
    {
        assert_eq!(door_of_id(id), None, "{id}");
    }
}

#[test]
fn the_gates_state_is_closed_to_writes_and_open_to_reads() {
    let own = json!({"scope": "approval_settings", "key": "s_1"});
    for id in ["state::set", "state::update", "state::delete", "state::rename", "state::bulk::set"] {
        assert_eq!(door(id, &own), Some(Door::State), "{id}");
    }
    for id in ["state::get", "state::list", "state::list_groups"] {
        assert_eq!(door(id, &own), None, "{id}");
    }
    assert_eq!(door("state::set", &json!({"scope": "harness_filesystem_grants"})), Some(Door::State));
    for other in
        [json!({"scope": "notes"}), json!({"scope": 1}), json!({}), json!(null), json!("{\"scope\":1}")]
    {
        assert_eq!(door("state::set", &other), None, "{other}");
    }
}

#[test]
fn the_harness_is_closed_where_it_releases_and_grants() {
    let none = Value::Null;
    assert_eq!(door("harness::function::resolve", &none), Some(Door::Release));
    for id in ["harness::filesystem::grant", "harness::filesystem::revoke", "harness::workspace::grant"] {
        assert_eq!(door(id, &none), Some(Door::FilesystemGrants), "{id}");
    }
    for id in
        ["harness::filesystem::grants", "harness::workspace::info", "harness::status", "harness::function"]
    {
        assert_eq!(door(id, &none), None, "{id}");
    }
}

#[test]
fn a_trigger_may_not_reach_a_human_only_function() {
    let bind = |arguments: Value| door("engine::register_trigger", &arguments);
    let target = |id: &str| json!({"trigger_type": "cron", "function_id": id, "config": {}});
    assert_eq!(bind(target("approval::set-mode")), Some(Door::Deferred));
    assert_eq!(bind(target("harness::function::resolve")), Some(Door::Deferred));
    assert_eq!(bind(target("mail::send")), None);
    let hook = json!({"trigger_type": "harness::hook::pre-trigger", "function_id": "mail::send"});
    assert_eq!(bind(hook), Some(Door::Hook));
    let listen = |id: &str| bind(json!({"trigger_type": id, "function_id": "mail::send"}));
    assert_eq!(listen("approval::audit"), Some(Door::Listener));
    assert_eq!(listen("approval::anything-new"), Some(Door::Listener));
    assert_eq!(listen("approval::pending-created"), None);
    assert_eq!(listen("approval::pending-resolved"), None);
    let condition = json!({"trigger_type": "state", "function_id": "mail::send",
        "config": {"condition_function_id": "approval::clear-settings"}});
    assert_eq!(bind(condition), Some(Door::Deferred));
}

#[test]
fn nobody_binds_an_agent_s_function_to_what_the_gate_asks_or_records() {
    let bind = |kind: &str| json!({"trigger_type": kind, "function_id": "mine::f", "config": {}});
    for kind in ["approval::answerer", "approval::audit", "approval::to-come"] {
        assert_eq!(door("engine::register_trigger", &bind(kind)), Some(Door::Listener), "{kind}");
        assert_eq!(door("engine::register_trigger", &json!(bind(kind).to_string())), Some(Door::Listener));
        let by_position = json!([kind, "mine::f", {}]);
        assert_eq!(door("engine::register_trigger", &by_position), Some(Door::Deferred), "{kind}");
        let later = json!({"function_id": "engine::register_trigger", "payload": bind(kind)});
        assert_eq!(door("queue::enqueue", &later), Some(Door::Deferred), "{kind}");
    }
    for kind in ["approval::pending-created", "approval::pending-resolved", "approvals::x"] {
        assert_eq!(door("engine::register_trigger", &bind(kind)), None, "{kind}");
    }
}

#[test]
fn a_trigger_may_not_reach_a_target_whose_arguments_nobody_sees() {
    let bind = |arguments: Value| door("engine::register_trigger", &arguments);
    let queued = json!({"trigger_type": "queue", "function_id": "state::set", "config": {"topic": "t"}});
    assert_eq!(bind(queued), Some(Door::Deferred));
    let erases = json!({"trigger_type": "state", "function_id": "state::delete", "config": {"scope": "approval_settings"}});
    assert_eq!(bind(erases), Some(Door::Deferred));
    let every = json!({"trigger_type": "state", "function_id": "state::delete", "config": {}});
    assert_eq!(bind(every), Some(Door::Deferred));
    let notes =
        json!({"trigger_type": "state", "function_id": "state::delete", "config": {"scope": "notes"}});
    assert_eq!(bind(notes), None);
    let nested = json!({"trigger_type": "queue", "function_id": "engine::register_trigger"});
    assert_eq!(bind(nested), Some(Door::Deferred));
    let elsewhere = json!({"topic": "t", "function_id": "state::set"});
    assert_eq!(door("queue::subscribe", &elsewhere), Some(Door::Deferred));
    let sign_up = json!({"trigger_type": "http", "function_id": "users::register"});
    assert_eq!(bind(sign_up), None);
}

#[test]
fn the_gates_own_bindings_stay() {
    let remove = |id: &str| door("engine::unregister_trigger", &json!({"id": id}));
    assert_eq!(remove("approval-gate/pre-trigger"), Some(Door::OwnBinding));
    assert_eq!(remove("4440d8e0-bb9c-4222-b51d-bbf15f1c91b5"), None);
    assert_eq!(door("engine::functions::register", &json!({"id": "approval::gate"})), Some(Door::Deferred));
    assert_eq!(door("engine::functions::info", &json!({"function_id": "approval::gate"})), None);
}

#[test]
fn a_job_or_message_shows_its_real_target() {
    let job =
        json!({"schedule": "* * * * *", "function_id": "approval::set-mode", "payload": {"mode": "full"}});
    assert_eq!(door("cron::create", &job), Some(Door::Deferred));
    let write = json!({"function_id": "state::set", "payload": {"scope": "approval_settings", "value": {}}});
    assert_eq!(door("queue::enqueue", &write), Some(Door::Deferred));
    let batch = json!({"calls": [{"function_id": "mail::send"}, {"function_id": "approval::resolve"}]});
    assert_eq!(door("batch::run", &batch), Some(Door::Deferred));
    let harmless = json!({"function_id": "state::set", "payload": {"scope": "notes"}});
    assert_eq!(door("cron::create", &harmless), None);
    assert_eq!(door("docs::lookup", &job), None);
    let hook = json!({"function_id": "engine::register_trigger",
        "payload": {"trigger_type": "harness::hook::pre-trigger", "function_id": "mine::allow"}});
    assert_eq!(door("cron::create", &hook), Some(Door::Deferred));
    assert_eq!(door("engine::invoke", &json!({"function_id": "approval::resolve"})), Some(Door::Deferred));
    assert_eq!(door("notes::create", &json!({"text": "approval::set-mode"})), None);
}

#[test]
fn a_pattern_is_worthless_only_if_every_id_it_covers_is_human_only() {
    for entry in [
        "approval::*",
        "approval::*x",
        "configuration::s*",
        "approval::resolve",
        "harness::filesystem::r*",
        "harness::function::resolve",
        "harness::workspace::grant",
    ] {
        assert!(names_only_human_only(entry), "{entry}");
    }
    for entry in [
        "*",
        "approval*",
        "approval:*",
        "*::resolve",
        "harness::*",
        "harness::filesystem::*",
        "harness::filesystem::grant*",
        "harness::function::resolve*",
        "state::set",
        "shell::*",
    ] {
        assert!(!names_only_human_only(entry), "{entry}");
    }
}

#[test]
fn many_targets_and_payloads_cost_no_more_than_their_length() {
    let many: Map<String, Value> = (0..20_000)
        .flat_map(|n| {
            [(format!("{n}_function_id"), json!("state::set")), (format!("p{n}"), json!({"scope": "notes"}))]
        })
        .collect();
    assert_eq!(door("batch::run", &Value::Object(many)), None);
}

#[test]
fn deep_arguments_are_no_offence_but_hide_nothing() {
    let buried = |mut deep: Value| {
        for _ in 0..40 {
            deep = json!([{"next": deep}]);
        }
        json!({"calls": deep})
    };
    for hidden in [
        json!({"function_id": "approval::resolve"}),
        json!({"any": "approval_settings"}),
        json!({"function_id": "engine::register_trigger"}),
        json!({"payload": "{\"function_id\": \"\\u0061pproval::resolve\"}"}),
    ] {
        assert_eq!(door("batch::run", &buried(hidden.clone())), Some(Door::Deferred), "{hidden}");
    }
    assert_eq!(door("page::create", &buried(json!({"text": "the trigger of approval::set-mode"}))), None);
    assert_eq!(door("docs::lookup", &buried(json!({"function_id": "approval::resolve"}))), None);
    let bound = door("engine::register_trigger", &buried(json!({"text": "x"})));
    assert_eq!(bound, Some(Door::Deferred), "nothing legitimate is bound so deep");
}

#[test]
fn text_nested_past_the_parser_is_looked_through() {
    let deep = |inside: &str| format!("{}{inside}{}", "[".repeat(200), "]".repeat(200));
    let hidden = json!({"payload": deep("{\"function_id\":\"approval::resolve\"}")});
    assert_eq!(door("queue::enqueue", &hidden), Some(Door::Deferred));
    assert_eq!(door("queue::enqueue", &json!({"payload": deep("1")})), None);
    assert_eq!(door("state::set", &json!(deep("\"approval_settings\""))), Some(Door::State));
}

#[test]
fn arguments_given_by_position_or_as_text_are_read() {
    let set = json!(["approval_settings", "s", {"mode": "full"}]);
    let named = json!({"scope": "approval_settings", "key": "s"});
    for arguments in [&set, &named, &json!(["k", "approval_pending"]), &json!([{"scope": "approval_x"}])] {
        let text = json!(arguments.to_string());
        let twice = json!(text.to_string());
        for arguments in [arguments, &text, &twice] {
            assert_eq!(door("state::set", arguments), Some(Door::State), "{arguments}");
        }
    }
    let engine = |name: &str, arguments: Value| {
        let as_text = door(&format!("engine::{name}"), &json!(arguments.to_string()));
        let plain = door(&format!("engine::{name}"), &arguments);
        assert_eq!(plain, as_text, "{arguments}");
        plain
    };
    assert_eq!(engine("register_trigger", json!(["state", "approval::set-mode", {}])), Some(Door::Deferred));
    assert_eq!(
        engine("register_trigger", json!(["harness::hook::pre-trigger", "mine::f"])),
        Some(Door::Hook)
    );
    assert_eq!(engine("register_trigger", json!(["approval::audit", "mine::f"])), Some(Door::Deferred));
    assert_eq!(engine("register_trigger", json!(["queue", "state::set", {}])), Some(Door::Deferred));
    assert_eq!(engine("unregister_trigger", json!(["approval-gate/pre-trigger"])), Some(Door::OwnBinding));
    assert_eq!(engine("register_trigger", json!(["cron", "mail::send", {}])), None);
    assert_eq!(door("cron::create", &json!(["* * * * *", "approval::set-mode"])), Some(Door::Deferred));
    let described = json!(["state::set", {"scope": "approval_settings"}]);
    assert_eq!(door("queue::enqueue", &described), Some(Door::Deferred));
    for open in [json!(["notes", "k", 1]), json!("[\"notes\"]"), json!("approval_settings"), json!([])] {
        assert_eq!(door("state::set", &open), None, "{open}");
        assert_eq!(door("state::get", &set), None);
    }
}

#[test]
fn the_payload_of_a_described_call_is_read_in_every_form() {
    let write = json!({"scope": "approval_settings", "key": "s", "value": {}});
    let hook = json!({"trigger_type": "harness::hook::pre-trigger", "function_id": "mine::allow"});
    let by_position = json!(["approval_settings", "s", {}]);
    for (target, payload) in [
        ("state::set", &write),
        ("state::set", &by_position),
        ("engine::register_trigger", &hook),
        ("engine::register_trigger", &json!(["harness::hook::pre-trigger", "mine::allow"])),
        ("engine::unregister_trigger", &json!({"id": "approval-gate/pre-trigger"})),
        ("engine::workers::register", &json!({"name": "approval-gate"})),
    ] {
        for payload in [
            payload.clone(),
            json!(payload.to_string()),
            json!([payload]),
            json!({"data": payload}),
            json!({"data": {"any": [payload.to_string()]}}),
        ] {
            for call in [
                json!({"function_id": target, "payload": payload}),
                json!({"function_id": target, "whatever": payload}),
                json!({"calls": [{"target": {"id": target}, "payload": payload}]}),
                json!({"calls": [[target, payload, {}]]}),
            ] {
                assert_eq!(door("queue::enqueue", &call), Some(Door::Deferred), "{call}");
            }
        }
    }
    let content = json!({"function_id": "state::set",
        "payload": {"scope": "notes", "key": "k", "value": {"scope": "approval_x", "tags": ["approval_needed"]}}});
    assert_eq!(door("cron::create", &content), None);
}

#[test]
fn nobody_else_signs_on_as_the_gate() {
    let sign_on = |arguments: Value| door("engine::workers::register", &arguments);
    for name in ["approval-gate", " Approval-Gate\n", "APPROVAL-GATE"] {
        assert_eq!(sign_on(json!({"name": name, "pid": 3})), Some(Door::OwnName), "{name}");
        assert_eq!(sign_on(json!([name])), Some(Door::OwnName), "{name}");
    }
    assert_eq!(sign_on(json!({"name": "approval-gate-console"})), None);
    assert_eq!(door("users::register", &json!({"name": "approval-gate"})), None);
}

#[test]
fn a_deferral_is_known_by_any_way_of_writing_its_name_and_its_target() {
    for id in ["bridge.invoke", "bridge.invoke_async", "x::invokeLater", "invoke", "x::call-2"] {
        for key in [
            "functionId",
            "function_path",
            "functionPath",
            "target",
            "fn",
            "tool",
            "Function_Id",
            "handler",
            "callback",
            "FUNCTION",
            "target-function-id",
            "tool_name",
            "condition_function_id",
            "handlerId",
        ] {
            let arguments = json!({key: "approval::set-mode"});
            assert_eq!(door(id, &arguments), Some(Door::Deferred), "{id} {key}");
        }
    }
}

#[test]
fn a_binding_may_not_reach_what_hands_on_any_call() {
    for target in ["queue::enqueue", "cron::create", "harness::function::trigger", "bridge.invoke"] {
        let binding = json!({"trigger_type": "queue", "function_id": target, "config": {}});
        for id in ["engine::register_trigger", "queue::subscribe", "bus::bind", "cron::create"] {
            assert_eq!(door(id, &binding), Some(Door::Deferred), "{id} {target}");
        }
        let shown = json!({"function_id": target, "payload": {"function_id": "mail::send"}});
        assert_eq!(door("cron::create", &shown), None, "{target}");
    }
    for target in ["mail::send", "orders::create", "invoice::update", "mail::forward"] {
        let binding = json!({"trigger_type": "http", "function_id": target, "path": "/dispatch/trigger"});
        assert_eq!(door("engine::register_trigger", &binding), None, "{target}");
    }
}

#[test]
fn ordinary_calls_that_only_speak_of_doors_stay_open() {
    let text = "{\"function_id\": \"approval::set-mode\"}";
    for (id, arguments) in [
        ("coder::update-file", json!({"path": "src/run.rs", "content": text})),
        (
            "coder::create-file",
            json!({"path": "docs/approval::gate notes.md", "content": "[\"approval::x\"]"}),
        ),
        ("shell::exec", json!({"command": "grep -r approval::set-mode ."})),
        ("shell::exec", json!({"command": "grep", "args": ["-r", "approval::set-mode"]})),
        ("notes::add", json!({"text": "approval::set-mode", "tags": ["approval::set-mode"]})),
        ("notes::add", json!({"text": text})),
        ("http::request", json!({"url": "http://x", "method": "POST", "path": "/x", "body": text})),
        ("deploy::run", json!({"target": "prod"})),
        ("mail::send", json!({"to": "a@b", "body": text, "message": "approval::set-mode is closed"})),
        ("chat::send", json!({"message": "\"approval::set-mode\""})),
        ("state::set", json!({"scope": "notes", "key": "k", "value": {"function_id": "approval::x"}})),
        ("session::delete", json!({"session_id": "s"})),
        ("harness::on-session-deleted", json!({"session_id": "s"})),
    ] {
        assert_eq!(door(id, &arguments), None, "{id} {arguments}");
    }
}

/// Ways to put one value into another.
#[derive(Debug, Clone, Copy)]
enum Wrap {
    Field,
    Payload,
    List,
    Mixed,
    Text,
}

fn wrapped(inner: Value, wraps: &[Wrap]) -> Value {
    wraps.iter().fold(inner, |inner, wrap| match wrap {
        Wrap::Field => json!({"a": 1, "next": inner, "z": ["x"]}),
        Wrap::Payload => json!({"payload": inner}),
        Wrap::List => json!([inner]),
        Wrap::Mixed => json!(["mail::send", null, {"scope": "notes"}, inner]),
        Wrap::Text => json!({"data": inner.to_string()}),
    })
}

fn wraps(most: usize) -> impl Strategy<Value = Vec<Wrap>> {
    let wrap = prop_oneof![
        Just(Wrap::Field),
        Just(Wrap::Payload),
        Just(Wrap::List),
        Just(Wrap::Mixed),
        Just(Wrap::Text)
    ];
    prop::collection::vec(wrap, 0..=most)
}

fn human_only_id() -> impl Strategy<Value = String> {
    prop_oneof![
        "(approval|configuration)::[a-z:-]{0,8}",
        Just("harness::function::resolve".to_owned()),
        "harness::(filesystem|workspace)::(grant|revoke|[x-z]{1,4})",
    ]
}

fn function_key() -> impl Strategy<Value = String> {
    (
        "[a-z_]{0,6}",
        prop_oneof![Just("function"), Just("functionId"), Just("Function_Path"), Just("tool"), Just("fn")],
    )
        .prop_map(|(before, word)| before + word)
}

/// Arguments of texts and keys that matter to some door, or nearly do.
fn suspicious() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        prop::sample::select(vec![
            "state::set",
            "engine::register_trigger",
            "x::BIND",
            "bus::unsubscribe",
            "cron::create",
            "approval_pending",
            "Approval-Gate",
            "harness::hook::pre-trigger",
            "approval-gate/x",
            "[[[\"approval::resolve\"]]]",
            "state",
            "a::b",
            "\u{212a}",
            "queue::push",
        ])
        .prop_map(str::to_owned),
        human_only_id(),
    ];
    let key = prop::sample::select(vec![
        "function_id",
        "id",
        "scope",
        "name",
        "trigger_type",
        "payload",
        "config",
        "x",
    ]);
    let leaf = prop_oneof![3 => text.prop_map(Value::from), 1 => Just(Value::Null)];
    leaf.prop_recursive(12, 30, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 1..4).prop_map(Value::from),
            prop::collection::btree_map(key.clone(), inner, 1..4).prop_map(|fields| json!(fields)),
        ]
    })
}

fn deferral() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        Just("batch::run"),
        Just("bridge.invoke"),
        Just("cron::create"),
        Just("engine::register_trigger")
    ]
}

proptest! {
    #[test]
    fn arguments_that_are_not_looked_at_open_no_door(
        id in prop_oneof![deferral(), Just("state::set"), Just("x::add"), Just("shell::exec"), Just("docs::read")],
        arguments in suspicious(),
    ) {
        if !looks_at_arguments(id, &arguments.to_string()) {
            prop_assert_eq!(super::door(id, &arguments), door_of_id(id));
        }
    }

    #[test]
    fn ordinary_arguments_of_ordinary_functions_are_not_looked_at(text in "[a-z /.]{0,20}", id in "(shell|docs)::(exec|read)") {
        let words = ["approval", "configuration", "harness", "register", "bind", "subscribe"];
        prop_assume!(words.iter().all(|word| !text.contains(word)));
        let arguments = json!({"command": text, "timeout_ms": 5}).to_string();
        prop_assert!(!looks_at_arguments(&id, &arguments));
    }

    #[test]
    fn a_human_only_target_is_found_however_it_is_wrapped(
        id in human_only_id(), key in function_key(), by in deferral(), listed in any::<bool>(), wraps in wraps(12)
    ) {
        let target = if listed { json!([id]) } else { json!(id) };
        let arguments = wrapped(json!({key: target, "payload": {}}), &wraps);
        prop_assert_eq!(door(by, &arguments), Some(Door::Deferred));
    }

    #[test]
    fn a_described_write_is_found_however_it_is_wrapped(
        key in function_key(), by in deferral(), scope in "approval_[a-z]{0,8}", around in wraps(6), inside in wraps(6)
    ) {
        let payload = wrapped(json!({"scope": scope}), &inside);
        let arguments = wrapped(json!({key: "state::set", "payload": payload}), &around);
        prop_assert_eq!(door(by, &arguments), Some(Door::Deferred));
    }

    #[test]
    fn wrapping_alone_closes_no_door(key in function_key(), wraps in wraps(12)) {
        let arguments = wrapped(json!({key: "mail::send", "payload": {"text": "see the trigger"}}), &wraps);
        prop_assert_eq!(door("batch::run", &arguments), None);
    }

    #[test]
    fn speaking_of_a_door_closes_none_where_it_is_read(key in function_key(), wraps in wraps(3)) {
        let arguments = wrapped(json!({key: "mail::send", "payload": {"text": "approval::set-mode is closed"}}), &wraps);
        prop_assert_eq!(door("batch::run", &arguments), None);
    }

    #[test]
    fn any_arguments_are_read_without_a_panic(by in "(state|engine|queue)::[a-zA-ZéÀ_.:-]{0,12}", text in "[\\[{\"a-z:\\]},\\\\]{0,40}") {
        for arguments in [json!(text), json!([text]), json!({"function": text, "payload": text})] {
            let _ = door(&by, &arguments);
        }
    }
}

#[test]
fn every_word_without_which_there_is_no_door_is_noticed_in_any_case_and_place() {
    for word in ["approval", "configuration", "harness", "register", "bind", "subscribe"] {
        for word in [word.to_owned(), word.to_uppercase()] {
            for text in
                [word.clone(), format!("{{\"a\": \"x{word}\"}}"), format!("{}{word}s", "x".repeat(40))]
            {
                assert!(super::may_spell_a_door(&text), "{text}");
            }
        }
    }
    for text in [r#"{"path": "/srv/app/readme.md"}"#, "", "a", "happy gift"] {
        assert!(!super::may_spell_a_door(text), "{text}");
    }
    assert!(super::may_spell_a_door("é") && super::may_spell_a_door(r"\u0061"));
}
