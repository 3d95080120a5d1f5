#![no_main]

#[path = "../checks/offload.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::offload(data));
