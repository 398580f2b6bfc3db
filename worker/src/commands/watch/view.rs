//! The state as lines of text, exactly as many and as long as the terminal has room for. No terminal needed.
//!
//! Every text that a record brings goes through `commands::text`. Tones are hints: without any of them the screen still
//! says everything, the selection by its `>`, a decision on its way by its `*`.

use super::follow::Link;
use super::holds::HoldId;
use super::screen::{Dialog, Screen};
use crate::commands::inbox::asked;
use crate::commands::show;
use crate::commands::text::{age, columns, fit, padded, quoted, safe, word};
use crate::wire::record::PendingApprovalRecord;

/// How a piece of a line is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// As any text.
    Plain,
    /// Stands out.
    Strong,
    /// Stands back.
    Faint,
    /// The selected line.
    Selected,
    /// Wants an answer, or is not as it should be.
    Alarm,
}

/// One line: a tone and its text.
pub type Line = (Tone, String);

/// What the terminal is to show.
#[derive(Debug, PartialEq)]
pub struct Frame {
    /// As many lines as the terminal has, none wider than it.
    pub lines: Vec<Line>,
    /// Where text is typed: column and line.
    pub cursor: Option<(usize, usize)>,
}

/// A column of the list. The last one takes what is left.
struct Column {
    title: &'static str,
    width: usize,
    cell: fn(&PendingApprovalRecord, i64, usize) -> String,
}

const COLUMNS: [Column; 4] = [
    Column {
        title: " AGE",
        width: 4,
        cell: |record, now, _| format!("{:>4}", age(now.saturating_sub(record.pending_at))),
    },
    Column { title: "SESSION", width: 16, cell: |record, _, width| fit(session_name(record), width) },
    Column {
        title: "SUB",
        width: 3,
        cell: |record, _, width| {
            if record.depth > 0 { fit(&record.depth.to_string(), width) } else { String::new() }
        },
    },
    Column { title: "ASKS FOR", width: usize::MAX, cell: |record, _, width| asked(record, width) },
];

const KEYS: [&str; 11] = [
    "  up, down, j, k        move; page up, page down, home, end too",
    "  enter                 the whole record",
    "  a                     allow this call, once",
    "  s                     allow, and for the session: its function, or its folder",
    "  A                     allow, and open its folder to all sessions for good",
    "  d                     deny, with a reason",
    "  escape, q             back; q in the list leaves",
    "",
    "  s and A ask first. Nothing is selected until you move. When a call is decided",
    "  elsewhere, nothing is selected again, so no key can hit another call.",
    "  A call that is marked with * is being decided.",
];

/// Draws it.
pub fn render(screen: &Screen) -> Frame {
    let (width, height) = (screen.width, screen.height);
    let mut lines = vec![header(screen)];
    let mut bottom = Vec::new();
    let mut cursor = None;
    match &screen.dialog {
        Some(Dialog::Confirm { hold, question, .. }) => {
            bottom.extend(gone(screen, hold));
            bottom.extend(wrap(question, width).into_iter().map(|line| (Tone::Alarm, line)));
            bottom.push((Tone::Strong, "y  yes      any other key  no".to_owned()));
        }
        Some(Dialog::Reason { hold, text }) => {
            let question = format!(
                "Why is {} denied? Empty: the model is told that an operator rejected it.",
                word(&hold.call)
            );
            bottom.extend(wrap(&question, width).into_iter().map(|line| (Tone::Alarm, line)));
            bottom.extend(gone(screen, hold));
            let typed = tail(&safe(text), width.saturating_sub(3));
            cursor = Some((columns(&typed) + 2, height.saturating_sub(2)));
            bottom.push((Tone::Plain, format!("> {typed}")));
            bottom.push((Tone::Strong, "enter  deny      escape  do not".to_owned()));
        }
        Some(Dialog::Help) | None => {
            bottom.push((Tone::Alarm, fit(&screen.notice, width)));
            bottom.push((Tone::Faint, keys_line(screen).to_owned()));
        }
    }
    let room = height.saturating_sub(lines.len() + bottom.len());
    lines.extend(match (&screen.dialog, screen.look) {
        (Some(Dialog::Help), _) => KEYS.iter().map(|line| (Tone::Plain, (*line).to_owned())).collect(),
        (_, Some(top)) => record_lines(screen, top, room),
        (_, None) => list_and_detail(screen, room),
    });
    lines.resize(1 + room, (Tone::Plain, String::new()));
    lines.extend(bottom);
    lines.truncate(height);
    for (_, text) in &mut lines {
        if columns(text) > width {
            *text = fit(text, width);
        }
    }
    Frame { lines, cursor: cursor.filter(|(column, line)| *column < width && *line < height) }
}

/// Says so, if a question is about a hold that is over.
fn gone(screen: &Screen, hold: &HoldId) -> Option<Line> {
    let over = screen.selected.as_ref() != Some(hold);
    over.then(|| (Tone::Alarm, "This call is no longer held. Nothing will be decided.".to_owned()))
}

fn header(screen: &Screen) -> Line {
    let held = match (screen.holds.all().len(), screen.unreadable) {
        (held, 0) => format!("{held} held"),
        (held, unreadable) => format!("{held} held, {unreadable} more cannot be read"),
    };
    let left = format!("approval-gate   {held}");
    let (tone, right) = match &screen.link {
        Link::Live => (Tone::Strong, screen.url.clone()),
        Link::Asking => (Tone::Strong, "asking …".to_owned()),
        Link::NoEngine(why) => (Tone::Alarm, format!("no engine, trying again: {why}")),
        Link::NoWorker(why) => (Tone::Alarm, format!("not up to date: {why}")),
    };
    let room = screen.width.saturating_sub(columns(&left) + 3);
    let right = fit(&right, room);
    (tone, format!("{}   {right}", padded(&left, screen.width.saturating_sub(columns(&right) + 3))))
}

fn keys_line(screen: &Screen) -> &'static str {
    match (&screen.dialog, screen.look, screen.selected.is_some()) {
        (Some(_), ..) => "any key goes back",
        (None, Some(_), true) => "a allow  s session  A always  d deny  up/down scroll  esc back  ? keys",
        (None, Some(_), false) => "esc back",
        (None, None, true) => "a allow  s session  A always  d deny  enter look  ? keys  q quit",
        (None, None, false) => "up/down select  ? keys  q quit",
    }
}

/// The list above, the selected call below it, if there is room for both.
fn list_and_detail(screen: &Screen, room: usize) -> Vec<Line> {
    let detail = if room >= 12 { room / 2 } else { 0 };
    let list = room.saturating_sub(detail);
    let mut lines = vec![(Tone::Faint, format!("   {}", titles()))];
    let rows = list.saturating_sub(1);
    let held = screen.holds.all();
    // The selected line stays in view; which lines are around it matters little.
    let top = (screen.row + 1).saturating_sub(rows).min(held.len().saturating_sub(rows));
    lines.extend(held.iter().skip(top).take(rows).map(|record| row(screen, record)));
    if held.is_empty() {
        let live = screen.link == Link::Live;
        let said = if live { "   nothing is held" } else { "   nothing is known to be held" };
        lines.push((Tone::Plain, said.to_owned()));
    }
    lines.resize(list, (Tone::Plain, String::new()));
    if detail > 0 {
        lines.push((Tone::Faint, "-".repeat(screen.width)));
        lines.extend(detail_lines(screen, detail - 1));
    }
    lines
}

fn titles() -> String {
    COLUMNS.iter().map(|column| padded(column.title, column.width.min(16))).collect::<Vec<_>>().join("  ")
}

fn row(screen: &Screen, record: &PendingApprovalRecord) -> Line {
    let id = HoldId::of(record);
    let selected = screen.selected.as_ref() == Some(&id);
    let mut line = format!(
        "{}{} ",
        if selected { '>' } else { ' ' },
        if screen.deciding.contains(&id) { '*' } else { ' ' }
    );
    for column in &COLUMNS {
        let width = column.width.min(screen.width.saturating_sub(columns(&line)));
        let cell = (column.cell)(record, screen.now, width);
        line.push_str(&padded(&cell, if column.width == usize::MAX { 0 } else { column.width }));
        line.push_str("  ");
    }
    let line = fit(line.trim_end(), screen.width);
    if selected { (Tone::Selected, padded(&line, screen.width)) } else { (Tone::Plain, line) }
}

fn session_name(record: &PendingApprovalRecord) -> &str {
    record.session_title.as_deref().filter(|title| !title.trim().is_empty()).unwrap_or(&record.session_id)
}

/// The selected call, as much as there is room for.
fn detail_lines(screen: &Screen, room: usize) -> Vec<Line> {
    let Some(record) = screen.selected_record() else { return Vec::new() };
    let ids = format!("{} {}", word(&record.session_id), word(&record.function_call_id));
    let mut from = show::labelled("from", &ids);
    if let Some(title) = &record.session_title {
        from = format!("{from}  {}", quoted(title));
    }
    let mut lines = show::asks(record);
    lines.push(fit(&from, screen.width));
    lines.extend(show::argument_lines(record));
    let mut lines: Vec<String> = lines.iter().flat_map(|line| wrap(line, screen.width)).collect();
    let left_out = lines.len().saturating_sub(room);
    if left_out > 0 {
        lines.truncate(room.saturating_sub(1));
        lines.push(format!("… {} more lines: enter shows them", left_out + 1));
    }
    lines.into_iter().map(|line| (Tone::Plain, line)).collect()
}

/// The whole record, from one of its lines on.
fn record_lines(screen: &Screen, top: usize, room: usize) -> Vec<Line> {
    let Some(record) = screen.selected_record() else {
        return vec![(Tone::Plain, String::new()), (Tone::Alarm, "This call is no longer held.".to_owned())];
    };
    let lines: Vec<String> =
        show::lines(record, screen.now).iter().flat_map(|line| wrap(line, screen.width)).collect();
    let shown = room.saturating_sub(2);
    let top = top.min(lines.len().saturating_sub(shown));
    let below = lines.len().saturating_sub(top + shown);
    let mut view: Vec<Line> = vec![(Tone::Plain, String::new())];
    view.extend(lines.into_iter().skip(top).take(shown).map(|line| (Tone::Plain, line)));
    if below > 0 {
        view.push((Tone::Faint, format!("… {below} more lines below")));
    }
    view
}

/// A harmless line over several, none wider than `width`, broken behind a space if there is one near. Lines that go on
/// are marked, so that none passes for a new one.
fn wrap(line: &str, width: usize) -> Vec<String> {
    const GOES_ON: &str = "    | ";
    if columns(line) <= width || width <= GOES_ON.len() + 2 {
        return vec![line.to_owned()];
    }
    let mut lines = vec![String::new()];
    let mut used = 0;
    for c in line.chars() {
        let wide = columns(c.encode_utf8(&mut [0; 4]));
        if used + wide > width {
            let moved = lines.last_mut().map(|last| last.split_off(break_of(last))).unwrap_or_default();
            used = GOES_ON.len() + columns(&moved);
            lines.push(format!("{GOES_ON}{moved}"));
        }
        if let Some(last) = lines.last_mut() {
            last.push(c);
        }
        used += wide;
    }
    lines
}

/// Where a full line is best broken: behind its last space, unless that is far back.
fn break_of(line: &str) -> usize {
    const FAR: usize = 24;
    let space = line.rfind(' ').map_or(0, |space| space + 1);
    if columns(&line[space..]) <= FAR && columns(&line[..space]) > FAR { space } else { line.len() }
}

/// The end of a harmless text, as much as fits.
fn tail(text: &str, width: usize) -> String {
    let mut used = 0;
    let kept = text.chars().rev().take_while(|c| {
        used += columns(c.encode_utf8(&mut [0; 4]));
        used <= width
    });
    let kept: Vec<char> = kept.collect();
    kept.into_iter().rev().collect()
}

#[cfg(test)]
mod tests;
