//! Delays: each model's distribution, and order kept or not.

mod common;

use common::{Fate, Z_99, assert_distribution, at, delayed, direction, drive, every, ms, packet};
use engine::{Element, Packet, Span, Time};
use link::{Change, DelayModel, Direction, Empirical, PipeConfig, Timeline};

fn delay(fate: &Fate) -> Span {
    fate.at.since(fate.packet.arrived)
}

/// Delays of packets so far apart that none waits for another, in nanoseconds.
fn drawn(model: DelayModel, number: u64) -> Vec<f64> {
    let apart = DelayModel::LONGEST + Span::from_secs(1);
    let packets = (0..number).map(|n| (Time::ZERO + apart.times(n), Packet::new(vec![0; 60])));
    let fates = drive(&mut direction(delayed(model), 1), packets);
    assert_eq!(fates.len() as u64, number);
    fates.iter().map(|fate| delay(fate).as_nanos() as f64).collect()
}

/// Counts in 50 bins that are equally likely under the model, of which `quantile` is the inverse
/// distribution function.
fn assert_quantiles(what: &str, delays: &[f64], quantile: impl Fn(f64) -> f64) {
    let bounds: Vec<f64> = (1..50).map(|n| quantile(f64::from(n) / 50.0)).collect();
    let mut bins = vec![(0.0, delays.len() as f64 / 50.0); 50];
    for delay in delays {
        bins[bounds.partition_point(|bound| bound <= delay)].0 += 1.0;
    }
    assert_distribution(what, &bins);
}

/// Standard normal distribution function, by its series (Marsaglia 2004), for |x| < 6.
fn normal_below(x: f64) -> f64 {
    let (mut sum, mut term, mut n) = (x, x, 1.0);
    while term.abs() > 1e-17 {
        n += 2.0;
        term *= x * x / n;
        sum += term;
    }
    0.5 + sum * (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt()
}

fn normal_quantile(p: f64) -> f64 {
    let (mut low, mut high) = (-6.0, 6.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if normal_below(middle) < p { low = middle } else { high = middle }
    }
    low
}

#[test]
fn a_constant_delay_is_exact_and_never_early() {
    let fates =
        drive(&mut direction(delayed(DelayModel::Constant(ms(315))), 1), every(Span::from_nanos(7), 60, 10_000));
    assert!(fates.iter().all(|fate| delay(fate) == ms(315) && fate.packet.launch == fate.at));
}

#[test]
fn uniform() {
    let (min, max) = (ms(10), ms(30));
    let delays = drawn(DelayModel::Uniform { min, max }, 50_000);
    assert!(delays.iter().all(|delay| (10e6..=30e6).contains(delay)));
    assert_quantiles("uniform", &delays, |p| 10e6 + 20e6 * p);
    assert!(drawn(DelayModel::Uniform { min, max: min }, 100).iter().all(|delay| *delay == 10e6));
}

#[test]
fn normal() {
    let model = |mean, deviation| DelayModel::Normal { mean: ms(mean), deviation: ms(deviation) };
    assert_quantiles("normal", &drawn(model(100, 10), 50_000), |p| 100e6 + 10e6 * normal_quantile(p));
    // Half of it is cut off at zero: as many as the 99 % interval has.
    let delays = drawn(model(0, 10), 50_000);
    let zeros = delays.iter().filter(|delay| **delay == 0.0).count() as f64;
    assert!((zeros - 25_000.0).abs() < Z_99 * (50_000.0f64 * 0.25).sqrt(), "{zeros}");
}

#[test]
fn pareto() {
    let delays = drawn(DelayModel::Pareto { scale: ms(20), shape: 1.5 }, 50_000);
    assert!(delays.iter().all(|delay| *delay >= 20e6));
    assert_quantiles("Pareto", &delays, |p| 20e6 * (1.0 - p).powf(-1.0 / 1.5));
}

#[test]
fn a_heavy_tail_is_cut_off_at_an_hour() {
    let delays = drawn(DelayModel::Pareto { scale: Span::from_secs(600), shape: 1.01 }, 2_000);
    let longest = delays.iter().copied().fold(0.0, f64::max);
    assert!((longest - 3_600e9).abs() < 1.0, "{longest}");
}

#[test]
fn empirical() {
    let delays = [5, 6, 6, 9, 40].map(ms).to_vec();
    let drawn = drawn(DelayModel::Empirical(Empirical { source: "t".into(), delays }), 50_000);
    // Between its quantiles it is linear; a quarter of the packets has exactly the delay that stands twice.
    let exact = drawn.iter().filter(|delay| **delay == 6e6).count() as f64;
    assert!((exact - 12_500.0).abs() < Z_99 * (50_000.0f64 * 0.25 * 0.75).sqrt(), "{exact}");
    let others: Vec<f64> = drawn.into_iter().filter(|delay| *delay != 6e6).collect();
    assert_quantiles("empirical", &others, |p| match 3.0 * p {
        p if p < 1.0 => 5e6 + 1e6 * p,
        p if p < 2.0 => 6e6 + 3e6 * (p - 1.0),
        p => 9e6 + 31e6 * (p - 2.0),
    });
}

#[test]
fn a_timeline_is_followed_in_logical_time() {
    let steps = vec![(ms(0), ms(6)), (ms(1_000), ms(315)), (ms(3_000), ms(15))];
    let run = |interpolate| {
        let timeline = Timeline { source: "t".into(), steps: steps.clone(), interpolate };
        let fates = drive(
            &mut direction(PipeConfig { reorder: true, ..delayed(DelayModel::Timeline(timeline)) }, 1),
            [0, 500, 999, 1_000, 2_000, 2_999, 3_000, 90_000]
                .map(|millis| (Time::ZERO + ms(millis), packet(millis, 60))),
        );
        let mut delays: Vec<(u64, f64)> =
            fates.iter().map(|fate| (fate.packet.id, delay(fate).as_nanos() as f64 / 1e6)).collect();
        delays.sort_by_key(|(id, _)| *id);
        delays.into_iter().map(|(_, delay)| delay).collect::<Vec<_>>()
    };
    assert_eq!(run(false), [6.0, 6.0, 6.0, 315.0, 315.0, 315.0, 15.0, 15.0]);
    assert_eq!(run(true), [6.0, 160.5, 314.691, 315.0, 165.0, 15.15, 15.0, 15.0]);
}

#[test]
fn order_is_kept_unless_reordering_is_asked_for() {
    let model = DelayModel::Uniform { min: ms(10), max: ms(50) };
    let run = |reorder| {
        let pipe = PipeConfig { reorder, ..delayed(model.clone()) };
        drive(&mut direction(pipe, 1), every(ms(1), 60, 5_000))
    };
    let kept = run(false);
    assert!(kept.is_sorted_by_key(|fate| fate.packet.id));
    // Each leaves with its own delay or with the one before it, whichever is later.
    assert!(kept.iter().all(|fate| delay(fate) >= ms(10) && delay(fate) <= ms(50)));
    let overtaken = run(true);
    assert!(!overtaken.is_sorted_by_key(|fate| fate.packet.id));
    assert!(overtaken.iter().all(|fate| (ms(10)..=ms(50)).contains(&delay(fate))));
    // The draws are the same: none that overtakes is later than it is in order.
    let mut draws: Vec<(u64, Span)> = overtaken.iter().map(|fate| (fate.packet.id, delay(fate))).collect();
    draws.sort_unstable();
    assert!(kept.iter().zip(&draws).all(|(kept, (_, drawn))| delay(kept) >= *drawn));
}

#[test]
fn packets_of_one_arrival_time_come_in_the_order_they_were_sent() {
    let pipe = PipeConfig { reorder: true, ..delayed(DelayModel::Uniform { min: ms(5), max: ms(5) }) };
    let fates = drive(&mut direction(pipe, 1), (0..100).map(|id| (at(0), packet(id, 60))));
    assert!(fates.is_sorted_by_key(|fate| fate.packet.id));
}

#[test]
fn a_change_leaves_packets_in_flight_alone() {
    let run = |reorder| {
        let pipe = PipeConfig { reorder, ..delayed(DelayModel::Constant(ms(300))) };
        let mut direction = direction(pipe, 1);
        direction.handle(Time::ZERO, 0, packet(0, 60));
        let change = Change::Delay(DelayModel::Constant(ms(10)));
        direction.set(Time::ZERO + ms(100), Direction::MAIN, &change).unwrap();
        let fates =
            drive(&mut direction, [(Time::ZERO + ms(150), packet(1, 60)), (Time::ZERO + ms(400), packet(2, 60))]);
        fates.iter().map(|fate| (fate.packet.id, fate.at.as_nanos() / 1_000_000)).collect::<Vec<_>>()
    };
    assert_eq!(run(false), [(0, 300), (1, 300), (2, 410)]);
    assert_eq!(run(true), [(1, 160), (0, 300), (2, 410)]);
}
