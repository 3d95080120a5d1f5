#![no_main]

#[path = "../checks/filter.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::filter(data));
