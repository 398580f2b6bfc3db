#![allow(clippy::unwrap_used)]
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::commands::watch::follow::News;
use crate::commands::watch::keys::Key;
use crate::commands::watch::samples::{folder, held};
use crate::commands::watch::screen::Event;

fn screen(records: Vec<PendingApprovalRecord>, keys: &[Key]) -> Screen {
    let mut screen = Screen::new("ws://127.0.0.1:49134", 80, 24, 720_000);
    screen.update(Event::News(News::Listed(records, 0)));
    screen.update(Event::News(News::Link(Link::Live)));
    for key in keys {
        let frame = screen.painted();
        screen.update(Event::Key(*key, frame));
    }
    screen
}

fn text(screen: &Screen) -> Vec<String> {
    render(screen).lines.into_iter().map(|(_, text)| text.trim_end().to_owned()).collect()
}

fn build() -> Vec<PendingApprovalRecord> {
    let mut first = held("c_1", 0);
    first.session_title = Some("Fix the build".into());
    first.arguments_excerpt = json!({"command": "make deploy"});
    let mut second = folder("c_2", "/data/in", 540_000);
    second.depth = 1;
    vec![first, second]
}

#[test]
fn the_list_stands_above_the_selected_call() {
    let shown = text(&screen(build(), &[Key::Down]));
    assert_eq!(shown.len(), 24);
    assert_eq!(
        shown[..4],
        [
            "approval-gate   2 held                                      ws://127.0.0.1:49134",
            "    AGE  SESSION           SUB  ASKS FOR",
            r#">   12m  Fix the build          shell::exec  command="make deploy""#,
            "     3m  s_1               1    folder /data/in  for shell::exec",
        ]
    );
    assert_eq!(shown[12], "-".repeat(80));
    assert_eq!(
        shown[13..18],
        [
            "asks to run  shell::exec",
            r#"from         s_1 c_1  "Fix the build""#,
            "arguments",
            "  {",
            r#"    "command": "make deploy""#,
        ]
    );
    assert_eq!(shown[23], "a allow  s session  A always  d deny  enter look  ? keys  q quit");
}

#[test]
fn a_question_names_what_it_opens_and_wraps_instead_of_hiding() {
    let root = format!("/data/{}", "x".repeat(100));
    let shown = text(&screen(vec![folder("c", &root, 0)], &[Key::Down, Key::Char('A')]));
    let squeezed = |text: &str| text.replace("    | ", "").replace(' ', "");
    let question = format!("Run this call, and open {root} to ALL sessions of this deployment, for good?");
    assert!(squeezed(&shown[20..].join("")).contains(&squeezed(&question)), "{shown:#?}");
    assert!(shown[23].starts_with("y  yes"));
}

#[test]
fn a_reason_is_typed_where_the_cursor_is() {
    let keys = [Key::Down, Key::Char('d'), Key::Char('n'), Key::Char('o')];
    let frame = render(&screen(build(), &keys));
    assert_eq!(frame.lines[22].1, "> no");
    assert_eq!(frame.cursor, Some((4, 22)));
}

#[test]
fn the_whole_record_can_be_read_line_by_line() {
    let mut long = held("c", 0);
    long.arguments_excerpt = json!({"command": "x".repeat(200), "list": (0..40).collect::<Vec<_>>()});
    let mut screen = screen(vec![long], &[Key::Down]);
    assert!(text(&screen).iter().any(|line| line.contains("more lines: enter shows them")));
    let frame = screen.painted();
    screen.update(Event::Key(Key::Enter, frame));
    let top = text(&screen);
    assert!(top[2].starts_with("call         c") && top[21].contains("more lines below"), "{top:#?}");
    for _ in 0..9 {
        screen.update(Event::Key(Key::PageDown, frame));
    }
    let end = text(&screen);
    assert!(
        end.iter().any(|line| line == "  }") && !end.iter().any(|line| line.contains("below")),
        "{end:#?}"
    );
}

#[test]
fn a_call_that_goes_while_it_is_looked_at_says_so() {
    let mut screen = screen(build(), &[Key::Down, Key::Enter]);
    screen.update(Event::News(News::Listed(Vec::new(), 0)));
    assert!(text(&screen).contains(&"This call is no longer held.".to_owned()));
}

#[test]
fn trouble_and_unreadable_records_are_told_at_the_top() {
    let mut screen = screen(build(), &[]);
    screen.update(Event::News(News::Listed(build(), 2)));
    screen.update(Event::News(News::Link(Link::NoEngine("refused\u{1b}[2J".into()))));
    let top = text(&screen).remove(0);
    assert!(
        top.starts_with("approval-gate   2 held, 2 more cannot be read") && top.contains("no engine"),
        "{top}"
    );
    assert!(!top.contains('\u{1b}'));
}

#[test]
fn a_selected_call_far_down_is_in_view() {
    let records = (0..200).map(|n| held(&format!("c_{n}"), n)).collect();
    let mut screen = screen(records, &[Key::Down, Key::End]);
    assert!(text(&screen).iter().any(|line| line.starts_with('>') && line.contains("make c_199")));
    let frame = screen.painted();
    screen.update(Event::Key(Key::Home, frame));
    assert!(text(&screen).iter().any(|line| line.starts_with('>') && line.contains("make c_0")));
}

proptest! {
    #[test]
    fn every_frame_fits_and_nothing_in_it_moves_the_cursor(
        hostile in "(\\PC|[\u{0}-\u{1f}\u{7f}-\u{9f}\u{202a}-\u{202e}\u{300}-\u{303}\u{1b}\"漢]){0,120}",
        width in 0_usize..120,
        height in 0_usize..40,
        keys in prop::collection::vec(prop::sample::select(vec![Key::Down, Key::Enter, Key::Char('s'), Key::Char('A'), Key::Char('d'), Key::Char('?'), Key::Escape]), 0..6),
    ) {
        let mut record = folder(&hostile, &hostile, 5);
        record.session_id.clone_from(&hostile);
        record.session_title = Some(hostile.clone());
        record.session_description = Some(hostile.clone());
        record.function_id.clone_from(&hostile);
        record.turn_id.clone_from(&hostile);
        record.assistant_excerpt = Some(hostile.clone());
        record.arguments_excerpt = json!({ hostile.as_str(): hostile, "command": hostile });
        record.session_metadata = json!({ hostile.as_str(): [hostile] }).as_object().cloned();
        let mut screen = screen(vec![record], &keys);
        screen.update(Event::Resized(width, height));
        screen.update(Event::Pasted(hostile.clone()));
        screen.update(Event::News(News::Link(Link::NoWorker(hostile))));
        let frame = render(&screen);
        prop_assert_eq!(frame.lines.len(), height);
        for (_, text) in &frame.lines {
            prop_assert!(columns(text) <= width, "{:?} in {}", text, width);
            prop_assert!(!text.chars().any(crate::redact::is_hidden), "{:?}", text);
        }
    }
}
