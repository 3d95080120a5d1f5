//! What a flow's headers do from packet to packet, and what the decompressor must be told about it.

use super::Kind;
use super::chain::IdCoding;
use super::fields::Positions;
use super::header::Header;
use crate::headers::MAX_IP;

/// How far an identification may run ahead of the sequence number in one step and still count as counting:
/// a host that sends other packets in between.
const ID_GAP: u16 = 64;
/// Steps against its coding after which an identification is taken for another kind.
const ID_IRREGULAR: u8 = 2;
/// Steps after which a random identification is believed to count.
const ID_REGULAR: u8 = 4;
/// Times a new timestamp step must be seen in a row: more if the present stride can carry it too.
const STRIDE_UNALIGNED: u8 = 2;
const STRIDE_ALIGNED: u8 = 4;

/// How many more packets must say a thing before the compressor trusts that it arrived (the optimistic
/// approach, RFC 3095 5.3.1.1.1). For IP headers, by their position in the chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) tos: [u8; 2],
    pub(crate) ttl: [u8; 2],
    /// DF, RND and NBO.
    pub(crate) flags: [u8; 2],
    /// The identification's offset.
    pub(crate) id: [u8; 2],
    /// RTP's payload type, padding and extension bits.
    pub(crate) rtp: u8,
    pub(crate) ts_stride: u8,
    /// The timestamp, at least scaled.
    pub(crate) ts: u8,
    /// The timestamp, unscaled.
    pub(crate) ts_unscaled: u8,
}

impl Due {
    /// One packet said all of it.
    pub(crate) fn all_said(&mut self) {
        let Self { tos, ttl, flags, id, rtp, ts_stride, ts, ts_unscaled } = self;
        for count in [tos, ttl, flags, id].into_iter().flatten().chain([rtp, ts_stride, ts, ts_unscaled]) {
            *count = count.saturating_sub(1);
        }
    }

    /// Is anything due that only extension 3 can say?
    pub(crate) fn needs_extension3(&self) -> bool {
        let [tos, ttl, flags] = [self.tos, self.ttl, self.flags].map(|[a, b]| a | b);
        tos | ttl | flags | self.rtp | self.ts_stride | self.ts_unscaled != 0
    }
}

/// What is known of the flow beyond its last header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pattern {
    pub(crate) codings: [IdCoding; MAX_IP],
    id_irregular: [u8; 2],
    id_regular: [u8; 2],
    /// The timestamp's step, at least 1.
    pub(crate) ts_stride: u32,
    candidate: u32,
    candidate_seen: u8,
}

/// What only an initialisation or a new reference can carry on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Breaks {
    /// SID changed: only IR and IR-DYN tell (RFC 3843 3.3).
    pub(crate) sid: bool,
    /// The header at this position has no references for its identification any more.
    pub(crate) id: [bool; 2],
    /// Scaled timestamps have no references any more.
    pub(crate) ts: bool,
}

impl Pattern {
    pub(crate) fn new() -> Self {
        Self {
            codings: [IdCoding::default(); MAX_IP],
            id_irregular: [0; 2],
            id_regular: [0; 2],
            ts_stride: 1,
            candidate: 0,
            candidate_seen: 0,
        }
    }

    /// Compares a header with the one before it and marks what is due, `repeats` times. `is_young` while little
    /// has been sent: a guess may then be dropped at once.
    pub(crate) fn observe(
        &mut self,
        kind: Kind,
        before: &Header,
        after: &Header,
        repeats: u8,
        is_young: bool,
        due: &mut Due,
    ) -> Breaks {
        let mut breaks = Breaks::default();
        // Headers beyond the second are sent whole (RFC 3843 3.6).
        let positions = Positions::of(after.ips().len());
        for at in [Some(positions.inner), positions.outer].into_iter().flatten() {
            let (old, new) = (&before.ips()[at], &after.ips()[at]);
            let mark = |changed: bool, count: &mut u8| {
                if changed {
                    *count = repeats;
                }
            };
            mark(old.tos != new.tos, &mut due.tos[at]);
            mark(old.ttl != new.ttl, &mut due.ttl[at]);
            mark(old.df != new.df, &mut due.flags[at]);
            if !new.is_v6() {
                let coding = self.codings[at];
                let moved = self.observe_id(kind, at, [(old.id, before.sn), (new.id, after.sn)], is_young);
                let now = self.codings[at];
                mark(moved, &mut due.id[at]);
                mark((coding.rnd, coding.nbo) != (now.rnd, now.nbo), &mut due.flags[at]);
                breaks.sid |= coding.sid != now.sid;
                breaks.id[at] = coding != now;
            }
        }
        if kind == Kind::Rtp {
            let (old, new) = (&before.transport.rtp, &after.transport.rtp);
            if (old.payload_type, old.padding, old.extension) != (new.payload_type, new.padding, new.extension) {
                due.rtp = repeats;
            }
            breaks.ts = self.observe_ts(before, after, repeats, is_young, due);
        }
        breaks
    }

    /// One step of an identification. Did its offset from the sequence number change?
    fn observe_id(&mut self, kind: Kind, at: usize, steps: [(u16, u32); 2], is_young: bool) -> bool {
        let [(old_id, old_sn), (new_id, new_sn)] = steps;
        let step = (new_sn as u16).wrapping_sub(old_sn as u16);
        let drift = |old: u16, new: u16| new.wrapping_sub(old).wrapping_sub(step);
        let (nbo, swapped) = (drift(old_id, new_id), drift(old_id.swap_bytes(), new_id.swap_bytes()));
        let seen = if old_id == new_id && kind == Kind::Ip {
            Some(IdCoding { rnd: false, nbo: true, sid: true })
        } else if nbo <= ID_GAP {
            Some(IdCoding { rnd: false, nbo: true, sid: false })
        } else if swapped <= ID_GAP {
            Some(IdCoding { rnd: false, nbo: false, sid: false })
        } else {
            None
        };
        let random = IdCoding { rnd: true, nbo: true, sid: false };
        let coding = &mut self.codings[at];
        if coding.rnd {
            let regular = &mut self.id_regular[at];
            *regular = if seen.is_some() { *regular + 1 } else { 0 };
            if let Some(seen) = seen.filter(|_| *regular >= ID_REGULAR) {
                *regular = 0;
                *coding = seen;
                return true;
            }
            return false;
        }
        let own = if coding.nbo { nbo } else { swapped };
        let is_regular = if coding.sid { old_id == new_id } else { own <= ID_GAP };
        let irregular = &mut self.id_irregular[at];
        *irregular = if is_regular { 0 } else { *irregular + 1 };
        if coding.sid && !is_regular || *irregular >= if is_young { 1 } else { ID_IRREGULAR } {
            *irregular = 0;
            self.id_regular[at] = 0;
            *coding = seen.unwrap_or(random);
            return true;
        }
        !coding.sid && own != 0
    }

    /// One step of the timestamp. Are scaled references lost?
    fn observe_ts(&mut self, before: &Header, after: &Header, repeats: u8, is_young: bool, due: &mut Due) -> bool {
        let (old, new) = (before.transport.rtp.timestamp, after.transport.rtp.timestamp);
        let packets = (after.sn as u16).wrapping_sub(before.sn as u16).cast_signed();
        let difference = new.wrapping_sub(old);
        let is_aligned = |stride: u32| old % stride == new % stride;
        let mut is_new_stride = false;
        if packets > 0 && difference % packets.unsigned_abs() as u32 == 0 {
            let step = difference / packets.unsigned_abs() as u32;
            if step == self.ts_stride {
                self.candidate_seen = 0;
            } else if (1..1 << 28).contains(&step) {
                self.candidate_seen = if step == self.candidate { self.candidate_seen + 1 } else { 1 };
                self.candidate = step;
                let needed = if is_young || self.ts_stride == 1 {
                    1
                } else if is_aligned(self.ts_stride) {
                    STRIDE_ALIGNED
                } else {
                    STRIDE_UNALIGNED
                };
                if self.candidate_seen >= needed {
                    self.ts_stride = step;
                    self.candidate_seen = 0;
                    due.ts_stride = repeats;
                    is_new_stride = true;
                }
            }
        }
        // RFC 4815 4.4.3: the offset is initialised again at wraparound.
        let wraps = (new < old) != (difference.cast_signed() < 0);
        if is_new_stride || wraps || !is_aligned(self.ts_stride) {
            due.ts_unscaled = repeats;
            return true;
        }
        let expected = old.wrapping_add(self.ts_stride.wrapping_mul(i32::from(packets).cast_unsigned()));
        // Some decompressors take the difference of sequence numbers without their wraparound.
        let sn_wraps = packets > 0 && (after.sn as u16) < before.sn as u16;
        if new != expected || sn_wraps {
            due.ts = repeats;
        }
        false
    }
}
