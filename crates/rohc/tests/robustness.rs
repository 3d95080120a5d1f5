//! Every kind of flow over a line that loses, damages, reorders and delays: what is delivered is what
//! was sent, and the contexts come back.

mod traffic;

use std::collections::VecDeque;
use std::time::Duration;

use rohc::{Compressor, CompressorConfig, Decompressor, DecompressorConfig, Mode};
use traffic::{Flow, random};

/// What happens on the way.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    seed: u32,
    /// Lost packets of a thousand.
    loss: u32,
    /// Of a thousand packets, those that begin a burst of this many lost ones.
    bursts: (u32, u32),
    /// Of a thousand packets, those that are overtaken by the next one.
    swaps: u32,
    /// Damaged bits of a million in what stands in place of the headers. What happens to the payload is beyond
    /// the compressor: two bits cancel out in a checksum.
    bit_errors: u32,
    /// Packets of a thousand whose payload has one damaged bit.
    payload_errors: u32,
    /// Packets that go by until feedback arrives; none for no way back.
    feedback: Option<u32>,
    /// Lost feedback of a thousand.
    feedback_loss: u32,
}

#[derive(Debug, Default)]
struct Outcome {
    sent: u32,
    arrived: u32,
    undamaged: u32,
    delivered: u32,
    wrong: u32,
    octets: u64,
    /// The longest run of packets that arrived undamaged, and were not delivered.
    longest_gap: u32,
}

fn run(flow: &Flow, line: Line, packets: u32) -> Outcome {
    let mode = if line.feedback.is_some() { Mode::Optimistic } else { Mode::Unidirectional };
    let mut compressor = Compressor::new(CompressorConfig::default());
    let mut decompressor = Decompressor::new(DecompressorConfig { mode, ..DecompressorConfig::default() });
    let mut outcome = Outcome::default();
    let mut draws = 0;
    let mut chance = |of: u32, many: u32| {
        draws += 1;
        random(line.seed, draws) % many < of
    };
    let mut on_the_way: VecDeque<(Vec<u8>, usize, Vec<u8>)> = VecDeque::new();
    let mut feedback: VecDeque<(u32, Vec<u8>)> = VecDeque::new();
    let mut burst = 0;
    let mut gap = 0;
    for number in 0..packets {
        let now = Duration::from_millis(20) * number;
        while feedback.front().is_some_and(|(at, _)| *at <= number) {
            let (_, octets) = feedback.pop_front().expect("there is one");
            if !chance(line.feedback_loss, 1000) {
                // Feedback for a context that went to another flow meanwhile, for instance, is no failure.
                let _ = compressor.feedback(now, &octets);
            }
        }
        let packet = (flow.packet)(number);
        let mut octets = Vec::new();
        let info = compressor.compress(now, &packet, &mut octets).expect("an IP packet");
        assert_eq!(info.profile, flow.profile, "{}", flow.name);
        outcome.sent += 1;
        outcome.octets += octets.len() as u64;
        // A burst, and as many packets again before there may be another.
        if burst == 0 && chance(line.bursts.0, 1000) {
            burst = 2 * line.bursts.1;
        }
        let is_in_burst = burst > line.bursts.1;
        burst = burst.saturating_sub(1);
        if is_in_burst || chance(line.loss, 1000) {
            continue;
        }
        on_the_way.push_back((octets, info.header_after, packet));
        if on_the_way.len() == 1 && chance(line.swaps, 1000) {
            continue;
        }
        // The later one first, where one waits to be overtaken.
        while let Some((mut octets, header, packet)) = on_the_way.pop_back() {
            let mut is_damaged = false;
            for bit in 0..header * 8 {
                if line.bit_errors > 0 && chance(line.bit_errors, 1_000_000) {
                    octets[bit / 8] ^= 0x80 >> (bit % 8);
                    is_damaged = true;
                }
            }
            if chance(line.payload_errors, 1000) {
                *octets.last_mut().expect("a payload") ^= 1;
                is_damaged = true;
            }
            outcome.arrived += 1;
            outcome.undamaged += u32::from(!is_damaged);
            let mut out = Vec::new();
            match decompressor.decompress(now, &octets, &mut out) {
                Ok(_) => {
                    outcome.delivered += 1;
                    gap = 0;
                    if out != packet {
                        outcome.wrong += 1;
                    }
                }
                Err(_) => {
                    assert!(out.is_empty());
                    gap += u32::from(!is_damaged);
                    outcome.longest_gap = outcome.longest_gap.max(gap);
                }
            }
            let mut back = Vec::new();
            decompressor.take_feedback(&mut back);
            if let (Some(delay), false) = (line.feedback, back.is_empty()) {
                feedback.push_back((number + delay, back));
            }
        }
    }
    outcome
}

/// Nothing wrong came out where a checksum would show it. Elsewhere a CRC of three bits is all there is: with every
/// packet lost that told a change, one in eight of those behind them gets past it.
fn assert_right(flow: &Flow, line: Line, outcome: &Outcome) {
    let bound = if flow.protected { 0 } else { outcome.delivered / 50 };
    assert!(outcome.wrong <= bound, "{} {line:?} {outcome:?}", flow.name);
}

const PACKETS: u32 = 600;

#[test]
fn without_loss_everything_is_delivered() {
    for flow in traffic::all() {
        for feedback in [None, Some(1)] {
            let outcome = run(&flow, Line { feedback, ..Line::default() }, PACKETS);
            assert_eq!((outcome.delivered, outcome.wrong), (PACKETS, 0), "{} {feedback:?}", flow.name);
        }
    }
}

#[test]
fn random_loss() {
    for flow in traffic::all() {
        for loss in [10, 100, 300] {
            for seed in 0..2 {
                for feedback in [None, Some(1), Some(15)] {
                    let line = Line { seed, loss, feedback, feedback_loss: loss, ..Line::default() };
                    let outcome = run(&flow, line, PACKETS);
                    assert_right(&flow, line, &outcome);
                    let bound = match feedback {
                        // Until the next refresh.
                        None => PACKETS,
                        // A round trip, and again as often as feedback or repair are lost.
                        Some(delay) => 60 + 5 * delay,
                    };
                    assert!(outcome.longest_gap <= bound, "{} {line:?} {outcome:?}", flow.name);
                }
            }
        }
    }
}

#[test]
fn bursts_of_loss() {
    for flow in traffic::all() {
        // Over 15 packets the four bits of an unprotected sequence number say too little.
        let lengths: &[u32] = if flow.protected { &[8, 13, 14, 20, 40] } else { &[8, 12] };
        for length in lengths {
            for seed in 0..4 {
                let line = Line { seed, bursts: (10, *length), feedback: Some(3), ..Line::default() };
                let outcome = run(&flow, line, PACKETS);
                assert_right(&flow, line, &outcome);
                assert!(outcome.longest_gap <= 20, "{} {line:?} {outcome:?}", flow.name);
            }
        }
    }
}

#[test]
fn reordering() {
    for flow in traffic::all().iter().filter(|flow| flow.protected) {
        for seed in 0..4 {
            let line = Line { seed, swaps: 50, loss: 20, feedback: Some(3), ..Line::default() };
            let outcome = run(flow, line, PACKETS);
            assert_right(flow, line, &outcome);
            assert!(outcome.longest_gap <= 40, "{} {line:?} {outcome:?}", flow.name);
        }
    }
}

#[test]
fn bit_errors() {
    for flow in traffic::all().iter().filter(|flow| flow.protected) {
        for seed in 0..4 {
            for bit_errors in [100, 1_000] {
                let line = Line { seed, bit_errors, feedback: Some(3), ..Line::default() };
                let outcome = run(flow, line, PACKETS);
                assert_right(flow, line, &outcome);
                assert!(outcome.longest_gap <= 40, "{} {line:?} {outcome:?}", flow.name);
            }
        }
    }
}

/// Without feedback too a damaged header costs no more than itself.
#[test]
fn bit_errors_without_feedback() {
    for flow in traffic::measured().iter().filter(|flow| flow.protected && !flow.name.ends_with("talk spurts")) {
        for seed in 0..4 {
            for bit_errors in [100, 1_000] {
                let line = Line { seed, bit_errors, ..Line::default() };
                let outcome = run(flow, line, PACKETS);
                assert_right(flow, line, &outcome);
                // Some damage does not matter: to the bits of a number that is generated here, say.
                assert!(outcome.delivered >= outcome.undamaged, "{} {line:?} {outcome:?}", flow.name);
            }
        }
    }
}

/// The checksum finds them behind a header whose CRC is right, and the context is as good as before. There is no
/// feedback to mend it with.
#[test]
fn damaged_payload_costs_no_other_packet() {
    // Packets that are not delivered say nothing of changes either: talk spurts may begin in damaged ones.
    for flow in traffic::measured().iter().filter(|flow| flow.protected && !flow.name.ends_with("talk spurts")) {
        for payload_errors in [50, 300] {
            for seed in 0..4 {
                let line = Line { seed, payload_errors, ..Line::default() };
                let outcome = run(flow, line, PACKETS);
                assert_right(flow, line, &outcome);
                assert_eq!(outcome.delivered, outcome.undamaged, "{} {line:?} {outcome:?}", flow.name);
            }
        }
    }
}

/// All packets that said that the identification is random were lost, and it reads as a UDP checksum of zero.
#[test]
fn a_misread_checksum_of_zero_proves_nothing() {
    let flows = traffic::all();
    let flow = flows.iter().find(|flow| flow.name == "IPv4/UDP/RTP, IP-ID constant").expect("there is one");
    let line = Line { seed: 121, loss: 100, feedback: Some(1), feedback_loss: 100, ..Line::default() };
    assert_eq!(run(flow, line, 20).wrong, 0);
}

#[test]
fn after_14_lost_packets_voice_is_whole_within_10() {
    for flow in traffic::measured().iter().filter(|flow| flow.profile == rohc::Profile::Rtp) {
        for seed in 0..50 {
            let line = Line { seed, bursts: (5, 14), feedback: Some(2), ..Line::default() };
            let outcome = run(flow, line, PACKETS);
            assert_right(flow, line, &outcome);
            assert!(outcome.longest_gap <= 10, "{} {line:?} {outcome:?}", flow.name);
        }
    }
}

/// Where no checksum covers the sequence number, the CRC-3 takes one in eight wrong ones, such as that of 16 packets
/// before. The time that went by tells them apart.
#[test]
fn after_a_burst_no_wrong_number_is_delivered_without_a_checksum_either() {
    // Here a burst also takes changes with it, which no clock tells.
    let changing = ["IPv4 in IPv4/UDP/RTP", "IPv6/AH/UDP", "IPv6/options that come and go/UDP/RTP", "IPv4/TCP"];
    let flows = traffic::all();
    for flow in flows.iter().filter(|flow| !flow.protected && !changing.contains(&flow.name)) {
        for length in [14, 16, 20, 40] {
            for seed in 0..4 {
                for feedback in [None, Some(2)] {
                    let line = Line { seed, bursts: (5, length), feedback, ..Line::default() };
                    let outcome = run(flow, line, PACKETS);
                    assert_eq!(outcome.wrong, 0, "{} {line:?} {outcome:?}", flow.name);
                    assert!(outcome.longest_gap <= 20, "{} {line:?} {outcome:?}", flow.name);
                }
            }
        }
    }
}
