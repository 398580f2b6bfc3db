//! The decision as a table (`tests/cases/policy.json`, extendable by any reader), and what must hold for all inputs.
#![allow(clippy::unwrap_used)]

use super::settings::{Additions, Grant, GrantedBy};
use super::*;
use proptest::prelude::*;

pub(crate) fn policy(value: &Value) -> Policy {
    match value {
        Value::String(word) if word == "locked_down" => Policy::locked_down(),
        other => Policy::from_value(other).unwrap(),
    }
}

fn grants(value: &Value) -> Vec<Grant> {
    let grant = |entry: &Value| {
        let seeded = entry.get("granted_by").is_some_and(|by| by == "seed");
        Grant {
            function_id: entry.as_str().or_else(|| entry["function_id"].as_str()).unwrap().to_owned(),
            granted_at: 1,
            granted_by: if seeded { GrantedBy::Seed } else { GrantedBy::UserClick },
        }
    };
    value.as_array().map(|list| list.iter().map(grant).collect()).unwrap_or_default()
}

pub(crate) fn settings(row: &Value, policy: &Policy) -> Settings {
    let stored = &row["settings"];
    if stored == "defaults" {
        return policy.default_settings(0);
    }
    Settings {
        mode: Mode::parse(stored["mode"].as_str().unwrap()).unwrap(),
        mode_set_at: 1,
        approved_always: grants(&stored["approved_always"]),
        always_allow: grants(&stored["always_allow"]),
        additions: Additions::NONE,
    }
}

/// The reason in the words of the table.
fn reason(because: &Because) -> String {
    match because {
        Because::ApprovedAlways { entry } => format!("approved_always {entry}"),
        Because::AlwaysAllow { entry, granted_by: GrantedBy::UserClick } => format!("always_allow {entry}"),
        Because::AlwaysAllow { entry, granted_by: GrantedBy::Seed } => format!("always_allow {entry} seed"),
        Because::Rule { index, .. } => format!("rule {index}"),
        other => other.as_str().to_owned(),
    }
}

/// The rows of the table.
pub(crate) fn table() -> Vec<Value> {
    let table: Vec<Value> = serde_json::from_str(include_str!("../../../tests/cases/policy.json")).unwrap();
    assert!(table.len() > 90, "the table has been cut short");
    table
}

#[test]
fn every_row_of_the_table_is_decided_as_it_says() {
    for row in table() {
        let policy = policy(&row["config"]);
        let function_id = row["call"]["function_id"].as_str().unwrap();
        let question = Question { function_id, arguments: &row["call"]["arguments"] };
        let verdict = decide(&question, &settings(&row, &policy), &policy);
        assert_eq!(verdict.decision.as_str(), row["expect"]["decision"], "{row}");
        assert_eq!(reason(&verdict.because), row["expect"]["because"].as_str().unwrap(), "{row}");
    }
}

fn decide_by(config: &Value, function_id: &str, arguments: &Value) -> Verdict {
    let policy = policy(config);
    decide(&Question { function_id, arguments }, &policy.default_settings(0), &policy)
}

#[test]
fn a_denial_names_the_rule_and_the_argument_but_never_its_value() {
    let config = json!({"rules": [{"rule_id": "no-root", "function": "shell::*", "action": "deny",
        "args": {"b": {"equals": "s3cret"}, "a": {"matches": "s3cret"}}}]});
    let verdict = decide_by(&config, "shell::exec", &json!({"a": "s3cret", "b": "s3cret"}));
    let text = verdict.denial_text();
    assert!(text.contains("`no-root`") && text.contains("`a` (matches)"), "{text}");
    assert!(!text.contains("s3cret") && !text.contains('\n'), "{text}");
    let Because::Rule { constraint: Some(constraint), .. } = verdict.because else {
        panic!("decided by a rule")
    };
    assert_eq!(
        (&*constraint.field, constraint.operator, &*constraint.value),
        ("a", "matches", &json!("s3cret"))
    );
}

#[test]
fn given_a_floor_when_a_mode_or_a_grant_or_an_earlier_rule_would_open_then_it_still_denies() {
    let config = json!({"rules": ["*", {"rule_id": "no-prod", "function": "deploy::*", "action": "deny",
        "args": {"target": {"equals": "prod"}}, "floor": true}]});
    let policy = policy(&config);
    for mode in Mode::ALL {
        let settings = policy
            .default_settings(0)
            .with_mode(mode, 1)
            .with_approved_always("*", 1)
            .with_always_allow("*", 1);
        let decided = |arguments: &Value| {
            decide(&Question { function_id: "deploy::run", arguments }, &settings, &policy)
        };
        let denied = decided(&json!({"target": "prod"}));
        assert_eq!((denied.decision, denied.because.as_str()), (Decision::Deny, "floor"));
        assert!(denied.denial_text().contains("`no-prod` (rule 1)"), "{}", denied.denial_text());
        assert_eq!(decided(&json!({"target": "test"})).decision, Decision::Continue);
    }
}

#[test]
fn given_prompts_are_disabled_when_a_call_would_wait_then_it_is_denied_and_nothing_else_changes() {
    let table: Vec<Value> = serde_json::from_str(include_str!("../../../tests/cases/policy.json")).unwrap();
    for row in table {
        let policy = policy(&row["config"]);
        let question = Question {
            function_id: row["call"]["function_id"].as_str().unwrap(),
            arguments: &row["call"]["arguments"],
        };
        let mut settings = settings(&row, &policy);
        let before = decide(&question, &settings, &policy);
        settings.additions.prompts = Some(PromptPolicy::Never);
        let verdict = decide(&question, &settings, &policy);
        if before.decision == Decision::Hold {
            assert_eq!(verdict, Verdict::new(Decision::Deny, Because::PromptsDisabled), "{row}");
        } else {
            assert_eq!(verdict, before, "{row}");
        }
    }
}

#[test]
fn a_session_s_prompt_policy_goes_before_the_deployment_s() {
    let unattended = policy(&json!({"prompt_policy": "never", "rules": []}));
    let decision = |prompts, policy: &Policy| {
        let settings =
            Settings { additions: Additions::NONE.with_prompts(prompts), ..Settings::fail_closed() };
        decide(&Question { function_id: "a::b", arguments: &Value::Null }, &settings, policy).decision
    };
    assert_eq!(decision(None, &unattended), Decision::Deny);
    assert_eq!(decision(Some(PromptPolicy::Ask), &unattended), Decision::Hold);
    for policy in [policy(&json!({"rules": []})), Policy::locked_down()] {
        assert_eq!(decision(None, &policy), Decision::Hold);
        assert_eq!(decision(Some(PromptPolicy::Never), &policy), Decision::Deny);
    }
    let text = Verdict::new(Decision::Deny, Because::PromptsDisabled).denial_text();
    assert!(text.contains("prompts are disabled in this session") && !text.contains('\n'), "{text}");
    for policy in PromptPolicy::ALL {
        assert!(!policy.statement().contains("  ") && policy.statement().ends_with('.'));
    }
}

#[test]
fn given_no_word_about_it_then_unattended_answerable_and_listeners_are_as_published() {
    let silent = policy(&json!({}));
    assert_eq!(silent.prompt_policy(), PromptPolicy::Ask);
    assert!(!silent.is_answerable("shell::exec") && !silent.require_listener());
    let told =
        policy(&json!({"prompt_policy": "never", "answerable": ["shell::*"], "require_listener": true}));
    assert_eq!(told.prompt_policy(), PromptPolicy::Never);
    assert!(
        told.is_answerable("shell::exec") && !told.is_answerable("state::get") && told.require_listener()
    );
}

#[test]
fn a_human_only_denial_says_so_in_the_word_that_consumers_look_for() {
    for (id, arguments) in [
        ("approval::resolve", json!({})),
        ("state::set", json!({"scope": "approval_settings", "value": "s3cret"})),
        ("engine::register_trigger", json!({"trigger_type": "harness::hook::pre-trigger"})),
    ] {
        let text = decide_by(&json!({}), id, &arguments).denial_text();
        assert!(text.contains("human_only_function") && !text.contains("s3cret"), "{text}");
    }
}

#[test]
fn the_text_for_an_id_that_is_none_does_not_repeat_it() {
    let text = decide_by(&json!({}), "shell::*", &Value::Null).denial_text();
    assert!(text.contains("wildcard") || text.contains("`*`"), "{text}");
    assert!(!text.contains("shell"), "{text}");
}

#[test]
fn only_allow_rules_that_name_auto_and_carry_no_args_seed() {
    let policy = policy(&json!({"rules": [
        {"function": "shell::exec", "action": "allow", "modes": ["auto"]},
        {"function": "state::get", "action": "allow", "modes": ["manual", "auto"]},
        {"function": "x::y", "action": "deny", "modes": ["auto"]},
        "plain::allow",
        {"function": "only::manual", "action": "allow", "modes": ["manual"]},
        {"function": "all::modes", "action": "allow"},
        {"function": "with::args", "action": "allow", "modes": ["auto"], "args": {"a": {"equals": 1}}},
        {"function": "with::empty-args", "action": "allow", "modes": ["auto"], "args": {}},
        {"function": "shell::exec", "action": "allow", "modes": ["auto", "full"]},
    ]}));
    let settings = policy.default_settings(7);
    let seeded: Vec<_> = settings.always_allow.iter().map(|grant| grant.function_id.as_str()).collect();
    assert_eq!(seeded, ["shell::exec", "state::get"]);
    assert!(
        settings
            .always_allow
            .iter()
            .all(|grant| (grant.granted_at, grant.granted_by) == (7, GrantedBy::Seed))
    );
    assert_eq!((settings.mode, settings.mode_set_at, settings.approved_always.len()), (Mode::Manual, 0, 0));
}

#[test]
fn absent_fields_take_the_shipped_defaults_and_an_empty_list_stays() {
    let shipped = policy(&Policy::shipped_value());
    let empty_object = policy(&json!({}));
    for policy in [&shipped, &empty_object] {
        assert_eq!((policy.default_mode(), policy.grant_reask_limit()), (Mode::Manual, 3));
        assert_eq!(policy.rules().iter().map(|rule| &*rule.pattern).collect::<Vec<_>>(), ["approval::*"]);
        assert!(!policy.is_locked_down());
    }
    assert!(policy(&json!({"rules": []})).rules().is_empty());
    assert_eq!(policy(&json!({"grant_reask_limit": 0})).grant_reask_limit(), 0);
}

pub(crate) mod properties {
    use super::*;

    pub(crate) fn id() -> impl Strategy<Value = String> {
        prop_oneof![
            prop::sample::select(vec!["approval", "configuration", "state", "shell", "a", "ab"])
                .prop_flat_map(|space| "[ab:]{0,4}".prop_map(move |name| format!("{space}::{name}"))),
            "[ab:]{1,6}",
        ]
    }

    /// JSON in which the words of the configuration are common.
    pub(crate) fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-2i64..5).prop_map(Value::from),
            "[a-c!* ]{0,4}".prop_map(Value::from),
            prop::sample::select(vec!["auto", "manual", "allow", "deny", "shell::*", "!x::*", "("])
                .prop_map(Value::from),
        ];
        let key = prop_oneof![
            prop::sample::select(vec![
                "rules",
                "default_mode",
                "grant_reask_limit",
                "function",
                "action",
                "modes",
                "args",
                "rule_id",
                "equals",
                "matches",
                "v",
            ])
            .prop_map(str::to_owned),
            "[a-c]{0,2}",
        ];
        leaf.prop_recursive(5, 40, 5, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::vec((key.clone(), inner), 0..5)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    /// A rule that is understood.
    pub(crate) fn good_rule() -> impl Strategy<Value = Value> {
        let modes = prop::sample::subsequence(vec!["manual", "auto", "full"], 1..=3);
        let constraint = prop_oneof![
            (0..2i64).prop_map(|n| json!({"equals": n})),
            "[ab]{1,2}".prop_map(|text| json!({"matches": text})),
        ];
        let args = prop::collection::btree_map("[vw]", constraint, 0..2);
        (
            "[ab*:]{0,5}".prop_map(|text| format!("a{text}").replace("a*b", "*b")),
            prop::sample::select(vec!["allow", "deny"]),
            prop::option::of(modes),
            prop::option::of(args),
            any::<bool>(),
        )
            .prop_map(|(function, action, modes, args, floor)| {
                let mut rule = json!({"function": function, "action": action});
                if floor {
                    rule["floor"] = json!(action == "deny");
                }
                if let Some(modes) = modes {
                    rule["modes"] = json!(modes);
                }
                if let Some(args) = args {
                    rule["args"] = json!(args);
                }
                rule
            })
    }

    pub(crate) fn arguments() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            prop::collection::btree_map(
                "[vw]",
                prop_oneof![(0..2i64).prop_map(Value::from), "[ab]{0,3}".prop_map(Value::from)],
                0..3
            )
            .prop_map(|fields| json!(fields)),
        ]
    }

    pub(crate) fn mode() -> impl Strategy<Value = Mode> {
        prop::sample::select(Mode::ALL.to_vec())
    }

    pub(crate) fn open_settings(mode: Mode) -> Settings {
        Settings::fail_closed().with_approved_always("*", 1).with_always_allow("*", 1).with_mode(mode, 1)
    }

    fn never() -> Rule {
        policy(&json!({"rules": ["!no::such::function"]})).rules()[0].clone()
    }

    /// The contract's sentence, word for word: the first rule whose pattern, modes and args all fit.
    fn first_match_by_hand(rules: &[Rule], id: &str, mode: Mode, arguments: &Value) -> Option<usize> {
        rules.iter().position(|rule| {
            pattern::matches(&rule.pattern, id)
                && rule.modes.as_ref().is_none_or(|modes| modes.contains(&mode))
                && rule
                    .constraints
                    .iter()
                    .all(|one| arguments.as_object().is_some_and(|fields| one.holds(fields)))
        })
    }

    proptest! {
        #[test]
        fn the_index_finds_the_first_match(
            rules in prop::collection::vec(good_rule(), 0..160), id in "[ab:]{0,6}", mode in mode(), arguments in arguments()
        ) {
            let policy = Policy::from_value(&json!({"rules": rules})).unwrap();
            let subject = Subject { function_id: &id, arguments: &arguments, mode };
            let found = policy.compiled.first_match(subject).map(|(index, _)| index);
            prop_assert_eq!(found, first_match_by_hand(policy.rules(), &id, mode, &arguments));
        }

        #[test]
        fn a_floor_denies_before_mode_and_grants_and_changes_nothing_else(
            rules in prop::collection::vec(good_rule(), 0..80), id in "[ab:]{1,6}", mode in mode(), arguments in arguments()
        ) {
            let without: Vec<_> = rules.iter().cloned().map(|mut rule| { rule["floor"] = json!(false); rule }).collect();
            let policy = |rules| Policy::from_value(&json!({"rules": rules})).unwrap();
            let (policy, plain) = (policy(rules), policy(without));
            let question = Question { function_id: &id, arguments: &arguments };
            let settings = open_settings(mode);
            let floors: Vec<_> = policy.rules().iter().map(|rule| if rule.floor { rule.clone() } else { never() }).collect();
            if let Some(at) = first_match_by_hand(&floors, &id, mode, &arguments) {
                let verdict = decide(&question, &settings, &policy);
                prop_assert_eq!(verdict.decision, Decision::Deny);
                let at_floor = matches!(verdict.because, Because::Rule { index, floor: true, .. } if index == at);
                prop_assert!(at_floor);
            } else {
                prop_assert_eq!(decide(&question, &settings, &policy), decide(&question, &settings, &plain));
            }
        }

        #[test]
        fn what_is_not_needed_of_the_arguments_makes_no_difference(
            rules in prop::collection::vec(good_rule(), 0..60), id in id(), mode in mode(),
            arguments in prop_oneof![json_value(), arguments()],
        ) {
            let policy = Policy::from_value(&json!({"rules": rules})).unwrap();
            let verdict = |arguments| {
                let settings = Settings::fail_closed().with_mode(mode, 1);
                decide(&Question { function_id: &id, arguments }, &settings, &policy)
            };
            let enough = match needed(&id, &arguments.to_string(), &policy) {
                Needed::Nothing => Value::Null,
                Needed::Members => {
                    let named = |(name, value): (&String, &Value)| policy.looks_at(name).then(|| (name.clone(), value.clone()));
                    arguments.as_object().map_or(Value::Null, |fields| fields.iter().filter_map(named).collect())
                }
                Needed::Whole => arguments.clone(),
            };
            prop_assert_eq!(verdict(&arguments), verdict(&enough));
        }

        #[test]
        fn human_only_denies_whatever_else_is_said(id in id(), mode in mode(), arguments in json_value()) {
            let policy = Policy::from_value(&json!({"rules": ["*"], "default_mode": "full"})).unwrap();
            let question = Question { function_id: &id, arguments: &arguments };
            let verdict = decide(&question, &open_settings(mode), &policy);
            let human_only = id.starts_with("approval::") || id.starts_with("configuration::");
            if human_only {
                prop_assert_eq!(verdict.because.as_str(), "human_only_function");
                prop_assert_eq!(verdict.decision, Decision::Deny);
            }
            prop_assert_eq!(screen(&question), (verdict.decision == Decision::Deny).then_some(verdict));
        }

        #[test]
        fn locked_down_never_continues(id in "[a-z:* \n]{0,10}", mode in mode(), arguments in json_value()) {
            let question = Question { function_id: &id, arguments: &arguments };
            let verdict = decide(&question, &open_settings(mode), &Policy::locked_down());
            prop_assert_ne!(verdict.decision, Decision::Continue);
        }

        #[test]
        fn settings_that_cannot_be_read_are_never_wider_than_any(
            rules in prop::collection::vec(good_rule(), 0..8), id in id(), arguments in arguments()
        ) {
            // Manual and no lists: only a rule for manual mode can let a call continue.
            let policy = Policy::from_value(&json!({"default_mode": "full", "rules": rules})).unwrap();
            let verdict = decide(&Question { function_id: &id, arguments: &arguments }, &Settings::fail_closed(), &policy);
            if verdict.decision == Decision::Continue {
                let by_an_allow = matches!(verdict.because, Because::Rule { action: Action::Allow, .. });
                prop_assert!(by_an_allow);
            }
        }

        #[test]
        fn any_json_is_understood_or_refused_without_a_panic(value in json_value()) {
            match Policy::from_value(&value) {
                Ok(policy) => prop_assert!(!policy.is_locked_down()),
                Err(refusal) => {
                    prop_assert!(!refusal.problems().is_empty());
                    prop_assert!(!refusal.to_string().contains('\n'));
                }
            }
        }

        #[test]
        fn one_rule_that_is_not_understood_refuses_the_value(
            mut rules in prop::collection::vec(good_rule(), 0..6), at in 0usize..6, bad in prop::sample::select(mistakes())
        ) {
            let at = at.min(rules.len());
            rules.insert(at, bad.clone());
            let refusal = Policy::from_value(&json!({"rules": rules})).unwrap_err();
            prop_assert!(refusal.problems().iter().all(|problem| problem.index == Some(at)), "{}", refusal);
        }
    }
}

#[test]
fn a_step_is_taken_behind_each_rule() {
    let mut steps = 0;
    Policy::from_value_in_steps(&json!({"rules": ["a::*", "!b", "c"]}), &mut || steps += 1).unwrap();
    assert_eq!(steps, 3);
}

/// Rules that are not understood, each by one mistake.
pub(crate) fn mistakes() -> Vec<Value> {
    serde_json::from_str(include_str!("../../../tests/cases/not-rules.json")).unwrap()
}
