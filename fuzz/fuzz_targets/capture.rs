#![no_main]

#[path = "../checks/capture.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::capture(data));
