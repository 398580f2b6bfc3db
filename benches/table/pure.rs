//! The pure core: verdicts and redaction, with no runtime at all.

use std::hint::black_box;

use approval_gate::policy::{self, Policy, Question};
use approval_gate::redact;
use serde_json::{Value, json};

use crate::calls::rules;
use crate::report::{Table, times, typical};

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
    repeated(&[json!({"command": line, "cwd": "/srv/app", "retries": 3})], bytes)
}

/// Calls as they come: commands, edits, prose, lists of arguments, a query, and every now and then a secret.
fn mixed_arguments(bytes: usize) -> Value {
    let calls = [
        json!({"command": "cargo build --workspace && ls -l /srv/app/target; echo 'done with it'\n", "cwd": "/srv/app"}),
        json!({"command": "curl -sS -H 'Authorization: Bearer Zq9XkT4vLm2RtY7wHj5s' https://api.example.test/v1/deployments?limit=20 | jq .items",
               "timeout_ms": 30_000}),
        json!({"path": "/srv/app/src/session_store.rs", "old_text": "    let path = root.join(id);\n    fs::read(&path).await\n",
               "new_text": "    let path = root.join(sanitised(id)?);\n    fs::read(&path).await.map_err(Error::Read)\n"}),
        json!({"message": "The build failed on the second run because the cache directory was not writable for the user that runs the \
                           tests. I changed its owner and ran everything again; please look at the two warnings about unused imports.",
               "labels": ["build", "needs review"]}),
        json!({"command": "docker compose up -d --build && DATABASE_PASSWORD=hunter2 ./bin/migrate --env production",
               "env": {"RUST_LOG": "info", "API_KEY": "k-1234567890"}}),
        json!({"argv": ["git", "commit", "-m", "Store sessions under sanitised names", "--author", "kim <kim@example.test>"]}),
        json!({"query": "SELECT id, state FROM deployments WHERE state = 'failed' ORDER BY created_at DESC LIMIT 20"}),
    ];
    repeated(&calls, bytes)
}

/// Nothing but secrets, so that every rule has work to do.
fn hostile_arguments(bytes: usize) -> Value {
    let calls = [
        json!({"command": "mysql -u root -phunter2 app; DEPLOY_TOKEN=abc A_SECRET='a b' ls --api-key k1", "token": "a"}),
        json!({"command": "curl -u kim:pw -H 'Cookie: a=b; c=d' https://u:p@h.test/?access_token=abc; echo pw | sudo -S id"}),
        json!({"body": "{\"name\": \"Authorization\", \"value\": \"abc\", \"list\": [\"--token\", \"x\"]}"}),
        json!({"sql": "CREATE USER u IDENTIFIED BY 'hunter2'", "text": "ghp_0123456789abcdef0123 AKIAIOSFODNN7EXAMPLE"}),
    ];
    repeated(&calls, bytes)
}

/// An object of so many bytes with these members over and over.
fn repeated(calls: &[Value], bytes: usize) -> Value {
    let mut object = serde_json::Map::new();
    let mut size = 0;
    for at in 0.. {
        let (key, member) = (format!("step_{at}"), calls[at % calls.len()].clone());
        size += member.to_string().len() + key.len() + 4;
        if size > bytes {
            break;
        }
        object.insert(key, member);
    }
    Value::Object(object)
}

/// An edit of a file: a path and two pieces of code.
fn edit(bytes: usize) -> Value {
    let code = "    /// Reads one session from the store.\n    pub async fn read(&self, id: &str) -> Result<Session, Error> {\n        \
                let place = self.root.join(id);\n        let text = fs::read(&place).await.map_err(Error::Read)?;\n        \
                serde_json::from_slice(&text).map_err(Error::Parse)\n    }\n\n";
    let piece = |bytes: usize| code.chars().cycle().take(bytes).collect::<String>();
    let half = bytes / 2 - 64;
    json!({"path": "/srv/app/src/session_store.rs", "old_text": piece(half), "new_text": piece(half)})
}

/// A message of prose.
fn message(bytes: usize) -> Value {
    let prose = "The build failed on the second run because the cache directory was not writable for the user that runs the \
                 tests. I changed its owner and ran everything again; please look at the two warnings about unused imports. ";
    json!({"channel": "builds", "text": prose.chars().cycle().take(bytes - 64).collect::<String>()})
}

fn redaction(table: &mut Table) {
    for (what, arguments, least) in [
        ("an edit of a file", edit(4 * 1024), Some(200.0)),
        ("a message", message(4 * 1024), Some(200.0)),
        ("28 small commands in objects of their own", arguments_of(4 * 1024), Some(200.0)),
        ("mixed small calls, some with secrets", mixed_arguments(4 * 1024), Some(200.0)),
        ("nothing but secrets", hostile_arguments(4 * 1024), None),
    ] {
        let what = format!("redaction of a 4 KiB argument object: {what}");
        let size = arguments.to_string().len() as f64;
        let cost = typical(times(200), 20, || drop(black_box(redact::excerpt(black_box(&arguments)))));
        let rate = size / cost;
        let target = least.map_or("none".to_owned(), |least| format!("≥ {least} MB/s"));
        let met = least.map(|least| rate >= least);
        table.row(&what, &target, format!("{rate:.0} MB/s ({cost:.1} µs)"), met);
    }
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
