//! `approval::get-pending`: one record, or null (contract §6).

use std::sync::Arc;
use std::time::Duration;

use super::Context;
use crate::clock::Deadline;
use crate::hold::HoldKey;
use crate::wire::error::{InvalidPayload, Refusal};
use crate::wire::inbox::{GetPendingRequest, GetPendingResponse};

/// How long reading the record may take.
const BUDGET: Duration = Duration::from_secs(10);

/// The record, if it is live.
pub(super) async fn get_pending(
    context: Arc<Context>,
    request: GetPendingRequest,
) -> Result<Option<GetPendingResponse>, Refusal> {
    let key = HoldKey::new(&request.session_id, &request.function_call_id, "function_call_id")
        .map_err(|bad| InvalidPayload::new(bad.field, bad.problem))?;
    let found = context.inbox.get(&key, Deadline::after(BUDGET)).await;
    let live = found.map_err(|error| Refusal::StateUnavailable(error.to_string()))?;
    Ok(live.map(|live| GetPendingResponse { pending: live.record }))
}
