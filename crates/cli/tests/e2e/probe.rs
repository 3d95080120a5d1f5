//! `narrows probe`: the rate of an emulated line, found by two processes at its ends.

use serde_json::Value;

use crate::common::{Place, can_isolate, narrows, run, turn};

#[test]
fn packet_pairs_find_the_rate_of_a_line() {
    if !can_isolate() {
        return;
    }
    let _turn = turn();
    let program = env!("CARGO_BIN_EXE_narrows");
    let peer = format!("{program} probe packet-pair --listen");
    // No wait for the listener: the prober greets until it is there.
    let probe = format!("{program} probe packet-pair $NARROWS_PEER --sizes 60..1400:335 --pairs 1 --json");
    let place = Place::new();
    let mut link = narrows(&place, ["link", "--profile", "perfect", "--set", "rate=64kbit/s", "--peer", &peer, "--"]);
    let said = run(link.args(["sh", "-c", &probe]));
    assert_eq!(said.code(), Some(0), "{said:?}");
    let found: Value = serde_json::from_str(said.out.trim()).unwrap();
    assert_eq!((found["pairs_sent"].as_u64(), found["pairs"].as_u64()), (Some(5), Some(5)), "{found}");
    // A stall of the machine in one of five pairs may bend the slope; the rate is still this line's.
    let rate = found["rate_bit_s"].as_f64().unwrap();
    assert!((48_000.0..=80_000.0).contains(&rate), "{found}");
    assert_eq!(found["sizes"].as_array().map(Vec::len), Some(5), "{found}");
}

#[test]
fn what_cannot_be_measured_is_refused_at_once() {
    let place = Place::new();
    let code = |arguments: &[&str]| {
        let mut command = narrows(&place, ["probe", "packet-pair"]);
        let said = run(command.args(arguments));
        (said.code(), said.err)
    };
    assert_eq!(code(&[]).0, Some(2));
    assert_eq!(code(&["127.0.0.1", "--sizes", "400..60:20"]).0, Some(2));
    assert_eq!(code(&["127.0.0.1", "--sizes", "60..70000:1"]).0, Some(2));
    let (status, err) = code(&["127.0.0.1", "--sizes", "20,60"]);
    assert!(status == Some(2) && err.contains("38 B"), "{err}");
    let (status, err) = code(&["127.0.0.1:port"]);
    assert!(status == Some(2) && err.contains("not a port"), "{err}");
}
