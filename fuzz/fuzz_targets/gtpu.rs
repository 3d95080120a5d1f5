#![no_main]

#[path = "../checks/gtpu.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::gtpu(data));
