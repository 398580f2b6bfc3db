//! An explanation agrees with the gate, names what counted, and gives nothing away.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::policy::approved_rule::ApprovedRule;
use crate::policy::settings::Additions;
use crate::policy::tests::properties::{arguments, good_rule, id, json_value, mode, open_settings};
use crate::policy::tests::{policy, settings, table};

fn explained(config: &Value, mode: Mode, function_id: &str, arguments: &Value) -> Explanation {
    let policy = policy(config);
    let settings = policy.default_settings(0).with_mode(mode, 1);
    explain(&Question { function_id, arguments }, &settings, ModeSource::Given, &policy)
}

fn close(explanation: &Explanation) -> Vec<(usize, &'static str)> {
    explanation.close.iter().map(|close| (close.rule.index, close.miss.as_str())).collect()
}

#[test]
fn every_row_of_the_table_is_explained_by_the_step_that_it_names() {
    for row in table() {
        let policy = policy(&row["config"]);
        let function_id = row["call"]["function_id"].as_str().unwrap();
        let question = Question { function_id, arguments: &row["call"]["arguments"] };
        let explanation = explain(&question, &settings(&row, &policy), ModeSource::Stored, &policy);
        assert_eq!(explanation.decision.as_str(), row["expect"]["decision"], "{row}");
        let because = row["expect"]["because"].as_str().unwrap();
        let (step, index) =
            because.split_once(' ').map_or((because, None), |(step, index)| (step, Some(index)));
        let index = index.map(|index| index.trim_end_matches(" seed").parse().unwrap());
        match step {
            "rule" | "floor" => assert_eq!(explanation.rule.map(|rule| rule.index), index, "{row}"),
            "approved_always" | "always_allow" => {
                let entry = explanation.entry.unwrap();
                assert_eq!((entry.list, Some(entry.index)), (step, index), "{row}");
            }
            _ => assert!(explanation.rule.is_none() && explanation.entry.is_none(), "{row}"),
        }
        assert_eq!(explanation.rung.name, step, "{row}");
        assert!(explanation.accepted.is_empty() || explanation.decision != Decision::Continue, "{row}");
    }
}

#[test]
fn the_numbers_of_the_steps_are_those_of_the_readme() {
    let readme = include_str!("../../../../README.md");
    let ladder = readme.split("## Permission model").nth(1).unwrap();
    let cases = [
        ("full", "approval::resolve", json!({}), "Only a person"),
        ("full", "a b*", json!({}), "Ids that cannot key"),
        ("full", "denied::ever", json!({}), "floor"),
        ("full", "a", json!({}), "Mode **`full`**"),
        ("auto", "a::b", json!({}), "**`always_allow`**"),
        ("manual", "nobody", json!({}), "**Rules**"),
    ];
    let config = json!({"rules": [
        {"function": "denied::ever", "action": "deny", "floor": true},
        {"function": "a::b", "action": "allow", "modes": ["auto"]},
    ]});
    for (mode, id, arguments, step) in cases {
        let number = explained(&config, Mode::parse(mode).unwrap(), id, &arguments).rung.number.unwrap();
        let line = ladder.lines().find(|line| line.starts_with(&format!("{number}. "))).unwrap();
        assert!(line.contains(step), "{id}: {line}");
    }
}

#[test]
fn a_rule_shows_its_conditions_beside_the_arguments() {
    let config = json!({"rules": [{"rule_id": "no-prod", "function": "deploy::*", "action": "deny",
        "args": {"target": {"equals": "prod"}, "by": {"matches": "^bot"}}}]});
    let explanation =
        explained(&config, Mode::Manual, "deploy::run", &json!({"target": "prod", "by": "bot 7"}));
    let rule = explanation.rule.as_ref().unwrap();
    assert_eq!((rule.index, &*rule.rule_id, &*rule.pattern), (0, "no-prod", "deploy::*"));
    let shown: Vec<_> = explanation.constraints.iter().map(|one| (&*one.field, one.operator)).collect();
    assert_eq!(shown, [("by", "matches"), ("target", "equals")]);
    assert_eq!(explanation.constraints[0].operand, json!("^bot"));
    assert_eq!(explanation.constraints[0].compared, Some(json!("bot 7")));
    let reason = "rule 0 `no-prod` denies `deploy::run` because of its argument `by` (matches) and its argument `target` \
                  (equals)";
    assert_eq!(explanation.reason, reason);
}

#[test]
fn a_held_call_names_the_rules_that_came_close_and_what_would_be_accepted() {
    let config = json!({"rules": [
        {"function": "shell::exec", "action": "allow", "args": {"command": {"matches": "^git status$"}}},
        {"function": "shell::*", "action": "allow", "modes": ["auto"]},
        {"function": "shell::*", "action": "deny", "modes": ["auto"], "args": {"command": {"matches": "rm"}}},
        "state::get",
    ]});
    let explanation = explained(&config, Mode::Manual, "shell::exec", &json!({"command": "git diff"}));
    assert_eq!(explanation.rung, Rung { number: Some(9), name: "no_rule" });
    assert_eq!(close(&explanation), [(0, "arguments"), (1, "mode"), (2, "mode_and_arguments")]);
    assert_eq!(explanation.close[0].unmet[0].compared, Some(json!("git diff")));
    match &explanation.accepted[..] {
        [Accepted::InMode { mode: Mode::Auto, .. }, Accepted::WithArguments { rule, unmet }] => {
            assert_eq!((rule.index, &unmet[0].operand), (0, &json!("^git status$")));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_denial_says_what_would_be_accepted_by_names_and_never_by_values() {
    let config = json!({"rules": [
        {"rule_id": "git-read", "function": "shell::*", "action": "allow", "args": {"command": {"matches": "^git (log|status)$"}}},
        {"rule_id": "build", "function": "shell::*", "action": "allow", "modes": ["auto"], "args": {"command": {"equals": "make"}}},
        {"rule_id": "four", "function": "shell::*", "action": "allow",
         "args": {"a": {"equals": 1}, "b": {"equals": 1}, "c": {"equals": 1}, "d": {"equals": 1}}},
        {"rule_id": "five", "function": "shell::*", "action": "allow", "args": {"e": {"equals": 1}}},
        {"rule_id": "no-push", "function": "shell::*", "action": "deny", "args": {"command": {"matches": "push"}}},
        {"rule_id": "later", "function": "shell::*", "action": "allow", "args": {"command": {"equals": "x"}}},
        {"rule_id": "bare", "function": "bare::*", "action": "deny"},
        {"rule_id": "floor", "function": "deploy::*", "action": "deny", "floor": true},
    ]});
    let told = |function_id: &str, arguments: &Value| {
        let explanation = explained(&config, Mode::Manual, function_id, arguments);
        (explanation.decision, explanation.denial)
    };
    let denial = |function_id: &str, arguments: &Value| told(function_id, arguments).1.unwrap();
    assert_eq!(
        denial("shell::exec", &json!({"command": "git push", "a": 1})),
        "permission rule `no-push` (rule 4) denies this call because of its argument `command` (matches): choose another way, \
         or ask the user to change the rule; to a call with another `command` this rule does not apply; the allow rule \
         `git-read` covers calls whose `command` meets its condition; the allow rule `four` covers calls whose `b` and `c` \
         and `d` meet its conditions"
    );
    assert!(
        denial("shell::exec", &json!({"command": "push"}))
            .ends_with("`a` and `b` and `c` and others meet its conditions")
    );
    assert!(denial("bare::x", &json!({})).ends_with("or ask the user to change the rule"));
    assert!(denial("deploy::x", &json!({})).ends_with("or ask the user to change the rule"));
    assert!(denial("approval::resolve", &json!({})).starts_with("human_only_function"));
    assert_eq!(told("other::x", &json!({})), (Decision::Hold, None));
}

#[test]
fn a_way_in_words_leaves_no_condition_out() {
    let args: serde_json::Map<_, _> = (0..7).map(|n| (format!("f{n}"), json!({"equals": n}))).collect();
    let config = json!({"rules": [{"function": "a", "action": "allow", "args": args}]});
    let text = explained(&config, Mode::Manual, "a", &json!({})).accepted[0].text();
    assert!(text.starts_with("if `f0` equals 0 and `f1` equals 1"), "{text}");
    assert!(text.ends_with("and 2 more conditions, by rule 0 allow `a`"), "{text}");
}

#[test]
fn what_never_opens_is_not_offered() {
    let config = json!({"rules": [
        {"function": "shell::exec", "action": "allow", "args": {"command": {"equals": "ls"}}},
        {"function": "shell::*", "action": "deny", "floor": true},
        {"function": "shell::exec", "action": "allow", "modes": ["auto"]},
    ]});
    let explanation = explained(&config, Mode::Manual, "shell::exec", &json!({"command": "rm"}));
    assert_eq!(explanation.rung.name, "floor");
    assert_eq!(explanation.accepted, []);
    for id in ["approval::resolve", " "] {
        assert_eq!(explained(&config, Mode::Manual, id, &json!({})).accepted, []);
    }
}

#[test]
fn what_is_not_reached_is_told() {
    let config = json!({"rules": ["state::get", "!state::*"]});
    let by_rule = explained(&config, Mode::Manual, "state::get", &json!({}));
    assert_eq!(close(&by_rule), [(1, "not_reached")]);
    let by_mode = explained(&config, Mode::Full, "state::set", &json!({}));
    assert_eq!((by_mode.rung.name, close(&by_mode)), ("full_mode", vec![(1, "not_reached")]));
}

#[test]
fn an_approved_rule_is_told_with_its_name_and_its_conditions() {
    let policy = policy(&json!({"rules": ["!shell::*"]}));
    let rule =
        json!({"rule_id": "builds", "function": "shell::exec", "args": {"command": {"matches": "^make "}}});
    let rule = ApprovedRule::understood(&rule, 1, GrantedBy::UserClick).unwrap();
    let additions = Additions::NONE.with_rule(rule).unwrap();
    let settings = Settings { additions, ..policy.default_settings(0) };
    let question = Question { function_id: "shell::exec", arguments: &json!({"command": "make test"}) };
    let explanation = explain(&question, &settings, ModeSource::Default, &policy);
    assert_eq!((explanation.decision, explanation.rung.number), (Decision::Continue, Some(7)));
    let entry = explanation.entry.as_ref().unwrap();
    assert_eq!((entry.list, entry.index, entry.rule_id.as_deref()), ("approved_rules", 0, Some("builds")));
    assert_eq!(explanation.constraints[0].compared, Some(json!("make test")));
    assert_eq!(close(&explanation), [(0, "not_reached")]);
    assert!(explanation.reason.contains("`builds`") && explanation.reason.contains("`command` (matches)"));
    let told = serde_json::to_value(crate::wire::explanation::Explanation::from(explanation)).unwrap();
    assert_eq!(told["entry"]["constraints"][0]["operand"], "^make ");
    assert!(told.get("rule").is_none());
}

#[test]
fn where_nobody_is_asked_it_is_told_what_would_be_accepted() {
    let config = json!({"prompt_policy": "never", "rules": [
        {"function": "shell::*", "action": "allow", "modes": ["auto"]},
    ]});
    let explanation = explained(&config, Mode::Manual, "shell::exec", &json!({}));
    assert_eq!((explanation.decision, explanation.rung.name), (Decision::Deny, "prompts_disabled"));
    assert!(explanation.reason.contains("nobody is asked"), "{}", explanation.reason);
    assert_eq!(close(&explanation), [(0, "mode")]);
    assert!(matches!(explanation.accepted[..], [Accepted::InMode { mode: Mode::Auto, .. }]));
}

#[test]
fn a_slip_in_the_id_finds_the_rule_that_was_meant() {
    let config = json!({"rules": ["shell::exec", "state::*", "web::fetch"]});
    for (called, index) in [("shel::exec", 0), ("Shell::exec", 0), ("sate::get", 1), ("state:get", 1)] {
        let explanation = explained(&config, Mode::Manual, called, &json!({}));
        let expected = if called == "state:get" { vec![] } else { vec![(index, "spelling")] };
        assert_eq!(close(&explanation), expected, "{called}");
    }
}

#[test]
fn a_long_list_stays_short() {
    let rule = json!({"function": "a::*", "action": "allow", "args": {"x": {"equals": 1}}});
    let explanation = explained(&json!({"rules": vec![rule; 500]}), Mode::Manual, "a::b", &json!({"x": 2}));
    assert_eq!((explanation.close.len(), explanation.accepted.len()), (Explanation::MOST, Explanation::MOST));
}

#[test]
fn a_value_under_a_telling_name_is_shown_on_neither_side() {
    let rules = json!({"rules": [
        {"function": "a", "action": "deny", "args": {"password": {"equals": "hunter2"}}},
        {"function": "b", "action": "allow", "args": {"value": {"equals": "hunter2"}}},
        {"function": "c", "action": "deny", "args": {"command": {"equals": "login --password hunter2"}}},
    ]});
    for (id, arguments) in [
        ("a", json!({"password": "hunter2"})),
        ("b", json!({"name": "Authorization", "value": "hunter22"})),
        ("c", json!({"command": "login --password hunter2"})),
    ] {
        let explanation = explained(&rules, Mode::Manual, id, &arguments);
        assert!(explanation.rule.is_some() || !explanation.close.is_empty(), "{id}");
        let text = format!("{explanation:?}");
        assert!(!text.contains("hunter"), "{text}");
    }
}

proptest! {
    #[test]
    fn it_decides_as_the_gate_does(
        rules in prop::collection::vec(good_rule(), 0..60), id in id(), mode in mode(), arguments in arguments(), open in any::<bool>()
    ) {
        let policy = Policy::from_value(&json!({"rules": rules})).unwrap();
        let settings = if open { open_settings(mode) } else { policy.default_settings(0).with_mode(mode, 1) };
        let question = Question { function_id: &id, arguments: &arguments };
        let verdict = decide(&question, &settings, &policy);
        let explanation = explain(&question, &settings, ModeSource::Stored, &policy);
        prop_assert_eq!(explanation.decision, verdict.decision);
        let decided = match verdict.because { Because::Rule { index, .. } => Some(index), _ => None };
        prop_assert_eq!(explanation.rule.as_ref().map(|rule| rule.index), decided);
        prop_assert!(explanation.close.len() <= Explanation::MOST && explanation.accepted.len() <= Explanation::MOST);
        prop_assert!(!explanation.reason.contains('\n'));
        for accepted in &explanation.accepted {
            if let Accepted::InMode { mode, .. } = accepted {
                let there = decide(&question, &settings.clone().with_mode(*mode, 1), &policy);
                prop_assert_eq!(there.decision, Decision::Continue);
            }
        }
    }

    #[test]
    fn a_planted_secret_is_nowhere(secret in "Zq[0-9A-Za-z]{18}", other in json_value(), holds in any::<bool>()) {
        let operand = if holds { secret.clone() } else { format!("{secret}x") };
        let config = json!({"rules": [
            {"function": "f", "action": "allow", "args": {"api_key": {"equals": operand}}},
            {"function": "f", "action": "deny", "args": {"env": {"equals": format!("API_KEY={secret}")}}},
        ]});
        let arguments = json!({"api_key": secret, "env": format!("API_KEY={secret}"), "other": other});
        let explanation = explained(&config, Mode::Manual, "f", &arguments);
        prop_assert_eq!(explanation.denial.is_some(), explanation.decision == Decision::Deny);
        let text = format!("{explanation:?}");
        prop_assert!(!text.contains(&secret), "{}", text);
    }
}
