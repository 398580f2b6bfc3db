//! Where the secrets of one text are: by the name in front of them, or by their own shape (contract §10).
//!
//! It answers with byte ranges and changes nothing. A text may be a window cut out of a longer one; then a secret
//! that reaches the cut is found by the part that is there. It knows nothing about JSON values or about clipping.

use std::ops::Range;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::assignments::{self, is_reference};
use super::clues::{self, Clues};
use super::{links, programs, tokens};

/// On which sides a text was cut out of a longer one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Cut {
    /// More text comes before.
    pub start: bool,
    /// More text follows.
    pub end: bool,
}

/// `Bearer …` and `Basic …` wherever they stand.
static SCHEMES: LazyLock<Regex> = LazyLock::new(|| {
    constant(r"(?i)(?:^|[^a-z0-9_])(?<scheme>bearer|basic)(?:\s|%20|\+)+(?<s>[a-z0-9._~+/=-]{6,})")
});

/// The beginning of a private key block.
static PRIVATE_KEY_BEGIN: LazyLock<Regex> =
    LazyLock::new(|| constant(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"));

/// Its end.
static PRIVATE_KEY_END: LazyLock<Regex> =
    LazyLock::new(|| constant(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"));

/// Credentials in the places that well-known programs have for them, and signed or secret links.
static PLACES: LazyLock<Regex> = LazyLock::new(|| {
    let places = [
        r#"(?:^|\s)(?:-u|--user|--proxy-user)(?:\s+|=)["']?[^\s:"']+:(?<s1>[^\s"']+)"#,
        r"/bot[0-9]{3,12}:(?<s2>[A-Za-z0-9_-]{16,})",
        r#"[?&]sig=(?<s3>[^\s&"']+)"#,
        r"hooks\.slack\.com/(?:services|workflows|triggers)/(?<s4>[A-Za-z0-9/_-]+)",
        r"discord(?:app)?\.com/api/webhooks/[0-9]+/(?<s5>[A-Za-z0-9_-]+)",
        r#"\s-pass(?:in|out)?\s+["']?pass:(?<s6>[^\s"']+)"#,
    ];
    constant(&places.join("|"))
});

/// Passwords in statements that make or change a user of a database.
static STATEMENTS: LazyLock<Regex> = LazyLock::new(|| {
    constant(concat!(
        r#"(?i)(?-u:\b)(?:identified\s+(?:with\s+\S{1,64}\s+)?(?:by|as)(?:\s+password)?|(?:with|encrypted|login|user\s+\S{1,64}"#,
        r#"|role\s+\S{1,64})\s+password)\s+(?:'(?<s1>(?:[^']|'')+)|\\?"(?<s2>[^"\\]+))|password\s?\(\s?'(?<s3>[^']+)'\s?\)"#,
    ))
});

/// A parameter of a URL whose name alone does not tell; the value has to look made by chance.
static PARAMETERS: LazyLock<Regex> =
    LazyLock::new(|| constant(r"[?&](?:key|code|signature|sid|session)=(?<s>[A-Za-z0-9_-]{16,})"));

/// Pairs spelled as data inside a text: `"name": "Authorization", "value": "…"`.
static PAIRS: LazyLock<Regex> = LazyLock::new(|| {
    constant(concat!(
        r#"(?i)(?-u:\b)(?:name|key|header|field)[\\"']*\s*[:=]\s*[\\"']*(?<name>[A-Za-z0-9_.-]{2,64})[\\"']*\s*,?"#,
        r#"\s*[\\"']*(?:value|val|default)[\\"']*\s*[:=]\s*(?:\\*"(?<s1>(?:[^"\\]|\\[^"])*)|'(?<s2>[^']*)|(?<s3>[^\s,}"'\\]+))"#,
    ))
});

/// An AWS secret key has no beginning of its own; it is looked for where an access key id stands.
static AWS_SECRETS: LazyLock<Regex> =
    LazyLock::new(|| constant(r"(?:^|[^A-Za-z0-9/+])(?<s>[A-Za-z0-9/+]{40})"));

pub(super) fn constant(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is a constant, and every one is compiled by a test")
}

/// The byte ranges of all secrets in a text: sorted, apart from each other, on character boundaries.
pub(super) fn find(text: &str, cut: Cut) -> Vec<Range<usize>> {
    find_by(Clues::of(text), text, cut)
}

/// As [`find`], for a text whose clues are known. Rules without a clue are left out, and all of them for most texts.
pub(super) fn find_by(clues: Clues, text: &str, cut: Cut) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    if clues.is_none() {
        return found;
    }
    if clues.to(clues::NAME) {
        assignments::find(text, clues.names_from(), cut, &mut found);
    }
    if clues.to(clues::KEY_BLOCK) {
        private_keys(text, cut, &mut found);
    }
    if clues.to(clues::LINK) {
        links::find(text, cut, &mut found);
    }
    if clues.to(clues::TOKEN) {
        tokens::find(text, &mut found);
    }
    if clues.to(clues::PROGRAM) {
        programs::flags(text, &mut found);
    }
    if clues.to(clues::FEED) || (clues.to(clues::PIPED) && clues::holds(text, b'|')) {
        programs::feeds(text, &mut found);
    }
    patterns(clues, text, &mut found);
    merged(found)
}

/// The rules that are one pattern each.
fn patterns(clues: Clues, text: &str, found: &mut Vec<Range<usize>>) {
    let mut every = |pattern: &Regex, names: &[&str], holds: &dyn Fn(&Captures) -> bool| {
        for captures in pattern.captures_iter(text).filter(holds) {
            found.extend(names.iter().filter_map(|name| captures.name(name)).map(|part| part.range()));
        }
    };
    if clues.to(clues::SCHEME) {
        every(&SCHEMES, &["s"], &is_credential);
    }
    if clues.to(clues::PLACE) {
        every(&PLACES, &["s1", "s2", "s3", "s4", "s5", "s6"], &|captures| !is_no_password(captures));
    }
    if clues.to(clues::STATEMENT) && (clues::holds(text, b'\'') || clues::holds(text, b'"')) {
        every(&STATEMENTS, &["s1", "s2", "s3"], &|_| true);
    }
    if clues.to(clues::PARAMETER) {
        every(&PARAMETERS, &["s"], &|captures| is_random(&captures["s"]));
    }
    if clues.to(clues::PAIR) && clues.to(clues::NAME) {
        every(&PAIRS, &["s1", "s2", "s3"], &|captures| super::keys::is_secret(&captures["name"]));
    }
    if clues.to(clues::TOKEN) && (text.contains("AKIA") || text.contains("ASIA")) {
        every(&AWS_SECRETS, &["s"], &|captures| mixes_classes(&captures["s"]));
    }
}

/// Each private key block up to its end; one without an end, as far as it looks like a key. Both ends are looked for
/// apart, each once: a text may be full of beginnings.
fn private_keys(text: &str, cut: Cut, found: &mut Vec<Range<usize>>) {
    let orphan = PRIVATE_KEY_END.find(text).filter(|_| cut.start);
    if let Some(end) = orphan.filter(|end| !text[..end.start()].contains("-----BEGIN ")) {
        found.push(0..end.end());
    }
    let mut ends = PRIVATE_KEY_END.find_iter(text).peekable();
    let mut at = 0;
    for begin in PRIVATE_KEY_BEGIN.find_iter(text).map(|begin| begin.range()) {
        if begin.start < at {
            continue;
        }
        while ends.next_if(|end| end.start() < begin.end).is_some() {}
        at = ends.peek().map_or_else(|| begin.end + key_body(&text[begin.end..]), regex::Match::end);
        found.push(begin.start..at);
    }
}

/// How many bytes of a text look like the inside of a private key.
fn key_body(text: &str) -> usize {
    let inside = |c: char| c.is_ascii_alphanumeric() || c.is_whitespace() || "+/=\\:,-".contains(c);
    text.find(|c| !inside(c)).unwrap_or(text.len())
}

/// Whether the word behind `Bearer` or `Basic` is a credential and not the next word of a sentence.
fn is_credential(captures: &Captures) -> bool {
    let word = &captures["s"];
    let mixed =
        word.bytes().skip(1).any(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'=');
    mixed || (word.len() >= 16 && captures["scheme"].eq_ignore_ascii_case("bearer"))
}

/// Whether `-u` was given numbers, as a container's user and group, or the name of a variable.
fn is_no_password(captures: &Captures) -> bool {
    let password = captures.name("s1").map(|group| group.as_str());
    password.is_some_and(|word| word.bytes().all(|byte| byte.is_ascii_digit()) || is_reference(word))
}

/// Whether a word looks made by chance: letters of both cases and digits, or a long run of digits and letters.
pub(super) fn is_random(word: &str) -> bool {
    let has = |class: fn(&u8) -> bool| word.as_bytes().iter().any(class);
    let digits = has(u8::is_ascii_digit);
    let letters = has(u8::is_ascii_alphabetic);
    (digits && has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase))
        || (digits && letters && word.len() >= 20 && word.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

fn mixes_classes(word: &str) -> bool {
    let count = |class: fn(&u8) -> bool| word.bytes().filter(class).count();
    count(u8::is_ascii_uppercase) >= 4 && count(u8::is_ascii_lowercase) >= 4 && count(u8::is_ascii_digit) >= 1
}

/// The ranges in order, overlapping and touching ones joined, empty ones dropped.
fn merged(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}
