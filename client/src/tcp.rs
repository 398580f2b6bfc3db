//! The TCP socket under the WebSocket, and how to get one to an engine address.
//!
//! The engine leaves Nagle's algorithm on: a second frame of it waits until our kernel has acknowledged the first,
//! which Linux delays by about 40 ms. The kernel forgets `TCP_QUICKACK` as it likes, so it is set again after every
//! read; without that line an answer and an event that follow each other arrive 40 ms apart.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Request;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use super::error::ConnectError;

/// Largest message and frame that we read, bytes: a listing of tens of thousands of records is one answer.
const MAX_READ_BYTES: usize = 2 << 30;

/// How much is read at once, bytes. The library overwrites as much with zeros before every read, also before the one that
/// finds nothing more; its own 128 KiB make that a noticeable part of a call.
const READ_AT_ONCE_BYTES: usize = 16 << 10;

/// A connected WebSocket.
pub(super) type WebSocket = WebSocketStream<Socket>;

/// A TCP stream that acknowledges at once what it has read.
pub(super) struct Socket(TcpStream);

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.0).poll_read(cx, buf))?;
        #[cfg(any(target_os = "linux", target_os = "android"))]
        {
            // Only a matter of speed: a socket that cannot do it still works.
            let _ = self.0.set_quickack(true);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// Connects to `url` and upgrades, within `budget`.
pub(super) async fn connect(url: &str, budget: Duration) -> Result<WebSocket, ConnectError> {
    let (request, host, port) = parse(url)?;
    let waited_ms = u64::try_from(budget.as_millis()).unwrap_or(u64::MAX);
    tokio::time::timeout(budget, open(request, &host, port))
        .await
        .map_err(|_| ConnectError::Timeout { url: url.to_owned(), waited_ms })?
        .map_err(|reason| ConnectError::Refused { url: url.to_owned(), reason })
}

async fn open(request: Request, host: &str, port: u16) -> Result<WebSocket, String> {
    let stream = TcpStream::connect((host, port)).await.map_err(|error| error.to_string())?;
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_AT_ONCE_BYTES)
        .max_message_size(Some(MAX_READ_BYTES))
        .max_frame_size(Some(MAX_READ_BYTES));
    let (socket, _response) =
        tokio_tungstenite::client_async_with_config(request, Socket(stream), Some(config))
            .await
            .map_err(|error| error.to_string())?;
    Ok(socket)
}

/// Whether this is an address that can be connected to at all. Trying again does not mend one that is not.
pub fn check_address(url: &str) -> Result<(), ConnectError> {
    parse(url).map(drop)
}

fn parse(url: &str) -> Result<(Request, String, u16), ConnectError> {
    let wrong = |reason| ConnectError::Address { url: url.to_owned(), reason };
    let request = url.into_client_request().map_err(|_| wrong("not a WebSocket address"))?;
    match request.uri().scheme_str() {
        Some("ws") => {}
        Some("wss") => return Err(wrong("encryption is left to a proxy, use ws://")),
        _ => return Err(wrong("it must start with ws://")),
    }
    let host =
        request.uri().host().filter(|host| !host.is_empty()).ok_or_else(|| wrong("it names no host"))?;
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let port = request.uri().port_u16().unwrap_or(80);
    Ok((request, host, port))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn addresses_without_a_path_and_of_both_families_are_understood() {
        for (url, host, port) in [
            ("ws://127.0.0.1:49134", "127.0.0.1", 49134),
            ("ws://localhost", "localhost", 80),
            ("ws://[::1]:7/x?y=1", "::1", 7),
        ] {
            let (_, found, at) = parse(url).unwrap();
            assert_eq!((found.as_str(), at), (host, port), "{url}");
        }
    }

    #[test]
    fn a_wrong_address_says_what_is_wrong_in_one_line() {
        for url in ["", "engine", "http://a", "wss://a", "ws://", "ws:// a"] {
            let message = parse(url).unwrap_err().to_string();
            assert!(message.contains(&format!("`{url}`")) && !message.contains('\n'), "{message}");
        }
    }
}
