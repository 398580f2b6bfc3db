//! Cases: calls beside what should become of them, for testing a rules file. They stand under `cases` in the file itself,
//! or in one of their own.
//!
//! Read as strictly as rules are: a case that is not understood is an error and never skipped, because a case that does
//! not run proves nothing.

use serde_json::{Map, Value};

use super::places::{Mistake, Place, Places};
use super::{SeedProblem, expanded_value, written};
use crate::policy::Decision;
use crate::policy::parse::TOP_KEYS;
use crate::policy::refusal::{kind, meant, shown};
use crate::policy::settings::Mode;

/// The key under which cases stand.
pub const KEY: &str = "cases";
/// Most cases of one file.
const MOST: usize = 10_000;
/// The keys of a case.
const CASE_KEYS: [&str; 4] = ["function", "args", "mode", "expect"];
const MODES: [&str; 3] = [Mode::Manual.as_str(), Mode::Auto.as_str(), Mode::Full.as_str()];
/// What may be expected: the gate's words, and those of rules and of `approval::evaluate`.
const EXPECTED: [(&str, Decision); 5] = [
    ("continue", Decision::Continue),
    ("allow", Decision::Continue),
    ("deny", Decision::Deny),
    ("hold", Decision::Hold),
    ("needs_approval", Decision::Hold),
];

/// One case.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// Position in the list, counted from 0.
    pub index: usize,
    /// Where it stands in its file.
    pub place: Option<Place>,
    /// The function that is called.
    pub function: String,
    /// Its arguments; an empty object if left out.
    pub args: Value,
    /// The session's mode; `None` is the configuration's default.
    pub mode: Option<Mode>,
    /// What should become of the call.
    pub expect: Decision,
}

/// The cases in a file's text, placeholders expanded by `env`; `None` if there are none in it. Else all that is wrong
/// with them.
pub fn parse(text: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<Option<Vec<Case>>, Vec<Mistake>> {
    let told = |problem: SeedProblem| problem.mistakes(text);
    let file = written(text).map_err(told)?;
    let mut reader = Reader { places: Places::of(text), mistakes: Vec::new(), expanded: false };
    if let Value::Object(fields) = &file {
        reader.keys(fields);
    }
    let Some(written) = (if file.is_array() { Some(&file) } else { file.get(KEY) }) else {
        return reader.done(None);
    };
    let list = expanded_value(written, text, env).map_err(told)?;
    let cases = reader.list(&list, written);
    reader.done(Some(cases))
}

/// Collects what is wrong while it reads.
struct Reader {
    places: Places,
    mistakes: Vec<Mistake>,
    /// Whether the case being read holds something from the environment, which no message may repeat.
    expanded: bool,
}

impl Reader {
    fn done(self, cases: Option<Vec<Case>>) -> Result<Option<Vec<Case>>, Vec<Mistake>> {
        if self.mistakes.is_empty() { Ok(cases) } else { Err(self.mistakes) }
    }

    /// The place under `cases`, or in a file that is the list itself.
    fn place(&self, path: &[&str]) -> Option<Place> {
        let path = || path.iter().copied();
        self.places.find(std::iter::once(KEY).chain(path())).or_else(|| self.places.find(path()))
    }

    fn mistake(&mut self, path: &[&str], what: String, hint: Option<String>) {
        let what = match (path.first(), hint) {
            (Some(index), Some(hint)) => format!("case {index}: {what} ({hint})"),
            (Some(index), None) => format!("case {index}: {what}"),
            (None, Some(hint)) => format!("{what} ({hint})"),
            (None, None) => what,
        };
        self.mistakes.push(Mistake { place: self.place(path), what });
    }

    /// A key that no file has would be a slip for `cases`, and nothing would run.
    fn keys(&mut self, fields: &Map<String, Value>) {
        let known: Vec<&str> = std::iter::once(KEY).chain(TOP_KEYS).collect();
        for key in fields.keys().filter(|key| !known.contains(&key.as_str())) {
            let what = format!("unknown key `{}` ({})", shown(key), meant(key, &known));
            self.mistakes.push(Mistake { place: self.places.find([key.as_str()]), what });
        }
    }

    fn list(&mut self, value: &Value, written: &Value) -> Vec<Case> {
        let Some(list) = value.as_array() else {
            self.mistake(&[], format!("`{KEY}` must be a list, not {}", kind(value)), None);
            return Vec::new();
        };
        if list.len() > MOST {
            self.mistake(
                &[],
                format!("`{KEY}` has {} entries, at most {MOST} are accepted", list.len()),
                None,
            );
            return Vec::new();
        }
        let mut cases = Vec::new();
        for (index, value) in list.iter().enumerate() {
            self.expanded = written.get(index) != Some(value);
            cases.extend(self.case(index, value));
        }
        cases
    }

    fn case(&mut self, index: usize, value: &Value) -> Option<Case> {
        let at = index.to_string();
        let Some(fields) = value.as_object() else {
            self.mistake(&[&at], format!("a case is an object, not {}", kind(value)), None);
            return None;
        };
        for key in fields.keys().filter(|key| !CASE_KEYS.contains(&key.as_str())) {
            self.mistake(&[&at, key], format!("unknown key `{}`", shown(key)), Some(meant(key, &CASE_KEYS)));
        }
        let function = match fields.get("function") {
            Some(Value::String(function)) => Some(function.clone()),
            Some(other) => {
                self.wrong(&at, "function", &format!("must be a string, not {}", kind(other)), None)
            }
            None => self.wrong(&at, "function", "is missing", None),
        };
        let mode = match fields.get("mode") {
            None => Some(None),
            Some(word) => match word.as_str().and_then(Mode::parse) {
                Some(mode) => Some(Some(mode)),
                None => self.unknown_word(&at, "mode", word, &MODES),
            },
        };
        let expect = match fields.get("expect") {
            None => self.wrong(&at, "expect", "is missing", Some(meant("", &words()))),
            Some(word) => match word.as_str().and_then(expected) {
                Some(expect) => Some(expect),
                None => self.unknown_word(&at, "expect", word, &words()),
            },
        };
        let args = fields.get("args").cloned().unwrap_or_else(|| Value::Object(Map::new()));
        let place = self.place(&[&at]);
        Some(Case { index, place, function: function?, args, mode: mode?, expect: expect? })
    }

    fn wrong<T>(&mut self, at: &str, key: &str, what: &str, hint: Option<String>) -> Option<T> {
        self.mistake(&[at, key], format!("`{key}` {what}"), hint);
        None
    }

    fn unknown_word<T>(&mut self, at: &str, key: &str, value: &Value, known: &[&str]) -> Option<T> {
        let (what, typed) = match value.as_str() {
            Some(_) if self.expanded => {
                ("has an unknown value once placeholders are expanded".to_owned(), "")
            }
            Some(word) => (format!("has the unknown value `{}`", shown(word)), word),
            None => (format!("must be a string, not {}", kind(value)), ""),
        };
        self.wrong(at, key, &what, Some(meant(typed, known)))
    }
}

fn expected(word: &str) -> Option<Decision> {
    EXPECTED.iter().find(|(known, _)| *known == word).map(|(_, decision)| *decision)
}

fn words() -> [&'static str; 5] {
    EXPECTED.map(|(word, _)| word)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    fn env(name: &str) -> Option<String> {
        (name == "TARGET").then(|| "prod".to_owned())
    }

    fn mistakes(text: &str) -> Vec<(Option<Place>, String)> {
        let mistakes = parse(text, &env).unwrap_err();
        mistakes.into_iter().map(|mistake| (mistake.place, mistake.what)).collect()
    }

    #[test]
    fn cases_stand_beside_rules_or_alone() {
        let beside = "rules: ['a::*']\ncases:\n  - function: a::b\n    args: {x: '${TARGET}'}\n    mode: auto\n    expect: allow\n";
        let alone = "- {function: a::b, args: {x: prod}, mode: auto, expect: continue}\n";
        let expected = Case {
            index: 0,
            place: Some((3, 5)),
            function: "a::b".to_owned(),
            args: json!({"x": "prod"}),
            mode: Some(Mode::Auto),
            expect: Decision::Continue,
        };
        assert_eq!(parse(beside, &env), Ok(Some(vec![expected.clone()])));
        assert_eq!(parse(alone, &env), Ok(Some(vec![Case { place: Some((1, 3)), ..expected }])));
        assert_eq!(parse("rules: []\n", &env), Ok(None));
        assert_eq!(parse("", &env), Ok(None));
    }

    #[test]
    fn the_words_of_rules_and_of_the_gate_are_understood() {
        for (word, decision) in EXPECTED {
            let cases = parse(&format!("- {{function: a, expect: {word}}}"), &env).unwrap().unwrap();
            assert_eq!(
                (cases[0].expect, &cases[0].args, cases[0].mode),
                (decision, &json!({}), None),
                "{word}"
            );
        }
    }

    #[test]
    fn every_slip_is_told_with_its_place() {
        for (text, place, said) in [
            ("case:\n  - {}\n", Some((1, 1)), "unknown key `case` (did you mean `cases`?)"),
            ("cases: {}\n", Some((1, 1)), "`cases` must be a list, not an object"),
            ("cases:\n  - a::b\n", Some((2, 5)), "case 0: a case is an object, not a string"),
            ("- {expect: deny}\n", Some((1, 3)), "case 0: `function` is missing"),
            (
                "- {function: a}\n",
                Some((1, 3)),
                "case 0: `expect` is missing (known here: `continue`, `allow`",
            ),
            ("- {function: 1, expect: deny}\n", Some((1, 4)), "`function` must be a string, not a number"),
            ("- function: a\n  expect: dney\n", Some((2, 3)), "unknown value `dney` (did you mean `deny`?)"),
            ("- function: a\n  mode: Auto\n  expect: deny\n", Some((2, 3)), "(did you mean `auto`?)"),
            (
                "- function: a\n  arg: {}\n  expect: deny\n",
                Some((2, 3)),
                "unknown key `arg` (did you mean `args`?)",
            ),
            ("cases:\n - function: '${NOWHERE}'\n   expect: deny\n", Some((2, 15)), "`NOWHERE` is not set"),
            ("cases: [\n", None, "YAML"),
        ] {
            let found = mistakes(text);
            assert_eq!(found.len(), 1, "{text:?}: {found:?}");
            assert!(found[0].1.contains(said), "{text:?}: {found:?}");
            if place.is_some() {
                assert_eq!(found[0].0, place, "{text:?}");
            }
        }
    }

    #[test]
    fn what_came_from_the_environment_is_not_repeated() {
        let found = mistakes("- {function: a, expect: deny, mode: '${TARGET}'}\n");
        assert!(
            found[0].1.contains("once placeholders are expanded") && !found[0].1.contains("prod"),
            "{found:?}"
        );
    }

    #[test]
    fn all_slips_of_a_case_are_told_at_once() {
        assert_eq!(mistakes("- {functoin: a, expect: no, mode: 1}\n").len(), 4);
    }
}
