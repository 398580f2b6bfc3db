//! Pages of the inbox: order, cursor, limits (contract §6).
//!
//! A cursor is the position of the last record of a page, not an offset, so that a record that stays live while
//! others come and go is seen exactly once.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use thiserror::Error;

/// The page size when none is asked for.
pub const DEFAULT_LIMIT: usize = 50;
/// The largest page.
pub const MAX_LIMIT: usize = 500;
/// The most that the records of one page may weigh, in bytes of JSON: an answer has to fit into one frame of 16 MiB.
pub const MAX_PAGE_BYTES: usize = 8 * 1024 * 1024;
/// The longest cursor that is looked at, in bytes: a timestamp and two ids of the longest kind, encoded.
const MAX_CURSOR_BYTES: usize = 16 * 1024;

/// Where a record stands in the inbox: by time, then session, then call.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// When the hold was made, milliseconds since the epoch.
    pub pending_at: i64,
    /// The session.
    pub session_id: String,
    /// The call.
    pub function_call_id: String,
}

/// A cursor that this worker did not make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("is not a cursor of this inbox; start again without one")]
pub struct BadCursor;

impl Position {
    /// The opaque cursor that stands for this position.
    pub fn cursor(&self) -> String {
        let text = serde_json::json!([self.pending_at, self.session_id, self.function_call_id]).to_string();
        URL_SAFE_NO_PAD.encode(text)
    }

    /// The position of a cursor.
    pub fn from_cursor(cursor: &str) -> Result<Self, BadCursor> {
        if cursor.len() > MAX_CURSOR_BYTES {
            return Err(BadCursor);
        }
        let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| BadCursor)?;
        let (pending_at, session_id, function_call_id) =
            serde_json::from_slice::<(i64, String, String)>(&bytes).map_err(|_| BadCursor)?;
        Ok(Self { pending_at, session_id, function_call_id })
    }
}

/// One page, and where the next one starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// The records, in order.
    pub items: Vec<T>,
    /// Present only if more remain.
    pub next: Option<Position>,
}

/// The page size for a requested limit.
pub fn page_limit(requested: Option<usize>) -> usize {
    requested.map_or(DEFAULT_LIMIT, |limit| limit.clamp(1, MAX_LIMIT))
}

/// The first `limit` items behind `after`, in order, or fewer if together they would weigh more than
/// [`MAX_PAGE_BYTES`]; always at least one. Two rows at the same position (a row whose own ids differ from its key
/// can forge that) keep both; a cursor between them would lose the second, so a page runs on to the end of its last
/// position.
pub fn page<T>(
    mut items: Vec<(Position, T)>,
    after: Option<&Position>,
    limit: usize,
    bytes_of: impl Fn(&T) -> usize,
) -> Page<T> {
    if let Some(after) = after {
        items.retain(|(position, _)| position > after);
    }
    items.sort_by(|(left, _), (right, _)| left.cmp(right));
    let mut bytes = 0;
    let fits = |(_, item): &&(Position, T)| {
        bytes += bytes_of(item);
        bytes <= MAX_PAGE_BYTES
    };
    let mut end = items.iter().take(limit).take_while(fits).count().max(1).min(items.len());
    while end > 0 && end < items.len() && items[end].0 == items[end - 1].0 {
        end += 1;
    }
    let next = (end > 0 && end < items.len()).then(|| items[end - 1].0.clone());
    items.truncate(end);
    Page { items: items.into_iter().map(|(_, item)| item).collect(), next }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn at(pending_at: i64, call: u16) -> Position {
        Position { pending_at, session_id: format!("s_{}", call % 3), function_call_id: format!("c_{call}") }
    }

    #[test]
    fn a_cursor_comes_back_as_the_position_it_stands_for() {
        let position = at(1_700_000_000_000, 7);
        assert_eq!(Position::from_cursor(&position.cursor()), Ok(position));
    }

    #[test]
    fn cursors_that_are_not_ours_are_refused() {
        for cursor in [
            "",
            "not-a-cursor",
            "WzEsImEiLCJiIiwiYyJd",
            "WyIxIiwiYSIsImIiXQ",
            "WzEuNSwiYSIsImIiXQ",
            "WzEwMCwiYSIsImIiXQ==",
        ] {
            assert_eq!(Position::from_cursor(cursor), Err(BadCursor), "{cursor}");
        }
        assert_eq!(Position::from_cursor(&"A".repeat(100_000)), Err(BadCursor));
    }

    #[test]
    fn limits_are_clamped() {
        for (asked, given) in
            [(None, 50), (Some(0), 1), (Some(1), 1), (Some(500), 500), (Some(usize::MAX), 500)]
        {
            assert_eq!(page_limit(asked), given);
        }
    }

    #[test]
    fn a_page_of_large_records_is_cut_by_weight_and_goes_on_with_the_next() {
        let all: Vec<(Position, u16)> = (0..5).map(|call| (at(i64::from(call), call), call)).collect();
        let first = page(all.clone(), None, 500, |_| MAX_PAGE_BYTES / 2);
        assert_eq!(first.items, [0, 1]);
        let second = page(all, first.next.as_ref(), 500, |_| 2 * MAX_PAGE_BYTES);
        assert_eq!(second.items, [2]);
    }

    proptest! {
        #[test]
        fn records_that_stay_live_across_pages_are_seen_exactly_once(
            calls in proptest::collection::btree_map(0u16..200, 0i64..5, 0..80),
            churn in proptest::collection::vec((any::<bool>(), 200u16..400, 0i64..5), 0..40),
            limit in 1usize..9,
        ) {
            // Given an inbox in which other records come and go between any two pages
            let stays: Vec<(Position, u16)> = calls.iter().map(|(call, time)| (at(*time, *call), *call)).collect();
            let mut others: Vec<(Position, u16)> = Vec::new();
            let mut churn = churn.into_iter();
            let (mut seen, mut after) = (Vec::new(), None);
            // When the pages are followed to the end
            for _ in 0..1_000 {
                match churn.next() {
                    Some((true, call, time)) => others.push((at(time, call), call)),
                    Some((false, ..)) => { others.pop(); }
                    None => {}
                }
                let all = stays.iter().chain(&others).cloned().collect();
                let page = page(all, after.as_ref(), limit, |_| 1);
                seen.extend(page.items.into_iter().filter(|call| *call < 200));
                after = page.next;
                if after.is_none() { break; }
            }
            // Then each one that stayed was seen, and seen once
            prop_assert_eq!(seen.len(), stays.len());
            prop_assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), calls.keys().copied().collect());
        }

        #[test]
        fn any_text_as_a_cursor_is_answered_without_a_panic(text in ".{0,200}") {
            let _ = Position::from_cursor(&text);
        }
    }
}
