//! The messages of the engine protocol, both directions, as closed enums: parse and write.
//!
//! Knows nothing of sockets, so it can be tested with strings. Payloads (`data`, `result`, `config`, `metadata`) stay
//! borrowed text: they are neither copied nor recursed into here, because skipping over JSON is a loop and parsing it
//! is a recursion that a hostile caller could make as deep as it likes.
//!
//! The non-obvious fact: the engine drops what it cannot decode without telling anyone, and the caller then waits for
//! ever. Hence [`Outgoing::write`] refuses what the engine would drop (size, nesting), and [`decode`] tells apart what
//! must still be answered from what may be ignored.

mod incoming;
mod outgoing;
#[cfg(test)]
mod tests;

pub use incoming::{Binding, Incoming, Invoke, Rejection, Undecodable, decode};
pub use outgoing::{Action, Outgoing, Plain, Unsendable, answer};

/// The largest frame that the engine accepts, bytes. One byte more and it drops the connection.
pub const MAX_FRAME_BYTES: usize = 16 << 20;
/// The deepest nesting that the engine decodes, the frame itself included.
pub const MAX_NESTING: usize = 127;
