//! A name as its words: which letters a reader sees in it, and where one word ends and the next begins.
//!
//! It knows no names. Words are kept in place, at a fixed size, since it is asked for every member of every object.

use super::visible::is_hidden;

/// Longest part of a name that is looked at, in bytes, from its end.
pub(super) const LOOKED_AT_BYTES: usize = 128;

/// Stands in a word for a letter that looks like no ASCII one.
const FOREIGN: u8 = 0x80;

/// The ASCII letter that a reader takes a character for: those of other alphabets that are drawn alike, the full-width
/// and the mathematical ones. Any other character stands for itself.
fn look_alike(c: char) -> char {
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
        _ => match drawn_alike(c) {
            Some(letter) if c.is_uppercase() => letter.to_ascii_uppercase(),
            Some(letter) => letter,
            None => c,
        },
    }
}

/// The letter of another alphabet as an ASCII one, in lower case.
fn drawn_alike(c: char) -> Option<char> {
    Some(match c {
        'а' | 'А' | 'α' | 'Α' => 'a',
        'В' | 'Β' => 'b',
        'с' | 'С' | 'ϲ' => 'c',
        'ԁ' => 'd',
        'е' | 'Е' | 'ε' | 'Ε' => 'e',
        'һ' | 'Н' | 'Η' => 'h',
        'і' | 'І' | 'ι' | 'Ι' => 'i',
        'ј' | 'Ј' => 'j',
        'к' | 'К' | 'κ' | 'Κ' => 'k',
        'м' | 'М' | 'Μ' => 'm',
        'п' | 'Ν' => 'n',
        'о' | 'О' | 'ο' | 'Ο' => 'o',
        'р' | 'Р' | 'ρ' | 'Ρ' => 'p',
        'ѕ' | 'Ѕ' => 's',
        'т' | 'Т' | 'τ' | 'Τ' => 't',
        'υ' => 'u',
        'ν' | 'ѵ' => 'v',
        'ԝ' | 'ѡ' => 'w',
        'х' | 'Х' | 'χ' | 'Χ' => 'x',
        'у' | 'У' | 'γ' | 'Υ' => 'y',
        _ => return None,
    })
}

/// Whether the last word of a name ends in a letter that looks like no ASCII one.
pub(super) fn ends_foreign(name: &str) -> bool {
    let mut letters =
        ends_within(name, LOOKED_AT_BYTES).chars().rev().filter(|c| !is_hidden(*c)).map(look_alike);
    letters.find(|c| c.is_alphanumeric()).is_some_and(|c| !c.is_ascii())
}

/// The words of a name, letters in lower case, those that only look like ASCII ones as these.
pub(super) struct Words {
    /// The letters and digits of all words, with nothing between them.
    letters: [u8; LOOKED_AT_BYTES],
    /// Where each word begins in them, and at `count` where the last one ends.
    starts: [u8; LOOKED_AT_BYTES + 1],
    count: usize,
}

impl Words {
    pub fn of(name: &str) -> Self {
        let mut words = Self { letters: [0; LOOKED_AT_BYTES], starts: [0; LOOKED_AT_BYTES + 1], count: 0 };
        let mut name =
            ends_within(name, LOOKED_AT_BYTES).chars().filter(|c| !is_hidden(*c)).map(look_alike).peekable();
        let (mut length, mut before) = (0_u8, ' ');
        while let Some(c) = name.next() {
            let lower_follows = name.peek().is_some_and(char::is_ascii_lowercase);
            let humps = c.is_ascii_uppercase()
                && (before.is_ascii_lowercase()
                    || before.is_ascii_digit()
                    || (before.is_ascii_uppercase() && lower_follows));
            if humps || !c.is_alphanumeric() {
                words.end_word(length);
            }
            if c.is_alphanumeric() {
                let letter = u8::try_from(c).ok().filter(u8::is_ascii).unwrap_or(FOREIGN);
                words.letters[usize::from(length)] = letter.to_ascii_lowercase();
                length += 1;
            }
            before = c;
        }
        words.end_word(length);
        words
    }

    /// Ends the word that goes on to `length`, if there is one.
    fn end_word(&mut self, length: u8) {
        if length > self.starts[self.count] {
            self.count += 1;
            self.starts[self.count] = length;
        }
    }

    pub fn count(&self) -> usize {
        self.count
    }

    pub fn word(&self, index: usize) -> &[u8] {
        self.joined(index, index + 1)
    }

    /// The words from `first` to before `end`, with nothing between them.
    pub fn joined(&self, first: usize, end: usize) -> &[u8] {
        &self.letters[usize::from(self.starts[first])..usize::from(self.starts[end])]
    }

    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.count).map(|index| self.word(index))
    }
}

/// The last `bytes` of a text, less what would split a character.
pub(super) fn ends_within(text: &str, bytes: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(bytes))..]
}
