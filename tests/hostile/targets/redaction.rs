//! What an excerpt may show: nothing that was planted, nothing hidden, and never too much (contract §10).

use approval_gate::redact::{excerpt, redact_text, visible};
use serde_json::{Value, json};

use super::{assert_plain, json as value_of, text};

const EXCERPT_BYTES: usize = 32 * 1024;
const DEPTH: usize = 64;
/// Looks like nothing in particular, so that only its place tells that it is secret.
const SECRET: &str = "Zq7vX1kPz93LmN5tRw8Y";
/// Pieces of the secret as short as this must not be seen either.
const PIECE: usize = 8;

/// What stands before and behind a secret in a text.
const PLACES: [(&str, &str); 20] = [
    ("password=", ""),
    ("--api-key ", " "),
    ("--token=", " -v"),
    ("export DEPLOY_TOKEN='", "'"),
    ("{\"client_secret\": \"", "\"}"),
    ("Authorization: ", "\n"),
    ("Authorization: Bearer ", "\n"),
    ("-H 'X-Api-Key: ", "'"),
    ("https://user:", "@host.test/x"),
    ("https://h.test/?access_token=", "&a=1"),
    ("ghp_", " "),
    ("glpat-", " "),
    ("sk-ant-", " "),
    ("sk_live_", " "),
    ("npm_", " "),
    ("xoxb-", " "),
    ("hf_", " "),
    ("bearer ", " "),
    ("Password=", ";Database=x"),
    ("-----BEGIN PRIVATE KEY-----\n", "\n-----END PRIVATE KEY-----"),
];
/// How often the text is repeated in front of the secret and behind it, so that it falls on every edge.
const REPEATS: [(usize, usize); 8] =
    [(0, 0), (1, 0), (1, 1), (0, 1), (40, 1), (1, 400), (400, 0), (2000, 2000)];
/// Longest text on one side of the secret, in bytes: more than is looked at as a whole.
const SIDE_BYTES: usize = 40 * 1024;

/// Two bytes that choose where a secret is planted, then the text around it; the text is also read as JSON.
pub fn redaction(bytes: &[u8]) {
    let (choice, rest) = bytes.split_at(bytes.len().min(2));
    let (place, repeats) = (choice.first().copied().unwrap_or(0), choice.get(1).copied().unwrap_or(0));
    let (value, around) = (value_of(rest), text(rest));
    shown(&value);
    shown(&json!({"text": around, around.clone(): [around]}));
    let line = visible(&redact_text(&around), 120);
    assert!(line.chars().count() <= 120);
    assert_plain(&line);
    if SECRET.as_bytes().windows(PIECE).any(|piece| contains(rest, piece)) {
        return;
    }
    beside(&value);
    let (lead, trail) = PLACES[usize::from(place) % PLACES.len()];
    let (before, behind) = REPEATS[usize::from(repeats) % REPEATS.len()];
    // The line break keeps the name from running into what stands before it and becoming another.
    let side = |times: usize| around.repeat(times.min(SIDE_BYTES / around.len().max(1)));
    let planted = format!("{}\n{lead}{SECRET}{trail}\n{}", side(before), side(behind));
    absent(&shown(&json!(planted)), &planted);
    absent(&shown(&json!([{"script": planted}])), &planted);
    absent(&redact_text(&planted), &planted);
}

/// A secret under its own name, or named by its neighbour, beside a value of any kind.
fn beside(value: &Value) {
    for planted in [
        json!({"a": value, "api_key": SECRET, "z": value}),
        json!([value, {"X-Auth-Token": {"inner": [SECRET, value]}}]),
        json!({"headers": [{"name": "Authorization", "value": SECRET}, value]}),
        json!({"argv": ["--password", SECRET]}),
        json!({"body": json!({"a": value, "password": SECRET}).to_string()}),
    ] {
        absent(&shown(&planted), &planted.to_string());
    }
}

fn absent(shown: &str, planted: &str) {
    let seen = SECRET.as_bytes().windows(PIECE).any(|piece| contains(shown.as_bytes(), piece));
    assert!(!seen, "the secret is shown\nin: {planted:.2000}\nas: {shown:.2000}");
}

fn contains(text: &[u8], piece: &[u8]) -> bool {
    text.windows(piece.len()).any(|window| window == piece)
}

/// The excerpt as text, after a look at what holds for every excerpt.
fn shown(value: &Value) -> String {
    let excerpt = excerpt(value);
    bounded(&excerpt, 1);
    let text = excerpt.to_string();
    assert!(text.len() <= EXCERPT_BYTES, "an excerpt of {} bytes", text.len());
    text
}

fn bounded(value: &Value, depth: usize) {
    match value {
        Value::String(text) => {
            assert!(text.chars().count() <= 256, "a string of {} code points", text.chars().count());
            assert_plain(text);
        }
        Value::Array(items) => {
            assert!(depth <= DEPTH);
            for item in items {
                bounded(item, depth + 1);
            }
        }
        Value::Object(members) => {
            assert!(depth <= DEPTH);
            for (key, member) in members {
                assert!(key.chars().count() <= 512 + " (12345)".len());
                assert_plain(key);
                bounded(member, depth + 1);
            }
        }
        _ => {}
    }
}
