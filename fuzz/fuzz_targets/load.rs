#![no_main]

#[path = "../checks/scenario.rs"]
#[allow(dead_code, reason = "a target uses one of the checks")]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::load(data));
