//! Estimators that cut the series into blocks.

use alloc::vec::Vec;

use super::slope;

/// Slope of log(R/S) over log(block length): H.
///
/// R is the range of the sums of a block's deviations from its mean, S its standard deviation; R/S is averaged
/// over all blocks of a length. Lengths go from 16 to a quarter of the series in steps of √2.
pub(super) fn rescaled_range(series: &[f64]) -> Option<(f64, (f64, f64))> {
    fit(series, (16, series.len() / 4), |block| {
        let blocks = series.chunks_exact(block).filter_map(range_over_deviation);
        let (sum, count) = blocks.fold((0.0, 0.0), |(sum, count), ratio| (sum + ratio, count + 1.0));
        sum / count
    })
}

fn range_over_deviation(block: &[f64]) -> Option<f64> {
    let n = block.len() as f64;
    let mean = block.iter().sum::<f64>() / n;
    let (mut sum, mut low, mut high, mut squares) = (0.0, 0.0f64, 0.0f64, 0.0);
    for value in block {
        let off = value - mean;
        sum += off;
        squares += off * off;
        (low, high) = (low.min(sum), high.max(sum));
    }
    (squares > 0.0).then(|| (high - low) / libm::sqrt(squares / n))
}

/// Slope of the log of the standard deviation of block means over log(block length): H - 1.
///
/// Lengths go from 4 to a sixteenth of the series in steps of √2.
pub(super) fn aggregated_variance(series: &[f64]) -> Option<(f64, (f64, f64))> {
    let (slope, scales) = fit(series, (4, series.len() / 16), |block| {
        let n = block as f64;
        let (mut sum, mut squares, mut count) = (0.0, 0.0, 0.0);
        for block in series.chunks_exact(block) {
            let mean = block.iter().sum::<f64>() / n;
            (sum, squares, count) = (sum + mean, squares + mean * mean, count + 1.0);
        }
        libm::sqrt((squares - sum * sum / count).max(0.0) / (count - 1.0))
    })?;
    Some((slope + 1.0, scales))
}

/// Slope of the log of a statistic over the log of the block length, for lengths in steps of √2.
fn fit(
    series: &[f64],
    (shortest, longest): (usize, usize),
    statistic: impl Fn(usize) -> f64,
) -> Option<(f64, (f64, f64))> {
    debug_assert!(longest <= series.len());
    let mut points: Vec<(f64, f64, f64)> = Vec::new();
    let mut length = shortest as f64;
    while length <= longest as f64 {
        let block = length as usize;
        let value = statistic(block);
        if value > 0.0 && value.is_finite() {
            points.push((libm::log2(block as f64), libm::log2(value), 1.0));
        }
        length *= core::f64::consts::SQRT_2;
    }
    let scales = (shortest as f64, longest as f64);
    (points.len() >= 3).then(|| (slope(points.iter().copied()).slope, scales))
}
