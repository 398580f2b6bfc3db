//! What goes over one socket, both ways, in one task.
//!
//! What has come in is handled first, then all that is to go out is written and flushed once. One task for both, because
//! most of what goes out answers what has just come in: a second task would have to be woken for it, on another thread
//! if it comes to the worst. Neither way waits for the other, and nothing here waits for a handler: a worker that stops
//! reading freezes every connection that binds to its trigger types.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::{SinkExt, StreamExt};
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::{Error as SocketError, Message};

use super::connection::{Ending, Link};
use super::outbound::Outbound;
use super::tcp::WebSocket;

/// How many messages are handled before their answers are written, so that the first of many does not wait for the last.
const AT_ONCE: usize = 64;
/// How often in a row that is done before other tasks have their turn.
const TURNS: usize = 8;

/// Serves the socket until it ends, or until the queue of what is to be written has ended and the goodbye is said. Each
/// message is handed to `receive` with the moment at which it was there.
pub(super) async fn serve(
    link: Arc<Link>,
    socket: WebSocket,
    mut receive: impl FnMut(&Arc<Link>, &str, Instant),
) {
    let mut traffic = Traffic { socket, in_hand: Vec::new().into_iter(), unflushed: 0 };
    if let Err(reason) = poll_fn(|cx| traffic.poll(cx, &link, &mut receive)).await {
        link.end(Ending::Lost(reason));
    }
}

struct Traffic {
    socket: WebSocket,
    /// Taken from the queue, not yet given to the socket.
    in_hand: std::vec::IntoIter<Message>,
    /// Bytes taken from the queue since the last flush.
    unflushed: usize,
}

/// Whether more may have come in.
enum Read {
    All,
    Some,
}

impl Traffic {
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        link: &Arc<Link>,
        receive: &mut impl FnMut(&Arc<Link>, &str, Instant),
    ) -> Poll<Result<(), String>> {
        link.outbound.at_work();
        for _ in 0..TURNS {
            let read = self.read(cx, link, receive)?;
            if let Poll::Ready(written) = self.write(cx, &link.outbound) {
                return Poll::Ready(written.map_err(|error| describe(&error)));
            }
            if matches!(read, Read::All) {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Handles what has come in, up to a bound.
    fn read(
        &mut self,
        cx: &mut Context<'_>,
        link: &Arc<Link>,
        receive: &mut impl FnMut(&Arc<Link>, &str, Instant),
    ) -> Result<Read, String> {
        for _ in 0..AT_ONCE {
            let message = match self.socket.poll_next_unpin(cx) {
                Poll::Pending => return Ok(Read::All),
                Poll::Ready(Some(Ok(message))) => message,
                Poll::Ready(Some(Err(error))) => return Err(describe(&error)),
                Poll::Ready(None) => return Err("the connection was closed".to_owned()),
            };
            let now = Instant::now();
            link.saw_frame(now);
            match message {
                Message::Text(text) => receive(link, &text, now),
                Message::Binary(bytes) => {
                    if let Ok(text) = std::str::from_utf8(&bytes) {
                        receive(link, text, now);
                    }
                }
                Message::Close(_) => return Err("the engine closed the connection".to_owned()),
                Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
            }
        }
        Ok(Read::Some)
    }

    /// Writes what waits, all in one go; ready when nothing more will be written and the goodbye is said.
    fn write(&mut self, cx: &mut Context<'_>, outbound: &Outbound) -> Poll<Result<(), SocketError>> {
        loop {
            while !self.in_hand.as_slice().is_empty() {
                ready!(self.socket.poll_ready_unpin(cx))?;
                if let Some(frame) = self.in_hand.next() {
                    self.socket.start_send_unpin(frame)?;
                }
            }
            if self.unflushed > 0 {
                ready!(self.socket.poll_flush_unpin(cx))?;
                outbound.written(self.unflushed);
                self.unflushed = 0;
            }
            match ready!(outbound.poll_take(cx)) {
                Some(batch) => {
                    self.unflushed = batch.iter().map(Message::len).sum();
                    self.in_hand = batch.into_iter();
                }
                None => return self.socket.poll_close_unpin(cx),
            }
        }
    }
}

fn describe(error: &SocketError) -> String {
    match error {
        SocketError::Io(error) => error.to_string(),
        SocketError::ConnectionClosed | SocketError::AlreadyClosed => "the connection was closed".to_owned(),
        other => other.to_string(),
    }
}
