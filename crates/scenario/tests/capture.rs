//! Captures by tcpdump and dumpcap, and files that are none.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use engine::Span;
use scenario::capture::{Capture, CaptureError, CaptureOptions, Packets};
use traffic::replay::{AddressRule, AddressTable, Filter, Route};

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures").join(name)
}

fn read(name: &str) -> Capture {
    Capture::read(&path(name), &CaptureOptions::default()).unwrap()
}

/// A file of its own for a test.
fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, bytes).unwrap();
    path
}

fn error(name: &str, bytes: &[u8]) -> String {
    let path = file(name, bytes);
    let error = Capture::read(&path, &CaptureOptions::default()).unwrap_err().to_string();
    error.replace(path.to_str().unwrap(), "FILE")
}

/// Sizes, addresses and order are the same in all five, however they were captured.
#[test]
fn the_same_packets_in_every_format() {
    let plain = read("plain.pcap");
    assert_eq!((plain.packets, plain.trace.len(), plain.cut_off, plain.trace.cut()), (36, 36, None, 0));
    let lengths = |capture: &Capture| capture.trace.packets().map(|packet| packet.length).collect::<Vec<_>>();
    let routes = |capture: &Capture| {
        let table = AddressTable::new(&capture.trace, &AddressRule::FirstSight);
        assert_eq!((table.ues(), table.pdns(false)), (1, 1));
        (0..capture.trace.len()).map(|n| table.route(n)).collect::<Vec<Option<Route>>>()
    };
    // 60 bytes hold the headers of IPv4, but not those of IPv6.
    let filtered = |filter| {
        let options = CaptureOptions { filter: Some(Filter::parse(filter).unwrap()), ..CaptureOptions::default() };
        Capture::read(&path("plain.pcap"), &options).unwrap()
    };
    let (short, plain_v4) = (read("short-ns.pcap"), filtered("ip"));
    assert_eq!((lengths(&short), routes(&short)), (lengths(&plain_v4), routes(&plain_v4)));
    assert_eq!((short.packets, short.trace.left().cut_in_headers, short.trace.len()), (36, 18, 18));
    assert!(short.trace.cut() > 0 && short.trace.packets().all(|packet| packet.bytes.len() <= 46));

    let plain_udp = filtered("udp");
    assert_eq!((plain_udp.trace.len(), plain_udp.filtered), (12, 24));
    for name in ["cooked.pcap", "cooked2.pcap"] {
        let cooked = read(name);
        assert_eq!((lengths(&cooked), routes(&cooked)), (lengths(&plain_udp), routes(&plain_udp)), "{name}");
        let bytes = |capture: &Capture| capture.trace.packets().map(|p| p.bytes.to_vec()).collect::<Vec<_>>();
        assert_eq!(bytes(&cooked), bytes(&plain_udp), "{name}");
    }
    let mut two = lengths(&read("two-interfaces.pcapng"));
    let mut all = lengths(&plain);
    two.sort_unstable();
    all.sort_unstable();
    assert_eq!(two, all);
}

/// A packet is the same with a finished checksum as with one that hardware was to finish.
#[test]
fn unfinished_checksums_are_noticed() {
    let plain = read("plain.pcap");
    assert!(plain.trace.resealed() >= 18, "{}", plain.trace.resealed());
}

#[test]
fn times_are_to_the_nanosecond() {
    let (plain, fine) = (read("plain.pcap"), read("short-ns.pcap"));
    let times = |capture: &Capture| capture.trace.packets().map(|packet| packet.time.as_nanos()).collect::<Vec<_>>();
    assert!(times(&plain).iter().all(|time| time % 1_000 == 0));
    assert!(times(&fine).iter().any(|time| time % 1_000 != 0));
    // Both were captured at once; the coarse one is rounded down at both ends.
    let v4 = plain.trace.packets().filter(|packet| packet.bytes[0] >> 4 == 4).map(|packet| packet.time.as_nanos());
    for (plain, fine) in v4.zip(times(&fine)) {
        assert!(plain.abs_diff(fine) < 1_000, "{plain} {fine}");
    }
}

#[test]
fn interfaces_have_names() {
    let mut packets = Packets::open(&path("two-interfaces.pcapng")).unwrap();
    let mut seen = Vec::new();
    while let Some(interface) = packets.next().unwrap().map(|packet| packet.interface) {
        seen.push(packets.interface_name(interface).to_owned());
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen, ["any", "va"]);
}

/// tshark reads the same times and lengths.
#[test]
fn as_tshark_reads_them() {
    for name in ["plain.pcap", "short-ns.pcap", "cooked.pcap", "cooked2.pcap", "two-interfaces.pcapng"] {
        let mut tshark = Command::new("tshark");
        tshark.args(["-r", path(name).to_str().unwrap(), "-T", "fields", "-e", "frame.time_epoch", "-e", "frame.len"]);
        let Ok(output) = tshark.output() else {
            println!("skipped: there is no tshark");
            return;
        };
        let mut packets = Packets::open(&path(name)).unwrap();
        let mut ours = String::new();
        while let Some(packet) = packets.next().unwrap() {
            let nanos = packet.unix_nanos.unwrap();
            ours += &format!("{}.{:09}\t{}\n", nanos / 1_000_000_000, nanos % 1_000_000_000, packet.length);
        }
        assert_eq!(String::from_utf8(output.stdout).unwrap(), ours, "{name}");
    }
}

#[test]
fn gaps_are_capped() {
    let options = CaptureOptions { max_gap: Some(Span::from_micros(100)), ..CaptureOptions::default() };
    let capture = Capture::read(&path("short-ns.pcap"), &options).unwrap();
    assert!(capture.gaps.count > 0 && capture.trace.longest_gap().0 <= Span::from_micros(100));
}

#[test]
fn what_cannot_be_read_says_why() {
    assert_eq!(error("empty", b""), "FILE: ends after 0 bytes, before its header does; capture it again");
    assert_eq!(
        error("head", b"\xd4\xc3\xb2\xa1"),
        "FILE: ends after 4 bytes, before its header does; capture it again"
    );
    let text = error("text", b"GIF89a, say, or a text");
    assert_eq!(text, "FILE: at byte 0: this is no capture: it begins neither as pcap nor as pcapng");
    assert_eq!(error("gzip", b"\x1f\x8b\x08\0"), "FILE: at byte 0: this is compressed (gzip); unpack it first");
    let plain = fs::read(path("plain.pcap")).unwrap();
    assert_eq!(error("none", &plain[..24]), "FILE: the capture has no packets");
    let mut arp = plain[..24].to_vec();
    arp.extend([[0; 4], [0; 4], [4, 0, 0, 0], [4, 0, 0, 0], [8, 6, 0, 1]].concat());
    assert_eq!(error("arp", &arp), "FILE: none of the 1 packets is IP with whole headers");
    let missing = Capture::read(Path::new("/nowhere"), &CaptureOptions::default()).unwrap_err();
    assert_eq!(missing.to_string(), "/nowhere: cannot be read: No such file or directory (os error 2)");
    let folder = Capture::read(Path::new("/"), &CaptureOptions::default()).unwrap_err();
    assert_eq!(folder.to_string(), "/: cannot be read: Is a directory (os error 21)");
    let mut wild = plain.clone();
    wild[24 + 8..24 + 12].fill(0xff);
    assert_eq!(error("wild", &wild), "FILE: at byte 24: a block of type 0x0 says 4294967295 bytes, which cannot be");
    let filter = Some(Filter::parse("port 9").unwrap());
    let none = Capture::read(&path("plain.pcap"), &CaptureOptions { filter, ..CaptureOptions::default() });
    assert!(matches!(none, Err(CaptureError::Empty { packets: 36, filtered: 36, .. })));
    let small = Capture::read(&path("plain.pcap"), &CaptureOptions { memory: 1_000, ..CaptureOptions::default() });
    assert!(small.unwrap_err().to_string().contains("need more than 1000 bytes of memory"));
}

/// A capture that was cut off anywhere is read up to there.
#[test]
fn what_is_cut_off_is_read_to_there() {
    for name in ["plain.pcap", "two-interfaces.pcapng"] {
        let whole = fs::read(path(name)).unwrap();
        let mut most = 0;
        for len in (0..whole.len()).step_by(97) {
            let cut = file(&format!("cut-{name}"), &whole[..len]);
            match Capture::read(&cut, &CaptureOptions::default()) {
                Ok(capture) => {
                    assert!(capture.packets >= most && capture.cut_off.is_some_and(|at| at < len as u64));
                    most = capture.packets;
                }
                Err(CaptureError::TooShort { .. } | CaptureError::Empty { .. }) => assert_eq!(most, 0),
                Err(error) => panic!("{error}"),
            }
        }
        assert!(most >= 34, "{most}");
    }
}
