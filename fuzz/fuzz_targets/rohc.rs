#![no_main]

#[path = "../checks/rohc.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::rohc(data));
