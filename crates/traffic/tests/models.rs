//! Models offer what they say: over a minute, and as they vary by themselves.

#![expect(clippy::unwrap_used, reason = "a test may unwrap in its helpers")]

use engine::{Random, Span, Time};
use traffic::models::{Arrivals, Hurst, Model, Noise, OnOff, PacketRate, Step};

const MINUTE: Span = Span::from_secs(60);

fn arrivals(model: &Model, seed: u64) -> Arrivals {
    Arrivals::new(model, Time::from_nanos(77), MINUTE, Random::stream(seed, "arrivals"))
}

/// Packets in the first `over`, which must come in order.
fn offered(model: &Model, over: Span, seed: u64) -> u64 {
    let end = Time::from_nanos(77) + over;
    let mut before = Time::ZERO;
    arrivals(model, seed)
        .take_while(|time| {
            assert!(*time >= before, "{time} comes after {before}");
            before = *time;
            *time < end
        })
        .count() as u64
}

fn poisson(rate: u64) -> Model {
    Model::Poisson { rate: PacketRate::per_second(rate) }
}

fn on_off(rate: u64, sources: usize) -> OnOff {
    let (on, off) = (Span::from_millis(100), Span::from_millis(300));
    OnOff::new(PacketRate::per_second(rate), sources, on, off, 1.4).unwrap()
}

fn noise(rate: u64, deviation: f64) -> Noise {
    let slot = Span::from_millis(10);
    Noise::new(PacketRate::per_second(rate), deviation, Hurst::new(0.8).unwrap(), slot).unwrap()
}

#[test]
fn steady_packets_are_exact_over_a_minute() {
    for rate in [1, 3, 999, 25_000, 333_333] {
        let model = Model::Steady { rate: PacketRate::per_second(rate) };
        assert_eq!(offered(&model, MINUTE, 1), 60 * rate);
    }
    // The last packet of a period of a rate that does not divide it: floor(k × 1 s / 7).
    let sevenths = Model::Steady { rate: PacketRate::per_second(7) };
    let times: Vec<u64> = arrivals(&sevenths, 1).take(9).map(Time::as_nanos).collect();
    assert_eq!(times[..3], [77, 142_857_219, 285_714_362]);
    assert_eq!(times[7], 77 + 1_000_000_000);
}

#[test]
fn no_rate_has_no_packets() {
    let never = PacketRate::ZERO;
    for model in [
        Model::Steady { rate: never },
        Model::Poisson { rate: never },
        Model::Steps { steps: Vec::new() },
        Model::ParetoOnOff(OnOff::new(never, 3, MINUTE, MINUTE, 1.5).unwrap()),
        Model::FractionalGaussianNoise(noise(0, 1.0)),
    ] {
        assert_eq!(arrivals(&model, 1).next(), None, "{model:?}");
    }
}

#[test]
fn steps_lose_nothing_between_them() {
    // 10.5 packets a step: without what is carried over it would be 10 or 11 in each.
    let steps = vec![Step { rate: PacketRate::per_second(21), lasts: Span::from_millis(500) }; 101];
    let model = Model::Steps { steps };
    let seconds = Span::from_secs(50);
    assert!(offered(&model, seconds, 1).abs_diff(21 * 50) <= 1);
    // A step too short for a packet still counts: 40 steps of a quarter packet.
    let mut steps = vec![Step { rate: PacketRate::per_second(10), lasts: Span::from_millis(25) }; 40];
    steps.push(Step { rate: PacketRate::ZERO, lasts: Span::ZERO });
    assert_eq!(offered(&Model::Steps { steps }, MINUTE, 1), 10);
    // A pause keeps what was owed before it.
    let model = Model::Steps {
        steps: vec![
            Step { rate: PacketRate::per_second(1), lasts: Span::from_millis(1_500) },
            Step { rate: PacketRate::ZERO, lasts: Span::from_secs(3) },
            Step { rate: PacketRate::per_second(1), lasts: Span::from_secs(1) },
        ],
    };
    let times: Vec<u64> = arrivals(&model, 1).take(3).map(|time| time.as_nanos() - 77).collect();
    assert_eq!(times, [0, 1_000_000_000, 5_000_000_000]);
}

#[test]
fn a_ladder_rises_step_by_step() {
    let model = Model::ladder(100, 50, Span::from_secs(2), 3);
    let at = |seconds| offered(&model, Span::from_secs(seconds), 1);
    assert_eq!([at(2), at(4), at(6), at(8)], [200, 500, 900, 1_300]);
}

/// Mean and standard deviation of what runs with different seeds offered in `over`.
fn spread(model: &Model, over: Span, runs: u64) -> (f64, f64) {
    let counts: Vec<f64> = (0..runs).map(|seed| offered(model, over, seed) as f64).collect();
    let mean = counts.iter().sum::<f64>() / runs as f64;
    let squares: f64 = counts.iter().map(|count| (count - mean) * (count - mean)).sum();
    (mean, (squares / (runs - 1) as f64).sqrt())
}

/// The mean over `runs` is within four of its standard errors, and the spread within `share` of the model's.
fn holds(model: &Model, over: Span, runs: u64, share: f64) {
    let (mean, spread) = spread(model, over, runs);
    let (expected, deviation) = (model.expected(over), model.deviation(over));
    let error = deviation / (runs as f64).sqrt();
    assert!((mean - expected).abs() < 4.0 * error, "mean {mean}, not {expected} ± {error}: {model:?}");
    assert!((spread / deviation - 1.0).abs() < share, "deviation {spread}, not {deviation}: {model:?}");
}

// A deviation of n runs of normal counts is itself off by 1/√(2n): 7 % for 100 runs. Four times that is allowed.

#[test]
fn poisson_packets_vary_as_they_should() {
    holds(&poisson(1_000), MINUTE, 100, 0.28);
    holds(&Model::Poisson { rate: PacketRate::new(1, MINUTE).unwrap() }, Span::from_secs(6_000), 100, 0.28);
}

#[test]
fn noise_varies_as_it_should() {
    holds(&Model::FractionalGaussianNoise(noise(1_000, 3.0)), MINUTE, 100, 0.28);
}

#[test]
fn noise_that_often_wants_less_than_nothing_still_keeps_its_rate() {
    // A slot's deviation is twice its mean: cut at zero, slots would give half as much again.
    let model = Model::FractionalGaussianNoise(noise(1_000, 20.0));
    let (mean, _) = spread(&model, MINUTE, 60);
    let allowed = 4.0 * model.deviation(MINUTE) / 60f64.sqrt();
    assert!((mean - 60_000.0).abs() < allowed, "{mean} ± {allowed}");
}

#[test]
fn pareto_sources_vary_as_they_should() {
    // Sums of heavy-tailed times are far from normal, and the formula is a limit: half as much is allowed.
    holds(&Model::ParetoOnOff(on_off(1_000, 50)), MINUTE, 100, 0.5);
    // A minute is short for sources that change once an hour: what is drawn at the start decides.
    let hour = Span::from_secs(3_600);
    let slow = OnOff::new(PacketRate::per_second(1_000), 50, hour, hour, 1.4).unwrap();
    holds(&Model::ParetoOnOff(slow), MINUTE, 100, 0.28);
}

#[test]
fn a_source_sends_at_its_peak_or_not_at_all() {
    let model = on_off(100, 1);
    assert_eq!(model.peak(), 400.0);
    let times: Vec<u64> = arrivals(&Model::ParetoOnOff(model), 3).take(5_000).map(Time::as_nanos).collect();
    let gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.iter().all(|gap| *gap >= 2_500_000));
    let paused = gaps.iter().filter(|gap| **gap > 2_500_000).count();
    // 40 packets in a mean time of sending.
    assert!((50..300).contains(&paused), "{paused} pauses");
}

#[test]
fn the_same_seed_gives_the_same_times() {
    for model in [poisson(500), Model::ParetoOnOff(on_off(500, 20)), Model::FractionalGaussianNoise(noise(500, 2.0))] {
        let times = |seed| arrivals(&model, seed).take(2_000).collect::<Vec<_>>();
        assert_eq!(times(1), times(1));
        assert_ne!(times(1), times(2));
    }
}

#[test]
fn times_go_on_beyond_what_was_asked_for() {
    let model = Model::FractionalGaussianNoise(noise(100, 0.5));
    let start = Time::from_nanos(77);
    let mut arrivals = Arrivals::new(&model, start, Span::from_millis(5), Random::stream(1, "short"));
    let end = start + MINUTE;
    let count = arrivals.by_ref().take_while(|time| *time < end).count() as f64;
    assert!((count - 6_000.0).abs() < 4.0 * model.deviation(MINUTE), "{count}");
}

#[test]
fn taking_a_time_allocates_nothing() {
    for model in [
        Model::Steady { rate: PacketRate::per_second(500) },
        Model::ladder(100, 50, Span::from_millis(300), 9),
        poisson(500),
        Model::ParetoOnOff(on_off(500, 20)),
        Model::FractionalGaussianNoise(noise(500, 2.0)),
    ] {
        let mut arrivals = arrivals(&model, 1);
        let allocated = allocation_counter::measure(|| {
            arrivals.by_ref().take(2_000).for_each(drop);
        });
        assert_eq!(allocated.count_total, 0, "{model:?}");
    }
}
