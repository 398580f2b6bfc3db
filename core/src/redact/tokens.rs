//! Tokens that services hand out, known by how they begin (contract §10).
//!
//! The beginnings are also listed in `clues`, which says whether one of these patterns has to be tried at all.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::clues::{self, Clues};
use super::shapes::constant;

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

/// Adds the byte range of each token. They are looked for only in unbroken runs that are long enough to hold one.
pub(super) fn find(text: &str, found: &mut Vec<Range<usize>>) {
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
        if !Clues::of(&text[start..at]).to(clues::TOKEN) {
            continue;
        }
        for captures in TOKENS.captures_iter(&text[start..at]) {
            found.extend(captures.name("s").map(|token| start + token.start()..start + token.end()));
        }
    }
}
