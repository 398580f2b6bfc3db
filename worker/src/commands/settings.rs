//! `approval-gate mode` and `grants`: what a session may do without being asked, and how each entry came to be.

use std::process::ExitCode;

use serde_json::json;

use super::peer::{Failure, Gate};
use super::prompts::policy_line;
use super::text::{columns, moment, padded, word};
use crate::cli::person::{GrantsChange, ModeWord, condition_text};
use crate::policy::settings::Mode;
use crate::wire::prompts::PromptSource;
use crate::wire::settings::{
    AlwaysAllowEntry, ApprovalSettings, ApprovedRuleEntry, GetSettingsResponse, GrantedBy, SettingsSource,
};

/// Prints a session's mode, or sets it first.
pub async fn mode(gate: &Gate, session: &str, mode: Option<ModeWord>) -> Result<ExitCode, Failure> {
    let in_force = match mode {
        None => gate.settings(session).await?,
        Some(mode) => {
            let request = json!({"session_id": session, "mode": wire(mode).as_str()});
            stored(gate.change("approval::set-mode", &request).await?.settings)
        }
    };
    Ok(super::print(&mode_line(&in_force)))
}

/// Prints the lists and rules of a session, or changes them first. Exit status 1 if an entry was not there to be removed.
pub async fn grants(gate: &Gate, session: &str, change: Option<GrantsChange>) -> Result<ExitCode, Failure> {
    let mut status = ExitCode::SUCCESS;
    match change {
        None => {}
        Some(GrantsChange::Clear) => {
            let cleared = gate.clear(session).await?.cleared;
            let said = if cleared { "cleared" } else { "there was nothing to clear" };
            super::print(&format!("{said}; the deployment's defaults are in force"));
        }
        Some(GrantsChange::Add { functions, every_mode }) => {
            let function = if every_mode { "approval::approve-always" } else { "approval::add-always-allow" };
            for id in functions {
                gate.change(function, &json!({"session_id": session, "function_id": id})).await?;
            }
        }
        Some(GrantsChange::Remove { functions }) => {
            let before = gate.settings(session).await?.settings;
            for id in functions {
                if let Some(why) = not_removable(&before, &id) {
                    eprintln!("approval-gate: {why}");
                    status = ExitCode::from(super::person::NOT_DONE);
                    continue;
                }
                let request = json!({"session_id": session, "function_id": id});
                gate.change("approval::remove-always-allow", &request).await?;
            }
        }
        Some(GrantsChange::RemoveRule { rules }) => {
            for rule in rules {
                if !gate.remove_rule(session, &rule).await?.removed {
                    eprintln!(
                        "approval-gate: {} is no rule of this session; rules go by their exact name",
                        word(&rule)
                    );
                    status = ExitCode::from(super::person::NOT_DONE);
                }
            }
        }
    }
    super::print(&lists(session, &gate.settings(session).await?));
    Ok(status)
}

/// Why there is nothing to take out of the auto list, if so.
fn not_removable(settings: &ApprovalSettings, id: &str) -> Option<String> {
    let listed = |list: &[AlwaysAllowEntry]| list.iter().any(|entry| entry.function_id == id);
    if listed(&settings.always_allow) {
        None
    } else if listed(&settings.approved_always) {
        let id = word(id);
        Some(format!(
            "{id} is approved in every mode; only `grants … clear` takes that back, with all other settings"
        ))
    } else if settings.approved_rules.iter().any(|entry| entry.rule["rule_id"] == *id) {
        Some(format!("{} is a rule; `grants … remove-rule` takes it back", word(id)))
    } else {
        Some(format!("{} is not in the list; entries are removed by their exact text", word(id)))
    }
}

/// The mode in force and where it comes from.
fn mode_line(in_force: &GetSettingsResponse) -> String {
    let mode = Mode::from(in_force.settings.mode).as_str();
    match (in_force.source, in_force.settings.mode_set_at) {
        (SettingsSource::Defaults, _) => format!("{mode}, the deployment's default"),
        (SettingsSource::Stored, ..=0) => {
            format!(
                "{mode}, never set for this session: the deployment's default when its settings were first changed"
            )
        }
        (SettingsSource::Stored, at) => format!("{mode}, set for this session at {}", moment(at)),
    }
}

/// Both lists and the rules, entry by entry.
fn lists(session: &str, in_force: &GetSettingsResponse) -> String {
    let settings = &in_force.settings;
    let sleeps = if settings.mode == crate::wire::settings::PermissionMode::Auto {
        ""
    } else {
        " (asleep: the mode is not auto)"
    };
    let mut lines = vec![format!("session {}: {}", word(session), mode_line(in_force))];
    if let Some(policy) = settings.prompt_policy {
        lines.push(format!("prompt policy: {}", policy_line(policy, PromptSource::Stored)));
    }
    lines.push("approved in every mode".to_owned());
    lines.extend(entries(&settings.approved_always));
    lines.push("approved in every mode if the arguments fit".to_owned());
    lines.extend(rules(&settings.approved_rules));
    lines.push(format!("allowed in auto mode{sleeps}"));
    lines.extend(entries(&settings.always_allow));
    lines.join("\n")
}

fn entries(list: &[AlwaysAllowEntry]) -> Vec<String> {
    if list.is_empty() {
        return vec!["  (none)".to_owned()];
    }
    let width = list.iter().map(|entry| columns(&word(&entry.function_id))).max().unwrap_or(0);
    let line = |entry: &AlwaysAllowEntry| {
        let from = origin(entry.granted_by, entry.granted_at);
        format!("  {}  {from}", padded(&word(&entry.function_id), width))
    };
    list.iter().map(line).collect()
}

/// Two lines a rule: its name and where it comes from, and what it allows, as it would be typed.
fn rules(list: &[ApprovedRuleEntry]) -> Vec<String> {
    if list.is_empty() {
        return vec!["  (none)".to_owned()];
    }
    let lines = |entry: &ApprovedRuleEntry| {
        let text = |field: &str| entry.rule[field].as_str().unwrap_or_default().to_owned();
        let arguments = entry.rule["args"].as_object().into_iter().flatten();
        let conditions = arguments.map(|(field, test)| format!(" {}", word(&condition_text(field, test))));
        let from = origin(entry.granted_by, entry.granted_at);
        [
            format!("  {}  {from}", word(&text("rule_id"))),
            format!("    {} {}", word(&text("function")), conditions.collect::<String>()),
        ]
    };
    list.iter().flat_map(lines).collect()
}

fn origin(by: GrantedBy, at: i64) -> String {
    let from = match by {
        GrantedBy::UserClick => "a person",
        GrantedBy::Seed => "a rule of the deployment",
    };
    if at > 0 { format!("{from}, {}", moment(at)) } else { from.to_owned() }
}

fn stored(settings: ApprovalSettings) -> GetSettingsResponse {
    GetSettingsResponse { settings, source: SettingsSource::Stored }
}

fn wire(mode: ModeWord) -> Mode {
    match mode {
        ModeWord::Manual => Mode::Manual,
        ModeWord::Auto => Mode::Auto,
        ModeWord::Full => Mode::Full,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::settings::PermissionMode;

    fn entry(function_id: &str, granted_at: i64, granted_by: GrantedBy) -> AlwaysAllowEntry {
        AlwaysAllowEntry { function_id: function_id.to_owned(), granted_at, granted_by }
    }

    fn settings() -> ApprovalSettings {
        ApprovalSettings {
            mode: PermissionMode::Manual,
            mode_set_at: 0,
            approved_always: vec![entry("deploy::run", 1_783_340_000_000, GrantedBy::UserClick)],
            always_allow: vec![
                entry("coder::*", 0, GrantedBy::Seed),
                entry("x\u{1b}[2J", 0, GrantedBy::UserClick),
            ],
            prompt_policy: Some(crate::wire::settings::PromptWord::Never),
            approved_rules: vec![ApprovedRuleEntry {
                rule: json!({"rule_id": "builds", "function": "shell::exec", "action": "allow",
                    "args": {"command": {"matches": "^make (test|lint)$"}, "n": {"equals": "5"}, "x\u{1b}[2J": {"equals": 1}}}),
                granted_at: 1_783_340_000_000,
                granted_by: GrantedBy::UserClick,
            }],
        }
    }

    #[test]
    fn both_lists_say_where_their_entries_come_from() {
        let in_force = GetSettingsResponse { settings: settings(), source: SettingsSource::Defaults };
        assert_eq!(
            lists("s_1", &in_force).lines().collect::<Vec<_>>(),
            [
                "session s_1: manual, the deployment's default",
                "prompt policy: never, set for this session",
                "approved in every mode",
                "  deploy::run  a person, 2026-07-06T12:13:20Z",
                "approved in every mode if the arguments fit",
                "  builds  a person, 2026-07-06T12:13:20Z",
                r#"    shell::exec  'command~^make (test|lint)$' 'n="5"' 'x\u{1b}[2J=1'"#,
                "allowed in auto mode (asleep: the mode is not auto)",
                "  'coder::*'    a rule of the deployment",
                r"  'x\u{1b}[2J'  a person",
            ]
        );
    }

    #[test]
    fn an_entry_that_cannot_be_removed_says_why() {
        assert_eq!(not_removable(&settings(), "coder::*"), None);
        assert!(not_removable(&settings(), "deploy::run").is_some_and(|why| why.contains("clear")));
        assert!(not_removable(&settings(), "builds").is_some_and(|why| why.contains("remove-rule")));
        assert!(not_removable(&settings(), "coder::x").is_some_and(|why| why.contains("exact text")));
    }

    #[test]
    fn the_mode_says_whether_it_was_set() {
        let line = |mode_set_at, source| {
            mode_line(&GetSettingsResponse {
                settings: ApprovalSettings { mode_set_at, ..settings() },
                source,
            })
        };
        assert_eq!(line(0, SettingsSource::Defaults), "manual, the deployment's default");
        assert!(line(0, SettingsSource::Stored).starts_with("manual, never set"));
        assert_eq!(
            line(1_783_340_000_000, SettingsSource::Stored),
            "manual, set for this session at 2026-07-06T12:13:20Z"
        );
    }
}
