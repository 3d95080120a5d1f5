//! The capture writer, against bytes worked out by hand from the draft.

use wire::pcapng::{Direction, Writer};

#[test]
fn blocks_are_as_the_draft_says() {
    let mut out = Vec::new();
    let mut writer = Writer::start(&mut out, "nar", "");
    #[rustfmt::skip]
    let section = [
        0x0a, 0x0d, 0x0d, 0x0a, 36, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0,
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        4, 0, 3, 0, b'n', b'a', b'r', 0,
        36, 0, 0, 0,
    ];
    assert_eq!(out, section);

    out.clear();
    let first = writer.interface(&mut out, "ship", 96);
    #[rustfmt::skip]
    let description = [
        1, 0, 0, 0, 36, 0, 0, 0, 1, 0, 0, 0, 96, 0, 0, 0,
        2, 0, 4, 0, b's', b'h', b'i', b'p',
        9, 0, 1, 0, 9, 0, 0, 0,
        36, 0, 0, 0,
    ];
    assert_eq!(out, description);

    out.clear();
    let second = writer.interface(&mut out, "", 0);
    assert_ne!(first, second);
    out.clear();
    writer.packet(&mut out, second, 0x0102_0304_0506_0708, 60, &[7; 5], "lost");
    #[rustfmt::skip]
    let packet = [
        6, 0, 0, 0, 48, 0, 0, 0, 1, 0, 0, 0, 4, 3, 2, 1, 8, 7, 6, 5, 5, 0, 0, 0, 60, 0, 0, 0,
        7, 7, 7, 7, 7, 0, 0, 0,
        1, 0, 4, 0, b'l', b'o', b's', b't',
        48, 0, 0, 0,
    ];
    assert_eq!(out, packet);

    out.clear();
    writer.packet_with_direction(&mut out, first, 1, 4, &[7; 4], Direction::Outbound);
    #[rustfmt::skip]
    let packet = [
        6, 0, 0, 0, 44, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0,
        7, 7, 7, 7,
        2, 0, 4, 0, 2, 0, 0, 0,
        44, 0, 0, 0,
    ];
    assert_eq!(out, packet);
}

#[test]
fn texts_are_cut_to_their_length_field() {
    let mut out = Vec::new();
    let mut writer = Writer::start(&mut out, "", "");
    out.clear();
    writer.interface(&mut out, &"ä".repeat(40_000), 0);
    assert_eq!(u16::from_le_bytes([out[18], out[19]]), 65_534);
    assert_eq!(out.len() % 4, 0);
}
