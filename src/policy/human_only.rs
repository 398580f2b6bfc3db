//! Calls that only a person may make: no mode, list or rule opens them (contract §1.2).
//!
//! The two namespaces are the front doors. The others are calls through which a caller could rewrite the gate's own
//! decisions: its rows in `state`, the harness's release and file grants, a trigger or job that makes one of these
//! calls later, on nobody's behalf. Knows function ids and the few argument names that matter; never looks into text,
//! so arguments that are no JSON object open no door (the target could not read them either).

use serde_json::{Map, Value};

use super::pattern;

/// Which door a refused call was about to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Door {
    /// A function under `approval::`.
    Approval,
    /// A function under `configuration::`.
    Configuration,
    /// A write to one of the state scopes that hold decisions.
    State,
    /// The harness's own release of a held call.
    Release,
    /// The harness's file access grants.
    FilesystemGrants,
    /// A trigger, job or message that makes a human-only call later.
    Deferred,
    /// A binding to the harness's hooks, beside or in place of the gate.
    Hook,
    /// The gate's own bindings.
    OwnBinding,
}

impl Door {
    /// What the call would have done, for a sentence that begins with "the call".
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Approval => "addresses the approval gate itself",
            Self::Configuration => "addresses the configuration of workers",
            Self::State => "writes state that holds permission decisions",
            Self::Release => "releases a held call",
            Self::FilesystemGrants => "changes file access grants",
            Self::Deferred => "arranges for a human-only function to be called",
            Self::Hook => "binds to the harness's hooks",
            Self::OwnBinding => "touches a binding of the approval gate",
        }
    }
}

/// State scopes that begin with this are the gate's.
const OWN_SCOPES: &str = "approval_";
/// The scope in which the harness keeps what `harness::filesystem::grant` gave.
const GRANT_SCOPE: &str = "harness_filesystem_grants";
/// The gate's bindings have ids that begin with this (contract §9).
const OWN_BINDINGS: &str = "approval-gate/";
const ENGINE: &str = "engine::";
const HOOK_TYPES: &str = "harness::hook::";
const FILESYSTEM: [&str; 2] = ["harness::filesystem::", "harness::workspace::"];
const FILESYSTEM_READS: [&str; 2] = ["grants", "info"];

/// How many levels of arguments are searched for the target of a deferred call.
const TARGET_DEPTH: u8 = 4;

/// The door that this call would use, if it is human-only.
pub fn door(function_id: &str, arguments: &Value) -> Option<Door> {
    door_of_id(function_id).or_else(|| door_of_arguments(function_id, arguments.as_object()?))
}

/// Says whether these arguments, as JSON text, could open a door that the id alone does not: what [`door`] would find in
/// the parsed ones. A described call is known by a key that ends in `function` or `function_id`, however deep; the one
/// way to spell such a key without writing it out is an escape.
pub fn looks_at_arguments(function_id: &str, arguments: &str) -> bool {
    match Kind::of(function_id) {
        Kind::Plain => false,
        Kind::Deferral => arguments.contains("function") || arguments.contains("\\u"),
        Kind::StateWrite | Kind::Registration => true,
    }
}

/// The door of an id that is human-only whatever its arguments.
///
/// The namespace is what stands before the first `::`, so `approvals::report` and `docs::approval::list` are ordinary.
pub fn door_of_id(function_id: &str) -> Option<Door> {
    if function_id.starts_with("approval::") {
        Some(Door::Approval)
    } else if function_id.starts_with("configuration::") {
        Some(Door::Configuration)
    } else if function_id == "harness::function::resolve" {
        Some(Door::Release)
    } else {
        changes_filesystem_grants(function_id).then_some(Door::FilesystemGrants)
    }
}

/// Says whether a list entry could only ever name human-only functions, so that remembering it means nothing.
pub fn names_only_human_only(entry: &str) -> bool {
    if !pattern::is_open(entry) {
        return door_of_id(entry).is_some();
    }
    match door_of_id(pattern::head(entry)) {
        Some(Door::Approval | Door::Configuration) => true,
        // `harness::filesystem::*` also names the two that read.
        Some(Door::FilesystemGrants) => !FILESYSTEM.iter().any(|space| {
            FILESYSTEM_READS.iter().any(|read| pattern::matches(entry, &format!("{space}{read}")))
        }),
        _ => false,
    }
}

fn changes_filesystem_grants(function_id: &str) -> bool {
    FILESYSTEM
        .iter()
        .find_map(|space| function_id.strip_prefix(space))
        .is_some_and(|name| !FILESYSTEM_READS.contains(&name))
}

fn door_of_arguments(function_id: &str, arguments: &Map<String, Value>) -> Option<Door> {
    match Kind::of(function_id) {
        Kind::StateWrite => writes_decisions(arguments).then_some(Door::State),
        Kind::Registration => {
            door_of_registration(arguments).or_else(|| door_of_target(arguments, TARGET_DEPTH))
        }
        Kind::Deferral => door_of_target(arguments, TARGET_DEPTH),
        Kind::Plain => None,
    }
}

/// Which arguments of a function matter here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Its `scope`.
    StateWrite,
    /// What is bound or registered, and to what.
    Registration,
    /// The call that it describes.
    Deferral,
    /// None of them.
    Plain,
}

impl Kind {
    fn of(function_id: &str) -> Self {
        if let Some(name) = function_id.strip_prefix("state::") {
            return if writes_state(name) { Self::StateWrite } else { Self::Plain };
        }
        let last = function_id.rsplit(':').next().unwrap_or(function_id);
        if registers(last) {
            Self::Registration
        } else if defers(last) {
            Self::Deferral
        } else {
            Self::Plain
        }
    }
}

fn writes_decisions(arguments: &Map<String, Value>) -> bool {
    arguments.get("scope").and_then(Value::as_str).is_some_and(holds_decisions)
}

fn writes_state(name: &str) -> bool {
    !matches!(name, "get" | "list" | "list_groups")
}

fn holds_decisions(scope: &str) -> bool {
    scope.starts_with(OWN_SCOPES) || scope == GRANT_SCOPE
}

/// `engine::register_trigger`, its counterpart, and whatever else binds a function to an event.
fn registers(name: &str) -> bool {
    let binds =
        |word| matches!(word, "register" | "unregister" | "bind" | "unbind" | "subscribe" | "unsubscribe");
    words(name).any(binds)
}

/// Names of functions that make, now or later, a call which their arguments describe.
fn defers(name: &str) -> bool {
    words(name).any(|word| {
        matches!(
            word,
            "add"
                | "call"
                | "create"
                | "dispatch"
                | "emit"
                | "enqueue"
                | "exec"
                | "execute"
                | "fire"
                | "invoke"
                | "publish"
                | "push"
                | "run"
                | "schedule"
                | "send"
                | "set"
                | "spawn"
                | "start"
                | "submit"
                | "trigger"
                | "update"
        )
    })
}

fn words(name: &str) -> impl Iterator<Item = &str> {
    name.split(['-', '_'])
}

/// What a registration itself says; calls described within it are looked for apart.
fn door_of_registration(arguments: &Map<String, Value>) -> Option<Door> {
    let text = |key: &str| arguments.get(key).and_then(Value::as_str).unwrap_or_default();
    if text("trigger_type").starts_with(HOOK_TYPES) {
        return Some(Door::Hook);
    }
    if text("id").starts_with(OWN_BINDINGS) {
        return Some(Door::OwnBinding);
    }
    // Whoever registers a function under a human-only id answers in its place.
    let deferred = door_of_id(text("id")).is_some()
        || door_of_id(text("function_id")).is_some()
        || is_blind_door(text("function_id"), text("trigger_type"), arguments);
    deferred.then_some(Door::Deferred)
}

/// A trigger hands its event to the target as arguments that nobody sees now, so a target whose harm lies in its
/// arguments cannot be let through: a queue message could be any state write, any further registration. A `state`
/// trigger alone is known to repeat the scope it watches.
fn is_blind_door(target: &str, trigger_type: &str, arguments: &Map<String, Value>) -> bool {
    match Kind::of(target) {
        Kind::StateWrite => {
            let watched =
                arguments.get("config").and_then(|config| config.get("scope")).and_then(Value::as_str);
            !(trigger_type == "state" && watched.is_some_and(|scope| !holds_decisions(scope)))
        }
        Kind::Registration => target.starts_with(ENGINE),
        Kind::Deferral | Kind::Plain => false,
    }
}

/// Looks for a described call to a human-only function: in these arguments and in the containers within them.
///
/// Each value is seen once, however many targets are named: the text is hostile and may be long.
fn door_of_target(arguments: &Map<String, Value>, depth: u8) -> Option<Door> {
    let depth = depth.checked_sub(1)?;
    let (mut state_write, mut registration) = (false, false);
    for target in
        arguments.iter().filter(|(key, _)| names_a_function(key)).filter_map(|(_, value)| value.as_str())
    {
        if door_of_id(target).is_some() {
            return Some(Door::Deferred);
        }
        state_write |= Kind::of(target) == Kind::StateWrite;
        registration |= Kind::of(target) == Kind::Registration;
    }
    // The payload of a described call is one of the objects beside its target, whatever it is called there.
    let opens = |payload: &Map<String, Value>| {
        (state_write && writes_decisions(payload))
            || (registration && door_of_registration(payload).is_some())
    };
    if arguments.values().filter_map(Value::as_object).any(opens) {
        return Some(Door::Deferred);
    }
    arguments.values().find_map(|value| door_of_container(value, depth))
}

fn door_of_container(value: &Value, depth: u8) -> Option<Door> {
    match value {
        Value::Object(fields) => door_of_target(fields, depth),
        Value::Array(items) => {
            let depth = depth.checked_sub(1)?;
            items.iter().find_map(|item| door_of_container(item, depth))
        }
        _ => None,
    }
}

/// `function_id`, `target_function_id`, `condition_function_id` and the bare `function`.
fn names_a_function(key: &str) -> bool {
    key == "function" || key.ends_with("function_id")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    #[test]
    fn the_namespace_is_what_stands_before_the_first_separator() {
        for id in ["approval::resolve", "approval::", "approval::x::y", "approval:::x"] {
            assert_eq!(door_of_id(id), Some(Door::Approval), "{id}");
        }
        assert_eq!(door_of_id("configuration::get"), Some(Door::Configuration));
        for id in
            ["approval", "approvals::x", "docs::approval::list", "approval_flow::start", "Approval::x", ""]
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
        for id in [
            "harness::filesystem::grants",
            "harness::workspace::info",
            "harness::status",
            "harness::function",
        ] {
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
        let condition = json!({"trigger_type": "state", "function_id": "mail::send",
            "config": {"condition_function_id": "approval::clear-settings"}});
        assert_eq!(bind(condition), Some(Door::Deferred));
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
        assert_eq!(
            door("engine::functions::register", &json!({"id": "approval::gate"})),
            Some(Door::Deferred)
        );
        assert_eq!(door("engine::functions::info", &json!({"function_id": "approval::gate"})), None);
    }

    #[test]
    fn a_job_or_message_shows_its_real_target() {
        let job = json!({"schedule": "* * * * *", "function_id": "approval::set-mode", "payload": {"mode": "full"}});
        assert_eq!(door("cron::create", &job), Some(Door::Deferred));
        let write =
            json!({"function_id": "state::set", "payload": {"scope": "approval_settings", "value": {}}});
        assert_eq!(door("queue::enqueue", &write), Some(Door::Deferred));
        let batch = json!({"calls": [{"function_id": "mail::send"}, {"function_id": "approval::resolve"}]});
        assert_eq!(door("batch::run", &batch), Some(Door::Deferred));
        let harmless = json!({"function_id": "state::set", "payload": {"scope": "notes"}});
        assert_eq!(door("cron::create", &harmless), None);
        assert_eq!(door("docs::lookup", &job), None);
        let hook = json!({"function_id": "engine::register_trigger",
            "payload": {"trigger_type": "harness::hook::pre-trigger", "function_id": "mine::allow"}});
        assert_eq!(door("cron::create", &hook), Some(Door::Deferred));
        assert_eq!(
            door("engine::invoke", &json!({"function_id": "approval::resolve"})),
            Some(Door::Deferred)
        );
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
                [
                    (format!("{n}_function_id"), json!("state::set")),
                    (format!("p{n}"), json!({"scope": "notes"})),
                ]
            })
            .collect();
        assert_eq!(door("batch::run", &Value::Object(many)), None);
    }

    #[test]
    fn deep_arguments_end_the_search() {
        let mut deep = json!({"function_id": "approval::resolve"});
        for _ in 0..100 {
            deep = json!([{"next": deep}]);
        }
        assert_eq!(door("batch::run", &json!({"calls": deep})), None);
    }
}
