//! Characters that could disguise a prompt, spelled out in plain ASCII, and the middle cut of long strings.
//!
//! It must not know what a secret is: whatever is cut or escaped here is already free of them. The one fact that
//! is easy to miss: the limit counts the code points that are shown, so an escape of nine characters costs nine, and
//! it is never cut in half. A backslash stands for itself; spelling is for reading, not for turning back.

use std::borrow::Cow;

/// Stands where the middle of a long string was left out.
pub(super) const ELLIPSIS: char = '…';

/// Whether a character changes what a reader sees without being seen itself: control characters (C0, C1), line and
/// paragraph separators, bidirectional marks, zero-width and filler characters, variation selectors, tags.
pub fn is_hidden(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    matches!(u32::from(c),
        0x80..=0x9f | 0xad | 0x34f | 0x61c
        | 0x115f..=0x1160 | 0x17b4..=0x17b5 | 0x180b..=0x180f
        | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f
        | 0x3164 | 0xfe00..=0xfe0f | 0xfeff | 0xffa0 | 0xfff0..=0xfffb
        | 0x1_bca0..=0x1_bca3 | 0x1_d173..=0x1_d17a | 0xe_0000..=0xe_0fff)
}

/// The text with every hidden character escaped: `\n`, `\r`, `\t`, else `\u{202e}`. Not clipped (contract §10).
pub fn visible_exact(text: &str) -> Cow<'_, str> {
    if plain_length(text) == text.len() || !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    spell_all(text, &mut shown);
    Cow::Owned(shown)
}

/// The text with hidden characters escaped, at most `max_code_points` long: three quarters from its start, the rest
/// from its end, one `…` between (192 + 1 + 63 for 256; contract §10). Looks only at the two ends of a long text.
pub fn visible(text: &str, max_code_points: usize) -> String {
    spelled(text, max_code_points).unwrap_or_else(|| visible_ends(text, text, max_code_points))
}

/// The whole text with hidden characters escaped, or `None` if it takes more than so many code points.
fn spelled(text: &str, max_code_points: usize) -> Option<String> {
    if text.len() / char::MAX_LEN_UTF8 > max_code_points {
        return None;
    }
    let mut shown = String::with_capacity(text.len());
    let (mut rest, mut left) = (text, max_code_points);
    loop {
        let plain = plain_length(rest);
        left = left.checked_sub(plain)?;
        shown.push_str(&rest[..plain]);
        let mut others = rest[plain..].chars();
        let Some(c) = others.next() else { return Some(shown) };
        left = left.checked_sub(width(c))?;
        spell(c, &mut shown);
        rest = others.as_str();
    }
}

/// As [`visible`] for a text of which only the two ends are at hand, and whose middle is certainly left out.
pub(crate) fn visible_ends(head: &str, tail: &str, max_code_points: usize) -> String {
    let mut shown = String::new();
    if max_code_points == 0 {
        return shown;
    }
    let from_start = max_code_points * 3 / 4;
    let mut used = 0;
    let over = head.char_indices().find(|(_, c)| {
        used += width(*c);
        used > from_start
    });
    spell_all(over.map_or(head, |(index, _)| &head[..index]), &mut shown);
    shown.push(ELLIPSIS);
    let from_end = max_code_points - from_start - 1;
    let mut used = 0;
    let kept = tail.char_indices().rev().take_while(|(_, c)| {
        used += width(*c);
        used <= from_end
    });
    let start = kept.last().map_or(tail.len(), |(index, _)| index);
    spell_all(&tail[start..], &mut shown);
    shown
}

/// How many bytes at the start of a text are printable ASCII, each of which stands for itself. Many are looked at
/// at once.
fn plain_length(text: &str) -> usize {
    const AT_ONCE: usize = 16;
    let plain = |byte: &u8| matches!(byte, b' '..=b'~');
    let (bytes, mut length) = (text.as_bytes(), 0);
    while let Some(next) = bytes.get(length..length + AT_ONCE) {
        if !next.iter().fold(true, |all, byte| all & plain(byte)) {
            break;
        }
        length += AT_ONCE;
    }
    length + bytes[length..].iter().take_while(|byte| plain(byte)).count()
}

/// How many code points a character takes once it is spelled.
fn width(c: char) -> usize {
    match c {
        ' '..='~' => 1,
        '\n' | '\r' | '\t' => 2,
        c if is_hidden(c) => c.escape_unicode().len(),
        _ => 1,
    }
}

/// Adds a text, what stands for itself in one piece.
fn spell_all(text: &str, shown: &mut String) {
    let mut rest = text;
    loop {
        let plain = plain_length(rest);
        shown.push_str(&rest[..plain]);
        let mut others = rest[plain..].chars();
        let Some(c) = others.next() else { return };
        spell(c, shown);
        rest = others.as_str();
    }
}

fn spell(c: char, shown: &mut String) {
    match c {
        '\n' => shown.push_str("\\n"),
        '\r' => shown.push_str("\\r"),
        '\t' => shown.push_str("\\t"),
        c if is_hidden(c) => shown.extend(c.escape_unicode()),
        c => shown.push(c),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_text_without_hidden_characters_is_left_as_it_is() {
        for plain in ["", "ls -la", "…", "漢字 é 🔒", r"C:\temp\u{200b}", "a\u{a0}b"] {
            assert!(matches!(visible_exact(plain), Cow::Borrowed(same) if same == plain), "{plain:?}");
        }
    }

    #[test]
    fn every_hidden_character_gets_an_ascii_spelling() {
        let rows = [
            ("a\nb\tc\rd", r"a\nb\tc\rd"),
            ("\u{1b}[2K", r"\u{1b}[2K"),
            ("\0\u{7f}\u{9b}", r"\u{0}\u{7f}\u{9b}"),
            ("\u{202e}gnp\u{202c}", r"\u{202e}gnp\u{202c}"),
            ("\u{2066}x\u{2069}\u{200e}\u{61c}", r"\u{2066}x\u{2069}\u{200e}\u{61c}"),
            ("a\u{200b}\u{200d}\u{feff}b", r"a\u{200b}\u{200d}\u{feff}b"),
            ("\u{2028}\u{2029}", r"\u{2028}\u{2029}"),
            ("\u{e0041}\u{fe0f}\u{3164}", r"\u{e0041}\u{fe0f}\u{3164}"),
        ];
        for (given, shown) in rows {
            assert_eq!(visible_exact(given), shown);
        }
    }

    #[test]
    fn exactly_the_limit_stays_whole_and_one_more_is_cut_in_the_middle() {
        for filler in ["a", "é", "漢", "🔒"] {
            assert_eq!(visible(&filler.repeat(256), 256), filler.repeat(256));
            let cut = visible(&filler.repeat(257), 256);
            assert_eq!(cut, format!("{}…{}", filler.repeat(192), filler.repeat(63)));
        }
    }

    #[test]
    fn an_escape_is_never_cut_in_half() {
        let shown = visible(&"\u{202e}".repeat(300), 256);
        assert_eq!(shown, format!("{}…{}", r"\u{202e}".repeat(24), r"\u{202e}".repeat(7)));
    }

    #[test]
    fn the_smallest_limits_do_not_overflow() {
        assert_eq!(visible("abc", 0), "");
        assert_eq!(visible("abc", 1), "…");
        assert_eq!(visible("abc", 2), "a…");
    }

    proptest! {
        #[test]
        fn what_is_shown_fits_and_hides_nothing(text in "\\PC{0,40}|.{0,400}", limit in 0_usize..300) {
            let shown = visible(&text, limit);
            prop_assert!(shown.chars().count() <= limit);
            prop_assert!(!shown.chars().any(is_hidden));
            prop_assert_eq!(visible(&shown, limit), shown.clone());
            if visible_exact(&text).chars().count() <= limit {
                prop_assert_eq!(shown, visible_exact(&text));
            }
        }
    }
}
