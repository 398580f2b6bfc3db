//! Values that a text gives to a secret-looking name: `key=value`, `--key value`, `Header: value`, `"key": "value"`.
//!
//! One pass over the bytes from left to right, written by hand because what ends a value depends on where its name
//! stood: in quotes, at the start of a line, behind a dash. Where a text has been cut, a value that reaches the cut
//! is taken to go on. What a shell would run (`$(…)`, the word behind `;`, `|` or `&`) is not part of a value, so that a
//! command cannot hide behind a name.

use std::ops::Range;

use super::clues;
use super::keys;
use super::scan::{Scan, is_line_break, is_name_byte, is_space};
use super::shapes::Cut;

/// Shortest bare word that is taken for a secret when it merely follows a secret-looking name.
const OPAQUE_BYTES: usize = 12;
/// How far behind a declared type its initial value is looked for, in bytes.
const TYPE_BYTES: usize = 64;

/// Adds the byte range of each value under a secret-looking name. Ranges fall on character boundaries. No clue to a name
/// begins before `names_from`.
pub(super) fn find(text: &str, names_from: usize, cut: Cut, found: &mut Vec<Range<usize>>) {
    let mut scan = Scan::new(text, cut);
    let escapes = clues::holds(text, 0x1b);
    let mut at = 0;
    while let Some(start) = if escapes { scan.next_word(at) } else { scan.next_clue(at, names_from.max(at)) }
    {
        let end = scan.while_at(start, is_name_byte);
        at = match scan.value_of(start, end) {
            Some(value) => {
                let next = scan.behind(&value).max(end);
                found.push(value);
                next
            }
            None => end,
        };
    }
}

/// Words that open what is said about a secret, not the secret: those of commit messages and issues.
const OPENINGS: [&str; 24] = [
    "add", "allow", "avoid", "change", "check", "disable", "enable", "fix", "handle", "hide", "ignore",
    "improve", "make", "move", "remove", "rename", "replace", "require", "reset", "refresh", "rotate",
    "update", "use", "validate",
];

/// How a name and its value are held together.
#[derive(Clone, Copy, PartialEq)]
enum Joint {
    Equals { spaced: bool },
    Colon,
    Comma,
    Space,
    Tag,
}

impl Scan<'_> {
    /// Where at or behind `at` the next word begins that may be the name of a secret; no clue to it is before `from`.
    fn next_clue(&self, at: usize, from: usize) -> Option<usize> {
        let clue = clues::next_name(self.bytes, from)?;
        let before = self.bytes[at..clue].iter().rev().take_while(|byte| is_name_byte(**byte)).count();
        Some(clue - before)
    }

    /// Where the next word begins, in a text with terminal control sequences.
    fn next_word(&self, mut at: usize) -> Option<usize> {
        loop {
            match *self.bytes.get(at)? {
                0x1b => at = self.after_escape_sequence(at),
                byte if is_name_byte(byte) => return Some(at),
                _ => at += 1,
            }
        }
    }

    /// The value that the word `start..end` names, if the word names a secret and a value follows.
    fn value_of(&mut self, start: usize, end: usize) -> Option<Range<usize>> {
        let name = self.text[start..end].trim_end_matches(['-', '.']);
        if !keys::is_secret(name) {
            return None;
        }
        let opened = self.quote_before(start);
        let closed = self.quote_at(end).filter(|(quote, _)| Some(*quote) == opened);
        let behind = closed.map_or(end, |(_, after)| after);
        let (joint, at) = self.joint(start, behind, closed.is_some(), name)?;
        if joint == Joint::Colon && closed.is_none() && self.is_prose(start, at, name) {
            return None;
        }
        let value = match joint {
            Joint::Colon if closed.is_none() && opened.is_some() => {
                let value = self.to_closing(at, opened?);
                if self.seems_to_close(start, opened?) { self.before_operator(value) } else { value }
            }
            Joint::Tag => at..self.while_at(at, |byte| byte != b'<'),
            Joint::Colon if closed.is_none() && self.starts_line(start) && self.opens_block(at) => {
                self.block(start, at)?
            }
            Joint::Colon if closed.is_none() && self.starts_line(start) && !keys::is_weak(name) => {
                self.to_line_end(at)
            }
            Joint::Equals { spaced: true } if closed.is_none() && self.starts_line(start) => {
                self.quoted(at).or_else(|| Some(self.to_line_end(at)))?
            }
            Joint::Comma => self.quoted(at).filter(|value| !self.names_a_member(value.end))?,
            Joint::Equals { spaced: true } if self.calls(at) => return None,
            Joint::Colon => self.after_colon(at, name)?,
            Joint::Equals { .. } | Joint::Space => {
                let at = self.next_line(at);
                let Some(first) = self.value(at) else { return self.echoed(at) };
                self.behind_scheme(&first).unwrap_or(first)
            }
        };
        if let Some(echoed) = self.echoed(value.start) {
            return Some(echoed);
        }
        let written = self.text[value.clone()].trim();
        let quantity = is_number(written) && keys::counts(name);
        let shown = value.is_empty() || quantity || is_literal(written) || is_reference(written);
        (!shown).then_some(value)
    }

    /// What a command in the place of a value prints as it stands: `$(echo secret)`. The command itself stays in sight.
    fn echoed(&self, at: usize) -> Option<Range<usize>> {
        let command = self.text.get(at..)?;
        let inner = command.strip_prefix("$(").or_else(|| command.strip_prefix('`'))?.trim_start_matches(' ');
        let inner = inner.strip_prefix("echo ").or_else(|| inner.strip_prefix("printf "))?;
        let inner = ["-n ", "-e ", "-E ", "%s "].iter().fold(inner, |rest, flag| {
            let rest = rest.trim_start_matches(' ');
            rest.strip_prefix(flag).unwrap_or(rest)
        });
        let start = self.text.len() - inner.trim_start_matches(' ').len();
        let value = self.quoted(start).unwrap_or_else(|| self.word(start));
        (!value.is_empty() && !is_reference(&self.text[value.clone()])).then_some(value)
    }

    /// Where a value begins whose sign ends its line: on the next, if that holds nothing but one opaque word.
    fn next_line(&self, at: usize) -> usize {
        let next = self.while_at(at, is_line_break);
        if !(1..=2).contains(&(next - at)) {
            return at;
        }
        let line = &self.text[self.to_line_end(next)];
        let opaque = is_opaque(line) && !line.trim_end_matches('=').contains('=');
        if opaque { next } else { at }
    }

    /// Whether what follows `name:` reads as words or as the name of a file and not as a value: `fix: password: reset
    /// flow`, `grep password: config.yml`, `npm run auth:test`. Only what is certain counts, since a password may be a
    /// word too; at the start of a line a colon always gives a value, but for `auth` and its like.
    fn is_prose(&self, start: usize, at: usize, name: &str) -> bool {
        let weak = keys::is_weak(name);
        let word = &self.text[at..self.while_at(at, |byte| is_name_byte(byte) || byte == b'/')];
        let digits = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
        if keys::is_pin(name) {
            return !digits;
        }
        if self.bytes[at - 1] == b':' && weak {
            return word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
        }
        if !self.bytes[at - 1].is_ascii_whitespace()
            || keys::is_credential_header(name)
            || (self.starts_line(start) && !weak)
        {
            return false;
        }
        let behind = self.while_at(at + word.len(), is_space);
        let goes_on = behind > at + word.len() && self.bytes.get(behind).is_some_and(u8::is_ascii_lowercase);
        (goes_on && OPENINGS.contains(&word)) || is_file(word)
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

    /// What stands between a name from `start` to `at` and its value, and where the value begins.
    fn joint(&self, start: usize, at: usize, quoted: bool, name: &str) -> Option<(Joint, usize)> {
        let tagged = start > 0 && self.bytes[start - 1] == b'<';
        let at = if quoted { self.while_at(at, |byte| byte == b']' || byte == b')') } else { at };
        let sign = self.while_at(at, |byte| is_space(byte) || (quoted && is_line_break(byte)));
        let rest = &self.bytes[sign..];
        let (joint, length) = match rest {
            [b'=', b'=', b'=', ..] | [b'%', b'3', b'D' | b'd', ..] => (Joint::Equals { spaced: false }, 3),
            [b'=', b'=' | b'>', ..] | [b':' | b'+' | b'?', b'=', ..] => (Joint::Equals { spaced: false }, 2),
            [b'=', ..] => (Joint::Equals { spaced: sign > at }, 1),
            [b':', b':', ..] => return None,
            [b':', ..] => (Joint::Colon, 1),
            [b',', ..] if quoted => (Joint::Comma, 1),
            [b'>', ..] if tagged && sign == at => (Joint::Tag, 1),
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
        // The flag of openssl, whose value says itself whether it is a password: `-pass env:NAME`.
        let flag = name.starts_with('-') && name != "-pass" && !keys::switches_off(name);
        let word = &self.text[self.word(value)];
        (flag || (is_opaque(word) && !keys::is_pin(name))).then_some((Joint::Space, value))
    }

    /// The value behind `name:` in the middle of a line: one word, or more if it opens with a scheme or a type.
    fn after_colon(&mut self, at: usize, name: &str) -> Option<Range<usize>> {
        let first = self.value(at)?;
        if let Some(both) = self.behind_scheme(&first) {
            return Some(both);
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

    /// The value with the word behind it, if it is the name of a scheme: `Bearer abc`.
    fn behind_scheme(&self, first: &Range<usize>) -> Option<Range<usize>> {
        let next = self.while_at(first.end, is_space);
        let opens = is_scheme(&self.text[first.clone()]) && next > first.end;
        opens.then(|| first.start..self.word(next).end.max(first.end))
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

    /// Whether nothing but list and comment marks stands before `at` on its line.
    fn starts_line(&self, at: usize) -> bool {
        let margin = |byte: &u8| matches!(byte, b' ' | b'\t' | b'-' | b'+' | b'>' | b'#' | b'*');
        let before = self.bytes[..at].iter().rev().find(|byte| !margin(byte));
        before.map_or(!self.cut.start, |byte| is_line_break(*byte))
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 12
        && text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'_' | b'.'))
}

/// Whether a value says only whether there is a secret, or that there is none.
fn is_literal(text: &str) -> bool {
    const LITERALS: [&str; 10] =
        ["true", "false", "yes", "no", "on", "off", "none", "null", "nil", "undefined"];
    LITERALS.iter().any(|literal| text.eq_ignore_ascii_case(literal))
}

/// Whether a value only tells where the secret comes from: `$NAME`, `${name}`, `$(command)`, `process.env.NAME`. A small
/// name without braces counts only if it means a secret itself, since passwords begin with `$` too.
pub(super) fn is_reference(text: &str) -> bool {
    if text.starts_with("$(") && text.ends_with(')') {
        return true;
    }
    let is_name = |name: &str| {
        !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.'))
    };
    let braced = |open: &str, close: &str| {
        text.strip_prefix(open)
            .and_then(|name| name.strip_suffix(close))
            .is_some_and(|name| is_name(name.trim()))
    };
    if braced("${", "}") || braced("${{", "}}") {
        return true;
    }
    let bare = text
        .strip_prefix("$env:")
        .or_else(|| text.strip_prefix("process.env."))
        .or_else(|| text.strip_prefix('$'));
    bare.is_some_and(|name| {
        let capital = name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
        is_name(name) && !name.as_bytes()[0].is_ascii_digit() && (capital || keys::is_secret(name))
    })
}

/// Whether a word is a place in the file system: a folder with its slash, or a file of a kind that holds text.
fn is_file(word: &str) -> bool {
    let kinds = [
        ".yml", ".yaml", ".json", ".toml", ".ini", ".conf", ".cfg", ".txt", ".md", ".log", ".py", ".js",
        ".ts", ".go", ".rs",
    ];
    word.len() > 1
        && (word.ends_with('/') || kinds.iter().any(|kind| word.len() > kind.len() && word.ends_with(kind)))
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
