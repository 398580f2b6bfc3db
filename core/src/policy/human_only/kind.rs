//! What a function does with its arguments, as far as its name tells.
//!
//! Must not know arguments. A name is read word by word: `bridge.invoke_async`, `invokeLater` and `engine::invoke` all
//! say "invoke". Not obvious: a wrong guess towards [`Kind::Deferral`] costs nothing by itself, since the arguments must
//! also describe a human-only call, but a wrong [`relays`] closes a binding; its list is the shorter one.

/// Which arguments of a function matter here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Its `scope`.
    StateWrite,
    /// What is bound or registered, and to what.
    Registration,
    /// The call that it describes.
    Deferral,
    /// None of them.
    Plain,
}

/// What one word in a function's name says, one bit each.
#[derive(Clone, Copy)]
struct Verb(u8);

impl Verb {
    const NONE: Self = Self(0);
    /// It binds a function to an event, or is the counterpart of that.
    const REGISTERS: Self = Self(1);
    /// It makes, now or later, a call which its arguments describe.
    const DEFERS: Self = Self(2);
    /// It has no other use than that.
    const RELAYS: Self = Self(Self::DEFERS.0 | 4);
    /// It makes a standing order.
    const CREATES: Self = Self(Self::DEFERS.0 | 8);

    /// What a word says, in whatever case.
    fn of(word: &str) -> Self {
        let mut small = [0; LONGEST_VERB];
        let Some(small) = small.get_mut(..word.len()) else { return Self::NONE };
        small.copy_from_slice(word.as_bytes());
        small.make_ascii_lowercase();
        match &*small {
            b"register" | b"unregister" | b"bind" | b"unbind" | b"subscribe" | b"unsubscribe" => {
                Self::REGISTERS
            }
            b"schedule" => Self(Self::RELAYS.0 | Self::CREATES.0),
            b"create" => Self::CREATES,
            b"defer" | b"delegate" | b"dispatch" | b"enqueue" | b"invoke" | b"relay" | b"trigger" => {
                Self::RELAYS
            }
            b"add" | b"batch" | b"call" | b"delay" | b"emit" | b"exec" | b"execute" | b"fire"
            | b"forward" | b"publish" | b"push" | b"queue" | b"retry" | b"run" | b"send" | b"set"
            | b"spawn" | b"start" | b"submit" | b"update" => Self::DEFERS,
            _ => Self::NONE,
        }
    }

    /// What the words in the last segment of an id say together.
    fn all_of(function_id: &str) -> Self {
        let bytes = function_id.as_bytes();
        let segment = &function_id[bytes.iter().rposition(|byte| *byte == b':').map_or(0, |at| at + 1)..];
        // One word, as nearly always.
        if segment.bytes().all(|byte| byte.is_ascii_lowercase()) {
            return Self::of(segment);
        }
        words(segment).fold(Self::NONE, |all, word| Self(all.0 | Self::of(word).0))
    }

    fn is(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Bytes of the longest word that says something.
const LONGEST_VERB: usize = "unsubscribe".len();

/// Namespaces in which every deferral is a relay.
const RELAY_NAMESPACES: [&str; 5] = ["batch::", "bridge::", "cron::", "engine::", "queue::"];

impl Kind {
    /// The kind of a function, by its id alone.
    pub(super) fn of(function_id: &str) -> Self {
        if let Some(name) = function_id.strip_prefix("state::") {
            return if matches!(name, "get" | "list" | "list_groups") {
                Self::Plain
            } else {
                Self::StateWrite
            };
        }
        let said = Verb::all_of(function_id);
        if said.is(Verb::REGISTERS) {
            Self::Registration
        } else if said.is(Verb::DEFERS) {
            Self::Deferral
        } else {
            Self::Plain
        }
    }
}

/// Whether a function hands on whatever call its arguments describe, so that arguments nobody sees could be any call.
pub(super) fn relays(function_id: &str) -> bool {
    let at_home = RELAY_NAMESPACES.iter().any(|space| function_id.starts_with(space));
    let said = Verb::all_of(function_id);
    said.is(Verb::RELAYS) || (at_home && said.is(Verb::DEFERS))
}

/// Whether a function makes a standing order: `cron::create` and its like.
pub(super) fn creates(function_id: &str) -> bool {
    Verb::all_of(function_id).is(Verb::CREATES)
}

/// Splits at everything that is no letter and where a capital begins a word: `HTTPCallBack2` is `HTTP`, `Call`, `Back`.
fn words(name: &str) -> impl Iterator<Item = &str> {
    name.split(|one: char| !one.is_alphabetic()).flat_map(capitals)
}

fn capitals(run: &str) -> impl Iterator<Item = &str> {
    let mut rest = run;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (word, left) = rest.split_at(first_word(rest));
        rest = left;
        Some(word)
    })
}

/// The length in bytes of the first word of a run of letters.
fn first_word(run: &str) -> usize {
    // Nearly every run.
    if run.bytes().skip(1).all(|byte| byte.is_ascii_lowercase()) {
        return run.len();
    }
    let mut letters = run.char_indices().peekable();
    let mut before: Option<char> = None;
    while let Some((at, letter)) = letters.next() {
        let ends_capitals = letters.peek().is_some_and(|(_, next)| next.is_lowercase());
        let begins = letter.is_uppercase()
            && before.is_some_and(|before| before.is_lowercase() || (before.is_uppercase() && ends_capitals));
        if begins {
            return at;
        }
        before = Some(letter);
    }
    run.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_word_by_word_however_it_is_written() {
        let read = |name| words(name).collect::<Vec<_>>();
        assert_eq!(read("invoke_async"), ["invoke", "async"]);
        assert_eq!(read("bridge.invoke-now2"), ["bridge", "invoke", "now"]);
        assert_eq!(read("invokeLater"), ["invoke", "Later"]);
        assert_eq!(read("HTTPCallBack"), ["HTTP", "Call", "Back"]);
        assert_eq!(read("INVOKE"), ["INVOKE"]);
        assert_eq!(read("écrireÀNouveau"), ["écrire", "À", "Nouveau"]);
        assert!(read("").is_empty() && read("__").is_empty());
    }

    #[test]
    fn the_longest_verb_is_known() {
        assert!(Verb::of("unSubscribe").is(Verb::REGISTERS));
        for word in ["", "unsubscribed", "calls", "c\u{e4}ll"] {
            assert_eq!(Verb::of(word).0, 0, "{word}");
        }
    }

    #[test]
    fn the_kind_follows_from_the_last_segment() {
        for id in [
            "bridge.invoke",
            "bridge.invoke_async",
            "x::invokeLater",
            "cron::create",
            "harness::function::trigger",
        ] {
            assert_eq!(Kind::of(id), Kind::Deferral, "{id}");
        }
        for id in ["engine::register_trigger", "engine::workers::register", "bus.unsubscribe", "x::bindTo"] {
            assert_eq!(Kind::of(id), Kind::Registration, "{id}");
        }
        for id in [
            "engine::functions::info",
            "engine::triggers::list",
            "run::docs::lookup",
            "a::recall",
            "state::get",
        ] {
            assert_eq!(Kind::of(id), Kind::Plain, "{id}");
        }
        assert_eq!(Kind::of("state::rename"), Kind::StateWrite);
    }

    #[test]
    fn only_what_exists_to_hand_on_calls_relays_them() {
        for id in
            ["queue::enqueue", "cron::create", "harness::function::trigger", "bridge.invoke", "queue::push"]
        {
            assert!(relays(id), "{id}");
        }
        for id in ["mail::send", "orders::create", "shell::exec", "notes::add", "queue::list", "report::run"]
        {
            assert!(!relays(id), "{id}");
        }
    }
}
