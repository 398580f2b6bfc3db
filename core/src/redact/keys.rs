//! Which names mean a secret (contract §10).
//!
//! A name is taken apart into words at every character that is no letter or digit and at camelCase boundaries, and
//! its last words decide: `stripe_api_key`, `X-Api-Key`, `apiKey` and `APIKEY` are the same name, `mytoken` and
//! `monkey` are one harmless word. It knows nothing about where a name stood.

use super::clues::{self, Clues};
use super::letters::{LOOKED_AT_BYTES, Words, ends_foreign, ends_within};
use super::names::{FORMS, PIN_OF, QUANTITIES, RUNS, SECRET_NAMES, STAGES, UNMISTAKABLE};

/// Whether a value under this name is a secret, whatever it is; quantities are for [`counts`] to tell.
pub(super) fn is_secret(name: &str) -> bool {
    let name = ends_within(name, LOOKED_AT_BYTES);
    clues::next_name(name.as_bytes(), 0).is_some_and(|first| is_secret_from(name, first))
}

/// As [`is_secret`], for a name whose clues are known.
pub(super) fn is_secret_by(clues: Clues, name: &str) -> bool {
    if name.len() > LOOKED_AT_BYTES {
        return is_secret(name);
    }
    clues.to(clues::NAME) && is_secret_from(name, clues.names_from())
}

/// Whether a name that is short enough to be looked at means a secret. Its first clue is at `first`.
fn is_secret_from(name: &str, first: usize) -> bool {
    if !may_be_secret(name, first) {
        return false;
    }
    let words = Words::of(name);
    let mut count = words.count();
    loop {
        if ends_in_secret(&words, count) {
            return true;
        }
        let Some(last) = count.checked_sub(1) else { return false };
        let says_little = is_form(words.word(last))
            || (is_stage(words.word(last)) && last > 0 && words.word(last - 1) != b"auth");
        if !says_little {
            return false;
        }
        count = last;
    }
}

/// A quick look for a piece that every secret name has. It is asked for each word of a text that may be one.
fn may_be_secret(name: &str, first: usize) -> bool {
    let bytes = name.as_bytes();
    if !name.is_ascii() {
        return !ends_foreign(name);
    }
    (first.saturating_sub(LONGEST_LEAD)..bytes.len()).any(|at| {
        let pieces: &[&str] = match bytes[at].to_ascii_lowercase() {
            b'a' => &["auth"],
            b'b' => &["bearer"],
            b'c' => &["cookie", "cred", "conn", "code"],
            b'd' => &["dsn"],
            b'j' => &["jwt"],
            b'k' => &["key"],
            b'o' => &["otp"],
            b'p' => &["pass", "pat", "pw", "pin"],
            b's' => &["secret", "seed", "signature"],
            b't' => &["token"],
            _ => return false,
        };
        let rest = &bytes[at..];
        pieces.iter().any(|piece| {
            rest.get(..piece.len()).is_some_and(|start| start.eq_ignore_ascii_case(piece.as_bytes()))
        })
    })
}

/// How far before its clue a piece may begin, in bytes: `signature` is told by its `gnat`.
const LONGEST_LEAD: usize = 2;

fn is_form(word: &[u8]) -> bool {
    let version = word.strip_prefix(b"v").filter(|digits| !digits.is_empty()).unwrap_or(word);
    version.iter().all(u8::is_ascii_digit) || (ends_as(&FORM_ENDS, word) && is_one_of(&FORMS, word))
}

fn is_stage(word: &[u8]) -> bool {
    ends_as(&STAGE_ENDS, word) && is_one_of(&STAGES, word)
}

/// The last two bytes of some words: by the last byte, a bit for each that may stand before it. They tell most other
/// words at a glance, those of ordinary texts above all.
type Ends = [u64; 128];

static SECRET_ENDS: Ends = ends(&SECRET_NAMES);
static FORM_ENDS: Ends = ends(&FORMS);
static STAGE_ENDS: Ends = ends(&STAGES);

const fn ends(words: &[&str]) -> Ends {
    let (mut ends, mut at) = ([0; 128], 0);
    while at < words.len() {
        let word = words[at].as_bytes();
        ends[word[word.len() - 1] as usize & 0x7f] |= 1 << (word[word.len() - 2] & 0x3f);
        at += 1;
    }
    ends
}

fn ends_as(ends: &Ends, word: &[u8]) -> bool {
    let [.., before, last] = word else { return false };
    ends[usize::from(*last) & 0x7f] & (1 << (before & 0x3f)) != 0
}

fn is_one_of(words: &[&str], word: &[u8]) -> bool {
    words.iter().any(|known| known.as_bytes() == word)
}

/// Whether a number under this name is a quantity: `max_tokens`, `tokens`, `output_tokens`.
pub(super) fn counts(name: &str) -> bool {
    let words = Words::of(name);
    words.iter().last().is_some_and(|last| last == b"tokens")
        || words.iter().any(|word| is_one_of(&QUANTITIES, word))
}

/// Whether a flag of this name switches something off, so that what follows is not its value: `--no-auth`.
pub(super) fn switches_off(name: &str) -> bool {
    Words::of(name).iter().next().is_some_and(|first| is_one_of(&["no", "without", "disable", "skip"], first))
}

/// Whether nothing but the name of a header that carries a credential.
pub(super) fn is_credential_header(name: &str) -> bool {
    ["authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key", "x-auth-token"]
        .iter()
        .any(|header| name.eq_ignore_ascii_case(header))
}

/// Whether the name is `pin`, which is as well a word for holding a version fast.
pub(super) fn is_pin(name: &str) -> bool {
    name.eq_ignore_ascii_case("pin")
}

/// Whether the name is `auth` or `bearer` alone, words that open ordinary sentences too.
pub(super) fn is_weak(name: &str) -> bool {
    ["auth", "bearer"].iter().any(|weak| name.eq_ignore_ascii_case(weak))
}

fn ends_in_secret(words: &Words, count: usize) -> bool {
    let Some(last) = count.checked_sub(1) else { return false };
    let before = last.checked_sub(1).map(|before| words.word(before));
    match words.word(last) {
        b"pass" => return before.is_none_or(|before| !is_one_of(&RUNS, before)),
        b"pin" => return before.is_none_or(|before| is_one_of(&PIN_OF, before)),
        _ => {}
    }
    (1..=count.min(3)).any(|taken| {
        let joined = words.joined(count - taken, count);
        let digits = joined.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        let joined = &joined[..joined.len() - digits];
        is_known(joined) || joined.strip_suffix(b"s").is_some_and(is_known)
    })
}

/// Each name that needs no boundary in front of it is also among the others, and so has its end among theirs.
fn is_known(name: &[u8]) -> bool {
    if !ends_as(&SECRET_ENDS, name) {
        return false;
    }
    SECRET_NAMES.binary_search_by(|known| known.as_bytes().cmp(name)).is_ok()
        || UNMISTAKABLE.iter().any(|end| name.ends_with(end.as_bytes()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_unmistakable_name_is_also_one_of_the_others() {
        assert!(UNMISTAKABLE.iter().all(|name| SECRET_NAMES.contains(name)));
    }

    #[test]
    fn a_secret_name_is_known_in_every_spelling() {
        for name in [
            "password",
            "Password",
            "PASSWORD",
            "token",
            "TOKEN",
            "api_key",
            "apikey",
            "APIKEY",
            "apiKey",
            "APIKey",
            "X-Api-Key",
            "secret",
            "auth",
            "authorization",
            "Proxy-Authorization",
            "access_key",
            "accessKey",
            "access_token",
            "accessToken",
            "refresh_token",
            "private_key",
            "privateKey",
            "PRIVATEKEY",
            "github_token",
            "githubToken",
            "stripe_api_key",
            "clientSecret",
            "DB_PASSWORD",
            "passwords",
            "api_keys",
            "apiKeys",
            "SecretString",
            "SECRET_KEY",
            "new_password_confirmation",
            "passwd",
            "pwd",
            "passphrase",
            "cookie",
            "Cookie",
            "set-cookie",
            "Set-Cookie",
            "credential",
            "credentials",
            "session_token",
            "bearer",
            "connection_string",
            "connectionString",
            "ConnectionStrings",
            "dsn",
            "SENTRY_DSN",
            "aws_secret_access_key",
            "_authToken",
            "spring.datasource.password",
            "DB_PASSWORD_2",
            "password2",
            "token1",
            "auth_header",
            "user password",
            "PGPASSWORD",
            "oldpasswords",
            "pass\u{200b}word",
            "MYSQL_PASS",
            "nPASSWORD",
            "tokens",
            "max_tokens",
            "secretValue",
            "PASS",
            "pass",
            "ansible_become_pass",
            "SECRET_KEY_BASE",
            "STRIPE_KEY",
            "API_KEY_PROD",
            "PASSWORD_PROD",
            "webhook_secret_v2",
            "privateKeyPem",
            "license_key",
            "otp",
            "pin",
            "card_pin",
            "creds",
            "GITHUB_PAT",
            "mfa_code",
            "p\u{430}ssword",
            "\u{442}oken",
            "P\u{410}SSW\u{41e}RD",
            "\u{ff50}\u{ff41}\u{ff53}\u{ff53}word",
            "\u{1d429}assword",
        ] {
            assert!(is_secret(name), "{name}");
        }
    }

    #[test]
    fn a_name_that_only_sounds_alike_is_harmless() {
        for name in [
            "",
            "_",
            "monkey",
            "author",
            "authors",
            "keyboard",
            "mytoken",
            "key",
            "keys",
            "path",
            "authority",
            "secretary",
            "tokenizer",
            "token_count",
            "tokenCount",
            "token_type",
            "secret_name",
            "cookie_jar",
            "APİ_KEY",
            "ключ",
            "passwordless",
            "public_key",
            "access_key_id",
            "compass",
            "oldpwd",
            "primary_key",
            "sort_key",
            "KEY",
            "STRIPE_PUBLISHABLE_KEY",
            "auth_test",
            "auth-dev",
            "first_pass",
            "bypass",
            "passes",
            "gpio_pin",
            "pinned",
            "spin",
            "session_id",
            "zip_code",
            "status_code",
            "password_reset",
            "2",
            "value",
            "string",
        ] {
            assert!(!is_secret(name), "{name}");
        }
    }

    #[test]
    fn a_quantity_is_told_by_its_plural_or_by_its_company() {
        assert!(
            ["max_tokens", "maxTokens", "tokens", "output_tokens", "max_token"]
                .iter()
                .all(|name| counts(name))
        );
        assert!(!["token", "password", "auth", "passwords"].iter().any(|name| counts(name)));
    }

    #[test]
    fn a_huge_name_is_judged_by_its_end() {
        assert!(is_secret(&("é".repeat(1_000_000) + "_token")));
    }
}
