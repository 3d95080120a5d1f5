#![no_main]

#[path = "../checks/replay.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::replay(data));
