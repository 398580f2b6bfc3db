//! Each finding by an example, silence by another, and the proof that no finding is a false alarm.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::policy::settings::Settings;
use crate::policy::tests::policy;
use crate::policy::tests::properties::{arguments, good_rule, id, mode};
use crate::policy::verdict::Because;
use crate::policy::{Question, decide};

fn warnings(rules: &Value) -> Vec<(Option<usize>, &'static str)> {
    let lints = lint(&policy(&json!({"rules": rules})));
    assert!(lints.complete);
    let warnings = lints.found.iter().filter(|lint| lint.weight == Weight::Warning);
    warnings.map(|lint| (lint.index, lint.name)).collect()
}

fn texts(rules: &Value) -> Vec<String> {
    lint(&policy(&json!({"rules": rules}))).found.into_iter().map(|lint| lint.what).collect()
}

#[test]
fn a_rule_that_never_decides_is_found() {
    let command = |regex: &str| json!({"command": {"matches": regex}});
    for (rules, name) in [
        (json!(["!shell::*", "shell::exec"]), "shadowed"),
        (
            json!(["!*::exec", {"function": "shell::exec", "action": "deny", "args": command("^rm")}]),
            "shadowed",
        ),
        (
            json!([
                {"function": "a::*", "action": "deny", "modes": ["manual"]},
                {"function": "a*", "action": "deny", "modes": ["auto"]},
                "a::b",
            ]),
            "shadowed",
        ),
        (
            json!([
                {"function": "a::*", "action": "deny", "args": command("^git ")},
                {"function": "a::b", "action": "allow", "args": {"command": {"equals": "git diff"}, "x": {"equals": 1}}},
            ]),
            "shadowed",
        ),
        (json!([{"function": "a::b", "action": "allow", "modes": ["full"]}]), "never_reached"),
        (json!(["approval::get-pending"]), "human_only"),
    ] {
        let found = warnings(&rules);
        assert_eq!(found, [(Some(rules.as_array().unwrap().len() - 1), name)], "{rules}");
    }
}

#[test]
fn a_floor_further_down_shadows_too() {
    let rules = json!(["state::get", {"function": "state::*", "action": "deny", "floor": true}]);
    assert_eq!(warnings(&rules), [(Some(0), "shadowed")]);
}

#[test]
fn a_rule_that_decides_something_is_not_called_dead() {
    for rules in [
        json!(["!shell::exec", "shell::*"]),
        json!(["!a::b", "a::*", "!*::c"]),
        json!([{"function": "a::*", "action": "deny", "modes": ["auto"]}, "a::b"]),
        json!([{"function": "a::*", "action": "deny", "args": {"v": {"equals": 1}}}, "a::b"]),
        json!([
            {"function": "a::*", "action": "deny", "args": {"v": {"matches": "^x$"}}},
            {"function": "a::b", "action": "allow", "args": {"v": {"matches": "^y$"}}},
        ]),
    ] {
        let found = warnings(&rules);
        assert!(found.iter().all(|(_, name)| *name != "shadowed"), "{rules}: {found:?}");
    }
}

#[test]
fn an_allow_that_is_wider_than_it_looks_is_found() {
    let matches = |regex: &str| json!([{"function": "shell::exec", "action": "allow", "args": {"c": {"matches": regex}}}]);
    for (rules, name) in [
        (json!(["*"]), "allows_all"),
        (json!(["*::*"]), "allows_all"),
        (json!(["shell*"]), "open_namespace"),
        (json!(["shell:*"]), "open_namespace"),
        (matches("git status"), "unanchored"),
        (matches("^git "), "unanchored"),
        (matches("^git status$|^ls"), "unanchored"),
        (matches(".*"), "unanchored"),
    ] {
        let expected: &[_] = if rules == json!(["shell:*"]) { &[] } else { &[(Some(0), name)] };
        assert_eq!(warnings(&rules), expected, "{rules}");
    }
    for rules in [json!(["shell::*"]), json!(["*::get"]), matches("^git (status|diff)$"), matches("^a$|^b$")]
    {
        assert_eq!(warnings(&rules), [], "{rules}");
    }
    let narrowed = json!([{"function": "*", "action": "allow", "args": {"dry_run": {"equals": true}}}]);
    assert_eq!(warnings(&narrowed), []);
    let deny = json!([{"function": "shell::exec", "action": "deny", "args": {"c": {"matches": "rm"}}}]);
    assert_eq!(warnings(&deny), [], "a deny may well ask for a part");
}

#[test]
fn a_deny_that_an_earlier_allow_opens_is_shown_by_a_call() {
    let rules = json!(["*::get", "!secrets::*"]);
    assert_eq!(warnings(&rules), [(Some(1), "opened_deny")]);
    assert!(texts(&rules)[0].contains("allows `secrets::get` first"), "{:?}", texts(&rules));

    let rules = json!([
        {"function": "shell::exec", "action": "allow", "modes": ["auto"], "args": {"command": {"matches": "^git .*$"}}},
        {"function": "shell::exec", "action": "deny", "args": {"command": {"matches": "--force"}}},
    ]);
    assert_eq!(warnings(&rules), [(Some(1), "opened_deny")]);
    let text = &texts(&rules)[0];
    assert!(text.contains(r#"with `{"command":"git  --force"}` first in mode auto"#), "{text}");
}

#[test]
fn an_exception_from_a_deny_is_no_finding() {
    for rules in [
        json!(["shell::which", "!shell::*"]),
        json!([{"function": "shell::exec", "action": "allow", "args": {"c": {"equals": "ls"}}}, "!shell::*"]),
        json!([
            {"function": "shell::exec", "action": "allow", "args": {"c": {"matches": "^git status$"}}},
            {"function": "shell::exec", "action": "deny", "args": {"c": {"matches": "rm"}}},
        ]),
        json!(["a::*", "!b::*"]),
        json!([
            {"function": "*::get", "action": "allow", "modes": ["manual"]},
            {"function": "secrets::*", "action": "deny", "modes": ["auto"]},
        ]),
    ] {
        assert_eq!(warnings(&rules), [], "{rules}");
    }
    let floor = json!(["*::get", {"function": "secrets::*", "action": "deny", "floor": true}]);
    assert_eq!(warnings(&floor), [], "nothing opens a floor");
}

#[test]
fn modes_and_floors_are_told() {
    assert_eq!(
        warnings(&json!([{"function": "a::b", "action": "deny", "modes": ["auto", "full"]}])),
        [(Some(0), "never_in_full")]
    );
    let floor = texts(&json!([{"function": "a::b", "action": "deny", "floor": true, "modes": ["auto"]}]));
    assert_eq!(floor, ["rule 0 `a::b` is a floor: it denies in mode auto only"]);
    let full = lint(&policy(&json!({"default_mode": "full", "rules": ["!a::b"]})));
    assert_eq!((full.found[0].name, full.found[0].index), ("default_mode_full", None));
}

#[test]
fn the_shipped_rules_are_in_order() {
    assert_eq!(lint(&Policy::from_value(&Policy::shipped_value()).unwrap()).found, []);
}

#[test]
fn a_secret_of_the_rules_is_not_held_up_as_an_example() {
    let rules = json!([
        {"function": "*::get", "action": "allow", "args": {"password": {"equals": "hunter2"}}},
        "!secrets::*",
    ]);
    let texts = texts(&rules).join("\n");
    assert!(texts.contains("<redacted>") && !texts.contains("hunter2"), "{texts}");
}

#[test]
fn a_long_list_is_compared_within_a_bound() {
    let rule = |n: usize| json!(format!("{}*{n}*", "*a".repeat(60)));
    let rules: Vec<_> = (0..300).map(|n| if n < 299 { rule(n) } else { json!(format!("!*b{n}")) }).collect();
    let before = std::time::Instant::now();
    let _ = lint(&policy(&json!({"rules": rules})));
    assert!(before.elapsed() < std::time::Duration::from_mins(2));
}

proptest! {
    #[test]
    fn a_rule_that_is_called_dead_decides_nothing(
        rules in prop::collection::vec(good_rule(), 0..12), id in id(), mode in mode(), arguments in arguments()
    ) {
        let policy = policy(&json!({"rules": rules}));
        let settings = Settings::fail_closed().with_mode(mode, 1);
        let verdict = decide(&Question { function_id: &id, arguments: &arguments }, &settings, &policy);
        if let Because::Rule { index, .. } = verdict.because {
            let dead = ["shadowed", "never_reached", "human_only"];
            let found = lint(&policy).found;
            let called_dead = found.iter().find(|lint| lint.index == Some(index) && dead.contains(&lint.name));
            prop_assert_eq!(called_dead, None);
        }
    }
}
