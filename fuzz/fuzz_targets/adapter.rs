#![no_main]

#[path = "../checks/adapter.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::adapter(data));
