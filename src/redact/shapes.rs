//! Where the secrets of one text are: by the name in front of them, or by their own shape (contract §10).
//!
//! It answers with byte ranges and changes nothing. A text may be a window cut out of a longer one; then a secret
//! that reaches the cut is found by the part that is there. It knows nothing about JSON values or about clipping.

use std::ops::Range;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::assignments;

/// On which sides a text was cut out of a longer one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Cut {
    /// More text comes before.
    pub start: bool,
    /// More text follows.
    pub end: bool,
}

/// What every token of [`TOKENS`] has in it, or, the last shape, what it is long enough for. Most texts have none of it,
/// and looking for words is a hundred times cheaper than looking for shapes.
static TOKEN_MARKS: LazyLock<Regex> = LazyLock::new(|| {
    constant(concat!(
        "gh[pousr]_|github_pat_|gl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|soat|oas|ffct)-|xox[a-z]|xapp-|xwfp-",
        "|AKIA|ASIA|AROA|AIDA|AGPA|AIPA|ANPA|ANVA|ABIA|ACCA|AIza|ya29|1//0|GOCSPX-|[srp]k_(?:live|test)_|whsec_",
        "|sk-|eyJ|npm_|pypi-|rubygems_|dckr_|SK[0-9a-fA-F]|SG\\.|key-|hf_|gsk_|xai-|r8_|nvapi-|AGE-SECRET|age-secret",
        "|do[opr]_v1_|shp(?:at|ss|ca|pa)_|sq0|hv[sbr]\\.|glsa_|lin_api_|ATATT3|Q~|:AA",
    ))
});
/// Shortest token that has no mark: the last of [`TOKENS`].
const UNMARKED_TOKEN_BYTES: usize = 55;

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
static URLS: LazyLock<Regex> = LazyLock::new(|| constant(r#"[A-Za-z0-9+.-]://(?<s>[^\s"'<>`]+)"#));

/// Credentials in the places that well-known programs have for them, and signed or secret links.
static PLACES: LazyLock<Regex> = LazyLock::new(|| {
    let places = [
        r#"(?:^|\s)(?:-u|--user|--proxy-user)(?:\s+|=)["']?[^\s:"']+:(?<s1>[^\s"']+)"#,
        r#"(?-u:\b)sshpass\s+-p\s*["']?(?<s2>[^\s"']+)"#,
        r#"[?&]sig=(?<s3>[^\s&"']+)"#,
        r"hooks\.slack\.com/(?:services|workflows|triggers)/(?<s4>[A-Za-z0-9/_-]+)",
        r"discord(?:app)?\.com/api/webhooks/[0-9]+/(?<s5>[A-Za-z0-9_-]+)",
        r#"\s-pass(?:in|out)?\s+["']?pass:(?<s6>[^\s"']+)"#,
    ];
    constant(&places.join("|"))
});

/// Programs that are given a password as `-p`. The flag may stand far behind; it is looked for apart, since one
/// expression for both would read on to the end of the text again and again.
static LOGINS: LazyLock<Regex> = LazyLock::new(|| {
    constant(r"(?-u:\b)(?:(?:mysql|mysqldump|mysqladmin|mariadb)\b|(?:docker|podman)\s+login(?-u:\b))")
});

/// Pairs spelled as data inside a text: `"name": "Authorization", "value": "…"`.
static PAIRS: LazyLock<Regex> = LazyLock::new(|| {
    constant(concat!(
        r#"(?i)(?-u:\b)(?:name|key|header|field)[\\"']*\s*[:=]\s*[\\"']*(?<name>[A-Za-z0-9_.-]{2,64})[\\"']*\s*,?"#,
        r#"\s*[\\"']*value[\\"']*\s*[:=]\s*(?:\\*"(?<s1>(?:[^"\\]|\\[^"])*)|'(?<s2>[^']*)|(?<s3>[^\s,}"'\\]+))"#,
    ))
});

/// An AWS secret key has no beginning of its own; it is looked for where an access key id stands.
static AWS_SECRETS: LazyLock<Regex> =
    LazyLock::new(|| constant(r"(?:^|[^A-Za-z0-9/+])(?<s>[A-Za-z0-9/+]{40})"));

fn constant(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is a constant, and every one is compiled by a test")
}

/// The byte ranges of all secrets in a text: sorted, apart from each other, on character boundaries.
pub(super) fn find(text: &str, cut: Cut) -> Vec<Range<usize>> {
    search(text, cut, &Worth::of(text))
}

fn search(text: &str, cut: Cut, worth: &Worth) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    assignments::find(text, cut, &mut found);
    if worth.private_keys {
        private_keys(text, cut, &mut found);
    }
    if worth.urls {
        user_info(text, cut, &mut found);
    }
    if worth.logins {
        logins(text, &mut found);
    }
    let mut every = |pattern: &Regex, names: &[&str], holds: &dyn Fn(&Captures) -> bool| {
        for captures in pattern.captures_iter(text).filter(holds) {
            found.extend(names.iter().filter_map(|name| captures.name(name)).map(|part| part.range()));
        }
    };
    if worth.tokens {
        every(&TOKENS, &["s"], &|_| true);
    }
    if worth.schemes {
        every(&SCHEMES, &["s"], &is_credential);
    }
    if worth.places {
        every(&PLACES, &["s1", "s2", "s3", "s4", "s5", "s6"], &|captures| !is_numeric_user(captures));
    }
    if worth.pairs {
        every(&PAIRS, &["s1", "s2", "s3"], &|captures| super::keys::is_secret(&captures["name"]));
    }
    if text.contains("AKIA") || text.contains("ASIA") {
        every(&AWS_SECRETS, &["s"], &|captures| mixes_classes(&captures["s"]));
    }
    merged(found)
}

/// Which searches could find anything, told by a word without which they cannot. Most texts are worth none of them,
/// and the words are looked for many times faster than the shapes.
#[allow(clippy::struct_excessive_bools)] // one for each search, none has to do with another
struct Worth {
    private_keys: bool,
    urls: bool,
    logins: bool,
    tokens: bool,
    schemes: bool,
    places: bool,
    pairs: bool,
}

impl Worth {
    fn of(text: &str) -> Self {
        let has_any = |marks: &[&str]| marks.iter().any(|mark| text.contains(mark));
        Self {
            private_keys: has_any(&["-----"]),
            urls: has_any(&["://"]),
            logins: has_any(&["mysql", "mariadb", "login"]),
            tokens: may_have_tokens(text),
            // Without regard to case, an `s` may also be spelled by a letter outside ASCII.
            schemes: !text.is_ascii() || has_word(text, "bearer") || has_word(text, "basic"),
            places: has_any(&["-u", "sshpass", "sig=", "slack.com/", "discord", "pass:"]),
            pairs: has_word(text, "value"),
        }
    }
}

/// Whether a text has anything that a token could begin with, or an unbroken run as long as one without a mark.
fn may_have_tokens(text: &str) -> bool {
    let runs = text.as_bytes().split(|byte| !(byte.is_ascii_alphanumeric() || b"_-.".contains(byte)));
    TOKEN_MARKS.is_match(text) || runs.into_iter().any(|run| run.len() >= UNMARKED_TOKEN_BYTES)
}

/// Whether an ASCII word stands somewhere in a text, in whatever case.
fn has_word(text: &str, word: &str) -> bool {
    text.as_bytes().windows(word.len()).any(|window| window.eq_ignore_ascii_case(word.as_bytes()))
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

/// The password of a program that takes it as `-p`, on the command line that begins with its name.
fn logins(text: &str, found: &mut Vec<Range<usize>>) {
    let (mut at, mut end) = (0, 0);
    for program in LOGINS.find_iter(text) {
        let begin = program.end();
        if begin < at {
            continue;
        }
        if end <= begin {
            end = text[begin..].find(['\n', '|', ';', '&']).map_or(text.len(), |index| begin + index);
        }
        // A line break is white space too, so the flag may be the first thing on the next line.
        let line = &text[begin..text.floor_char_boundary(end + "\n-p".len())];
        let spaced = program.as_str().ends_with("login");
        let password = line
            .match_indices("-p")
            .filter(|(index, _)| line[..*index].ends_with(char::is_whitespace))
            .find_map(|(index, flag)| password_at(text, begin + index + flag.len(), spaced));
        at = password.as_ref().map_or(end, |password| password.end);
        found.extend(password);
    }
}

/// The password right behind a flag, perhaps in quotes, perhaps with space between.
fn password_at(text: &str, at: usize, spaced: bool) -> Option<Range<usize>> {
    let behind = if spaced { text[at..].trim_start() } else { &text[at..] };
    let password = behind.strip_prefix(['"', '\'']).unwrap_or(behind);
    let length = password.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\''));
    let start = text.len() - password.len();
    Some(start..start + length.unwrap_or(password.len())).filter(|password| !password.is_empty())
}

/// The password, or the lone token, in front of the `@` of a URL.
fn user_info(text: &str, cut: Cut, found: &mut Vec<Range<usize>>) {
    for captures in URLS.captures_iter(text) {
        let Some(url) = captures.name("s") else { continue };
        let runs_into_cut = cut.end && url.end() == text.len();
        if let Some(secret) = url_secret(url.as_str(), runs_into_cut) {
            found.push(url.start() + secret.start..url.start() + secret.end);
        }
    }
}

fn url_secret(url: &str, runs_into_cut: bool) -> Option<Range<usize>> {
    let authority = &url[..url.find(['/', '?', '#']).unwrap_or(url.len())];
    if let Some(at) = authority.rfind('@') {
        return match authority[..at].find(':') {
            Some(colon) => Some(colon + 1..at).filter(|password| !password.is_empty()),
            None => {
                Some(0..at).filter(|user| user.len() >= 20 && url[..at].bytes().any(|b| b.is_ascii_digit()))
            }
        };
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

/// Whether `-u` was given numbers, as a container's user and group.
fn is_numeric_user(captures: &Captures) -> bool {
    captures.name("s1").is_some_and(|group| group.as_str().bytes().all(|byte| byte.is_ascii_digit()))
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const EVERYTHING: Worth = Worth {
        private_keys: true,
        urls: true,
        logins: true,
        tokens: true,
        schemes: true,
        places: true,
        pairs: true,
    };

    /// Pieces of secrets, whole ones, and what may stand between them.
    fn piece() -> impl Strategy<Value = String> {
        let places = prop::sample::select(
            &[
                "curl -u me:pw ",
                "--user=me:pw",
                "--proxy-user me:pw",
                "sshpass -p pw",
                "?sig=abc",
                "-pass pass:pw",
                "hooks.slack.com/services/T/B",
                "discord.com/api/webhooks/1/ab",
                "discordapp.com/api/webhooks/1/ab",
                "mysql -ppw",
                "mysqldump -ppw",
                "mariadb -ppw",
                "docker login -p pw",
                "podman\tlogin -p pw",
                "-----BEGIN PRIVATE KEY-----",
                "-----END PRIVATE KEY-----",
                "https://u:p@h/",
                "git://tok@h",
                "BEARER abcdef1",
                "Ba\u{17f}ic abcdef1",
                "bearer%20abcdef1",
                "name=Authorization,VALUE=x",
                " ",
                "\n",
                "\\n",
                "=",
                "\"",
                ".",
                "-",
                "x",
            ][..],
        );
        let token = prop_oneof![
            "(gh[pousr]_|github_pat_|glpat-|gldt-|glagent-|glsoat-|glffct-|xox[a-z]-|xoxe\\.xoxp-|xapp-|xwfp-)[A-Z0-9]{8,20}",
            "(AKIA|ASIA|AROA|AIDA|AGPA|AIPA|ANPA|ANVA|ABIA|ACCA)[A-Z0-9]{12,14}",
            "(AIza|ya29\\.|1//0|GOCSPX-|sk_live_|rk_test_|pk_live_|whsec_|sk-ant-|sk-or-|sk-|eyJ|npm_|pypi-)[a-z0-9]{8,26}",
            "(rubygems_|key-|dop_v1_|shpat_|shpss_|do[or]_v1_|SK)[a-f0-9]{16,34}",
            "(dckr_pat_|dckr_oat_|hf_|gsk_|xai-|r8_|nvapi-|AGE-SECRET-KEY-1|age-secret-key-1|sq0atp-|sq0csp-)[A-Za-z0-9]{16,26}",
            "(hv[sbr]\\.|glsa_|lin_api_|ATATT3)[A-Za-z0-9]{16,20}",
            "SG\\.[a-z0-9]{12,14}\\.[a-z0-9]{12,14}",
            "[a-z]{3}[0-9]Q~[A-Za-z0-9]{24,26}",
            "[0-9]{8,10}:AA[a-z0-9]{24,26}",
            "[MNO][a-z0-9]{22,27}\\.[a-z]{6}\\.[a-z0-9]{24,26}",
        ];
        prop_oneof![2 => token, 2 => places.prop_map(str::to_owned), 1 => "[a-z =:\"']{0,6}"]
    }

    proptest! {
        #[test]
        fn what_is_not_searched_for_is_not_there(
            pieces in prop::collection::vec(piece(), 0..6), start in any::<bool>(), end in any::<bool>()
        ) {
            let (text, cut) = (pieces.concat(), Cut { start, end });
            prop_assert_eq!(find(&text, cut), search(&text, cut, &EVERYTHING));
        }
    }
}
