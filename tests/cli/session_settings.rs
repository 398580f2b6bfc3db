//! `mode`, `grants`, and what needs no engine: `completions` and the help.

use super::shell::run;
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
        assert!(ran.well().contains("inbox") && ran.out.contains("always-this-function"), "{shell}");
    }
    for command in ["inbox", "show", "allow", "deny", "mode", "grants", "completions"] {
        let ran = run(&nowhere, &[command, "--help"]).await;
        assert!(ran.well().contains(&format!("Examples:\n  approval-gate {command}")), "{}", ran.out);
        assert!(!ran.out.contains('\u{1b}'));
    }
}
