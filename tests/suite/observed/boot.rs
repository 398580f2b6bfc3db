//! The boot observations: each has its own engine.
//!
//! What the published worker *sent* at boot is not compared: it registered with an initial value, and ours must not
//! (contract §9). What is stored afterwards, and how the gate answers, is.

use std::time::Duration;

use serde_json::{Value, json};

use super::{as_json, wanted};
use crate::support::cases::observations;
use crate::support::engine::{Engine, free_port};
use crate::support::peer::Peer;
use crate::support::siblings::Siblings;
use crate::support::stage::{ENTRY, hook, register_entry};
use crate::support::values::differences;
use crate::support::wait::eventually;
use crate::support::worker::Worker;

pub const AREA: &str = "boot";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn boot() {
    let mut problems = Vec::new();
    for line in observations() {
        let id = line["id"].as_str().unwrap();
        if line["area"] == AREA && wanted(id) {
            let got = boot_once(&line["call"]).await;
            let expected = expected(id, &line["observed"]);
            problems.extend(differences(&expected, &got).into_iter().map(|found| format!("{id}{found}")));
        }
    }
    assert!(problems.is_empty(), "{} differences:\n{}", problems.len(), problems.join("\n"));
}

fn expected(id: &str, observed: &Value) -> Value {
    let mut expected = observed.clone();
    let fields = expected.as_object_mut().unwrap();
    fields.remove("calls_sent");
    fields.remove("exit_code");
    if id.starts_with("boot-stored-bad") || id == "boot-stored-string" {
        // Locked down (contract §1): up, nothing overwritten, everything holds, human-only stays denied.
        expected["ready"] = true.into();
        for key in ["gate", "gate_web"] {
            expected[key] = json!({"result": {"decision": "hold"}});
        }
        expected["gate_human"] =
            json!({"result": {"decision": "deny", "reason": "<text naming human_only_function>"}});
    }
    expected
}

async fn boot_once(call: &Value) -> Value {
    let place = tempfile::tempdir().unwrap();
    let port = free_port();
    let url = format!("ws://127.0.0.1:{port}");
    let seed = call["seed"].as_str().map(|text| {
        let path = place.path().join("seed.yaml");
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    });
    let mut arguments = vec!["--url", &url];
    if let Some(path) = &seed {
        arguments.extend(["--config", path]);
    }
    let early = match call["engine_late_ms"].as_u64() {
        Some(late) => {
            let worker = Worker::start(&arguments);
            tokio::time::sleep(Duration::from_millis(late)).await;
            Some(worker)
        }
        None => None,
    };
    let engine = Engine::start_on(port).await;
    let console = Peer::connect(&engine.url()).await;
    let siblings = Siblings::silent(&engine.url()).await;
    if call["siblings"].is_null() {
        siblings.serve_all();
        siblings.peer.barrier().await;
    }
    if call["registered_without_value"] == true {
        register_entry(&console, ENTRY, &json!({}), None).await;
    }
    if let Some(stored) = call.get("stored") {
        register_entry(&console, ENTRY, &json!({}), Some(stored.clone())).await;
    }
    let mut worker = early.unwrap_or_else(|| Worker::start(&arguments));
    worker.ready().await;
    if call["siblings"] == "late" {
        siblings.serve_all();
        siblings.peer.barrier().await;
    }
    report(&console, &siblings, call).await
}

async fn report(console: &Peer, siblings: &Siblings, call: &Value) -> Value {
    let gate = |call_id: &'static str, function_id: &'static str| async move {
        as_json(
            console.call("approval::gate", hook("s_boot", call_id, function_id, json!({"cmd": "ls"}))).await,
        )
    };
    let stored = console.call("configuration::get", json!({"id": ENTRY, "raw": true})).await;
    let mut report = json!({
        "ready": true,
        "stored_after": stored.unwrap_or_default(),
        "gate": gate("c_1", "shell::exec").await,
        "gate_human": gate("c_2", "approval::x").await,
        "gate_web": gate("c_3", "web::fetch").await,
        "settings": as_json(console.call("approval::get-settings", json!({"session_id": "s_boot_settings"})).await),
    });
    if call["siblings"] == "late" {
        report["bound_late"] = eventually("the four late bindings", || async {
            let mut bound: Vec<_> = siblings
                .peer
                .bind_requests()
                .into_iter()
                .map(|bind| format!("{} -> {}", bind.trigger_type, bind.function_id))
                .collect();
            bound.sort();
            bound.dedup();
            (bound.len() == 4).then(|| json!(bound))
        })
        .await;
    }
    report
}
