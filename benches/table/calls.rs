//! What is asked of the gate: rules, payloads, and calls that it takes in without a socket.

use std::time::Duration;

use approval_gate::handlers::catalogue;
use approval_gate::iii::{Offline, Registry};
use approval_gate::local::StateStore;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::stand_in::{StandIn, context};

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

/// A call that is answered `continue`.
pub struct Continue {
    pub what: &'static str,
    configuration: Value,
    function_id: &'static str,
    arguments: Value,
    /// Whether it may be answered from a glance at its payload.
    pub short_cut: bool,
}

pub fn continues() -> [Continue; 4] {
    let plain = json!({"path": "/srv/app/readme.md", "range": {"from": 1, "to": 200}, "encoding": "utf-8"});
    let shell =
        json!({"command": "cargo", "args": ["build", "--workspace"], "cwd": "/srv/app", "timeout_ms": 60000});
    let full = || json!({"default_mode": "full"});
    let one = |what, configuration, function_id, arguments: &Value, short_cut| Continue {
        what,
        configuration,
        function_id,
        arguments: arguments.clone(),
        short_cut,
    };
    [
        one("mode full", full(), "docs::read", &plain, true),
        one(
            "10 rules, the last allows, one looks into the arguments",
            json!({"rules": rules(10)}),
            "wanted::call",
            &plain,
            true,
        ),
        one("mode full, a call that may describe another one", full(), "shell::exec", &shell, true),
        one("the same by the full reader, without the short cut", full(), "shell::exec", &shell, false),
    ]
}

impl Continue {
    /// A worker's inside that answers it, the guard of its answers, and the call's frame.
    pub async fn ready(&self) -> (Offline, JoinHandle<()>, String) {
        let context = context(&StandIn::new(self.configuration.clone(), StateStore::default())).await;
        let mut functions = catalogue(&context);
        if !self.short_cut {
            for function in &mut functions {
                function.on_the_spot = None;
            }
        }
        let (offline, guard) =
            Offline::new(Registry { functions, ..Registry::default() }, Duration::from_millis(5));
        (offline, tokio::spawn(guard), self.frame())
    }

    fn frame(&self) -> String {
        json!({
            "type": "invokefunction", "invocation_id": "0b9f9a0e-52c5-4ab4-a6c8-0c1fb4a4a6b1", "function_id": "approval::gate",
            "data": {
                "point": "pre_trigger", "session_id": "s_2f6c1a", "turn_id": "t_9a1b2c", "step": 4, "depth": 0,
                "metadata": {"fs_scope": {"root": "/srv/app"}, "channel": "console"},
                "call": {"id": "call_77aa", "function_id": self.function_id, "arguments": self.arguments},
            },
        })
        .to_string()
    }
}

/// In so many batches of so many calls each, with pauses between them as there are between calls, so that the guard keeps up.
pub async fn in_batches(
    call: &Continue,
    batches: usize,
    calls: u32,
    mut measured: impl FnMut(&mut dyn FnMut()),
) {
    const WARMING_UP: usize = 10;
    let (offline, guard, frame) = call.ready().await;
    for batch in 0..batches + WARMING_UP {
        let mut work = || (0..calls).for_each(|_| offline.receive(&frame));
        if batch < WARMING_UP {
            work();
        } else {
            measured(&mut work);
        }
        let written = offline.written();
        assert!(written.last().unwrap().to_text().unwrap().contains(r#""decision":"continue""#));
        tokio::time::sleep(Duration::from_millis(if batch % 20 == 0 { 12 } else { 0 })).await;
        drop(offline.written());
    }
    guard.abort();
}
