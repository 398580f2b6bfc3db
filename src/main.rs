//! The `approval-gate` binary.
fn main() {}
