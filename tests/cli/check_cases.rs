//! `check --cases`: rules files that carry their own tests.

use crate::check::{Rules, says};

const TESTED: &str = r#"
rules:
  - "*::get"
  - rule_id: no-secrets
    function: "secrets::*"
    action: deny
  - { function: "shell::exec", action: allow, modes: [auto] }
cases:
  - { function: "state::get", expect: allow }
  - { function: "shell::exec", args: { command: "ls" }, expect: hold }
  - { function: "shell::exec", args: { command: "ls" }, mode: auto, expect: continue }
  - { function: "secrets::set", expect: deny }
"#;

#[test]
fn cases_that_all_hold_are_status_0() {
    let ran = Rules::new(TESTED).check(&["--cases", "gate.yaml"]);
    assert_eq!((ran.status, ran.out.as_str(), ran.err.as_str()), (0, "gate.yaml: 4 cases, all hold\n", ""));
}

#[test]
fn a_case_that_fails_is_explained_and_status_1() {
    let rules = Rules::new(TESTED);
    rules.write(
        "more.yaml",
        "- function: secrets::get\n  expect: deny\n- function: state::get\n  expect: allow\n",
    );
    let ran = rules.check(&["--cases", "more.yaml"]);
    assert_eq!(ran.status, 1);
    says(
        &ran.out,
        &[
            "more.yaml:1:3: case 0 failed: `secrets::get` should be deny, and is continue",
            "why         rule 0 `*::get` allows `secrets::get`",
            "came close  rule 1 `no-secrets`, deny `secrets::*`: would fit, but is not reached",
            "more.yaml: 2 cases, 1 failed",
        ],
    );
}

#[test]
fn the_mode_of_the_command_line_is_for_cases_that_name_none() {
    let rules = Rules::new(TESTED);
    rules.write("auto.yaml", "cases: [{function: 'shell::exec', expect: allow}, {function: 'shell::exec', mode: manual, expect: hold}]\n");
    assert_eq!(rules.check(&["--cases", "auto.yaml"]).status, 1);
    assert_eq!(rules.check(&["--cases", "auto.yaml", "--mode", "auto"]).status, 0);
}

#[test]
fn a_case_that_is_not_understood_never_counts_as_held() {
    for (text, said) in [
        ("- { function: a, expects: deny }\n", "cases.yaml:1:18: error: case 0: unknown key `expects`"),
        (
            "- { function: a, expect: denied }\n",
            "cases.yaml:1:18: error: case 0: `expect` has the unknown value `denied`",
        ),
        ("cases: []\n", "cases.yaml: error: there are no cases in it"),
        ("rules: []\n", "cases.yaml: error: there are no cases in it"),
        ("case: []\n", "cases.yaml:1:1: error: unknown key `case` (did you mean `cases`?)"),
    ] {
        let rules = Rules::new(TESTED);
        rules.write("cases.yaml", text);
        let ran = rules.check(&["--cases", "cases.yaml"]);
        assert_eq!((ran.status, ran.out.as_str()), (1, ""), "{text}");
        says(&ran.err, &[said]);
    }
}

#[test]
fn cases_beside_the_rules_are_read_when_the_file_is_looked_at() {
    let rules = Rules::new(&TESTED.replace("expect: deny", "expect: dney"));
    let ran = rules.check(&[]);
    assert_eq!(ran.status, 1);
    says(&ran.err, &["(did you mean `deny`?)"]);
    assert_eq!(rules.check(&["state::get"]).status, 0, "a call is decided by the rules alone");
}

#[test]
fn a_doubtful_rule_fails_the_cases_if_asked_for() {
    let rules = Rules::new(TESTED);
    let ran = rules.check(&["--cases", "gate.yaml", "--strict"]);
    assert_eq!(ran.status, 1);
    says(&ran.err, &["there are warnings"]);
}
