//! A load on the own UPF, as an ordinary user runs it, and what is said where it cannot be.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::common::{Place, Started, can_isolate, narrows, needs, rows, run, succeed, tshark, turn_beside};

/// Models in both directions, IPv4 and IPv6, with a capture.
const SMALL: &str = "
duration: 2s
samples_per_second: 5
capture: true
seed: 5
session_group:
  - name: four
    start_ue_address: 22.64.0.1
    nr_sessions: 3
    predefined_type: simplest
    core_network_instance: sgi1
    node_id_fqdn: pgwc.com
    flows_per_ue: 2
    load: {type: steady, uplink: 300, downlink: 200, packet_size: 400}
  - name: six
    start_ue_address: 2001:db8::1
    nr_sessions: 2
    load: {type: poisson, uplink: 100, downlink: 100, packet_size: {100: 1, 1300: 2}}
";

fn load(place: &Place, file: &str, more: &[&str]) -> Command {
    fs::write(place.join("load.yaml"), file).unwrap();
    let mut command = narrows(place, ["load", "load.yaml", "--out", "r"]);
    command.args(more);
    command
}

fn summary(place: &Place) -> Value {
    serde_json::from_str(&fs::read_to_string(place.join("r/summary.json")).unwrap()).unwrap()
}

#[test]
fn what_is_sent_comes_back_and_is_counted() {
    if !can_isolate() {
        return;
    }
    let _turn = turn_beside();
    let place = Place::new();
    let said = succeed(&mut load(&place, SMALL, &["--json"]));
    let last: Value = serde_json::from_str(said.out.lines().last().unwrap()).unwrap();
    assert_eq!(last["event"], "load");
    let summary = summary(&place);
    assert_eq!(last["summary"], summary);
    assert_eq!((&summary["sessions"]["established"], &summary["sessions"]["wanted"]), (&5.into(), &5.into()));
    for (way, steady) in [(0, 600), (1, 400)] {
        let figures = &summary["all"][way];
        assert_eq!(figures["sent_packets"], figures["received_packets"], "{figures}");
        assert_eq!((&figures["loss"], &figures["duplicated_packets"]), (&0.0.into(), &0.into()));
        assert!(figures["latency_p50_s"].as_f64().unwrap() > 0.0 && figures["delay_s"].as_f64().unwrap() > 0.0);
        let four = &summary["groups"][0][1][way];
        let told = four["sent_packets"].as_u64().unwrap() + four["unsent_packets"].as_u64().unwrap();
        assert_eq!(told, steady, "a steady rate is exact");
    }
    assert!(summary["others"].as_array().unwrap().is_empty(), "{}", summary["others"]);
    let columns = ["group", "uplink_out_packets", "downlink_in_packets", "downlink_out_packets", "uplink_in_packets"];
    let sums = rows(&place.join("r"), "samples.csv", &columns).into_iter().filter(|row| row[0] == "all");
    let sums = sums.fold([0u64; 4], |sums, row| [0, 1, 2, 3].map(|i| sums[i] + row[i + 1].parse::<u64>().unwrap()));
    // What goes out uplink comes in downlink, and the other way round.
    assert_eq!((sums[0], sums[2]), (sums[1], sums[3]));
    assert_eq!(summary["all"][0]["sent_packets"].as_u64(), Some(sums[0]));
    for name in ["plan.json", "events.jsonl", "hist/load.hlog"] {
        assert!(place.join("r").join(name).is_file(), "{name} is missing");
    }
    // What is sent and what is received, each packet once on N3 and once on N6.
    dissect(&place.join("r/capture.pcapng"), 2 * (sums[0] + sums[2]));
}

/// Another dissector finds nothing wrong with a capture, and all packets in it.
fn dissect(capture: &Path, packets: u64) {
    let checks = ["-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE", "-Y"];
    let lines = |filter: &str| tshark(capture, &[&checks[..], &[filter]].concat());
    let Some(wrong) = lines("_ws.malformed || ip.checksum.status == 0 || udp.checksum.status == 0") else { return };
    assert!(wrong.is_empty(), "{wrong}");
    assert_eq!(lines("udp && !icmpv6").map(|lines| lines.lines().count() as u64), Some(packets));
    assert!(lines("gtp.ext_hdr.pdu_ses_con.pdu_type == 1").is_some_and(|lines| !lines.is_empty()));
}

#[test]
fn a_trace_is_replayed_through_the_upf() {
    if !can_isolate() {
        return;
    }
    let _turn = turn_beside();
    let place = Place::new();
    succeed(&mut narrows(&place, ["trace", "make", "--rate", "500/s", "--duration", "1s", "--seed", "3", "t.pcapng"]));
    let file = "
session_group:
  name: replay
  start_ue_address: 16.0.0.1
  pdn_start_address: 194.0.0.0
  load: {type: trace, trace: t.pcapng, repetitions: 2, instances: 2}
";
    succeed(&mut load(&place, file, &["--seed", "1"]));
    let summary = summary(&place);
    let [up, down] = [0, 1].map(|way| summary["all"][way]["sent_packets"].as_u64().unwrap());
    assert!(up + down > 1_000, "{summary}");
    assert_eq!((up + down) % 4, 0, "each packet goes by twice in two instances");
    for way in 0..2 {
        assert_eq!(summary["all"][way]["sent_packets"], summary["all"][way]["received_packets"], "{summary}");
    }
}

#[test]
fn ctrl_c_deletes_the_sessions_and_keeps_what_was_measured() {
    if !can_isolate() {
        return;
    }
    let _turn = turn_beside();
    let place = Place::new();
    let mut started = Started::new(&mut load(&place, &SMALL.replace("2s", "1h"), &["--json"]));
    started.line(|line| line.contains("\"live\""));
    started.signal("INT", false);
    let said = started.end();
    assert_eq!(said.code(), Some(1), "{said:?}");
    assert!(said.err.contains("interrupted; the sessions were deleted"), "{}", said.err);
    let summary = summary(&place);
    assert_eq!(summary["upf"]["sessions"], 0, "{summary}");
    assert!(summary["all"][0]["received_packets"].as_u64().unwrap() > 0);
}

#[test]
fn a_upf_that_is_absent_is_told_not_waited_for() {
    let isolated = ["-U", "-r", "-n", "sh", "-c"];
    let set_up = "ip link add n3 type veth peer name p3 && ip link add n6 type veth peer name p6 && \
                  ip link set n3 up && ip link set n6 up && ip link set p3 up && ip link set p6 up && \
                  ip link set lo up";
    if !needs("user namespaces and ip(8)", Command::new("unshare").args(isolated).arg(set_up)) {
        return;
    }
    let place = Place::new();
    let file = "
n3: {interface: n3, address: 10.3.0.1, upf: 10.3.0.2}
n4: {address: 127.0.0.1, upf: 127.0.0.2}
n6: {interface: n6, address: 10.6.0.1, upf: 10.6.0.2}
pfcp: {t1: 100ms, n1: 3}
session_group: {name: a, start_ue_address: 10.0.0.1}
";
    fs::write(place.join("load.yaml"), file).unwrap();
    let program = format!("{set_up} && exec {} load load.yaml --out r", env!("CARGO_BIN_EXE_narrows"));
    let said = run(Command::new("unshare").current_dir(place.path()).args(isolated).arg(program));
    assert_eq!(said.code(), Some(1), "{said:?}");
    assert!(said.err.contains("the UPF at 127.0.0.2 does not answer on N4"), "{}", said.err);
}

#[test]
fn ranges_that_overlap_are_refused_with_their_place() {
    let place = Place::new();
    let file = "session_group:\n  - {name: a, start_ue_address: 10.0.0.1, nr_sessions: 10}\n  - {name: b, start_ue_address: 10.0.0.5}\n";
    let said = run(&mut load(&place, file, &[]));
    assert_eq!(said.code(), Some(2), "{said:?}");
    for words in [
        "UE addresses 10.0.0.5 of `b` overlap with 10.0.0.1 to 10.0.0.10 of `a`",
        "load.yaml:3:",
        "begin one of them elsewhere",
    ] {
        assert!(said.err.contains(words), "{}", said.err);
    }
    assert_eq!(place.names(), ["load.yaml"]);
}

#[test]
fn the_highest_rate_is_searched_for() {
    if !can_isolate() {
        return;
    }
    let _turn = turn_beside();
    let place = Place::new();
    // A rule that lets about 500 packets a second pass.
    let file = "
session_group:
  name: held
  start_ue_address: 10.0.0.1
  mbr: {uplink: 1600kbit/s, downlink: 1600kbit/s}
  load: {type: steady, uplink: 1, packet_size: 400}
";
    fs::write(place.join("load.yaml"), file).unwrap();
    let arguments = ["load", "load.yaml", "--find-max", "loss=2%", "--trial", "2s", "--from", "100", "--json"];
    let said = succeed(&mut narrows(&place, arguments));
    let last: Value = serde_json::from_str(said.out.lines().last().unwrap()).unwrap();
    if last["best"]["limited_by_sender"] == true {
        println!("skipped: the machine is too busy to keep its rates");
        return;
    }
    let best = &last["best"]["best"];
    let rate = best["rate"].as_u64().unwrap_or_else(|| panic!("{last}"));
    // By how far a rule lets traffic run ahead, and on what side of the steps the search ends.
    assert!((400..700).contains(&rate), "{last}");
    assert!(best["loss"].as_f64().unwrap() <= 0.02);
}

#[test]
fn a_stateful_replay_goes_on_by_what_arrives() {
    if !can_isolate() {
        return;
    }
    let _turn = turn_beside();
    let place = Place::new();
    let captures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenario/tests/captures");
    fs::copy(captures.join("plain.pcap"), place.join("t.pcap")).unwrap();
    let file = "
session_group:
  name: replay
  start_ue_address: 16.0.0.1
  nr_sessions: 3
  load: {type: trace, trace: t.pcap, filter: ip and tcp, instances: {over: ue, count: 3}, stateful: true, timeout: 20s}
";
    succeed(&mut load(&place, file, &["--seed", "1"]));
    let summary = summary(&place);
    let count = |way: usize, what: &str| summary["all"][way][what].as_u64().unwrap();
    assert!(count(0, "sent_packets") > 0 && count(1, "sent_packets") > 0);
    assert_eq!([0, 1].map(|way| count(way, "unsent_packets")), [0, 0], "{summary}");
    assert_eq!([0, 1].map(|way| count(way, "sent_packets")), [0, 1].map(|way| count(way, "received_packets")));
    // Nobody had to give up waiting, since each arrival was told of, also of segments too short for a stamp.
    assert_eq!((&summary["machine"]["timed_out"], &summary["machine"]["untold"]), (&0.into(), &0.into()), "{summary}");
}
