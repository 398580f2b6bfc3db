//! One string, made fit to be shown: its secrets replaced, then its two ends kept.
//!
//! The order is what keeps a secret from being cut in two and half shown: first find secrets, then escape, then clip. A
//! long string is looked at in two windows only, so that five megabytes cost no more than a page. The tail window
//! begins in the middle of something: its first part is context and never shown, and if what begins there runs on
//! into the shown part, a look back decides whether a secret-looking name stood in front of it.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::Value;

use super::REDACTED;
use super::clues::Clues;
use super::pairs;
use super::shapes::{self, Cut};
use super::visible::{visible, visible_ends};

/// Strings up to this many bytes are looked at as a whole.
const WHOLE_BYTES: usize = 24 * 1024;
/// How much of the start of a longer string is looked at, and how much of that is context only.
const HEAD_BYTES: usize = 6 * 1024;
const HEAD_CONTEXT_BYTES: usize = 1024;
/// How much of the end of a longer string is looked at, and how much of that is context only.
const TAIL_BYTES: usize = 16 * 1024;
const TAIL_CONTEXT_BYTES: usize = 2 * 1024;
/// How far back the beginning of an unbroken run is looked for, and how much around it is then read.
const LOOK_BACK_BYTES: usize = 256 * 1024;
const LOOK_BACK_CONTEXT_BYTES: usize = 512;
/// Deepest nesting of JSON text inside JSON text that is taken apart; deeper text is read as plain text.
const NESTED_TEXTS: usize = 4;

/// How many bytes of a string are looked at; what the caller's budget is charged.
pub(super) fn looked_at(text: &str) -> usize {
    if is_whole(text) { text.len() } else { HEAD_BYTES + TAIL_BYTES }
}

/// Whether a string is looked at as a whole.
fn is_whole(text: &str) -> bool {
    text.len() <= WHOLE_BYTES
}

/// The text with every secret in it replaced by `<redacted>`, in time linear in its length (contract §10). Text that
/// is JSON is written anew if it held a secret that only its structure tells.
pub fn redact_text(text: &str) -> Cow<'_, str> {
    redact_nested(text, 0)
}

fn redact_nested(text: &str, nesting: usize) -> Cow<'_, str> {
    redact_by(Clues::of(text), text, nesting)
}

fn redact_by(clues: Clues, text: &str, nesting: usize) -> Cow<'_, str> {
    if clues.is_none() {
        return Cow::Borrowed(text);
    }
    if let Some(rewritten) = redact_json(text, nesting) {
        return Cow::Owned(hide(&rewritten, &shapes::find(&rewritten, Cut::default()), 0..rewritten.len()));
    }
    let secrets = shapes::find_by(clues, text, Cut::default());
    if secrets.is_empty() { Cow::Borrowed(text) } else { Cow::Owned(hide(text, &secrets, 0..text.len())) }
}

/// The JSON text without the secrets that its structure tells, or `None` if there are none or it is no JSON.
fn redact_json(text: &str, nesting: usize) -> Option<String> {
    if nesting >= NESTED_TEXTS || text.len() > WHOLE_BYTES || !text.trim_start().starts_with(['{', '[']) {
        return None;
    }
    let mut value: Value = serde_json::from_str(text).ok()?;
    scrub(&mut value, nesting + 1).then(|| value.to_string())
}

/// Replaces the secrets in a parsed value, whose depth the parser has bounded. Tells whether there were any.
fn scrub(value: &mut Value, nesting: usize) -> bool {
    match value {
        Value::Object(members) => {
            let secret: Vec<bool> =
                members.iter().map(|(key, member)| pairs::hides(members, key, member)).collect();
            let mut found = false;
            for (member, secret) in members.values_mut().zip(secret) {
                found |= if secret { blot(member) } else { scrub(member, nesting) };
            }
            found
        }
        Value::Array(items) => {
            let secret: Vec<bool> = (0..items.len()).map(|index| pairs::hides_item(items, index)).collect();
            let mut found = false;
            for (item, secret) in items.iter_mut().zip(secret) {
                found |= if secret { blot(item) } else { scrub(item, nesting) };
            }
            found
        }
        Value::String(text) => match redact_nested(text, nesting) {
            Cow::Borrowed(_) => false,
            Cow::Owned(redacted) => {
                *text = redacted;
                true
            }
        },
        _ => false,
    }
}

fn blot(value: &mut Value) -> bool {
    *value = Value::String(REDACTED.to_owned());
    true
}

/// The text as the excerpt shows it: redacted, made visible, at most `max_code_points` long (contract §10). However long
/// it is, only its ends are looked at.
pub fn shown(text: &str, max_code_points: usize) -> String {
    shown_by(clues(text), text, max_code_points)
}

/// The clues of a text that is looked at as a whole.
pub(super) fn clues(text: &str) -> Option<Clues> {
    is_whole(text).then(|| Clues::of(text))
}

/// As [`shown`], for a text whose [`clues`] are known.
pub(super) fn shown_by(clues: Option<Clues>, text: &str, max_code_points: usize) -> String {
    match clues {
        Some(clues) => visible(&redact_by(clues, text, 0), max_code_points),
        None => visible_ends(&head(text), &tail(text), max_code_points),
    }
}

/// The start of a long text without its secrets.
fn head(text: &str) -> String {
    let window = &text[..text.floor_char_boundary(HEAD_BYTES)];
    let end = text.floor_char_boundary(HEAD_BYTES - HEAD_CONTEXT_BYTES);
    hide(window, &shapes::find(window, Cut { start: false, end: true }), 0..end)
}

/// The end of a long text without its secrets, also without the rest of one that began before the window.
fn tail(text: &str) -> String {
    let start = text.ceil_char_boundary(text.len() - TAIL_BYTES);
    let window = &text[start..];
    let context = text.ceil_char_boundary(start + TAIL_CONTEXT_BYTES);
    let run_end = text[context..].find(breaks).map_or(text.len(), |index| context + index);
    let runs_far = text.len() - run_end < TAIL_CONTEXT_BYTES;
    let shown_from = if runs_far && !belongs_to_secret(text, context) { context } else { run_end };
    let mut secrets = shapes::find(window, Cut { start: true, end: false });
    if runs_far && shown_from == run_end {
        secrets.insert(0, 0..run_end - start);
        secrets.retain(|secret| secret.end >= run_end - start);
    }
    let from = if runs_far && shown_from == run_end { 0 } else { shown_from - start };
    hide(window, &secrets, from..window.len())
}

/// Whether the unbroken run of characters around `at` is, as far as a look back can tell, the value of a secret. A
/// run too long to look back to its start counts as one unless it is the same character over and over.
fn belongs_to_secret(text: &str, at: usize) -> bool {
    let earliest = text.ceil_char_boundary(at.saturating_sub(LOOK_BACK_BYTES));
    let run_start =
        |ends: fn(char) -> bool| match text[earliest..at].char_indices().rev().find(|(_, c)| ends(*c)) {
            Some((index, c)) => Some(earliest + index + c.len_utf8()),
            None => (earliest == 0).then_some(0),
        };
    // A name may stand in front of the run or, parted by a sign only, inside it.
    let starts = [run_start(breaks), run_start(|c| breaks(c) || matches!(c, '=' | ':'))];
    if starts == [None, None] {
        let mut run = text[at..].chars().take_while(|c| !breaks(*c));
        let first = run.next();
        return !run.all(|c| Some(c) == first);
    }
    starts.into_iter().flatten().any(|run| {
        let from = text.ceil_char_boundary(run.saturating_sub(LOOK_BACK_CONTEXT_BYTES));
        let lead = &text[from..text.floor_char_boundary(run + 2 * LOOK_BACK_CONTEXT_BYTES)];
        let secrets = shapes::find(lead, Cut { start: from > 0, end: true });
        secrets.last().is_some_and(|secret| secret.end == lead.len())
    })
}

/// Whether a character ends what could be one unbroken secret.
fn breaks(c: char) -> bool {
    c.is_whitespace()
        || matches!(
            c,
            '"' | '\'' | '`' | ';' | '&' | '|' | '<' | '>' | '(' | ')' | '{' | '}' | '[' | ']' | ','
        )
}

/// The part `shown` of a text with each secret in it, or reaching into it, replaced.
fn hide(text: &str, secrets: &[Range<usize>], shown: Range<usize>) -> String {
    let mut clean = String::with_capacity(shown.len());
    let mut at = shown.start;
    for secret in secrets.iter().filter(|secret| secret.end > shown.start && secret.start < shown.end) {
        clean.push_str(&text[at..secret.start.max(at)]);
        clean.push_str(REDACTED);
        at = secret.end.min(shown.end);
    }
    clean.push_str(&text[at..shown.end]);
    clean
}
