//! Captures of both formats, in both byte orders.

#![allow(clippy::unwrap_used, reason = "tests")]

use wire::capture::{Captured, LinkType, Passage, Problem, Reader, Step};

fn corpus(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/../../fuzz/corpus/capture/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn packets<'a>(reader: &mut Reader, mut data: &'a [u8]) -> Result<Vec<Captured<'a>>, Problem> {
    let mut packets = Vec::new();
    loop {
        let len = match reader.read(data)? {
            Step::Needs(_) => return Ok(packets),
            Step::Other(len) => len,
            Step::Packet(packet, len) => {
                packets.push(packet);
                len
            }
        };
        data = &data[len..];
    }
}

/// Times count in 2^-20 s, less 5 s; of an enhanced, an obsolete and a simple packet block.
#[test]
fn every_block_of_pcapng() {
    for name in ["every-block-little", "every-block-big"] {
        let (mut reader, data) = (Reader::new(), corpus(name));
        let packets = packets(&mut reader, &data).unwrap();
        // 2^32 + 5 units are 4,096 s and some 4.8 µs.
        let nanos = |units: u64| Some(4_091_000_000_000 + units * 1_000_000_000 / (1 << 20));
        let times: Vec<_> = packets.iter().map(|packet| packet.unix_nanos).collect();
        assert_eq!(times, [nanos(5), nanos(6), None], "{name}");
        let directions: Vec<_> = packets.iter().map(|packet| packet.direction).collect();
        assert_eq!(directions, [Some(Passage::Out), None, None], "{name}");
        for packet in &packets {
            assert_eq!((packet.link, packet.length, packet.bytes.len()), (LinkType::Raw, 28, 28));
            assert_eq!(packet.network(), Some(0));
        }
        assert_eq!(reader.interface_name(0), "N3");
        assert_eq!(reader.interface_name(1), "");
    }
}

#[test]
fn pcap_in_either_order() {
    let big = corpus("big-endian-raw");
    let packets_of = |data| packets(&mut Reader::new(), data);
    let big = packets_of(&big).unwrap();
    assert_eq!((big[0].unix_nanos, big[0].length), (Some(1_000_005_000), 28));
    assert_eq!((big[1].unix_nanos, big[1].length, big[1].bytes.len()), (Some(7_000), 99, 37));
    let patched = corpus("patched-loopback");
    let patched = packets_of(&patched).unwrap();
    assert_eq!((patched[0].unix_nanos, patched[0].link), (Some(1_000_005_000), LinkType::Loopback));
    assert_eq!(patched[0].network(), Some(4));
}

#[test]
fn tags_and_other_packets() {
    let network = |link, bytes: &[u8]| {
        let length = bytes.len() as u32;
        Captured { interface: 0, link, unix_nanos: None, bytes, length, direction: None }.network()
    };
    let tagged = |header: &[u8], tags: &[u8]| [header, tags, &[0x45; 20]].concat();
    assert_eq!(network(LinkType::Ethernet, &tagged(&[0; 12], &[8, 0])), Some(14));
    assert_eq!(network(LinkType::Ethernet, &tagged(&[0; 12], &[0x81, 0, 0, 1, 8, 0])), Some(18));
    assert_eq!(network(LinkType::Ethernet, &tagged(&[0; 12], &[8, 6])), None);
    assert_eq!(network(LinkType::Cooked, &tagged(&[0; 14], &[8, 0])), Some(16));
    assert_eq!(network(LinkType::Cooked, &tagged(&[0; 14], &[0x81, 0, 0, 1, 8, 0])), Some(20));
    assert_eq!(network(LinkType::Cooked2, &tagged(&[8, 0], &[0; 18])), Some(20));
    // What says IP must look like it.
    assert_eq!(network(LinkType::Cooked2, &[&[8, 0][..], &[0; 30]].concat()), None);
    assert_eq!(network(LinkType::Raw, &[]), None);
    assert_eq!(network(LinkType::Other(147), &[0x45; 20]), None);
}

#[test]
fn what_makes_no_sense_is_told() {
    let problem = |name| packets(&mut Reader::new(), &corpus(name)).map(|packets| packets.len()).unwrap_err();
    assert_eq!(problem("not-one"), Problem::NotACapture);
    assert_eq!(problem("unknown-interface"), Problem::UnknownInterface(0));
    assert_eq!(problem("bad-resolution"), Problem::BadResolution(0x30));
    assert_eq!(problem("huge-block"), Problem::BadLength { kind: 6, length: 0xffff_fffc });
    assert!(matches!(problem("lengths-differ"), Problem::BadLength { kind: 0x0a0d_0d0a, .. }));
}
