//! Which names mean a secret (contract §10).
//!
//! A name is taken apart into words at every character that is no letter or digit and at camelCase boundaries, and
//! its last words decide: `stripe_api_key`, `X-Api-Key`, `apiKey` and `APIKEY` are the same name, `mytoken` and
//! `monkey` are one harmless word. It knows nothing about where a name stood.

use super::visible::is_hidden;

/// Names that mean a secret, lower case, in the singular, words joined. Sorted.
const SECRET_NAMES: [&str; 57] = [
    "accesskey",
    "accesstoken",
    "accountkey",
    "adminpass",
    "adminpassword",
    "amzsignature",
    "apikey",
    "apisecret",
    "apitoken",
    "auth",
    "authorization",
    "authtoken",
    "bearer",
    "bearertoken",
    "clientsecret",
    "connectionstring",
    "connstring",
    "cookie",
    "credential",
    "dbpass",
    "dbpassword",
    "deploykey",
    "dsn",
    "encryptionkey",
    "ftppass",
    "googsignature",
    "hostkey",
    "idtoken",
    "jwt",
    "keypass",
    "mailpass",
    "masterkey",
    "mysqlpass",
    "passcode",
    "passphrase",
    "passwd",
    "password",
    "privatekey",
    "pwd",
    "redispass",
    "refreshtoken",
    "rootpass",
    "secret",
    "secretaccesskey",
    "secretkey",
    "securitytoken",
    "sessiontoken",
    "setcookie",
    "sharedaccesskey",
    "sharedaccesssignature",
    "sharedsecret",
    "signingkey",
    "smtppass",
    "sshkey",
    "storepass",
    "token",
    "userpass",
];

/// Words behind a name that say only in which form the secret comes.
const FORMS: [&str; 18] = [
    "again",
    "b64",
    "base64",
    "confirm",
    "confirmation",
    "data",
    "encoded",
    "hash",
    "header",
    "hex",
    "plain",
    "plaintext",
    "raw",
    "repeat",
    "str",
    "string",
    "text",
    "value",
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
    if !name.bytes().any(|byte| byte.is_ascii_alphabetic()) {
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
                if FORMS.contains(&last.as_str()) || last.bytes().all(|b| b.is_ascii_digit()) =>
            {
                words = rest;
            }
            _ => return false,
        }
    }
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

/// Whether the name is `auth` or `bearer` alone, words that open ordinary sentences too.
pub(super) fn is_weak(name: &str) -> bool {
    ["auth", "bearer"].iter().any(|weak| name.eq_ignore_ascii_case(weak))
}

fn ends_in_secret(words: &[String]) -> bool {
    (1..=words.len().min(3)).any(|count| {
        let joined = words[words.len() - count..].concat();
        let joined = joined.trim_end_matches(|c: char| c.is_ascii_digit());
        let known = |name: &str| SECRET_NAMES.binary_search(&name).is_ok();
        known(joined) || joined.strip_suffix('s').is_some_and(known)
    })
}

/// The words of a name, ASCII letters in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut word = String::new();
    let mut before = ' ';
    let mut name = ends_within(name, LOOKED_AT_BYTES).chars().filter(|c| !is_hidden(*c)).peekable();
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
            "pass\u{200b}word",
            "MYSQL_PASS",
            "nPASSWORD",
            "tokens",
            "max_tokens",
            "secretValue",
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
