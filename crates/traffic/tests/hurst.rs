//! Estimators against noise of known exponents, other models, and series that have no exponent.

#![expect(clippy::unwrap_used, reason = "a test may unwrap in its helpers")]

use engine::{Random, Span, Time};
use traffic::models::{Arrivals, Hurst, Model, Noise, OnOff, PacketRate};
use traffic::selfsimilar::{Estimator, FEWEST, FractionalNoise, Refusal};

const VALUES: usize = 1_024;
const SEEDS: u64 = 20;

/// In how many of 100 series the interval holds the exponent, and the largest error of a mean over 20 of them.
fn held(estimator: Estimator) -> (u32, f64) {
    let (mut held, mut most) = (0, 0.0f64);
    let mut random = Random::stream(11, "noise");
    for hurst in [0.5, 0.6, 0.7, 0.8, 0.9] {
        let mut noise = FractionalNoise::new(Hurst::new(hurst).unwrap(), VALUES);
        let mut series = Vec::new();
        let mut sum = 0.0;
        for seed in 0..SEEDS {
            noise.draw(&mut random, &mut series);
            let found = estimator.estimate(&series, &mut Random::stream(seed, "interval")).unwrap();
            assert!(found.low < found.hurst && found.hurst < found.high, "{found:?}");
            held += u32::from(found.holds(hurst));
            sum += found.hurst;
        }
        most = most.max((sum / SEEDS as f64 - hurst).abs());
    }
    (held, most)
}

// Of 100 intervals of 95 %, 88 or fewer hold with a chance of 1 in 250.
#[test]
fn intervals_hold_the_exponent_as_often_as_they_say() {
    for estimator in Estimator::ALL {
        let (held, error) = held(estimator);
        assert!(held > 88, "{estimator}: {held} of 100");
        // The mean of 20 estimates whose deviation is some 0.1 at most.
        assert!(error < 0.07, "{estimator}: off by {error}");
    }
}

#[test]
fn noise_that_comes_and_goes_has_an_exponent_below_one_half() {
    let mut noise = FractionalNoise::new(Hurst::new(0.2).unwrap(), 8_192);
    let mut series = Vec::new();
    noise.draw(&mut Random::stream(1, "noise"), &mut series);
    for estimator in [Estimator::Wavelet, Estimator::LocalWhittle, Estimator::Whittle] {
        let found = estimator.estimate(&series, &mut Random::stream(1, "interval")).unwrap();
        assert!((found.hurst - 0.2).abs() < 0.1, "{estimator}: {found:?}");
    }
}

/// Packets per slot.
fn counts(model: &Model, slot: Span, slots: u64, seed: u64) -> Vec<f64> {
    let mut counts = vec![0.0; slots as usize];
    let times = Arrivals::new(model, Time::ZERO, slot.times(slots), Random::stream(seed, "arrivals"));
    for time in times.take_while(|time| time.as_nanos() < slots * slot.as_nanos()) {
        counts[(time.as_nanos() / slot.as_nanos()) as usize] += 1.0;
    }
    counts
}

#[test]
fn poisson_packets_have_no_long_memory() {
    let model = Model::Poisson { rate: PacketRate::per_second(2_000) };
    let series = counts(&model, Span::from_millis(10), 8_192, 3);
    for estimator in Estimator::ALL {
        let found = estimator.estimate(&series, &mut Random::stream(1, "interval")).unwrap();
        assert!((found.hurst - 0.5).abs() < 0.12, "{estimator}: {found:?}");
    }
}

#[test]
fn packets_of_noise_have_the_exponent_that_was_asked_for() {
    let slot = Span::from_millis(10);
    for hurst in [0.6, 0.75, 0.9] {
        let exponent = Hurst::new(hurst).unwrap();
        // A hundred packets a slot, which vary by thirty: whole packets are no matter.
        let noise = Noise::new(PacketRate::per_second(10_000), 30.0, exponent, slot).unwrap();
        let series = counts(&Model::FractionalGaussianNoise(noise), slot, 4_096, 5);
        for estimator in Estimator::ALL {
            let found = estimator.estimate(&series, &mut Random::stream(1, "interval")).unwrap();
            assert!((found.hurst - hurst).abs() < 0.15, "{estimator}, H = {hurst}: {found:?}");
        }
        let found = Estimator::Whittle.estimate(&series, &mut Random::stream(1, "interval")).unwrap();
        assert!((found.hurst - hurst).abs() < 0.04, "H = {hurst}: {found:?}");
    }
}

#[test]
fn pareto_sources_have_the_exponent_that_their_shape_gives() {
    let (on, off) = (Span::from_millis(20), Span::from_millis(60));
    let sources = OnOff::new(PacketRate::per_second(4_000), 40, on, off, 1.4).unwrap();
    assert!((sources.hurst() - 0.8).abs() < 1e-12);
    // A limit for long times: slots are long against the times of sending. The mean of some seeds, since a rare long
    // time decides much in each.
    for estimator in [Estimator::Wavelet, Estimator::LocalWhittle] {
        let of = |seed| {
            let series = counts(&Model::ParetoOnOff(sources), Span::from_millis(100), 4_096, seed);
            estimator.estimate(&series, &mut Random::stream(1, "interval")).unwrap().hurst
        };
        let mean = (0..6).map(of).sum::<f64>() / 6.0;
        assert!((mean - 0.8).abs() < 0.08, "{estimator}: {mean}");
    }
}

#[test]
fn series_without_an_exponent_are_refused() {
    for estimator in Estimator::ALL {
        let of = |series: &[f64]| estimator.estimate(series, &mut Random::stream(1, "interval")).unwrap_err();
        assert_eq!(of(&[1.0; FEWEST - 1]), Refusal::Short { have: FEWEST - 1 });
        assert_eq!(of(&[]), Refusal::Short { have: 0 });
        assert_eq!(of(&[3.0; 1_000]), Refusal::Constant);
        let mut series: Vec<f64> = (0..1_000).map(f64::from).collect();
        series[500] = f64::NAN;
        assert_eq!(of(&series), Refusal::NotFinite);
        // Almost constant, an alternation, a single packet: whatever comes out, it is told or refused.
        let odd = [
            (0..1_000).map(|i| f64::from(i % 2)).collect::<Vec<f64>>(),
            (0..1_000).map(|i| f64::from(u8::from(i == 500))).collect(),
            (0..1_000).map(|i| f64::from(i) * 1e300).collect(),
        ];
        for series in odd {
            if let Ok(found) = estimator.estimate(&series, &mut Random::stream(1, "interval")) {
                assert!(found.hurst.is_finite() && found.low <= found.high, "{estimator}: {found:?}");
            }
        }
    }
}
