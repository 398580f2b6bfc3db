//! The life of one hold, as values: its key, what makes two holds the same, what an arrival means, and pages.
//!
//! Pure. It does not know how rows are stored, who is told, or what a record looks like on the wire.
//! `keep::inbox` performs what is decided here.

mod arrival;
mod decider;
mod digest;
mod filter;
mod index;
mod key;
mod page;

pub use arrival::{Arrival, Standing, arrival};
pub use decider::{Decider, Surface};
pub use digest::{call_digest, hold_digest};
pub use filter::contains_all;
pub use index::{HoldIndex, Indexed};
pub use key::{BadId, HoldKey, MAX_ID_BYTES, check_id};
pub use page::{BadCursor, DEFAULT_LIMIT, MAX_LIMIT, MAX_PAGE_BYTES, Page, Position, page, page_limit};

/// How a hold ended, as listeners are told (contract §7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// A person allowed it.
    Allow,
    /// A person denied it.
    Deny,
    /// Its turn or session ended, or another hold took its place.
    Aborted,
}

/// The end of a hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// How it ended.
    pub outcome: Outcome,
    /// The operator's own reason, on deny only.
    pub reason: Option<String>,
    /// Who ended it.
    pub by: Decider,
}

impl Ending {
    /// An end that nobody decided.
    pub const ABORTED: Self = Self { outcome: Outcome::Aborted, reason: None, by: Decider::ABORT };

    /// An end without a reason of the operator's own.
    pub const fn of(outcome: Outcome, by: Decider) -> Self {
        Self { outcome, reason: None, by }
    }
}
