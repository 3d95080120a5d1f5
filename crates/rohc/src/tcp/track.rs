//! What the compressor watches over many packets: how identifications behave, and by what
//! acknowledgment numbers grow.

use super::header::IpId;

/// Steps up to here are a sequence: other flows of the host may take numbers in between.
const MAX_STEP: u16 = 20;
/// Packets in a row that do not fit before a behavior is given up.
const PATIENCE: u8 = 3;
/// Packets in a row that fit before a random identification is taken for a sequence.
const PROOF: u8 = 8;

/// Finds the behavior of the innermost identification (RFC 6846 6.1.2).
#[derive(Clone, Debug)]
pub(super) struct IpIdTracker {
    behavior: IpId,
    last: Option<u16>,
    /// What the last packets looked like, and how many of them in a row.
    streak: (IpId, u8),
    misses: u8,
}

impl IpIdTracker {
    pub(super) fn new() -> Self {
        Self { behavior: IpId::Sequential, last: None, streak: (IpId::Sequential, 0), misses: 0 }
    }

    /// Takes a packet's identification; gives the behavior to use. While the context is being made
    /// (`is_free`), a change costs nothing.
    pub(super) fn next(&mut self, id: u16, is_free: bool) -> IpId {
        let Some(last) = self.last.replace(id) else {
            self.behavior = if id == 0 { IpId::Zero } else { IpId::Sequential };
            return self.behavior;
        };
        let seen = Self::step(last, id);
        self.streak = if self.streak.0 == seen { (seen, self.streak.1.saturating_add(1)) } else { (seen, 1) };
        self.misses = if seen == self.behavior { 0 } else { self.misses.saturating_add(1) };
        let is_proven = self.streak.1 >= PROOF || is_free;
        self.behavior = match self.behavior {
            IpId::Zero if id != 0 => {
                if seen == IpId::Zero {
                    IpId::Random
                } else {
                    seen
                }
            }
            behavior if seen == behavior => behavior,
            IpId::Random if is_proven => seen,
            // A sequence that jumps once goes on from there.
            IpId::Sequential | IpId::Swapped if is_free || self.misses >= PATIENCE => {
                if self.streak.1 >= PATIENCE || is_free { seen } else { IpId::Random }
            }
            behavior => behavior,
        };
        self.behavior
    }

    fn step(last: u16, id: u16) -> IpId {
        let is_step = |step: u16| (1..=MAX_STEP).contains(&step);
        if id == 0 && last == 0 {
            IpId::Zero
        } else if is_step(id.wrapping_sub(last)) {
            IpId::Sequential
        } else if is_step(id.swap_bytes().wrapping_sub(last.swap_bytes())) {
            IpId::Swapped
        } else {
            IpId::Random
        }
    }
}

/// Steps of the acknowledgment number that are looked at before a stride is chosen.
const STEPS: u8 = 16;
/// A stride under this is chance.
const MIN_STRIDE: u32 = 64;
/// `lsb(4, 3)` reaches 12 strides forward.
const REACH: u32 = 12;

/// Finds what acknowledgment numbers are multiples of, up to a rest (RFC 6846 6.4.8.2).
#[derive(Clone, Debug, Default)]
pub(super) struct StrideTracker {
    last: Option<u32>,
    divisor: u32,
    greatest: u32,
    steps: u8,
    stride: u16,
}

impl StrideTracker {
    /// Takes a packet's acknowledgment number; gives the stride to use, 0 for none yet. `references` packets
    /// must fit into what four bits reach.
    pub(super) fn next(&mut self, ack: u32, references: u8) -> u16 {
        let Some(last) = self.last.replace(ack) else { return self.stride };
        let step = ack.wrapping_sub(last);
        if step == 0 || step >= 1 << 31 {
            return self.stride;
        }
        self.divisor = greatest_common_divisor(step, self.divisor);
        self.greatest = self.greatest.max(step);
        self.steps += 1;
        if self.steps == STEPS {
            let fits =
                self.divisor >= MIN_STRIDE && self.greatest / self.divisor <= REACH / u32::from(references.max(1));
            if let (true, Ok(stride)) = (fits, u16::try_from(self.divisor)) {
                self.stride = stride;
            }
            (self.divisor, self.greatest, self.steps) = (0, 0, 0);
        }
        self.stride
    }
}

fn greatest_common_divisor(mut a: u32, mut b: u32) -> u32 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behaviors_are_found() {
        let run = |ids: &[u16]| {
            let mut tracker = IpIdTracker::new();
            ids.iter().map(|id| tracker.next(*id, false)).last().unwrap()
        };
        assert_eq!(run(&[0, 0, 0]), IpId::Zero);
        assert_eq!(run(&[0, 0, 700]), IpId::Random);
        assert_eq!(run(&[1, 2, 4, 9, 65_000, 65_001]), IpId::Sequential);
        assert_eq!(run(&[0x0100, 0x0200, 0x0300, 0x0500]), IpId::Swapped);
        assert_eq!(run(&[9, 700, 33_000, 12, 50_000]), IpId::Random);
    }

    #[test]
    fn strides_are_found() {
        let mut tracker = StrideTracker::default();
        let mut ack = 77u32;
        let mut stride = 0;
        for step in 0..40 {
            ack = ack.wrapping_add(1_448 * (1 + step % 2));
            stride = tracker.next(ack, 3);
        }
        assert_eq!(stride, 1_448);
        let mut tracker = StrideTracker::default();
        assert!((1..200u32).all(|step| tracker.next(step * step, 3) == 0));
    }
}
