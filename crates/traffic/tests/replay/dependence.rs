//! What scaling does to long-range dependence: a trace of known Hurst exponent, scaled by eight.

use engine::{Random, Span, Time};
use traffic::models::{Arrivals, Hurst, Model, Noise, PacketRate};
use traffic::replay::{Instances, Over, ReplayConfig, Spacing};
use traffic::selfsimilar::{Estimator, Slots};

use crate::packets::{config, start, ticks};

const HURST: f64 = 0.85;
const COUNT: u32 = 8;
const LASTS: Span = Span::from_secs(40);

/// Times of packets of which those per 10 ms are fractional Gaussian noise.
fn noise(seed: u64) -> Vec<u64> {
    let rate = PacketRate::per_second(1_000);
    let noise = Noise::new(rate, 3.0, Hurst::new(HURST).unwrap(), Span::from_millis(10)).unwrap();
    let arrivals =
        Arrivals::new(&Model::FractionalGaussianNoise(noise), Time::ZERO, LASTS, Random::stream(seed, "made"));
    arrivals.map(Time::as_nanos).take_while(|time| *time < LASTS.as_nanos()).collect()
}

/// The second of two repetitions, when all instances run: packets per `slot`, and the share of packets that leave
/// with the one before.
fn scaled(times: &[u64], spacing: Spacing, count: u32, slot: Span) -> (Slots, f64) {
    let instances = Instances { over: Over::Pdn, count };
    let mut replay = start(ticks(times), &ReplayConfig { repetitions: 2, instances, spacing, ..config() }).unwrap();
    let begin = Time::from_nanos(5_000) + replay.period();
    let mut slots = Slots::new(begin, replay.period(), slot);
    let (mut before, mut same, mut packets) = (Time::ZERO, 0, 0);
    while let Some(item) = replay.next(Time::MAX) {
        slots.add(item.due, 1.0);
        if item.due > begin {
            packets += 1;
            same += u32::from(item.due == before);
            before = item.due;
        }
    }
    (slots, f64::from(same) / f64::from(packets))
}

/// Packets per time have the exponent of the trace, however it is scaled: shuffled, over times longer than blocks.
#[test]
fn all_spacings_keep_the_exponent() {
    for seed in 1..4 {
        let times = noise(seed);
        let hurst = |spacing, count| {
            let (slots, _) = scaled(&times, spacing, count, Span::from_millis(10));
            Estimator::LocalWhittle.estimate(slots.counts(), &mut Random::stream(1, "")).unwrap()
        };
        let once = hurst(Spacing::Copy, 1);
        // Packets are whole, which hides a little of what they follow.
        assert!((HURST - 0.1..HURST + 0.1).contains(&once.hurst), "{once:?}");
        for spacing in [Spacing::Copy, Spacing::JITTER, Spacing::SHUFFLE] {
            let more = hurst(spacing, COUNT);
            println!("{spacing:?}: {:.3} ({:.3} to {:.3}), once {:.3}", more.hurst, more.low, more.high, once.hurst);
            assert!(more.low > 0.6 && more.holds(once.hurst), "{spacing:?} {once:?} {more:?}");
        }
    }
}

/// Copies put zeros between the packets; the others hardly any.
#[test]
fn copies_alone_leave_together() {
    let times = noise(5);
    let same = |spacing| scaled(&times, spacing, COUNT, Span::from_millis(10)).1;
    let [copy, jitter, shuffle] = [Spacing::Copy, Spacing::JITTER, Spacing::SHUFFLE].map(same);
    println!("{copy} {jitter} {shuffle}");
    assert!((copy - 7.0 / 8.0).abs() < 0.001 && jitter < 0.001 && shuffle < 0.001);
}

/// Bursts grow with copies at all scales, with shuffled instances beyond a block, and with jitter nowhere.
#[test]
fn peaks_grow_as_said() {
    let times = noise(6);
    let dispersion = |spacing, count, slot| scaled(&times, spacing, count, slot).0.dispersion();
    let (short, long) = (Span::from_millis(1), Span::from_millis(500));
    let grown = |spacing, slot| dispersion(spacing, COUNT, slot) / dispersion(Spacing::Copy, 1, slot);
    for (spacing, at_short, at_long) in [
        (Spacing::Copy, 7.9..8.1, 7.9..8.1),
        (Spacing::SHUFFLE, 0.8..4.0, 6.0..8.5),
        (Spacing::JITTER, 0.5..1.5, 0.2..2.5),
    ] {
        let found = (grown(spacing, short), grown(spacing, long));
        println!("{spacing:?} {found:?}");
        assert!(at_short.contains(&found.0) && at_long.contains(&found.1), "{spacing:?} {found:?}");
    }
}
