#![allow(clippy::unwrap_used)]
use proptest::prelude::*;

use super::*;
use crate::policy::settings::{Additions, MAX_APPROVED_RULES, NotAdded, Settings};
use crate::policy::tests::mistakes;
use crate::policy::{Because, Decision, Policy, Question, decide};

fn understood(value: &Value) -> Result<ApprovedRule, RuleProblem> {
    ApprovedRule::understood(value, 7, GrantedBy::UserClick)
}

fn with(args: &Value) -> Value {
    json!({"function": "shell::exec", "args": args})
}

fn command(regex: &str) -> Value {
    with(&json!({"command": {"matches": regex}}))
}

#[test]
fn a_rule_is_named_after_its_content_and_written_as_a_configuration_has_it() {
    let rule = understood(&command("^make ")).unwrap();
    let other = understood(&command("^make test")).unwrap();
    assert!(rule.rule_id().starts_with("rule-") && rule.rule_id() != other.rule_id());
    assert_eq!(understood(&command("^make ")).unwrap().rule_id(), rule.rule_id());
    assert_eq!(
        rule.written(),
        json!({"rule_id": rule.rule_id(), "function": "shell::exec", "action": "allow",
               "args": {"command": {"matches": "^make "}}})
    );
    assert!(Policy::from_value(&json!({"rules": [rule.written()]})).is_ok());
    assert_eq!(understood(&rule.written()).unwrap(), rule);
}

#[test]
fn what_is_not_narrower_than_a_bare_grant_is_refused_by_its_field() {
    let equals = |value: Value| with(&json!({"command": {"equals": value}}));
    for (rule, field) in [
        (json!("shell::exec"), ""),
        (json!(null), ""),
        (json!({"function": "shell::exec"}), "args"),
        (with(&json!({})), "args"),
        (json!({"function": "shell::*", "args": {"command": {"equals": "ls"}}}), "function"),
        (json!({"function": "*", "args": {"command": {"equals": "ls"}}}), "function"),
        (json!({"function": "approval::resolve", "args": {"decision": {"equals": "allow"}}}), "function"),
        (json!({"function": "harness::filesystem::grant", "args": {"root": {"equals": "/"}}}), "function"),
        (json!({"function": "x".repeat(513), "args": {"command": {"equals": "ls"}}}), ""),
        (
            json!({"function": "shell::exec", "action": "deny", "args": {"command": {"equals": "ls"}}}),
            "action",
        ),
        (
            json!({"function": "shell::exec", "modes": ["auto"], "args": {"command": {"equals": "ls"}}}),
            "modes",
        ),
        (json!({"function": "shell::exec", "floor": false, "args": {"command": {"equals": "ls"}}}), "floor"),
        (equals(Value::Null), "args.command"),
        (with(&json!({"command": {"equals": "ls"}, "zone": {"matches": ".*"}})), "args.zone"),
    ] {
        assert_eq!(understood(&rule).unwrap_err().field, field, "{rule}");
    }
    for rule in [equals(json!("")), equals(json!(false)), equals(json!({})), equals(json!(["ls"]))] {
        assert!(understood(&rule).is_ok(), "{rule}");
    }
}

#[test]
fn a_regex_that_asks_for_nothing_is_refused() {
    for open in [
        "",
        ".*",
        "^.*$",
        "^",
        "$",
        "(?s).*",
        "x*",
        "(git)?",
        "^(git)?$",
        "a|",
        "[a-z]*",
        ".",
        ".+",
        "^.+",
        "(?s)^.{5,}",
        "[^x]",
        r"\w",
        r"\S",
        r"\d",
        "[[:print:]]",
        "[a-z].*[A-Z]|[A-Z].*[a-z]",
        "(?i)e",
        "git|.",
    ] {
        assert_eq!(understood(&command(open)).unwrap_err().field, "args.command", "{open}");
    }
    for narrow in
        ["^git (status|diff)$", "^make ", "^[a-z]+$", r"^[\w-]+$", r"^\d+$", "prod", "ok", "^y$", r"\.txt$"]
    {
        assert!(understood(&command(narrow)).is_ok(), "{narrow}");
    }
}

#[test]
fn every_mistake_of_a_rule_is_refused_here_too() {
    for mut mistake in mistakes() {
        if let Some(fields) = mistake.as_object_mut()
            && !fields.contains_key("args")
        {
            fields.insert("args".into(), json!({"command": {"equals": "ls"}}));
        }
        // Only `action` may be left out.
        if mistake != json!({"function": "a", "args": {"command": {"equals": "ls"}}}) {
            assert!(understood(&mistake).is_err(), "{mistake}");
        }
    }
}

#[test]
fn a_refusal_repeats_no_value() {
    for mut rule in [command("(zqmark"), command(&"zqmark".repeat(900)), command(".*|zqmark")] {
        let told = understood(&rule).unwrap_err();
        assert!(!told.to_string().contains("zqmark"), "{told}");
        rule["rule_id"] = " zqmark".into();
        rule["function"] = "zqmark*\n".into();
        rule["action"] = "zqmark".into();
        assert!(!understood(&rule).unwrap_err().to_string().contains("zqmark"));
        rule["action"] = "allow".into();
        assert!(!understood(&rule).unwrap_err().to_string().contains("zqmark"));
    }
    assert_eq!(
        understood(&command("(make")).unwrap_err().to_string(),
        "args.command: `matches` does not compile (unclosed group)"
    );
}

#[test]
fn a_record_proves_only_what_it_shows_as_it_came() {
    let rule = |args: Value| understood(&with(&args)).unwrap();
    let proven =
        |rule: &ApprovedRule, arguments: &Value| rule.proven_by("shell::exec", &redact::excerpt(arguments));
    let by_command = rule(json!({"command": {"matches": "^make "}}));
    assert_eq!(proven(&by_command, &json!({"command": "make test", "token": "s3cret"})), Ok(()));
    for arguments in [
        json!({"command": "rm -rf make "}),
        json!({"command": ["make test"]}),
        json!({"cmd": "make test"}),
        json!({"command": format!("make {}", "x".repeat(300))}),
        json!({"command": "make test --token s3cret-s3cret"}),
        json!({"command": "make test\nrm -rf ."}),
        json!({"command": "make \u{200b}test"}),
    ] {
        assert_eq!(proven(&by_command, &arguments).unwrap_err().field, "args.command", "{arguments}");
    }
    for arguments in [json!("make test"), json!(["make test"]), Value::Null] {
        assert_eq!(proven(&by_command, &arguments).unwrap_err().field, "args", "{arguments}");
    }
    let redacted = rule(json!({"token": {"equals": "<redacted>"}}));
    assert_eq!(proven(&redacted, &json!({"token": "s3cret"})).unwrap_err().field, "args.token");
    let deep = rule(json!({"env": {"equals": {"A": "1", "KEEP": [true, 2]}}}));
    assert_eq!(proven(&deep, &json!({"env": {"KEEP": [true, 2], "A": "1"}})), Ok(()));
    assert!(by_command.proven_by("shell::run", &json!({"command": "make test"})).is_err());
}

#[test]
fn an_approved_rule_counts_in_every_mode_behind_floors_and_doors_and_before_rules() {
    let policy = Policy::from_value(&json!({"rules": ["!shell::*",
        {"function": "shell::exec", "action": "deny", "args": {"zone": {"equals": "prod"}}, "floor": true}]}))
    .unwrap();
    let rule = understood(&command("^make ")).unwrap();
    let rule_id = Arc::clone(&rule.rule.rule_id);
    for mode in crate::policy::settings::Mode::ALL {
        let mut settings = policy.default_settings(0).with_mode(mode, 1);
        settings.additions = Additions::NONE.with_rule(rule.clone()).unwrap();
        let verdict = |function_id: &str, arguments: Value| {
            decide(&Question { function_id, arguments: &arguments }, &settings, &policy)
        };
        let allowed = verdict("shell::exec", json!({"command": "make test"}));
        assert_eq!(allowed.decision, Decision::Continue);
        if mode != crate::policy::settings::Mode::Full {
            assert_eq!(allowed.because, Because::ApprovedRule { entry: 0, rule_id: Arc::clone(&rule_id) });
            assert_eq!(verdict("shell::exec", json!({"command": "rm"})).decision, Decision::Deny);
            assert_eq!(verdict("shell::exec", json!("make test")).decision, Decision::Deny);
        }
        let floor = verdict("shell::exec", json!({"command": "make test", "zone": "prod"}));
        assert_eq!(floor.because.as_str(), "floor");
    }
    let settings =
        Settings { additions: Additions::NONE.with_rule(rule).unwrap(), ..Settings::fail_closed() };
    let question = Question { function_id: "shell::exec", arguments: &json!({"command": "make test"}) };
    assert_eq!(decide(&question, &settings, &Policy::locked_down()).because, Because::LockedDown);
}

#[test]
fn rules_are_added_once_under_one_name_and_are_bounded() {
    let (rule, again) = (
        understood(&command("^make ")).unwrap(),
        ApprovedRule::understood(&command("^make "), 9, GrantedBy::UserClick).unwrap(),
    );
    let once = Additions::NONE.with_rule(rule.clone()).unwrap();
    assert_eq!(once.clone().with_rule(again).unwrap(), once);
    let mut other = command("^ls");
    other["rule_id"] = rule.rule_id().into();
    assert_eq!(once.clone().with_rule(understood(&other).unwrap()), Err(NotAdded::NameInUse));
    assert!(once.clone().without_rule(rule.rule_id()).is_empty());
    assert_eq!(once.clone().without_rule("other"), once);
    let full = (0..MAX_APPROVED_RULES).fold(Additions::NONE, |all, n| {
        all.with_rule(understood(&command(&format!("^make t{n}$"))).unwrap()).unwrap()
    });
    assert_eq!(full.with_rule(rule), Err(NotAdded::TooMany));
}

proptest! {
    #[test]
    fn what_is_proven_by_the_record_fits_the_call_itself(
        arguments in prop::collection::btree_map("[ab]", prop_oneof![".{0,12}".prop_map(Value::from), Just(json!("a\\nb")), Just(json!("a\nb"))], 0..3),
        field in "[ab]", text in ".{1,6}",
    ) {
        let arguments = json!(arguments);
        for operator in ["equals", "matches"] {
            let operand = if operator == "equals" { text.clone() } else { regex::escape(&text) };
            if let Ok(rule) = understood(&with(&json!({&field: {operator: operand}})))
                && rule.proven_by("shell::exec", &redact::excerpt(&arguments)).is_ok()
            {
                prop_assert!(rule.fits("shell::exec", &arguments));
            }
        }
    }

    #[test]
    fn a_regex_that_is_taken_turns_some_text_away(regex in "[a-c.*+?^$|()\\[\\]]{0,8}") {
        if let Ok(rule) = understood(&command(&regex)) {
            let fits = |text: &str| rule.fits("shell::exec", &json!({"command": text}));
            prop_assert!(!fits(""));
            prop_assert!(!SAMPLES.iter().all(|sample| fits(sample)));
        }
    }
}
