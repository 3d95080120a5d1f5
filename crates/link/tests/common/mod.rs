//! Packets, a driver that keeps the contract's order of calls, and the statistics that judge.

#![allow(dead_code, reason = "not every test file needs all of it")]
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic too")]

use std::net::Ipv4Addr;

use engine::{DropReason, Element, Output, Packet, Rate, Span, Time};
use link::{Branch, DelayModel, Direction, DirectionConfig, PipeConfig, RateModel, Selector};
use queue::Network;
use wire::frame::{Ethernet, IpHeader, Ipv4, udp};
use wire::{Ecn, Udp};

/// A UDP packet over IPv4 with a network layer of `length` bytes, and so a frame of 14 more.
pub(crate) fn packet(id: u64, length: usize) -> Packet {
    packet_of(id, length, [10, 0, 0, 1], 1_024, 0)
}

pub(crate) fn packet_of(id: u64, length: usize, source: [u8; 4], port: u16, dscp: u8) -> Packet {
    let ethernet = Ethernet { destination: [2; 6], source: [4; 6] };
    let ip = IpHeader::V4(Ipv4 {
        source: Ipv4Addr::from(source),
        destination: Ipv4Addr::new(10, 0, 0, 2),
        dscp,
        ecn: Ecn::NotCapable,
        identification: 0,
        dont_fragment: true,
        ttl: 64,
    });
    let mut bytes = Vec::new();
    let payload: Vec<u8> = (28..length).map(|at| (at as u64 ^ id) as u8).collect();
    udp(&mut bytes, &ethernet, &ip, Udp { source: port, destination: 443 }, &payload).unwrap();
    Packet { id, ..Packet::new(bytes) }
}

pub(crate) fn at(nanos: u64) -> Time {
    Time::from_nanos(nanos)
}

pub(crate) fn ms(millis: u64) -> Span {
    Span::from_millis(millis)
}

pub(crate) fn rate(text: &str) -> Rate {
    text.parse().unwrap()
}

/// What is sent at a constant rate with no delay.
pub(crate) fn rated(text: &str) -> PipeConfig {
    PipeConfig { rate: Some(RateModel::Constant(rate(text))), ..PipeConfig::default() }
}

pub(crate) fn delayed(delay: DelayModel) -> PipeConfig {
    PipeConfig { delay, ..PipeConfig::default() }
}

pub(crate) fn network(text: &str, prefix: u8) -> Option<Network> {
    Some(Network { address: text.parse().unwrap(), prefix })
}

pub(crate) fn branch(name: &str, selector: Selector, delay: u64) -> Branch {
    Branch { name: name.into(), selector, pipe: delayed(DelayModel::Constant(ms(delay))) }
}

/// A direction of one pipe.
pub(crate) fn direction(pipe: PipeConfig, seed: u64) -> Direction {
    Direction::new(&DirectionConfig { branches: vec![], pipe }, seed, "radio").unwrap()
}

/// What became of a packet, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fate {
    pub(crate) at: Time,
    pub(crate) packet: Packet,
    pub(crate) dropped: Option<DropReason>,
}

/// Polls until there is nothing more, as of `now`.
pub(crate) fn poll(direction: &mut Direction, now: Time, fates: &mut Vec<Fate>) {
    while let Some(output) = direction.poll() {
        let (packet, dropped) = match output {
            Output::Transmit { port, packet } => {
                assert_eq!(port, 0);
                assert_eq!(packet.launch, now, "sent at another time than its own");
                (packet, None)
            }
            Output::Drop { reason, packet } => (packet, Some(reason)),
            other => panic!("{other:?}"),
        };
        fates.push(Fate { at: now, packet, dropped });
    }
}

/// Does what is due up to and including `until`.
pub(crate) fn advance(direction: &mut Direction, until: Time, fates: &mut Vec<Fate>) {
    while let Some(deadline) = direction.deadline().filter(|deadline| *deadline <= until) {
        direction.tick(deadline);
        poll(direction, deadline, fates);
        assert!(direction.deadline().is_none_or(|next| next > deadline), "a deadline came twice");
    }
}

/// Hands in packets at their times, which must be in order, and waits until all are through.
pub(crate) fn drive(direction: &mut Direction, packets: impl IntoIterator<Item = (Time, Packet)>) -> Vec<Fate> {
    let mut fates = Vec::new();
    for (time, packet) in packets {
        // Inputs of an instant come before its tick.
        advance(direction, time - Span::from_nanos(1), &mut fates);
        direction.handle(time, 0, Packet { arrived: time, ..packet });
        poll(direction, time, &mut fates);
    }
    advance(direction, Time::MAX, &mut fates);
    fates
}

/// Packets of `length` bytes, one each `gap` from time zero on.
pub(crate) fn every(gap: Span, length: usize, number: u64) -> impl Iterator<Item = (Time, Packet)> {
    (0..number).map(move |n| (Time::ZERO + gap.times(n), packet(n, length)))
}

/// The quantile of chi-square that is exceeded with the chance that the normal quantile `z` is
/// (Wilson and Hilferty 1931).
pub(crate) fn chi_square_quantile(freedom: usize, z: f64) -> f64 {
    let k = freedom as f64;
    k * (1.0 - 2.0 / (9.0 * k) + z * (2.0 / (9.0 * k)).sqrt()).powi(3)
}

/// One-sided 1 %.
pub(crate) const Z_1_PERCENT: f64 = 2.326_348;
/// Two-sided 1 %: the bounds of a 99 % interval.
pub(crate) const Z_99: f64 = 2.575_829;

/// Pearson's test at 1 %: panics if the counts are not as expected. Bins with fewer than five
/// expected are put together with the one before.
pub(crate) fn assert_distribution(what: &str, bins: &[(f64, f64)]) {
    let mut merged: Vec<(f64, f64)> = Vec::new();
    for &(seen, expected) in bins {
        match merged.last_mut() {
            Some(last) if last.1 < 5.0 || expected < 5.0 => *last = (last.0 + seen, last.1 + expected),
            _ => merged.push((seen, expected)),
        }
    }
    assert!(merged.len() > 1, "{what}: too little to judge");
    let chi_square: f64 = merged.iter().map(|(seen, expected)| (seen - expected).powi(2) / expected).sum();
    let critical = chi_square_quantile(merged.len() - 1, Z_1_PERCENT);
    assert!(chi_square < critical, "{what}: {chi_square} of {critical} with {} bins: {merged:?}", merged.len());
}
