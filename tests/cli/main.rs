//! The command line as a person or a script uses it: the real binary, its words and its exit status.
#![allow(clippy::unwrap_used)]

mod check;
mod check_cases;
