//! What a call's arguments may show of themselves to people and to notification channels (contract §10).
//!
//! A pure walk from a JSON value to a smaller one without secrets; it knows nothing about records, and nothing that
//! leaves in an excerpt goes another way. Every bound is on the work as well as on the result: past the size bound
//! the walk stops, it does not go on counting. Simple members are taken before containers, among the first `AHEAD` of an
//! object, so that a huge member does not push a command out of sight.

mod assignments;
mod clues;
mod keys;
mod letters;
mod links;
mod names;
mod pairs;
mod programs;
mod scan;
mod shapes;
mod text;
mod tokens;
mod verbatim;
mod visible;

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use serde_json::map::Entry;
use serde_json::{Map, Number, Value};

use clues::Clues;
pub use text::{redact_text, shown};
pub use verbatim::is_verbatim;
pub use visible::{is_hidden, visible, visible_exact};

/// Stands for a secret.
const REDACTED: &str = "<redacted>";
/// Stands for a container below the depth bound.
const MAX_DEPTH: &str = "<max-depth>";
/// Stands for all further items of a container once the size bound is reached.
const TRUNCATED: &str = "<truncated>";

/// Deepest container that is shown; the outermost is 1.
const DEPTH: usize = 64;
/// Longest string, in code points as shown.
const STRING_CODE_POINTS: usize = 256;
/// Longest key, in code points as shown. The published worker shows keys whole; only a bound is added.
const KEY_CODE_POINTS: usize = 512;
/// Largest excerpt, in bytes of compact JSON.
const EXCERPT_BYTES: usize = 32 * 1024;
/// Kept free for the markers and closing brackets of every open container.
const RESERVED_BYTES: usize = DEPTH * 48;
/// Largest excerpt of a single member, in bytes of compact JSON, without markers and closing brackets.
const MEMBER_BYTES: usize = 2 * 1024;
/// How many bytes of strings are searched for secrets in one excerpt; an item costs [`ITEM_COST`] besides.
const SEARCHED_BYTES: usize = 1024 * 1024;
const ITEM_COST: usize = 32;
/// What a member costs that is left for the other of the two rounds, in which containers have their turn.
const PASSING_COST: usize = 8;
/// How many members of an object are looked through for simple ones before any container has its turn.
const AHEAD: usize = 4096;

/// The arguments as they may be shown: secrets replaced, long strings cut in the middle, hidden characters spelled,
/// depth and size bounded (contract §10). Plain small values come out as they are.
// Kept apart: within a caller that is built for size it would be built for size as well.
#[inline(never)]
pub fn excerpt(arguments: &Value) -> Value {
    let mut left = Budget { bytes: EXCERPT_BYTES - RESERVED_BYTES, search: SEARCHED_BYTES };
    left.item(arguments, 1).unwrap_or_else(|| Value::String(TRUNCATED.to_owned()))
}

/// `member` as [`excerpt`] would show it under `key` in the object `members`, within a smaller bound of 2 KiB and what
/// its brackets take. It need not stand there: what a rule compares an argument with is judged by the same names.
pub fn excerpt_of_member(members: &Map<String, Value>, key: &str, member: &Value) -> Value {
    if pairs::hides(members, key, member) {
        return Value::String(REDACTED.to_owned());
    }
    let mut left = Budget { bytes: MEMBER_BYTES, search: SEARCHED_BYTES };
    left.item(member, 2).unwrap_or_else(|| Value::String(TRUNCATED.to_owned()))
}

/// What may still be spent: bytes of the excerpt, and bytes searched for secrets.
struct Budget {
    bytes: usize,
    search: usize,
}

impl Budget {
    /// The value as shown, paid for; `None` once it does not fit.
    fn item(&mut self, value: &Value, depth: usize) -> Option<Value> {
        match value {
            Value::Object(_) | Value::Array(_) if depth > DEPTH => self.marker(MAX_DEPTH),
            Value::Object(members) => self.object(members, depth),
            Value::Array(items) => self.array(items, depth),
            Value::String(text) => {
                let shown = self.text(text, text::clues(text), STRING_CODE_POINTS)?;
                Some(Value::String(shown))
            }
            Value::Number(number) => {
                self.pay(digits(number) + 1)?;
                Some(value.clone())
            }
            Value::Bool(_) | Value::Null => {
                self.pay("false,".len())?;
                Some(value.clone())
            }
        }
    }

    fn object(&mut self, members: &Map<String, Value>, depth: usize) -> Option<Value> {
        self.pay("{},".len())?;
        let mut shown = Members::default();
        for last_round in [false, true] {
            for (at, (key, member)) in members.iter().enumerate() {
                if at == AHEAD && !last_round {
                    break;
                }
                let waits = at >= AHEAD || member.is_object() || member.is_array();
                let now = waits == last_round;
                if self.visit(if now { ITEM_COST } else { PASSING_COST }).is_none() {
                    return Some(shown.truncated());
                }
                if !now {
                    continue;
                }
                match self.member(members, key, member, depth) {
                    Some((key, member)) => {
                        let mark = shown.insert(key, member);
                        let _ = self.pay(mark);
                    }
                    None => return Some(shown.truncated()),
                }
            }
        }
        Some(Value::Object(shown.map))
    }

    /// A key and its value as shown.
    fn member(
        &mut self,
        members: &Map<String, Value>,
        key: &str,
        member: &Value,
        depth: usize,
    ) -> Option<(String, Value)> {
        // Most keys are looked at once for both.
        let clues = text::clues(key);
        let is_secret = clues.map_or_else(|| keys::is_secret(key), |clues| keys::is_secret_by(clues, key));
        let secret = pairs::hides_as(is_secret, members, key, member);
        let shown = self.text(key, clues, KEY_CODE_POINTS)?;
        let member = if secret { self.marker(REDACTED) } else { self.item(member, depth + 1) };
        Some((shown, member?))
    }

    fn array(&mut self, items: &[Value], depth: usize) -> Option<Value> {
        self.pay("[],".len())?;
        let mut shown = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let secret = pairs::hides_item(items, index);
            let visited = self.visit(ITEM_COST);
            let item = visited
                .and_then(|()| if secret { self.marker(REDACTED) } else { self.item(item, depth + 1) });
            if let Some(item) = item {
                shown.push(item);
            } else {
                shown.push(Value::String(TRUNCATED.to_owned()));
                break;
            }
        }
        Some(Value::Array(shown))
    }

    fn text(&mut self, text: &str, clues: Option<Clues>, max_code_points: usize) -> Option<String> {
        self.search = self.search.checked_sub(text::looked_at(text))?;
        let shown = text::shown_by(clues, text, max_code_points);
        self.pay(encoded_bytes(&shown))?;
        Some(shown)
    }

    fn marker(&mut self, marker: &str) -> Option<Value> {
        self.pay(encoded_bytes(marker))?;
        Some(Value::String(marker.to_owned()))
    }

    fn visit(&mut self, cost: usize) -> Option<()> {
        self.search = self.search.checked_sub(cost)?;
        Some(())
    }

    /// Takes from the size bound; a refusal empties it, so that nothing smaller slips in behind what was left out.
    fn pay(&mut self, bytes: usize) -> Option<()> {
        let left = self.bytes.checked_sub(bytes);
        self.bytes = left.unwrap_or(0);
        left.map(|_| ())
    }
}

/// Shown members under distinct keys, also where two keys have become the same by escaping or clipping.
#[derive(Default)]
struct Members {
    map: Map<String, Value>,
    repeats: HashMap<String, usize>,
}

impl Members {
    /// Adds a member, and tells how many bytes its key has grown by to stay distinct.
    fn insert(&mut self, key: String, member: Value) -> usize {
        let entry = match self.map.entry(key) {
            Entry::Vacant(entry) => {
                entry.insert(member);
                return 0;
            }
            Entry::Occupied(entry) => entry,
        };
        let key = entry.key().clone();
        let mut name = key.clone();
        while self.map.contains_key(&name) {
            let repeats = self.repeats.entry(key.clone()).or_insert(1);
            *repeats += 1;
            name = format!("{key} ({repeats})");
        }
        let mark = name.len() - key.len();
        self.map.insert(name, member);
        mark
    }

    fn truncated(mut self) -> Value {
        self.insert(TRUNCATED.to_owned(), Value::String(TRUNCATED.to_owned()));
        Value::Object(self.map)
    }
}

/// Bytes of a number as JSON.
fn digits(number: &Number) -> usize {
    number.as_u64().map_or_else(
        || number.to_string().len(),
        |value| value.checked_ilog10().map_or(1, |power| power as usize + 1),
    )
}

/// Bytes of a shown text as a JSON string with the comma or colon behind it.
fn encoded_bytes(shown: &str) -> usize {
    let marked = |byte: &u8| u8::from(*byte == b'"') + u8::from(*byte == b'\\');
    // Few at a time, so that their count fits into a byte.
    let backslashes: usize =
        shown.as_bytes().chunks(128).map(|few| usize::from(few.iter().map(marked).sum::<u8>())).sum();
    shown.len() + backslashes + "\"\",".len()
}
