//! `mode`, `grants`, and what needs no engine: `completions` and the help.

use serde_json::json;

use super::shell::run;
use super::support::siblings::RESOLVE;
use super::support::stage::SETTINGS;
use super::support::{Stage, engine};

#[tokio::test]
async fn a_mode_is_shown_with_where_it_comes_from_and_set() {
    let stage = Stage::start().await;
    let url = stage.engine.url();
    assert_eq!(run(&url, &["mode", "s_1"]).await.well(), "manual, the deployment's default\n");
    assert!(run(&url, &["mode", "s_1", "auto"]).await.well().starts_with("auto, set for this session at 2"));
    assert!(run(&url, &["mode", "s_1"]).await.well().starts_with("auto, set for this session"));
    run(&url, &["mode", "s_1", "turbo"]).await.ended(2);
}

#[tokio::test]
async fn grants_are_added_listed_removed_and_cleared() {
    let stage = Stage::start().await;
    let url = stage.engine.url();
    run(&url, &["grants", "s_1", "add", "coder::*", "web::get"]).await.well();
    let ran = run(&url, &["grants", "s_1", "add", "deploy::run", "--every-mode"]).await;
    let listed: Vec<&str> =
        ran.well().lines().skip(1).map(|line| line.split("  a person").next().unwrap()).collect();
    assert_eq!(
        listed,
        [
            "approved in every mode",
            "  deploy::run",
            "approved in every mode if the arguments fit",
            "  (none)",
            "allowed in auto mode (asleep: the mode is not auto)",
            "  'coder::*'",
            "  web::get  "
        ]
    );
    let ran = run(&url, &["grants", "s_1", "remove", "coder::*", "deploy::run"]).await;
    assert!(ran.ended(1).err.contains("only `grants … clear` takes that back"), "{ran:?}");
    assert!(!ran.out.contains("coder"), "{ran:?}");
    let cleared = run(&url, &["grants", "s_1", "clear"]).await;
    assert!(cleared.well().starts_with("cleared; the deployment's defaults are in force\n"), "{cleared:?}");
    assert!(run(&url, &["grants", "s_1", "clear"]).await.well().starts_with("there was nothing to clear"));
}

#[tokio::test]
async fn a_prompt_policy_is_shown_with_its_statement_set_and_given_back() {
    let stage = Stage::start().await;
    let url = stage.engine.url();
    let ran = run(&url, &["prompts", "s_1"]).await;
    assert!(
        ran.well().starts_with("ask, the deployment's default\nstatement for a system prompt:\n  "),
        "{ran:?}"
    );
    let ran = run(&url, &["prompts", "s_1", "never"]).await;
    assert!(
        ran.well().starts_with("never, set for this session\n") && ran.out.contains("Nobody can be asked"),
        "{ran:?}"
    );
    assert_eq!(stage.gate("s_1", "c_1", "shell::exec", json!({})).await, "deny");
    let listed = run(&url, &["grants", "s_1"]).await;
    assert!(listed.well().contains("\nprompt policy: never, set for this session\n"), "{listed:?}");
    let ran = run(&url, &["prompts", "s_1", "default"]).await;
    assert!(ran.well().starts_with("ask, the deployment's default\n"), "{ran:?}");
    assert_eq!(stage.row(SETTINGS, "s_1").await, json!(null), "the session says nothing any more");
    run(&url, &["prompts", "s_1", "sometimes"]).await.ended(2);
}

#[tokio::test]
async fn a_rule_made_from_a_held_call_is_listed_and_taken_back() {
    let stage = Stage::start().await;
    let url = stage.engine.url();
    let make = |what: &str| json!({"command": format!("make {what}"), "cwd": "/srv"});
    assert_eq!(stage.gate("s_1", "c_1", "shell::exec", make("test")).await, "hold");
    let typed =
        ["allow", "s_1", "c_1", "--always-where", "command~^make (test|lint)$", "--always-where", "cwd=/srv"];
    let ran = run(&url, &typed).await;
    let after = ran.well().split("`grants s_1 remove-rule ").nth(1).unwrap_or_else(|| panic!("{ran:?}"));
    let name = after.split('`').next().unwrap();
    assert_eq!(stage.gate("s_1", "c_2", "shell::exec", make("lint")).await, "continue");
    assert_eq!(stage.gate("s_1", "c_3", "shell::exec", make("deploy")).await, "hold");
    let listed = run(&url, &["grants", "s_1"]).await;
    assert!(
        listed.well().contains(&format!("\n  {name}  a person, "))
            && listed.out.contains("\n    shell::exec  'command~^make (test|lint)$' cwd=/srv\n"),
        "{listed:?}"
    );
    let removed = run(&url, &["grants", "s_1", "remove-rule", "rule-x", name]).await;
    assert!(removed.ended(1).err.contains("rule-x is no rule of this session"), "{removed:?}");
    assert!(!removed.out.contains(name), "{removed:?}");
    assert_eq!(stage.gate("s_1", "c_4", "shell::exec", make("lint")).await, "hold");
}

#[tokio::test]
async fn a_rule_that_the_worker_refuses_leaves_the_call_held_and_says_what_to_do() {
    let stage = Stage::start().await;
    let url = stage.engine.url();
    stage.gate("s_1", "c_1", "shell::exec", json!({"command": "make test", "password": "x"})).await;
    for (condition, told) in [
        ("command~^make lint$", "approval/rule_mismatch: rule.args.command: does not hold"),
        ("password=x", "approval/rule_mismatch: rule.args.password"),
        ("command~^.*$", "approval/invalid_payload: rule.args.command"),
        ("command~(", "approval/invalid_payload: rule.args.command"),
    ] {
        let ran = run(&url, &["allow", "s_1", "c_1", "--always-where", condition]).await;
        assert!(
            ran.ended(1).out.contains(told) && ran.out.contains("; still held. "),
            "{condition}: {ran:?}"
        );
    }
    for half in [
        vec!["--always-where", "command"],
        vec!["--always-where", "command=a", "--always-where", "command~a"],
        vec!["--always-where", "command=a", "--always-this-function"],
    ] {
        let ran = run(&url, &[vec!["allow", "s_1", "c_1"], half].concat()).await;
        assert!(!ran.ended(2).err.is_empty(), "{ran:?}");
    }
    assert!(stage.siblings.asked_of(RESOLVE, "s_1").is_empty(), "it is still held");
    assert_eq!(stage.row(SETTINGS, "s_1").await, json!(null), "nothing was remembered");
}

#[tokio::test]
async fn what_the_worker_refuses_is_told_with_its_field() {
    let stage = Stage::start().await;
    let ran = run(&stage.engine.url(), &["grants", "s_1", "add", "approval::resolve"]).await;
    assert!(ran.ended(1).err.starts_with("approval-gate: approval/invalid_payload: function_id:"), "{ran:?}");
}

#[tokio::test]
async fn completions_and_help_need_no_engine() {
    let nowhere = format!("ws://127.0.0.1:{}", engine::free_port());
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let ran = run(&nowhere, &["completions", shell]).await;
        assert!(
            ran.well().contains("inbox")
                && ["always-where", "prompts", "remove-rule"].iter().all(|word| ran.out.contains(word)),
            "{shell}"
        );
    }
    for command in ["inbox", "show", "allow", "deny", "mode", "prompts", "grants", "completions"] {
        let ran = run(&nowhere, &[command, "--help"]).await;
        assert!(ran.well().contains(&format!("Examples:\n  approval-gate {command}")), "{}", ran.out);
        assert!(!ran.out.contains('\u{1b}'));
    }
}
