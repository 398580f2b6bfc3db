//! The pending record as it is stored and told, and what else can lie in its row (contract §0, §2).
//!
//! A row of the scope `approval_pending` is a record, a `null` that a decision left behind, a resolved marker, or
//! something that is not ours to understand. The reader takes every vocabulary that ever was stored; the writer
//! knows one. A record's own ids are taken as they stand, also where they differ from the row's key: the key belongs
//! to whoever read the row.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};

use crate::wire::audit::AuditNote;
use crate::wire::error::{InvalidPayload, decode_value, optional_object, word};
use crate::wire::evaluation::HeldBecause;
use crate::wire::events::PendingResolvedEvent;

/// A call that waits for a person. Carries all of its ids and nothing that must not be shown, so that it can be passed
/// on as a notification.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PendingApprovalRecord {
    /// The session that the call belongs to.
    pub session_id: String,
    /// The turn that waits for the call.
    pub turn_id: String,
    /// The id of the waiting call.
    pub function_call_id: String,
    /// The function that was to run.
    pub function_id: String,
    /// What the person is asked.
    #[serde(deserialize_with = "word")]
    pub kind: PendingKind,
    /// The call's arguments, shortened, with everything that looks like a secret taken out.
    #[serde(default)]
    pub arguments_excerpt: Value,
    /// What the model said before the call. Kept when a stored record has it; the gate is not told it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assistant_excerpt: Option<String>,
    /// The title of the session at the time of the hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_title: Option<String>,
    /// The description of the session at the time of the hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_description: Option<String>,
    /// The session's metadata at the time of the hold. Bindings and lists filter on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_metadata: Option<Map<String, Value>>,
    /// When the call was held, in milliseconds since the epoch. A later hold of the same call has a larger one.
    pub pending_at: i64,
    /// How many levels of sub-agents lie above the turn; 0 at the top.
    #[serde(default)]
    pub depth: i64,
    /// The access that is asked for, on a record of that kind.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "optional_object")]
    pub access_request: Option<AccessRequest>,
    /// The digest of the call that is held, salted for this hold: `sha256:<hex>`. Absent on a record that an older worker
    /// wrote. An addition to the published record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub digest: Option<String>,
    /// Private to the store, never shown: which hold this is. Absent on a record that an older worker wrote.
    #[serde(default, skip_serializing)]
    #[schemars(skip)]
    pub hold_id: Option<String>,
    /// Private to the store, never shown: the salt of `digest`. With it, guesses of short arguments could be tried.
    #[serde(default, skip_serializing)]
    #[schemars(skip)]
    pub salt: Option<String>,
    /// Private to the store and to `approval::evaluate`: why it was held. Absent on a record that an older worker wrote, and
    /// on requests for access; what is not understood counts as absent.
    #[serde(default, skip_serializing, deserialize_with = "understood_or_none")]
    #[schemars(skip)]
    pub held_because: Option<HeldBecause>,
    /// The digest of a call that has just arrived, without a salt. In memory only.
    #[serde(skip)]
    #[schemars(skip)]
    pub call_digest: Option<String>,
}

impl PendingApprovalRecord {
    /// As it is stored, the private fields included.
    pub fn stored(&self) -> Value {
        // A record always has a JSON form: its keys are text and it holds no other numbers than JSON's.
        let mut row = serde_json::to_value(self).unwrap_or_default();
        if let Some(fields) = row.as_object_mut() {
            for (name, private) in [("hold_id", &self.hold_id), ("salt", &self.salt)] {
                if let Some(private) = private {
                    fields.insert(name.to_owned(), private.as_str().into());
                }
            }
            if let Some(because) = &self.held_because {
                fields.insert("held_because".to_owned(), json!(because));
            }
        }
        row
    }
}

/// What a person is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PendingKind {
    /// May this call run?
    Function,
    /// The call ran into the filesystem jail. May it, or the session, reach the root that it needs?
    FilesystemAccess,
}

impl PendingKind {
    /// The word that crosses the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Function => "function",
            Self::FilesystemAccess => "filesystem_access",
        }
    }
}

/// What a call that ran into the filesystem jail would need.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AccessRequest {
    /// The directory that a grant would open, absolute.
    pub requested_root: String,
    /// The path as the call gave it, possibly relative.
    pub attempted_path: String,
    /// The jail's refusal code: `S215`, `S220`, `C215` or `C218`.
    pub error_code: String,
}

/// What lies in a row of the scope `approval_pending`.
#[derive(Debug, Clone, PartialEq)]
pub enum StoredRow {
    /// A hold that waits.
    Live(Box<PendingApprovalRecord>),
    /// Nothing, or what a record left that was taken back.
    Null,
    /// A decision took the record and has not sent its event yet.
    Resolved(Box<ResolvedMarker>),
    /// Nothing that we understand. Carries the field and what is wrong with it, no value; to be logged once.
    Unreadable(String),
}

impl StoredRow {
    /// Reads a row in any vocabulary.
    pub fn read(value: &Value) -> Self {
        let Value::Object(row) = value else {
            return if value.is_null() {
                Self::Null
            } else {
                Self::Unreadable("payload: expected an object".into())
            };
        };
        let read = if row.contains_key(ResolvedMarker::MARK) {
            ResolvedMarker::read(value).map(|marker| Self::Resolved(Box::new(marker)))
        } else {
            let read = if speaks_contract(row) {
                decode_value(value)
            } else {
                decode_value(&Value::Object(in_contract_words(row)))
            };
            read.map(|record| Self::Live(Box::new(record)))
        };
        read.unwrap_or_else(|invalid| Self::Unreadable(format!("{}: {}", invalid.field, invalid.what)))
    }

    /// Which hold a row has that is written as this worker writes them; `None` of any other, which has to be read. A look,
    /// for events: they only tell that something may have changed.
    pub fn hold_of(value: &Value) -> Option<&str> {
        let row = value.as_object().filter(|row| !row.contains_key(ResolvedMarker::MARK))?;
        let texts = ["session_id", "turn_id", "function_call_id", "function_id", "kind"];
        let is_whole = texts.iter().all(|name| row.get(*name).is_some_and(Value::is_string));
        row.get("hold_id")?.as_str().filter(|_| is_whole && speaks_contract(row))
    }

    /// The record of a hold that waits.
    pub fn live(self) -> Option<PendingApprovalRecord> {
        match self {
            Self::Live(record) => Some(*record),
            Self::Null | Self::Resolved(_) | Self::Unreadable(_) => None,
        }
    }
}

/// Whether a stored record has none of the older words of contract §0. Nearly all have none, and a store may hold very
/// many, so they are read as they are.
fn speaks_contract(row: &Map<String, Value>) -> bool {
    let is_older = |kind: &Value| kind.is_null() || kind == "folder_access";
    row.get("kind").is_some_and(|kind| !is_older(kind)) && !row.contains_key("grant_request")
}

/// A stored record with the older words of contract §0 replaced. What has no older meaning is left for the strict
/// reader to judge.
fn in_contract_words(row: &Map<String, Value>) -> Map<String, Value> {
    let mut row = row.clone();
    match row.get("kind") {
        None | Some(Value::Null) => drop(row.insert("kind".into(), json!("function"))),
        Some(kind) if kind == "folder_access" => drop(row.insert("kind".into(), json!("filesystem_access"))),
        Some(_) => {}
    }
    if row.get("access_request").is_none_or(Value::is_null)
        && let Some(Value::Object(mut older)) = row.remove("grant_request")
    {
        for (word, older_word) in [("requested_root", "dir"), ("attempted_path", "offending_path")] {
            if let Some(value) = older.remove(older_word) {
                older.entry(word).or_insert(value);
            }
        }
        row.insert("access_request".into(), Value::Object(older));
    }
    row
}

/// Stands in a row between the moment a decision took the record and the moment its resolved event is out, so that a
/// crash in between cannot swallow the event. It lacks everything that makes a record at its top level: a reader that
/// does not know it skips it as unreadable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResolvedMarker {
    /// The marker's version; see [`ResolvedMarker::MARK`].
    approval_gate_outbox: u64,
    /// The event's id; the same when it has to be sent twice.
    pub event_id: String,
    /// The key of the row that it stands in: a list of rows shows no keys.
    pub row: String,
    /// Which hold ended: its own id, or for a record of an older worker a digest of its row.
    pub hold_id: String,
    /// The event to send.
    pub event: PendingResolvedEvent,
    /// What the audit says besides. Absent in a marker of an older worker; what is not understood counts as absent, since the
    /// event must go out.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "understood_or_none")]
    pub audit: Option<AuditNote>,
}

impl ResolvedMarker {
    /// The field by which a marker is known.
    pub const MARK: &'static str = "approval_gate_outbox";
    const VERSION: u64 = 1;

    /// A marker for `event`.
    pub fn new(
        row: &str,
        event_id: &str,
        hold_id: &str,
        event: PendingResolvedEvent,
        audit: Option<AuditNote>,
    ) -> Self {
        Self {
            audit,
            approval_gate_outbox: Self::VERSION,
            event_id: event_id.to_owned(),
            row: row.to_owned(),
            hold_id: hold_id.to_owned(),
            event,
        }
    }

    /// As it is stored.
    pub fn stored(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    fn read(value: &Value) -> Result<Self, InvalidPayload> {
        let marker: Self = decode_value(value)?;
        if marker.approval_gate_outbox == Self::VERSION {
            Ok(marker)
        } else {
            Err(InvalidPayload::new(Self::MARK, "unknown version"))
        }
    }
}

/// For `deserialize_with`: a field that must not make its row unreadable.
fn understood_or_none<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    Ok(serde_json::from_value(Value::deserialize(deserializer)?).ok())
}

#[cfg(test)]
mod tests;
