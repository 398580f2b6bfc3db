//! Where the secrets of one text are: by the name in front of them, or by their own shape (contract §10).
//!
//! It answers with byte ranges and changes nothing. A text may be a window cut out of a longer one; then a secret
//! that reaches the cut is found by the part that is there. It knows nothing about JSON values or about clipping.

use std::ops::Range;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::assignments::{self, is_reference};
use super::programs;

/// On which sides a text was cut out of a longer one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Cut {
    /// More text comes before.
    pub start: bool,
    /// More text follows.
    pub end: bool,
}

/// Tokens that tell themselves by how they begin. The group `s` is what is hidden.
static TOKENS: LazyLock<Regex> = LazyLock::new(|| {
    let shapes = [
        "gh[pousr]_[A-Za-z0-9]{16,}",
        "github_pat_[A-Za-z0-9_]{16,}",
        "gl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|soat|oas|ffct)-[A-Za-z0-9_.-]{12,}",
        "xox[a-z](?:\\.[a-z]+)?-[A-Za-z0-9-]{8,}|x(?:app|wfp)-[A-Za-z0-9-]{8,}",
        "(?:AKIA|ASIA|AROA|AIDA|AGPA|AIPA|ANPA|ANVA|ABIA|ACCA)[A-Z0-9]{12,}",
        "AIza[A-Za-z0-9_-]{24,}|ya29\\.[A-Za-z0-9_-]{12,}|1//0[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{16,}",
        "(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{8,}|whsec_[A-Za-z0-9+/=]{16,}",
        "sk-(?:ant|proj|svcacct|admin|or)-[A-Za-z0-9_-]{6,}|sk-[A-Za-z0-9]{16,}",
        "eyJ[A-Za-z0-9_-]{12,}(?:\\.[A-Za-z0-9_-]*)*",
        "npm_[A-Za-z0-9]{16,}|pypi-[A-Za-z0-9_-]{16,}|rubygems_[a-f0-9]{24,}|dckr_(?:pat|oat)_[A-Za-z0-9_-]{16,}",
        "SK[0-9a-fA-F]{32}|SG\\.[A-Za-z0-9_-]{12,}\\.[A-Za-z0-9_-]{12,}|key-[0-9a-f]{32}",
        "hf_[A-Za-z0-9]{16,}|gsk_[A-Za-z0-9]{16,}|xai-[A-Za-z0-9]{16,}|r8_[A-Za-z0-9]{24,}|nvapi-[A-Za-z0-9_-]{16,}",
        "(?:AGE-SECRET-KEY-1|age-secret-key-1)[A-Za-z0-9]{16,}",
        "do[opr]_v1_[a-f0-9]{24,}|shp(?:at|ss|ca|pa)_[A-Fa-f0-9]{16,}|sq0(?:atp|csp)-[A-Za-z0-9_-]{16,}",
        "hv[sbr]\\.[A-Za-z0-9_-]{16,}|glsa_[A-Za-z0-9_]{16,}|lin_api_[A-Za-z0-9]{16,}|ATATT3[A-Za-z0-9_=-]{16,}",
        "[A-Za-z0-9]{3}[0-9]Q~[A-Za-z0-9_.~-]{24,}",
        "[0-9]{8,10}:AA[A-Za-z0-9_-]{24,}",
        "[MNO][A-Za-z0-9_-]{22,27}\\.[A-Za-z0-9_-]{6}\\.[A-Za-z0-9_-]{24,}",
    ]
    .join("|");
    // `\n` as two characters stands before a token in JSON text: the letter is no part of the word.
    constant(&format!(r"(?:^|[^A-Za-z0-9]|\\[nrt])(?<s>{shapes})"))
});

/// Length of the shortest token there is, in bytes.
const TOKEN_BYTES: usize = 12;

/// Words of which every scheme, statement and pair has one.
static HINTS: LazyLock<Regex> =
    LazyLock::new(|| constant(r"(?i)bearer|basic|identified|password|val|default"));

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

/// What follows the scheme of a URL, up to the end of the URL.
static URLS: LazyLock<Regex> =
    LazyLock::new(|| constant(r#"(?:[A-Za-z0-9+.-](?<scheme>:)|^|[\s"'=(])//(?<s>[^\s"'<>`]+)"#));

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
    let mut found = Vec::new();
    assignments::find(text, cut, &mut found);
    private_keys(text, cut, &mut found);
    if text.contains("//") {
        user_info(text, cut, &mut found);
    }
    tokens(text, &mut found);
    programs::find(text, &mut found);
    let mut every = |pattern: &Regex, names: &[&str], holds: &dyn Fn(&Captures) -> bool| {
        for captures in pattern.captures_iter(text).filter(holds) {
            found.extend(names.iter().filter_map(|name| captures.name(name)).map(|part| part.range()));
        }
    };
    // Most texts have nothing of the kind, and a search for a few letters tells so at a fraction of the cost.
    let any = |pieces: &[&str]| pieces.iter().any(|piece| text.contains(piece));
    let hinted = HINTS.is_match(text);
    if hinted {
        every(&SCHEMES, &["s"], &is_credential);
    }
    if any(&["-u", "-pass", "sig=", "hooks", "/bot"]) {
        every(&PLACES, &["s1", "s2", "s3", "s4", "s5", "s6"], &|captures| !is_no_password(captures));
    }
    if hinted {
        every(&STATEMENTS, &["s1", "s2", "s3"], &|_| true);
    }
    if any(&["&", "?"]) {
        every(&PARAMETERS, &["s"], &|captures| is_random(&captures["s"]));
    }
    if hinted {
        every(&PAIRS, &["s1", "s2", "s3"], &|captures| super::keys::is_secret(&captures["name"]));
    }
    if text.contains("AKIA") || text.contains("ASIA") {
        every(&AWS_SECRETS, &["s"], &|captures| mixes_classes(&captures["s"]));
    }
    merged(found)
}

/// Tokens known by their beginning. They are looked for only in unbroken runs that are long enough to hold one.
fn tokens(text: &str, found: &mut Vec<Range<usize>>) {
    let bytes = text.as_bytes();
    let runs_on = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.~:+/=".contains(byte);
    let mut at = 0;
    while let Some(start) = bytes[at..].iter().position(runs_on).map(|index| at + index) {
        at = bytes[start..]
            .iter()
            .position(|byte| !runs_on(byte))
            .map_or(bytes.len(), |length| start + length);
        if at - start < TOKEN_BYTES {
            continue;
        }
        // A backslash in front makes the first letter a line break.
        let start = start - usize::from(start > 0 && bytes[start - 1] == b'\\');
        for captures in TOKENS.captures_iter(&text[start..at]) {
            found.extend(captures.name("s").map(|token| start + token.start()..start + token.end()));
        }
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

/// The password, or the lone token, in front of the `@` of a URL.
fn user_info(text: &str, cut: Cut, found: &mut Vec<Range<usize>>) {
    for captures in URLS.captures_iter(text) {
        let Some(url) = captures.name("s") else { continue };
        let runs_into_cut = cut.end && url.end() == text.len();
        if let Some(secret) = url_secret(url.as_str(), captures.name("scheme").is_some(), runs_into_cut) {
            found.push(url.start() + secret.start..url.start() + secret.end);
        }
    }
}

fn url_secret(url: &str, scheme: bool, runs_into_cut: bool) -> Option<Range<usize>> {
    let authority = &url[..url.find(['/', '?', '#']).unwrap_or(url.len())];
    if let Some(at) = authority.rfind('@') {
        let user = &authority[..at];
        let Some(colon) = user.find(':') else {
            let token = user.len() >= 20 && user.bytes().any(|byte| byte.is_ascii_digit());
            return (token || (user.len() >= 12 && is_random(user))).then_some(0..at);
        };
        let password = &user[colon + 1..];
        return (!password.is_empty() && !is_reference(password)).then_some(colon + 1..at);
    }
    if !scheme {
        return None;
    }
    // No `@` yet: a port, or a password with a slash in it that nobody escaped, or one that the cut has torn.
    let password = authority.find(':')? + 1;
    let port = authority[password..].bytes().all(|byte| byte.is_ascii_digit());
    if port {
        return None;
    }
    let end = url[password..].find('@').map(|at| password + at);
    end.or(runs_into_cut.then_some(url.len()))
        .map(|end| password..end)
        .filter(|password| !password.is_empty())
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
fn is_random(word: &str) -> bool {
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
