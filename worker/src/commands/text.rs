//! Text for a terminal: made harmless, measured, cut, and the few words for times.
//!
//! Everything that comes from a record goes through here on its way to the screen. The worker has made its records
//! visible already, but titles, ids and metadata have other authors, and the engine may have another worker. The
//! non-obvious fact: a column is not a character. East Asian characters take two, marks take none, and a terminal that
//! counts otherwise than we do would let one line run into the next.

use std::borrow::Cow;

use serde_json::Value;
use unicode_width::UnicodeWidthChar;

use crate::redact::visible_exact;

/// Marks on one character that are shown; more of them reach into the lines above and below.
const MARKS: usize = 2;
/// Arguments that tell most about a call, in the order in which they are shown first.
const TELLING: [&str; 13] = [
    "command",
    "cmd",
    "script",
    "code",
    "sql",
    "query",
    "url",
    "path",
    "file",
    "file_path",
    "dir",
    "target",
    "to",
];
/// Below this many columns a further argument is left out.
const FEW_COLUMNS: usize = 10;

/// The text as it may reach a terminal: one line, nothing hidden, nothing that moves the cursor or changes colours.
pub fn safe(text: &str) -> String {
    Pieces::of(text, false).joined()
}

/// As [`safe`], at most `columns` wide: three quarters from its start, the rest from its end, one `…` between.
pub fn fit(text: &str, columns: usize) -> String {
    Pieces::of(text, false).fitted(columns)
}

/// As [`safe`], in double quotes, so that it cannot pass for something beside it.
pub fn quoted(text: &str) -> String {
    format!("\"{}\"", Pieces::of(text, true).joined())
}

/// As [`quoted`], at most `columns` wide with its quotes.
pub fn quoted_fit(text: &str, columns: usize) -> String {
    format!("\"{}\"", Pieces::of(text, true).fitted(columns.saturating_sub(2)))
}

/// An id or a path: as it is if it is one plain word, else quoted as a shell takes it, so that a line copied from the
/// screen means what it shows.
pub fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.,:/@%+=".contains(c);
    if !text.is_empty() && !text.starts_with('-') && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", safe(text).replace('\'', "'\\''"))
    }
}

/// How many columns a harmless text takes.
pub fn columns(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// A harmless text, filled with spaces up to this width.
pub fn padded(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(columns(text))))
}

/// The arguments of a call on one line, the telling ones first: `command="make deploy" cwd="/srv"`. Empty if there are
/// none.
pub fn arguments(arguments: &Value, width: usize) -> String {
    let Value::Object(members) = arguments else {
        return if arguments.is_null() { String::new() } else { fit(&arguments.to_string(), width) };
    };
    let rank = |key: &str| TELLING.iter().position(|telling| *telling == key).unwrap_or(TELLING.len());
    let mut members: Vec<_> = members.iter().collect();
    members.sort_by_key(|(key, _)| rank(key));
    let mut line = String::new();
    for (index, (key, value)) in members.iter().enumerate() {
        let name = format!("{}{}=", if index == 0 { "" } else { " " }, word(key));
        let last = index + 1 == members.len();
        // Two are kept for the sign that something was left out.
        let left = width.saturating_sub(columns(&line) + columns(&name) + if last { 0 } else { 2 });
        if index > 0 && left < FEW_COLUMNS {
            line.push_str(" …");
            break;
        }
        line.push_str(&name);
        line.push_str(&match value {
            Value::String(text) => quoted_fit(text, left),
            other => fit(&other.to_string(), left),
        });
    }
    if columns(&line) > width { fit(&line, width) } else { line }
}

/// How long something has waited, in one unit: `5s`, `12m`, `3h`, `2d`.
pub fn age(milliseconds: i64) -> String {
    let seconds = milliseconds.max(0) / 1000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// A moment in milliseconds since the epoch, as `2026-11-30T17:04:41Z`.
pub fn moment(milliseconds: i64) -> String {
    let seconds = milliseconds.div_euclid(1000);
    let (days, of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Years are counted from March, so that the day that comes and goes is the last one.
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Bold and dim text, on a terminal that has not been asked to do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paint {
    on: bool,
}

impl Paint {
    /// No codes at all.
    pub const PLAIN: Self = Self { on: false };

    /// What the standard output takes.
    pub fn of_stdout() -> Self {
        Self { on: std::io::IsTerminal::is_terminal(&std::io::stdout()) && colours_wanted() }
    }

    /// Stands out.
    pub fn bold(self, text: &str) -> Cow<'_, str> {
        self.code("1", text)
    }

    /// Stands back.
    pub fn dim(self, text: &str) -> Cow<'_, str> {
        self.code("2", text)
    }

    fn code<'a>(self, code: &str, text: &'a str) -> Cow<'a, str> {
        if self.on { format!("\x1b[{code}m{text}\x1b[0m").into() } else { text.into() }
    }
}

/// Whether the environment leaves colours to us.
pub fn colours_wanted() -> bool {
    #[cfg(windows)]
    if !crossterm::ansi_support::supports_ansi() {
        return false;
    }
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// A text cut into what must not be cut further: a character with its marks, or a spelled one.
struct Pieces(Vec<(String, usize)>);

impl Pieces {
    fn of(text: &str, in_quotes: bool) -> Self {
        let mut pieces: Vec<(String, usize)> = Vec::new();
        let mut marks = MARKS;
        for c in text.chars() {
            let one = c.to_string();
            let shown = visible_exact(&one);
            if *shown != one {
                pieces.push((shown.into_owned(), columns(&visible_exact(&one))));
                marks = MARKS;
            } else if c == '"' && in_quotes {
                pieces.push(("\\\"".to_owned(), 2));
                marks = 0;
            } else if c.width().unwrap_or(0) > 0 {
                pieces.push((one, c.width().unwrap_or(0)));
                marks = 0;
            } else if let Some((piece, _)) = pieces.last_mut().filter(|_| marks < MARKS) {
                piece.push(c);
                marks += 1;
            } else {
                let spelled = c.escape_unicode().to_string();
                pieces.push((spelled.clone(), spelled.len()));
            }
        }
        Self(pieces)
    }

    fn joined(&self) -> String {
        self.0.iter().map(|(piece, _)| piece.as_str()).collect()
    }

    fn fitted(&self, columns: usize) -> String {
        if self.0.iter().map(|(_, width)| width).sum::<usize>() <= columns {
            return self.joined();
        }
        let Some(left) = columns.checked_sub(1) else { return String::new() };
        let from_start = columns * 3 / 4;
        let head = taken(self.0.iter(), from_start.min(left));
        let tail = taken(self.0.iter().rev(), left.saturating_sub(from_start));
        let shown =
            |pieces: &[(String, usize)]| pieces.iter().map(|(piece, _)| piece.as_str()).collect::<String>();
        format!("{}…{}", shown(&self.0[..head]), shown(&self.0[self.0.len() - tail..]))
    }
}

/// How many of these pieces fit into so many columns.
fn taken<'a>(pieces: impl Iterator<Item = &'a (String, usize)>, columns: usize) -> usize {
    let mut used = 0;
    pieces
        .take_while(|(_, width)| {
            used += width;
            used <= columns
        })
        .count()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_moves_the_cursor_or_colours_or_breaks_the_line() {
        for (given, shown) in [
            ("make deploy", "make deploy"),
            ("a\u{1b}[2Kb\nc", r"a\u{1b}[2Kb\nc"),
            ("\u{202e}gnp", r"\u{202e}gnp"),
            ("\u{9b}31m", r"\u{9b}31m"),
        ] {
            assert_eq!(safe(given), shown);
        }
    }

    #[test]
    fn a_pile_of_marks_does_not_reach_into_other_lines() {
        assert_eq!(safe("e\u{301}"), "e\u{301}");
        assert_eq!(safe("e\u{301}\u{301}\u{301}"), "e\u{301}\u{301}\\u{301}");
        assert_eq!(safe("\u{301}e"), "\\u{301}e");
    }

    #[test]
    fn both_ends_of_a_long_text_are_kept_and_wide_characters_count_two() {
        assert_eq!(fit("0123456789", 10), "0123456789");
        assert_eq!(fit("0123456789abc", 10), "0123456…bc");
        assert_eq!(fit("漢漢漢漢漢漢", 6), "漢漢…");
        assert_eq!(fit("abc", 0), "");
        assert_eq!(fit("abc", 1), "…");
    }

    #[test]
    fn a_quoted_text_cannot_end_its_quotes_and_an_odd_id_cannot_leave_the_shell_word() {
        assert_eq!(quoted(r#"a" s_9 c_9"#), r#""a\" s_9 c_9""#);
        assert_eq!(word("toolu_01-A.b"), "toolu_01-A.b");
        assert_eq!(word("x; rm -rf ~"), "'x; rm -rf ~'");
        assert_eq!(word("it's $(id)"), r"'it'\''s $(id)'");
        assert_eq!(word("--all"), "'--all'");
        assert_eq!(word(""), "''");
    }

    #[test]
    fn the_telling_argument_comes_first_and_the_rest_as_far_as_there_is_room() {
        let call = json!({"cwd": "/srv", "command": "make deploy", "n": 1});
        assert_eq!(arguments(&call, 80), r#"command="make deploy" cwd="/srv" n=1"#);
        assert_eq!(arguments(&call, 30), r#"command="make deploy" …"#);
        assert_eq!(arguments(&json!({}), 80), "");
        assert_eq!(arguments(&json!(null), 80), "");
        assert_eq!(arguments(&json!(["a"]), 80), r#"["a"]"#);
        let long = json!({"command": format!("echo {}; rm -rf ~", "x".repeat(100))});
        let shown = arguments(&long, 40);
        assert!(shown.ends_with(r#"-rf ~""#) && columns(&shown) <= 40, "{shown}");
    }

    #[test]
    fn ages_have_one_unit() {
        for (ms, shown) in
            [(-5, "0s"), (59_999, "59s"), (60_000, "1m"), (3_600_000, "1h"), (172_800_000, "2d")]
        {
            assert_eq!(age(ms), shown);
        }
    }

    #[test]
    fn moments_are_those_of_the_calendar() {
        for (ms, shown) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399_000, "2000-02-28T23:59:59Z"),
            (951_782_400_000, "2000-02-29T00:00:00Z"),
            (1_796_058_281_000, "2026-11-30T17:04:41Z"),
            (-1, "1969-12-31T23:59:59Z"),
        ] {
            assert_eq!(moment(ms), shown);
        }
    }

    #[test]
    fn without_a_terminal_there_are_no_codes() {
        assert_eq!(Paint::PLAIN.bold("x"), "x");
        assert_eq!(Paint { on: true }.bold("x"), "\u{1b}[1mx\u{1b}[0m");
    }

    proptest! {
        #[test]
        fn whatever_is_given_fits_and_hides_nothing(text in "\\PC{0,60}|.{0,80}|[\u{300}-\u{310}a\"\u{1b}\u{6f22}]{0,60}", width in 0_usize..60) {
            for shown in [fit(&text, width), quoted_fit(&text, width.max(3)), arguments(&json!({"k": text, "l": 1}), width.max(3))] {
                prop_assert!(columns(&shown) <= width.max(3), "{shown:?}");
                prop_assert!(!shown.chars().any(crate::redact::is_hidden), "{shown:?}");
            }
        }

        #[test]
        fn any_moment_can_be_told(ms: i64) {
            prop_assert!(moment(ms).ends_with('Z'));
        }
    }
}
