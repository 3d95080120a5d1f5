//! The fuzz corpora replayed on a stable compiler, and frames and datagrams drawn at random.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic too")]

#[path = "../../../fuzz/checks/pfcp.rs"]
mod control;
#[path = "../../../fuzz/checks/frame.rs"]
mod frames;
#[path = "../../../fuzz/checks/gtpu.rs"]
mod tunnels;

use proptest::collection::vec;
use proptest::prelude::*;

/// Every file of a corpus, which has to have at least so many.
fn corpus(name: &str, least: usize) -> Vec<Vec<u8>> {
    let folder = format!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/{}"), name);
    let files: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| std::fs::read(entry.unwrap().path()).unwrap()).collect();
    assert!(files.len() >= least);
    files
}

#[test]
fn the_corpora_hold() {
    corpus("frame", 5).iter().for_each(|file| frames::frame(file));
    corpus("gtpu", 8).iter().for_each(|file| tunnels::gtpu(file));
    corpus("pfcp", 20).iter().for_each(|file| control::pfcp(file));
}

proptest! {
    /// Frames that begin like IP, so that they get past the Ethernet header.
    #[test]
    fn any_frame_is_read_within_its_bounds(ethertype in prop_oneof![Just(0x0800u16), Just(0x86dd), Just(0x8100)], rest in vec(any::<u8>(), 0..120)) {
        let mut frame = vec![0; 12];
        frame.extend(ethertype.to_be_bytes());
        frame.extend(rest);
        frames::frame(&frame);
    }

    /// Datagrams whose flags and length are right, so that they get past the header.
    #[test]
    fn any_tunnel_message_is_read_within_its_bounds(flags in 0x30u8..0x38, kind in any::<u8>(), rest in vec(prop_oneof![any::<u8>(), Just(1), Just(0x85), Just(0)], 4..60)) {
        let mut datagram = vec![flags, kind, 0, (rest.len() - 4) as u8];
        datagram.extend(rest);
        tunnels::gtpu(&datagram);
    }

    /// Messages with some octets of one of the corpus replaced.
    #[test]
    fn any_control_message_is_read_and_written(which in any::<prop::sample::Index>(), changes in vec((any::<prop::sample::Index>(), any::<u8>()), 0..6), cut in any::<prop::sample::Index>()) {
        let files = corpus("pfcp", 20);
        let mut datagram = which.get(&files).clone();
        for (at, value) in changes {
            let length = datagram.len();
            datagram[at.index(length)] = value;
        }
        control::pfcp(&datagram);
        datagram.truncate(cut.index(datagram.len()));
        control::pfcp(&datagram);
    }
}
