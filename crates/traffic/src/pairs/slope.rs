//! The rate of a line from the separations of packet pairs.

use alloc::vec::Vec;

use engine::Span;

/// A pair of which both packets arrived, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Separation {
    /// IP datagram size in bytes.
    pub size: u32,
    /// Time from the first packet's arrival to the second's.
    pub apart: Span,
}

/// What separations say of the line.
#[derive(Clone, Debug, PartialEq)]
pub struct Slope {
    /// Pairs it stands on.
    pub pairs: usize,
    /// Time for one more byte, in seconds.
    pub seconds_per_byte: f64,
    /// Half the width of its 95 % interval (Student's t).
    pub margin: f64,
    /// Separation of packets without any bytes, in seconds: what each packet costs beyond its bytes, or
    /// spares by compression if it is negative.
    pub intercept: f64,
    /// Each size by itself, smallest first.
    pub sizes: Vec<SizeEstimate>,
}

/// What one size says by itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SizeEstimate {
    /// IP datagram size in bytes.
    pub size: u32,
    /// Pairs of this size.
    pub pairs: usize,
    /// Their mean separation in seconds.
    pub apart: f64,
    /// The rate this size alone would tell, in bit/s.
    pub rate: f64,
    /// It differs from the slope's rate by more than [`DISAGREEMENT`] and lies outside its interval.
    pub disagrees: bool,
}

/// A size disagrees with the slope if its own rate is off by more than this share.
pub const DISAGREEMENT: f64 = 0.05;

impl Slope {
    /// The least-squares line through the separations. `None` if there are fewer than three pairs or
    /// two sizes, or larger packets did not take longer.
    #[must_use]
    pub fn fit(separations: &[Separation]) -> Option<Self> {
        let n = separations.len() as f64;
        let points: Vec<(f64, f64)> = separations.iter().map(|s| (f64::from(s.size), s.apart.as_secs_f64())).collect();
        let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
        let (mean_x, mean_y) = (mean(|p| p.0), mean(|p| p.1));
        let sxx: f64 = points.iter().map(|(x, _)| (x - mean_x) * (x - mean_x)).sum();
        let sxy: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
        if points.len() < 3 || sxx <= 0.0 || sxy <= 0.0 {
            return None;
        }
        let slope = sxy / sxx;
        let intercept = mean_y - slope * mean_x;
        let residual = |(x, y): &(f64, f64)| (y - intercept - slope * x) * (y - intercept - slope * x);
        let variance = points.iter().map(residual).sum::<f64>() / (n - 2.0);
        let margin = student(points.len() - 2) * libm::sqrt(variance / sxx);
        let mut fitted = Self { pairs: points.len(), seconds_per_byte: slope, margin, intercept, sizes: Vec::new() };
        fitted.sizes = fitted.by_size(separations);
        Some(fitted)
    }

    /// Rate of the line in bit/s.
    #[must_use]
    pub fn rate(&self) -> f64 {
        8.0 / self.seconds_per_byte
    }

    /// Lower bound of the rate's 95 % interval.
    #[must_use]
    pub fn low(&self) -> f64 {
        8.0 / (self.seconds_per_byte + self.margin)
    }

    /// Upper bound; `None` if the slope's interval reaches zero.
    #[must_use]
    pub fn high(&self) -> Option<f64> {
        (self.seconds_per_byte > self.margin).then(|| 8.0 / (self.seconds_per_byte - self.margin))
    }

    fn by_size(&self, separations: &[Separation]) -> Vec<SizeEstimate> {
        let mut sizes: Vec<u32> = separations.iter().map(|s| s.size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let estimate = |size| {
            let own = separations.iter().filter(|s| s.size == size);
            let (pairs, sum) = own.fold((0, 0.0), |(n, sum), s| (n + 1, sum + s.apart.as_secs_f64()));
            let apart = sum / pairs as f64;
            let rate = 8.0 * f64::from(size) / apart;
            let off = (rate / self.rate() - 1.0).abs() > DISAGREEMENT;
            let outside = rate < self.low() || self.high().is_some_and(|high| rate > high);
            SizeEstimate { size, pairs, apart, rate, disagrees: off && outside }
        };
        sizes.into_iter().map(estimate).collect()
    }
}

/// The 97.5 % quantile of Student's t with so many degrees of freedom: exact where the series of
/// Abramowitz and Stegun 26.7.5 is not, which has an error below 0.001 from 4 on.
fn student(freedom: usize) -> f64 {
    const EXACT: [f64; 3] = [12.706_205, 4.302_653, 3.182_446];
    if let Some(exact) = EXACT.get(freedom.saturating_sub(1)) {
        return *exact;
    }
    let x: f64 = 1.959_964;
    let (x2, n) = (x * x, freedom as f64);
    let g1 = x * (x2 + 1.0) / 4.0;
    let g2 = x * ((5.0 * x2 + 16.0) * x2 + 3.0) / 96.0;
    let g3 = x * (((3.0 * x2 + 19.0) * x2 + 17.0) * x2 - 15.0) / 384.0;
    let g4 = x * ((((79.0 * x2 + 776.0) * x2 + 1_482.0) * x2 - 1_920.0) * x2 - 945.0) / 92_160.0;
    x + g1 / n + g2 / (n * n) + g3 / (n * n * n) + g4 / (n * n * n * n)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 8N1 at 9600 baud: 960 B/s. Headers that shrink by 40 bytes make small packets lie.
    #[test]
    fn the_slope_is_the_line_where_single_sizes_lie() {
        let pair = |size: u32, spared: u32| {
            let nanos = u64::from(size - spared) * 1_000_000_000 / 960;
            Separation { size, apart: Span::from_nanos(nanos) }
        };
        let sizes = [60, 80, 100, 150, 200, 400, 600, 800, 1_000, 1_200, 1_400];
        let honest = Slope::fit(&sizes.map(|size| pair(size, 0))).unwrap();
        assert!((honest.rate() - 7_680.0).abs() < 0.1 && honest.sizes.iter().all(|size| !size.disagrees));
        let compressed = Slope::fit(&sizes.map(|size| pair(size, 40))).unwrap();
        assert!((compressed.rate() - 7_680.0).abs() < 0.1);
        assert!((compressed.intercept + 40.0 / 960.0).abs() < 1e-6);
        let liars: Vec<u32> = compressed.sizes.iter().filter(|size| size.disagrees).map(|size| size.size).collect();
        assert_eq!(liars, [60, 80, 100, 150, 200, 400, 600, 800]);
        assert_eq!(Slope::fit(&[pair(60, 0), pair(60, 0), pair(60, 0)]), None);
    }

    /// The interval covers the truth as often as it says.
    #[test]
    fn intervals_cover_the_slope_in_19_of_20_cases() {
        let mut random = engine::Random::stream(1, "pairs");
        let mut covered = 0;
        for _ in 0..2_000 {
            let noisy = |size: u32| {
                let seconds = f64::from(size) / 960.0 + 0.05 + 0.01 * random.normal();
                Separation { size, apart: Span::from_nanos((seconds * 1e9) as u64) }
            };
            let slope = Slope::fit(&[60, 400, 800, 1_400, 60, 800].map(noisy)).unwrap();
            covered += usize::from((slope.low()..=slope.high().unwrap()).contains(&7_680.0));
        }
        assert!((1_870..=1_930).contains(&covered), "{covered}");
        // Tables of Student's t.
        for (freedom, t) in [(1, 12.706), (3, 3.182), (4, 2.776), (10, 2.228), (30, 2.042)] {
            assert!((student(freedom) - t).abs() < 0.002, "{freedom}: {}", student(freedom));
        }
    }
}
