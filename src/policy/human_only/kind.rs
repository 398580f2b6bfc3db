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

/// Words of functions that bind a function to an event, and their counterparts.
const REGISTERS: [&str; 6] = ["register", "unregister", "bind", "unbind", "subscribe", "unsubscribe"];

/// Words of functions that make, now or later, a call which their arguments describe.
const DEFERS: [&str; 29] = [
    "add", "batch", "call", "create", "defer", "delay", "delegate", "dispatch", "emit", "enqueue", "exec",
    "execute", "fire", "forward", "invoke", "publish", "push", "queue", "relay", "retry", "run", "schedule",
    "send", "set", "spawn", "start", "submit", "trigger", "update",
];

/// Words of functions that have no other use than to make a call which their arguments describe.
const RELAYS: [&str; 8] =
    ["defer", "delegate", "dispatch", "enqueue", "invoke", "relay", "schedule", "trigger"];

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
        let mut kind = Self::Plain;
        for word in words(last_segment(function_id)) {
            if is_one_of(word, &REGISTERS) {
                return Self::Registration;
            }
            if is_one_of(word, &DEFERS) {
                kind = Self::Deferral;
            }
        }
        kind
    }
}

/// Whether a function hands on whatever call its arguments describe, so that arguments nobody sees could be any call.
pub(super) fn relays(function_id: &str) -> bool {
    let at_home = RELAY_NAMESPACES.iter().any(|space| function_id.starts_with(space));
    says(function_id, &RELAYS) || (at_home && says(function_id, &DEFERS))
}

/// Whether a function makes a standing order: `cron::create` and its like.
pub(super) fn creates(function_id: &str) -> bool {
    says(function_id, &["create", "schedule"])
}

/// Whether one of these words stands in the last segment of an id.
fn says(function_id: &str, known: &[&str]) -> bool {
    words(last_segment(function_id)).any(|word| is_one_of(word, known))
}

fn last_segment(function_id: &str) -> &str {
    function_id.rsplit(':').next().unwrap_or(function_id)
}

fn is_one_of(word: &str, known: &[&str]) -> bool {
    known.iter().any(|one| word.eq_ignore_ascii_case(one))
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
