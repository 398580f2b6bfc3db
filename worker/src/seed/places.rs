//! Where in the file each part of it stands, for messages about what was understood only later.
//!
//! A second reading of a text that is known to parse; where it finds nothing it says nothing.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use super::{line_and_column, without_mark, yaml};
use crate::policy::Problem;

/// Line and column, counted from 1.
pub type Place = (u64, u64);

/// Something wrong in a file, in one line, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// Where, if that is known.
    pub place: Option<Place>,
    /// What is wrong and what was meant. Text from the file in it is clipped, and not yet made visible.
    pub what: String,
}

/// The places of all keys and items of a file.
#[derive(Debug)]
pub struct Places {
    root: Node,
}

#[derive(Debug)]
enum Node {
    Leaf,
    List(Vec<Item>),
    /// Keys as written.
    Map(Vec<(String, Item)>),
}

#[derive(Debug)]
struct Item {
    place: Place,
    node: Node,
}

impl Places {
    /// Reads a file's text once more.
    pub fn of(text: &str) -> Self {
        Self { root: yaml(without_mark(text)).unwrap_or(Node::Leaf) }
    }

    /// The place of what these keys and positions lead to, or of the last of them that is there; a key's place is where
    /// the key stands.
    pub fn find<'a>(&self, path: impl IntoIterator<Item = &'a str>) -> Option<Place> {
        let (mut node, mut place) = (&self.root, None);
        for step in path {
            let item = match node {
                Node::Leaf => None,
                Node::List(items) => step.parse().ok().and_then(|index: usize| items.get(index)),
                Node::Map(entries) => entries.iter().find(|(key, _)| key == step).map(|(_, item)| item),
            };
            let Some(item) = item else { break };
            (node, place) = (&item.node, Some(item.place));
        }
        place
    }

    /// The place of a rule.
    pub fn of_rule(&self, index: usize) -> Option<Place> {
        self.find(["rules", &index.to_string()])
    }

    /// The place of what is wrong with a configuration value.
    pub fn of_problem(&self, problem: &Problem) -> Option<Place> {
        let path = problem.path.iter().map(String::as_str);
        match problem.index {
            Some(index) => self.find(["rules", &index.to_string()].into_iter().chain(path)),
            None => self.find(path),
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Nodes)
    }
}

struct Nodes;

impl<'de> Visitor<'de> for Nodes {
    type Value = Node;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("anything")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element::<Spanned<Node>>()? {
            list.push(Item { place: line_and_column(item.referenced), node: item.value });
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        let mut map = Vec::new();
        while let Some(key) = entries.next_key::<Spanned<String>>()? {
            let node = entries.next_value::<Node>()?;
            map.push((key.value, Item { place: line_and_column(key.referenced), node }));
        }
        Ok(Node::Map(map))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<Node, D::Error> {
        Node::deserialize(inner)
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<Node, D::Error> {
        Node::deserialize(inner)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_i128<E>(self, _: i128) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_u128<E>(self, _: u128) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_str<E>(self, _: &str) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_bytes<E>(self, _: &[u8]) -> Result<Node, E> {
        Ok(Node::Leaf)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\u{feff}# rules\ndefault_mode: auto\nrules:\n  - '!shell::*'\n  - function: a\n    args:\n      command: {matches: '('}\n    action: deny\ncases: [{function: x}, {function: y}]\n";

    #[test]
    fn keys_and_items_are_found_where_they_stand() {
        let places = Places::of(FILE);
        for (path, place) in [
            (&["default_mode"][..], (2, 1)),
            (&["rules", "0"], (4, 5)),
            (&["rules", "1"], (5, 5)),
            (&["rules", "1", "action"], (8, 5)),
            (&["rules", "1", "args", "command", "matches"], (7, 17)),
            (&["cases", "1"], (9, 24)),
            (&["cases", "1", "function"], (9, 25)),
        ] {
            assert_eq!(places.find(path.iter().copied()), Some(place), "{path:?}");
        }
    }

    #[test]
    fn what_is_not_there_has_the_place_of_what_is() {
        let places = Places::of(FILE);
        assert_eq!(places.find(["rules", "1", "modes"]), Some((5, 5)));
        assert_eq!(places.find(["rules", "9"]), Some((3, 1)));
        assert_eq!(places.find(["nothing"]), None);
        assert_eq!(Places::of("[").find(["rules"]), None);
    }

    #[test]
    fn json_is_read_as_well() {
        let places = Places::of("{\n \"rules\": [\"a\",\n  \"b\"]}");
        assert_eq!(places.of_rule(1), Some((3, 3)));
    }
}
