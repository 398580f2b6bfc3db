//! The engine client over real sockets against an engine that follows a script: what it sends, in which order, and what
//! it makes of whatever comes back.

#![allow(clippy::unwrap_used)]

mod calls;
mod lifecycle;
mod scripted;
mod serving;
mod transcripts;
