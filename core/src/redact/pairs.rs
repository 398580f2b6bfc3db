//! Which members of a JSON container hold a secret, by their own name or by the name that stands beside them as data:
//! `{"name": "Authorization", "value": "…"}`, `["Authorization", "…"]`, `["--password", "…"]` (contract §10).
//!
//! It looks at one container at a time and never inside a member.

use serde_json::{Map, Value};

use super::keys;
use super::programs;

/// Member names that hold a name, and those that hold what it names; lower case.
const NAMING: [&str; 12] = [
    "name",
    "key",
    "header",
    "field",
    "id",
    "label",
    "selector",
    "variable",
    "property",
    "param",
    "parameter",
    "k",
];
const VALUED: [&str; 8] = ["value", "values", "val", "v", "text", "default", "default_value", "defaultvalue"];

/// Objects with more members than this are not read as a pair.
const PAIR_MEMBERS: usize = 24;

/// Longest text that is read as a name, in bytes.
const NAME_BYTES: usize = 128;

/// Whether the member `key` of `members` is a secret.
pub(super) fn hides(members: &Map<String, Value>, key: &str, member: &Value) -> bool {
    hides_as(keys::is_secret(key), members, key, member)
}

/// As [`hides`], for a key of which it is known whether it means a secret by itself.
pub(super) fn hides_as(is_secret: bool, members: &Map<String, Value>, key: &str, member: &Value) -> bool {
    if is_secret {
        return !is_quantity(key, member);
    }
    is_one_of(&VALUED, key)
        && members.len() <= PAIR_MEMBERS
        && members.iter().any(|(naming, name)| is_one_of(&NAMING, naming) && names_secret(name, member))
}

/// Whether the item at `index` of `items` is a secret that the item before it names, or
/// an argument that the program named before it takes for one.
pub(super) fn hides_item(items: &[Value], index: usize) -> bool {
    if programs::takes_item(items, index) {
        return true;
    }
    let Some(name) =
        index.checked_sub(1).and_then(|before| items[before].as_str()).filter(|name| is_name(name))
    else {
        return false;
    };
    let value = &items[index];
    if items.len() == 2 || keys::is_credential_header(name) {
        return names_secret(&items[index - 1], value);
    }
    let switch = value.as_str().is_some_and(|value| value.starts_with("--"));
    if name.starts_with('-') && !switch {
        return !keys::switches_off(name) && names_secret(&items[index - 1], value);
    }
    false
}

fn names_secret(name: &Value, value: &Value) -> bool {
    let name = name.as_str().filter(|name| is_name(name));
    name.is_some_and(|name| keys::is_secret(name) && !is_quantity(name, value))
}

/// A name is short and has no space in it, else it is a sentence or itself a `Header: value`.
fn is_name(text: &str) -> bool {
    text.len() <= NAME_BYTES && !text.contains([' ', '=', '\n'])
}

fn is_quantity(key: &str, value: &Value) -> bool {
    let number = match value {
        Value::Number(_) => true,
        Value::String(text) => {
            !text.is_empty() && text.len() <= 12 && text.bytes().all(|byte| byte.is_ascii_digit())
        }
        _ => false,
    };
    number && keys::counts(key)
}

fn is_one_of(names: &[&str], key: &str) -> bool {
    names.iter().any(|name| key.eq_ignore_ascii_case(name))
}
