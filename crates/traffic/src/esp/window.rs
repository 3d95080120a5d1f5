//! Which sequence numbers may still come (RFC 4303 3.4.3).

/// Packets the window reaches back: more than the 64 that are asked for, since a link may reorder.
pub(super) const REACH: u32 = u128::BITS;

/// The sequence numbers that were seen.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Window {
    /// The highest one; 0 before the first packet, which has 1.
    highest: u32,
    /// Bit n: `highest - n` was seen.
    seen: u128,
}

impl Window {
    /// Whether a packet with this number may be new.
    pub(super) fn admits(&self, sequence: u32) -> bool {
        match self.highest.checked_sub(sequence) {
            // RFC 4303 3.3.3: the first is 1.
            _ if sequence == 0 => false,
            None => true,
            Some(back) => back < REACH && self.seen >> back & 1 == 0,
        }
    }

    /// An authentic packet with this number came.
    pub(super) fn note(&mut self, sequence: u32) {
        if sequence > self.highest {
            self.seen = self.seen.checked_shl(sequence - self.highest).unwrap_or(0);
            self.highest = sequence;
        }
        self.seen |= 1u128.checked_shl(self.highest - sequence).unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;
    use engine::Random;

    /// As a set of all numbers would tell it.
    #[test]
    fn the_window_is_the_end_of_what_was_seen() {
        let mut random = Random::stream(3, "window");
        let (mut window, mut seen) = (Window::default(), BTreeSet::new());
        let mut base = 1u32;
        for _ in 0..20_000 {
            // Mostly near, at times far ahead, at times far behind.
            let sequence = match random.below(200) {
                0 => base + 100 + random.below(300) as u32,
                1..8 => base.saturating_sub(random.below(400) as u32),
                _ => base + random.below(20) as u32,
            };
            let highest = seen.last().copied().unwrap_or(0);
            let expected = sequence > 0 && !seen.contains(&sequence) && sequence + REACH > highest;
            assert_eq!(window.admits(sequence), expected, "{sequence} after {highest}");
            if expected {
                window.note(sequence);
                seen.insert(sequence);
            }
            base = base.max(sequence);
        }
        assert!(seen.len() > 10_000);
    }

    #[test]
    fn the_ends_of_the_numbers() {
        let mut window = Window::default();
        assert!(!window.admits(0) && window.admits(1) && window.admits(u32::MAX));
        window.note(u32::MAX);
        assert!(!window.admits(u32::MAX) && window.admits(u32::MAX - 127) && !window.admits(u32::MAX - 128));
        let admitted: Vec<u32> = (u32::MAX - 3..=u32::MAX).filter(|n| window.admits(*n)).collect();
        assert_eq!(admitted.len(), 3);
    }
}
