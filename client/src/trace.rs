//! The trace context of an incoming call, carried to the calls that it causes.
//!
//! A task-local rather than a parameter: the context is of no interest to anything between the two sockets. It is set
//! only when the caller sent one, so the common case costs one look-up per call. It does not follow `tokio::spawn`;
//! background work takes it along with [`scope_current`].

use std::borrow::Cow;
use std::future::Future;
use std::sync::Arc;

/// What a caller sent; both are passed on unchanged, the engine extends the baggage itself.
#[derive(Debug, PartialEq, Eq)]
pub struct Trace {
    /// W3C trace parent.
    pub traceparent: Option<String>,
    /// W3C baggage.
    pub baggage: Option<String>,
}

impl Trace {
    /// The context of a call, if it came with one.
    pub fn of(traceparent: Option<Cow<'_, str>>, baggage: Option<Cow<'_, str>>) -> Option<Arc<Self>> {
        if traceparent.is_none() && baggage.is_none() {
            return None;
        }
        Some(Arc::new(Self {
            traceparent: traceparent.map(Cow::into_owned),
            baggage: baggage.map(Cow::into_owned),
        }))
    }
}

tokio::task_local! {
    static CURRENT: Arc<Trace>;
}

/// The context of the call being executed, if its caller sent one.
pub fn current() -> Option<Arc<Trace>> {
    CURRENT.try_with(Arc::clone).ok()
}

/// Runs `work` as caused by `trace`.
pub async fn scope<F: Future>(trace: Option<Arc<Trace>>, work: F) -> F::Output {
    match trace {
        Some(trace) => CURRENT.scope(trace, work).await,
        None => work.await,
    }
}

/// `work` with the context of the caller of this function, to be handed to `tokio::spawn`.
pub fn scope_current<F: Future>(work: F) -> impl Future<Output = F::Output> {
    scope(current(), work)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn background_work_carries_the_context_of_its_cause() {
        let trace = Trace::of(Some("00-1-2-01".into()), None);
        let seen =
            scope(trace.clone(), async { tokio::spawn(scope_current(async { current() })).await.unwrap() });
        assert_eq!(seen.await, trace);
        assert_eq!(current(), None);
    }
}
