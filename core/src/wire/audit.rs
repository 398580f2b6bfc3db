//! The entries of `approval::audit`, and what a marker keeps so that one of them can be sent after a crash.
//!
//! Nothing of a call's arguments is in an entry, not even redacted: its digest says which call it was.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::hold;
use crate::wire::events::Outcome;
use crate::wire::record::PendingKind;

/// The caller of whom the engine says nothing.
pub const UNATTESTED: &str = "unattested";

/// One entry. A hold has one that it was asked about and one that it was decided, with the same `event_id`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AuditEntry {
    /// Which of the two it is.
    pub entry: Step,
    /// Pairs the two entries of a hold; also the `event_id` of its resolved event. An entry that had to be sent twice has
    /// the same.
    pub event_id: String,
    /// The session that the call belongs to.
    pub session_id: String,
    /// The turn that waits for the call.
    pub turn_id: String,
    /// The call.
    pub function_call_id: String,
    /// The function that was to run.
    pub function_id: String,
    /// What was asked. Absent where only an older worker knew.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<PendingKind>,
    /// The digest that the record shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// How it was decided.
    #[serde(flatten)]
    pub decision: Option<AuditDecision>,
    /// When, in milliseconds since the epoch.
    pub at: i64,
    /// What bindings filter on; not part of the entry.
    #[serde(skip)]
    pub session_metadata: Option<Map<String, Value>>,
}

/// Which of a hold's two entries it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// The call waits for a decision.
    Asked,
    /// It does not wait any more.
    Decided,
}

/// How a hold was decided, and by whom.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditDecision {
    /// How it ended.
    pub outcome: Outcome,
    /// The decider's own words, as they may be shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Where it was decided.
    pub surface: Surface,
    /// Who decided: of a person's decision the connection as the engine attests it, or [`UNATTESTED`]; of an answerer's its
    /// function. Absent where nobody called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
}

/// Where a hold was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Surface {
    /// A person, through `approval::resolve`.
    Human,
    /// A worker that answers in a person's place.
    Answerer,
    /// The gate itself, because nobody may be asked.
    Policy,
    /// Nowhere: nobody decided.
    Abort,
}

impl Surface {
    /// The word that crosses the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Human => "human",
            Self::Answerer => "answerer",
            Self::Policy => "policy",
            Self::Abort => "abort",
        }
    }
}

impl From<hold::Surface> for Surface {
    fn from(surface: hold::Surface) -> Self {
        match surface {
            hold::Surface::Human => Self::Human,
            hold::Surface::Answerer => Self::Answerer,
            hold::Surface::Policy => Self::Policy,
            hold::Surface::Abort => Self::Abort,
        }
    }
}

/// What a marker keeps besides the resolved event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditNote {
    /// What was asked.
    pub kind: PendingKind,
    /// Where it was decided.
    pub surface: Surface,
    /// Who decided, if the engine attested anybody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
}
