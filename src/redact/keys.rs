//! Which names mean a secret (contract §10).
//!
//! A name is taken apart into words at every character that is no letter or digit and at camelCase boundaries, and
//! its last words decide: `stripe_api_key`, `X-Api-Key`, `apiKey` and `APIKEY` are the same name, `mytoken` and
//! `monkey` are one harmless word. It knows nothing about where a name stood.

use super::visible::is_hidden;

/// Names that mean a secret, lower case, in the singular, words joined. Sorted.
const SECRET_NAMES: [&str; 103] = [
    "accesskey",
    "accesstoken",
    "accountkey",
    "adminpass",
    "adminpassword",
    "algoliakey",
    "amzsignature",
    "anthropickey",
    "apikey",
    "apisecret",
    "apitoken",
    "appkey",
    "auth",
    "authkey",
    "authorization",
    "authtoken",
    "bearer",
    "bearertoken",
    "clientsecret",
    "cloudflarekey",
    "coherekey",
    "connectionstring",
    "connstring",
    "consumerkey",
    "cookie",
    "cred",
    "credential",
    "datadogkey",
    "dbpass",
    "dbpassword",
    "deploykey",
    "dsn",
    "encryptionkey",
    "firebasekey",
    "ftppass",
    "geminikey",
    "ghpat",
    "githubkey",
    "githubpat",
    "gitlabkey",
    "gitlabpat",
    "googsignature",
    "groqkey",
    "herokukey",
    "hmackey",
    "hostkey",
    "idtoken",
    "jwt",
    "jwtkey",
    "keypass",
    "licencekey",
    "licensekey",
    "mailgunkey",
    "mailpass",
    "masterkey",
    "mfacode",
    "mistralkey",
    "mysqlpass",
    "openaikey",
    "otp",
    "otpcode",
    "pagerdutykey",
    "passcode",
    "passphrase",
    "passwd",
    "password",
    "paypalkey",
    "privatekey",
    "pw",
    "pwd",
    "recoverycode",
    "recoverykey",
    "redispass",
    "refreshtoken",
    "rootpass",
    "secret",
    "secretaccesskey",
    "secretkey",
    "secretkeybase",
    "securitytoken",
    "seedphrase",
    "sendgridkey",
    "servicekey",
    "sessionkey",
    "sessiontoken",
    "setcookie",
    "sharedaccesskey",
    "sharedaccesssignature",
    "sharedsecret",
    "signingkey",
    "slackkey",
    "smtppass",
    "sshkey",
    "storagekey",
    "storepass",
    "stripekey",
    "subscriptionkey",
    "supabasekey",
    "token",
    "totp",
    "twiliokey",
    "userpass",
    "webhookkey",
];

/// Names so unmistakable that they need no boundary in front of them: `PGPASSWORD`, `oldpassword`. Plurals likewise.
const UNMISTAKABLE: [&str; 5] = ["apikey", "passphrase", "passwd", "password", "privatekey"];

/// Words behind a name that say only in which form the secret comes.
const FORMS: [&str; 21] = [
    "again",
    "b64",
    "base64",
    "confirm",
    "confirmation",
    "data",
    "der",
    "encoded",
    "hash",
    "header",
    "hex",
    "jwk",
    "pem",
    "plain",
    "plaintext",
    "raw",
    "repeat",
    "str",
    "string",
    "text",
    "value",
];

/// Words behind a name that say only where, or since when, the secret is in use. `auth` says too little for them.
const STAGES: [&str; 19] = [
    "backup",
    "current",
    "dev",
    "development",
    "live",
    "new",
    "old",
    "preprod",
    "previous",
    "primary",
    "prod",
    "production",
    "qa",
    "sandbox",
    "secondary",
    "stage",
    "staging",
    "test",
    "uat",
];

/// Words in front of `pass` that make it one run of several.
const RUNS: [&str; 35] = [
    "all",
    "band",
    "boarding",
    "can",
    "check",
    "compiler",
    "did",
    "each",
    "final",
    "first",
    "high",
    "last",
    "lint",
    "low",
    "max",
    "min",
    "multi",
    "must",
    "next",
    "num",
    "one",
    "optimization",
    "per",
    "render",
    "season",
    "second",
    "shader",
    "single",
    "test",
    "that",
    "third",
    "this",
    "three",
    "two",
    "will",
];

/// Words in front of `pin` that make it a number to be kept; `gpio_pin` is a place on a board.
const PIN_OF: [&str; 15] = [
    "access", "account", "atm", "bank", "card", "confirm", "current", "debit", "login", "new", "old",
    "security", "sim", "unlock", "user",
];

/// Words that make a number under a name such as `max_tokens` a quantity.
const QUANTITIES: [&str; 21] = [
    "available",
    "budget",
    "cached",
    "completion",
    "context",
    "count",
    "input",
    "limit",
    "max",
    "maximum",
    "min",
    "minimum",
    "num",
    "number",
    "output",
    "prompt",
    "reasoning",
    "remaining",
    "total",
    "usage",
    "used",
];

/// Longest part of a name that is looked at, in bytes, from its end.
const LOOKED_AT_BYTES: usize = 128;

/// Whether a value under this name is a secret, whatever it is; quantities are for [`counts`] to tell.
pub(super) fn is_secret(name: &str) -> bool {
    if !may_be_secret(name) {
        return false;
    }
    let words = words(name);
    let mut words = words.as_slice();
    loop {
        if ends_in_secret(words) {
            return true;
        }
        match words.split_last() {
            Some((last, rest))
                if is_form(last) || (is_stage(last) && rest.last().is_some_and(|w| w != "auth")) =>
            {
                words = rest;
            }
            _ => return false,
        }
    }
}

/// A quick look for a piece that every secret name has. It is asked for each word of a text, most of which have none.
fn may_be_secret(name: &str) -> bool {
    if !name.is_ascii() {
        return true;
    }
    let bytes = name.as_bytes();
    (0..bytes.len()).any(|at| {
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

fn is_form(word: &str) -> bool {
    let version = word.strip_prefix('v').filter(|digits| !digits.is_empty()).unwrap_or(word);
    FORMS.contains(&word) || version.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_stage(word: &str) -> bool {
    STAGES.contains(&word)
}

/// Whether a number under this name is a quantity: `max_tokens`, `tokens`, `output_tokens`.
pub(super) fn counts(name: &str) -> bool {
    let words = words(name);
    let plural = words.last().is_some_and(|last| last == "tokens");
    plural || words.iter().any(|word| QUANTITIES.contains(&word.as_str()))
}

/// Whether a flag of this name switches something off, so that what follows is not its value: `--no-auth`.
pub(super) fn switches_off(name: &str) -> bool {
    words(name).first().is_some_and(|first| ["no", "without", "disable", "skip"].contains(&first.as_str()))
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

fn ends_in_secret(words: &[String]) -> bool {
    match words {
        [.., before, last] if last == "pass" => return !RUNS.contains(&before.as_str()),
        [.., before, last] if last == "pin" => return PIN_OF.contains(&before.as_str()),
        [last] if last == "pass" || last == "pin" => return true,
        _ => {}
    }
    (1..=words.len().min(3)).any(|count| {
        let joined = words[words.len() - count..].concat();
        let joined = joined.trim_end_matches(|c: char| c.is_ascii_digit());
        let known = |name: &str| {
            SECRET_NAMES.binary_search(&name).is_ok() || UNMISTAKABLE.iter().any(|end| name.ends_with(end))
        };
        known(joined) || joined.strip_suffix('s').is_some_and(known)
    })
}

/// The ASCII letter that a reader takes a character for: those of other alphabets that are drawn alike, the full-width
/// and the mathematical ones. Any other character stands for itself.
fn look_alike(c: char) -> char {
    const ALIKE: [(&str, char); 20] = [
        ("аАαΑ", 'a'),
        ("ВΒ", 'b'),
        ("сСϲ", 'c'),
        ("ԁ", 'd'),
        ("еЕεΕ", 'e'),
        ("һНΗ", 'h'),
        ("іІιΙ", 'i'),
        ("јЈ", 'j'),
        ("кКκΚ", 'k'),
        ("мМΜ", 'm'),
        ("пΝ", 'n'),
        ("оОοΟ", 'o'),
        ("рРρΡ", 'p'),
        ("ѕЅ", 's'),
        ("тТτΤ", 't'),
        ("υ", 'u'),
        ("νѵ", 'v'),
        ("ԝѡ", 'w'),
        ("хХχΧ", 'x'),
        ("уУγΥ", 'y'),
    ];
    if c.is_ascii() {
        return c;
    }
    let letter = |first: u8, offset: u32| u8::try_from(offset).map_or(c, |offset| char::from(first + offset));
    match u32::from(c) {
        code @ 0xff01..=0xff5e => letter(b'!', code - 0xff01),
        code @ 0x1_d400..=0x1_d6a3 => match (code - 0x1_d400) % 52 {
            capital @ 0..26 => letter(b'A', capital),
            small => letter(b'a', small - 26),
        },
        _ => match ALIKE.iter().find(|(drawn, _)| drawn.contains(c)) {
            Some((_, letter)) if c.is_uppercase() => letter.to_ascii_uppercase(),
            Some((_, letter)) => *letter,
            None => c,
        },
    }
}

/// The words of a name, letters in lower case, those that only look like ASCII ones as these.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut word = String::new();
    let mut before = ' ';
    let mut name =
        ends_within(name, LOOKED_AT_BYTES).chars().filter(|c| !is_hidden(*c)).map(look_alike).peekable();
    while let Some(c) = name.next() {
        let lower_follows = name.peek().is_some_and(char::is_ascii_lowercase);
        let humps = c.is_ascii_uppercase()
            && (before.is_ascii_lowercase()
                || before.is_ascii_digit()
                || (before.is_ascii_uppercase() && lower_follows));
        if (humps || !c.is_alphanumeric()) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if c.is_alphanumeric() {
            word.push(c.to_ascii_lowercase());
        }
        before = c;
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// The last `bytes` of a text, less what would split a character.
fn ends_within(text: &str, bytes: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(bytes))..]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_list_is_sorted_so_that_it_can_be_searched() {
        assert!(SECRET_NAMES.is_sorted());
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
