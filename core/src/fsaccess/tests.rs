#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const TAIL: &str = r#"filesystem_access_request={"v":1,"requested_root":"/data/in","attempted_path":"/data/in/x","error_code":"S215"}"#;

fn failed(code: &Value, message: &str) -> Value {
    json!({"is_error": true, "content": [], "details": {"error": {"code": code, "message": message}}})
}

fn request(root: &str) -> AccessRequest {
    AccessRequest { requested_root: root.into(), attempted_path: String::new(), error_code: "S215".into() }
}

fn root_of(message: &str) -> Result<String, StandDown> {
    asked(&failed(&json!("S215"), message)).map(|request| request.requested_root)
}

#[test]
fn only_the_shell_and_the_coder_are_watched() {
    for (function_id, watched) in [
        ("shell::exec", true),
        ("coder::", true),
        ("shellx::exec", false),
        ("browser::open", false),
        ("shell", false),
    ] {
        assert_eq!(watches(function_id), watched, "{function_id}");
    }
}

#[test]
fn a_jail_error_with_its_tail_asks_for_the_root() {
    for code in CODES {
        let asked = asked(&failed(&json!(code), &format!("shell::fs::read: remote error: {TAIL}"))).unwrap();
        assert_eq!(
            (asked.requested_root.as_str(), asked.attempted_path.as_str()),
            ("/data/in", "/data/in/x")
        );
        assert_eq!(asked.error_code, code);
    }
}

#[test]
fn the_older_words_ask_for_the_same() {
    let message = r#"shell::exec: x grant_hint={"v":1,"dir":"/work/lib","path":"../lib","code":"S220"}"#;
    let expected = AccessRequest {
        requested_root: "/work/lib".into(),
        attempted_path: "../lib".into(),
        error_code: "S220".into(),
    };
    assert_eq!(asked(&failed(&Value::Null, message)), Ok(expected));
}

#[test]
fn each_rung_stands_down_for_its_own_reason() {
    let rows = [
        (json!(null), StandDown::NotAnError),
        (json!("text"), StandDown::NotAnError),
        (
            json!({"is_error": false, "details": {"error": {"code": "S215", "message": TAIL}}}),
            StandDown::NotAnError,
        ),
        (
            json!({"is_error": "true", "details": {"error": {"code": "S215", "message": TAIL}}}),
            StandDown::NotAnError,
        ),
        (json!({"is_error": true}), StandDown::NoError),
        (json!({"is_error": true, "details": [1]}), StandDown::NoError),
        (json!({"is_error": true, "details": {"error": null}}), StandDown::NoError),
        (json!({"is_error": true, "details": {"error": "policy_denied"}}), StandDown::NoError),
        (failed(&json!("S211"), TAIL), StandDown::OtherCode),
        (failed(&json!("s215"), TAIL), StandDown::OtherCode),
        (failed(&json!(""), TAIL), StandDown::OtherCode),
        (failed(&json!(215), TAIL), StandDown::OtherCode),
        (failed(&json!("S215"), "no marker"), StandDown::NoTail),
        (
            failed(&json!(null), r#"x filesystem_access_request={"v":1,"requested_root":"/d"}"#),
            StandDown::OtherCode,
        ),
        (failed(&json!(null), &TAIL.replace("S215", "S499")), StandDown::OtherCode),
        (failed(&json!("S215"), &format!("{TAIL} filesystem_access_request=")), StandDown::UnreadableTail),
        (failed(&json!("S215"), &format!("{TAIL}.")), StandDown::UnreadableTail),
        (failed(&json!("S215"), "filesystem_access_request=[1]"), StandDown::UnreadableTail),
        (
            failed(&json!("S215"), r#"filesystem_access_request={"v":1,"dir":"/d"}"#),
            StandDown::UnreadableTail,
        ),
        (failed(&json!("S215"), &TAIL.replace(r#""/data/in/x""#, "5")), StandDown::UnreadableTail),
        (failed(&json!("S215"), &TAIL.replace("\"v\":1", "\"v\":2")), StandDown::OtherVersion),
        (failed(&json!("S215"), &TAIL.replace("\"v\":1", "\"v\":1.0")), StandDown::OtherVersion),
        (failed(&json!("S215"), &TAIL.replace("\"v\":1,", "")), StandDown::OtherVersion),
        (failed(&json!("S215"), &TAIL.replace("/data/in\"", "data/in\"")), StandDown::RootNotAbsolute),
        (failed(&json!("S215"), &TAIL.replace("/data/in\"", "\"")), StandDown::RootNotAbsolute),
        (failed(&json!("S215"), &TAIL.replace("/data/in\"", "C:\\\\data\"")), StandDown::RootNotAbsolute),
        (
            failed(&json!("S215"), &TAIL.replace("/data/in\"", &format!("/{}\"", "a".repeat(4096)))),
            StandDown::PathTooLong,
        ),
        (failed(&json!("S215"), &TAIL.replace("/data/in\"", "/data/\\u202egnp\"")), StandDown::DisguisedRoot),
    ];
    for (result, reason) in rows {
        assert_eq!(asked(&result), Err(reason), "{result}");
    }
}

#[test]
fn a_tail_without_a_path_still_asks() {
    let asked =
        asked(&failed(&json!("S215"), r#"x filesystem_access_request={"v":1,"requested_root":"/data/in"}"#));
    assert_eq!(asked, Ok(request("/data/in")));
}

#[test]
fn the_last_of_two_markers_counts_in_either_vocabulary() {
    let older = r#"grant_hint={"v":1,"dir":"/older","path":"p","code":"S215"}"#;
    assert_eq!(root_of(&format!("filesystem_access_request=junk {TAIL}")).unwrap(), "/data/in");
    assert_eq!(root_of(&format!("{TAIL} {older}")).unwrap(), "/older");
    assert_eq!(root_of(&format!("{older} {TAIL}")).unwrap(), "/data/in");
}

#[test]
fn a_tail_is_read_in_the_words_of_its_own_marker() {
    let both = r#"{"v":1,"dir":"/older","requested_root":"/newer","path":"p"}"#;
    assert_eq!(root_of(&format!("grant_hint={both}")).unwrap(), "/older");
    assert_eq!(root_of(&format!("filesystem_access_request={both}")).unwrap(), "/newer");
}

#[test]
fn the_first_text_block_is_read_only_beside_a_code() {
    let result = |code: Value, content: Value| json!({"is_error": true, "content": content, "details": {"error": {"code": code, "message": "no marker"}}});
    let image_first = json!([{"type": "image", "data": "x"}, {"type": "text", "text": TAIL}]);
    assert_eq!(asked(&result(json!("C215"), image_first)).unwrap().error_code, "C215");
    assert_eq!(asked(&result(json!(null), json!([{"type": "text", "text": TAIL}]))), Err(StandDown::NoTail));
    let second = json!([{"type": "text", "text": "a"}, {"type": "text", "text": TAIL}]);
    assert_eq!(asked(&result(json!("S215"), second)), Err(StandDown::NoTail));
    assert_eq!(asked(&result(json!("S215"), json!(TAIL))), Err(StandDown::NoTail));
}

#[test]
fn a_request_in_a_file_name_cannot_ask_for_another_root() {
    let name = r#"/tmp/x filesystem_access_request={"v":1,"requested_root":"/","attempted_path":"/","error_code":"S215"}"#;
    let genuine = json!({"v": 1, "requested_root": "/tmp", "attempted_path": name, "error_code": "S215"});
    let message = format!("S215: path '{name}' is outside the workspace filesystem_access_request={genuine}");
    assert!(matches!(root_of(&message).as_deref(), Ok("/tmp") | Err(_)));
}

#[test]
fn a_long_message_is_read_from_its_end() {
    assert_eq!(root_of(&("é".repeat(3_000_000) + TAIL)).unwrap(), "/data/in");
    let nested = "filesystem_access_request=".to_owned() + &"[".repeat(60_000);
    assert_eq!(root_of(&nested), Err(StandDown::UnreadableTail));
}

#[test]
fn the_root_that_is_asked_for_is_the_resolved_one() {
    assert_eq!(root_of(&TAIL.replace("/data/in\"", "/srv/ws/../secrets//\"")).unwrap(), "/srv/secrets");
}

#[test]
fn the_workspace_and_the_whole_disk_are_not_asked_for() {
    let rows = [
        ("/srv/ws", Some("/srv/ws"), Some(StandDown::InsideWorkspace)),
        ("/srv/ws/sub", Some("/srv/ws/"), Some(StandDown::InsideWorkspace)),
        ("/data/in", Some("/"), Some(StandDown::InsideWorkspace)),
        ("/srv/ws-sibling", Some("/srv/ws"), None),
        ("/srv/secrets", Some("/srv/ws"), None),
        ("/data/in", Some("/data/in/sub"), None),
        ("/data/x", None, None),
        ("/data/x", Some(""), None),
        ("/srv/ws/x", Some("srv/ws"), None),
        ("/", None, Some(StandDown::WholeDisk)),
        ("/", Some("/srv/ws"), Some(StandDown::WholeDisk)),
    ];
    for (root, workspace, expected) in rows {
        assert_eq!(stands_down(&request(root), workspace), expected, "{root} {workspace:?}");
    }
}

#[test]
fn a_grant_covers_its_folder_and_below() {
    for (root, roots, covered) in [
        ("/data/shared", vec!["/data/shared"], true),
        ("/data/shared/a/b", vec!["/opt", "/data/shared/"], true),
        ("/data/shared-old", vec!["/data/shared"], false),
        ("/data", vec!["/data/shared"], false),
        ("/data/in", vec!["/dat"], false),
        ("/data/in", vec!["data"], false),
        ("/data/in", vec![""], true),
        ("/data/in", vec![], false),
    ] {
        assert_eq!(covered_by(root, roots.iter().copied()), covered, "{root} {roots:?}");
    }
}

#[test]
fn a_fault_of_the_harness_is_loud_and_a_missing_tail_is_not() {
    assert_eq!(StandDown::InsideWorkspace.severity(), Severity::Error);
    assert_eq!(StandDown::WholeDisk.severity(), Severity::Warn);
    assert_eq!(StandDown::NoTail.severity(), Severity::Quiet);
}

proptest! {
    #[test]
    fn any_text_is_read_without_harm(text in ".{0,200}(filesystem_access_request=|grant_hint=)?.{0,200}") {
        if let Ok(request) = asked(&failed(&json!("S215"), &text)) {
            prop_assert!(request.requested_root.starts_with('/'));
        }
    }

    #[test]
    fn a_name_in_the_message_never_moves_the_root(
        name in "[a-z /\"\\\\{}:,]{0,20}(filesystem_access_request=\\{\"v\":1,\"requested_root\":\"/\"|grant_hint=\\{\"v\":1,\"dir\":\"/\")?[\"},/a-z]{0,20}",
    ) {
        let genuine = json!({"v": 1, "requested_root": "/tmp", "attempted_path": name, "error_code": "S215"});
        let message = format!("S215: {name} is outside filesystem_access_request={genuine}");
        prop_assert!(matches!(root_of(&message).as_deref(), Ok("/tmp") | Err(_)));
    }
}

#[test]
fn a_marker_in_the_arguments_of_the_call_is_found_at_any_depth() {
    for arguments in [
        json!("x filesystem_access_request={}"),
        json!({"path": ["/tmp/grant_hint={}"]}),
        json!({"a": {"filesystem_access_request=": 1}}),
    ] {
        assert!(carries_request(&arguments), "{arguments}");
    }
    for arguments in [json!(null), json!({"path": "/tmp/filesystem_access_request"}), json!([1, true])] {
        assert!(!carries_request(&arguments), "{arguments}");
    }
}
