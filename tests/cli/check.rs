//! `check`: what would be decided and why, and what is wrong or doubtful in a rules file.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

/// What a run printed, and its status.
pub struct Ran {
    pub status: i32,
    pub out: String,
    pub err: String,
}

/// A folder with a rules file in it.
pub struct Rules {
    folder: TempDir,
}

impl Rules {
    pub fn new(text: &str) -> Self {
        let rules = Self { folder: tempfile::tempdir().unwrap() };
        rules.write("gate.yaml", text);
        rules
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Runs `check --rules gate.yaml` in the folder.
    pub fn check(&self, arguments: &[&str]) -> Ran {
        self.check_with(arguments, &[])
    }

    pub fn check_with(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Ran {
        let mut command = Command::new(env!("CARGO_BIN_EXE_approval-gate"));
        command.args(["check", "--rules", "gate.yaml"]).args(arguments).current_dir(self.folder.path());
        command.envs(environment.iter().copied());
        let output = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ran { status: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
    }
}

/// Each of these is a line of the text, or part of one.
#[track_caller]
pub fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.lines().any(|line| line.contains(part)), "{part}\nin:\n{text}");
    }
}

const GATE: &str = r#"
rules:
  - function: "shell::exec"
    action: allow
    args:
      command: { matches: "^git (status|diff)$" }
  - function: "shell::*"
    action: allow
    modes: [auto]
    args:
      command: { matches: "^ls$" }
  - rule_id: no-prod
    function: "deploy::*"
    action: deny
    floor: true
    args:
      target: { equals: "prod" }
  - "state::get"
"#;

#[test]
fn a_call_is_decided_and_the_reason_told() {
    let ran = Rules::new(GATE).check(&["--mode", "full", "deploy::run", r#"{"target":"prod"}"#]);
    assert_eq!((ran.status, ran.err.as_str()), (0, ""));
    assert_eq!(
        ran.out,
        "deny      deploy::run\n  \
           why         floor rule 2 `no-prod` denies `deploy::run` because of its argument `target` (equals)\n  \
           step        5, floor\n  \
           mode        full, as given\n  \
           rule        2 `no-prod`, deny `deploy::*` (floor), gate.yaml:12:5\n\
         \x20               `target` equals \"prod\"; the call has \"prod\"\n"
    );
}

#[test]
fn a_held_call_shows_what_came_close_and_what_would_be_accepted() {
    let ran = Rules::new(GATE).check(&["shell::exec", r#"{"command":"ls"}"#]);
    assert_eq!(ran.status, 0);
    says(
        &ran.out,
        &[
            "hold      shell::exec",
            "step        9, no_rule",
            "mode        manual, the default",
            "came close  rule 0 allow `shell::exec`: the arguments do not fit",
            r#"`command` matches "^git (status|diff)$"; the call has "ls""#,
            "rule 1 allow `shell::*`: only in mode auto",
            "accepted    in mode auto, by rule 1 allow `shell::*`",
            r#"if `command` matches "^git (status|diff)$", by rule 0"#,
        ],
    );
}

#[test]
fn the_explanation_is_json_for_programs() {
    let ran = Rules::new(GATE).check(&["--json", "state::get"]);
    assert_eq!(ran.status, 0);
    let explanation: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(explanation["decision"], "continue");
    assert_eq!(explanation["rung"], json!({"number": 9, "name": "rule"}));
    assert_eq!(explanation["rule"]["index"], 3);
}

#[test]
fn the_file_is_what_the_worker_would_seed_from() {
    let rules = Rules::new("default_mode: ${CHECK_MODE}\n");
    let ran = rules.check_with(&["approval::resolve"], &[("CHECK_MODE", "full")]);
    says(&ran.out, &["deny      approval::resolve", "step        2, human_only_function"]);
    let ran = rules.check_with(&["web::fetch"], &[("CHECK_MODE", "full")]);
    says(&ran.out, &["continue  web::fetch", "mode        full, the default"]);
    let ran = rules.check(&["web::fetch"]);
    assert_eq!(ran.status, 1);
    says(&ran.err, &["gate.yaml:1:15: error: the environment variable `CHECK_MODE` is not set"]);
    assert_eq!(Rules::new(r#"{"rules": ["web::*"]}"#).check(&["web::fetch"]).status, 0, "JSON is YAML");
}

#[test]
fn the_examples_of_the_readme_print_what_it_says() {
    let readme = include_str!("../../README.md");
    let section = readme.split("## Checking rules\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let blocks = |kind: &str| -> Vec<&str> {
        let begin = format!("```{kind}\n");
        section.split(&begin).skip(1).map(|block| block.split("```").next().unwrap()).collect()
    };
    let rules = Rules::new(blocks("yaml")[0]);
    let examples = blocks("console");
    assert_eq!(examples.len(), 3);
    for example in examples {
        let (command, printed) = example.split_once('\n').unwrap();
        let arguments = command.strip_prefix("$ approval-gate check --rules gate.yaml").unwrap();
        // The arguments are words, and one JSON text in quotes.
        let (words, json) =
            arguments.split_once(" '").map_or((arguments, None), |(words, json)| (words, Some(json)));
        let mut arguments: Vec<&str> = words.split_whitespace().collect();
        arguments.extend(json.map(|json| json.trim_end_matches('\'')));
        assert_eq!(rules.check(&arguments).out, printed, "{command}");
    }
}

#[test]
fn every_mistake_is_told_with_its_place_and_what_was_meant() {
    let ran = Rules::new(
        r#"
defualt_mode: auto
rules:
  - "shell::* "
  - function: "shell::exec"
    action: alow
    modes: [auto, atuo]
    args:
      command:
        matches: "(rm|dd"
  - "!"
answerable: ["a::b", 7]
"#,
    )
    .check(&[]);
    assert_eq!((ran.status, ran.out.as_str()), (1, ""));
    says(
        &ran.err,
        &[
            "gate.yaml:2:1: error: unknown key `defualt_mode` (did you mean `default_mode`?)",
            "gate.yaml:4:5: error: rule 0 `shell::* `: the pattern has white space at an end",
            "gate.yaml:6:5: error: rule 1",
            "(did you mean `allow`?)",
            "gate.yaml:7:5: error: rule 1",
            "(did you mean `auto`?)",
            "gate.yaml:10:9: error: rule 1",
            "the regex `(rm|dd` on `command` does not compile (unclosed group)",
            "gate.yaml:11:5: error: rule 2 `!`: a lone `!` denies nothing",
            "gate.yaml:12:22: error: entry 1 of `answerable` must be a string, not a number",
            "gate.yaml: 7 mistakes",
        ],
    );
}

#[test]
fn text_that_is_no_yaml_names_its_line() {
    let ran = Rules::new("rules:\n  - !shell::*\n").check(&[]);
    assert_eq!(ran.status, 1);
    says(&ran.err, &["gate.yaml:2:", "must be in quotes"]);
}

#[test]
fn doubtful_rules_are_warnings_and_errors_only_if_asked_for() {
    let rules = Rules::new(
        r#"
rules:
  - "*::get"
  - "!secrets::*"
  - { function: "shell::exec", action: allow, args: { command: { matches: "git status" } } }
  - "state::get"
  - { function: "web::fetch", action: deny, modes: [full] }
"#,
    );
    let ran = rules.check(&[]);
    assert_eq!((ran.status, ran.err.as_str()), (0, ""));
    says(
        &ran.out,
        &[
            "gate.yaml:4:5: warning: rule 1 `secrets::*` does not deny all that it names: rule 0 `*::get` allows `secrets::get` first",
            "gate.yaml:5:5: warning: rule 2 `shell::exec` allows more than it looks",
            "gate.yaml:6:5: warning: rule 3 `state::get` never decides: rule 0 `*::get` fits every call first",
            "gate.yaml:7:5: warning: rule 4 `web::fetch` never decides: it is for mode full only",
            "gate.yaml: 5 rules, 4 warnings",
        ],
    );
    assert_eq!(rules.check(&["--strict"]).status, 1);
}

#[test]
fn a_file_without_doubts_says_so() {
    let ran = Rules::new("rules: ['state::get', '!payments::*']\n").check(&["--strict"]);
    assert_eq!((ran.status, ran.out.as_str()), (0, "gate.yaml: 2 rules, nothing doubtful\n"));
    let floor =
        Rules::new("rules: [{function: 'payments::*', action: deny, floor: true}]\n").check(&["--strict"]);
    assert_eq!(floor.status, 0, "a note is no warning");
    says(&floor.out, &["note: rule 0 `payments::*` is a floor: it denies in every mode"]);
}

#[test]
fn a_wrong_command_line_is_status_2() {
    let rules = Rules::new(GATE);
    for arguments in [
        &["shell::exec", "{not json"][..],
        &["--mode", "Auto", "shell::exec"],
        &["--mode", "auto"],
        &["--json"],
        &["--cases", "gate.yaml", "shell::exec"],
        &["--bogus"],
    ] {
        let ran = rules.check(arguments);
        assert_eq!((ran.status, ran.out.as_str()), (2, ""), "{arguments:?}");
        assert!(!ran.err.is_empty());
    }
    std::fs::remove_file(rules.write("gate.yaml", "")).unwrap();
    let ran = rules.check(&[]);
    assert_eq!(ran.status, 2);
    says(&ran.err, &["gate.yaml: cannot be read"]);
}

#[test]
fn neither_arguments_nor_files_can_forge_a_line_or_move_the_cursor() {
    let evil = "x\u{1b}[2K\r\ncontinue  shell::exec\u{202e}\u{9b}1A";
    let rules = Rules::new(&format!(
        "rules: {}\ncases: {}\n",
        json!([
            {"function": "a*", "rule_id": "r\u{200b}\u{202e}x", "action": "deny", "args": {evil: {"equals": evil}}},
            {"function": "b::*", "action": "allow", "args": {"c": {"matches": format!("^{evil}")}}},
        ]),
        json!([{"function": evil, "expect": "allow"}]),
    ));
    let arguments = json!({evil: evil, "c": evil}).to_string();
    let strange = rules.write("mistake.yaml", &format!("{}: 1\n", json!(evil)));
    let runs = [
        rules.check(&["a::b", &arguments]),
        rules.check(&["--json", "a::b", &arguments]),
        rules.check(&["b::c", &arguments]),
        rules.check(&[evil, "{}"]),
        rules.check(&[]),
        rules.check(&["--cases", "gate.yaml"]),
        rules.check(&["--cases", strange.to_str().unwrap()]),
    ];
    for (at, ran) in runs.iter().enumerate() {
        let text = format!("{}{}", ran.out, ran.err);
        assert!(text.len() > 20, "{at}");
        let hidden = |c: char| (c.is_control() && c != '\n') || ('\u{200b}'..='\u{202e}').contains(&c);
        assert!(!text.chars().any(hidden), "{at}: {text:?}");
        assert!(!text.lines().any(|line| line.starts_with("continue  shell")), "{at}: {text}");
    }
}

#[test]
fn a_secret_in_the_arguments_or_in_a_rule_is_not_printed() {
    let rules = Rules::new(
        r#"
rules:
  - { function: "login::*", action: deny, args: { password: { equals: "hunter2" } } }
  - { function: "http::*", action: allow, args: { header: { matches: "^Bearer abc" } } }
"#,
    );
    let token = r#"{"password":"hunter2","header":"Authorization: Bearer sk-live-51H8zzzzQQQQwwwwEEEE"}"#;
    for arguments in [&["login::now", token][..], &["http::get", token], &["--json", "login::now", token]] {
        let ran = rules.check(arguments);
        assert_eq!(ran.status, 0);
        assert!(!ran.out.contains("hunter2") && !ran.out.contains("51H8"), "{}", ran.out);
        assert!(ran.out.contains("<redacted>"), "{}", ran.out);
    }
}
