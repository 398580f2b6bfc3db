//! What a text must hold somewhere for a rule to find anything in it: four bytes in a row, such as `toke` or `gh?_`.
//!
//! Most texts hold no secret, and one pass over their bytes says which rules need not look at all. A clue promises
//! nothing: it may be missing only where its rule finds nothing. It depends on no other byte than its own four, so that
//! a text without clues has no part, and no string of JSON spelled in it, with any.

/// A name that means a secret may stand here (`keys`).
pub(super) const NAME: u16 = 1;
/// A token that tells itself by how it begins (`tokens`).
pub(super) const TOKEN: u16 = 1 << 1;
/// An end of a private key block.
pub(super) const KEY_BLOCK: u16 = 1 << 2;
/// The slashes of a URL.
pub(super) const LINK: u16 = 1 << 3;
/// A program that takes a secret in a place of its own (`programs`).
pub(super) const PROGRAM: u16 = 1 << 4;
/// Standard input that is given in the command, or may come through a pipe.
pub(super) const FEED: u16 = 1 << 5;
pub(super) const PIPED: u16 = 1 << 13;
/// `Bearer` or `Basic`.
pub(super) const SCHEME: u16 = 1 << 6;
/// A flag or a link with a place for a secret.
pub(super) const PLACE: u16 = 1 << 7;
/// A statement that sets a password.
pub(super) const STATEMENT: u16 = 1 << 8;
/// A parameter of a URL.
pub(super) const PARAMETER: u16 = 1 << 9;
/// The second half of a name and value spelled as data.
pub(super) const PAIR: u16 = 1 << 10;
/// An escape in JSON text that may spell any of the above.
const ESCAPE: u16 = 1 << 11;
/// A character that is no ASCII.
const FOREIGN: u16 = 1 << 12;

/// Length of a trace, in bytes.
const LENGTH: usize = 4;

/// Traces in any case of their letters, and the rules they are clues to. `[…]` is one byte of several, `*` any byte or
/// the end of the text, `é` any byte that is no ASCII.
const CASELESS: [(&str, u16); 23] = [
    ("auth", NAME),
    ("bear", NAME | SCHEME), // bearer
    ("okie", NAME),          // cookie
    ("cred", NAME),
    ("conn", NAME),
    ("code", NAME),
    ("dsn*", NAME),
    ("jwt*", NAME),
    ("key*", NAME),
    ("otp*", NAME),
    ("pass", NAME | STATEMENT), // password
    ("pat*", NAME),
    ("pw**", NAME),
    ("pin*", NAME),
    ("secr", NAME), // secret
    ("seed", NAME),
    ("gnat", NAME), // signature
    ("toke", NAME), // token
    ("é***", NAME | FOREIGN),
    ("asic", SCHEME),    // basic
    ("dent", STATEMENT), // identified
    ("val[u\\\"'=: \t\n\r\x0b\x0cé]", PAIR),
    ("faul", PAIR), // default
];

/// Traces in exactly these letters. Where one stands for several, mixtures of them are clues too, and are rare.
const EXACT: [(&str, u16); 41] = [
    ("gh[pousr]_", TOKEN),
    ("gl[pdrfsc][atbof]", TOKEN), // glpat-, gldt-, glrt-, glft-, glffct-, glsoat-, glsa_, glcbt-, glptt-
    ("gl[iao][mga]", TOKEN),      // glimt-, glagent-, gloas-
    ("x[oaw][xpf]*", TOKEN),      // xox?-, xapp-, xwfp-
    ("A[KSRIGNBC][IODPVC]A", TOKEN),
    ("[AC][IST][zPT][aX3]", TOKEN),  // AIza, GOCSPX, ATATT3
    ("[yn][ap][2m][9_]", TOKEN),     // ya29, npm_
    ("[1v_][/av][/p1][0i_]", TOKEN), // 1//0, nvapi-, do?_v1_
    ("[srp]k_[lt]", TOKEN),          // sk_live, rk_test
    ("sk-*", TOKEN),
    ("[gxs][sae][kic][_-]", TOKEN), // gsk_, xai-, whsec_
    ("eyJ*", TOKEN),
    ("[ye][pm][is][-_]", TOKEN),                // pypi-, rubygems_
    ("[cnb][k_][rap][_pa]", TOKEN),             // dckr_, lin_api_, github_pat_
    ("S[KG][.0123456789abcdefABCDEF]*", TOKEN), // SK, SG.
    ("[eE][yY]-[0123456789abcdef]", TOKEN),     // key-, AGE-SECRET-KEY-1
    ("[hr][f8]_*", TOKEN),                      // hf_, r8_
    ("s[hq][p0][ascp]", TOKEN),                 // shpat_, sq0csp-
    ("hv[sbr].", TOKEN),
    ("[:0123456789][AQ][A~]*", TOKEN), // 12345678:AA, abc1Q~
    ("--[BE][EN]", KEY_BLOCK),
    ("//**", LINK),
    ("[ys][sq][ql][lc]", PROGRAM),  // mysql, sqlcmd
    ("[dp]o[cd][km]", PROGRAM),     // docker, podman
    ("[rh][ip]a[ds]", PROGRAM),     // mariadb, sshpass
    ("[sr][m-p][bc][cl]", PROGRAM), // smbclient, redis-cli, rpcclient
    ("[mo][os][nq][gu]", PROGRAM),  // mongo, mosquitto
    ("[cl][ud][ra][lp]", PROGRAM),  // curl, ldap
    ("7z**", PROGRAM),
    ("rar*", PROGRAM),
    ("zip*", PROGRAM),
    ("<<<*", FEED),
    ("echo", PIPED),
    ("intf", PIPED), // printf
    ("-u[s=\"\\ \t\n\r\x0b\x0cé]*", PLACE),
    ("ss:*", PLACE),    // pass:
    ("ig=*", PLACE),    // sig=
    ("ks[./]*", PLACE), // hooks.slack.com, webhooks/
    ("/bot", PLACE),
    ("[?&][kcs][eoi][ydgs]", PARAMETER), // key=, code=, signature=, sid=, session=
    ("\\[u/]**", ESCAPE),
];

/// For each byte and each place in a trace, the traces that may have it there, one bit each: first those in any case.
static PLACES: [[u64; LENGTH]; 256] = places();

/// The bits of the traces that are clues to a name.
const NAME_TRACES: u64 = traces_of(NAME);

const fn places() -> [[u64; LENGTH]; 256] {
    let mut places = [[0; LENGTH]; 256];
    let mut trace = 0;
    while trace < CASELESS.len() + EXACT.len() {
        let caseless = trace < CASELESS.len();
        let pattern = if caseless { CASELESS[trace].0 } else { EXACT[trace - CASELESS.len()].0 };
        add(&mut places, pattern.as_bytes(), caseless, 1 << trace);
        trace += 1;
    }
    places
}

const fn add(places: &mut [[u64; LENGTH]; 256], pattern: &[u8], caseless: bool, bit: u64) {
    let (mut at, mut place, mut bracketed) = (0, 0, false);
    while at < pattern.len() {
        match pattern[at] {
            b'[' => bracketed = true,
            b']' => {
                bracketed = false;
                place += 1;
            }
            // Of `é`, the first of two bytes.
            0x80..=0xbf => {}
            mark => {
                let mut byte = 0;
                while byte < 256 {
                    #[allow(clippy::cast_possible_truncation)] // below 256
                    let given = byte as u8;
                    let fits = match mark {
                        b'*' => true,
                        0xc0..=0xff => given >= 0x80,
                        mark => given == mark || (caseless && given.eq_ignore_ascii_case(&mark)),
                    };
                    if fits {
                        places[byte][place] |= bit;
                    }
                    byte += 1;
                }
                if !bracketed {
                    place += 1;
                }
            }
        }
        at += 1;
    }
    assert!(place == LENGTH);
}

const fn clues_of(trace: usize) -> u16 {
    if trace < CASELESS.len() { CASELESS[trace].1 } else { EXACT[trace - CASELESS.len()].1 }
}

const fn traces_of(clue: u16) -> u64 {
    let (mut traces, mut trace) = (0, 0);
    while trace < CASELESS.len() + EXACT.len() {
        if clues_of(trace) & clue != 0 {
            traces |= 1 << trace;
        }
        trace += 1;
    }
    traces
}

/// The traces that a text is being matched with, as far as its last bytes go.
#[derive(Default)]
struct Matching([u64; LENGTH - 1]);

impl Matching {
    /// Takes one more byte, and tells which traces it completes.
    fn take(&mut self, byte: u8) -> u64 {
        let [first, second, third, last] = PLACES[usize::from(byte)];
        let complete = self.0[2] & last;
        self.0 = [first, self.0[0] & second, self.0[1] & third];
        complete
    }
}

/// The clues that a text holds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Clues {
    rules: u16,
    /// No name begins before this byte.
    names_from: usize,
}

impl Clues {
    pub fn of(text: &str) -> Self {
        let (mut seen, names_from) = seen(text.as_bytes());
        let mut clues = 0;
        while seen != 0 {
            clues |= clues_of(seen.trailing_zeros() as usize);
            seen &= seen - 1;
        }
        if clues & FOREIGN != 0 && text.contains('ſ') {
            clues |= SCHEME | STATEMENT; // an `s`, when case is not told
        }
        if has_dotted_token(text.as_bytes()) {
            clues |= TOKEN;
        }
        Self { rules: clues, names_from }
    }

    /// All there are, as if nothing were known.
    #[cfg(test)]
    pub const EVERY: Self = Self { rules: u16::MAX, names_from: 0 };

    /// Whether no rule finds anything, also in the strings of a JSON text.
    pub fn is_none(self) -> bool {
        self.rules == 0
    }

    /// Before which byte no clue to a name begins; behind the end if there is none.
    pub fn names_from(self) -> usize {
        self.names_from
    }

    /// Whether there is a clue to any of these rules.
    pub fn to(self, rules: u16) -> bool {
        self.rules & rules != 0
    }
}

/// Whether a text has this byte somewhere. Looks at many bytes at once.
pub(super) fn holds(text: &str, byte: u8) -> bool {
    text.bytes().fold(0, |found, other| found | u8::from(other == byte)) != 0
}

/// All traces in a text, and where the first begins that is a clue to a name.
fn seen(bytes: &[u8]) -> (u64, usize) {
    let mut matching = Matching::default();
    let (mut seen, mut at, mut names_from) = (0, 0, usize::MAX);
    // Traces are rare. What stands between two of them is passed in a loop that does nothing else.
    while let Some(passed) = bytes[at..].iter().position(|byte| {
        let complete = matching.take(*byte);
        seen |= complete;
        complete & NAME_TRACES != 0
    }) {
        at += passed + 1;
        names_from = names_from.min(at - LENGTH);
    }
    for behind in 1..LENGTH {
        let complete = matching.take(0);
        seen |= complete;
        if complete & NAME_TRACES != 0 {
            names_from = names_from.min(bytes.len() + behind - LENGTH);
        }
    }
    (seen, names_from)
}

/// Where at or behind `at` the next clue to a name begins.
pub(super) fn next_name(bytes: &[u8], at: usize) -> Option<usize> {
    let mut matching = Matching::default();
    let mut complete = |byte: u8| matching.take(byte) & NAME_TRACES != 0;
    let last = match bytes[at..].iter().position(|byte| complete(*byte)) {
        Some(last) => last,
        None => bytes.len() - at + (1..LENGTH).position(|_| complete(0))?,
    };
    Some(at + last + 1 - LENGTH)
}

/// Whether the text may hold the one token that is known by its dots alone, seven bytes apart.
fn has_dotted_token(bytes: &[u8]) -> bool {
    const SHORTEST: usize = 1 + 22 + 1 + 6 + 1 + 24;
    let dots = |(first, second): (&u8, &u8)| *first == b'.' && *second == b'.';
    bytes.len() >= SHORTEST && bytes.iter().zip(&bytes[7..]).fold(false, |found, pair| found | dots(pair))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::names::SECRET_NAMES;
    use super::*;

    #[test]
    fn every_name_of_a_secret_is_a_clue_in_any_case() {
        for name in SECRET_NAMES.into_iter().chain(["pass", "pin"]) {
            for spelled in [name.to_owned(), name.to_uppercase(), format!("a {name}= b"), format!("{name}s")]
            {
                assert!(Clues::of(&spelled).to(NAME), "{spelled}");
                assert!(next_name(spelled.as_bytes(), 0).is_some(), "{spelled}");
            }
        }
    }

    #[test]
    fn ordinary_words_are_no_clues() {
        for text in [
            "",
            "x",
            "cargo build --workspace && ls -l /srv/app",
            "a line of prose, and another\n",
            r#"{"a": [1]}"#,
        ] {
            assert!(Clues::of(text).is_none(), "{text}");
        }
    }

    #[test]
    fn an_escape_that_may_spell_anything_is_a_clue() {
        assert!(!Clues::of(r#"{"pa\u0073\u0073": 1}"#).is_none());
        assert!(Clues::of(r#"{"a": "b\n"}"#).is_none());
    }

    proptest! {
        #[test]
        fn a_part_of_a_text_has_no_clue_that_the_text_has_not(before in ".{0,9}", part in "[a-zA-Z_.:/\"-]{0,9}|.{0,9}", behind in ".{0,9}") {
            let (of_part, of_all) = (Clues::of(&part), Clues::of(&(before + &part + &behind)));
            prop_assert_eq!(of_part.rules & of_all.rules, of_part.rules);
        }

        #[test]
        fn the_first_clue_to_a_name_is_where_it_is_looked_for(text in "([a-z é.]|pass|key|pw|pin|toke){0,9}") {
            prop_assert_eq!(next_name(text.as_bytes(), 0), Some(Clues::of(&text).names_from()).filter(|at| *at <= text.len()));
        }
    }
}
