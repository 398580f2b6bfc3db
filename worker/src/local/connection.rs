//! One socket: the handshake, the reader, the writer.
//!
//! The reader hands each frame to the hub and never waits for another connection; the writer drains this
//! connection's queue. Either ending, a cut, or an eviction drops the socket, without a close frame, as the real
//! engine does even when asked to close. It must not know what frames mean beyond decoding them. The non-obvious
//! fact: a frozen engine keeps the frame it has just read and goes on with it after the thaw.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::StatusCode;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use uuid::Uuid;

use super::clock;
use super::frame;
use super::hub::Hub;
use super::world::{Connection, Outgoing, Profile};

/// Frames one connection may have waiting. When full, its worker has stopped reading and the connection is cut.
const OUTBOX_FRAMES: usize = 65_536;

/// Time allowed to send the upgrade request.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Largest single frame and largest message taken from a worker, in bytes, both inclusive.
const MAX_FRAME: usize = 16 << 20;
const MAX_MESSAGE: usize = 64 << 20;

/// Accepts connections until the engine stops. `grace` bounds how long registrations wait for the announcement.
pub(super) async fn accept(hub: Arc<Hub>, listener: TcpListener, grace: Duration) {
    loop {
        hub.faults.thawed().await;
        let Ok((stream, peer)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        if hub.faults.is_refusing() {
            continue;
        }
        let task = serve(hub.clone(), stream, peer, grace);
        hub.spawn(task);
    }
}

/// What the path of the upgrade request asks for.
enum Endpoint {
    Worker,
    /// Accepted and ignored.
    Telemetry,
}

async fn serve(hub: Arc<Hub>, stream: TcpStream, peer: SocketAddr, grace: Duration) {
    let _ = stream.set_nodelay(true);
    let Ok(Some((socket, endpoint))) = tokio::time::timeout(HANDSHAKE, upgrade(stream)).await else { return };
    let (sink, stream) = socket.split();
    if matches!(endpoint, Endpoint::Telemetry) {
        return ignore(hub, stream).await;
    }
    let mut cuts = hub.faults.cuts();
    cuts.mark_unchanged();
    let cut = Arc::new(Notify::new());
    let (outbox, queue) = mpsc::channel(OUTBOX_FRAMES);
    let id = join(&hub, outbox, cut.clone(), peer);
    hub.worker_event("worker_connected", id);
    let waiting = hub.clone();
    hub.spawn(async move {
        tokio::time::sleep(grace).await;
        let mut world = waiting.world();
        if world.connections.get(&id).is_some_and(|connection| connection.held.is_some()) {
            world.release(id, None);
        }
    });
    // Kept until the connection is forgotten: a peer that sees its socket end finds its registrations gone.
    let reader = std::pin::pin!(read(&hub, id, stream));
    let writer = std::pin::pin!(write(&hub, queue, sink));
    tokio::select! {
        () = reader => {}
        () = writer => {}
        () = cut.notified() => {}
        _ = cuts.changed() => {}
    }
    if hub.world().disconnect(id) {
        hub.worker_event("worker_disconnected", id);
    }
}

fn join(hub: &Hub, outbox: mpsc::Sender<Outgoing>, cut: Arc<Notify>, peer: SocketAddr) -> Uuid {
    let id = Uuid::new_v4();
    let token = Uuid::new_v4().to_string();
    let greeting = frame::worker_registered(id, &token);
    let connection = Connection {
        token,
        outbox,
        cut,
        namespace: None,
        held: Some(Vec::new()),
        profile: Profile::default(),
        connected_at_ms: clock::now_ms(),
        address: peer.ip().to_string(),
        active: 0,
    };
    let mut world = hub.world();
    world.connections.insert(id, connection);
    world.send(id, greeting);
    id
}

async fn upgrade(stream: TcpStream) -> Option<(WebSocketStream<TcpStream>, Endpoint)> {
    let mut endpoint = None;
    // The callback's error type is the library's.
    #[allow(clippy::result_large_err)]
    let choose = |request: &Request, response: Response| -> Result<Response, ErrorResponse> {
        endpoint = match request.uri().path() {
            "/" | "" => Some(Endpoint::Worker),
            "/otel" => Some(Endpoint::Telemetry),
            _ => None,
        };
        if endpoint.is_some() {
            return Ok(response);
        }
        let mut refusal = ErrorResponse::new(None);
        *refusal.status_mut() = StatusCode::NOT_FOUND;
        Err(refusal)
    };
    let limits =
        WebSocketConfig::default().max_frame_size(Some(MAX_FRAME)).max_message_size(Some(MAX_MESSAGE));
    let socket = tokio_tungstenite::accept_hdr_async_with_config(stream, choose, Some(limits)).await.ok()?;
    Some((socket, endpoint?))
}

async fn ignore(hub: Arc<Hub>, mut stream: SplitStream<WebSocketStream<TcpStream>>) {
    let mut cuts = hub.faults.cuts();
    cuts.mark_unchanged();
    tokio::select! {
        () = async { while let Some(Ok(_)) = stream.next().await {} } => {}
        _ = cuts.changed() => {}
    }
}

async fn read(hub: &Arc<Hub>, id: Uuid, mut stream: SplitStream<WebSocketStream<TcpStream>>) {
    loop {
        hub.faults.thawed().await;
        let Some(Ok(message)) = stream.next().await else { return };
        hub.faults.thawed().await;
        let decoded = match &message {
            Message::Text(text) => frame::decode_text(text.as_str()),
            Message::Binary(bytes) => frame::decode_binary(bytes),
            Message::Close(_) => return,
            _ => continue,
        };
        match decoded {
            Ok(Some(inbound)) => hub.receive(id, inbound),
            Ok(None) => {}
            Err(error) => tracing::warn!(worker_id = %id, %error, "frame dropped: it does not decode"),
        }
    }
}

async fn write(
    hub: &Arc<Hub>,
    mut queue: mpsc::Receiver<Outgoing>,
    mut sink: SplitSink<WebSocketStream<TcpStream>, Message>,
) {
    while let Some(outgoing) = queue.recv().await {
        hub.faults.thawed().await;
        let sent = match outgoing {
            Outgoing::Frame(frame) => sink.send(Message::text(frame.to_string())).await.is_ok(),
            Outgoing::Close => {
                let _ = sink.send(Message::Close(None)).await;
                false
            }
        };
        if !sent {
            return;
        }
    }
    // The queue ends when the connection was evicted; the eviction itself drops the socket.
    std::future::pending::<()>().await;
}
