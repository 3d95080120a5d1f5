//! Least significant bits, and the window of references they must be right for (RFC 3095 4.5.1, 4.5.2).

/// The value whose low `width` bits are `bits` and which lies in the interpretation interval
/// `[reference - p, reference + 2^width - 1 - p]` (RFC 3095 4.5.1). Values have 32 bits; callers
/// with narrower fields cut the result. `width` up to 32.
pub(crate) const fn decode(reference: u32, bits: u32, width: u32, p: i32) -> u32 {
    if width >= 32 {
        return bits;
    }
    let low = reference.wrapping_sub(p as u32);
    let mask = (1 << width) - 1;
    low.wrapping_add(bits.wrapping_sub(low) & mask)
}

/// Does `value` lie in the interpretation interval of `width` bits at `reference`? Both are values of
/// a field of `field` bits (16 or 32) that wraps.
const fn covers(reference: u32, value: u32, width: u32, p: i32, field: u32) -> bool {
    if width >= field {
        return true;
    }
    let mask = u32::MAX >> (32 - field);
    let offset = value.wrapping_sub(reference).wrapping_add(p as u32) & mask;
    offset < 1 << width
}

/// The widest window.
pub(crate) const MAX_WINDOW: usize = 16;

/// The values that the decompressor may use as its reference: the last ones sent.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    /// Of each value: the low bits of the sequence number of the packet that carried it, and itself.
    values: [(u16, u32); MAX_WINDOW],
    /// Where the next value goes.
    next: u8,
    len: u8,
    width: u8,
    field: u8,
}

impl Window {
    /// An empty window of `width` values (1 to [`MAX_WINDOW`]) of a field of `field` bits (16 or 32).
    pub(crate) fn new(width: u8, field: u8) -> Self {
        Self { values: [(0, 0); MAX_WINDOW], next: 0, len: 0, width: width.clamp(1, MAX_WINDOW as u8), field }
    }

    /// From now on the window holds `width` values.
    pub(crate) fn widen(&mut self, width: u8) {
        self.width = self.width.max(width).min(MAX_WINDOW as u8);
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// `value` was sent in the packet with sequence number `sn`; the oldest value may leave.
    pub(crate) fn add(&mut self, sn: u32, value: u32) {
        self.values[usize::from(self.next)] = (sn as u16, value);
        self.next = (self.next + 1) % MAX_WINDOW as u8;
        self.len = (self.len + 1).min(self.width);
    }

    /// The decompressor has the packet `sn`: values sent before it are references no more
    /// (RFC 3095 4.5.2). If the window does not know `sn`, nothing changes.
    pub(crate) fn acknowledge(&mut self, sn: u32) {
        if let Some(age) = (0..self.len).find(|age| self.at(*age).0 == sn as u16) {
            self.len = age + 1;
        }
    }

    /// Can `width` bits carry `value`, whichever value of the window the reference is? An empty
    /// window has no reference: only the whole field does then.
    pub(crate) fn fits(&self, value: u32, width: u32, p: i32) -> bool {
        let field = u32::from(self.field);
        width >= field || self.len > 0 && (0..self.len).all(|age| covers(self.at(age).1, value, width, p, field))
    }

    /// The value that came `age` values before the newest.
    fn at(&self, age: u8) -> (u16, u32) {
        self.values[usize::from((self.next + MAX_WINDOW as u8 - 1 - age) % MAX_WINDOW as u8)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn interpretation_intervals() {
        // RFC 3095 4.5.1: p = 0 means [ref, ref + 2^k - 1]; p = -1 means (ref, ref + 2^k].
        assert_eq!(decode(15, 0, 4, 0), 16);
        assert_eq!(decode(16, 0, 4, 0), 16);
        assert_eq!(decode(16, 0, 4, -1), 32);
        assert_eq!(decode(16, 15, 4, 1), 15);
        assert_eq!(decode(u32::MAX, 3, 4, 0), 3);
        assert_eq!(decode(7, 42, 32, 0), 42);
        assert_eq!(decode(7, 0, 0, 0), 7);
    }

    #[test]
    fn the_window_forgets_the_oldest_and_the_acknowledged() {
        let mut window = Window::new(3, 16);
        assert!(window.fits(5, 16, 0) && !window.fits(5, 4, 0));
        for sn in 0..5 {
            window.add(sn, sn);
        }
        // 2, 3 and 4 are left.
        assert!(window.fits(17, 4, 0) && !window.fits(18, 4, 0));
        window.acknowledge(1);
        assert!(!window.fits(18, 4, 0));
        window.acknowledge(3);
        assert!(window.fits(18, 4, 0) && !window.fits(19, 4, 0));
        window.clear();
        assert!(!window.fits(4, 4, 0));
    }

    proptest! {
        #[test]
        fn what_fits_is_decoded_from_every_reference(
            values in prop::collection::vec(any::<u16>(), 1..9), near in 0u32..64, width in 0u32..17, p in -2i32..8,
        ) {
            let mut window = Window::new(8, 16);
            for value in &values {
                window.add(0, u32::from(*value));
            }
            let value = u32::from(values[0]).wrapping_add(near) & 0xffff;
            let right = |reference: u16| {
                decode(u32::from(reference), value & ((1 << width) - 1), width, p) & 0xffff == value
            };
            prop_assert_eq!(window.fits(value, width, p), values.iter().all(|value| right(*value)));
        }
    }
}
