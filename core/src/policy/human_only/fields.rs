//! The names of arguments that matter: which say a function, which hold a payload.
//!
//! Must not know doors. Not obvious: a key is compared from its end, case and punctuation aside, since every worker
//! writes `function_id` its own way and puts its own words in front.

use serde_json::{Map, Value};

/// Last words of keys under which a function is named; an `id` or `name` may follow.
const FUNCTION_KEYS: [&str; 9] =
    ["function", "target", "tool", "fn", "handler", "callback", "method", "procedure", "callee"];

/// Last words of keys whose text is arguments or calls rather than content.
pub(super) const PAYLOAD_KEYS: [&str; 17] = [
    "payload",
    "data",
    "args",
    "arguments",
    "call",
    "calls",
    "job",
    "jobs",
    "task",
    "tasks",
    "message",
    "messages",
    "params",
    "parameters",
    "input",
    "request",
    "json",
];

/// A field that is text.
pub(super) fn text<'a>(fields: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    fields.get(key).and_then(Value::as_str)
}

/// The functions that an object names: as text, in a list, or as an object with an `id` or `name`.
///
/// What stands under a vaguer word than `function` and has no namespace is a file, a host, an environment.
pub(super) fn targets(fields: &Map<String, Value>) -> impl Iterator<Item = &str> {
    fields.iter().filter(|(key, _)| names_a_function(key)).flat_map(|(key, value)| {
        let ending = Ending::of(key);
        let plainly = ending.is("function", "") || ending.is("function", "id");
        let listed = value.as_array().into_iter().flatten();
        let described = ["id", "name"].into_iter().filter_map(|key| value.get(key));
        std::iter::once(value)
            .chain(listed)
            .chain(described)
            .filter_map(Value::as_str)
            .filter(move |text| plainly || text.contains("::"))
    })
}

/// `function_id`, `targetFunctionId`, `handler`, `function_path` and their like, however they are written.
pub(super) fn names_a_function(key: &str) -> bool {
    if !may_say_something(key) {
        return false;
    }
    let key = Ending::of(key);
    key.is("path", "") || ["", "id", "name"].iter().any(|tail| key.is_one_of(&FUNCTION_KEYS, tail))
}

/// Whether a key ends with one of the words for a payload.
pub(super) fn holds_a_payload(key: &str) -> bool {
    may_say_something(key) && Ending::of(key).is_one_of(&PAYLOAD_KEYS, "")
}

/// For the last letter of each word that is looked for, a bit for each letter that may stand before it, and one for each
/// before that. They tell most keys at a glance, and every key of every call comes here.
static ENDS: [[u32; 2]; 256] = ends();

/// What may stand behind the word for a function, and the one word besides those that names one.
const OTHER_ENDS: [&str; 3] = ["id", "name", "path"];

const fn ends() -> [[u32; 2]; 256] {
    let mut ends = [[0; 2]; 256];
    let lists: [&[&str]; 3] = [&FUNCTION_KEYS, &PAYLOAD_KEYS, &OTHER_ENDS];
    let (mut group, mut at) = (0, 0);
    while group < lists.len() {
        if at == lists[group].len() {
            (group, at) = (group + 1, 0);
            continue;
        }
        let word = lists[group][at].as_bytes();
        let (last, before) = (word[word.len() - 1], word[word.len() - 2]);
        // A word of two letters may have any letter in front.
        let third = if word.len() > 2 { 1 << (word[word.len() - 3] & 0x1f) } else { u32::MAX };
        let cases = [last as usize, last.to_ascii_uppercase() as usize];
        ends[cases[0]] = [ends[cases[0]][0] | 1 << (before & 0x1f), ends[cases[0]][1] | third];
        ends[cases[1]] = ends[cases[0]];
        at += 1;
    }
    ends
}

/// Whether a key may end with one of the words. Where its last three bytes are not all letters, it may.
fn may_say_something(key: &str) -> bool {
    match key.as_bytes() {
        [.., third, before, last] if [third, before, last].iter().all(|byte| byte.is_ascii_alphabetic()) => {
            let [befores, thirds] = ENDS[usize::from(*last)];
            befores & (1 << (before & 0x1f)) != 0 && thirds & (1 << (third & 0x1f)) != 0
        }
        _ => true,
    }
}

/// More than any two words that are looked for.
const ENDING_BYTES: usize = 16;

/// The end of a key in small letters; case and whatever is no letter or digit do not count.
struct Ending {
    bytes: [u8; ENDING_BYTES],
    from: usize,
}

impl Ending {
    fn of(key: &str) -> Self {
        if !key.is_ascii() {
            return Self::of_any(key);
        }
        let mut ending = Self { bytes: [0; ENDING_BYTES], from: ENDING_BYTES };
        for byte in key.bytes().rev().filter(u8::is_ascii_alphanumeric).take(ENDING_BYTES) {
            ending.from -= 1;
            ending.bytes[ending.from] = byte.to_ascii_lowercase();
        }
        ending
    }

    fn of_any(key: &str) -> Self {
        let mut ending = Self { bytes: [0; ENDING_BYTES], from: ENDING_BYTES };
        for one in key.chars().rev().filter(|one| one.is_alphanumeric()).take(ENDING_BYTES) {
            ending.from -= 1;
            // No word has a letter that is not ASCII; this byte is in none.
            ending.bytes[ending.from] = u8::try_from(one.to_ascii_lowercase()).unwrap_or(u8::MAX);
        }
        ending
    }

    /// Whether the key ends with these two words.
    fn is(&self, word: &str, tail: &str) -> bool {
        self.is_one_of(&[word], tail)
    }

    /// Whether the key ends with one of these words and this tail.
    fn is_one_of(&self, words: &[&str], tail: &str) -> bool {
        let Some(letters) = self.bytes[self.from..].strip_suffix(tail.as_bytes()) else { return false };
        // The last letter alone rules nearly all of them out, and every key of every call comes here.
        let ends =
            |word: &&str| letters.last() == word.as_bytes().last() && letters.ends_with(word.as_bytes());
        words.iter().any(ends)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Keys with the words and their like at the end.
    fn key() -> impl Strategy<Value = String> {
        let word = prop::sample::select([&FUNCTION_KEYS[..], &PAYLOAD_KEYS[..], &["path", "limit"]].concat());
        let end = prop::sample::select(vec!["", "id", "_name", "Id", "NAME", "_", "é", "s", "1"]);
        let case = any::<bool>();
        ("[a-zé_]{0,18}", word, end, case).prop_map(|(lead, word, end, capital)| {
            let word = if capital { word.to_uppercase() } else { word.to_owned() };
            lead + &word + end
        })
    }

    /// The definition, letter by letter.
    fn ends(key: &str, word: &str, tail: &str) -> bool {
        let mut letters =
            key.chars().rev().filter(|one| one.is_alphanumeric()).map(|one| one.to_ascii_lowercase());
        tail.chars().rev().chain(word.chars().rev()).all(|expected| letters.next() == Some(expected))
    }

    #[test]
    fn no_word_is_too_long_for_the_part_that_is_kept() {
        let longest = FUNCTION_KEYS.iter().map(|word| word.len() + "name".len()).max();
        assert!(
            longest
                .into_iter()
                .chain(PAYLOAD_KEYS.iter().map(|word| word.len()))
                .all(|len| len <= ENDING_BYTES)
        );
    }

    proptest! {
        #[test]
        fn a_key_is_read_from_its_end(
            key in "[a-z_\u{e9}\u{ff}]{0,4}(function|FUNCTION|Tool|fn|arg|args|json)?[-_ é]?(id|Name|_ID)?", at in 0usize..9
        ) {
            for tail in ["", "id", "name"] {
                prop_assert_eq!(Ending::of(&key).is(FUNCTION_KEYS[at], tail), ends(&key, FUNCTION_KEYS[at], tail));
            }
            prop_assert_eq!(holds_a_payload(&key), PAYLOAD_KEYS.iter().any(|word| ends(&key, word, "")));
        }

        #[test]
        fn a_glance_at_three_letters_overlooks_nothing(key in key()) {
            let tails = ["", "id", "name"];
            let names = FUNCTION_KEYS.iter().any(|word| tails.iter().any(|tail| ends(&key, word, tail)));
            prop_assert_eq!(names_a_function(&key), names || ends(&key, "path", ""));
            prop_assert_eq!(holds_a_payload(&key), PAYLOAD_KEYS.iter().any(|word| ends(&key, word, "")));
        }
    }
}
