//! Every situation of `field-cases.json`, executed: its `given`, its steps, and each key of its `then`.
//!
//! A key, a step or a phrase that is not known fails the case, so nothing in the file can go unchecked without a word.

mod checks;
mod deliveries;
mod faults;
mod phrases;
mod prose;
mod steps;
mod world;

use serde_json::Value;

use crate::support::cases::field_cases;
use world::Case;

macro_rules! kinds {
    ($($test:ident: $($kind:literal),+;)+) => {
        $(
            #[test]
            fn $test() {
                on_a_deep_stack(|| play(&[$($kind),+]));
            }
        )+

        /// A new kind in the file would otherwise be skipped without a word.
        #[test]
        fn every_kind_is_played() {
            let known = [$($($kind),+),+];
            let unknown: Vec<_> = field_cases()
                .iter()
                .filter(|case| !known.contains(&case["kind"].as_str().unwrap()))
                .map(|case| case["id"].to_string())
                .collect();
            assert!(unknown.is_empty(), "no test plays {unknown:?}");
        }
    };
}

kinds! {
    human_only_targets: "human-only-target", "escalation-by-another-door";
    evaluation_and_rule_order: "evaluation-order", "rule-order";
    wildcards_and_identity: "wildcard-scope", "identity-comparison";
    argument_constraints: "argument-constraint";
    rules_not_understood: "rule-not-understood";
    configuration_reload: "configuration-reload";
    remembered_grants: "remembered-grant-scope", "seeded-allow";
    persistence_and_modes: "grant-persistence", "mode-change";
    redaction: "redaction-by-key", "redaction-by-value";
    clipping_and_spoofing: "clipping", "display-spoofing";
    exactly_once: "exactly-once-events", "one-release";
    decisions_on_the_right_call: "decision-on-the-right-call";
    restarts_and_reconnects: "restart-and-reconnect";
    cancelling_against_approving: "cancel-against-approve";
    failing_closed: "failing-closed";
    path_containment: "path-containment";
    folder_access: "folder-access", "sub-agents";
    tenancy_and_pages: "tenancy-filters", "pagination";
    floods: "flood-and-size";
    request_validation: "request-validation";
}

/// Cases about races say "repeated many times"; each repetition has a world of its own.
const REPEATED: [&str; 3] = ["FC-058", "FC-080", "FC-084"];
const REPETITIONS: usize = 5;

/// Writing a value out recurses, and one case nests 3,000 deep.
fn on_a_deep_stack<F: Future<Output = ()>>(test: impl FnOnce() -> F + Send) {
    const STACK: usize = 64 << 20;
    std::thread::scope(|scope| {
        let run = || {
            let mut runtime = tokio::runtime::Builder::new_multi_thread();
            runtime
                .worker_threads(2)
                .thread_stack_size(STACK / 4)
                .enable_all()
                .build()
                .unwrap()
                .block_on(test());
        };
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, run).unwrap();
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

async fn play(kinds: &[&str]) {
    let only = std::env::var("CASE").ok();
    let mut problems = Vec::new();
    for case in field_cases() {
        let id = case["id"].as_str().unwrap();
        let asked_for = only.as_deref().is_none_or(|only| only == id);
        if kinds.contains(&case["kind"].as_str().unwrap()) && asked_for {
            let times = if REPEATED.contains(&id) { REPETITIONS } else { 1 };
            for _ in 0..times {
                let found = play_one(&case).await;
                problems
                    .extend(found.into_iter().map(|problem| format!("{id} ({}): {problem}", case["title"])));
            }
        }
    }
    assert!(problems.is_empty(), "{} differences:\n{}", problems.len(), problems.join("\n"));
}

/// Plays a case, or each of its variants.
async fn play_one(case: &Value) -> Vec<String> {
    let Some(variants) = case["given"]["variants"].as_object() else {
        return Case::new(case).play(case["given"].get("config"), "").await;
    };
    let mut problems = Vec::new();
    for (variant, config) in variants {
        let found = Case::new(case).play(Some(config), variant).await;
        problems.extend(found.into_iter().map(|problem| format!("{variant}: {problem}")));
    }
    problems
}
