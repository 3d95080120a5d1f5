#![no_main]

#[path = "../checks/recording.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::recording(data));
