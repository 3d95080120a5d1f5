#![no_main]

#[path = "../checks/times.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::times(data));
