//! `narrows trace` on captures: looked at, scaled, and proved to be what was sent.

use std::fs;
use std::path::Path;

use crate::common::{Place, Said, narrows, run};

fn capture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenario/tests/captures").join(name);
    path.to_str().unwrap().to_owned()
}

fn trace(place: &Place, arguments: &[&str]) -> Said {
    run(&mut narrows(place, [&["trace"], arguments].concat()))
}

#[test]
fn info_tells_what_is_in_a_capture() {
    let place = Place::new();
    let said = trace(&place, &["info", &capture("plain.pcap")]);
    assert_eq!(said.code(), Some(0), "{said:?}");
    for line in [
        "packets      36 of 36 in the file",
        "uplink       20 packets, 1,536 B of IP",
        "TCP/IPv6     12 packets, 3,408 B of IP",
        "   1250 to 1499 B           4   11.1 %",
        "   PDN 0  2001:db8::2",
    ] {
        assert!(said.out.lines().any(|found| found == line), "{line}\n{}", said.out);
    }
    assert!(said.err.contains("with a wrong checksum"), "{}", said.err);
    let said = trace(&place, &["info", &capture("cooked2.pcap"), "--filter", "ip6", "--json"]);
    let record: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(
        (&record["packets_in_file"], &record["packets"], &record["filtered"]),
        (&12.into(), &6.into(), &6.into())
    );
    assert_eq!(record["addresses"][1], serde_json::json!({"address": "2001:db8::2", "is": "pdn", "number": 0}));
}

/// What `scale` writes is what a replay sends, by `verify`'s measure, and nothing else is.
#[test]
fn a_scaled_capture_is_verified() {
    let place = Place::new();
    let original = capture("two-interfaces.pcapng");
    for spacing in ["copy", "jitter", "shuffle"] {
        let scaling = ["--instances", "3", "--repetitions", "2", "--spacing", spacing, "--over", "ue"];
        let said = trace(&place, &[&["scale", &original, "more.pcapng"], &scaling[..]].concat());
        assert_eq!(said.code(), Some(0), "{said:?}");
        assert!(said.out.starts_with("more.pcapng: 216 packets in "), "{}", said.out);
        let said = trace(&place, &[&["verify", &original, "more.pcapng", "--p99", "1ns"], &scaling[..]].concat());
        assert_eq!(said.code(), Some(0), "{said:?}");
        assert!(said.out.contains("the same packets in the same order"), "{}", said.out);
    }
    let said = trace(&place, &["verify", &original, "more.pcapng", "--instances", "4", "--json"]);
    assert_eq!(said.code(), Some(3), "{said:?}");
    let record: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((&record["same"], &record["packets_expected"]), (&false.into(), &144.into()));
}

#[test]
fn bad_input_says_why() {
    let place = Place::new();
    fs::write(place.join("text.pcap"), "a text").unwrap();
    let refused = |arguments: &[&str], expected: &str| {
        let said = trace(&place, arguments);
        assert_eq!((said.code(), &*said.out), (Some(2), ""), "{said:?}");
        assert!(said.err.contains(expected), "{}", said.err);
    };
    refused(&["info", "text.pcap"], "text.pcap: at byte 0: this is no capture");
    refused(&["info", "text.pcap", "--filter", "port http"], "column 6 of the filter: `http` is not a port");
    refused(&["info", &capture("plain.pcap"), "--filter", "tcp port 1"], "none of the 36 packets matches the filter");
    refused(&["info", &capture("plain.pcap"), "--memory", "1kB"], "need more than 1000 bytes of memory");
    let scale = ["scale", &capture("plain.pcap"), "out.pcapng", "--block", "5"];
    refused(&scale, "--block belongs to --spacing shuffle");
    let scale = ["scale", &capture("plain.pcap"), "out.pcapng", "--pdn-start", "255.255.255.255", "--instances", "2"];
    refused(&scale, "2 addresses of the data network from 255.255.255.255 on are more than there are");
    assert_eq!(place.names(), ["text.pcap"]);
    let said = trace(&place, &["info", "nowhere.pcap"]);
    assert_eq!(said.code(), Some(1), "{said:?}");
}
