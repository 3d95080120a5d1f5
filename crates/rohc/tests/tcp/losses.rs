//! Losses of up to two packets in a row, which three repeats of each change outlast.

use rohc::{CompressorConfig, Mode};

use crate::flows::Line;
use crate::segments::{Segment, sack, timestamp};

/// Sends packets with these options, of which those marked are lost; all others must arrive.
fn deliver_around_losses(mode: Mode, packets: impl IntoIterator<Item = (Vec<u8>, bool)>) {
    let mut line = Line::new(15, mode);
    let mut segment = Segment::v6();
    for (at, (options, is_lost)) in packets.into_iter().enumerate() {
        segment.ack += 1;
        segment.options = options;
        let (packet, result) = line.send(&segment.packet(), is_lost);
        assert!(!matches!(result, Some(Err(_))), "{packet} at {at}: {result:?}");
    }
}

const ARRIVES: bool = false;
const LOST: bool = true;

#[test]
fn what_is_repeated_with_gaps_between_may_be_all_that_is_lost() {
    assert_eq!(CompressorConfig::default().repeats, 3);
    let old = [timestamp(1, 1), sack(&[(70_000, 80_000)])].concat();
    let new = [timestamp(1, 1), sack(&[(70_000, 90_000)])].concat();
    let none = Vec::new;
    deliver_around_losses(
        Mode::Unidirectional,
        [
            (old, ARRIVES),
            (new.clone(), LOST),
            (new.clone(), LOST),
            (none(), ARRIVES),
            (new.clone(), LOST),
            (new.clone(), LOST),
            (new.clone(), ARRIVES),
            (new, ARRIVES),
        ],
    );
}

#[test]
fn timestamps_that_come_and_go_are_repeated_too() {
    // The window of three timestamps has only lost ones, and no short form says the next from the first.
    let steps = [(1, ARRIVES), (1, ARRIVES), (1, ARRIVES), (1, ARRIVES), (1, ARRIVES)];
    let jumps = (1..8).flat_map(|jump| [(0, ARRIVES), (1 + jump * 0x0800_0000, LOST)]);
    let last = [(0, ARRIVES), (2 + 7 * 0x0800_0000, ARRIVES)];
    let packets = steps.into_iter().chain(jumps).chain(last).map(|(value, is_lost)| match value {
        0 => (Vec::new(), is_lost),
        value => (timestamp(value, 1), is_lost),
    });
    deliver_around_losses(Mode::Unidirectional, packets);
}

#[test]
fn an_acknowledgment_confirms_only_the_options_of_its_packet() {
    let other = || vec![253, 8, 1, 2, 3, 4, 5, 6];
    let none = || (Vec::new(), ARRIVES);
    // The packet with the timestamp is acknowledged, as enough time went by.
    let packets = [none(), (other(), LOST), none(), none(), none(), none(), none(), (timestamp(1, 1), ARRIVES)];
    let again = [(other(), ARRIVES), (other(), ARRIVES)];
    let packets = packets.into_iter().chain(again);
    deliver_around_losses(Mode::Optimistic, packets);
}
