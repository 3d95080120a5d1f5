//! Which base header says enough (RFC 6846 8.1): the smallest whose fields reach from every reference,
//! and which leaves out nothing that a reference has otherwise.

use super::formats::{Common, rsf_index};
use super::header::IpId;
use super::references::{Reference, References};
use crate::packet_type::PacketType;

/// What to send.
#[derive(Clone, Copy, Debug)]
pub(super) enum Choice {
    /// Nothing smaller can say it.
    IrDyn,
    /// `rnd_1` to `rnd_8` or `seq_1` to `seq_8`.
    Small(PacketType),
    Common(Common),
}

/// One packet against the references.
pub(super) struct Chooser<'a> {
    pub(super) references: &'a References,
    pub(super) now: &'a Reference,
    pub(super) is_v6: bool,
    /// The innermost identification as it stands on the wire.
    pub(super) id: u16,
    pub(super) has_list: bool,
}

impl Chooser<'_> {
    pub(super) fn choose(&self) -> Choice {
        let now = self.now;
        let known = self.references;
        if rsf_index(now.tcp.rsf).is_none() {
            return Choice::IrDyn;
        }
        let is_id_known = known.all(|old| old.ip_id == now.ip_id);
        // What no small header carries. Flags that they imply must be the context's too: see the module.
        let is_plain = is_id_known
            && known.all(|old| {
                old.tcp.ack_flag
                    && !old.tcp.urg_flag
                    && old.tcp.urg_ptr == now.tcp.urg_ptr
                    && old.tos >> 2 == now.tos >> 2
                    && old.df == now.df
                    && old.ack_stride == now.ack_stride
            })
            && now.tcp.ack_flag
            && !now.tcp.urg_flag;
        if is_plain {
            let is_window_known = known.all(|old| old.tcp.window == now.tcp.window);
            // And what only formats 8 carry.
            let is_smallest = !self.has_list
                && now.tcp.rsf == 0
                && known.all(|old| old.ttl == now.ttl && old.ecn_used == now.ecn_used);
            let small = if now.ip_id.is_sequential() {
                self.sequential(is_window_known, is_smallest)
            } else {
                self.random(is_window_known, is_smallest)
            };
            if let Some(packet) = small {
                return Choice::Small(packet);
            }
        }
        self.common(is_id_known)
    }

    fn random(&self, is_window_known: bool, is_smallest: bool) -> Option<PacketType> {
        let (is_seq_known, is_ack_known) = (self.is_seq_known(), self.is_ack_known());
        let seq = |width, p| self.seq_fits(width, p);
        let ack = |width, p| self.ack_fits(width, p);
        let (scaled_seq, scaled_ack) = (self.is_seq_scaled(), self.is_ack_scaled());
        [
            (PacketType::Rnd2, is_window_known && is_ack_known && scaled_seq),
            (PacketType::Rnd4, is_window_known && is_seq_known && scaled_ack),
            (PacketType::Rnd1, is_window_known && is_ack_known && seq(18, 65_535)),
            (PacketType::Rnd3, is_window_known && is_seq_known && ack(15, 8_191)),
            (PacketType::Rnd6, is_window_known && scaled_seq && ack(16, 16_383)),
            (PacketType::Rnd5, is_window_known && seq(14, 8_191) && ack(15, 8_191)),
            (PacketType::Rnd7, is_seq_known && ack(18, 65_535)),
        ]
        .into_iter()
        .find(|(_, fits)| is_smallest && *fits)
        .or_else(|| {
            let fits = is_window_known && self.ttl_fits() && seq(16, 65_535) && ack(16, 16_383);
            fits.then_some((PacketType::Rnd8, true))
        })
        .map(|(packet, _)| packet)
    }

    fn sequential(&self, is_window_known: bool, is_smallest: bool) -> Option<PacketType> {
        let (is_seq_known, is_ack_known) = (self.is_seq_known(), self.is_ack_known());
        let seq = |width, p| self.seq_fits(width, p);
        let ack = |width, p| self.ack_fits(width, p);
        let id = |width, p| self.id_fits(width, p);
        let (scaled_seq, scaled_ack) = (self.is_seq_scaled(), self.is_ack_scaled());
        let window = || self.references.fits(self.now.tcp.window.into(), 15, 16_383, 16, |old| old.tcp.window.into());
        [
            (PacketType::Seq4, is_window_known && is_seq_known && scaled_ack && id(3, 1)),
            (PacketType::Seq2, is_window_known && is_ack_known && scaled_seq && id(7, 3)),
            (PacketType::Seq1, is_window_known && is_ack_known && seq(16, 32_767) && id(4, 3)),
            (PacketType::Seq3, is_window_known && is_seq_known && ack(16, 16_383) && id(4, 3)),
            (PacketType::Seq6, is_window_known && scaled_seq && ack(16, 16_383) && id(7, 3)),
            (PacketType::Seq5, is_window_known && seq(16, 32_767) && ack(16, 16_383) && id(4, 3)),
            (PacketType::Seq7, is_seq_known && ack(16, 32_767) && id(5, 3) && window()),
        ]
        .into_iter()
        .find(|(_, fits)| is_smallest && *fits)
        .or_else(|| {
            let fits = is_window_known && self.ttl_fits() && seq(14, 8_191) && ack(15, 8_191) && id(4, 3);
            fits.then_some((PacketType::Seq8, true))
        })
        .map(|(packet, _)| packet)
    }

    fn common(&self, is_id_known: bool) -> Choice {
        let now = self.now;
        let known = self.references;
        let indicator = |is_known: bool, fits: &dyn Fn(u32, i32) -> bool| match is_known {
            true => 0,
            false if fits(8, 63) => 1,
            false if fits(16, 16_383) => 2,
            false => 3,
        };
        let is_id_short = is_id_known && self.id_fits(8, 3);
        if now.ip_id == IpId::Swapped && !is_id_short {
            // Implementations differ in the order of the two octets of a swapped identification sent whole.
            return Choice::IrDyn;
        }
        Choice::Common(Common {
            ack_flag: now.tcp.ack_flag,
            urg_flag: now.tcp.urg_flag,
            seq_indicator: indicator(self.is_seq_known(), &|width, p| self.seq_fits(width, p)),
            ack_indicator: indicator(self.is_ack_known(), &|width, p| self.ack_fits(width, p)),
            ack_stride: (!known.all(|old| old.ack_stride == now.ack_stride)).then_some(now.ack_stride),
            has_window: !known.all(|old| old.tcp.window == now.tcp.window),
            ip_id: now.ip_id,
            whole_id: (now.ip_id.is_sequential() && !is_id_short).then_some(self.id),
            urg_ptr: (!known.all(|old| old.tcp.urg_ptr == now.tcp.urg_ptr)).then_some(now.tcp.urg_ptr),
            dscp: (!known.all(|old| old.tos >> 2 == now.tos >> 2)).then_some(now.tos >> 2),
            has_ttl: !known.all(|old| old.ttl == now.ttl),
            df: now.df && !self.is_v6,
        })
    }

    fn is_seq_known(&self) -> bool {
        self.references.all(|old| old.tcp.seq == self.now.tcp.seq)
    }

    fn is_ack_known(&self) -> bool {
        self.references.all(|old| old.tcp.ack == self.now.tcp.ack)
    }

    fn seq_fits(&self, width: u32, p: i32) -> bool {
        self.references.fits(self.now.tcp.seq, width, p, 32, |old| old.tcp.seq)
    }

    fn ack_fits(&self, width: u32, p: i32) -> bool {
        self.references.fits(self.now.tcp.ack, width, p, 32, |old| old.tcp.ack)
    }

    fn id_fits(&self, width: u32, p: i32) -> bool {
        self.references.fits(self.now.ip_id_offset.into(), width, p, 16, |old| old.ip_id_offset.into())
    }

    fn ttl_fits(&self) -> bool {
        self.references.fits(self.now.ttl.into(), 3, 3, 8, |old| old.ttl.into())
    }

    /// Factor (the payload's length) and rest are in every reference (RFC 6846 6.4.8.1).
    fn is_seq_scaled(&self) -> bool {
        let Some(scaled) = self.now.scaled_seq else { return false };
        let value = |old: &Reference| old.scaled_seq.map_or(0, |scaled| scaled.value);
        self.references.all(|old| {
            old.payload == self.now.payload && old.scaled_seq.is_some_and(|old| old.residue == scaled.residue)
        }) && self.references.fits(scaled.value, 4, 7, 32, value)
    }

    /// Factor and rest are in every reference (RFC 6846 6.4.8.2).
    fn is_ack_scaled(&self) -> bool {
        let Some(scaled) = self.now.scaled_ack else { return false };
        let value = |old: &Reference| old.scaled_ack.map_or(0, |scaled| scaled.value);
        self.references.all(|old| {
            old.ack_stride == self.now.ack_stride && old.scaled_ack.is_some_and(|old| old.residue == scaled.residue)
        }) && self.references.fits(scaled.value, 4, 3, 32, value)
    }
}
