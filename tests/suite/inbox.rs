//! The inbox (contract §6): filters, order, pages, and rows that cannot be read.

use serde_json::{Value, json};

use crate::support::Stage;
use crate::support::stage::{PENDING, record};

async fn filled(rows: &[(&str, &str, i64)]) -> Stage {
    let stage = Stage::start().await;
    for (session, call, at) in rows {
        stage.set_row(PENDING, &format!("{session}/{call}"), &record(session, call, *at)).await;
    }
    stage
}

fn keys(page: &Value) -> Vec<String> {
    let rows = page["pending"].as_array().unwrap().iter();
    rows.map(|row| {
        format!("{}/{}", row["session_id"].as_str().unwrap(), row["function_call_id"].as_str().unwrap())
    })
    .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_order_is_by_time_then_session_then_call() {
    let stage = filled(&[("s_2", "c_1", 5), ("s_1", "c_2", 5), ("s_1", "c_1", 5), ("s_9", "c_9", 1)]).await;
    let page = stage.ask("approval::list-pending", json!({})).await;
    assert_eq!(keys(&page), ["s_9/c_9", "s_1/c_1", "s_1/c_2", "s_2/c_1"]);
    assert!(page.get("next_cursor").is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_stays_is_seen_once_while_others_come_and_go() {
    let rows: Vec<(String, i64)> = (0..40).map(|n| (format!("c_{n:02}"), i64::from(n) / 4 + 10)).collect();
    let stage = filled(&rows.iter().map(|(call, at)| ("s", call.as_str(), *at)).collect::<Vec<_>>()).await;
    let (mut seen, mut cursor, mut pages) = (Vec::new(), Value::Null, 0);
    loop {
        let page = stage.ask("approval::list-pending", json!({"limit": 7, "cursor": cursor})).await;
        seen.extend(keys(&page));
        // A row already seen goes, and an older one comes: neither may shift what follows.
        let gone = format!("s/c_{:02}", pages * 7);
        stage.ask("state::delete", json!({"scope": PENDING, "key": gone})).await;
        let late = format!("c_late_{pages}");
        stage.set_row(PENDING, &format!("s/{late}"), &record("s", &late, 1)).await;
        pages += 1;
        match page.get("next_cursor") {
            Some(next) => cursor = next.clone(),
            None => break,
        }
        assert!(pages < 20);
    }
    let expected: Vec<String> = rows.iter().map(|(call, _)| format!("s/{call}")).collect();
    assert_eq!(seen, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filters_work_across_pages() {
    let stage = Stage::start().await;
    for n in 0..9 {
        let mut row = record("s", &format!("c_{n}"), n);
        row["session_metadata"] = json!({"owner": if n % 3 == 0 { "kim" } else { "lee" }, "n": n});
        stage.set_row(PENDING, &format!("s/c_{n}"), &row).await;
    }
    let request = json!({"metadata": {"owner": "kim"}, "session_id": "s", "limit": 2});
    let first = stage.ask("approval::list-pending", request.clone()).await;
    assert_eq!(keys(&first), ["s/c_0", "s/c_3"]);
    let mut second = request;
    second["cursor"] = first["next_cursor"].clone();
    let second = stage.ask("approval::list-pending", second).await;
    assert_eq!(keys(&second), ["s/c_6"]);
    assert!(second.get("next_cursor").is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_are_clamped_and_bad_ones_refused() {
    let rows: Vec<(String, i64)> = (0..60).map(|n| (format!("c_{n:02}"), i64::from(n))).collect();
    let stage = filled(&rows.iter().map(|(call, at)| ("s", call.as_str(), *at)).collect::<Vec<_>>()).await;
    for (limit, expected) in [(json!(null), 50), (json!(0), 1), (json!(1), 1), (json!(4_294_967_295_u64), 60)]
    {
        let page = stage.ask("approval::list-pending", json!({"limit": limit})).await;
        assert_eq!(keys(&page).len(), expected, "limit {limit}");
    }
    for limit in [json!(-1), json!(1.5), json!("2"), json!([])] {
        let refusal = stage.call("approval::list-pending", json!({"limit": limit})).await.unwrap_err();
        assert_eq!(refusal.code, "approval/invalid_payload");
        assert!(refusal.message.contains("limit"), "{refusal:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cursors_that_are_not_ours_are_refused() {
    let stage = filled(&[("s", "c_1", 1)]).await;
    for cursor in
        [json!("x"), json!("W10"), json!("not a cursor"), json!("A".repeat(100_000)), json!(5), json!({})]
    {
        let refusal = stage.call("approval::list-pending", json!({"cursor": cursor})).await.unwrap_err();
        assert_eq!(refusal.code, "approval/invalid_payload", "{}", crate::support::values::short(&cursor));
        assert!(refusal.message.len() < 1_000, "the message repeats the cursor");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_cannot_be_read_are_skipped_and_logged_once_each() {
    let stage = filled(&[("s", "c_1", 1)]).await;
    for (key, row) in [
        ("s/null", Value::Null),
        ("s/text", json!("x")),
        ("s/list", json!([])),
        ("s/part", json!({"session_id": "s"})),
    ] {
        stage.set_row(PENDING, key, &row).await;
    }
    for _ in 0..3 {
        let page = stage.ask("approval::list-pending", json!({})).await;
        assert_eq!(keys(&page), ["s/c_1"]);
    }
    assert_eq!(
        stage.ask("approval::get-pending", json!({"session_id": "s", "function_call_id": "text"})).await,
        Value::Null
    );
    stage.ask("approval::on-turn-completed", json!({"session_id": "s", "turn_id": "t_9"})).await;
    assert!(stage.worker.lines_at("WARN").len() <= 4, "{}", stage.worker.log_text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_private_in_a_row_is_not_shown() {
    let stage = Stage::start().await;
    stage.gate("s", "c_1", "shell::exec", json!({"cmd": "ls"})).await;
    let page = stage.ask("approval::list-pending", json!({})).await;
    let shown: Vec<&String> = page["pending"][0].as_object().unwrap().keys().collect();
    let contract = [
        "arguments_excerpt",
        "depth",
        // An addition, see the differences.
        "digest",
        "function_call_id",
        "function_id",
        "kind",
        "pending_at",
        "session_id",
        "turn_id",
    ];
    assert_eq!(shown, contract);
    stage.story_becomes("s", &["created c_1"]).await;
    let mut told: Vec<String> = stage.events()[0].payload.as_object().unwrap().keys().cloned().collect();
    told.retain(|key| key != "status");
    assert_eq!(told, contract);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unavailable_store_is_an_error_not_an_empty_inbox() {
    let stage = filled(&[("s", "c_1", 1)]).await;
    let failing = || crate::support::wire::Act::Instead(crate::support::Script::refuse("LIST_ERROR", "no"));
    stage.wire.break_calls(crate::support::wire::calls_of("state::list"), failing());
    stage.wire.break_calls(crate::support::wire::calls_of("state::get"), failing());
    assert_eq!(
        stage.call("approval::list-pending", json!({})).await.unwrap_err().code,
        "approval/state_unavailable"
    );
    let one = json!({"session_id": "s", "function_call_id": "c_1"});
    assert_eq!(
        stage.call("approval::get-pending", one).await.unwrap_err().code,
        "approval/state_unavailable"
    );
}
