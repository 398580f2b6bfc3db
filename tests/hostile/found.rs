//! What fuzzing, and the reading that went with it, found: each as a test that tells the story.

use std::time::{Duration, Instant};

use approval_gate::redact::{excerpt, redact_text, shown};
use approval_gate::seed;
use approval_gate::wire::record::StoredRow;
use serde_json::{Value, json};

/// Far more than linear work takes on a busy machine, far less than anything quadratic on inputs of this size.
const LONG: Duration = Duration::from_mins(1);

fn in_time<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let done = work();
    assert!(start.elapsed() < LONG, "{what} took {:?}", start.elapsed());
    done
}

fn repeated(unit: &str, bytes: usize) -> String {
    unit.repeat(bytes / unit.len())
}

#[test]
fn a_value_with_a_place_in_it_does_not_come_out_of_an_error_text() {
    // Given a row that a value reader refuses, whose wrong value speaks the reader's own words
    let row = |wrong: &str| {
        json!({"session_id": "s", "turn_id": "t", "function_call_id": "c", "function_id": "f",
            "kind": "function", "pending_at": wrong})
    };
    for wrong in ["x, expected hunter2 at line 3", "x, expected hunter2 at line 3 column 4", "hunter2"] {
        // When it is read, then the complaint names the field and nothing of the value
        let StoredRow::Unreadable(why) = StoredRow::read(&row(wrong)) else { panic!("{wrong} was read") };
        assert_eq!(why, "pending_at: expected a whole number");
    }
}

#[test]
fn a_text_full_of_beginnings_is_redacted_in_one_reading() {
    // Each of these made the search for an end start over at every beginning
    for unit in ["-----BEGIN PRIVATE KEY-----;", "docker login ?sig=abc ", "mysql -p1 "] {
        let text = repeated(unit, 400_000);
        in_time(unit, || redact_text(&text).len());
    }
}

#[test]
fn a_bracket_full_of_quotes_that_nothing_closes_is_followed_only_so_far() {
    let text = "token={\n\\\"\n".repeat(2000) + &repeated("\\\"\n", 400_000);
    in_time("brackets", || redact_text(&text).len());
}

#[test]
fn the_ends_of_a_huge_title_are_all_that_is_looked_at() {
    let title =
        "Deploy ".to_owned() + &repeated("-----BEGIN PRIVATE KEY-----;mysql ?sig=a {\"\\", 8 << 20) + " now";
    let line = in_time("title", || shown(&title, 256));
    assert!(line.starts_with("Deploy <redacted>") && line.chars().count() <= 256, "{line}");
}

#[test]
fn a_private_key_ends_where_it_did_before() {
    for (given, expected) in [
        ("a -----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY----- b", "a <redacted> b"),
        ("-----BEGIN PRIVATE KEY-----\nMIIB; ls", "<redacted>; ls"),
        (
            "-----BEGIN PRIVATE KEY-----; x -----BEGIN PRIVATE KEY-----\nM\n-----END PRIVATE KEY----- y -----BEGIN PRIVATE KEY-----\nM!",
            "<redacted> y <redacted>!",
        ),
        ("-----END PRIVATE KEY----- -----BEGIN PRIVATE KEY-----M!", "-----END PRIVATE KEY----- <redacted>!"),
    ] {
        assert_eq!(redact_text(given), expected);
    }
}

#[test]
fn a_password_flag_is_found_on_the_command_line_of_its_program() {
    for (given, expected) in [
        ("mysql -u root -phunter2 db", "mysql -u root -p<redacted> db"),
        ("mysql -h h -u root -p'hunter2' db; ls -p x", "mysql -h h -u root -p'<redacted>' db; ls -p x"),
        ("mysqldump db | mysql -pa;b", "mysqldump db | mysql -p<redacted>"),
        ("mysql db\n-phunter2", "mysql db\n-p<redacted>"),
        ("mysql -p db", "mysql -p db"),
        ("docker login -u kim -p \"hunter2\" h", "docker login -u kim -p \"<redacted>\" h"),
        ("docker login h && mkdir -p a/b", "docker login h && mkdir -p a/b"),
        (
            "docker login -p 'x' h; podman login -px",
            "docker login -p '<redacted>' h; podman login -p<redacted>",
        ),
    ] {
        assert_eq!(redact_text(given), expected);
    }
}

#[test]
fn placeholders_that_never_close_are_read_once() {
    for unit in ["${", "${A:", "${A", "${1}", "${ "] {
        let text = format!("default_mode: \"{}\"", repeated(unit, 1_000_000));
        in_time(unit, || seed::parse(&text, &|_| None).map(drop).unwrap_err());
    }
}

#[test]
fn what_a_placeholder_is_has_not_changed() {
    let environment = |name: &str| (name == "A").then(|| "auto".to_owned());
    let rule = |text: &str| {
        let value: Value = seed::parse(&json!({"rules": [text]}).to_string(), &environment).unwrap();
        value["rules"][0].clone()
    };
    for (given, expected) in [
        ("x${A}", "xauto"),
        ("${A}${A}", "autoauto"),
        ("${B:c}}", "c}"),
        ("${B:x${A}", "x${A"),
        ("${A", "${A"),
        ("${1}${A}", "${1}auto"),
        ("${}${ A}${A-b}", "${}${ A}${A-b}"),
        ("${B:}x${", "x${"),
    ] {
        assert_eq!(rule(given), expected, "{given}");
    }
}

#[test]
fn two_hundred_long_strings_of_any_kind_make_an_excerpt_in_time() {
    for unit in ["-----BEGIN PRIVATE KEY-----;", "token={\n\\\"\n", "mysql ?sig=a ", "\\\"\n"] {
        let text = "token={\n".to_owned() + &repeated(unit, 24_000);
        let strings: Value = (0..200).map(|index| json!([index, text])).collect();
        in_time(unit, || excerpt(&strings));
    }
}
