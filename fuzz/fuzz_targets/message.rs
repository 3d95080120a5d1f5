#![no_main]

#[path = "../checks/message.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::message(data));
