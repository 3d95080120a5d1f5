//! The compressor's side of a context: states, modes and what feedback does to them (RFC 3095 5.3.1, 5.4.1, 5.6).

use alloc::vec::Vec;
use core::time::Duration;

use super::chain::{self, IdCoding, RtpExtra};
use super::feedback::{self, AckType, MODE_O, MODE_U};
use super::format::{Request, Shape, StaticCrcs, Windows};
use super::header::{Header, Ip, crc_static, same_static};
use super::observe::{Due, Pattern};
use super::pace::Pace;
use super::{Kind, fields::Positions};
use crate::bits::Bits;
use crate::compressor::{CompressorConfig, Job, Sent};
use crate::crc::{CRC3, CRC7, CRC8};
use crate::error::FeedbackError;
use crate::feedback::Feedback;
use crate::list::{ChainCompressor, CompressorLists};
use crate::packet_type::PacketType;
use crate::wlsb::Window;

/// The type octet of an IR packet with a dynamic chain (RFC 3095 5.7.7.1).
const IR: u8 = 0b1111_1101;
/// The type octet of an IR-DYN packet (RFC 3095 5.2.4).
const IR_DYN: u8 = 0b1111_1000;

/// Packets with a CRC-7 that follow the repeats of a change which a CRC-3 does not see: enough for a
/// decompressor that missed it to be sure that its context is damaged.
const CRC7_GUARD: u8 = 5;

/// Packets that a silence is as long as after which the decompressor cannot tell it from a lost burst by three bits of
/// CRC: half of what the four bits of a sequence number say, less what its clock may differ by.
const SILENCE: u64 = 5;

/// A context.
#[derive(Clone, Debug)]
pub(crate) struct Compressor {
    kind: Kind,
    /// C_MODE: [`MODE_U`] or [`MODE_O`].
    mode: u8,
    /// C_TRANS is P: a return to mode U waits for its acknowledgement (RFC 3095 5.6.6).
    in_transition: bool,
    /// The last header sent.
    header: Header,
    /// Packets sent in this context.
    sent: u32,
    pattern: Pattern,
    due: Due,
    windows: Windows,
    lists: CompressorLists,
    udp_checksum: bool,
    static_crcs: StaticCrcs,
    /// Packets whose CRC must have 7 bits, because the change before them left the CRC-3 as it was, or a silence.
    needs_crc7: u8,
    /// IR packets, and IR-DYN packets, that are still to be sent.
    ir: u8,
    ir_dyn: u8,
    /// Something became due, or will with the next packet.
    has_changed: bool,
    /// The sequence number of the first packet that carried all that is due.
    changed_at: u32,
    since_ir: u32,
    ir_at: Duration,
    since_refresh: u32,
    refresh_at: Duration,
    pace: Pace,
}

enum Plan {
    Ir,
    IrDyn,
    Compressed(Shape),
}

impl Compressor {
    /// A flow that has sent nothing. Its first generated sequence number will be `sn`.
    pub(crate) fn new(kind: Kind, sn: u16, config: &CompressorConfig) -> Self {
        let window = |field| Window::new(config.wlsb_window, field);
        let mut header = Header::EMPTY;
        header.sn = u32::from(sn.wrapping_sub(1));
        Self {
            kind,
            mode: MODE_U,
            in_transition: false,
            header,
            sent: 0,
            pattern: Pattern::new(),
            due: Due::default(),
            windows: Windows {
                sn: window(kind.sn_field() as u8),
                ts_scaled: window(32),
                ts: window(32),
                id: [window(16), window(16)],
            },
            lists: CompressorLists::new(),
            udp_checksum: false,
            static_crcs: StaticCrcs::default(),
            needs_crc7: 0,
            ir: config.repeats,
            ir_dyn: 0,
            has_changed: true,
            changed_at: 0,
            since_ir: 0,
            ir_at: Duration::ZERO,
            since_refresh: 0,
            refresh_at: Duration::ZERO,
            pace: Pace::default(),
        }
    }

    /// A new flow takes the context over. The mode stays if the profile does (RFC 4815 7.2.1).
    pub(crate) fn reuse(&mut self, kind: Kind, sn: u16, config: &CompressorConfig) {
        let mode = if kind == self.kind { self.mode } else { MODE_U };
        let lists = core::mem::replace(&mut self.lists, CompressorLists::new());
        *self = Self { mode, lists, ..Self::new(kind, sn, config) };
    }

    /// Sends a packet; `None` if only an IR or IR-DYN packet could carry it and it has no payload, which those
    /// cannot tell from a context without a packet (RFC 3095 5.7.7).
    pub(crate) fn compress(&mut self, job: &Job<'_>, out: &mut Vec<u8>) -> Option<Sent> {
        let mut header = Header::read(self.kind, job.packet, job.headers);
        if matches!(self.kind, Kind::Udp | Kind::Ip) {
            header.sn = self.header.sn.wrapping_add(1) & self.kind.sn_mask();
        }
        let before = header.len(self.kind);
        let payload = &job.packet[before..];

        self.refresh(job);
        if self.sent > 0 {
            self.observe(&header, job.config);
        }
        let checksum = header.transport.udp_checksum;
        if self.kind.has_udp() && self.sent > 0 && (checksum != 0) != self.udp_checksum {
            // RFC 3095 5.7: only IR and IR-DYN can say that there is one now; or none, which the decompressor takes
            // for a damaged context otherwise.
            self.ir_dyn = job.config.repeats;
            self.has_changed = true;
        }
        if self.sent == 0 {
            self.lists.restart(header.ips().len(), self.kind.sn_field(), job.config.repeats);
        }
        let sources = header.sources(self.kind, job.packet);
        let have_lists_changed = self.lists.observe(job.packet, job.headers, sources, header.sn);
        self.has_changed |= have_lists_changed;
        let static_crcs = if self.sent > 0 && !have_lists_changed && same_static(&self.header, &header) {
            self.static_crcs
        } else {
            let of = |crc| crc_static(crc, self.kind, header.ips(), job.packet);
            StaticCrcs { crc3: of(&CRC3), crc7: of(&CRC7) }
        };
        if self.sent > 0 && static_crcs != self.static_crcs && static_crcs.crc3 == self.static_crcs.crc3 {
            // The change leaves the CRC-3 as it was, which cannot catch a decompressor that missed it: longer
            // CRCs are used for a while (RFC 3095 5.9.2).
            self.needs_crc7 = CRC7_GUARD.saturating_add(job.config.repeats);
        }
        if self.pace.is_silent_for(SILENCE, job.now) && self.is_doubtful(&header) {
            self.needs_crc7 = self.needs_crc7.max(1);
        }
        let mut request = Request {
            kind: self.kind,
            header: &header,
            pattern: &self.pattern,
            windows: &self.windows,
            due: &self.due,
            lists: &mut self.lists,
            udp_checksum: self.udp_checksum,
            mode: self.mode,
            static_crcs,
            needs_crc7: self.needs_crc7 > 0,
            is_in_transition: self.in_transition,
        };
        let plan = if self.ir > 0 {
            Plan::Ir
        } else if self.ir_dyn > 0 {
            Plan::IrDyn
        } else {
            request.choose().map_or(Plan::IrDyn, Plan::Compressed)
        };
        if payload.is_empty() && !matches!(plan, Plan::Compressed(_)) {
            return None;
        }

        let start = out.len();
        let packet = match plan {
            Plan::Ir | Plan::IrDyn => {
                let is_ir = matches!(plan, Plan::Ir);
                self.write_initialisation(is_ir, &header, job, out);
                if is_ir { PacketType::Ir } else { PacketType::IrDyn }
            }
            Plan::Compressed(shape) => {
                request.write(&shape, job.space, job.cid, job.packet, out);
                shape.packet()
            }
        };
        let after = out.len() - start;
        out.extend_from_slice(payload);
        self.static_crcs = static_crcs;
        self.note_sent(packet, &header, job);
        Some(Sent { packet, header_before: before, header_after: after })
    }

    /// Feedback from the decompressor. True if it wants the flow no more.
    pub(crate) fn feedback(
        &mut self,
        feedback: &Feedback<'_>,
        config: &CompressorConfig,
    ) -> Result<bool, FeedbackError> {
        let said = feedback::read(feedback)?;
        let acknowledged = said.sn.filter(|_| said.ack == AckType::Ack).and_then(|sn| self.sent_with(sn));
        if let Some(packets) = said.longest_loss.filter(|_| said.is_protected) {
            for window in self.all_windows() {
                window.widen(packets.saturating_add(1));
            }
        }
        match said.ack {
            AckType::Ack => {
                if let Some(sn) = acknowledged {
                    self.acknowledge(sn);
                }
            }
            AckType::Nack => {
                self.ir_dyn = config.repeats;
                self.has_changed = true;
                self.lists.doubt();
            }
            AckType::StaticNack => {
                self.ir = config.repeats;
                self.has_changed = true;
                self.lists.doubt();
            }
        }
        // RFC 4815 3.2: nothing about modes without a CRC.
        if said.is_protected {
            match (said.mode, self.mode) {
                // RFC 3095 5.6.2. Mode R is answered with O (see the module).
                (2 | 3, MODE_U) if !self.in_transition => self.mode = MODE_O,
                (1, MODE_O) if !self.in_transition => {
                    self.mode = MODE_U;
                    self.in_transition = true;
                    self.has_changed = true;
                }
                (1, _)
                    if self.in_transition
                        && !self.has_changed
                        && acknowledged.is_some_and(|sn| self.is_after_change(sn)) =>
                {
                    self.in_transition = false;
                }
                _ => {}
            }
        }
        Ok(said.is_rejected)
    }

    /// Timeouts of mode U (RFC 3095 5.3.1.1.2).
    fn refresh(&mut self, job: &Job<'_>) {
        let config = job.config;
        if self.mode != MODE_U || self.sent == 0 {
            return;
        }
        let is_over = |packets: u32, limit: u32, at: Duration, time: Duration| {
            packets >= limit || job.now.saturating_sub(at) >= time
        };
        if is_over(self.since_ir, config.ir_refresh_packets, self.ir_at, config.ir_refresh_time) {
            self.ir = self.ir.max(1);
        } else if is_over(self.since_refresh, config.fo_refresh_packets, self.refresh_at, config.fo_refresh_time) {
            self.ir_dyn = self.ir_dyn.max(1);
        }
    }

    fn observe(&mut self, header: &Header, config: &CompressorConfig) {
        let before = self.due;
        let is_young = self.sent <= u32::from(config.repeats);
        let breaks = self.pattern.observe(self.kind, &self.header, header, config.repeats, is_young, &mut self.due);
        if breaks.sid {
            self.ir_dyn = config.repeats;
        }
        if breaks.ts {
            self.windows.ts_scaled.clear();
        }
        for (window, is_broken) in self.windows.id.iter_mut().zip(breaks.id) {
            if is_broken {
                window.clear();
            }
        }
        self.has_changed |= self.due != before || breaks.sid;
    }

    fn write_initialisation(&mut self, is_ir: bool, header: &Header, job: &Job<'_>, out: &mut Vec<u8>) {
        let start = out.len();
        job.space.open(out, job.cid, if is_ir { IR } else { IR_DYN });
        out.push(self.kind.profile().octet());
        let crc_at = out.len();
        out.push(0);
        if is_ir {
            chain::write_static(self.kind, header, out);
        }
        let extra = RtpExtra { mode: self.mode, ts_stride: Some(self.pattern.ts_stride), time_stride: None };
        chain::write_dynamic(self.kind, header, &self.pattern.codings, &mut self.lists, extra, out);
        // RFC 3095 5.9.1: over the header with its CRC as zero.
        out[crc_at] = CRC8.of(&out[start..]);
    }

    fn note_sent(&mut self, packet: PacketType, header: &Header, job: &Job<'_>) {
        if self.has_changed {
            self.has_changed = false;
            self.changed_at = header.sn;
        }
        self.since_ir = self.since_ir.saturating_add(1);
        self.since_refresh = self.since_refresh.saturating_add(1);
        if matches!(packet, PacketType::Ir | PacketType::IrDyn) {
            self.udp_checksum = header.transport.udp_checksum != 0;
            (self.since_refresh, self.refresh_at) = (0, job.now);
            self.ir_dyn = self.ir_dyn.saturating_sub(1);
        }
        if packet == PacketType::Ir {
            (self.since_ir, self.ir_at) = (0, job.now);
            self.ir = self.ir.saturating_sub(1);
        }
        let steps = header.sn.wrapping_sub(self.header.sn) & self.kind.sn_mask();
        match packet {
            PacketType::Ir | PacketType::IrDyn => self.pace.restart(job.now),
            _ => self.pace.note(job.now, if steps <= self.kind.sn_mask() / 2 { steps } else { 0 }),
        }
        self.needs_crc7 = self.needs_crc7.saturating_sub(1);
        self.due.all_said();
        self.sent = self.sent.saturating_add(1);
        let sn = header.sn;
        self.windows.sn.add(sn, sn);
        if self.kind == Kind::Rtp {
            let timestamp = header.transport.rtp.timestamp;
            self.windows.ts.add(sn, timestamp);
            self.windows.ts_scaled.add(sn, timestamp / self.pattern.ts_stride);
        }
        let ips = header.ips();
        let positions = Positions::of(ips.len());
        for at in [Some(positions.inner), positions.outer].into_iter().flatten() {
            let coding = self.pattern.codings[at];
            if !ips[at].is_v6() && coding.is_offset() {
                self.windows.id[at].add(sn, u32::from(coding.count(ips[at].id).wrapping_sub(sn as u16)));
            }
        }
        self.header = *header;
    }

    /// Is there anything in the packets that follows the sequence number without being covered by the UDP checksum?
    fn is_doubtful(&self, header: &Header) -> bool {
        let is_offset = |(ip, coding): (&Ip, &IdCoding)| !ip.is_v6() && coding.is_offset();
        match self.kind {
            Kind::Rtp => header.transport.udp_checksum == 0,
            Kind::Esp => true,
            Kind::Udp | Kind::Ip => {
                !self.lists.chains.iter().all(ChainCompressor::is_empty)
                    || header.ips().iter().zip(&self.pattern.codings).any(is_offset)
            }
        }
    }

    /// The sequence number of the most recent packet with these low bits, if it was sent in this context
    /// (RFC 3095 5.7.6.1).
    fn sent_with(&self, sn: Bits) -> Option<u32> {
        let mask = if sn.width >= 32 { u32::MAX } else { (1 << sn.width) - 1 };
        let age = self.header.sn.wrapping_sub(sn.value) & mask & self.kind.sn_mask();
        (age < self.sent).then(|| self.header.sn.wrapping_sub(age) & self.kind.sn_mask())
    }

    fn is_after_change(&self, sn: u32) -> bool {
        let age = |sn: u32| self.header.sn.wrapping_sub(sn) & self.kind.sn_mask();
        age(sn) <= age(self.changed_at)
    }

    /// The decompressor has the packet `sn`: what was in it needs no repeating (RFC 3095 5.4.1.1.2).
    fn acknowledge(&mut self, sn: u32) {
        for window in self.all_windows() {
            window.acknowledge(sn);
        }
        if !self.has_changed && self.is_after_change(sn) {
            self.due = Due::default();
            self.needs_crc7 = 0;
            (self.ir, self.ir_dyn) = (0, 0);
            self.lists.acknowledge();
        }
    }

    fn all_windows(&mut self) -> impl Iterator<Item = &mut Window> {
        let Windows { sn, ts_scaled, ts, id } = &mut self.windows;
        [sn, ts_scaled, ts].into_iter().chain(id)
    }
}
