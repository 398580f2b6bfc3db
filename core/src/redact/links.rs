//! Credentials in front of the `@` of a URL (contract §10).

use std::ops::Range;

use super::assignments::is_reference;
use super::shapes::{Cut, is_random};

/// Adds the byte range of the password, or the lone token, of each URL.
pub(super) fn find(text: &str, cut: Cut, found: &mut Vec<Range<usize>>) {
    // Up to `read` the text belongs to URLs.
    let (mut read, mut at) = (0, 0);
    while let Some(slashes) = text[at..].find("//").map(|index| at + index) {
        let start = slashes + 2;
        at = slashes + 1;
        let Some(scheme) = lead(text, read, slashes) else { continue };
        let end = text[start..].find(ends).map_or(text.len(), |length| start + length);
        if start == end {
            continue;
        }
        let runs_into_cut = cut.end && end == text.len();
        if let Some(secret) = url_secret(&text[start..end], scheme, runs_into_cut) {
            found.push(start + secret.start..start + secret.end);
        }
        (read, at) = (end, end);
    }
}

/// Whether a scheme stands in front of the slashes; `None` if they begin no URL.
fn lead(text: &str, read: usize, slashes: usize) -> Option<bool> {
    let mut before = text[read..slashes].chars().rev();
    match before.next() {
        None => (slashes == 0).then_some(false),
        Some(':') => {
            let name = before.next().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '.' | '-'));
            name.map(|_| true)
        }
        Some(c) => (c.is_whitespace() || matches!(c, '"' | '\'' | '=' | '(')).then_some(false),
    }
}

/// Whether a character cannot be a part of a URL.
fn ends(c: char) -> bool {
    c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>' | '`')
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
