//! How large packets are.

use alloc::vec::Vec;

use engine::Random;

use super::ModelError;

/// Sizes of packets in bytes, drawn independently of each other. What a size counts (headers or not) is for
/// the user to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketSizes(Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Fixed(u32),
    Uniform {
        from: u32,
        to: u32,
    },
    /// Sizes, each with the sum of the weights up to it.
    Table(Vec<(u32, u64)>),
}

impl PacketSizes {
    /// All of one size.
    #[must_use]
    pub const fn fixed(size: u32) -> Self {
        Self(Kind::Fixed(size))
    }

    /// Every size from `from` to `to` equally often.
    ///
    /// # Errors
    ///
    /// [`ModelError::Sizes`] if `from` is larger than `to`.
    pub const fn uniform(from: u32, to: u32) -> Result<Self, ModelError> {
        if from > to { Err(ModelError::Sizes { from, to }) } else { Ok(Self(Kind::Uniform { from, to })) }
    }

    /// Sizes with their weights, as a table of a distribution or the histogram of a trace gives them. Weights
    /// count against their sum, sizes may come more than once.
    ///
    /// # Errors
    ///
    /// [`ModelError::NoSizes`] if no weight is over zero.
    pub fn weighted(table: impl IntoIterator<Item = (u32, u64)>) -> Result<Self, ModelError> {
        let mut sum = 0u64;
        let mut sums: Vec<(u32, u64)> = Vec::new();
        for (size, weight) in table.into_iter().filter(|(_, weight)| *weight > 0) {
            sum = sum.saturating_add(weight);
            sums.push((size, sum));
        }
        if sums.is_empty() { Err(ModelError::NoSizes) } else { Ok(Self(Kind::Table(sums))) }
    }

    /// The size of the next packet. Draws once, or not at all for a fixed size.
    pub fn draw(&self, random: &mut Random) -> u32 {
        match &self.0 {
            Kind::Fixed(size) => *size,
            Kind::Uniform { from, to } => from + random.below(u64::from(to - from) + 1) as u32,
            Kind::Table(sums) => {
                let point = random.below(sums.last().map_or(0, |(_, sum)| *sum));
                sums[sums.partition_point(|(_, sum)| *sum <= point)].0
            }
        }
    }

    /// The mean size in bytes.
    #[must_use]
    pub fn mean(&self) -> f64 {
        match &self.0 {
            Kind::Fixed(size) => f64::from(*size),
            Kind::Uniform { from, to } => (f64::from(*from) + f64::from(*to)) / 2.0,
            Kind::Table(sums) => {
                let mut before = 0;
                let mut bytes = 0.0;
                for (size, sum) in sums {
                    bytes += f64::from(*size) * (sum - before) as f64;
                    before = *sum;
                }
                bytes / before as f64
            }
        }
    }

    /// The largest size that may come.
    #[must_use]
    pub fn largest(&self) -> u32 {
        match &self.0 {
            Kind::Fixed(size) => *size,
            Kind::Uniform { to, .. } => *to,
            Kind::Table(sums) => sums.iter().map(|(size, _)| *size).max().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean_of(sizes: &PacketSizes) -> f64 {
        let mut random = Random::stream(1, "sizes");
        (0..100_000).map(|_| f64::from(sizes.draw(&mut random))).sum::<f64>() / 1e5
    }

    #[test]
    fn drawn_sizes_have_the_mean_that_is_said() {
        let table = PacketSizes::weighted([(40, 7), (576, 4), (0, 0), (1_500, 1)]).unwrap();
        assert_eq!((table.mean(), table.largest()), ((280.0 + 2_304.0 + 1_500.0) / 12.0, 1_500));
        assert!((mean_of(&table) - table.mean()).abs() < 5.0);
        let uniform = PacketSizes::uniform(100, 200).unwrap();
        assert!((mean_of(&uniform) - 150.0).abs() < 0.5);
        let mut random = Random::stream(2, "ends");
        let drawn: Vec<u32> = (0..10_000).map(|_| uniform.draw(&mut random)).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&100), Some(&200)));
        assert_eq!(mean_of(&PacketSizes::fixed(146)), 146.0);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        assert_eq!(PacketSizes::uniform(2, 1), Err(ModelError::Sizes { from: 2, to: 1 }));
        assert_eq!(PacketSizes::weighted([(40, 0)]), Err(ModelError::NoSizes));
    }
}
