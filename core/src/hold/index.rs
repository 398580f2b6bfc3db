//! Live holds by everything they are asked for by: row, place in the inbox, session, turn.
//!
//! Pure. Each hold's record is kept as the JSON text that answers carry, so that a hold costs little more than its
//! text, and a page is read without looking at the records that are not on it.

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::filter::contains_all;
use super::page::{MAX_PAGE_BYTES, Page, Position};

/// What is kept of one live hold.
#[derive(Debug, Clone)]
pub struct Indexed {
    /// Where it stands in the inbox.
    pub position: Position,
    /// The turn that waits for it.
    pub turn_id: Box<str>,
    /// Which hold it is.
    pub identity: Box<str>,
    /// The session's metadata, shared between holds that carry the same.
    pub metadata: Option<Arc<Map<String, Value>>>,
    /// The record as JSON.
    pub json: Arc<RawValue>,
}

/// A position, and the row that stands there; rows break ties.
type Place = (Position, Arc<str>);

/// The index. Keyed by row, `<session_id>/<function_call_id>` as it is stored.
#[derive(Debug, Default)]
pub struct HoldIndex {
    by_row: HashMap<Arc<str>, Indexed>,
    in_order: BTreeSet<Place>,
    by_session: HashMap<Box<str>, BTreeSet<Place>>,
    by_turn: HashMap<Box<str>, BTreeSet<Arc<str>>>,
}

impl HoldIndex {
    /// Puts a hold under a row, in the place of what stood there.
    pub fn put(&mut self, row: &str, mut hold: Indexed) {
        self.remove(row);
        let row: Arc<str> = row.into();
        let place = (hold.position.clone(), Arc::clone(&row));
        let of_session = self.by_session.entry(hold.position.session_id.as_str().into()).or_default();
        if let Some((_, neighbour)) = of_session.first()
            && let Some(neighbour) = self.by_row.get(neighbour)
            && neighbour.metadata == hold.metadata
        {
            hold.metadata.clone_from(&neighbour.metadata);
        }
        of_session.insert(place.clone());
        self.by_turn.entry(hold.turn_id.clone()).or_default().insert(Arc::clone(&row));
        self.in_order.insert(place);
        self.by_row.insert(row, hold);
    }

    /// Removes what stands under a row.
    pub fn remove(&mut self, row: &str) {
        let Some((row, hold)) = self.by_row.remove_entry(row) else { return };
        if let Some(rows) = self.by_turn.get_mut(&hold.turn_id) {
            rows.remove(&row);
            if rows.is_empty() {
                self.by_turn.remove(&hold.turn_id);
            }
        }
        let session = hold.position.session_id.clone();
        let place = (hold.position, row);
        if let Some(places) = self.by_session.get_mut(session.as_str()) {
            places.remove(&place);
            if places.is_empty() {
                self.by_session.remove(session.as_str());
            }
        }
        self.in_order.remove(&place);
    }

    /// What stands under a row.
    pub fn get(&self, row: &str) -> Option<&Indexed> {
        self.by_row.get(row)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_row.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_row.is_empty()
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Indexed)> {
        self.in_order.iter().filter_map(|(_, row)| Some((&**row, self.by_row.get(row)?)))
    }

    /// The rows of a turn; in every session if none is named.
    pub fn of_turn(&self, session_id: Option<&str>, turn_id: &str) -> Vec<Arc<str>> {
        let rows = self.by_turn.get(turn_id).into_iter().flatten();
        rows.filter(|row| {
            session_id.is_none_or(|session| {
                self.by_row.get(*row).is_some_and(|hold| hold.position.session_id == session)
            })
        })
        .cloned()
        .collect()
    }

    /// The rows of a session.
    pub fn of_session(&self, session_id: &str) -> Vec<Arc<str>> {
        let places = self.by_session.get(session_id).into_iter().flatten();
        places.map(|(_, row)| Arc::clone(row)).collect()
    }

    /// One page behind `after`, as JSON texts (contract §6). `shown` leaves out holds that are decided already.
    pub fn page(
        &self,
        session_id: Option<&str>,
        metadata: Option<&Map<String, Value>>,
        after: Option<&Position>,
        limit: usize,
        shown: impl Fn(&Indexed) -> bool,
    ) -> Page<Arc<RawValue>> {
        let none = BTreeSet::new();
        let places = match session_id {
            None => &self.in_order,
            Some(session) => self.by_session.get(session).unwrap_or(&none),
        };
        let from = after.map_or(Bound::Unbounded, |after| Bound::Included((after.clone(), Arc::from(""))));
        let matching = places
            .range((from, Bound::Unbounded))
            .skip_while(|(position, _)| after == Some(position))
            .filter_map(|(_, row)| self.by_row.get(row))
            .filter(|hold| metadata.is_none_or(|wanted| contains_all(wanted, hold.metadata.as_deref())))
            .filter(|hold| shown(hold));
        let (mut items, mut bytes, mut last): (Vec<Arc<RawValue>>, usize, Option<&Position>) =
            (Vec::new(), 0, None);
        for hold in matching {
            // A page runs on to the end of its last position: a cursor between two equal ones would lose the second.
            let full = items.len() >= limit || bytes + hold.json.get().len() > MAX_PAGE_BYTES;
            if full && !items.is_empty() && last != Some(&hold.position) {
                return Page { items, next: last.cloned() };
            }
            bytes += hold.json.get().len();
            items.push(Arc::clone(&hold.json));
            last = Some(&hold.position);
        }
        Page { items, next: None }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::hold::page;

    fn hold(session: u8, call: u8, turn: u8, pending_at: i64) -> Indexed {
        Indexed {
            position: Position {
                pending_at,
                session_id: format!("s_{session}"),
                function_call_id: format!("c_{call}"),
            },
            turn_id: format!("t_{turn}").into(),
            identity: format!("h_{session}_{call}_{pending_at}").into(),
            metadata: session
                .is_multiple_of(2)
                .then(|| Arc::new(json!({"tenant": session}).as_object().cloned().unwrap_or_default())),
            json: RawValue::from_string(format!("[{session},{call},{pending_at}]")).unwrap().into(),
        }
    }

    #[derive(Debug, Clone)]
    enum Step {
        Put(u8, u8, u8, i64),
        Remove(u8, u8),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            3 => (0u8..4, 0u8..8, 0u8..3, 0i64..5).prop_map(|(s, c, t, at)| Step::Put(s, c, t, at)),
            1 => (0u8..4, 0u8..8).prop_map(|(s, c)| Step::Remove(s, c)),
        ];
        proptest::collection::vec(step, 0..80)
    }

    proptest! {
        #[test]
        fn the_index_answers_as_a_plain_list_would(
            steps in steps(), limit in 1usize..6, session in proptest::option::of(0u8..5), tenant in proptest::option::of(0u8..4),
        ) {
            // Given an index and a plain map that saw the same changes
            let (mut index, mut plain) = (HoldIndex::default(), BTreeMap::new());
            for step in steps {
                match step {
                    Step::Put(s, c, t, at) => {
                        index.put(&format!("s_{s}/c_{c}"), hold(s, c, t, at));
                        plain.insert(format!("s_{s}/c_{c}"), hold(s, c, t, at));
                    }
                    Step::Remove(s, c) => {
                        index.remove(&format!("s_{s}/c_{c}"));
                        plain.remove(&format!("s_{s}/c_{c}"));
                    }
                }
            }
            // Then they hold the same, and turns and sessions find theirs
            prop_assert_eq!(index.len(), plain.len());
            prop_assert_eq!(index.iter().count(), plain.len());
            for turn in 0..3u8 {
                let wanted = format!("t_{turn}");
                let mut expected: Vec<&String> =
                    plain.iter().filter(|(_, hold)| *hold.turn_id == *wanted).map(|(row, _)| row).collect();
                expected.sort();
                let mut found = index.of_turn(None, &wanted);
                found.sort();
                prop_assert_eq!(found.iter().map(|row| &**row).collect::<Vec<_>>(), expected);
            }
            // And pages are those of the plain list
            let session = session.map(|session| format!("s_{session}"));
            let wanted = tenant.and_then(|tenant| json!({"tenant": tenant}).as_object().cloned());
            let matching: Vec<(Position, String)> = plain
                .values()
                .filter(|hold| session.as_ref().is_none_or(|session| *session == hold.position.session_id))
                .filter(|hold| wanted.as_ref().is_none_or(|wanted| contains_all(wanted, hold.metadata.as_deref())))
                .map(|hold| (hold.position.clone(), hold.json.get().to_owned()))
                .collect();
            let mut after = None;
            loop {
                let expected = page(matching.clone(), after.as_ref(), limit, String::len);
                let found = index.page(session.as_deref(), wanted.as_ref(), after.as_ref(), limit, |_| true);
                let texts: Vec<&str> = found.items.iter().map(|json| json.get()).collect();
                prop_assert_eq!(texts, expected.items);
                prop_assert_eq!(&found.next, &expected.next);
                after = found.next;
                if after.is_none() { break; }
            }
        }
    }
}
