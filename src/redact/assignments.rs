//! Values that a text gives to a secret-looking name: `key=value`, `--key value`, `Header: value`, `"key": "value"`.
//!
//! One pass over the bytes from left to right, written by hand because what ends a value depends on where its name
//! stood: in quotes, at the start of a line, behind a dash. Where a text has been cut, a value that reaches the cut
//! is taken to go on. What a shell would run (`$(…)`, the word behind `;`, `|` or `&`) is not part of a value, so that a
//! command cannot hide behind a name.

use std::ops::Range;

use super::keys;
use super::shapes::Cut;

/// How often, in text lengths, brackets are followed before an unbalanced one counts as open to the end.
const BRACKET_PASSES: usize = 4;
/// Longest word in front of a quote that still belongs to the quoted value: `b"…"`, `$'…'`.
const PREFIX_BYTES: usize = 2;
/// Shortest bare word that is taken for a secret when it merely follows a secret-looking name.
const OPAQUE_BYTES: usize = 12;
/// How far behind a declared type its initial value is looked for, in bytes.
const TYPE_BYTES: usize = 64;

/// Adds the byte range of each value under a secret-looking name. Ranges fall on character boundaries.
pub(super) fn find(text: &str, cut: Cut, found: &mut Vec<Range<usize>>) {
    let mut scan = Scan { text, bytes: text.as_bytes(), cut, bracket_steps: text.len() * BRACKET_PASSES };
    let mut at = 0;
    while at < text.len() {
        if scan.bytes[at] == 0x1b {
            at = scan.after_escape_sequence(at);
        } else if is_name_byte(scan.bytes[at]) {
            let end = scan.while_at(at, is_name_byte);
            at = match scan.value_of(at, end) {
                Some(value) => {
                    let next = value.end.max(end);
                    found.push(value);
                    next
                }
                None => end,
            };
        } else {
            at += 1;
        }
    }
}

struct Scan<'a> {
    text: &'a str,
    bytes: &'a [u8],
    cut: Cut,
    bracket_steps: usize,
}

/// A quote as it is spelled at some level of nesting: `"`, or `\"` inside a quoted text.
#[derive(Clone, Copy, PartialEq)]
struct Quote {
    mark: u8,
    backslashes: usize,
}

/// How a name and its value are held together.
#[derive(Clone, Copy, PartialEq)]
enum Joint {
    Equals { spaced: bool },
    Colon,
    Comma,
    Space,
}

impl Scan<'_> {
    /// The value that the word `start..end` names, if the word names a secret and a value follows.
    fn value_of(&mut self, start: usize, end: usize) -> Option<Range<usize>> {
        let name = self.text[start..end].trim_end_matches(['-', '.']);
        if !keys::is_secret(name) {
            return None;
        }
        let opened = self.quote_before(start);
        let closed = self.quote_at(end).filter(|(quote, _)| Some(*quote) == opened);
        let behind = closed.map_or(end, |(_, after)| after);
        let (joint, at) = self.joint(behind, closed.is_some(), name)?;
        let value = match joint {
            Joint::Colon if closed.is_none() && opened.is_some() => self.to_closing(at, opened?),
            Joint::Colon if closed.is_none() && self.starts_line(start) && !keys::is_weak(name) => {
                self.to_line_end(at)
            }
            Joint::Equals { spaced: true } if closed.is_none() && self.starts_line(start) => {
                self.quoted(at).or_else(|| Some(self.to_line_end(at)))?
            }
            Joint::Comma => self.quoted(at).filter(|value| !self.names_a_member(value.end))?,
            Joint::Equals { spaced: true } if self.calls(at) => return None,
            Joint::Colon => self.after_colon(at, name)?,
            Joint::Equals { .. } | Joint::Space => self.value(at)?,
        };
        let written = &self.text[value.clone()];
        let quantity = keys::counts(name) && is_number(written.trim());
        (!value.is_empty() && !quantity && !is_placeholder(written.trim())).then_some(value)
    }

    /// Whether the quote that closes at `at` ends the name of a further member, not a value.
    fn names_a_member(&self, at: usize) -> bool {
        let behind = self.quote_at(at).map_or(at, |(_, behind)| behind);
        self.bytes.get(self.while_at(behind, |byte| is_space(byte) || is_line_break(byte))) == Some(&b':')
    }

    /// Whether program code stands at `at` that computes a value instead of giving one: `lexer.tokenize(…`.
    fn calls(&self, at: usize) -> bool {
        let end = self.while_at(at, |byte| is_name_byte(byte) || byte == b':');
        end > at && self.bytes[at].is_ascii_alphabetic() && self.bytes.get(end) == Some(&b'(')
    }

    /// What stands between a name that ends at `at` and its value, and where the value begins.
    fn joint(&self, at: usize, quoted: bool, name: &str) -> Option<(Joint, usize)> {
        let at = if quoted { self.while_at(at, |byte| byte == b']' || byte == b')') } else { at };
        let sign = self.while_at(at, |byte| is_space(byte) || (quoted && is_line_break(byte)));
        let rest = &self.bytes[sign..];
        let (joint, length) = match rest {
            [b'=', b'=', b'=', ..] => (Joint::Equals { spaced: false }, 3),
            [b'=', b'=' | b'>', ..] | [b':' | b'+' | b'?', b'=', ..] => (Joint::Equals { spaced: false }, 2),
            [b'=', ..] => (Joint::Equals { spaced: sign > at }, 1),
            [b'%', b'3', b'D' | b'd', ..] => (Joint::Equals { spaced: false }, 3),
            [b':', b':', ..] => return None,
            [b':', ..] => (Joint::Colon, 1),
            [b',', ..] if quoted => (Joint::Comma, 1),
            _ => return self.loose_joint(at, sign, name),
        };
        let value = self.while_at(sign + length, |byte| is_space(byte) || (quoted && is_line_break(byte)));
        Some((joint, value))
    }

    /// A flag and its value, or a name and an opaque word, with nothing but space between them.
    fn loose_joint(&self, at: usize, value: usize, name: &str) -> Option<(Joint, usize)> {
        if value == at || value == self.bytes.len() || self.bytes[value] == b'-' {
            return None;
        }
        let flag = name.starts_with('-') && !keys::switches_off(name);
        let word = &self.text[self.word(value)];
        (flag || is_opaque(word)).then_some((Joint::Space, value))
    }

    /// The value behind `name:` in the middle of a line: one word, or more if it opens with a scheme or a type.
    fn after_colon(&mut self, at: usize, name: &str) -> Option<Range<usize>> {
        let first = self.value(at)?;
        let word = &self.text[first.clone()];
        let next = self.while_at(first.end, is_space);
        if is_scheme(word) && next > first.end {
            return Some(first.start..self.word(next).end.max(first.end));
        }
        if keys::is_credential_header(name) && name.to_ascii_lowercase().ends_with("cookie") {
            return Some(first.start..self.cookies(first.end));
        }
        let line = &self.bytes[first.end..(first.end + TYPE_BYTES).min(self.bytes.len())];
        let sign = line.iter().position(|byte| matches!(byte, b'=' | b'\n' | b';' | b',' | b'|' | b'&'));
        if let Some(sign) = sign.filter(|sign| line[*sign] == b'=').map(|sign| first.end + sign + 1) {
            let initial = self.while_at(sign, is_space);
            return self.quoted(initial).map(|value| first.start..value.end).or(Some(first));
        }
        Some(first)
    }

    /// The end of a run of further `; name=value` pairs behind the first.
    fn cookies(&self, mut end: usize) -> usize {
        while self.bytes.get(end) == Some(&b';') {
            let name = self.while_at(end + 1, is_space);
            let sign = self.while_at(name, is_name_byte);
            if sign == name || self.bytes.get(sign) != Some(&b'=') {
                break;
            }
            end = self.word(sign + 1).end.max(sign + 1);
        }
        end
    }

    /// The value that begins at `at`: quoted, bracketed, or a bare word.
    fn value(&mut self, at: usize) -> Option<Range<usize>> {
        if let Some(value) = self.quoted(at).or_else(|| self.bracketed(at)) {
            return Some(value);
        }
        let word = self.word(at);
        let short = word.len() <= PREFIX_BYTES && word.len() == word.end - at;
        match self.quoted(word.end) {
            Some(value) if short => Some(value),
            _ => Some(word).filter(|word| !word.is_empty()),
        }
    }

    /// The contents of the quoted value at `at`; with its quotes if a shell would join more to it.
    fn quoted(&self, at: usize) -> Option<Range<usize>> {
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

    /// The position behind the word, or the word in quotes, that begins right at `at`.
    fn joined_at(&self, at: usize) -> Option<usize> {
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
    fn bracketed(&mut self, at: usize) -> Option<Range<usize>> {
        if !matches!(self.bytes.get(at), Some(b'{' | b'[')) {
            return None;
        }
        let (mut depth, mut here) = (0_usize, at);
        while let Some(byte) = self.bytes.get(here) {
            if self.bracket_steps == 0 {
                return Some(at..self.text.len());
            }
            self.bracket_steps -= 1;
            match byte {
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                b'"' => {
                    let (quote, start) = self.quote_at(here)?;
                    here = self.to_closing(start, quote).end;
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
    fn word(&self, at: usize) -> Range<usize> {
        let mut here = at;
        while let Some(byte) = self.bytes.get(here) {
            let next = self.bytes.get(here + 1);
            match byte {
                b'\\' if next.is_some_and(|next| matches!(next, b'"' | b'\'')) => break,
                b'\\' if next.is_some_and(|next| !is_line_break(*next)) => here += 1,
                b'$' if next == Some(&b'(') => break,
                b',' | b')' | b'}' | b']' if !self.goes_on_behind(here) => break,
                byte if is_operator(*byte) || is_line_break(*byte) || is_space(*byte) => break,
                b'"' | b'\'' | b'`' => break,
                _ => {}
            }
            here += 1;
        }
        at..self.text.ceil_char_boundary(here.min(self.text.len()))
    }

    /// Whether a bare word goes on behind a comma or a closing bracket: not into a space, and not into another name.
    fn goes_on_behind(&self, at: usize) -> bool {
        let next = self.while_at(at + 1, is_name_byte);
        next > at + 1 && !matches!(self.bytes.get(next), Some(b'=' | b':'))
    }

    /// From `at` to the quote that closes; an unclosed one ends with its line, or goes on where the text was cut.
    fn to_closing(&self, at: usize, quote: Quote) -> Range<usize> {
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

    fn to_line_end(&self, at: usize) -> Range<usize> {
        at..self.while_at(at, |byte| !is_line_break(byte))
    }

    /// Whether nothing but list and comment marks stands before `at` on its line.
    fn starts_line(&self, at: usize) -> bool {
        let margin = |byte: &u8| matches!(byte, b' ' | b'\t' | b'-' | b'+' | b'>' | b'#' | b'*');
        let before = self.bytes[..at].iter().rev().find(|byte| !margin(byte));
        before.map_or(!self.cut.start, |byte| is_line_break(*byte))
    }

    fn quote_before(&self, at: usize) -> Option<Quote> {
        let mark = *self.bytes[..at].last().filter(|byte| is_quote(**byte))?;
        let backslashes = self.bytes[..at - 1].iter().rev().take_while(|byte| **byte == b'\\').count();
        Some(Quote { mark, backslashes })
    }

    /// The quote that begins at `at`, its backslashes included, and the position behind it.
    fn quote_at(&self, at: usize) -> Option<(Quote, usize)> {
        let mark = self.while_at(at, |byte| byte == b'\\');
        let quote = *self.bytes.get(mark).filter(|byte| is_quote(**byte))?;
        Some((Quote { mark: quote, backslashes: mark - at }, mark + 1))
    }

    fn while_at(&self, at: usize, holds: impl Fn(u8) -> bool) -> usize {
        let rest = self.bytes.get(at..).unwrap_or_default();
        at + rest.iter().take_while(|byte| holds(**byte)).count()
    }

    /// Behind a terminal control sequence, whose last letter would else run into the word that follows.
    fn after_escape_sequence(&self, at: usize) -> usize {
        if self.bytes.get(at + 1) != Some(&b'[') {
            return at + 1;
        }
        let end = self.while_at(at + 2, |byte| matches!(byte, 0x20..=0x3f));
        self.text.ceil_char_boundary((end + 1).min(self.text.len()))
    }
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.') || !byte.is_ascii()
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

fn is_line_break(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

fn is_quote(byte: u8) -> bool {
    matches!(byte, b'"' | b'\'' | b'`')
}

fn is_operator(byte: u8) -> bool {
    matches!(byte, b'&' | b';' | b'|' | b'<' | b'>' | b'`')
}

fn is_number(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 12
        && text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'_' | b'.'))
}

/// Whether a value only tells where the secret comes from: `$NAME`, `${NAME}`, `$(command)`.
fn is_placeholder(text: &str) -> bool {
    if text.starts_with("$(") && text.ends_with(')') {
        return true;
    }
    let name =
        text.strip_prefix("${").and_then(|name| name.strip_suffix('}')).or_else(|| text.strip_prefix('$'));
    name.is_some_and(|name| !name.is_empty() && name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_'))
}

fn is_scheme(word: &str) -> bool {
    let schemes = [
        "bearer",
        "basic",
        "token",
        "digest",
        "negotiate",
        "ntlm",
        "apikey",
        "key",
        "hmac",
        "aws4-hmac-sha256",
    ];
    schemes.iter().any(|scheme| word.eq_ignore_ascii_case(scheme))
}

fn is_opaque(word: &str) -> bool {
    word.len() >= OPAQUE_BYTES
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=_-.~".contains(&byte))
        && word.bytes().any(|byte| byte.is_ascii_digit())
        && word.bytes().any(|byte| byte.is_ascii_alphabetic())
        && !word.starts_with(['/', '.', '-'])
}
