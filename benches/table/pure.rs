//! The pure core: verdicts and redaction, with no runtime at all.

use std::hint::black_box;

use approval_gate::policy::{self, Policy, Question};
use approval_gate::redact;
use serde_json::{Value, json};

use crate::report::{Table, times, typical};

/// Rules of the shapes that people write, none of which covers `wanted::call`, and one at the end that does.
pub fn rules(count: usize) -> Vec<Value> {
    let mut rules: Vec<Value> = (0..count - 1)
        .map(|at| match at % 10 {
            0 => json!({"function": format!("tool{at}::*"), "action": "allow", "modes": ["auto"]}),
            3 => json!({"function": format!("wanted::{at}*"), "action": "deny"}),
            5 => json!({"function": if at % 100 == 5 { "wanted::c*".to_owned() } else { format!("tool{at}::*") },
                        "action": "deny", "args": {"path": {"matches": format!("^/secret/{at}/[a-z]+$")}}}),
            7 => json!(format!("!*::delete-{at}")),
            8 => json!(format!("area{at}::*::read")),
            _ => json!(format!("tool{at}::call")),
        })
        .collect();
    rules.push(json!("wanted::call"));
    rules
}

pub fn measure(table: &mut Table) {
    let arguments = json!({"path": "/srv/app/readme.md", "depth": 2});
    let mut growth = Vec::new();
    for (count, most) in [(10, 0.3), (200, 1.0), (1_000, 4.0)] {
        let policy = Policy::from_value(&json!({"rules": rules(count)})).unwrap();
        let settings = policy.default_settings(0);
        let cost = |function_id: &str| {
            let question = Question { function_id, arguments: &arguments };
            typical(times(400), 200, || {
                black_box(policy::decide(black_box(&question), &settings, &policy));
            })
        };
        let (last, none, other) = (cost("wanted::call"), cost("wanted::nothing"), cost("unrelated::call"));
        growth.push(last.max(none));
        table.row(
            &format!("verdict, {count} rules, a tenth with a regular expression, every hundredth tried on this very call"),
            &format!("≤ {most} µs"),
            format!("last rule {last:.2} µs, none {none:.2} µs, id shared with no rule {other:.2} µs"),
            Some(last.max(none) <= most),
        );
    }
    let grown = growth[2] / growth[0];
    table.row(
        "verdict, growth from 10 to 1,000 rules",
        "≤ 10 ×",
        format!("{grown:.1} ×"),
        Some(grown <= 10.0),
    );
    redaction(table);
}

fn arguments_of(bytes: usize) -> Value {
    let line = "cargo build --workspace && ls -l /srv/app/target; echo 'done with it' # no secrets in here\n";
    let members =
        (0..).map(|at| (format!("step_{at}"), json!({"command": line, "cwd": "/srv/app", "retries": at})));
    let mut object = serde_json::Map::new();
    let mut size = 0;
    for (key, member) in members {
        size += member.to_string().len() + key.len() + 4;
        if size > bytes {
            break;
        }
        object.insert(key, member);
    }
    Value::Object(object)
}

fn redaction(table: &mut Table) {
    let small = arguments_of(4 * 1024);
    let size = small.to_string().len() as f64;
    let cost = typical(times(200), 20, || drop(black_box(redact::excerpt(black_box(&small)))));
    let rate = size / cost;
    let what = "redaction of a 4 KiB argument object";
    table.row(what, "≥ 200 MB/s", format!("{rate:.0} MB/s ({cost:.1} µs)"), Some(rate >= 200.0));
    let (fits, large) = (arguments_of(64 * 1024), arguments_of(5_000_000));
    let of_fitting = typical(times(40), 3, || drop(black_box(redact::excerpt(black_box(&fits)))));
    let of_large = typical(times(40), 3, || drop(black_box(redact::excerpt(black_box(&large)))));
    let text = json!({"text": "a line of prose that says nothing in particular\n".repeat(100_000)});
    let of_text = typical(times(40), 3, || drop(black_box(redact::excerpt(black_box(&text)))));
    table.row(
        "redaction of 5 MB in many members, and in one string, against 64 KiB (twice what an excerpt holds)",
        "the excerpt's cost",
        format!("{of_large:.0} µs and {of_text:.0} µs against {of_fitting:.0} µs"),
        Some(of_large <= 2.0 * of_fitting && of_text <= 2.0 * of_fitting),
    );
}
