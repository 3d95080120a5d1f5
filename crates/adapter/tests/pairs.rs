//! Packet pairs through two adapters: the slope of their separation over their size is the line's rate
//! for data, as the adapter's own counters say.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic too")]

mod common;

use adapter::AdapterConfig;
use common::{Pair, VOICE, datagram, millis};
use engine::{Span, Time};
use wire::Headers;

const SIZES: [usize; 11] = [60, 80, 100, 150, 200, 400, 600, 800, 1000, 1200, 1400];

/// Least squares: the slope, in seconds a byte.
fn slope(points: &[(f64, f64)]) -> f64 {
    let n = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let xy: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    let xx: f64 = points.iter().map(|point| (point.0 - x) * (point.0 - x)).sum();
    xy / xx
}

/// Rate by the slope, and by the counters: efficiency times what voice leaves of the line; in bit/s of
/// characters.
fn rates(voices: u64, rounds: u64) -> (f64, f64) {
    let mut pair = Pair::new(&AdapterConfig::default());
    let mut next: Vec<Time> = (0..voices).map(|voice| millis(2_000 + 61 * voice)).collect();
    let (mut number, mut pairs) = (0, Vec::new());
    let mut before = None;
    // The first round lets voices be found and contexts be made.
    let mut at = millis(6_000);
    for round in 0..=rounds {
        if round == 1 {
            pair.run(at);
            before = Some((pair.counters(0), at));
        }
        for (place, size) in SIZES.into_iter().enumerate() {
            while let Some((voice, due)) = next.iter().copied().enumerate().min_by_key(|(_, due)| *due)
                && due < at
            {
                pair.send(due, 0, datagram(0, 6000 + voice as u16, number, 33));
                number += 1;
                next[voice] += Span::from_nanos(VOICE);
            }
            for _ in 0..2 {
                pair.send(at, 0, datagram(0, 9, number, size - 48));
                number += 1;
            }
            if round > 0 {
                pairs.push((number - 2, size));
            }
            // Long enough for both, and out of step with the voices.
            at += Span::from_millis(15_000 + 37 * (round * 11 + place as u64) % 203);
        }
    }
    pair.run(at);
    let (before, from) = before.unwrap();
    let after = pair.counters(0);
    let arrivals: std::collections::BTreeMap<u32, Time> = pair
        .frames(1)
        .filter(|(_, frame)| Headers::parse(frame).ip.unwrap().ports == Some((9, 9)))
        .map(|(at, frame)| (u32::from_be_bytes(*frame[62..].first_chunk().unwrap()), at))
        .collect();
    let points: Vec<(f64, f64)> = pairs
        .iter()
        .map(|(first, size)| (*size as f64, arrivals[&(first + 1)].since(arrivals[first]).as_secs_f64()))
        .collect();
    let of = |field: fn(&adapter::LineCounters) -> u64| (field(&after.line) - field(&before.line)) as f64;
    let efficiency = of(|l| l.data) / (of(|l| l.data) + of(|l| l.framing) + of(|l| l.held));
    let voice = of(|l| l.real_time) / at.since(from).as_secs_f64();
    (8.0 / slope(&points), efficiency * (960.0 - voice) * 8.0)
}

#[test]
fn the_slope_is_what_the_counters_say() {
    for voices in 0..=3 {
        let (slope, counted) = rates(voices, 12);
        let apart = slope / counted - 1.0;
        assert!(apart.abs() < 0.02, "{voices} voices: {slope:.0} bit/s by the slope, {counted:.0} by the counters");
    }
}
