//! Reading a text byte by byte: where quotes close, brackets balance, words and blocks end.
//!
//! It knows how shells, URLs, JSON and the usual file formats delimit a value, and nothing about names. What a shell
//! would run (`$(…)`, the word behind `;`, `|` or `&`) ends a word. All ranges fall on character boundaries.

use std::ops::Range;

use super::shapes::Cut;

/// How often, in text lengths, brackets are followed before an unbalanced one counts as open to the end, and values
/// are looked into before they are taken as they seem.
const PASSES: usize = 4;
/// Longest word in front of a quote that still belongs to the quoted value: `b"…"`, `$'…'`.
const PREFIX_BYTES: usize = 2;
/// Longest text in the braces of a variable, in bytes.
const BRACED_BYTES: usize = 64;
/// How far back a line is read to tell whether a quote opens or closes, in bytes.
const LINE_BYTES: usize = 2048;

/// A text being read, and how many bytes of it may still be read more than once.
pub(super) struct Scan<'a> {
    pub text: &'a str,
    pub bytes: &'a [u8],
    pub cut: Cut,
    steps: usize,
}

/// A quote as it is spelled at some level of nesting: `"`, or `\"` inside a quoted text.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Quote {
    mark: u8,
    backslashes: usize,
}

impl<'a> Scan<'a> {
    pub fn new(text: &'a str, cut: Cut) -> Self {
        Self { text, bytes: text.as_bytes(), cut, steps: text.len() * PASSES }
    }

    /// Whether the line ends at `at`, or with nothing more than the mark of a block of text: `|`, `>-`.
    pub fn opens_block(&self, at: usize) -> bool {
        let line = self.text[self.to_line_end(at)].trim_end();
        line.len() <= 3
            && line
                .trim_start_matches(['|', '>'])
                .bytes()
                .all(|byte| matches!(byte, b'-' | b'+' | b'0'..=b'9'))
            && (line.is_empty() || line.starts_with(['|', '>']))
    }

    /// The lines behind `at` that are indented deeper than the line of the name at `start`.
    pub fn block(&self, start: usize, at: usize) -> Option<Range<usize>> {
        let indent = |line: &str| line.len() - line.trim_start_matches([' ', '\t', '-']).len();
        let line = self.text[..start].rfind('\n').map_or(0, |index| index + 1);
        let own = start - line;
        let mut end = self.to_line_end(at).end;
        for line in self.text[end..].split_inclusive('\n') {
            if !line.trim().is_empty() && indent(line) <= own {
                break;
            }
            end += line.len();
        }
        let block = self.text[at..end].trim_end();
        let begin = self.while_at(at, |byte| !byte.is_ascii_alphanumeric());
        (begin < at + block.len()).then(|| at..at + block.len())
    }

    /// The value that begins at `at`: quoted, bracketed, or a bare word.
    pub fn value(&mut self, at: usize) -> Option<Range<usize>> {
        if let Some(value) = self.quoted(at).or_else(|| self.bracketed(at)) {
            return Some(value);
        }
        let word = self.word(at);
        let prefixed = (1..=PREFIX_BYTES).contains(&word.len()) && !self.inside_quotes(word.end);
        if prefixed && let Some(value) = self.quoted(word.end) {
            return Some(value);
        }
        Some(word).filter(|word| !word.is_empty())
    }

    /// Whether the quote at `at` ends a quoted text that began before it on its line, as far as can be told.
    pub fn inside_quotes(&self, at: usize) -> bool {
        let line = &self.bytes[at.saturating_sub(LINE_BYTES)..at];
        let line = line.rsplit(|byte| is_line_break(*byte)).next().unwrap_or_default();
        self.bytes.get(at).is_some_and(|mark| line.iter().fold(false, |open, byte| open ^ (byte == mark)))
    }

    /// Whether the quote right before `at` rather ends a quoted text, by the quotes of its spelling before it on the
    /// line.
    pub fn seems_to_close(&self, at: usize, quote: Quote) -> bool {
        let end = at - 1 - quote.backslashes;
        let line = &self.bytes[end.saturating_sub(LINE_BYTES / 4)..end];
        let line = line.rsplit(|byte| is_line_break(*byte)).next().unwrap_or_default();
        let (mut open, mut backslashes) = (false, 0);
        for byte in line {
            open ^= *byte == quote.mark && backslashes == quote.backslashes;
            backslashes = if *byte == b'\\' { backslashes + 1 } else { 0 };
        }
        open
    }

    /// The value as far as no shell would run what follows.
    pub fn before_operator(&self, value: Range<usize>) -> Range<usize> {
        let end = self.bytes[value.clone()].iter().position(|byte| is_operator(*byte));
        value.start..end.map_or(value.end, |end| value.start + end)
    }

    /// The contents of the quoted value at `at`; with its quotes if a shell would join more to it.
    pub fn quoted(&self, at: usize) -> Option<Range<usize>> {
        let (quote, start) = self.quote_at(at)?;
        if quote.mark == b'`' && self.text[self.to_closing(start, quote)].contains([' ', '\t', '\n']) {
            return None; // a command, which has to stay in sight
        }
        let triple = [quote.mark; 3];
        if quote.backslashes == 0 && self.bytes[at..].starts_with(&triple) {
            let start = at + triple.len();
            let end = self.bytes[start..].windows(triple.len()).position(|mark| mark == triple);
            return Some(start..end.map_or(self.text.len(), |end| start + end));
        }
        let end = self.to_closing(start, quote).end;
        let mut behind = end + quote.backslashes + 1;
        let mut joined = false;
        while let Some(next) = self.joined_at(behind) {
            (joined, behind) = (true, next);
        }
        Some(if joined { at..behind } else { start..end })
    }

    /// Where names are looked for again behind a value. A quote that closes on a later line may have been left open on
    /// its own line, and the quote that seems to close it may open a value behind a name of its own.
    pub fn behind(&mut self, value: &Range<usize>) -> usize {
        let quoted = self.quote_at(value.start).is_some()
            || self.bytes.get(value.end).is_some_and(|byte| is_quote(*byte) || *byte == b'\\');
        let first_line = self.to_line_end(value.start).end;
        if !quoted || first_line >= value.end {
            return value.end;
        }
        let Some(steps) = self.steps.checked_sub(value.len()) else {
            return value.end;
        };
        self.steps = steps;
        first_line
    }

    /// The position behind the word, or the word in quotes, that begins right at `at`.
    pub fn joined_at(&self, at: usize) -> Option<usize> {
        if let Some((quote, start)) = self.quote_at(at) {
            let inner = self.to_closing(start, quote);
            let one_word =
                self.bytes[inner.clone()].iter().all(|byte| byte.is_ascii_graphic() && !is_operator(*byte));
            let starts_as_word = self.bytes.get(start).is_some_and(u8::is_ascii_alphanumeric);
            let joins = one_word && starts_as_word && !inner.is_empty();
            return joins.then_some((inner.end + quote.backslashes + 1).min(self.bytes.len()));
        }
        self.bytes.get(at).filter(|byte| byte.is_ascii_alphanumeric())?;
        Some(self.word(at).end)
    }

    /// A balanced `{…}` or `[…]` at `at`; one that a cut leaves open goes to the end.
    pub fn bracketed(&mut self, at: usize) -> Option<Range<usize>> {
        if !matches!(self.bytes.get(at), Some(b'{' | b'[')) {
            return None;
        }
        let (mut depth, mut here) = (0_usize, at);
        while let Some(byte) = self.bytes.get(here) {
            if self.steps == 0 {
                return Some(at..self.text.len());
            }
            self.steps -= 1;
            match byte {
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                b'"' => {
                    let (quote, start) = self.quote_at(here)?;
                    here = self.to_closing(start, quote).end;
                    // A quote that nothing closes was looked for up to the very end.
                    let closed = self.bytes.get(here) == Some(&quote.mark);
                    let read = if closed { here } else { self.bytes.len() } - start;
                    self.steps = self.steps.saturating_sub(read);
                }
                _ => {}
            }
            here += 1;
            if depth == 0 {
                return Some(at..here);
            }
        }
        self.cut.end.then_some(at..self.text.len())
    }

    /// A bare word as a shell, a URL or a connection string would end it.
    pub fn word(&self, at: usize) -> Range<usize> {
        let mut here = at;
        while let Some(byte) = self.bytes.get(here) {
            let next = self.bytes.get(here + 1);
            match byte {
                b'\\' if next.is_some_and(|next| matches!(next, b'"' | b'\'')) => break,
                b'\\' if next.is_some_and(|next| !is_line_break(*next)) => here += 1,
                b'$' if next == Some(&b'(') => break,
                b'$' if next == Some(&b'{') => here = self.after_braces(here + 1) - 1,
                b',' | b')' | b'}' | b']' if !self.goes_on_behind(here) => break,
                byte if is_operator(*byte) || is_line_break(*byte) || is_space(*byte) => break,
                b'"' | b'\'' | b'`' => break,
                _ => {}
            }
            here += 1;
        }
        at..self.text.ceil_char_boundary(here.min(self.text.len()))
    }

    /// The position behind the braces of a variable that open at `at`, or behind the first if they do not close soon on
    /// the line: `${NAME}`, `${{ secrets.NAME }}`, `${NAME:-secret}`.
    fn after_braces(&self, at: usize) -> usize {
        let line = &self.bytes[at..(at + BRACED_BYTES).min(self.bytes.len())];
        let ends = |byte: &u8| {
            matches!(byte, b'}' | b'$') || is_operator(*byte) || is_quote(*byte) || is_line_break(*byte)
        };
        let Some(end) = line.iter().position(ends).filter(|end| line[*end] == b'}') else {
            return at + 1;
        };
        at + end + 1 + usize::from(line.get(1) == Some(&b'{') && line.get(end + 1) == Some(&b'}'))
    }

    /// Whether a bare word goes on behind a comma or a closing bracket: not into a space, and not into another name.
    pub fn goes_on_behind(&self, at: usize) -> bool {
        let next = self.while_at(at + 1, is_name_byte);
        next > at + 1 && !matches!(self.bytes.get(next), Some(b'=' | b':'))
    }

    /// From `at` to the quote that closes; an unclosed one ends with its line, or goes on where the text was cut.
    pub fn to_closing(&self, at: usize, quote: Quote) -> Range<usize> {
        let mut backslashes = 0;
        for (index, byte) in self.bytes[at..].iter().enumerate() {
            if *byte == b'\\' {
                backslashes += 1;
                continue;
            }
            let closes =
                if quote.backslashes == 0 { backslashes % 2 == 0 } else { backslashes <= quote.backslashes };
            if *byte == quote.mark && closes {
                return at..at + index - backslashes.min(quote.backslashes);
            }
            backslashes = 0;
        }
        if self.cut.end { at..self.text.len() } else { self.to_line_end(at) }
    }

    pub fn to_line_end(&self, at: usize) -> Range<usize> {
        at..self.while_at(at, |byte| !is_line_break(byte))
    }

    pub fn quote_before(&self, at: usize) -> Option<Quote> {
        let mark = *self.bytes[..at].last().filter(|byte| is_quote(**byte))?;
        let backslashes = self.bytes[..at - 1].iter().rev().take_while(|byte| **byte == b'\\').count();
        Some(Quote { mark, backslashes })
    }

    /// The quote that begins at `at`, its backslashes included, and the position behind it.
    pub fn quote_at(&self, at: usize) -> Option<(Quote, usize)> {
        let mark = self.while_at(at, |byte| byte == b'\\');
        let quote = *self.bytes.get(mark).filter(|byte| is_quote(**byte))?;
        Some((Quote { mark: quote, backslashes: mark - at }, mark + 1))
    }

    pub fn while_at(&self, at: usize, holds: impl Fn(u8) -> bool) -> usize {
        let rest = self.bytes.get(at..).unwrap_or_default();
        at + rest.iter().take_while(|byte| holds(**byte)).count()
    }

    /// Behind a terminal control sequence, whose last letter would else run into the word that follows.
    pub fn after_escape_sequence(&self, at: usize) -> usize {
        if self.bytes.get(at + 1) != Some(&b'[') {
            return at + 1;
        }
        let end = self.while_at(at + 2, |byte| matches!(byte, 0x20..=0x3f));
        self.text.ceil_char_boundary((end + 1).min(self.text.len()))
    }
}

pub(super) fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.') || !byte.is_ascii()
}

pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

pub(super) fn is_line_break(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

pub(super) fn is_quote(byte: u8) -> bool {
    matches!(byte, b'"' | b'\'' | b'`')
}

pub(super) fn is_operator(byte: u8) -> bool {
    matches!(byte, b'&' | b';' | b'|' | b'<' | b'>' | b'`')
}
