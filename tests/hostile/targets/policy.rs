//! Configuration values: what is accepted decides as written, and what is not accepted says why.

use std::sync::LazyLock;

use approval_gate::policy::explain::{Explanation, ModeSource, explain};
use approval_gate::policy::lint::lint;
use approval_gate::policy::settings::Settings;
use approval_gate::policy::{Because, Decision, Policy, Question, Refusal, decide, screen};
use approval_gate::seed;
use approval_gate::seed::cases;
use approval_gate::wire::config::configuration_schema;
use approval_gate::wire::settings::StoredSettings;
use serde_json::{Value, json};

use super::{json as value_of, text};

/// Calls that are always asked about, whatever the input asks.
const CALLS: [&str; 6] =
    ["shell::exec", "approval::resolve", "harness::function::resolve", "a", "état::lire", "state::set"];
/// Patterns in front of a list, enough to have it searched by its index.
const PADDING: usize = 60;
/// Longest list of which every part is asked on its own.
const TAKEN_APART: usize = 12;

static SCHEMA: LazyLock<jsonschema::Validator> =
    LazyLock::new(|| jsonschema::draft7::new(&configuration_schema()).unwrap());

/// A row of a decision table as JSON: `{config, settings, call: {function_id, arguments}}`, or a configuration alone.
pub fn rules(bytes: &[u8]) {
    let row = value_of(bytes);
    let config = row.get("config").unwrap_or(&row);
    let policy = match Policy::from_value(config) {
        Ok(policy) => policy,
        Err(refusal) => return told(&refusal),
    };
    assert!(SCHEMA.is_valid(config), "accepted, and yet it could not be saved");
    assert!(!policy.is_locked_down());
    let written = config.get("rules").and_then(Value::as_array);
    assert!(written.is_none_or(|written| written.len() == policy.rules().len()));
    let stored = match StoredSettings::read(&row["settings"]) {
        StoredSettings::Record(settings) => settings,
        _ => policy.default_settings(0),
    };
    let arguments = &row["call"]["arguments"];
    for function_id in row["call"]["function_id"].as_str().into_iter().chain(CALLS) {
        let question = Question { function_id, arguments };
        let verdict = decide(&question, &stored, &policy);
        one_line(&verdict.denial_text());
        explained(&question, &stored, &policy, verdict.decision);
        if let Some(denied) = screen(&question) {
            assert_eq!((denied.decision, &denied), (Decision::Deny, &verdict));
            continue;
        }
        assert_eq!(decide(&question, &stored, &Policy::locked_down()).decision, Decision::Hold);
        by_rules_alone(&question, config, &policy);
    }
    if policy.rules().len() <= TAKEN_APART {
        let rules = policy.rules().len();
        for lint in lint(&policy).found {
            assert!(lint.index.is_none_or(|index| index < rules));
            one_line(&lint.what);
        }
    }
}

/// An explanation decides as the gate does, and stays short.
fn explained(question: &Question<'_>, settings: &Settings, policy: &Policy, decision: Decision) {
    let explanation = explain(question, settings, ModeSource::Stored, policy);
    assert_eq!(explanation.decision, decision);
    assert!(explanation.close.len() <= Explanation::MOST && explanation.accepted.len() <= Explanation::MOST);
    one_line(&explanation.reason);
    assert_eq!(explanation.denial.is_some(), decision == Decision::Deny);
    explanation.denial.iter().for_each(|denial| one_line(denial));
}

/// The first rule that fits decides, however long the list is.
fn by_rules_alone(question: &Question<'_>, config: &Value, policy: &Policy) {
    let settings = Settings { always_allow: Vec::new(), ..Settings::fail_closed() };
    let verdict = decide(question, &settings, policy);
    let Some(rules) =
        config.get("rules").and_then(Value::as_array).filter(|rules| rules.len() <= TAKEN_APART)
    else {
        return;
    };
    let of = |rules: Vec<Value>| {
        decide(question, &settings, &Policy::from_value(&json!({"rules": rules})).unwrap()).because
    };
    let padding = (0..PADDING).map(|number| json!(format!("!zz-{number}")));
    let behind_padding = of(padding.chain(rules.iter().cloned()).collect());
    match &verdict.because {
        Because::Rule { index, .. } => {
            assert_eq!(of(rules[..*index].to_vec()), Because::NoRule);
            assert_eq!(of(rules[..=*index].to_vec()), verdict.because);
            let Because::Rule { index: moved, .. } = behind_padding else {
                panic!("behind more rules the rule is not found: {behind_padding:?}");
            };
            assert_eq!(moved, index + PADDING);
        }
        other => assert_eq!((other, &Because::NoRule), (&behind_padding, other)),
    }
}

fn told(refusal: &Refusal) {
    assert!(!refusal.problems().is_empty());
    one_line(&refusal.to_string());
}

fn one_line(text: &str) {
    assert!(!text.is_empty() && text.len() <= 64 * 1024, "a message of {} bytes", text.len());
    assert!(!text.chars().any(char::is_control), "control characters in {text:?}");
}

/// A seed file as YAML, with an environment in which every variable is a secret.
pub fn seed_file(bytes: &[u8]) {
    const VARIABLE: &str = "zqsecret 7";
    let text = text(bytes);
    let environment = |name: &str| match name {
        "UNSET" => None,
        "LIMIT" => Some("5".to_owned()),
        "MODE" => Some("auto".to_owned()),
        _ => Some(VARIABLE.to_owned()),
    };
    for mistake in cases::parse(&text, &environment).err().into_iter().flatten() {
        one_line(&mistake.what);
        assert!(!mistake.what.contains(VARIABLE) || text.contains("zqsecret"), "{}", mistake.what);
        assert!(mistake.place.is_none_or(|(line, column)| line > 0 && column > 0));
    }
    match seed::parse(&text, &environment) {
        Ok(value) => {
            assert!(Policy::from_value(&value).is_ok(), "a seed that the gate would refuse: {value}");
            for field in Policy::shipped_value().as_object().unwrap().keys() {
                assert!(value.get(field).is_some(), "no {field}");
            }
        }
        Err(problem) => {
            let told = problem.to_string();
            one_line(&told);
            assert!(!told.contains(VARIABLE) || text.contains("zqsecret"), "the environment is told: {told}");
            let lines = text.split(['\n', '\r']).count() as u64;
            assert!(problem.place().is_none_or(|(line, column)| line <= lines + 1 && column > 0));
        }
    }
}
