//! What multiplying a trace does to its long-range dependence.

#![expect(clippy::unwrap_used, reason = "a test may unwrap in its helpers")]

use engine::{Random, Span, Time};
use traffic::models::{Arrivals, Hurst, Model, Noise, PacketRate};
use traffic::selfsimilar::{Case, Estimator, Examination, Examine, ExamineError, Slots, Way, examine};
use traffic::times::TimedPacket;

const SLOT: Span = Span::from_millis(10);

/// A trace whose packets per slot have H = 0.85.
fn trace() -> Vec<TimedPacket> {
    let hurst = Hurst::new(0.85).unwrap();
    let model = Model::FractionalGaussianNoise(Noise::new(PacketRate::per_second(800), 3.0, hurst, SLOT).unwrap());
    let lasts = Span::from_secs(20);
    Arrivals::new(&model, Time::ZERO, lasts, Random::stream(4, "arrivals"))
        .take_while(|time| *time < Time::ZERO + lasts)
        .map(|time| TimedPacket { time, bytes: 100 })
        .collect()
}

const WHAT: Examine = Examine { slot: Some(SLOT), bytes: false, instances: 5, repetitions: 4 };

fn case(examination: &Examination, way: Way) -> &Case {
    examination.cases.iter().find(|case| case.way == way).unwrap()
}

fn hurst(case: &Case, estimator: Estimator) -> f64 {
    case.hurst.iter().find(|(here, _)| *here == estimator).unwrap().1.as_ref().unwrap().hurst
}

#[test]
fn what_scaling_keeps_and_what_it_does_not() {
    let trace = trace();
    let found = examine(&trace, &WHAT, &Random::stream(1, "examine")).unwrap();
    assert_eq!(found.packets, trace.len() as u64);
    assert_eq!(found.bytes, 100 * trace.len() as u64);
    let of = |way| case(&found, way);
    let original = of(Way::Original);
    assert_eq!(original.slots, 1_999);
    for estimator in [Estimator::Wavelet, Estimator::LocalWhittle] {
        // Offsets and shuffled gaps keep the exponent, within what such a length can tell.
        for way in [Way::Original, Way::Jittered, Way::Shuffled] {
            let hurst = hurst(of(way), estimator);
            assert!((hurst - 0.85).abs() < 0.2, "{} by {estimator}: {hurst}", way.name());
        }
        // Copies have it exactly.
        assert_eq!(hurst(of(Way::Copied), estimator), hurst(original, estimator));
    }
    // Five copies vary 25 times as much with five times the mean; five users who know nothing of each other vary
    // as much, for their mean, as one.
    assert_eq!(of(Way::Copied).dispersion, 5.0 * original.dispersion);
    let jittered = of(Way::Jittered).dispersion / original.dispersion;
    assert!((0.3..3.0).contains(&jittered), "{jittered}");

    // Figure 5.7: gaps of zero among the copies, everything four times in the repetition.
    let zeros = |way: Way| of(way).histogram[0];
    let n = trace.len() as u64 - 1;
    assert_eq!(zeros(Way::Copied), zeros(Way::Original) + 4 * n);
    assert_eq!(zeros(Way::CopiedAndRepeated), 4 * zeros(Way::Copied));
    assert_eq!(of(Way::Repeated).histogram.iter().sum::<u64>(), 4 * n);
    // The sum of correlations rises above what chance gives. Among copies the regular zeros correlate so much that
    // it hardly differs from that of the same gaps in any order, copied: they hide what the trace has.
    let above_chance = |way: Way| {
        let last = |sum: &Option<Vec<(u64, f64)>>| sum.as_ref().unwrap().last().unwrap().1;
        last(&of(way).sum) / last(&of(way).chance)
    };
    assert!(above_chance(Way::Original) > 2.0, "{}", above_chance(Way::Original));
    assert!(above_chance(Way::Copied) < 1.1, "{}", above_chance(Way::Copied));
}

#[test]
fn copies_have_the_exponents_that_are_told_of_them() {
    // The cases with copies take over the estimates of those without: here they are made.
    let trace = trace();
    let mut slots = Slots::new(Time::ZERO, Span::from_secs(19), SLOT);
    let mut copies = slots.clone();
    for packet in &trace {
        slots.add(packet.time, 1.0);
        (0..5).for_each(|_| copies.add(packet.time, 1.0));
    }
    assert!((copies.dispersion() / slots.dispersion() - 5.0).abs() < 1e-9);
    for estimator in Estimator::ALL {
        let of = |slots: &Slots| estimator.estimate(slots.counts(), &mut Random::stream(1, "interval")).unwrap();
        let (one, five) = (of(&slots), of(&copies));
        assert!((one.hurst - five.hurst).abs() < 1e-4, "{estimator}: {} and {}", one.hurst, five.hurst);
        assert!((one.low - five.low).abs() < 1e-4 && (one.high - five.high).abs() < 1e-4);
    }
}

#[test]
fn bytes_are_counted_where_asked() {
    let mut trace = trace();
    // Large packets in the first half: the series of packets does not know.
    let half = trace.len() / 2;
    trace[..half].iter_mut().for_each(|packet| packet.bytes = 1_500);
    let of = |bytes| examine(&trace, &Examine { bytes, ..WHAT }, &Random::stream(1, "examine")).unwrap();
    let (packets, bytes) = (of(false), of(true));
    let dispersion = |found: &Examination| case(found, Way::Original).dispersion;
    assert!(dispersion(&bytes) > 100.0 * dispersion(&packets));
}

#[test]
fn traces_that_tell_nothing_are_refused() {
    let at = |nanos: &[u64]| -> Vec<TimedPacket> {
        nanos.iter().map(|nanos| TimedPacket { time: Time::from_nanos(*nanos), bytes: 0 }).collect()
    };
    let refused = |trace: &[TimedPacket]| examine(trace, &WHAT, &Random::stream(1, "examine")).unwrap_err();
    assert_eq!(refused(&[]), ExamineError::Few(0));
    assert_eq!(refused(&at(&[1; 15])), ExamineError::Few(15));
    assert_eq!(refused(&at(&[1; 20])), ExamineError::NoTime);
    let days: Vec<u64> = (0..20).map(|day| day * 2 * 86_400_000_000_000).collect();
    assert!(matches!(refused(&at(&days)), ExamineError::Replay(_)));
    // A few packets have gaps, but not the slots that an exponent needs.
    let few: Vec<u64> = (0..20).map(|i| i * i * 1_000).collect();
    let found = examine(&at(&few), &Examine { slot: None, ..WHAT }, &Random::stream(1, "examine")).unwrap();
    assert!(found.cases[0].hurst.iter().all(|(_, estimate)| estimate.is_err()));
    assert!(found.cases[0].sum.is_some());
}
