//! `approval::list-pending`: the inbox across sessions (contract §6).

use std::sync::Arc;

use super::Context;
use crate::hold::{Position, contains_all, page, page_limit};
use crate::wire::error::{InvalidPayload, Refusal};
use crate::wire::inbox::{ListPendingRequest, ListPendingResponse};

/// One page, oldest first.
pub(super) async fn list_pending(
    context: Arc<Context>,
    request: ListPendingRequest,
) -> Result<ListPendingResponse, Refusal> {
    let after = request
        .cursor
        .as_deref()
        .map(Position::from_cursor)
        .transpose()
        .map_err(|bad| InvalidPayload::new("cursor", bad.to_string()))?;
    let live = context.inbox.list().await.map_err(|error| Refusal::StateUnavailable(error.to_string()))?;
    let matching = live
        .into_iter()
        .map(|live| live.record)
        .filter(|record| request.session_id.as_ref().is_none_or(|session| *session == record.session_id))
        .filter(|record| {
            let wanted = request.metadata.as_ref();
            wanted.is_none_or(|wanted| contains_all(wanted, record.session_metadata.as_ref()))
        })
        .map(|record| (record.position(), record))
        .collect();
    let page = page(matching, after.as_ref(), page_limit(request.limit));
    Ok(ListPendingResponse { pending: page.items, next_cursor: page.next.map(|position| position.cursor()) })
}
