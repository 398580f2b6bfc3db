//! Secrets that well-known programs take in a place of their own: behind `-p`, behind `user:` in `-u`, or on standard
//! input, by `<<<` or through a pipe from `echo` (contract §10).
//!
//! A flag such as `-p` means nothing without its program, so a command line is read word by word from the first
//! program that is known, once, whatever is in it. It is no shell: quotes and brackets only part words. Only a few words
//! of memory go along, so that the cost stays linear in the text.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::assignments::is_reference;
use super::{keys, shapes};

/// Where the secret stands for one flag of one program.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// Right behind the flag: `-psecret`.
    Attached,
    /// The next word, or right behind the flag.
    Either,
    /// The next word only.
    Next,
    /// As [`Place::Either`], behind the first `:` of it.
    AfterColon,
    /// As [`Place::Either`], behind the first `%` of it.
    AfterPercent,
    /// The next word, if it is a cookie and not the name of a file.
    Cookie,
}
use Place::{AfterColon, AfterPercent, Attached, Cookie, Either, Next};

/// Programs by how their names begin, with the flag and where its secret stands. At most 32, one bit each.
const PROGRAMS: [(&str, &str, Place); 29] = [
    ("mysql", "-p", Attached),
    ("mariadb", "-p", Attached),
    ("docker", "-p", Either),
    ("podman", "-p", Either),
    ("sshpass", "-p", Either),
    ("redis-cli", "-a", Next),
    ("7z", "-p", Attached),
    ("7za", "-p", Attached),
    ("7zr", "-p", Attached),
    ("rar", "-p", Attached),
    ("unrar", "-p", Attached),
    ("zip", "-P", Either),
    ("unzip", "-P", Either),
    ("ldapsearch", "-w", Either),
    ("ldapmodify", "-w", Either),
    ("ldapadd", "-w", Either),
    ("ldapdelete", "-w", Either),
    ("ldapwhoami", "-w", Either),
    ("smbclient", "-U", AfterPercent),
    ("rpcclient", "-U", AfterPercent),
    ("mosquitto_pub", "-P", Next),
    ("mosquitto_sub", "-P", Next),
    ("mongo", "-p", Next),
    ("mongosh", "-p", Next),
    ("mongodump", "-p", Next),
    ("sqlcmd", "-P", Either),
    ("curl", "-u", AfterColon),
    ("curl", "-b", Cookie),
    ("curl", "--cookie", Cookie),
];

/// The letters that the names of the programs, and `login`, begin with.
const FIRST_LETTERS: [char; 10] = ['m', 'd', 'p', 's', 'r', '7', 'u', 'z', 'l', 'c'];

/// The first program of a text, as cheaply as can be.
static FIRST: LazyLock<Regex> = LazyLock::new(|| {
    let names = PROGRAMS.map(|(name, ..)| name).join("|");
    shapes::constant(&names)
});

/// What hands a secret over on standard input: a word, or a text in quotes, behind `<<<` or in front of a pipe.
static FEEDS: LazyLock<Regex> = LazyLock::new(|| {
    shapes::constant(concat!(
        r#"<<<\s*(?:'(?<h1>[^'\n]+)'|"(?<h2>[^"\n]+)"|(?<h3>[^\s"'`;|&<>()]+))"#,
        r#"|(?-u:\b)(?:echo|printf)\s+(?:-[neE]{1,3}\s+)?(?:["']?%s(?:\\n)?["']?\s+)?"#,
        r#"(?:'(?<p1>[^'\n]+)'|"(?<p2>[^"\n]+)"|(?<p3>[^\s"'`;|&<>()]+))\s*\|"#,
    ))
});

/// How far from a value that is fed the command is read that takes it, in bytes.
const COMMAND_BYTES: usize = 160;
/// What ends a command.
const OPERATORS: [char; 4] = ['\n', ';', '|', '&'];
/// Longest word that may be the name of a program, in bytes.
const NAME_BYTES: usize = 256;
/// How many items before an argument are looked through for the name of its program.
const ITEMS_BEFORE: usize = 32;

/// Adds the byte range of each secret that stands behind a flag of a program.
pub(super) fn flags(text: &str, found: &mut Vec<Range<usize>>) {
    if let Some(first) = FIRST.find(text) {
        let before = &text[..first.start()];
        command_lines(text, before.rfind(|c: char| c.is_ascii_whitespace()).unwrap_or(0), found);
    }
}

/// Adds the byte range of each secret that is handed over on standard input.
pub(super) fn feeds(text: &str, found: &mut Vec<Range<usize>>) {
    for feed in FEEDS.captures_iter(text) {
        let Some(whole) = feed.get(0) else { continue };
        let of = |names: [&str; 3]| names.into_iter().find_map(|name| feed.name(name));
        let (value, takes) = if let Some(value) = of(["h1", "h2", "h3"]) {
            let before =
                &text[text.ceil_char_boundary(whole.start().saturating_sub(COMMAND_BYTES))..whole.start()];
            (value, takes_input(before.rsplit(OPERATORS).next().unwrap_or_default(), true))
        } else if let Some(value) = of(["p1", "p2", "p3"]) {
            let behind = &text[whole.end()..text.floor_char_boundary(whole.end() + COMMAND_BYTES)];
            (value, takes_input(behind.split(OPERATORS).next().unwrap_or_default(), false))
        } else {
            continue;
        };
        if takes && !is_reference(value.as_str()) {
            found.push(value.range());
        }
    }
}

/// Whether a command reads a secret from its standard input: into a variable of that name, or because a flag says so.
fn takes_input(command: &str, reads: bool) -> bool {
    let mut words = command.split_whitespace();
    let names = |program: &str| words.clone().any(|word| word == program);
    let (sudo, read) = (names("sudo"), names("read"));
    words.any(|word| {
        let flag = matches!(
            word,
            "--password-stdin" | "--with-token" | "--token-stdin" | "--passphrase-fd" | "chpasswd"
        );
        let asked = sudo && (word == "--stdin" || (word.starts_with("-S") && word.len() <= 3));
        flag || asked || (reads && read && keys::is_secret(word))
    })
}

/// What the words of one command line have told so far.
#[derive(Default)]
struct Line {
    programs: u32,
    login: bool,
    expected: Option<Place>,
    /// Whether the last secret stood right behind its flag, where an operator may well be a part of it.
    attached: bool,
}

fn command_lines(text: &str, from: usize, found: &mut Vec<Range<usize>>) {
    let bytes = text.as_bytes();
    let (mut line, mut at) = (Line::default(), from);
    while let Some(byte) = bytes.get(at) {
        match byte {
            // The quote that opens a program's code, or a list, parts words as a space does.
            b' ' | b'\t' | b'\r' | 0x0c | b',' | b'[' | b']' | b'(' | b')' | b'{' | b'}' | b'`' => at += 1,
            b'\\' if matches!(bytes.get(at + 1), Some(b'\n' | b'\r')) => at += 2,
            b'\n' if bytes.get(at + 1) == Some(&b'-') => at += 1,
            b'\n' | b';' | b'|' | b'&' => {
                line = Line::default();
                at += 1;
            }
            _ => at = word(text, at, &mut line, found),
        }
    }
}

/// Reads the word at `at`, adds the secret in it, and tells where to go on.
fn word(text: &str, at: usize, line: &mut Line, found: &mut Vec<Range<usize>>) -> usize {
    let quote = |at: usize| matches!(text.as_bytes().get(at), Some(b'"' | b'\''));
    let opened = quote(at);
    let start = at + usize::from(opened);
    let end = if opened && line.expected.is_some() { quote_end(text, at) } else { word_end(text, start) };
    let mut next = end;
    if let Some(secret) = line.take(&text[start..end]) {
        let mut secret = start + secret.start..start + secret.end;
        if secret.is_empty() && quote(end) && !opened {
            secret = end + 1..quote_end(text, end);
        } else if line.attached && !secret.is_empty() {
            secret.end = text[end..]
                .find(|c: char| c.is_whitespace() || "\"'`".contains(c))
                .map_or(text.len(), |more| end + more);
        }
        next = secret.end;
        found.extend(Some(secret).filter(|secret| !secret.is_empty()));
    }
    // The quote behind a flag may open the secret.
    let closes = quote(next) && (opened || line.expected.is_none());
    next + usize::from(closes)
}

/// Where the word that begins at `start` ends.
fn word_end(text: &str, start: usize) -> usize {
    let ends = |byte: &u8| byte.is_ascii_whitespace() || b"\"'`;|&".contains(byte);
    text.as_bytes()[start..].iter().position(ends).map_or(text.len(), |length| start + length)
}

/// Where the text in quotes that begins at `at` ends, at the end of its line if nothing closes it.
fn quote_end(text: &str, at: usize) -> usize {
    let bytes = text.as_bytes();
    let ends = |byte: &u8| *byte == bytes[at] || *byte == b'\n';
    bytes[at + 1..].iter().position(ends).map_or(text.len(), |length| at + 1 + length)
}

impl Line {
    /// Takes the next word, and tells which part of it is a secret. An empty part at its end says that the secret is
    /// in the quotes that follow.
    fn take(&mut self, word: &str) -> Option<Range<usize>> {
        self.attached = false;
        if let Some(place) = self.expected.take() {
            return within(word, 0, place);
        }
        if !word.starts_with('-') {
            self.name(word);
            return None;
        }
        let known = PROGRAMS.iter().enumerate().filter(|(bit, _)| self.programs & (1 << bit) != 0);
        for (_, (name, flag, place)) in known {
            if matches!(*name, "docker" | "podman") && !self.login {
                continue;
            }
            if word == *flag {
                match place {
                    Attached => {
                        return Some(word.len()..word.len());
                    }
                    place => self.expected = Some(*place),
                }
                return None;
            }
            let attached = matches!(place, Attached | Either | AfterColon | AfterPercent);
            if attached && word.starts_with(flag) {
                self.attached = *place == Attached || *name == "docker" || *name == "podman";
                return within(word, flag.len(), *place);
            }
        }
        None
    }

    fn name(&mut self, word: &str) {
        if word.len() > NAME_BYTES {
            return;
        }
        let base = word.rsplit(['/', '\\']).next().unwrap_or(word);
        if !base.starts_with(FIRST_LETTERS) {
            return;
        }
        let base = base.strip_suffix(".exe").unwrap_or(base);
        for (bit, (name, ..)) in PROGRAMS.iter().enumerate() {
            let family = matches!(*name, "mysql" | "mariadb")
                && base
                    .strip_prefix(name)
                    .is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'));
            self.programs |= u32::from(base == *name || family) << bit;
        }
        self.login |= base == "login";
    }
}

/// The secret in a word from `start` on, or `None` if it only says where the secret is.
fn within(word: &str, start: usize, place: Place) -> Option<Range<usize>> {
    let value = &word[start..];
    let inner = match place {
        Attached | Either | Next => 0,
        AfterColon => value.find(':')? + 1,
        AfterPercent => value.find('%')? + 1,
        Cookie => value.find('=').map(|_| 0)?,
    };
    let secret = &value[inner..];
    let all = |marks: &[u8]| secret.bytes().all(|byte| byte.is_ascii_digit() || marks.contains(&byte));
    // User and group of a container, and ports that are mapped: `-u 1000:1000`, `-p 8080:80`.
    let numeric = if place == AfterColon { all(b"") } else { secret.contains(':') && all(b":.") };
    (!numeric && !is_reference(secret)).then_some(start + inner..word.len())
}

/// Whether the argument at `index` is, or holds, what the program named before it takes for a secret:
/// `["mysql", "-psecret"]`, `["sshpass", "-p", "secret"]`.
pub(super) fn takes_item(items: &[Value], index: usize) -> bool {
    let (Some(item), Some(before)) =
        (items[index].as_str(), index.checked_sub(1).and_then(|before| items[before].as_str()))
    else {
        return false;
    };
    if before.len() > 2 && !item.starts_with('-') && before != "--cookie" {
        return matches!(before, "--user" | "--proxy-user") && within(item, 0, AfterColon).is_some();
    }
    if before == "-u" && within(item, 0, AfterColon).is_some() {
        return true;
    }
    let mut line = Line::default();
    for word in items[index.saturating_sub(ITEMS_BEFORE)..index].iter().filter_map(Value::as_str) {
        // A password that looks like a program is none: only what is not expected names one.
        let _ = line.take(word);
    }
    line.take(item).is_some_and(|secret| !secret.is_empty())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::clues::{self, Clues};
    use super::*;

    #[test]
    fn every_program_has_a_bit() {
        assert!(PROGRAMS.len() <= 32);
    }

    #[test]
    fn every_program_is_a_clue() {
        assert!(PROGRAMS.iter().all(|(name, ..)| Clues::of(name).to(clues::PROGRAM)));
    }

    #[test]
    fn every_program_begins_with_a_letter_that_is_looked_at() {
        assert!(PROGRAMS.iter().all(|(name, ..)| name.starts_with(FIRST_LETTERS)));
    }
}
