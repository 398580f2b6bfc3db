//! A store with many holds in it.

use approval_gate::local::StateStore;
use serde_json::{Value, json};

pub fn record(at: usize) -> Value {
    json!({
        "session_id": format!("s_{}", at % 997), "turn_id": format!("t_{at}"), "function_call_id": format!("call_{at}"),
        "function_id": "shell::exec", "kind": "function", "depth": 0, "pending_at": 1_760_000_000_000 + at,
        "arguments_excerpt": {"command": "cargo", "args": ["test"], "cwd": "/srv/app"},
        "session_title": "mend the build",
        "hold_id": format!("{at:032x}:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"),
    })
}

fn key(at: usize) -> String {
    format!("s_{}/call_{at}", at % 997)
}

pub fn store(holds: usize) -> StateStore {
    let mut store = StateStore::default();
    for at in 0..holds {
        store.set("approval_pending", &key(at), record(at));
    }
    store
}
