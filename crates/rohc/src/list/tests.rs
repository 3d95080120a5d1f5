//! Lists against the formats of RFC 3095 5.8.6, and both ends against each other.

use alloc::vec::Vec;
use std::vec;

use proptest::prelude::*;

use super::headers::{Unfit, crc_dynamic};
use super::*;

fn csrc(of: u8) -> [u8; 4] {
    [0xc0, 0, 0, of]
}

/// Shows `list` to the compressor and returns what it sends.
fn send(compressor: &mut ListCompressor, list: &[u8]) -> Option<Vec<u8>> {
    let items: Vec<[u8; 4]> = list.iter().map(|of| csrc(*of)).collect();
    compressor.observe(items.iter().map(|item| &item[..]));
    compressor.is_pending().then(|| {
        let mut out = Vec::new();
        compressor.write(Form::Update, &mut out);
        out
    })
}

/// Gives the decompressor what came, and returns the list.
fn receive(decompressor: &mut ListDecompressor, octets: &[u8]) -> Result<Vec<u8>, Malformed> {
    let mut reader = Reader::new(octets);
    decompressor.read(&mut reader)?;
    assert!(reader.rest().is_empty());
    let list = decompressor.items().map(|(item, _)| item[3]).collect();
    decompressor.commit(true);
    Ok(list)
}

fn established(list: &[u8]) -> ListCompressor {
    let mut compressor = ListCompressor::new(Kind::Csrc, 2);
    for _ in 0..2 {
        assert!(send(&mut compressor, list).is_some());
    }
    assert_eq!(send(&mut compressor, list), None);
    compressor
}

#[test]
fn an_empty_list_takes_no_octet_and_one_in_a_dynamic_chain() {
    let mut compressor = ListCompressor::new(Kind::Csrc, 3);
    assert_eq!(send(&mut compressor, &[]), None);
    let mut out = Vec::new();
    compressor.write(Form::Full, &mut out);
    assert_eq!(out, [0]);
}

#[test]
fn type_0_brings_items_until_they_are_known() {
    let mut compressor = ListCompressor::new(Kind::Csrc, 2);
    // ET 0, GP 1, PS 0, CC 2; gen_id 1; two XI fields with X = 1; both items.
    let whole = [&[0x22, 1, 0x89][..], &csrc(1), &csrc(2)].concat();
    assert_eq!(send(&mut compressor, &[1, 2]), Some(whole.clone()));
    // A third item: the first two were sent once.
    let whole = [&[0x23, 2, 0x89, 0xa0][..], &csrc(1), &csrc(2), &csrc(3)].concat();
    assert_eq!(send(&mut compressor, &[1, 2, 3]), Some(whole));
    // The same generation again: now only the third has to come along.
    let whole = [&[0x23, 2, 0x01, 0xa0][..], &csrc(3)].concat();
    assert_eq!(send(&mut compressor, &[1, 2, 3]), Some(whole));
    assert_eq!(send(&mut compressor, &[1, 2, 3]), None);
}

#[test]
fn type_1_inserts() {
    let mut compressor = established(&[1, 2, 4, 5, 6]);
    // ET 1, GP 1, PS 0, XI 1 (X = 1, index 5); gen_id 2; ref_id 1; insertion at the third position.
    let expected = [&[0x6d, 2, 1, 0b0001_0000][..], &csrc(3)].concat();
    assert_eq!(send(&mut compressor, &[1, 2, 3, 4, 5, 6]), Some(expected));
    // Three insertions: XI 1 in the first octet, then two of four bits.
    let mut compressor = established(&[1, 2, 3, 4, 5, 6, 7, 8]);
    let indices: Vec<u8> = vec![1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3];
    assert_eq!(send(&mut compressor, &indices), Some(vec![0x60, 2, 1, 0x80, 0b0111_0000, 0x12]));
}

#[test]
fn type_2_removes() {
    let mut compressor = established(&[1, 2, 3, 4, 5, 6]);
    // ET 2, GP 1, count 6; gen_id 2; ref_id 1; the second goes, and the mask is filled with ones.
    assert_eq!(send(&mut compressor, &[1, 3, 4, 5, 6]), Some(vec![0xa6, 2, 1, 0b0010_0001]));
    // Back to the reference: nothing goes.
    assert_eq!(send(&mut compressor, &[1, 2, 3, 4, 5, 6]), Some(vec![0xa6, 3, 1, 0b0000_0001]));
    // Four items take two octets in either type, and type 0 needs no reference.
    assert_eq!(send(&mut compressor, &[1, 2, 3, 4]), Some(vec![0x24, 4, 0x01, 0x23]));
}

#[test]
fn type_3_removes_and_inserts() {
    let mut compressor = established(&[1, 2, 3, 4, 5, 6, 7]);
    // ET 3, GP 1, PS 0, XI 1 with the item; gen_id; ref_id; the second goes; one comes in at the end.
    let expected = [&[0xef, 2, 1, 0b0010_0000, 0b0000_0001][..], &csrc(9)].concat();
    assert_eq!(send(&mut compressor, &[1, 3, 4, 5, 6, 7, 9]), Some(expected));
}

#[test]
fn other_items_at_the_same_indices_are_another_list() {
    let mut compressor = established(&[1, 2, 3, 4, 5, 6]);
    // Indices 6 and 7; and again, in the order in which they were not used for longest.
    for (generation, list, indices) in [(2, [7, 8], 0xef), (3, [9, 10], 0xfe), (4, [11, 12], 0xfe)] {
        let expected = [&[0x22, generation, indices][..], &csrc(list[0]), &csrc(list[1])].concat();
        assert_eq!(send(&mut compressor, &list), Some(expected));
    }
}

#[test]
fn a_generation_identifier_names_the_reference() {
    let mut compressor = ListCompressor::new(Kind::Csrc, 1);
    let mut decompressor = ListDecompressor::new(Kind::Csrc);
    for list in [&[1, 2, 3, 4, 5][..], &[1, 2, 3, 4], &[1, 2, 4], &[], &[7], &[]] {
        let octets = send(&mut compressor, list).unwrap();
        assert_eq!(receive(&mut decompressor, &octets).unwrap(), list);
    }
}

#[test]
fn a_list_without_generation_is_for_one_packet() {
    // RFC 3095 5.8.2.1 d.
    let mut decompressor = ListDecompressor::new(Kind::Csrc);
    receive(&mut decompressor, &[&[0x21, 1, 0x80][..], &csrc(1)].concat()).unwrap();
    let once = receive(&mut decompressor, &[&[0x01, 0x90][..], &csrc(2)].concat()).unwrap();
    assert_eq!(once, [2]);
    assert_eq!(decompressor.items().map(|(item, _)| item[3]).collect::<Vec<_>>(), [1]);
    // But its item stays in the table.
    assert_eq!(receive(&mut decompressor, &[0x21, 2, 0x10]).unwrap(), [2]);
}

#[test]
fn nothing_is_known_without_a_right_packet() {
    let mut decompressor = ListDecompressor::new(Kind::Csrc);
    let octets = [&[0x21, 1, 0x80][..], &csrc(1)].concat();
    decompressor.read(&mut Reader::new(&octets)).unwrap();
    decompressor.abandon();
    assert_eq!(decompressor.items().count(), 0);
    assert_eq!(receive(&mut decompressor, &[0x21, 1, 0x00]), Err(Malformed::Unknown));
    // Types 1 to 3 with a reference that is not there.
    for octets in [&[0x68, 2, 1, 0x40, 1, 2, 3, 4][..], &[0xa1, 2, 1, 0x7f], &[0xe8, 2, 1, 0x3f, 0x40, 1, 2, 3, 4]] {
        assert_eq!(decompressor.read(&mut Reader::new(octets)), Err(Malformed::Unknown));
    }
}

#[test]
fn masks_that_do_not_fit_the_reference_are_refused() {
    let mut decompressor = ListDecompressor::new(Kind::Csrc);
    receive(&mut decompressor, &[&[0x22, 1, 0x89][..], &csrc(1), &csrc(2)].concat()).unwrap();
    for octets in [
        // RFC 3095 5.8.3: a 0 where the reference is exhausted.
        &[0xa2, 2, 1, 0b0100_1111][..],
        // Another count than the reference has.
        &[0xa3, 2, 1, 0b0101_1111],
        // An insertion behind a gap.
        &[0x60, 2, 1, 0b0000_1000],
    ] {
        assert_eq!(decompressor.read(&mut Reader::new(octets)), Err(Malformed::Unknown), "{octets:x?}");
    }
    // RFC 3095 5.8.3: trailing zeros of an insertion mask are filler.
    assert_eq!(receive(&mut decompressor, &[0x60, 2, 1, 0b0001_0000]).unwrap(), [1, 2, 1]);
}

#[test]
fn a_short_mask_leaves_what_it_does_not_cover() {
    // RFC 4815 5.3.
    let mut decompressor = ListDecompressor::new(Kind::Csrc);
    let items: Vec<u8> = (0..9).flat_map(csrc).collect();
    let octets = [&[0x39, 1, 0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88][..], &items].concat();
    receive(&mut decompressor, &octets).unwrap();
    assert_eq!(receive(&mut decompressor, &[0xa9, 2, 1, 0b0100_0000]).unwrap(), [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(receive(&mut decompressor, &[0x61, 3, 2, 0b0100_0000]).unwrap(), [1, 1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn a_table_does_not_grow_without_bound() {
    let mut decompressor = ListDecompressor::new(Kind::Headers);
    // Destination options of 2,048 octets, each at another index.
    let mut refused = 0;
    for index in 0..128 {
        let mut octets = vec![0x31, index, 0x80 | index, 60, 0xff];
        octets.resize(3 + 2048, 0);
        match decompressor.read(&mut Reader::new(&octets)) {
            Ok(()) => decompressor.commit(true),
            Err(error) => {
                refused += 1;
                assert!(matches!(error, Malformed::TooMany(_)));
            }
        }
    }
    assert_eq!(refused, 124);
}

proptest! {
    /// Lists change at random and packets are lost, but never `repeats` in a row.
    #[test]
    fn lists_arrive(
        changes in prop::collection::vec((prop::collection::vec(0u8..40, 0..=15), 1usize..6), 1..40),
        lost in prop::collection::vec(any::<bool>(), 0..240),
        repeats in 1u8..5,
    ) {
        let mut compressor = ListCompressor::new(Kind::Csrc, repeats);
        let mut decompressor = ListDecompressor::new(Kind::Csrc);
        let mut lost = lost.into_iter();
        let (mut run, mut any_lost) = (0, false);
        for (list, times) in changes {
            for _ in 0..times {
                let Some(octets) = send(&mut compressor, &list) else {
                    prop_assert_eq!(decompressor.items().map(|(item, _)| item[3]).collect::<Vec<_>>(), list.clone());
                    continue;
                };
                run = if lost.next() == Some(true) && run + 1 < repeats { run + 1 } else { 0 };
                if run > 0 {
                    any_lost = true;
                    continue;
                }
                // An index got a new item in several lists of which every packet that brought it was lost:
                // the list is unknown or, as the header's CRC shows, wrong. A NACK brings the item again.
                let read = decompressor.read(&mut Reader::new(&octets));
                if read.is_err() || decompressor.items().map(|(item, _)| item[3]).ne(list.iter().copied()) {
                    prop_assert!(any_lost);
                    decompressor.abandon();
                    compressor.doubt();
                } else {
                    decompressor.commit(true);
                }
            }
        }
    }

    #[test]
    fn any_octets_are_read_or_refused(packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..30)) {
        for kind in [Kind::Csrc, Kind::Headers] {
            let mut decompressor = ListDecompressor::new(kind);
            for octets in &packets {
                if decompressor.read(&mut Reader::new(octets)).is_ok() {
                    prop_assert!(decompressor.items().count() <= MAX_ITEMS);
                    decompressor.commit(true);
                }
            }
        }
        let mut chain = ChainDecompressor::new(16);
        for octets in &packets {
            chain.begin();
            let mut reader = Reader::new(octets);
            if chain.read_extension(&mut reader).is_ok() && chain.read_irregular(&mut reader).is_ok() {
                let mut out = Vec::new();
                if chain.write(4, 7, &mut out).is_ok() {
                    prop_assert!(ExtensionHeaders::read(6, chain.first(4), &out).is_ok_and(|read| read.length == out.len()) || !out.is_empty());
                    chain.commit(7, true);
                }
            }
        }
    }
}

/// Extension headers as they stand in packets, each made with the protocol behind it.
mod packets {
    use super::*;

    pub(super) fn options(next: u8, of: u8) -> Vec<u8> {
        vec![next, 0, 1, 4, of, of, of, of]
    }

    pub(super) fn ah(next: u8, spi: u8, sequence: u32, data: u8) -> Vec<u8> {
        let mut header = vec![next, 4, 0, 0, 0, 0, 0, spi];
        header.extend_from_slice(&sequence.to_be_bytes());
        header.extend_from_slice(&[data; 12]);
        header
    }

    pub(super) fn gre(sequence: u32, checksum: u16) -> Vec<u8> {
        let [a, b] = checksum.to_be_bytes();
        let mut header = vec![0xb0, 0, 0x86, 0xdd, a, b, 0, 0, 1, 2, 3, 4];
        header.extend_from_slice(&sequence.to_be_bytes());
        header
    }
}

#[derive(Clone, Copy)]
enum ChainForm {
    Dynamic,
    Extension,
    Absent,
}

/// Sends extension headers through both ends: returns the octets in extension 3 and behind the header.
fn through(
    ends: &mut (ChainCompressor, ChainDecompressor),
    first: u8,
    bytes: &[u8],
    sn: u32,
    form: Option<ChainForm>,
) -> (Vec<u8>, Vec<u8>) {
    let (compressor, decompressor) = ends;
    let headers = ExtensionHeaders::read(6, first, bytes).unwrap();
    assert_eq!(headers.length, bytes.len());
    compressor.observe(&headers, bytes, sn);
    let (mut sent, mut behind) = (Vec::new(), Vec::new());
    let form = form.unwrap_or(if compressor.is_pending() { ChainForm::Extension } else { ChainForm::Absent });
    match form {
        ChainForm::Dynamic => compressor.write_dynamic(&mut sent),
        ChainForm::Extension => compressor.write_extension(&mut sent),
        ChainForm::Absent => (),
    }
    compressor.write_irregular(&mut behind);
    decompressor.begin();
    let mut reader = Reader::new(&sent);
    match form {
        ChainForm::Dynamic => decompressor.read_dynamic(&mut reader).unwrap(),
        ChainForm::Extension => decompressor.read_extension(&mut reader).unwrap(),
        ChainForm::Absent => (),
    }
    assert!(reader.rest().is_empty());
    let mut reader = Reader::new(&behind);
    decompressor.read_irregular(&mut reader).unwrap();
    assert!(reader.rest().is_empty());
    let mut out = Vec::new();
    decompressor.write(headers.next, sn, &mut out).unwrap();
    assert_eq!(decompressor.first(headers.next), first);
    assert_eq!(out, bytes);
    assert_eq!(decompressor.len(), bytes.len());
    decompressor.commit(sn, true);
    (sent, behind)
}

fn ends() -> (ChainCompressor, ChainDecompressor) {
    (ChainCompressor::new(2, 16), ChainDecompressor::new(16))
}

#[test]
fn options_are_sent_with_their_own_type() {
    let mut ends = ends();
    let bytes = [packets::options(60, 1), packets::options(17, 2)].concat();
    let item = |of, value| [of, 0, 1, 4, value, value, value, value];
    let (sent, behind) = through(&mut ends, 0, &bytes, 1, Some(ChainForm::Dynamic));
    assert_eq!(sent, [&[0x22, 1, 0x89][..], &item(0, 1), &item(60, 2)].concat());
    assert!(behind.is_empty());
    let (sent, _) = through(&mut ends, 0, &bytes, 2, None);
    // CL alone; then the list.
    assert_eq!(sent, [&[0x80, 0x22, 1, 0x89][..], &item(0, 1), &item(60, 2)].concat());
    assert!(through(&mut ends, 0, &bytes, 3, None).0.is_empty());
    // RFC 3095 5.8.4.1: a header goes, and the one before it changes only its Next Header.
    let (sent, _) = through(&mut ends, 0, &packets::options(17, 1), 4, None);
    assert_eq!(sent, [0x80, 0x21, 2, 0x00]);
}

#[test]
fn an_authentication_header_costs_its_data() {
    let mut ends = ends();
    for sn in 0..40u32 {
        let bytes = packets::ah(17, 7, 1000 + sn, sn as u8);
        let (sent, behind) = through(&mut ends, 51, &bytes, (65_530 + sn) & 0xffff, None);
        if sn >= 2 {
            assert_eq!((sent.len(), &behind[..]), (0, &[sn as u8; 12][..]));
        }
    }
    // RFC 4815 5.8: its offset from the flow's sequence number changes.
    let (sent, behind) = through(&mut ends, 51, &packets::ah(17, 7, 1050, 9), 34, None);
    assert_eq!((&sent[..], behind.len()), (&[0x40, (1050 % 128) as u8][..], 12));
    let (sent, _) = through(&mut ends, 51, &packets::ah(17, 7, 0x1234_5678, 9), 35, None);
    assert_eq!(sent, [0x40, 0x92, 0x34, 0x56, 0x78]);
    // The highest bit changes: only the header itself says so.
    let (sent, _) = through(&mut ends, 51, &packets::ah(17, 7, 0x9234_5678, 9), 36, None);
    assert_eq!((sent[0], sent.len()), (0x80, 1 + 3 + 24));
}

#[test]
fn a_gre_header_costs_its_checksum() {
    let mut ends = ends();
    for sn in 0..20u32 {
        let bytes = packets::gre(5 + sn, 0x4000 + sn as u16);
        let (sent, behind) = through(&mut ends, 47, &bytes, sn, None);
        if sn == 0 {
            assert_eq!(sent, [0x80, 0x21, 1, 0x80, 47, 0xb0, 0x40, 0, 1, 2, 3, 4, 0, 0, 0, 5]);
        }
        if sn >= 2 {
            assert_eq!((&sent[..], behind), (&[][..], vec![0x40, sn as u8]));
        }
    }
    let (sent, _) = through(&mut ends, 47, &packets::gre(100, 0), 20, None);
    assert_eq!(sent, [0x10, 100]);
}

#[test]
fn crc_dynamic_octets() {
    // RFC 3095 5.8.7.
    assert_eq!(crc_dynamic(51, &[0; 24])[0], 0..24);
    assert_eq!(crc_dynamic(50, &[0; 8])[0], 0..8);
    assert_eq!(crc_dynamic(47, &packets::gre(1, 1)), [4..6, 12..16]);
    assert!(crc_dynamic(0, &[0; 8]).into_iter().all(|range| range.is_empty()));
}

#[test]
fn headers_that_no_list_can_carry() {
    let refused = |first, bytes: &[u8]| ExtensionHeaders::read(6, first, bytes).unwrap_err();
    assert_eq!(refused(0, &[17, 1, 0, 0, 0, 0, 0, 0]), Unfit::Truncated);
    assert_eq!(refused(51, &[17, 0, 0, 0, 0, 0, 0, 0]), Unfit::Value);
    assert_eq!(refused(47, &[0, 0, 0x65, 0x58]), Unfit::Value);
    assert_eq!(refused(47, &[0x40, 0, 8, 0]), Unfit::Value);
    assert_eq!(refused(51, &[packets::ah(51, 1, 1, 1), packets::ah(17, 2, 2, 2)].concat()), Unfit::Twice);
    let many: Vec<u8> = (0..16).flat_map(|_| packets::options(60, 0)).collect();
    assert_eq!(refused(60, &many), Unfit::TooMany);
    // Hop-by-hop options do not follow IPv4; fragments are not compressed.
    assert_eq!(ExtensionHeaders::read(4, 0, &[17; 8]).unwrap().length, 0);
    assert_eq!(ExtensionHeaders::read(6, 44, &[17; 8]).unwrap().length, 0);
}

#[test]
fn minimal_encapsulation_is_compressed_away() {
    let mut ends = ends();
    // RFC 2004 3.1: protocol, S and reserved, checksum, original destination and source.
    let bytes = [17, 0x80, 1, 2, 10, 0, 0, 1, 10, 0, 0, 2];
    for sn in 0..4 {
        let headers = ExtensionHeaders::read(4, 55, &bytes).unwrap();
        assert_eq!((headers.length, headers.next), (12, 17));
        let (sent, behind) = through(&mut ends, 55, &bytes, sn, None);
        assert_eq!((sent.is_empty(), behind.len()), (sn >= 2, 0));
    }
}
