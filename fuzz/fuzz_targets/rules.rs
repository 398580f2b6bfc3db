#![no_main]

#[path = "../../tests/hostile/targets/mod.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::run("rules", bytes));
