//! Whether JSON text that was skipped would also have been read: not every mistake is noticed in passing.
//!
//! Must not know what the text is for. Skipping checks the grammar. What is left are half characters in escapes, numbers that
//! are out of range, deep nesting, and keys that mean something to the reader itself. Most text has not the least sign of
//! any of them, which a look at its bytes tells many times sooner than a visit to every member.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Deepest container that is still looked at. Far less than the full reader takes.
const DEPTH: u8 = 32;
/// Keys that begin with this mean something to the JSON reader itself.
const READERS_OWN_KEYS: &str = "$serde_json::private::";
/// So many digits make no number that is out of range.
const DIGITS: usize = 128;

/// Whether the full reader can read a value. It never says so of one that it cannot.
pub(super) fn is_readable(value: &RawValue) -> bool {
    if is_plain(value.get().as_bytes()) {
        return true;
    }
    let mut reader = serde_json::Deserializer::from_str(value.get());
    Readable { levels: DEPTH }.deserialize(&mut reader).is_ok()
}

/// Whether text that was skipped has no sign of what skipping overlooks. Each look takes many bytes at once.
fn is_plain(text: &[u8]) -> bool {
    let opens = |few: &[u8]| few.iter().fold(0, |count, byte| count + u8::from(matches!(byte, b'{' | b'[')));
    let containers: usize = text.chunks(DIGITS).map(|few| usize::from(opens(few))).sum();
    let marks = text.iter().fold(false, |found, byte| found | matches!(byte, b'\\' | b'$'));
    let exponent = |(digit, mark): (&u8, &u8)| digit.is_ascii_digit() && mark | 0x20 == b'e';
    let exponents = text.iter().zip(text.get(1..).unwrap_or_default());
    let exponents = exponents.fold(false, |found, pair| found | exponent(pair));
    // A run of twice as many has a whole piece of them in it.
    let runs = || {
        text.chunks_exact(DIGITS).any(|few| few.iter().fold(true, |all, byte| all & byte.is_ascii_digit()))
    };
    containers <= usize::from(DEPTH) && !marks && !exponents && !runs()
}

/// Any value that a reader would be able to read, with so many levels of containers at most.
#[derive(Clone, Copy)]
struct Readable {
    levels: u8,
}

impl Readable {
    fn inside<E: Error>(self) -> Result<Self, E> {
        let levels = self.levels.checked_sub(1).ok_or_else(|| E::custom("deep"))?;
        Ok(Self { levels })
    }
}

impl<'de> DeserializeSeed<'de> for Readable {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Readable {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any value")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let inside = self.inside()?;
        while items.next_element_seed(inside)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let inside = self.inside()?;
        while members.next_key_seed(OrdinaryKey)?.is_some() {
            members.next_value_seed(inside)?;
        }
        Ok(())
    }
}

/// A key with no meaning to the JSON reader.
struct OrdinaryKey;

impl<'de> DeserializeSeed<'de> for OrdinaryKey {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for OrdinaryKey {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<(), E> {
        if key.starts_with(READERS_OWN_KEYS) { Err(E::custom("a key of the reader's own")) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn what_skipping_overlooks_is_not_plain() {
        let deep = "[".repeat(33) + &"]".repeat(33);
        let digits = "9".repeat(400);
        for text in [
            r#""\ud800""#,
            "1e999",
            "-1.5E999",
            &digits,
            &deep,
            r#"{"$serde_json::private::RawValue":"[1]"}"#,
        ] {
            assert!(!is_plain(text.as_bytes()), "{text}");
            assert!(!is_readable(&RawValue::from_string(text.to_owned()).unwrap()), "{text}");
        }
    }

    #[test]
    fn ordinary_arguments_are_plain() {
        for text in ["null", "{}", r#"{"path": "/srv/app/readme.md", "range": {"from": 1, "to": -2.5}}"#] {
            assert!(is_plain(text.as_bytes()), "{text}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_plain_can_be_read(
            parts in prop::collection::vec(
                prop::sample::select(vec!["1", "e", "E9", ".", "-", "\"", "\\u", "d800", "$", "[", "]", "{", "}", ":", ",", "\"a\":"]), 0..12
            ),
            zeros in 0usize..600,
        ) {
            let text = parts.concat();
            for text in [text.clone(), format!("1{}", "0".repeat(zeros)), format!("[{text}]")] {
                let Ok(value) = RawValue::from_string(text) else { continue };
                if is_readable(&value) {
                    prop_assert!(serde_json::from_str::<Value>(value.get()).is_ok(), "{}", value);
                }
            }
        }
    }
}
