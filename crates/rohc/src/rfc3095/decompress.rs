//! The decompressor's side of a context: states, references, repair and feedback (RFC 3095 5.3.2, 5.4.2).

use alloc::vec::Vec;
use core::time::Duration;

use super::Kind;
use super::chain::{self, IdCoding};
use super::decode::Values;
use super::feedback::{AckType, write_ack};
use super::fields::{Fields, Layout};
use super::header::{Header, Ip, crc};
use super::initial::{Chains, check_crc, lists_for};
use super::pace::Pace;
use crate::bits::Reader;
use crate::cid::Incoming;
use crate::crc::{CRC3, CRC7};
use crate::decompressor::{Arrival, Mode, Surroundings};
use crate::error::{DecompressError, Malformed};
use crate::feedback::Limiter;
use crate::headers::MAX_IP;
use crate::list::DecompressorLists;
use crate::packet_type::PacketType;
use crate::wlsb;

/// Failures of the last [`HISTORY`] packets that mean a damaged context: k_1 and k_2 of RFC 3095
/// 5.3.2.2.3. One would do on a line without residual errors; three of eight let one in twenty
/// packets be damaged without giving up a good context more than once in a hundred.
const TOO_MANY: u32 = 3;
/// n_1 and n_2.
const HISTORY: u32 = 8;
/// Packets in a row whose transport checksum was wrong, though the CRC of the header was right, that mean a damaged
/// context. As a rule it is the payload that is damaged, and what is wrong with the context fails a CRC too; but there
/// are differences that a CRC of three bits never sees.
const TOO_MANY_MISMATCHES: u8 = 8;
/// Packets that must follow a repair before one is delivered (RFC 3095 5.3.2.2.4 e, 5.3.2.2.5).
const CONFIRMATIONS: u8 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    None,
    Static,
    Full,
}

/// A context.
#[derive(Clone, Debug)]
pub(crate) struct Decompressor {
    kind: Kind,
    state: State,
    /// Of the last packet that was right: the references.
    values: Values,
    lists: DecompressorLists,
    /// Where an IR packet's lists are read to that the context's have no place for.
    other_lists: DecompressorLists,
    /// Is the UDP checksum in compressed headers (RFC 3095 5.7)? Only IR and IR-DYN say so.
    udp_checksum: bool,
    /// The sequence number before the last one that was right: ref -1 of RFC 3095 5.3.2.2.5.
    previous_sn: Option<u32>,
    /// Of the packets that were right.
    pace: Pace,
    /// Packets that must still confirm a repair.
    unconfirmed: u8,
    /// One bit a packet, the newest lowest: set if it failed.
    failures: u32,
    /// Packets in a row whose checksum alone was wrong.
    mismatches: u8,
    /// Was a compressed header right since the context was last given up? Or did an IR packet make all of it?
    is_proven: bool,
    /// What to ask for when it is given up.
    cure: AckType,
    acks: Limiter,
    nacks: Limiter,
}

/// What is behind the fields of a compressed header.
struct Behind<'a> {
    /// The IP headers with what came of dynamic parts for those beyond the second (RFC 3843 3.6).
    more: [(Ip, IdCoding); MAX_IP],
    payload: &'a [u8],
}

/// Why an attempt to decompress failed.
enum Wrong {
    Malformed(Malformed),
    Crc,
    Checksum,
}

/// Has a compressed header of this format a CRC of seven bits, so that it may repair a context?
const fn is_update(packet: PacketType) -> bool {
    matches!(packet, PacketType::Uor2 | PacketType::Uor2Id | PacketType::Uor2Ts)
}

impl Decompressor {
    /// A context that knows nothing yet.
    pub(crate) fn new(kind: Kind) -> Self {
        Self {
            kind,
            state: State::None,
            values: Values {
                header: Header::EMPTY,
                codings: [IdCoding::default(); MAX_IP],
                // RFC 3095 5.7.5.2.
                ts_stride: 1,
            },
            lists: DecompressorLists::new(),
            other_lists: DecompressorLists::new(),
            udp_checksum: false,
            previous_sn: None,
            pace: Pace::default(),
            unconfirmed: 0,
            failures: 0,
            mismatches: 0,
            is_proven: true,
            cure: AckType::Nack,
            acks: Limiter::default(),
            nacks: Limiter::default(),
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// Takes an IR packet of profile `kind`.
    pub(crate) fn ir(
        &mut self,
        kind: Kind,
        incoming: &Incoming<'_>,
        around: &mut Surroundings<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Arrival, DecompressError> {
        let result = self.take_ir(kind, incoming, around, out);
        self.after_initialisation(incoming, around, result, true)
    }

    /// Takes an IR-DYN packet of profile `kind`.
    pub(crate) fn ir_dyn(
        &mut self,
        kind: Kind,
        incoming: &Incoming<'_>,
        around: &mut Surroundings<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Arrival, DecompressError> {
        let result = self.take_ir_dyn(kind, incoming, around, out);
        self.after_initialisation(incoming, around, result, false)
    }

    /// Takes a packet of type 0, 1 or 2.
    pub(crate) fn compressed(
        &mut self,
        incoming: &Incoming<'_>,
        around: &mut Surroundings<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Arrival, DecompressError> {
        let cid = incoming.cid;
        let is_update = incoming.first() & 0xe0 == 0xc0;
        if self.state == State::None {
            self.nack(AckType::StaticNack, cid, around);
            return Err(DecompressError::NoContext { cid });
        }
        let wrong = match self.try_compressed(incoming, around, out) {
            Ok(result) => return result,
            Err(wrong) => wrong,
        };
        if self.state == State::Static && !is_update {
            // RFC 3095 5.4.2.2, SC: as a mismatching CRC, that is a NACK if the last was long ago.
            self.nack(self.cure, cid, around);
            return Err(DecompressError::Damaged { cid });
        }
        self.unconfirmed = 0;
        let error = match wrong {
            Wrong::Malformed(what) => DecompressError::Malformed { cid, what },
            Wrong::Crc => DecompressError::Crc { cid, bits: if is_update { 7 } else { 3 } },
            Wrong::Checksum => DecompressError::Checksum { cid },
        };
        self.note_failure(&error, is_update, cid, around);
        Err(error)
    }

    fn take_ir(
        &mut self,
        kind: Kind,
        incoming: &Incoming<'_>,
        around: &Surroundings<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Arrival, DecompressError> {
        let chains = Chains::read(kind, [&mut self.lists, &mut self.other_lists], incoming)?;
        let Some(dynamic) = chains.dynamic else {
            self.set_static(kind, &chains.header);
            return Err(DecompressError::NoPacket);
        };
        let (codings, has_other_lists, extra) = dynamic;
        // RFC 4815 6.3: what an IR packet does not carry stays.
        let ts_stride = match extra.ts_stride {
            Some(stride) => stride,
            None if kind == self.kind => self.values.ts_stride,
            None => 1,
        };
        let values = Values { header: chains.header, codings, ts_stride };
        self.initialise(PacketType::Ir, kind, values, has_other_lists, incoming, &chains.rest, around, out)
    }

    fn take_ir_dyn(
        &mut self,
        kind: Kind,
        incoming: &Incoming<'_>,
        around: &Surroundings<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Arrival, DecompressError> {
        let cid = incoming.cid;
        let malformed = |what| DecompressError::Malformed { cid, what };
        if self.state == State::None {
            return Err(DecompressError::NoContext { cid });
        }
        let mut values = self.values;
        if kind != self.kind {
            values.header = self.reuse(kind).ok_or(DecompressError::NoContext { cid })?;
            values.ts_stride = 1;
        }
        let mut reader = Reader::new(incoming.body());
        reader.take(2).map_err(malformed)?;
        let all_lists = [&mut self.lists, &mut self.other_lists];
        let (lists, has_other_lists) = lists_for(kind, &values.header, all_lists);
        let extra = chain::read_dynamic(kind, &mut values.header, &mut values.codings, lists, &mut reader)
            .map_err(malformed)?;
        check_crc(incoming, &reader)?;
        values.ts_stride = extra.ts_stride.unwrap_or(values.ts_stride);
        self.initialise(PacketType::IrDyn, kind, values, has_other_lists, incoming, &reader, around, out)
    }

    /// The static context of another profile that this one contains (RFC 3095 5.11.1, 5.12.1; RFC 3843 3.5).
    fn reuse(&self, kind: Kind) -> Option<Header> {
        let mut header = self.values.header;
        match (self.kind, kind) {
            (Kind::Rtp, Kind::Udp) => Some(header),
            (_, Kind::Ip) => {
                let ips = header.ips();
                let end =
                    ips.iter().position(|ip| !matches!(ip.protocol, crate::headers::IP_IN_IP | crate::headers::IPV6));
                header.truncate(end.map_or(ips.len(), |end| end + 1));
                Some(header)
            }
            _ => None,
        }
    }

    /// Makes `values` the context, and delivers the packet they belong to if it is right.
    #[expect(clippy::too_many_arguments, reason = "what IR and IR-DYN have in common")]
    fn initialise(
        &mut self,
        packet: PacketType,
        kind: Kind,
        mut values: Values,
        has_other_lists: bool,
        incoming: &Incoming<'_>,
        reader: &Reader<'_>,
        around: &Surroundings<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Arrival, DecompressError> {
        let cid = incoming.cid;
        let payload = reader.rest();
        let start = out.len();
        let lists = if has_other_lists { &self.other_lists } else { &self.lists };
        values.header.measure(lists);
        let written = values.header.write(kind, lists, payload.len(), out);
        written.map_err(|what| DecompressError::Malformed { cid, what })?;
        out.extend_from_slice(payload);
        let judged = values.header.checksum_is_right(kind, &out[start..]);
        let has_packet = !payload.is_empty() || judged == Some(true);
        self.kind = kind;
        self.state = State::Full;
        self.is_proven |= packet == PacketType::Ir;
        self.udp_checksum = values.header.transport.udp_checksum != 0;
        self.values = values;
        if has_other_lists {
            core::mem::swap(&mut self.lists, &mut self.other_lists);
        }
        self.lists.commit(values.header.sn, true);
        self.previous_sn = None;
        self.unconfirmed = 0;
        self.failures = 0;
        self.mismatches = 0;
        self.pace.restart(around.now);
        if !has_packet {
            return Err(DecompressError::NoPacket);
        }
        // The CRC-8 alone decides about the context (RFC 3095 5.3.2.2.3, 5.9.1). Whether the payload is right is
        // another question.
        if judged == Some(false) {
            return Err(DecompressError::Checksum { cid });
        }
        Ok(Arrival {
            packet,
            header_before: incoming.body_at() + reader.position(),
            header_after: values.header.len(kind),
        })
    }

    /// A static chain alone: the dynamic part of the context stays if it fits (RFC 4815 6.3).
    fn set_static(&mut self, kind: Kind, header: &Header) {
        let current = self.values.header.ips();
        let fits = self.state == State::Full
            && kind == self.kind
            && header.ips().len() == current.len()
            && header.ips().iter().zip(current).all(|(new, old)| new.is_v6() == old.is_v6());
        if !fits {
            let lists = core::mem::replace(&mut self.lists, DecompressorLists::new());
            *self = Self { state: State::Static, lists, ..Self::new(kind) };
            self.values.header = *header;
            self.lists.restart(header.ips().len(), kind.sn_field());
            return;
        }
        let current = &mut self.values.header;
        for (ip, new) in current.ips_mut().iter_mut().zip(header.ips()) {
            (ip.addresses, ip.protocol) = (new.addresses, new.protocol);
        }
        let transport = &mut current.transport;
        transport.source_port = header.transport.source_port;
        transport.destination_port = header.transport.destination_port;
        transport.spi = header.transport.spi;
        transport.rtp.ssrc = header.transport.rtp.ssrc;
    }

    /// Feedback and bookkeeping after an IR or IR-DYN packet.
    fn after_initialisation(
        &mut self,
        incoming: &Incoming<'_>,
        around: &mut Surroundings<'_>,
        result: Result<Arrival, DecompressError>,
        is_ir: bool,
    ) -> Result<Arrival, DecompressError> {
        let cid = incoming.cid;
        match &result {
            // RFC 3095 5.4.2.2: an IR packet is acknowledged. RFC 4815 8.10: other packets are not.
            Ok(_) | Err(DecompressError::NoPacket) => {
                if is_ir {
                    self.ack(cid, around);
                }
            }
            Err(_) if self.state == State::None => self.nack(AckType::StaticNack, cid, around),
            Err(error) => self.note_failure(error, true, cid, around),
        }
        result
    }

    /// Decompresses, with another sequence number if the first does not pass the CRC.
    fn try_compressed(
        &mut self,
        incoming: &Incoming<'_>,
        around: &mut Surroundings<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Result<Arrival, DecompressError>, Wrong> {
        let mut reader = Reader::new(incoming.body());
        let header = &self.values.header;
        let layout = Layout {
            kind: self.kind,
            ips: header.ips(),
            codings: &self.values.codings,
            udp_checksum: self.udp_checksum,
        };
        self.lists.begin();
        let fields = layout.read(incoming.first(), &mut self.lists, &mut reader).map_err(Wrong::Malformed)?;
        let mut more = [(Ip::NONE, IdCoding::default()); MAX_IP];
        if header.ips().len() > 2 {
            if self.kind != Kind::Ip {
                return Err(Wrong::Malformed(Malformed::TooMany("IP headers for a compressed header")));
            }
            for (at, more) in more.iter_mut().enumerate().take(header.ips().len()).skip(2) {
                more.0 = header.ips()[at];
                chain::read_ip_dynamic(&mut more.0, &mut more.1, &mut self.lists.chains[at], &mut reader)
                    .map_err(Wrong::Malformed)?;
            }
        }
        let behind = Behind { more, payload: reader.rest() };
        let header_before = incoming.body_at() + reader.position();
        let arrival = |values: &Values| Arrival {
            packet: fields.packet,
            header_before,
            header_after: values.header.len(self.kind),
        };

        let reference = header.sn;
        let sn = self.decode_sn(reference, &fields);
        let start = out.len();
        let wrong = match self.attempt(&fields, sn, &behind, out) {
            Ok((_, false)) if self.is_contradicted(&fields, sn, &behind, start, around.now, out) => {
                out.truncate(start);
                return Ok(Err(DecompressError::Unconfirmed { cid: incoming.cid }));
            }
            Ok((values, is_certain)) => {
                let arrival = arrival(&values);
                self.previous_sn = Some(reference);
                self.accept(&fields, &values, around);
                self.unconfirmed = if is_certain { 0 } else { self.unconfirmed.saturating_sub(1) };
                return Ok(self.deliver(incoming.cid, arrival));
            }
            Err(wrong @ Wrong::Malformed(_)) => return Err(wrong),
            Err(wrong) => wrong,
        };
        // RFC 3095 5.3.2.2.3: first wraparound, or else a wrong reference.
        let (second, is_wraparound) = match self.after_wraparound(&fields, around.now) {
            Some(other) => (Some(other), true),
            None => (self.previous_sn.map(|previous| self.decode_sn(previous, &fields)), false),
        };
        let Some(second) = second.filter(|second| *second != sn) else { return Err(wrong) };
        let Ok((values, is_certain)) = self.attempt(&fields, second, &behind, out) else { return Err(wrong) };
        let arrival = arrival(&values);
        around.counters.repairs += 1;
        if is_wraparound {
            self.previous_sn = Some(reference);
        }
        self.accept(&fields, &values, around);
        self.unconfirmed = if is_certain { 0 } else { CONFIRMATIONS };
        Ok(self.deliver(incoming.cid, arrival))
    }

    /// Does a CRC of three bits take the packet with the sequence number that the clock suggests as well as with `sn`,
    /// as which it stands in `out` from `start` on, and is it another packet then? Either a burst was lost or the
    /// source made a pause: another packet, with other bits of CRC, will tell. This crate's compressor sends seven bits
    /// behind a pause.
    fn is_contradicted(
        &self,
        fields: &Fields,
        sn: u32,
        behind: &Behind<'_>,
        start: usize,
        now: Duration,
        out: &mut Vec<u8>,
    ) -> bool {
        if is_update(fields.packet) {
            return false;
        }
        let Some(other) = self.after_wraparound(fields, now).filter(|other| *other != sn) else { return false };
        let end = out.len();
        let is_other = self.attempt(fields, other, behind, out).is_ok() && out[start..end] != out[end..];
        out.truncate(end);
        is_other
    }

    fn deliver(&self, cid: u16, arrival: Arrival) -> Result<Arrival, DecompressError> {
        if self.unconfirmed > 0 { Err(DecompressError::Unconfirmed { cid }) } else { Ok(arrival) }
    }

    fn decode_sn(&self, reference: u32, fields: &Fields) -> u32 {
        let width = fields.sn.width;
        wlsb::decode(reference, fields.sn.value, width, self.kind.sn_p(width)) & self.kind.sn_mask()
    }

    /// The sequence number that the time since the last packet suggests (RFC 3095 5.3.2.2.4), if that
    /// is far enough for its bits to have wrapped. The RFC adds 2^k once; with an estimate of how many
    /// packets were lost, the nearest number with these bits also finds several wraps.
    fn after_wraparound(&self, fields: &Fields, now: Duration) -> Option<u32> {
        let passed = self.pace.passed(now)?;
        let half = 1u64 << (fields.sn.width - 1);
        if passed <= half || passed > u64::from(self.kind.sn_mask() / 2) {
            return None;
        }
        let near = self.values.header.sn.wrapping_add((passed - half) as u32);
        Some(wlsb::decode(near, fields.sn.value, fields.sn.width, 0) & self.kind.sn_mask())
    }

    /// Puts the packet together at the end of `out`, with `sn` as its sequence number. If it is right, gives the
    /// new values, and whether its transport checksum makes certain that `sn` is right.
    fn attempt(
        &self,
        fields: &Fields,
        sn: u32,
        behind: &Behind<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(Values, bool), Wrong> {
        let values = self.values.with(self.kind, fields, sn, &behind.more, &self.lists).map_err(Wrong::Malformed)?;
        let header = &values.header;
        let start = out.len();
        let result = (|| {
            header.write(self.kind, &self.lists, behind.payload.len(), out).map_err(Wrong::Malformed)?;
            let is_update = is_update(fields.packet);
            let polynomial = if is_update { &CRC7 } else { &CRC3 };
            if crc(polynomial, self.kind, header.ips(), &out[start..]) != fields.crc {
                return Err(Wrong::Crc);
            }
            out.extend_from_slice(behind.payload);
            // Where there are checksums, zero says nothing of the packet: it may be a misread field, of a header whose
            // format has changed, say (RFC 3095 5.7: then the context has to be initialised again).
            if fields.udp_checksum == Some(0) {
                return Err(Wrong::Checksum);
            }
            let is_right = header.checksum_is_right(self.kind, &out[start..]);
            // Of what follows the sequence number, identifications and numbers of AH and GRE are not in it.
            let covers_sn = || {
                self.kind == Kind::Rtp
                    || !self.lists.has_sequences()
                        && header
                            .ips()
                            .iter()
                            .zip(&values.codings)
                            .all(|(ip, coding)| ip.is_v6() || !coding.is_offset())
            };
            let is_certain = is_right == Some(true) && covers_sn();
            // In Static Context three bits of CRC are too little (RFC 3095 5.3.2.2.1), but these are sixteen more.
            let needs_proof = self.state == State::Static && !is_update;
            if is_right == Some(false) || needs_proof && !is_certain { Err(Wrong::Checksum) } else { Ok(is_certain) }
        })();
        if result.is_err() {
            out.truncate(start);
        }
        result.map(|is_certain| (values, is_certain))
    }

    /// A packet was right: what it updates becomes the context.
    fn accept(&mut self, fields: &Fields, values: &Values, around: &Surroundings<'_>) {
        let steps = values.header.sn.wrapping_sub(self.values.header.sn) & self.kind.sn_mask();
        let is_ahead = steps <= self.kind.sn_mask() / 2;
        self.pace.note(around.now, if is_ahead { steps } else { 0 });
        // RFC 4815 6.2: of lists, UO-1-ID updates tables and sequence numbers only.
        self.lists.commit(values.header.sn, fields.packet != PacketType::Uo1Id);
        if fields.packet == PacketType::Uo1Id {
            // RFC 4815 6.2: UO-1-ID updates SN, TS and IP-ID only.
            let header = &mut self.values.header;
            header.sn = values.header.sn;
            header.transport.rtp.timestamp = values.header.transport.rtp.timestamp;
            for (ip, new) in header.ips_mut().iter_mut().zip(values.header.ips()) {
                ip.id = new.id;
            }
        } else {
            self.values = *values;
        }
        self.state = State::Full;
        self.is_proven = true;
        self.failures <<= 1;
        self.mismatches = 0;
    }

    /// Rules a to c of RFC 3095 5.3.2.2.3.
    fn note_failure(&mut self, error: &DecompressError, is_update: bool, cid: u16, around: &mut Surroundings<'_>) {
        let is_damaged = if matches!(error, DecompressError::Checksum { .. }) {
            self.mismatches = self.mismatches.saturating_add(1);
            self.mismatches >= TOO_MANY_MISMATCHES
        } else {
            self.failures = self.failures << 1 | 1;
            (self.failures & ((1 << HISTORY) - 1)).count_ones() >= TOO_MANY
        };
        if !is_damaged {
            return;
        }
        self.mismatches = 0;
        match self.state {
            State::Full => {
                self.state = State::Static;
                self.failures = 0;
                // What an IR-DYN packet has not mended is in the static part: a damaged extension 3 can change a
                // protocol number.
                self.cure = if self.is_proven { AckType::Nack } else { AckType::StaticNack };
                self.is_proven = false;
                self.nack(self.cure, cid, around);
            }
            State::Static if is_update => {
                self.state = State::None;
                self.failures = 0;
                self.nack(AckType::StaticNack, cid, around);
            }
            State::Static | State::None => {}
        }
    }

    fn ack(&mut self, cid: u16, around: &mut Surroundings<'_>) {
        let config = around.config;
        if config.mode == Mode::Unidirectional || !self.acks.allows(around.now, config.ack_interval) {
            return;
        }
        around.counters.acks += 1;
        write_ack(AckType::Ack, cid, Some(self.values.header.sn), around.feedback);
    }

    fn nack(&mut self, ack: AckType, cid: u16, around: &mut Surroundings<'_>) {
        let config = around.config;
        if config.mode == Mode::Unidirectional || !self.nacks.allows(around.now, config.nack_interval) {
            return;
        }
        let sn = (self.state != State::None).then_some(self.values.header.sn);
        match ack {
            AckType::StaticNack => around.counters.static_nacks += 1,
            _ => around.counters.nacks += 1,
        }
        write_ack(ack, cid, sn, around.feedback);
    }
}
