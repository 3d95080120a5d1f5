//! Telling flows apart.

use core::net::IpAddr;

use engine::Random;
use wire::{Fragment, Headers};

/// Hashes frames by flow: addresses, protocol and ports (the 5-tuple of RFC 8290 4.1.1).
///
/// All fragments of an IP packet are one flow, so that none overtakes another: they are told by
/// addresses and protocol alone, as Linux's flow dissector does by default. Frames that are not IP
/// are told by their Ethernet addresses and type. Inside a tunnel nothing is looked at; VXLAN's
/// source port tells inner flows apart (RFC 7348 5).
///
/// The hash is keyed, so that two flows that fall together with one seed do not with another. It
/// is not made to withstand somebody who knows the key.
#[derive(Clone, Debug)]
pub struct Classifier {
    keys: [u64; 2],
}

impl Classifier {
    /// A classifier with a key drawn from `random`.
    #[must_use]
    pub fn new(random: &mut Random) -> Self {
        Self { keys: [random.bits(), random.bits()] }
    }

    /// The flow's hash.
    #[must_use]
    pub fn flow(&self, frame: &[u8]) -> u64 {
        let headers = Headers::parse(frame);
        let Some(ip) = headers.ip else {
            let mut addresses = [0; 16];
            let there = frame.len().min(12);
            addresses[..there].copy_from_slice(&frame[..there]);
            return self.mix(u64::from(headers.ethertype), u128::from_le_bytes(addresses), 0);
        };
        let bits = |address| match address {
            IpAddr::V4(v4) => u128::from(v4.to_bits()),
            IpAddr::V6(v6) => v6.to_bits(),
        };
        let (source, destination) = match ip.fragment {
            Fragment::Whole => ip.ports.unwrap_or_default(),
            Fragment::First | Fragment::Later => (0, 0),
        };
        let rest = (u64::from(ip.protocol) << 32) | (u64::from(source) << 16) | u64::from(destination);
        self.mix(rest, bits(ip.source), bits(ip.destination))
    }

    /// The flow's hash brought into 0 to `buckets - 1`; 0 if `buckets` is 0.
    #[must_use]
    pub fn bucket(&self, frame: &[u8], buckets: u32) -> u32 {
        ((u128::from(self.flow(frame)) * u128::from(buckets)) >> 64) as u32
    }

    /// Multiplies and folds word by word, as the hashes of the wyhash family do.
    fn mix(&self, first: u64, second: u128, third: u128) -> u64 {
        let fold = |a: u64, b: u64| {
            let wide = u128::from(a) * u128::from(b);
            wide as u64 ^ (wide >> 64) as u64
        };
        let [start, factor] = [self.keys[0], self.keys[1] | 1];
        let words = [first, second as u64, (second >> 64) as u64, third as u64, (third >> 64) as u64];
        let hash = words.iter().fold(start, |hash, &word| fold(hash ^ word, factor).wrapping_add(start));
        fold(hash, factor)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;
    use core::net::Ipv4Addr;

    use super::*;
    use wire::frame::{Ethernet, IpHeader, Ipv4, udp};
    use wire::{Ecn, Udp};

    fn frame(host: u16, source: u16, destination: u16) -> Vec<u8> {
        let ethernet = Ethernet { destination: [2; 6], source: [4; 6] };
        let [high, low] = host.to_be_bytes();
        let ip = IpHeader::V4(Ipv4 {
            source: Ipv4Addr::new(10, 0, high, low),
            destination: Ipv4Addr::new(10, 1, 0, 1),
            dscp: 0,
            ecn: Ecn::NotCapable,
            identification: 7,
            dont_fragment: false,
            ttl: 64,
        });
        let mut bytes = Vec::new();
        udp(&mut bytes, &ethernet, &ip, Udp { source, destination }, &[0; 40]).unwrap();
        bytes
    }

    #[test]
    fn a_flow_is_told_by_its_five_tuple_and_key() {
        let classifier = Classifier::new(&mut Random::stream(1, "classify"));
        let other_key = Classifier::new(&mut Random::stream(2, "classify"));
        let flow = classifier.flow(&frame(1, 2, 3));
        assert_eq!(flow, classifier.flow(&frame(1, 2, 3)));
        assert_ne!(flow, classifier.flow(&frame(2, 2, 3)));
        assert_ne!(flow, classifier.flow(&frame(1, 3, 3)));
        assert_ne!(flow, classifier.flow(&frame(1, 2, 4)));
        assert_ne!(flow, other_key.flow(&frame(1, 2, 3)));
    }

    #[test]
    fn fragments_of_a_packet_are_one_flow() {
        let classifier = Classifier::new(&mut Random::stream(1, "classify"));
        let (mut first, mut later) = (frame(1, 2, 3), frame(1, 9, 9));
        first[14 + 6] = 0x20;
        later[14 + 7] = 100;
        assert_eq!(classifier.flow(&first), classifier.flow(&later));
    }

    #[test]
    fn flows_spread_evenly_over_buckets() {
        // 64,000 flows that differ little, in 64 buckets. Chi-square with 63 degrees of freedom,
        // 0.1 % in the upper tail: 103.4 (Wilson and Hilferty 1931, z = 3.090).
        let k = 63.0_f64;
        let critical = k * (1.0 - 2.0 / (9.0 * k) + 3.090 * libm::sqrt(2.0 / (9.0 * k))).powi(3);
        let classifier = Classifier::new(&mut Random::stream(3, "classify"));
        let mut seen = vec![0.0_f64; 64];
        for host in 0..80 {
            for port in 0..800 {
                seen[classifier.bucket(&frame(host, port, 443), 64) as usize] += 1.0;
            }
        }
        let chi_square: f64 = seen.iter().map(|n| (n - 1_000.0) * (n - 1_000.0) / 1_000.0).sum();
        assert!(chi_square < critical, "{chi_square} of {critical}");
    }
}
