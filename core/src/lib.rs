//! The pure core of `approval-gate`: values in, values out.
//!
//! [`policy`] says whether a call may run, [`hold`] what a held call is, [`redact`] what of it may be shown, [`fsaccess`]
//! whether a failed call asks for a folder; [`wire`] has the words for all that as they cross the socket. Nothing in this
//! crate knows a socket, a clock or a runtime: it does not depend on any. It is a crate of its own so that the compiler
//! keeps it that way, and so that it is built for speed in a binary that is built for size.

mod audit;
pub mod fsaccess;
pub mod hold;
pub mod policy;
mod record;
pub mod redact;
pub mod wire;
