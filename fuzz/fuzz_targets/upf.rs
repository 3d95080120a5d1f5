#![no_main]

#[path = "../checks/upf.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::upf(data));
