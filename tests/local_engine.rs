//! The local engine against the transcripts of the real one, and what the transcripts do not show.

#[path = "local_engine/replay.rs"]
mod replay;
#[path = "local_engine/transcripts.rs"]
mod transcripts;
#[path = "local_engine/wire.rs"]
mod wire;
