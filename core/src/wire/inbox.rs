//! Reading the inbox: `approval::list-pending` and `approval::get-pending` (contract §6).

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::wire::record::PendingApprovalRecord;

/// Asks for a page of what waits.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
pub struct ListPendingRequest {
    /// Only this session's.
    #[serde(default)]
    pub session_id: Option<String>,
    /// Only those whose session metadata has every key given here with an equal value.
    #[serde(default)]
    pub metadata: Option<Map<String, Value>>,
    /// How many at most: 50 if left out, and never fewer than 1 or more than 500.
    #[serde(default)]
    pub limit: Option<usize>,
    /// Where to go on: the `next_cursor` of the page before.
    #[serde(default)]
    pub cursor: Option<String>,
}

/// A page of what waits.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ListPendingResponse {
    /// The records, the longest waiting first.
    #[serde(serialize_with = "texts")]
    #[schemars(with = "Vec<PendingApprovalRecord>")]
    pub pending: Vec<Arc<RawValue>>,
    /// Where the next page starts; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// Records as the JSON texts that they are kept as.
fn texts<S: Serializer>(records: &[Arc<RawValue>], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(records.iter().map(|record| &**record))
}

/// Asks for one record.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct GetPendingRequest {
    /// The session that the call belongs to.
    pub session_id: String,
    /// The call that waits.
    pub function_call_id: String,
}

/// One record that waits. The answer is `null` when nothing of that name does.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct GetPendingResponse {
    /// The record.
    pub pending: PendingApprovalRecord,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;
    use crate::wire::error::decode_value;

    #[test]
    fn an_empty_request_asks_for_everything() {
        assert_eq!(decode_value::<ListPendingRequest>(&json!({})).unwrap(), ListPendingRequest::default());
    }

    #[test]
    fn a_last_page_has_no_cursor() {
        let page = ListPendingResponse { pending: Vec::new(), next_cursor: None };
        assert_eq!(serde_json::to_value(page).unwrap(), json!({"pending": []}));
    }

    #[test]
    fn nothing_pending_is_null() {
        assert!(serde_json::to_value(None::<GetPendingResponse>).unwrap().is_null());
    }
}
