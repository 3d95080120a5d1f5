//! The written line protocol against the code: every example of the guide in bytes.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic too")]

mod common;

use adapter::{AdapterConfig, LINE, frame};
use common::{Pair, millis};
use engine::Packet;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/src/line-protocol.md");

/// Bytes in the guide's way: sixteen on a line.
fn hex(bytes: &[u8]) -> String {
    let rows = bytes.chunks(16).map(|row| row.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" "));
    rows.collect::<Vec<_>>().join("\n")
}

fn line(header: u8, body: &[u8]) -> Vec<u8> {
    let mut line = Vec::new();
    frame::encode(header, &[body], &mut line);
    line
}

/// The page shows these bytes.
fn shown(what: &str, bytes: &[u8]) {
    let page = std::fs::read_to_string(PAGE).unwrap();
    assert!(page.contains(&hex(bytes)), "the guide does not show {what}:\n{}", hex(bytes));
}

const ETHERNET: [u8; 14] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd];

#[test]
fn examples_are_what_the_code_does() {
    shown("a keep-alive", &line(0xc1, &[]));
    shown("an opening", &line(0xc3, &[&[5, 0][..], &ETHERNET].concat()));
    shown("its acknowledgement", &line(0xc4, &[5, 0]));
    shown("a datagram", &line(0x85, b"hello"));
    // A packet of five bytes after its index, cut after four bytes.
    let packet = [5, b'h', b'e', b'l', b'l', b'o'];
    let whole = [&packet[..], &frame::crc32(&packet).to_be_bytes()].concat();
    shown("a first fragment", &line(0x00, &whole[..4]));
    shown("a last fragment", &line(0x03, &whole[4..]));
}

/// A second implementation's first steps: it says hello by the page alone, and is answered.
#[test]
fn a_hello_by_the_page_makes_a_session() {
    let mut pair = Pair::new(&AdapterConfig::plain());
    pair.line(1).cut = true;
    pair.run(millis(100));
    let first = pair.line(0).sent[0].1.clone();
    assert_eq!(first[0], 0, "a hello has a delimiter in front");
    let mut deframer = frame::Deframer::default();
    let mut hello = Vec::new();
    for character in first {
        if let Some(Ok((header, body))) = deframer.push(character) {
            assert_eq!(header, 0xc0);
            hello = body.to_vec();
        }
    }
    assert_eq!(hello[..5], *b"NW\x01\x01\x00");
    let mut body = b"NW\x01\x01\x00\x00\x00\x00\x2a".to_vec();
    body.extend_from_slice(&hello[5..9]);
    body.extend_from_slice(&[1, 5, 0, 0, 0x25, 0x80, 10, 2, 4, 0, 0, 5, 0xdc]);
    shown(
        "a hello",
        &[&[0][..], &line(0xc0, &[&b"NW\x01\x01\x00\x00\x00\x00\x2a\x00\x00\x00\x07"[..], &body[13..]].concat())]
            .concat(),
    );
    let port = (pair.adapters[0], LINE);
    pair.graph.inject(millis(100), port, Packet::new(line(0xc0, &body)), &mut pair.heard);
    pair.run(millis(200));
    assert!(pair.counters(0).session.up);
}
