#![no_main]

#[path = "../checks/control.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::control(data));
