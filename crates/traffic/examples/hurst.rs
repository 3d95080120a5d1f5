//! How well the Hurst exponent is estimated: fractional Gaussian noise of known exponents, many seeds.
//!
//!     cargo run --release -p narrows-traffic --example hurst -- [VALUES] [SEEDS] [ESTIMATOR]
//!
//! For each estimator and exponent: mean and standard deviation of the estimates, half the mean width of the 95 %
//! interval, and how often it held the exponent.

#![expect(clippy::print_stdout, reason = "an example")]

use engine::Random;
use traffic::models::Hurst;
use traffic::selfsimilar::{Estimator, FractionalNoise};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default| arguments.next().and_then(|text| text.parse::<usize>().ok()).unwrap_or(default);
    let (values, seeds) = (number(16_384), number(200));
    let only = arguments.next().unwrap_or_default();
    println!("{values} values, {seeds} seeds");
    println!("| estimator | H | mean | deviation | half interval | held |");
    println!("|---|---|---|---|---|---|");
    for estimator in Estimator::ALL.into_iter().filter(|estimator| estimator.name().contains(&only)) {
        for hurst in [0.5, 0.6, 0.7, 0.8, 0.9] {
            let Ok(exponent) = Hurst::new(hurst) else { continue };
            let mut noise = FractionalNoise::new(exponent, values);
            let mut series = Vec::new();
            let (mut sum, mut squares, mut half, mut held) = (0.0, 0.0, 0.0, 0);
            for seed in 0..seeds as u64 {
                noise.draw(&mut Random::stream(seed, "noise"), &mut series);
                let Ok(found) = estimator.estimate(&series, &mut Random::stream(seed, "interval")) else { continue };
                sum += found.hurst;
                squares += found.hurst * found.hurst;
                half += (found.high - found.low) / 2.0;
                held += u32::from(found.holds(hurst));
            }
            let n = seeds as f64;
            let mean = sum / n;
            let deviation = ((squares - sum * mean).max(0.0) / (n - 1.0)).sqrt();
            let held = 100.0 * f64::from(held) / n;
            println!("| {estimator} | {hurst} | {mean:.3} | {deviation:.3} | {:.3} | {held:.0} % |", half / n);
        }
    }
}
