//! `approval::list-pending`: the inbox across sessions (contract §6).

use std::sync::Arc;

use serde_json::value::{RawValue, to_raw_value};

use super::Context;
use crate::hold::{Page, Position, contains_all, page, page_limit};
use crate::wire::error::{InvalidPayload, Refusal};
use crate::wire::inbox::{ListPendingRequest, ListPendingResponse};

/// One page, oldest first: from memory while the view of the inbox is complete, else from the store.
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
    let limit = page_limit(request.limit);
    let (session_id, metadata) = (request.session_id.as_deref(), request.metadata.as_ref());
    let page = match context.inbox.page(session_id, metadata, after.as_ref(), limit) {
        Some(page) => page,
        None => from_store(&context, &request, after.as_ref(), limit).await?,
    };
    Ok(ListPendingResponse { pending: page.items, next_cursor: page.next.map(|position| position.cursor()) })
}

async fn from_store(
    context: &Context,
    request: &ListPendingRequest,
    after: Option<&Position>,
    limit: usize,
) -> Result<Page<Arc<RawValue>>, Refusal> {
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
    // Only what is on the page is written as JSON; how heavy it is shows then.
    let page = page(matching, after, limit, |record| record.stored().to_string().len());
    let items = page.items.iter().filter_map(|record| to_raw_value(record).ok()).map(Arc::from).collect();
    Ok(Page { items, next: page.next })
}
