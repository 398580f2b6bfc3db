//! `approval::get-pending`: one record, or null (contract §6).

use std::sync::Arc;
use std::time::Duration;

use super::Context;
use crate::clock::Deadline;
use crate::hold::HoldKey;
use crate::keep::inbox::Live;
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
        .map_err(InvalidPayload::from)?;
    let live = find(&context, &key).await?;
    Ok(live.map(|live| GetPendingResponse { pending: live.record }))
}

/// The hold that waits there; an error if none does.
pub(super) async fn find_held(context: &Context, key: &HoldKey) -> Result<Live, Refusal> {
    let live = find(context, key).await?;
    live.ok_or_else(|| Refusal::NotHeld("no call of that id waits in the session".to_owned()))
}

async fn find(context: &Context, key: &HoldKey) -> Result<Option<Live>, Refusal> {
    let found = context.inbox.get(key, Deadline::after(BUDGET)).await;
    found.map_err(|error| Refusal::StateUnavailable(error.to_string()))
}
