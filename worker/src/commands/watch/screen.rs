//! What the watch shows and what a key does to it: a state, events, and the orders that come out. No terminal, no socket,
//! no clock.
//!
//! Three rules keep a key from deciding about something else than a person saw. The selection is a hold, not a line: when
//! the hold goes, nothing is selected. A decision takes the hold with it, and whoever carries it out checks that it is
//! still that one. And a key that was typed before the screen showed what it would act on is not obeyed.

use std::collections::BTreeSet;

use super::follow::{Link, News};
use super::holds::{Change, Ended, HoldId, Holds};
use super::keys::Key;
use crate::cli::person::Lasting;
use crate::commands::decide::{Beyond, Order};
use crate::commands::text::word;
use crate::wire::events::Outcome;
use crate::wire::record::PendingApprovalRecord;

/// Longest reason that can be typed, in characters.
const REASON_CHARACTERS: usize = 500;

/// Something happened.
#[derive(Debug)]
pub enum Event {
    /// A key. `frame` is the number of the frame that was on the screen when it was typed.
    Key(Key, u64),
    /// Text was pasted.
    Pasted(String),
    /// The terminal has this many columns and lines now.
    Resized(usize, usize),
    /// It is this late, in milliseconds since the epoch.
    Time(i64),
    /// The worker told something.
    News(News),
    /// A decision was carried out, or not; in words.
    Decided(HoldId, String),
}

/// Something is to be done.
#[derive(Debug, PartialEq)]
pub enum Effect {
    /// Decide about this hold and no other.
    Decide(Box<PendingApprovalRecord>, Order),
    /// Leave.
    Quit,
}

/// A question over the list, or over a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dialog {
    /// Shall this be done to this hold?
    Confirm {
        /// The hold.
        hold: HoldId,
        /// What is asked.
        question: String,
        /// What is done then.
        order: Order,
    },
    /// Why is this hold denied?
    Reason {
        /// The hold.
        hold: HoldId,
        /// What was typed so far.
        text: String,
    },
    /// The keys.
    Help,
}

/// The state.
pub struct Screen {
    /// What is held.
    pub holds: Holds,
    /// The hold that decisions are about.
    pub selected: Option<HoldId>,
    /// The line of the list where the selection is, or was.
    pub row: usize,
    /// The record that is shown in full, by its first visible line.
    pub look: Option<usize>,
    /// A question.
    pub dialog: Option<Dialog>,
    /// Holds whose decision is on its way.
    pub deciding: BTreeSet<HoldId>,
    /// The last thing worth telling.
    pub notice: String,
    /// Whether we are up to date.
    pub link: Link,
    /// Records that cannot be read.
    pub unreadable: usize,
    /// Where the engine is.
    pub url: String,
    /// Columns of the terminal.
    pub width: usize,
    /// Lines of the terminal.
    pub height: usize,
    /// Milliseconds since the epoch.
    pub now: i64,
    /// Number of the frame on the screen.
    frame: u64,
    /// The frame that first showed what a key would act on now; `None` until it is on the screen.
    shown_since: Option<u64>,
}

impl Screen {
    /// Nothing known yet.
    pub fn new(url: &str, width: usize, height: usize, now: i64) -> Self {
        Self {
            holds: Holds::default(),
            selected: None,
            row: 0,
            look: None,
            dialog: None,
            deciding: BTreeSet::new(),
            notice: String::new(),
            link: Link::Asking,
            unreadable: 0,
            url: url.to_owned(),
            width,
            height,
            now,
            frame: 0,
            shown_since: None,
        }
    }

    /// The state is on the screen now. Gives the number of the frame.
    pub fn painted(&mut self) -> u64 {
        self.frame += 1;
        self.shown_since.get_or_insert(self.frame);
        self.frame
    }

    /// The selected hold's record.
    pub fn selected_record(&self) -> Option<&PendingApprovalRecord> {
        self.selected.as_ref().and_then(|id| self.holds.get(id))
    }

    /// Takes an event.
    pub fn update(&mut self, event: Event) -> Option<Effect> {
        let before = (self.selected.clone(), self.dialog_kind());
        let effect = match event {
            Event::Key(key, frame) => self.key(key, frame),
            Event::Pasted(text) => {
                self.typed(&text);
                None
            }
            Event::Resized(width, height) => {
                (self.width, self.height) = (width, height);
                None
            }
            Event::Time(now) => {
                self.now = now;
                None
            }
            Event::News(news) => {
                self.news(news);
                None
            }
            Event::Decided(id, words) => {
                self.deciding.remove(&id);
                self.notice = format!("{}: {words}", word(&id.call));
                None
            }
        };
        if before != (self.selected.clone(), self.dialog_kind()) {
            self.shown_since = None;
        }
        effect
    }

    /// What a key would act on, apart from the selection.
    fn dialog_kind(&self) -> Option<(u8, Option<HoldId>)> {
        self.dialog.as_ref().map(|dialog| match dialog {
            Dialog::Confirm { hold, .. } => (0, Some(hold.clone())),
            Dialog::Reason { hold, .. } => (1, Some(hold.clone())),
            Dialog::Help => (2, None),
        })
    }

    fn news(&mut self, news: News) {
        let changes = match news {
            News::Link(link) => {
                self.link = link;
                return;
            }
            News::Listed(records, unreadable) => {
                self.unreadable = unreadable;
                self.holds.listed(records)
            }
            News::Looked { session, call, now, ended } => {
                self.holds.looked(&session, &call, now, ended.as_ref())
            }
        };
        for change in changes {
            if let Change::Over { record, ended } = change {
                self.over(&HoldId::of(&record), &record, ended.as_ref());
            }
        }
        match self.selected.as_ref().map(|id| self.holds.position(id)) {
            Some(Some(row)) => self.row = row,
            Some(None) => self.selected = None,
            None => {}
        }
        self.row = self.row.min(self.holds.all().len().saturating_sub(1));
    }

    /// Tells of a hold that somebody else ended.
    fn over(&mut self, id: &HoldId, record: &PendingApprovalRecord, ended: Option<&Ended>) {
        if self.deciding.contains(id) {
            return;
        }
        let how = match ended.map(|ended| ended.outcome) {
            Some(Outcome::Allow) => "allowed",
            Some(Outcome::Deny) => "denied",
            Some(Outcome::Aborted) => "over: its turn or session ended, or it was held anew",
            None => "no longer held",
        };
        // What this terminal did is told when its own decision comes back.
        if !self.notice.starts_with(&format!("{}: ", word(&id.call))) {
            self.notice = format!("{} {} is {how}", word(&record.function_id), word(&id.call));
        }
    }

    fn key(&mut self, key: Key, frame: u64) -> Option<Effect> {
        if key == Key::Interrupt {
            return Some(Effect::Quit);
        }
        match self.dialog.take() {
            Some(dialog) => self.answer(dialog, key, frame),
            None => self.command(key, frame),
        }
    }

    /// A key while a question stands.
    fn answer(&mut self, dialog: Dialog, key: Key, frame: u64) -> Option<Effect> {
        let decides = match &dialog {
            Dialog::Confirm { .. } => key == Key::Char('y'),
            Dialog::Reason { .. } => key == Key::Enter,
            Dialog::Help => false,
        };
        if decides && !self.was_shown(frame) {
            self.dialog = Some(dialog);
            return None;
        }
        match (dialog, key) {
            (Dialog::Confirm { hold, order, .. }, Key::Char('y')) => self.decide(&hold, order, frame),
            (Dialog::Reason { hold, text }, Key::Enter) => {
                self.decide(&hold, Order::deny(Some(text.trim().to_owned())), frame)
            }
            (Dialog::Confirm { .. }, _) | (Dialog::Reason { .. }, Key::Escape) => {
                "nothing was decided".clone_into(&mut self.notice);
                None
            }
            (Dialog::Reason { hold, mut text }, key) => {
                match key {
                    Key::Backspace => drop(text.pop()),
                    Key::ClearLine => text.clear(),
                    _ => {}
                }
                self.dialog = Some(Dialog::Reason { hold, text });
                if let Key::Char(c) = key {
                    self.typed(c.encode_utf8(&mut [0; 4]));
                }
                None
            }
            (Dialog::Help, _) => None,
        }
    }

    /// Adds to the reason, if one is being typed: one line of text, whatever it was.
    fn typed(&mut self, more: &str) {
        if let Some(Dialog::Reason { text, .. }) = &mut self.dialog {
            let room = REASON_CHARACTERS.saturating_sub(text.chars().count());
            text.extend(more.chars().map(|c| if c.is_control() { ' ' } else { c }).take(room));
        }
    }

    /// A key while no question stands.
    fn command(&mut self, key: Key, frame: u64) -> Option<Effect> {
        match (key, self.look) {
            (Key::Char('q'), None) => return Some(Effect::Quit),
            (Key::Char('q') | Key::Escape | Key::Left, Some(_)) => self.look = None,
            (Key::Char('?'), _) => self.dialog = Some(Dialog::Help),
            (Key::Down, Some(top)) => self.look = Some(top.saturating_add(1)),
            (Key::Up, Some(top)) => self.look = Some(top.saturating_sub(1)),
            (Key::PageDown, Some(top)) => self.look = Some(top.saturating_add(self.height / 2)),
            (Key::PageUp, Some(top)) => self.look = Some(top.saturating_sub(self.height / 2)),
            (Key::Home, Some(_)) => self.look = Some(0),
            (Key::Down, None) => self.select(|row| row.saturating_add(1)),
            (Key::Up, None) => self.select(|row| row.saturating_sub(1)),
            (Key::PageDown, None) => self.select(|row| row.saturating_add(8)),
            (Key::PageUp, None) => self.select(|row| row.saturating_sub(8)),
            (Key::Home, None) => self.select(|_| 0),
            (Key::End, None) => self.select(|_| usize::MAX),
            (Key::Enter | Key::Right, None) if self.selected.is_some() => self.look = Some(0),
            (Key::Char('a' | 's' | 'A' | 'd') | Key::Enter, _) => return self.about_selected(key, frame),
            _ => {}
        }
        None
    }

    /// Moves the selection. After it was lost, the first key only shows where it is.
    fn select(&mut self, step: impl FnOnce(usize) -> usize) {
        let Some(last) = self.holds.all().len().checked_sub(1) else { return };
        self.row = if self.selected.is_some() { step(self.row).min(last) } else { self.row.min(last) };
        self.selected = self.holds.all().get(self.row).map(HoldId::of);
        self.notice.clear();
    }

    /// A key that decides about the selected hold, or asks first.
    fn about_selected(&mut self, key: Key, frame: u64) -> Option<Effect> {
        let Some(record) = self.selected_record() else {
            "nothing is selected; move with the arrow keys".clone_into(&mut self.notice);
            return None;
        };
        let (hold, function) = (HoldId::of(record), word(&record.function_id));
        let folder = record.access_request.as_ref().map(|access| word(&access.requested_root));
        let session = word(&record.session_id);
        if self.deciding.contains(&hold) {
            "a decision on this call is on its way".clone_into(&mut self.notice);
            return None;
        }
        let confirm = |question, order| Some(Dialog::Confirm { hold: hold.clone(), question, order });
        match (key, folder) {
            (Key::Char('a'), folder) => {
                return self.decide(
                    &hold,
                    Order::allow(folder.map(|_| Lasting::Once), Beyond::Nothing),
                    frame,
                );
            }
            (Key::Char('s'), None) => {
                let question = format!(
                    "Run this call, and stop asking about {function} in session {session}, in every mode?"
                );
                self.dialog = confirm(question, Order::allow(None, Beyond::Function));
            }
            (Key::Char('s'), Some(folder)) => {
                let question =
                    format!("Run this call, and open {folder} to session {session} until it ends?");
                self.dialog = confirm(question, Order::allow(Some(Lasting::Session), Beyond::Nothing));
            }
            (Key::Char('A'), Some(folder)) => {
                let question =
                    format!("Run this call, and open {folder} to ALL sessions of this deployment, for good?");
                self.dialog = confirm(question, Order::allow(Some(Lasting::Always), Beyond::Nothing));
            }
            (Key::Char('A'), None) => {
                "only folders can be opened for good; `s` is for this session, a rule is for all"
                    .clone_into(&mut self.notice);
            }
            (Key::Char('d'), _) => self.dialog = Some(Dialog::Reason { hold, text: String::new() }),
            _ => {}
        }
        None
    }

    /// Whether a frame showed what a key acts on now.
    fn was_shown(&self, frame: u64) -> bool {
        self.shown_since.is_some_and(|since| since <= frame)
    }

    /// Orders a decision, if the hold is still there and was on the screen when the key was typed.
    fn decide(&mut self, hold: &HoldId, order: Order, frame: u64) -> Option<Effect> {
        // The selection is lost with the hold and does not come back with it: a question that once said that its hold is
        // gone decides nothing.
        let Some(record) = self.selected_record().filter(|record| HoldId::of(record) == *hold).cloned()
        else {
            self.notice = format!("{} is no longer held; nothing was decided", word(&hold.call));
            return None;
        };
        if !self.was_shown(frame) {
            "that key came before the screen showed what it is about; press it again"
                .clone_into(&mut self.notice);
            return None;
        }
        self.deciding.insert(hold.clone());
        self.notice = format!("{}: deciding …", word(&hold.call));
        Some(Effect::Decide(Box::new(record), order))
    }
}

#[cfg(test)]
mod tests;
