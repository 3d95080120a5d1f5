//! The compressor's side of a context (RFC 6846 5.2, RFC 4164 3.3).

use alloc::vec::Vec;
use core::mem;
use core::time::Duration;

use super::chain::{Kind, Layout, MAX_LAYERS};
use super::choose::{Choice, Chooser};
use super::formats::{Values, rsf_index};
use super::header::{IpId, Scaled, Tcp};
use super::receive_chains::{tos, ttl_at};
use super::references::{Reference, References};
use super::segment::Segment;
use super::send_chains::{
    can_replicate, is_close, is_dynamic_changed, is_outer_tos_changed, write_dynamic, write_irregular, write_replicate,
    write_static, write_tcp_dynamic, write_tcp_replicate,
};
use super::send_options::{Items, Plan};
use super::track::{IpIdTracker, StrideTracker};
use super::{PROFILE_OCTET, Timestamps};
use crate::bits::push_sdvl;
use crate::bits::sdvl_len;
use crate::compressor::{Job, Sent};
use crate::crc::{CRC3, CRC7, CRC8};
use crate::error::{FeedbackError, Malformed};
use crate::feedback::{Coverage, Feedback};
use crate::packet_type::PacketType;
use crate::wlsb::Window;

/// Packets without a change of the ECN bits after which they are no longer sent (RFC 6846 6.1.3).
const ECN_QUIET: u8 = 64;

/// A flow's context.
#[derive(Debug)]
pub(crate) struct Compressor {
    repeats: u8,
    /// Of the last packet.
    msn: u16,
    /// Packets of the flow: feedback about others is no answer to it.
    sent: u32,
    references: References,
    items: Items,
    /// The last packet whose list of options was another than the one before.
    list_msn: u16,
    timestamps: Timestamps,
    layout: Layout,
    /// The octets in front of TCP in the last packet.
    chain: Vec<u8>,
    /// Where base headers are made.
    base: Vec<u8>,
    ip_id: [IpId; MAX_LAYERS],
    identification: IpIdTracker,
    stride: StrideTracker,
    ecn_used: bool,
    ecn_quiet: u8,
    /// Packets in a row whose numbers of AH and GRE moved little.
    close: u8,
    /// IR packets still to be sent.
    ir_left: u8,
    /// IR-DYN packets still to be sent.
    dyn_left: u8,
    /// The decompressor said that it has the context.
    is_acknowledged: bool,
    /// Feedback has come.
    is_bidirectional: bool,
    since_ir: u32,
    since_dyn: u32,
    ir_at: Duration,
    dyn_at: Duration,
}

/// A context that a new flow's first packet can start from (RFC 4164 3.3.3.1).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replica {
    cid: u16,
    tcp: Tcp,
    /// Are reserved and ECN bits the base's for certain?
    is_ecn_equal: bool,
}

impl Compressor {
    /// A context for a new flow. `msn` is the number of the last packet that went by this CID, if there was
    /// one (RFC 6846 6.1.1), else any number.
    pub(crate) fn new(repeats: u8, msn: u16) -> Self {
        Self {
            repeats,
            msn,
            sent: 0,
            references: References::new(repeats),
            items: Items::new(repeats),
            list_msn: msn,
            timestamps: Timestamps { value: Window::new(repeats, 32), echo: Window::new(repeats, 32) },
            layout: Layout::EMPTY,
            chain: Vec::new(),
            base: Vec::new(),
            ip_id: [IpId::Random; MAX_LAYERS],
            identification: IpIdTracker::new(),
            stride: StrideTracker::default(),
            ecn_used: false,
            ecn_quiet: 0,
            close: 0,
            ir_left: repeats,
            dyn_left: 0,
            is_acknowledged: false,
            is_bidirectional: false,
            since_ir: 0,
            since_dyn: 0,
            ir_at: Duration::ZERO,
            dyn_at: Duration::ZERO,
        }
    }

    /// Begins again for another flow, in the same memory. The MSN goes on (RFC 6846 6.1.1).
    pub(crate) fn reuse(&mut self, repeats: u8) {
        let (mut chain, base) = (mem::take(&mut self.chain), mem::take(&mut self.base));
        chain.clear();
        *self = Self { chain, base, ..Self::new(repeats, self.msn) };
    }

    /// What the first packet of a new flow can start from, if this context (of `cid`) will do: it is
    /// acknowledged, and differs from the new flow only in what replicate items carry.
    pub(crate) fn replica(&self, cid: u16, segment: &Segment, packet: &[u8]) -> Option<Replica> {
        let tcp = self.references.newest()?.tcp;
        let ttl = self.chain.get(self.layout.inner().range()).map(|header| header[ttl_at(self.layout.inner().kind)]);
        let fits = self.is_acknowledged
            && self.dyn_left == 0
            && self.layout == segment.layout
            && rsf_index(segment.tcp.rsf).is_some()
            && self.references.all(|old| Some(old.ttl) == ttl)
            && can_replicate(&self.layout, packet, &self.chain);
        let is_ecn_equal = self
            .references
            .all(|old| !old.ecn_used && old.tcp.reserved == segment.tcp.reserved && old.tcp.ecn == segment.tcp.ecn);
        fits.then_some(Replica { cid, tcp, is_ecn_equal })
    }

    /// Compresses `job.packet`, which was parsed into `segment`.
    pub(crate) fn compress(&mut self, job: &Job<'_>, segment: &Segment, out: &mut Vec<u8>) -> Sent {
        let replica = job.replica;
        self.schedule_refresh(job);
        let packet = job.packet;
        let is_first = self.chain.is_empty();
        let options = &packet[segment.options()];
        let now = self.observe(packet, segment, replica);
        let plan = self.items.plan(options, segment.cut, &self.timestamps);
        if plan.is_list_new {
            self.list_msn = now.msn;
        }
        let start = out.len();
        let sent = if self.ir_left > 0 {
            match replica {
                Some(replica) if is_first => self.send_replica(job, segment, &plan, &now, replica, out),
                _ => self.send_ir(job, segment, &plan, &now, true, out),
            }
        } else if self.dyn_left > 0 {
            self.send_ir(job, segment, &plan, &now, false, out)
        } else {
            self.send_compressed(job, segment, &plan, &now, out)
        };
        let header_after = out.len() - start;
        out.extend_from_slice(&packet[segment.header_len()..]);
        self.remember(packet, segment, &plan, now);
        Sent { packet: sent, header_before: segment.header_len(), header_after }
    }

    /// In mode U the context is sent again after some packets or some time (RFC 6846 5.2.1.2).
    fn schedule_refresh(&mut self, job: &Job<'_>) {
        self.since_ir = self.since_ir.saturating_add(1);
        self.since_dyn = self.since_dyn.saturating_add(1);
        if self.is_bidirectional {
            return;
        }
        let config = job.config;
        let age = |at: Duration| job.now.saturating_sub(at);
        if self.since_ir > config.ir_refresh_packets || age(self.ir_at) >= config.ir_refresh_time {
            self.ir_left = self.ir_left.max(1);
        } else if self.since_dyn > config.fo_refresh_packets || age(self.dyn_at) >= config.fo_refresh_time {
            self.dyn_left = self.dyn_left.max(1);
        }
    }

    /// Takes a packet in, and says what it will leave in the decompressor's context.
    fn observe(&mut self, packet: &[u8], segment: &Segment, replica: Option<Replica>) -> Reference {
        self.msn = self.msn.wrapping_add(1);
        self.sent = self.sent.saturating_add(1);
        let layout = &segment.layout;
        let tcp = segment.tcp;
        let inner = layout.inner();
        let header = &packet[inner.range()];
        let tos = tos(inner.kind, header);
        let is_known = self.chain.len() == layout.len();
        if is_known {
            if is_dynamic_changed(layout, packet, &self.chain) {
                self.dyn_left = self.repeats;
            }
            self.close = if is_close(layout, packet, &self.chain) { self.close.saturating_add(1) } else { 0 };
        }
        self.identify(packet, layout);

        let ecn_differs =
            |old: &Reference| old.tcp.reserved != tcp.reserved || old.tcp.ecn != tcp.ecn || (old.tos ^ tos) & 3 != 0;
        let is_ecn_changed = is_known
            && (!self.references.all(|old| !ecn_differs(old)) || is_outer_tos_changed(layout, packet, &self.chain));
        if is_ecn_changed || replica.is_some_and(|replica| !replica.is_ecn_equal) {
            (self.ecn_used, self.ecn_quiet) = (true, 0);
        } else if self.ecn_used {
            self.ecn_quiet += 1;
            self.ecn_used = self.ecn_quiet < ECN_QUIET;
        }
        let ack_stride = self.stride.next(tcp.ack, self.repeats);
        let ip_id = self.ip_id[layout.innermost()];
        let payload = (packet.len() - segment.header_len()) as u32;
        Reference {
            msn: self.msn,
            tcp,
            tos,
            ttl: header[ttl_at(inner.kind)],
            df: inner.kind == Kind::V4 && header[6] & 0x40 != 0,
            ip_id,
            ip_id_offset: match inner.kind {
                Kind::V4 => ip_id.offset(u16::from_be_bytes([header[4], header[5]]), self.msn),
                _ => 0,
            },
            ecn_used: self.ecn_used,
            ack_stride,
            payload,
            scaled_seq: Scaled::of(tcp.seq, payload),
            scaled_ack: Scaled::of(tcp.ack, ack_stride.into()),
        }
    }

    /// Finds the behavior of each identification (RFC 6846 6.1.2).
    fn identify(&mut self, packet: &[u8], layout: &Layout) {
        let is_first = self.chain.is_empty();
        for (at, layer) in layout.layers().iter().enumerate() {
            if layer.kind != Kind::V4 {
                continue;
            }
            let header = &packet[layer.range()];
            let id = u16::from_be_bytes([header[4], header[5]]);
            let old = self.ip_id[at];
            self.ip_id[at] = if at == layout.innermost() {
                self.identification.next(id, self.ir_left > 0)
            } else if id == 0 && (is_first || old == IpId::Zero) {
                IpId::Zero
            } else {
                IpId::Random
            };
            if at != layout.innermost() && self.ip_id[at] != old {
                // Only a dynamic chain says so of an outer header.
                self.dyn_left = self.repeats;
            }
        }
    }

    /// IR or IR-DYN (RFC 6846 7.1).
    fn send_ir(
        &mut self,
        job: &Job<'_>,
        segment: &Segment,
        plan: &Plan,
        now: &Reference,
        is_ir: bool,
        out: &mut Vec<u8>,
    ) -> PacketType {
        let start = out.len();
        job.space.open(out, job.cid, if is_ir { 0b1111_1101 } else { 0b1111_1000 });
        let crc_at = out.len() + 1;
        out.extend_from_slice(&[PROFILE_OCTET, 0]);
        let (layout, tcp) = (&segment.layout, &segment.tcp);
        if is_ir {
            write_static(out, layout, job.packet, tcp);
            self.ir_left = self.ir_left.saturating_sub(1);
            (self.since_ir, self.ir_at) = (0, job.now);
        }
        self.dyn_left = self.dyn_left.saturating_sub(1);
        (self.since_dyn, self.dyn_at) = (0, job.now);
        write_dynamic(out, layout, job.packet, &self.ip_id);
        write_tcp_dynamic(out, tcp, now.msn, now.ecn_used, now.ack_stride);
        self.items.write_list(out, plan, &job.packet[segment.options()], tcp.ack, true);
        out[crc_at] = CRC8.of(&out[start..]);
        if is_ir { PacketType::Ir } else { PacketType::IrDyn }
    }

    /// IR-CR (RFC 6846 7.2).
    fn send_replica(
        &mut self,
        job: &Job<'_>,
        segment: &Segment,
        plan: &Plan,
        now: &Reference,
        replica: Replica,
        out: &mut Vec<u8>,
    ) -> PacketType {
        let start = out.len();
        job.space.open(out, job.cid, 0b1111_1100);
        let crc_at = out.len() + 1;
        let crc7 = CRC7.of(&job.packet[..segment.header_len()]);
        out.extend_from_slice(&[PROFILE_OCTET, 0, 0x80 | crc7]);
        if job.space.is_large() {
            push_sdvl(out, replica.cid.into(), sdvl_len(replica.cid.into()).unwrap_or(2));
        } else {
            out.push(replica.cid as u8);
        }
        self.ir_left = self.ir_left.saturating_sub(1);
        (self.since_ir, self.ir_at) = (0, job.now);
        (self.since_dyn, self.dyn_at) = (0, job.now);
        write_replicate(out, &segment.layout, job.packet, &self.ip_id);
        write_tcp_replicate(out, &segment.tcp, &replica.tcp, now.msn, now.ecn_used);
        self.items.write_list(out, plan, &job.packet[segment.options()], segment.tcp.ack, true);
        out[crc_at] = CRC8.of(&out[start..]);
        PacketType::IrCr
    }

    /// A CO packet (RFC 6846 7.3), if there is one that says enough.
    fn send_compressed(
        &mut self,
        job: &Job<'_>,
        segment: &Segment,
        plan: &Plan,
        now: &Reference,
        out: &mut Vec<u8>,
    ) -> PacketType {
        let packet = job.packet;
        let inner = segment.layout.inner();
        let id = &packet[inner.range()][4..6];
        let chooser = Chooser {
            references: &self.references,
            now,
            is_v6: inner.kind == Kind::V6,
            id: u16::from_be_bytes([id[0], id[1]]),
            has_list: plan.needs_list,
        };
        let choice = chooser.choose();
        let is_short = |packet: PacketType| !matches!(packet, PacketType::Rnd8 | PacketType::Seq8);
        let header = &packet[..segment.header_len()];
        let values = Values {
            msn: now.msn,
            psh_flag: now.tcp.psh_flag,
            rsf_index: rsf_index(now.tcp.rsf).unwrap_or(0),
            crc: match choice {
                Choice::Small(packet) if is_short(packet) => CRC3.of(header),
                _ => CRC7.of(header),
            },
            seq: now.tcp.seq,
            ack: now.tcp.ack,
            scaled_seq: now.scaled_seq.map_or(0, |scaled| scaled.value),
            scaled_ack: now.scaled_ack.map_or(0, |scaled| scaled.value),
            window: now.tcp.window,
            ip_id_offset: now.ip_id_offset,
            ttl: now.ttl,
            ecn_used: now.ecn_used,
            has_list: plan.needs_list,
        };
        self.base.clear();
        let sent = match choice {
            Choice::IrDyn => return self.send_ir(job, segment, plan, now, false, out),
            Choice::Small(packet) => {
                values.write(&mut self.base, packet);
                packet
            }
            Choice::Common(common) => {
                values.write_common(&mut self.base, &common);
                PacketType::CoCommon
            }
        };
        job.space.open(out, job.cid, self.base[0]);
        out.extend_from_slice(&self.base[1..]);
        let options = &packet[segment.options()];
        if plan.needs_list {
            self.items.write_list(out, plan, options, now.tcp.ack, false);
        }
        write_irregular(out, &segment.layout, packet, &self.ip_id, now.ecn_used, self.close > self.repeats);
        if now.ecn_used {
            out.push(now.tos << 6 | now.tcp.reserved << 2 | now.tcp.ecn);
        }
        out.extend_from_slice(&now.tcp.checksum.to_be_bytes());
        self.items.write_irregular(out, plan, options, now.tcp.ack, plan.needs_list, &self.timestamps);
        sent
    }

    /// The packet is sent: the next ones may refer to it.
    fn remember(&mut self, packet: &[u8], segment: &Segment, plan: &Plan, now: Reference) {
        if let Some((value, echo)) = plan.timestamp(&packet[segment.options()]) {
            self.timestamps.value.add(now.msn.into(), value);
            self.timestamps.echo.add(now.msn.into(), echo);
        }
        self.references.push(now);
        self.layout = segment.layout;
        self.chain.clear();
        self.chain.extend_from_slice(&packet[..segment.layout.len()]);
    }

    /// Takes feedback (RFC 6846 8.3). True if the decompressor wants the flow no more.
    pub(crate) fn feedback(&mut self, feedback: &Feedback<'_>) -> Result<bool, FeedbackError> {
        let body = feedback.body();
        // FEEDBACK-1 is an acknowledgment with eight bits.
        let [first, second, _, options @ ..] = body else {
            let [bits] = body else { return Err(Malformed::TooShort.into()) };
            let msn = self.sent_with(u32::from(*bits), 8).ok_or(FeedbackError::NotSent { cid: feedback.cid })?;
            self.is_bidirectional = true;
            self.acknowledged(msn);
            return Ok(false);
        };
        // RFC 6846 8.3.1 has it over the entire element; who has it over what RFC 3095 5.7.6.3 says is understood.
        if ![Coverage::Element, Coverage::FromCid].into_iter().any(|coverage| feedback.crc_is_right(coverage, &[2])) {
            return Err(FeedbackError::Crc { cid: feedback.cid });
        }
        let options = FeedbackOptions::parse(options)?;
        let msn = self.acknowledged_msn(u16::from(first & 0x3f) << 8 | u16::from(*second), &options);
        let kind = first >> 6;
        if kind == 0 && msn.is_none() && !options.msn_is_not_valid && !options.rejects {
            return Err(FeedbackError::NotSent { cid: feedback.cid });
        }
        self.is_bidirectional = true;
        if options.rejects {
            // If it is tried again, then from the beginning.
            (self.is_acknowledged, self.ir_left) = (false, self.repeats);
            return Ok(true);
        }
        match (kind, msn) {
            (0, Some(msn)) => self.acknowledged(msn),
            (0, None) => {}
            (1, Some(msn)) => {
                self.acknowledged(msn);
                self.items.forget();
                self.dyn_left = self.dyn_left.max(self.repeats.min(2));
            }
            (3, _) => return Err(Malformed::Reserved("type of an acknowledgment").into()),
            // STATIC-NACK, and NACK whose MSN is not valid (RFC 6846 8.3.2.2): one that was never sent to a context of
            // this flow is not, either.
            _ => {
                self.items.forget();
                self.is_acknowledged = false;
                self.ir_left = self.repeats;
            }
        }
        Ok(false)
    }

    /// The MSN of FEEDBACK-2, if it is that of a packet of the flow.
    fn acknowledged_msn(&self, bits: u16, options: &FeedbackOptions) -> Option<u16> {
        if options.msn_is_not_valid {
            return None;
        }
        let Some(more) = options.msn else { return self.sent_with(bits.into(), 14) };
        // RFC 6846 8.3.2.3: two bits more, and reserved ones. Some send eight bits, as RFC 3095 5.7.6.6 has it.
        let standard = self.sent_with(u32::from(bits) << 2 | u32::from(more >> 6), 16).filter(|_| more & 0x3f == 0);
        standard.or_else(|| self.sent_with(u32::from(bits) << 8 | u32::from(more), 16))
    }

    /// The number of the last packet whose low `width` bits (8, 14 or 16) are those of `bits`, if it was of this flow.
    fn sent_with(&self, bits: u32, width: u32) -> Option<u16> {
        let mask = u16::MAX >> (16 - width);
        let age = self.msn.wrapping_sub(bits as u16) & mask;
        // A number ahead of the last one looks like one from nearly a whole round before.
        let limit = if width > 8 { 1 << (width - 1) } else { 1 << width };
        (u32::from(age) < self.sent.min(limit)).then(|| self.msn.wrapping_sub(age))
    }

    /// The decompressor has the packet `msn`.
    fn acknowledged(&mut self, msn: u16) {
        self.references.acknowledge(msn);
        self.timestamps.value.acknowledge(msn.into());
        self.timestamps.echo.acknowledge(msn.into());
        self.items.confirm(self.msn.wrapping_sub(msn), msn.wrapping_sub(self.list_msn) < 0x8000);
        self.is_acknowledged = true;
        self.ir_left = 0;
    }
}

/// RFC 6846 8.3.2.
#[derive(Clone, Copy, Debug, Default)]
struct FeedbackOptions {
    /// REJECT or CONTEXT_MEMORY: the flow is to be left alone.
    rejects: bool,
    msn_is_not_valid: bool,
    /// More bits, the least significant ones.
    msn: Option<u8>,
}

impl FeedbackOptions {
    fn parse(mut options: &[u8]) -> Result<Self, Malformed> {
        let mut found = Self::default();
        let mut seen = 0u16;
        while let [first, rest @ ..] = options {
            let (kind, len) = (first >> 4, usize::from(first & 0x0f));
            let data = rest.get(..len).ok_or(Malformed::TooShort)?;
            options = &rest[len..];
            match (kind, data) {
                (2 | 9, []) => found.rejects = true,
                (3, []) => found.msn_is_not_valid = true,
                (4, [octet]) => found.msn = Some(*octet),
                (2 | 3 | 4 | 9, _) => return Err(Malformed::Reserved("length of a feedback option")),
                // Others are skipped (RFC 6846 8.3.2.5).
                _ => continue,
            }
            if seen >> kind & 1 == 1 {
                return Err(Malformed::TooMany("feedback options of one type"));
            }
            seen |= 1 << kind;
        }
        if found.msn_is_not_valid && found.msn.is_some() {
            return Err(Malformed::Reserved("MSN of feedback"));
        }
        Ok(found)
    }
}
