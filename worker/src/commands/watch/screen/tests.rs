#![allow(clippy::unwrap_used)]
use proptest::prelude::*;

use super::*;
use crate::commands::watch::samples::{folder, held};

/// A screen that is painted after each event, as the real one is.
struct Watch {
    screen: Screen,
    frame: u64,
}

impl Watch {
    fn with(records: Vec<PendingApprovalRecord>) -> Self {
        let mut watch = Self { screen: Screen::new("ws://e", 80, 24, 0), frame: 0 };
        watch.news(News::Listed(records, 0));
        watch
    }

    fn news(&mut self, news: News) {
        assert_eq!(self.screen.update(Event::News(news)), None);
        self.frame = self.screen.painted();
    }

    fn listed(&mut self, records: Vec<PendingApprovalRecord>) {
        self.news(News::Listed(records, 0));
    }

    fn key(&mut self, key: Key) -> Option<Effect> {
        let effect = self.screen.update(Event::Key(key, self.frame));
        self.frame = self.screen.painted();
        effect
    }

    fn keys(&mut self, keys: &str) -> Option<Effect> {
        keys.chars().fold(None, |before, c| {
            let key = match c {
                '↓' => Key::Down,
                '↑' => Key::Up,
                '⏎' => Key::Enter,
                '⎋' => Key::Escape,
                c => Key::Char(c),
            };
            self.key(key).or(before)
        })
    }

    fn selected(&self) -> Option<&str> {
        self.screen.selected.as_ref().map(|id| id.call.as_str())
    }
}

fn decided(effect: Option<Effect>) -> Option<(String, Order)> {
    match effect {
        Some(Effect::Decide(record, order)) => Some((record.function_call_id, order)),
        _ => None,
    }
}

#[test]
fn nothing_is_selected_until_somebody_moves() {
    let mut watch = Watch::with(vec![held("a", 1), held("b", 2)]);
    assert_eq!(watch.keys("asAd⏎"), None);
    assert_eq!((watch.selected(), watch.screen.dialog.is_some(), watch.screen.look), (None, false, None));
    watch.keys("↓");
    assert_eq!(watch.selected(), Some("a"));
    watch.keys("↓↓↓");
    assert_eq!(watch.selected(), Some("b"));
    watch.keys("↑");
    assert_eq!(watch.selected(), Some("a"));
}

#[test]
fn the_selection_follows_the_hold_when_lines_move() {
    let mut watch = Watch::with(vec![held("a", 1), held("b", 2), held("c", 3)]);
    watch.keys("↓↓");
    watch.listed(vec![held("b", 2), held("c", 3)]);
    assert_eq!((watch.selected(), watch.screen.row), (Some("b"), 0));
    assert_eq!(decided(watch.keys("a")).unwrap().0, "b");
}

#[test]
fn when_the_hold_goes_no_key_hits_another_one() {
    for (records, why) in
        [(vec![held("b", 2)], "decided elsewhere"), (vec![held("b", 2), held("a", 9)], "held again")]
    {
        let mut watch = Watch::with(vec![held("a", 1), held("b", 2)]);
        watch.keys("↓");
        watch.listed(records);
        assert_eq!(watch.selected(), None, "{why}");
        assert_eq!(watch.keys("aAs"), None, "{why}");
        watch.keys("↓");
        assert_eq!(watch.selected(), Some("b"), "the first key shows where the selection is: {why}");
    }
}

#[test]
fn a_key_typed_before_its_call_was_on_the_screen_is_not_obeyed() {
    let mut watch = Watch::with(vec![held("a", 1)]);
    let before = watch.frame;
    assert_eq!(watch.screen.update(Event::Key(Key::Down, before)), None);
    assert_eq!(watch.screen.update(Event::Key(Key::Char('a'), before)), None, "both came in one piece");
    watch.frame = watch.screen.painted();
    assert!(decided(watch.keys("a")).is_some());
}

#[test]
fn a_confirmation_typed_ahead_is_not_obeyed_and_the_question_stays() {
    let mut watch = Watch::with(vec![held("a", 1)]);
    watch.keys("↓");
    let before = watch.frame;
    assert_eq!(watch.screen.update(Event::Key(Key::Char('s'), before)), None);
    assert_eq!(watch.screen.update(Event::Key(Key::Char('y'), before)), None);
    watch.frame = watch.screen.painted();
    assert!(matches!(watch.screen.dialog, Some(Dialog::Confirm { .. })));
    assert!(decided(watch.keys("y")).is_some());
}

#[test]
fn once_is_one_key_and_everything_wider_is_asked_first() {
    let order = |record: PendingApprovalRecord, keys: &str| {
        let mut watch = Watch::with(vec![record]);
        watch.keys("↓");
        decided(watch.keys(keys)).map(|(_, order)| order)
    };
    let root = || folder("f", "/data", 1);
    assert_eq!(order(held("a", 1), "a"), Some(Order::allow(None, Beyond::Nothing)));
    assert_eq!(order(root(), "a"), Some(Order::allow(Some(Lasting::Once), Beyond::Nothing)));
    for (record, key, wide) in [
        (held("a", 1), 's', Order::allow(None, Beyond::Function)),
        (root(), 's', Order::allow(Some(Lasting::Session), Beyond::Nothing)),
        (root(), 'A', Order::allow(Some(Lasting::Always), Beyond::Nothing)),
    ] {
        assert_eq!(order(record.clone(), &key.to_string()), None);
        assert_eq!(order(record.clone(), &format!("{key}n")), None);
        assert_eq!(order(record.clone(), &format!("{key}⏎")), None);
        assert_eq!(order(record, &format!("{key}y")), Some(wide));
    }
    assert_eq!(order(held("a", 1), "Ay"), None, "there is no such permission");
}

#[test]
fn a_denial_takes_the_typed_reason() {
    let mut watch = Watch::with(vec![held("a", 1)]);
    watch.keys("↓dnot on a Fridaj");
    watch.key(Key::Backspace);
    watch.screen.update(Event::Pasted("y\u{1b}[2J\n!".into()));
    let (call, order) = decided(watch.keys("⏎")).unwrap();
    assert_eq!((call.as_str(), order), ("a", Order::deny(Some("not on a Friday [2J !".into()))));
    assert_eq!(watch.keys("d⎋"), None);
    assert_eq!(watch.screen.dialog, None);
}

#[test]
fn a_question_whose_hold_goes_stays_until_a_key_and_decides_nothing() {
    let mut watch = Watch::with(vec![held("a", 1), held("b", 2)]);
    watch.keys("↓dassa");
    watch.listed(vec![held("b", 2)]);
    assert_eq!(watch.keys("ssin"), None);
    assert!(matches!(&watch.screen.dialog, Some(Dialog::Reason { text, .. }) if text == "assassin"));
    assert_eq!(watch.keys("⏎"), None);
    assert!(watch.screen.notice.contains("a is no longer held"), "{}", watch.screen.notice);
}

#[test]
fn a_question_whose_hold_went_and_came_back_decides_nothing() {
    let mut watch = Watch::with(vec![held("a", 1)]);
    watch.keys("↓d");
    watch.listed(Vec::new());
    watch.listed(vec![held("a", 1)]);
    assert_eq!(watch.keys("⏎"), None);
    assert_eq!(watch.selected(), None);
}

#[test]
fn a_second_decision_waits_for_the_first() {
    let mut watch = Watch::with(vec![held("a", 1)]);
    assert!(decided(watch.keys("↓a")).is_some());
    assert_eq!(watch.keys("asd"), None);
    let id = HoldId::of(&held("a", 1));
    watch.screen.update(Event::Decided(id, "not done: try again".into()));
    watch.frame = watch.screen.painted();
    assert_eq!(watch.screen.notice, "a: not done: try again");
    assert!(decided(watch.keys("a")).is_some());
}

#[test]
fn what_others_decide_is_told() {
    let mut watch = Watch::with(vec![held("a", 1)]);
    let ended = Some(Ended { outcome: Outcome::Deny, reason: None });
    watch.news(News::Looked { session: "s_1".into(), call: "a".into(), now: None, ended });
    assert_eq!(watch.screen.notice, "shell::exec a is denied");
}

#[test]
fn looking_scrolls_decides_about_that_call_and_goes_back() {
    let mut watch = Watch::with(vec![held("a", 1), held("b", 2)]);
    watch.keys("↓⏎↓↓↑");
    assert_eq!((watch.screen.look, watch.selected()), (Some(1), Some("a")));
    assert_eq!(decided(watch.keys("a")).unwrap().0, "a");
    assert_eq!(watch.keys("q"), None, "back to the list first");
    assert_eq!(watch.screen.look, None);
    assert_eq!(watch.keys("q"), Some(Effect::Quit));
    watch.keys("d");
    assert_eq!(watch.key(Key::Interrupt), Some(Effect::Quit), "from anywhere");
}

fn steps() -> impl Strategy<Value = Vec<(u8, u8)>> {
    prop::collection::vec((0_u8..14, 0_u8..8), 0..60)
}

proptest! {
    /// Whatever happens, a decision is about the hold that was selected, and on the screen, when its key was typed.
    #[test]
    fn a_decision_is_about_what_was_on_the_screen(steps in steps()) {
        let mut screen = Screen::new("ws://e", 80, 24, 0);
        let (mut frame, mut on_screen) = (0, None);
        for (what, which) in steps {
            let keys = [Key::Down, Key::Up, Key::Char('a'), Key::Char('s'), Key::Char('y'), Key::Char('d'), Key::Enter, Key::Escape];
            let event = match what {
                0..8 => Event::Key(keys[usize::from(what)], frame),
                8 => Event::News(News::Listed((0..which).map(|n| held(&n.to_string(), i64::from(n))).collect(), 0)),
                9 => Event::News(News::Looked { session: "s_1".into(), call: which.to_string(), now: None, ended: None }),
                10 => Event::News(News::Looked { session: "s_1".into(), call: which.to_string(), now: Some(Box::new(held(&which.to_string(), 50))), ended: None }),
                11 => Event::Decided(HoldId::of(&held(&which.to_string(), i64::from(which))), "x".into()),
                _ => {
                    frame = screen.painted();
                    on_screen = screen.selected.clone();
                    continue;
                }
            };
            if let Some(Effect::Decide(record, _)) = screen.update(event) {
                let id = HoldId::of(&record);
                prop_assert!(screen.holds.get(&id).is_some());
                prop_assert_eq!(on_screen.as_ref(), Some(&id));
            }
        }
    }
}
