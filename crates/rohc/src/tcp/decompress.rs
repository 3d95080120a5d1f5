//! The decompressor's side of a context (RFC 6846 5.3, RFC 4164 3.4).

use alloc::vec::Vec;
use core::mem;

use wire::checksum::Sum;

use super::chain::{Kind, Layout};
use super::formats::{Base as BaseHeader, Identification, MAX_BASE, Number};
use super::header::{Fields, IpId, Scaled};
use super::receive_chains::{
    read_dynamic, read_irregular, read_replicate, read_static, read_tcp_irregular, set_scaled_ack, set_tos, tos, ttl_at,
};
use super::receive_options::Items;
use crate::bits::Reader;
use crate::cid::{CidSpace, Incoming};
use crate::crc::{CRC3, CRC7, CRC8};
use crate::decompressor::{Arrival, Mode, Surroundings};
use crate::error::{DecompressError, Malformed};
use crate::feedback::{Coverage, Limiter};
use crate::packet_type::PacketType;

/// What the context is good for (RFC 6846 5.3.1): No Context, Static Context, Full Context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    None,
    /// The dynamic part is damaged.
    Static,
    Full,
}

/// What a failure adds to the measure of failures, from which each success takes one.
const FAILURE: u8 = 2;
/// The measure at which a context is taken for damaged: two failures in a row, or one in three for long.
const DAMAGE: u8 = 4;
/// Packets in a row whose TCP checksum was wrong, though the CRC of the header was right, that mean a damaged context.
/// As a rule it is the payload that is damaged, and what is wrong with the context fails a CRC too; but there are
/// differences that a CRC of three bits never sees.
const MISMATCHES: u8 = 8;
/// Packets that must follow before one with a counting identification is delivered in Static Context.
const CONFIRMATIONS: u8 = 2;

/// The CRC of FEEDBACK-2 (RFC 6846 8.3.1).
const CRC: (Coverage, usize) = (Coverage::Element, 2);

/// Where the CRC-8 stands behind type octet and CID: behind the profile.
const CRC_AT: usize = 1;

/// What the packets of a flow have in common, and what the last one had.
#[derive(Clone, Debug)]
struct Knowledge {
    layout: Layout,
    /// The octets of the headers in front of TCP.
    chain: Vec<u8>,
    fields: Fields,
    items: Items,
}

impl Knowledge {
    fn new() -> Self {
        Self { layout: Layout::EMPTY, chain: Vec::new(), fields: Fields::new(), items: Items::new() }
    }

    fn copy_from(&mut self, other: &Self) {
        self.chain.clear();
        self.chain.extend_from_slice(&other.chain);
        (self.layout, self.fields, self.items) = (other.layout, other.fields, other.items);
    }

    /// Is the TCP checksum of the packet in `out` right? A wrong header may pass three bits of CRC.
    fn verify_checksum(&self, cid: u16, built: Built, out: &[u8]) -> Result<(), DecompressError> {
        let (chain, segment) = out[built.start..].split_at(self.chain.len());
        let sum = self.layout.pseudo_header(chain, segment.len()) + Sum::of(segment);
        if sum.checksum() == 0 { Ok(()) } else { Err(DecompressError::Checksum { cid }) }
    }

    /// Appends the packet's headers and `payload`.
    fn write(&self, payload: &[u8], out: &mut Vec<u8>) -> Result<Built, Malformed> {
        let start = out.len();
        out.extend_from_slice(&self.chain);
        self.fields.tcp.write(out, 0);
        self.items.write(out)?;
        let tcp = start + self.chain.len();
        let words = (out.len() - tcp) / 4;
        out[tcp + 12] = (words as u8) << 4 | self.fields.tcp.reserved;
        let header = out.len() - start;
        if !self.layout.infer(&mut out[start..], payload.len()) {
            return Err(Malformed::TooLong);
        }
        out.extend_from_slice(payload);
        Ok(Built { start, header })
    }
}

/// A packet at the end of a buffer.
#[derive(Clone, Copy)]
struct Built {
    start: usize,
    header: usize,
}

/// The context that an IR-CR packet starts from.
#[derive(Debug)]
pub(crate) struct Base(Knowledge);

/// The CID of the base context of an IR-CR packet (RFC 6846 7.2), and where its replicate chain begins behind
/// the type octet and the CID.
pub(crate) fn base_cid(incoming: &Incoming<'_>, space: CidSpace) -> Result<(u16, usize), Malformed> {
    let mut reader = Reader::new(incoming.body());
    reader.take(2)?;
    let cid = if reader.u8()? & 0x80 == 0 {
        incoming.cid
    } else if space.is_large() {
        CidSpace::read_large(&mut reader)?
    } else {
        let octet = reader.u8()?;
        if octet & 0xf0 != 0 {
            return Err(Malformed::Reserved("base CID"));
        }
        u16::from(octet)
    };
    Ok((cid, reader.position()))
}

/// A flow's context.
#[derive(Debug)]
pub(crate) struct Decompressor {
    state: State,
    known: Knowledge,
    /// The packet in hand, until it is found right.
    next: Knowledge,
    failures: u8,
    /// Packets in a row whose checksum alone was wrong.
    mismatches: u8,
    /// Packets in a row that were right in Static Context but for what no checksum covers.
    confirmations: u8,
    /// Was a CO packet right since the context was last given up? Or did an IR packet make all of it?
    is_proven: bool,
    /// What to ask for when it is given up.
    cure: Refusal,
    acks: Limiter,
    nacks: Limiter,
}

impl Decompressor {
    pub(crate) fn new() -> Self {
        Self {
            state: State::None,
            known: Knowledge::new(),
            next: Knowledge::new(),
            failures: 0,
            mismatches: 0,
            confirmations: 0,
            is_proven: true,
            cure: Refusal::Dynamic,
            acks: Limiter::default(),
            nacks: Limiter::default(),
        }
    }

    /// Has a packet made the context?
    pub(crate) fn is_known(&self) -> bool {
        self.state != State::None
    }

    /// What an IR-CR packet for another context may start from; none before this context is whole.
    pub(crate) fn base(&self) -> Option<Base> {
        (self.state == State::Full).then(|| Base(self.known.clone()))
    }

    /// Takes a packet of any type but IR-CR; `out` gets the IP packet.
    pub(crate) fn decompress(
        &mut self,
        incoming: &Incoming<'_>,
        around: &mut Surroundings<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Arrival, DecompressError> {
        let start = out.len();
        let result = match incoming.first() {
            0b1111_1101 => self.initialise(incoming, true, out),
            0b1111_1000 => self.initialise(incoming, false, out),
            _ => self.compressed(incoming, around, out),
        };
        self.conclude(incoming.cid, result, start, around, out)
    }

    /// Takes an IR-CR packet, whose replicate chain begins at `chain_at` of the body (RFC 4164 3.4).
    pub(crate) fn replicate(
        &mut self,
        incoming: &Incoming<'_>,
        base: Option<&Base>,
        chain_at: usize,
        around: &mut Surroundings<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Arrival, DecompressError> {
        let start = out.len();
        let result = self.replicated(incoming, base, chain_at, out);
        self.conclude(incoming.cid, result, start, around, out)
    }

    /// Counts a success or a failure, and says it to the peer.
    fn conclude(
        &mut self,
        cid: u16,
        result: Result<Arrival, DecompressError>,
        start: usize,
        around: &mut Surroundings<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Arrival, DecompressError> {
        match &result {
            Ok(arrival) => {
                self.failures = self.failures.saturating_sub(1);
                (self.mismatches, self.confirmations) = (0, 0);
                self.is_proven |= arrival.packet != PacketType::IrDyn;
                if updates_much(arrival.packet) {
                    self.acknowledge(cid, around);
                }
            }
            Err(error) => {
                out.truncate(start);
                self.fail(cid, error, around);
            }
        }
        result
    }

    /// IR and IR-DYN (RFC 6846 7.1).
    fn initialise(
        &mut self,
        incoming: &Incoming<'_>,
        is_ir: bool,
        out: &mut Vec<u8>,
    ) -> Result<Arrival, DecompressError> {
        let cid = incoming.cid;
        let malformed = |what| DecompressError::Malformed { cid, what };
        if !is_ir && self.state == State::None {
            return Err(DecompressError::NoContext { cid });
        }
        let mut reader = Reader::new(incoming.body());
        reader.take(CRC_AT + 1).map_err(malformed)?;
        self.next.copy_from(&self.known);
        let Knowledge { layout, chain, fields, items } = &mut self.next;
        if is_ir {
            // A context that an IR packet makes anew has no item that was sent for another flow.
            if self.state == State::None {
                (*fields, *items) = (Fields::new(), Items::new());
            }
            read_static(&mut reader, layout, chain, fields).map_err(malformed)?;
        }
        read_dynamic(&mut reader, layout, chain, fields, items).map_err(malformed)?;
        let header_before = incoming.body_at() + reader.position();
        check_crc8(incoming, header_before)?;
        let payload = reader.rest();
        self.next.rescale(payload.len());
        let built = self.next.write(payload, out).map_err(malformed)?;
        // RFC 6846 5.3.1.1: the CRC-8 alone decides about the context. Whether the segment's own
        // checksum is right is another question.
        self.commit();
        self.known.verify_checksum(cid, built, out)?;
        let packet = if is_ir { PacketType::Ir } else { PacketType::IrDyn };
        Ok(Arrival { packet, header_before, header_after: built.header })
    }

    /// IR-CR (RFC 6846 7.2).
    fn replicated(
        &mut self,
        incoming: &Incoming<'_>,
        base: Option<&Base>,
        chain_at: usize,
        out: &mut Vec<u8>,
    ) -> Result<Arrival, DecompressError> {
        let cid = incoming.cid;
        let malformed = |what| DecompressError::Malformed { cid, what };
        let base = base.ok_or(DecompressError::NoContext { cid })?;
        let mut reader = Reader::new(incoming.body());
        let fixed = reader.take(chain_at).map_err(malformed)?;
        let crc7 = fixed[CRC_AT + 1] & 0x7f;
        self.next.copy_from(&base.0);
        let Knowledge { layout, chain, fields, items } = &mut self.next;
        read_replicate(&mut reader, layout, &base.0.chain, chain, fields, items).map_err(malformed)?;
        let header_before = incoming.body_at() + reader.position();
        check_crc8(incoming, header_before)?;
        let payload = reader.rest();
        self.next.rescale(payload.len());
        let built = self.next.write(payload, out).map_err(malformed)?;
        if CRC7.of(&out[built.start..built.start + built.header]) != crc7 {
            return Err(DecompressError::Crc { cid, bits: 7 });
        }
        self.next.verify_checksum(cid, built, out)?;
        self.commit();
        Ok(Arrival { packet: PacketType::IrCr, header_before, header_after: built.header })
    }

    /// The CO packets (RFC 6846 7.3).
    fn compressed(
        &mut self,
        incoming: &Incoming<'_>,
        around: &mut Surroundings<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Arrival, DecompressError> {
        let cid = incoming.cid;
        let malformed = |what| DecompressError::Malformed { cid, what };
        if self.state == State::None {
            return Err(DecompressError::NoContext { cid });
        }
        let ip_id = self.known.fields.ip_id[self.known.layout.innermost()];
        let packet =
            BaseHeader::packet_type(incoming.first(), ip_id).ok_or(malformed(Malformed::Reserved("packet type")))?;
        // The type octet may stand apart from the rest: a large CID comes between.
        let mut octets = [0; MAX_BASE];
        octets[0] = incoming.first();
        let more = incoming.body().len().min(MAX_BASE - 1);
        octets[1..=more].copy_from_slice(&incoming.body()[..more]);
        let (base, len) = BaseHeader::read(packet, &octets[..=more]).map_err(malformed)?;
        // RFC 6846 5.3.1.4: in Static Context three bits of CRC are too little. But the checksum is sixteen more, and
        // covers all that changes from packet to packet but an identification that counts.
        let needs_more = self.state == State::Static && base.crc_bits == 3;
        let rest = &incoming.body()[len - 1..];
        let start = out.len();
        let mut result = self.attempt(incoming, &base, rest, Reading::Standard, out);
        for reading in [Reading::FlagsOfContext, Reading::SwappedWhole] {
            let is_wrong = matches!(result, Err(DecompressError::Crc { .. } | DecompressError::Checksum { .. }));
            if is_wrong && reading.differs(&base, &self.known.fields) {
                out.truncate(start);
                let again = self.attempt(incoming, &base, rest, reading, out);
                if again.is_ok() {
                    around.counters.repairs += 1;
                    result = again;
                }
            }
        }
        let built = result.map_err(|error| if needs_more { DecompressError::Damaged { cid } } else { error })?;
        self.commit();
        if needs_more && ip_id.is_sequential() && self.confirmations < CONFIRMATIONS {
            self.confirmations += 1;
            self.state = State::Static;
            return Err(DecompressError::Unconfirmed { cid });
        }
        // The header ends where the payload begins, and that ends with the packet.
        let payload = out.len() - built.start - built.header;
        Ok(Arrival { packet, header_before: incoming.whole.len() - payload, header_after: built.header })
    }

    /// Decompresses a CO packet into `next` and `out`, and verifies it. The context stays as it is.
    fn attempt(
        &mut self,
        incoming: &Incoming<'_>,
        base: &BaseHeader,
        rest: &[u8],
        reading: Reading,
        out: &mut Vec<u8>,
    ) -> Result<Built, DecompressError> {
        let cid = incoming.cid;
        self.next.copy_from(&self.known);
        let payload = self.next.apply(base, rest, reading).map_err(|what| DecompressError::Malformed { cid, what })?;
        let built = self.next.write(payload, out).map_err(|what| DecompressError::Malformed { cid, what })?;
        let header = &out[built.start..built.start + built.header];
        let crc = if base.crc_bits == 3 { CRC3.of(header) } else { CRC7.of(header) };
        if crc != base.crc {
            return Err(DecompressError::Crc { cid, bits: base.crc_bits });
        }
        self.next.verify_checksum(cid, built, out)?;
        Ok(built)
    }

    /// Makes the packet in hand the context.
    fn commit(&mut self) {
        mem::swap(&mut self.known, &mut self.next);
        self.state = State::Full;
    }

    /// RFC 6846 5.3.1.2 to 5.3.1.5.
    fn fail(&mut self, cid: u16, error: &DecompressError, around: &mut Surroundings<'_>) {
        if !matches!(error, DecompressError::Unconfirmed { .. }) {
            self.confirmations = 0;
        }
        match error {
            DecompressError::Checksum { .. } => {
                self.mismatches = self.mismatches.saturating_add(1);
                if self.mismatches >= MISMATCHES {
                    (self.mismatches, self.failures) = (0, self.failures.max(DAMAGE));
                }
            }
            DecompressError::Crc { .. } | DecompressError::Malformed { .. } => {
                self.failures = self.failures.saturating_add(FAILURE);
            }
            _ => {}
        }
        match self.state {
            State::None => self.refuse(cid, Refusal::Static, around),
            State::Full if self.failures >= DAMAGE => {
                self.state = State::Static;
                self.failures = 0;
                // What an IR-DYN packet has not mended is in the static part.
                self.cure = if self.is_proven { Refusal::Dynamic } else { Refusal::Static };
                self.is_proven = false;
                self.refuse(cid, self.cure, around);
            }
            State::Full => {}
            // Headers with CRC-7 or CRC-8 keep failing: the static part is wrong too.
            State::Static if self.failures >= 2 * DAMAGE => {
                self.state = State::None;
                self.failures = 0;
                self.refuse(cid, Refusal::Static, around);
            }
            State::Static => self.refuse(cid, self.cure, around),
        }
    }

    fn acknowledge(&mut self, cid: u16, around: &mut Surroundings<'_>) {
        let config = around.config;
        if config.mode == Mode::Optimistic && self.acks.allows(around.now, config.ack_interval) {
            around.counters.acks += 1;
            // FEEDBACK-2 of type ACK: its CRC protects it, as RFC 4164 3.4.4 asks for.
            let [high, low] = self.known.fields.msn.to_be_bytes();
            around.feedback.push(cid, &[high & 0x3f, low, 0], Some(CRC));
        }
    }

    fn refuse(&mut self, cid: u16, refusal: Refusal, around: &mut Surroundings<'_>) {
        let config = around.config;
        if config.mode != Mode::Optimistic || !self.nacks.allows(around.now, config.nack_interval) {
            return;
        }
        let [high, low] = self.known.fields.msn.to_be_bytes();
        match refusal {
            Refusal::Dynamic => {
                around.counters.nacks += 1;
                around.feedback.push(cid, &[0x40 | high & 0x3f, low, 0], Some(CRC));
            }
            Refusal::Static => {
                around.counters.static_nacks += 1;
                // RFC 6846 8.3.2.2: MSN-NOT-VALID, since no packet has been decompressed.
                around.feedback.push(cid, &[0x80, 0, 0, 0x30], Some(CRC));
            }
        }
    }
}

/// What the peer is to send.
#[derive(Clone, Copy, Debug)]
enum Refusal {
    Dynamic,
    Static,
}

/// How to read what implementations read differently.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// As RFC 6846 8.2 has it.
    Standard,
    /// ACK and URG flags that are not sent are the context's.
    FlagsOfContext,
    /// An identification sent whole is swapped before it is sent, if its behavior is.
    SwappedWhole,
}

impl Reading {
    /// Could it give another header?
    fn differs(self, base: &BaseHeader, known: &Fields) -> bool {
        match self {
            Self::Standard => false,
            Self::FlagsOfContext => base.ack_flag.is_none() && (!known.tcp.ack_flag || known.tcp.urg_flag),
            Self::SwappedWhole => {
                base.ip_id == Some(IpId::Swapped) && matches!(base.identification, Identification::Whole(_))
            }
        }
    }
}

/// Packets whose arrival the compressor waits for: they change what small headers rely on.
fn updates_much(packet: PacketType) -> bool {
    matches!(
        packet,
        PacketType::Ir
            | PacketType::IrDyn
            | PacketType::IrCr
            | PacketType::CoCommon
            | PacketType::Rnd8
            | PacketType::Seq8
    )
}

/// The CRC-8 of IR, IR-DYN and IR-CR covers the header of `len` octets, with itself as zero.
fn check_crc8(incoming: &Incoming<'_>, len: usize) -> Result<(), DecompressError> {
    let at = incoming.body_at() + CRC_AT;
    let register = CRC8.update(CRC8.start(), &incoming.whole[..at]);
    let register = CRC8.update(register, &[0]);
    if CRC8.update(register, &incoming.whole[at + 1..len]) == incoming.whole[at] {
        Ok(())
    } else {
        Err(DecompressError::Crc { cid: incoming.cid, bits: 8 })
    }
}

impl Knowledge {
    /// Scales the sequence number by the payload (RFC 6846 6.4.8.1). A segment without payload leaves the
    /// scaled number as it was: there is nothing to scale by.
    fn rescale(&mut self, payload: usize) {
        if let Some(scaled) = Scaled::of(self.fields.tcp.seq, payload as u32) {
            self.fields.scaled_seq = scaled;
        }
    }

    /// Applies a base header and the irregular chain that `rest` begins with. Gives the payload.
    fn apply<'a>(&mut self, base: &BaseHeader, rest: &'a [u8], reading: Reading) -> Result<&'a [u8], Malformed> {
        let fields = &mut self.fields;
        let innermost = self.layout.innermost();
        let inner = self.layout.inner();
        fields.msn = base.msn.decode(u32::from(fields.msn)) as u16;
        fields.tcp.psh_flag = base.psh_flag;
        fields.tcp.rsf = base.rsf;
        if reading != Reading::FlagsOfContext {
            fields.tcp.ack_flag = base.ack_flag.unwrap_or(true);
            fields.tcp.urg_flag = base.urg_flag.unwrap_or(false);
        }
        fields.ack_stride = base.ack_stride.unwrap_or(fields.ack_stride);
        match base.ack {
            Number::Scaled(_) if fields.ack_stride == 0 => {
                return Err(Malformed::Reserved("scaled acknowledgment number without a stride"));
            }
            Number::Scaled(lsb) => {
                fields.scaled_ack.value = lsb.decode(fields.scaled_ack.value);
                fields.tcp.ack = fields
                    .scaled_ack
                    .value
                    .wrapping_mul(u32::from(fields.ack_stride))
                    .wrapping_add(fields.scaled_ack.residue);
            }
            Number::Lsb(lsb) => fields.tcp.ack = lsb.decode(fields.tcp.ack),
            Number::Static => {}
        }
        if !matches!(base.ack, Number::Scaled(_)) {
            set_scaled_ack(fields);
        }
        if let Some(lsb) = base.window {
            fields.tcp.window = lsb.decode(u32::from(fields.tcp.window)) as u16;
        }
        fields.tcp.urg_ptr = base.urg_ptr.unwrap_or(fields.tcp.urg_ptr);
        fields.ecn_used = base.ecn_used.unwrap_or(fields.ecn_used);
        if let Some(behavior) = base.ip_id {
            // IPv6 has no identification: RFC 6846 8.2 has it as random.
            if inner.kind == Kind::V6 && behavior != IpId::Random {
                return Err(Malformed::Reserved("identification of IPv6"));
            }
            fields.ip_id[innermost] = behavior;
        }
        let header = &mut self.chain[inner.range()];
        let old_tos = tos(inner.kind, header);
        if let Some(dscp) = base.dscp {
            set_tos(inner.kind, header, dscp << 2 | old_tos & 3);
        }
        if let Some(lsb) = base.ttl {
            let at = ttl_at(inner.kind);
            header[at] = lsb.decode(u32::from(header[at])) as u8;
        }
        if inner.kind == Kind::V4 {
            if let Some(df) = base.df {
                header[6] = u8::from(df) << 6;
            }
            let behavior = fields.ip_id[innermost];
            let id = match base.identification {
                Identification::Offset(lsb) => {
                    let offset = lsb.decode(u32::from(fields.ip_id_offset)) as u16;
                    Some(behavior.id(offset, fields.msn))
                }
                Identification::Whole(id) if reading == Reading::SwappedWhole => Some(id.swap_bytes()),
                Identification::Whole(id) => Some(id),
                Identification::Static => None,
            };
            if let Some(id) = id {
                header[4..6].copy_from_slice(&id.to_be_bytes());
            }
        }
        let mut reader = Reader::new(rest);
        if base.has_list {
            self.items.read_list(&mut reader, fields.tcp.ack, false)?;
        }
        read_irregular(&mut reader, &self.layout, &mut self.chain, fields, base.outer_ttl)?;
        if let Some(ecn) = read_tcp_irregular(&mut reader, fields)? {
            let header = &mut self.chain[inner.range()];
            let tos = tos(inner.kind, header);
            set_tos(inner.kind, header, tos & 0xfc | ecn);
        }
        self.items.read_irregular(&mut reader, fields.tcp.ack, base.has_list)?;
        if inner.kind == Kind::V4 {
            let header = &self.chain[inner.range()];
            let id = u16::from_be_bytes([header[4], header[5]]);
            fields.ip_id_offset = fields.ip_id[innermost].offset(id, fields.msn);
        }
        let payload = reader.rest();
        match base.seq {
            Number::Scaled(_) if payload.is_empty() => {
                return Err(Malformed::Reserved("scaled sequence number without payload"));
            }
            Number::Scaled(lsb) => {
                let scaled = &mut fields.scaled_seq;
                scaled.value = lsb.decode(scaled.value);
                fields.tcp.seq = scaled.value.wrapping_mul(payload.len() as u32).wrapping_add(scaled.residue);
            }
            Number::Lsb(lsb) => {
                fields.tcp.seq = lsb.decode(fields.tcp.seq);
                self.rescale(payload.len());
            }
            Number::Static => self.rescale(payload.len()),
        }
        Ok(payload)
    }
}
