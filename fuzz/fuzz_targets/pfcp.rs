#![no_main]

#[path = "../checks/pfcp.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::pfcp(data));
