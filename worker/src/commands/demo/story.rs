//! What happens in the demo, scene by scene.

use serde_json::{Value, json};

use super::stage::Stage;

/// All scenes. An error is a step that got no answer at all; wrong answers are failed checks.
pub(super) async fn play(stage: &mut Stage) -> Result<(), String> {
    rules(stage).await?;
    allowed_and_denied(stage).await?;
    held_and_allowed(stage).await?;
    held_and_denied(stage).await?;
    remembered(stage).await?;
    answered(stage).await?;
    folder_once(stage).await?;
    folder_for_the_session(stage).await?;
    folder_always(stage).await?;
    folder_denied(stage).await?;
    cancelled(stage).await
}

fn scene(title: &str) {
    super::say(&format!("\n{title}"));
}

fn is(value: &Value, pointer: &str, expected: &Value) -> bool {
    value.pointer(pointer) == Some(expected)
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

async fn rules(stage: &mut Stage) -> Result<(), String> {
    scene(
        "An operator writes rules: telling the time is fine, dropping tables is not, all else is for a person.",
    );
    let drop_rule = json!({"rule_id": "no-drops", "function": "db::drop-*", "action": "deny"});
    let value = json!({"default_mode": "manual", "rules": ["!approval::*", "clock::now", drop_rule],
        "answerable": ["db::vacuum"]});
    stage.call("configuration::set", json!({"id": "approval-gate", "value": value})).await?;
    let session = json!({"session_id": "s_demo", "title": "Ship the release", "metadata": {"owner": "u_1"}});
    stage.call("session::create", session).await?;
    // The new rules are in force once a call that they deny is denied.
    for _ in 0..100 {
        let probe = stage
            .call(
                "approval::gate",
                json!({"session_id": "s_probe", "turn_id": "t", "call":
            {"id": "c", "function_id": "db::drop-table"}}),
            )
            .await?;
        if is(&probe, "/decision", &json!("deny")) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    stage.call("approval::on-turn-completed", json!({"turn_id": "t", "session_id": "s_probe"})).await?;
    stage.check(true, "the rules are in force");
    Ok(())
}

async fn allowed_and_denied(stage: &mut Stage) -> Result<(), String> {
    scene("The agent makes calls that the rules decide.");
    let allowed = stage.agent("c_1", "clock::now", json!({})).await?;
    stage.check(is(&allowed, "/status", &json!("done")), "clock::now is allowed by a rule and runs");
    let denied = stage.agent("c_2", "db::drop-table", json!({"table": "users"})).await?;
    let reason = text(&denied, "/reason").to_owned();
    stage.check(
        is(&denied, "/status", &json!("denied")) && reason.contains("no-drops"),
        &format!("db::drop-table is denied, and the model is told: \"{reason}\""),
    );

    scene("The agent tries to give itself more rights.");
    let escalation = json!({"session_id": "s_demo", "mode": "full"});
    let refused = stage.agent("c_3", "approval::set-mode", escalation).await?;
    let reason = text(&refused, "/reason").to_owned();
    stage.check(
        is(&refused, "/status", &json!("denied")) && reason.contains("human_only_function"),
        &format!("approval::set-mode is refused: \"{reason}\""),
    );
    let row = json!({"scope": "approval_settings", "key": "s_demo", "value": {"mode": "full"}});
    let refused = stage.agent("c_4", "state::set", row).await?;
    stage.check(
        text(&refused, "/reason").contains("human_only_function"),
        "so is writing the same through the state worker",
    );
    Ok(())
}

async fn held_and_allowed(stage: &mut Stage) -> Result<(), String> {
    scene("The agent calls something that nobody has decided yet.");
    let mark = stage.mark();
    let held =
        stage.agent("c_5", "deploy::run", json!({"target": "prod", "api_key": "sk-not-for-you"})).await?;
    stage.check(is(&held, "/status", &json!("pending")), "deploy::run is held; it has not run");
    let created = stage.delivered(mark, "demo::on-created").await?;
    stage.check(
        is(&created, "/arguments_excerpt/api_key", &json!("<redacted>"))
            && !created.to_string().contains("sk-not"),
        &format!("listeners hear of it, secrets left out: {}", created["arguments_excerpt"]),
    );
    let inbox = stage.call("approval::list-pending", json!({"session_id": "s_demo"})).await?;
    stage.check(
        is(&inbox, "/pending/0/function_call_id", &json!("c_5"))
            && is(&inbox, "/pending/0/session_title", &json!("Ship the release")),
        "it waits in the inbox under the session's title",
    );
    let before = stage.times("deploy::run");
    let resolved = stage.call("approval::resolve", decision("c_5", json!({"decision": "allow"}))).await?;
    stage.check(
        is(&resolved, "/resolved", &json!(true)) && before == 0 && stage.times("deploy::run") == 1,
        "a person allows it: it runs once, now",
    );
    let event = stage.delivered(mark, "demo::on-resolved").await?;
    stage.check(is(&event, "/outcome", &json!("allow")), "listeners hear: allow");
    Ok(())
}

async fn held_and_denied(stage: &mut Stage) -> Result<(), String> {
    scene("It asks again; this time the answer is no.");
    let mark = stage.mark();
    stage.agent("c_6", "deploy::run", json!({"target": "prod"})).await?;
    let no = json!({"decision": "deny", "reason": "not on a Friday"});
    stage.call("approval::resolve", decision("c_6", no)).await?;
    let told = result_of(stage, "c_6").await?;
    stage.check(
        is(&told, "/result/content/0/text", &json!("not on a Friday"))
            && is(&told, "/result/is_error", &json!(true))
            && stage.times("deploy::run") == 1,
        "the call does not run, and the model is told: \"not on a Friday\"",
    );
    let event = stage.delivered(mark, "demo::on-resolved").await?;
    stage.check(is(&event, "/outcome", &json!("deny")), "listeners hear: deny, with the reason");
    Ok(())
}

async fn remembered(stage: &mut Stage) -> Result<(), String> {
    scene("The person is asked too often and remembers the approval for this session.");
    let always = json!({"session_id": "s_demo", "function_id": "deploy::run"});
    stage.call("approval::approve-always", always).await?;
    let done = stage.agent("c_7", "deploy::run", json!({"target": "staging"})).await?;
    stage.check(is(&done, "/status", &json!("done")), "deploy::run runs without being held");
    Ok(())
}

async fn answered(stage: &mut Stage) -> Result<(), String> {
    scene(
        "A worker that knows when maintenance is welcome answers before a person is asked. It allows everything.",
    );
    let mark = stage.mark();
    let done = stage.agent("a_1", "db::vacuum", json!({"password": "not-for-you"})).await?;
    let asked = stage.delivered(mark, "demo::judge").await?;
    stage.check(
        is(&done, "/status", &json!("done")) && !asked.to_string().contains("not-for-you"),
        "db::vacuum is left to it by the operator and runs; it was shown the redacted record",
    );
    let held = stage.agent("a_2", "db::migrate", json!({})).await?;
    stage.check(
        is(&held, "/status", &json!("pending")) && stage.times("demo::judge") == 2,
        "db::migrate is not, so its word counts for nothing and a person is asked",
    );
    stage.call("approval::resolve", decision("a_2", json!({"decision": "deny"}))).await?;
    Ok(())
}

async fn read(stage: &Stage, call_id: &str, path: &str) -> Result<Value, String> {
    stage
        .call("approval::approve-always", json!({"session_id": "s_demo", "function_id": "shell::fs::read"}))
        .await?;
    stage.agent(call_id, "shell::fs::read", json!({"path": path})).await
}

async fn folder_once(stage: &mut Stage) -> Result<(), String> {
    scene("The agent reads a file outside its workspace; the shell refuses, and that becomes a question.");
    let mark = stage.mark();
    let held = read(stage, "f_1", "/data/in/a.csv").await?;
    let created = stage.delivered(mark, "demo::on-created").await?;
    stage.check(
        is(&held, "/status", &json!("pending"))
            && is(&created, "/access_request/requested_root", &json!("/data/in")),
        "it is held, asking for /data/in",
    );
    stage
        .call("approval::resolve", decision("f_1", json!({"decision": "allow", "access_duration": "once"})))
        .await?;
    let told = result_of(stage, "f_1").await?;
    stage.check(is(&told, "/status", &json!("done")), "allowed once: this call reads its file");
    let again = read(stage, "f_2", "/data/in/b.csv").await?;
    stage.check(is(&again, "/status", &json!("pending")), "the next call is asked about again");
    Ok(())
}

async fn folder_for_the_session(stage: &mut Stage) -> Result<(), String> {
    let allow = json!({"decision": "allow", "access_duration": "session"});
    stage.call("approval::resolve", decision("f_2", allow)).await?;
    let third = read(stage, "f_3", "/data/in/c.csv").await?;
    stage.check(
        is(&third, "/status", &json!("done")) && is(&third, "/result/is_error", &json!(false)),
        "allowed for the session: no more questions about /data/in",
    );
    Ok(())
}

async fn folder_always(stage: &mut Stage) -> Result<(), String> {
    read(stage, "f_4", "/srv/shared/d.csv").await?;
    let allow = json!({"decision": "allow", "access_duration": "always"});
    stage.call("approval::resolve", decision("f_4", allow)).await?;
    let entry = stage.call("configuration::get", json!({"id": "shell", "raw": true})).await?;
    let roots = entry.pointer("/value/fs/host_roots").cloned().unwrap_or_default();
    stage.check(
        roots.as_array().is_some_and(|roots| roots.contains(&json!("/srv/shared"))),
        &format!("allowed always: the shell worker's own roots are now {roots}"),
    );
    Ok(())
}

async fn folder_denied(stage: &mut Stage) -> Result<(), String> {
    read(stage, "f_5", "/secrets/e.pem").await?;
    stage.call("approval::resolve", decision("f_5", json!({"decision": "deny"}))).await?;
    let told = result_of(stage, "f_5").await?;
    stage.check(
        text(&told, "/result/content/0/text").contains("/secrets"),
        &format!("denied: \"{}\"", text(&told, "/result/content/0/text")),
    );
    let again = read(stage, "f_6", "/secrets/f.pem").await?;
    stage.check(
        is(&again, "/status", &json!("done")) && is(&again, "/result/is_error", &json!(true)),
        "the same folder is not asked about again in this session; the model gets the error",
    );
    Ok(())
}

async fn cancelled(stage: &mut Stage) -> Result<(), String> {
    scene("The user stops the turn while a call waits.");
    let mark = stage.mark();
    stage.agent("c_8", "db::migrate", json!({})).await?;
    stage.call("harness::stop", json!({"session_id": "s_demo"})).await?;
    let event = stage.delivered(mark, "demo::on-resolved").await?;
    stage.check(is(&event, "/outcome", &json!("aborted")), "listeners hear: aborted");
    let inbox = stage.call("approval::list-pending", json!({})).await?;
    stage.check(is(&inbox, "/pending", &json!([])), "the inbox is empty again");
    Ok(())
}

fn decision(call_id: &str, what: Value) -> Value {
    let mut request = json!({"session_id": "s_demo", "function_call_id": call_id});
    if let (Some(request), Value::Object(what)) = (request.as_object_mut(), what) {
        request.extend(what);
    }
    request
}

async fn result_of(stage: &Stage, call_id: &str) -> Result<Value, String> {
    stage
        .call("harness::function::result", json!({"session_id": "s_demo", "function_call_id": call_id}))
        .await
}
