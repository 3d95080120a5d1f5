//! What must hold for header compression: what goes in comes out, and no octets of a line make it panic.
//!
//! The input is a channel's parameters in one octet, and then steps: what to do, a length, octets.

use std::time::Duration;

use rohc::{Compressor, CompressorConfig, Decompressor, DecompressorConfig, Mode};

/// The ends of a channel.
struct Channel {
    compressor: Compressor,
    decompressor: Decompressor,
}

impl Channel {
    fn new(parameters: u8) -> Self {
        let max_cid = [15, 0, 300, 16_383][usize::from(parameters & 3)];
        let mode = if parameters & 4 == 0 { Mode::Optimistic } else { Mode::Unidirectional };
        let mrru = if parameters & 8 == 0 { 0 } else { 2_000 };
        Self {
            compressor: Compressor::new(CompressorConfig { max_cid, mrru, ..Default::default() }),
            decompressor: Decompressor::new(DecompressorConfig { max_cid, mode, mrru, ..Default::default() }),
        }
    }

    /// Carries feedback back. On a damaged channel it may be of no use.
    fn carry_feedback(&mut self, now: Duration) {
        let mut feedback = Vec::new();
        self.decompressor.take_feedback(&mut feedback);
        let _ = self.compressor.feedback(now, &feedback);
    }
}

/// `data` as steps on a channel that keeps everything, and on one that does not.
pub(crate) fn rohc(data: &[u8]) {
    let Some((parameters, mut rest)) = data.split_first() else { return };
    let (mut sound, mut damaged) = (Channel::new(*parameters), Channel::new(*parameters));
    let mut template = Vec::new();
    let mut now = Duration::ZERO;
    while let [what, length, more @ ..] = rest {
        let (octets, behind) = more.split_at(usize::from(*length).min(more.len()));
        rest = behind;
        now += Duration::from_millis(u64::from(*what) * 5);
        match what % 8 {
            // The line says anything.
            0 => {
                let mut out = Vec::new();
                if damaged.decompressor.decompress(now, octets, &mut out).is_err() {
                    assert!(out.is_empty());
                }
                damaged.carry_feedback(now);
            }
            // So does the way back.
            1 => {
                let _ = damaged.compressor.feedback(now, octets);
            }
            // A packet that may be none.
            2 => exchange(&mut sound, &mut damaged, now, octets, 0),
            // Another packet to vary.
            3 => template = octets.to_vec(),
            // The last packet, varied: pairs of a place and what to add to the octet there; made right again.
            _ => {
                for pair in octets.chunks_exact(2) {
                    let at = usize::from(pair[0]);
                    if at >= template.len() {
                        template.resize((at + 1).min(200), 0);
                    }
                    if let Some(octet) = template.get_mut(at) {
                        *octet = octet.wrapping_add(pair[1]);
                    }
                }
                let mut packet = template.clone();
                repair(&mut packet);
                exchange(&mut sound, &mut damaged, now, &packet, usize::from(*what / 8));
            }
        }
    }
}

/// Sends a packet over both channels; the damaged one loses some and turns bits of others.
fn exchange(sound: &mut Channel, damaged: &mut Channel, now: Duration, packet: &[u8], damage: usize) {
    let (mut line, mut out) = (Vec::new(), Vec::new());
    if sound.compressor.compress(now, packet, &mut line).is_ok() {
        let result = sound.decompressor.decompress(now, &line, &mut out);
        assert!(result.is_ok(), "{result:?}: {line:02x?} for {packet:02x?}");
        assert_eq!(out, packet, "{line:02x?}");
        sound.carry_feedback(now);
    }
    line.clear();
    if damaged.compressor.compress(now, packet, &mut line).is_ok() && damage % 4 != 1 {
        if damage % 4 == 2 {
            let at = damage * 7 % line.len();
            line[at] ^= 1 << (damage % 8);
        }
        out.clear();
        let _ = damaged.decompressor.decompress(now, &line, &mut out);
        damaged.carry_feedback(now);
    }
}

/// Gives IP headers and a TCP header behind them the lengths and checksums that they should have, as far as
/// there are such headers.
fn repair(packet: &mut [u8]) {
    use wire::checksum::Sum;
    let Some(first) = packet.first().copied() else { return };
    let (start, pseudo) = match first >> 4 {
        4 if packet.len() >= 20 => {
            let length = packet.len() as u16;
            packet[0] = 0x45;
            packet[2..4].copy_from_slice(&length.to_be_bytes());
            packet[6] &= 0x40;
            packet[7] = 0;
            packet[10..12].fill(0);
            let checksum = Sum::of(&packet[..20]).checksum();
            packet[10..12].copy_from_slice(&checksum.to_be_bytes());
            (20, Sum::of(&packet[12..20]))
        }
        6 if packet.len() >= 40 => {
            let length = packet.len() as u16 - 40;
            packet[4..6].copy_from_slice(&length.to_be_bytes());
            (40, Sum::of(&packet[8..40]))
        }
        _ => return,
    };
    let protocol = if start == 20 { packet[9] } else { packet[6] };
    let length = (packet.len() - start) as u16;
    if protocol == 6 && length >= 20 {
        let segment = &mut packet[start..];
        let words = (segment[12] >> 4).clamp(5, (length / 4).min(15) as u8);
        segment[12] = segment[12] & 0x0f | words << 4;
        segment[16..18].fill(0);
        let sum = pseudo + Sum::of(&[0, 6]) + Sum::of(&length.to_be_bytes()) + Sum::of(segment);
        segment[16..18].copy_from_slice(&sum.checksum().to_be_bytes());
    }
}
