//! The base headers: `co_common`, `rnd_1` to `rnd_8`, `seq_1` to `seq_8` (RFC 6846 8.2, `co_baseheader`).

use alloc::vec::Vec;

use super::bitfield::{BitReader, BitWriter};
use super::header::{FIN, IpId, RST, SYN};
use crate::error::Malformed;
use crate::packet_type::PacketType;
use crate::wlsb;

/// The longest base header without its list: `co_common` with all fields.
pub(super) const MAX_BASE: usize = 23;

/// Low bits of a field with the offset of their interpretation interval (RFC 4997 4.11.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lsb {
    pub(super) bits: u32,
    pub(super) width: u32,
    pub(super) p: i32,
}

impl Lsb {
    const fn new(bits: u32, width: u32, p: i32) -> Self {
        Self { bits, width, p }
    }

    pub(super) const fn decode(self, reference: u32) -> u32 {
        wlsb::decode(reference, self.bits, self.width, self.p)
    }
}

/// How a base header carries the sequence or acknowledgment number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    Static,
    Lsb(Lsb),
    Scaled(Lsb),
}

/// How a base header carries the innermost identification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Identification {
    Static,
    Offset(Lsb),
    Whole(u16),
}

/// What a base header says. `None` and `Static` leave a field to its default (RFC 6846 8.2, `DEFAULT`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Base {
    pub(super) packet: PacketType,
    pub(super) crc: u8,
    /// 3 or 7.
    pub(super) crc_bits: u8,
    pub(super) msn: Lsb,
    pub(super) psh_flag: bool,
    pub(super) rsf: u8,
    pub(super) ack_flag: Option<bool>,
    pub(super) urg_flag: Option<bool>,
    pub(super) seq: Number,
    pub(super) ack: Number,
    pub(super) ack_stride: Option<u16>,
    pub(super) window: Option<Lsb>,
    pub(super) identification: Identification,
    pub(super) ip_id: Option<IpId>,
    pub(super) urg_ptr: Option<u16>,
    pub(super) ecn_used: Option<bool>,
    pub(super) dscp: Option<u8>,
    pub(super) ttl: Option<Lsb>,
    pub(super) df: Option<bool>,
    pub(super) outer_ttl: bool,
    pub(super) has_list: bool,
}

const fn seq_scaled(bits: u32) -> Number {
    Number::Scaled(Lsb::new(bits, 4, 7))
}

const fn ack_scaled(bits: u32) -> Number {
    Number::Scaled(Lsb::new(bits, 4, 3))
}

/// `rsf_index_enc`.
pub(super) const fn rsf_index(rsf: u8) -> Option<u32> {
    match rsf {
        0 => Some(0),
        RST => Some(1),
        SYN => Some(2),
        FIN => Some(3),
        _ => None,
    }
}

const fn rsf_flags(index: u32) -> u8 {
    match index & 3 {
        0 => 0,
        1 => RST,
        2 => SYN,
        _ => FIN,
    }
}

impl Base {
    const fn new(packet: PacketType) -> Self {
        Self {
            packet,
            crc: 0,
            crc_bits: 3,
            msn: Lsb::new(0, 4, 4),
            psh_flag: false,
            rsf: 0,
            ack_flag: None,
            urg_flag: None,
            seq: Number::Static,
            ack: Number::Static,
            ack_stride: None,
            window: None,
            identification: Identification::Static,
            ip_id: None,
            urg_ptr: None,
            ecn_used: None,
            dscp: None,
            ttl: None,
            df: None,
            outer_ttl: false,
            has_list: false,
        }
    }

    /// The type of a base header by its first octet, in the set that `ip_id` chooses.
    pub(super) const fn packet_type(first: u8, ip_id: IpId) -> Option<PacketType> {
        if first >> 1 == 0b111_1101 {
            return Some(PacketType::CoCommon);
        }
        if ip_id.is_sequential() {
            Some(match first {
                0x00..=0x7f => PacketType::Seq4,
                0x80..=0x8f => PacketType::Seq5,
                0x90..=0x9f => PacketType::Seq3,
                0xa0..=0xaf => PacketType::Seq1,
                0xb0..=0xbf => PacketType::Seq8,
                0xc0..=0xcf => PacketType::Seq7,
                0xd0..=0xd7 => PacketType::Seq2,
                0xd8..=0xdf => PacketType::Seq6,
                _ => return None,
            })
        } else {
            Some(match first {
                0x00..=0x7f => PacketType::Rnd3,
                0x80..=0x9f => PacketType::Rnd5,
                0xa0..=0xaf => PacketType::Rnd6,
                0xb0..=0xb7 => PacketType::Rnd8,
                0xb8..=0xbb => PacketType::Rnd1,
                0xbc..=0xbf => PacketType::Rnd7,
                0xc0..=0xcf => PacketType::Rnd2,
                0xd0..=0xdf => PacketType::Rnd4,
                _ => return None,
            })
        }
    }

    /// Reads a base header of a `packet` type; `octets` begin with its first octet (a large CID taken
    /// out). Gives its length too, without a list.
    pub(super) fn read(packet: PacketType, octets: &[u8]) -> Result<(Self, usize), Malformed> {
        let mut reader = BitReader::new(octets);
        let mut base = Self::new(packet);
        let r = &mut reader;
        match packet {
            PacketType::Rnd1 => {
                r.get(6)?;
                base.seq = Number::Lsb(Lsb::new(r.get(18)?, 18, 65_535));
                base.read_tail(r)?;
            }
            PacketType::Rnd2 => {
                r.get(4)?;
                base.seq = seq_scaled(r.get(4)?);
                base.read_tail(r)?;
            }
            PacketType::Rnd3 => {
                r.get(1)?;
                base.ack = Number::Lsb(Lsb::new(r.get(15)?, 15, 8_191));
                base.read_tail(r)?;
            }
            PacketType::Rnd4 => {
                r.get(4)?;
                base.ack = ack_scaled(r.get(4)?);
                base.read_tail(r)?;
            }
            PacketType::Rnd5 => {
                r.get(3)?;
                base.psh_flag = r.flag()?;
                base.msn.bits = r.get(4)?;
                base.crc = r.get(3)? as u8;
                base.seq = Number::Lsb(Lsb::new(r.get(14)?, 14, 8_191));
                base.ack = Number::Lsb(Lsb::new(r.get(15)?, 15, 8_191));
            }
            PacketType::Rnd6 => {
                r.get(4)?;
                base.crc = r.get(3)? as u8;
                base.psh_flag = r.flag()?;
                base.ack = Number::Lsb(Lsb::new(r.get(16)?, 16, 16_383));
                base.msn.bits = r.get(4)?;
                base.seq = seq_scaled(r.get(4)?);
            }
            PacketType::Rnd7 => {
                r.get(6)?;
                base.ack = Number::Lsb(Lsb::new(r.get(18)?, 18, 65_535));
                base.window = Some(Lsb::new(r.get(16)?, 16, 0));
                base.read_tail(r)?;
            }
            PacketType::Rnd8 => {
                r.get(5)?;
                base.rsf = rsf_flags(r.get(2)?);
                base.has_list = r.flag()?;
                base.read_crc7(r)?;
                base.msn.bits = r.get(4)?;
                base.psh_flag = r.flag()?;
                base.ttl = Some(Lsb::new(r.get(3)?, 3, 3));
                base.ecn_used = Some(r.flag()?);
                base.seq = Number::Lsb(Lsb::new(r.get(16)?, 16, 65_535));
                base.ack = Number::Lsb(Lsb::new(r.get(16)?, 16, 16_383));
            }
            PacketType::Seq1 => {
                r.get(4)?;
                base.identification = Identification::Offset(Lsb::new(r.get(4)?, 4, 3));
                base.seq = Number::Lsb(Lsb::new(r.get(16)?, 16, 32_767));
                base.read_tail(r)?;
            }
            PacketType::Seq2 => {
                r.get(5)?;
                base.identification = Identification::Offset(Lsb::new(r.get(7)?, 7, 3));
                base.seq = seq_scaled(r.get(4)?);
                base.read_tail(r)?;
            }
            PacketType::Seq3 => {
                r.get(4)?;
                base.identification = Identification::Offset(Lsb::new(r.get(4)?, 4, 3));
                base.ack = Number::Lsb(Lsb::new(r.get(16)?, 16, 16_383));
                base.read_tail(r)?;
            }
            PacketType::Seq4 => {
                r.get(1)?;
                base.ack = ack_scaled(r.get(4)?);
                base.identification = Identification::Offset(Lsb::new(r.get(3)?, 3, 1));
                base.read_tail(r)?;
            }
            PacketType::Seq5 => {
                r.get(4)?;
                base.identification = Identification::Offset(Lsb::new(r.get(4)?, 4, 3));
                base.ack = Number::Lsb(Lsb::new(r.get(16)?, 16, 16_383));
                base.seq = Number::Lsb(Lsb::new(r.get(16)?, 16, 32_767));
                base.read_tail(r)?;
            }
            PacketType::Seq6 => {
                r.get(5)?;
                base.seq = seq_scaled(r.get(4)?);
                base.identification = Identification::Offset(Lsb::new(r.get(7)?, 7, 3));
                base.ack = Number::Lsb(Lsb::new(r.get(16)?, 16, 16_383));
                base.read_tail(r)?;
            }
            PacketType::Seq7 => {
                r.get(4)?;
                base.window = Some(Lsb::new(r.get(15)?, 15, 16_383));
                base.identification = Identification::Offset(Lsb::new(r.get(5)?, 5, 3));
                base.ack = Number::Lsb(Lsb::new(r.get(16)?, 16, 32_767));
                base.read_tail(r)?;
            }
            PacketType::Seq8 => {
                r.get(4)?;
                base.identification = Identification::Offset(Lsb::new(r.get(4)?, 4, 3));
                base.has_list = r.flag()?;
                base.read_crc7(r)?;
                base.msn.bits = r.get(4)?;
                base.psh_flag = r.flag()?;
                base.ttl = Some(Lsb::new(r.get(3)?, 3, 3));
                base.ecn_used = Some(r.flag()?);
                base.ack = Number::Lsb(Lsb::new(r.get(15)?, 15, 8_191));
                base.rsf = rsf_flags(r.get(2)?);
                base.seq = Number::Lsb(Lsb::new(r.get(14)?, 14, 8_191));
            }
            PacketType::CoCommon => base.read_common(r)?,
            _ => return Err(Malformed::Reserved("packet type")),
        }
        let len = reader.octets();
        Ok((base, len))
    }

    fn read_tail(&mut self, r: &mut BitReader<'_>) -> Result<(), Malformed> {
        self.msn.bits = r.get(4)?;
        self.psh_flag = r.flag()?;
        self.crc = r.get(3)? as u8;
        Ok(())
    }

    fn read_crc7(&mut self, r: &mut BitReader<'_>) -> Result<(), Malformed> {
        self.crc = r.get(7)? as u8;
        self.crc_bits = 7;
        Ok(())
    }

    fn read_common(&mut self, r: &mut BitReader<'_>) -> Result<(), Malformed> {
        r.get(7)?;
        self.outer_ttl = r.flag()?;
        self.ack_flag = Some(r.flag()?);
        self.psh_flag = r.flag()?;
        self.rsf = rsf_flags(r.get(2)?);
        self.msn.bits = r.get(4)?;
        let seq_indicator = r.get(2)?;
        let ack_indicator = r.get(2)?;
        let has_stride = r.flag()?;
        let has_window = r.flag()?;
        let is_id_whole = r.flag()?;
        let has_urg_ptr = r.flag()?;
        if r.flag()? {
            return Err(Malformed::Reserved("co_common"));
        }
        self.ecn_used = Some(r.flag()?);
        let has_dscp = r.flag()?;
        let has_ttl = r.flag()?;
        self.has_list = r.flag()?;
        let ip_id = IpId::from_bits(r.get(2)?);
        self.ip_id = Some(ip_id);
        self.urg_flag = Some(r.flag()?);
        self.df = Some(r.flag()?);
        self.read_crc7(r)?;
        self.seq = read_variable(r, seq_indicator)?;
        self.ack = read_variable(r, ack_indicator)?;
        if has_stride {
            self.ack_stride = Some(r.get(16)? as u16);
        }
        if has_window {
            self.window = Some(Lsb::new(r.get(16)?, 16, 0));
        }
        if ip_id.is_sequential() {
            self.identification = if is_id_whole {
                Identification::Whole(r.get(16)? as u16)
            } else {
                Identification::Offset(Lsb::new(r.get(8)?, 8, 3))
            };
        }
        if has_urg_ptr {
            self.urg_ptr = Some(r.get(16)? as u16);
        }
        if has_dscp {
            self.dscp = Some(r.get(6)? as u8);
            if r.get(2)? != 0 {
                return Err(Malformed::Reserved("padding of the DSCP"));
            }
        }
        if has_ttl {
            self.ttl = Some(Lsb::new(r.get(8)?, 8, 0));
        }
        Ok(())
    }
}

/// `variable_length_32_enc`.
fn read_variable(r: &mut BitReader<'_>, indicator: u32) -> Result<Number, Malformed> {
    Ok(match indicator {
        0 => Number::Static,
        1 => Number::Lsb(Lsb::new(r.get(8)?, 8, 63)),
        2 => Number::Lsb(Lsb::new(r.get(16)?, 16, 16_383)),
        _ => Number::Lsb(Lsb::new(r.get(32)?, 32, 0)),
    })
}

/// The values that base headers are made of. Fields are cut to their formats' widths.
#[derive(Clone, Copy, Debug)]
pub(super) struct Values {
    pub(super) msn: u16,
    pub(super) psh_flag: bool,
    pub(super) rsf_index: u32,
    pub(super) crc: u8,
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) scaled_seq: u32,
    pub(super) scaled_ack: u32,
    pub(super) window: u16,
    pub(super) ip_id_offset: u16,
    pub(super) ttl: u8,
    pub(super) ecn_used: bool,
    pub(super) has_list: bool,
}

/// What `co_common` carries beside [`Values`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Common {
    pub(super) ack_flag: bool,
    pub(super) urg_flag: bool,
    /// `variable_length_32_enc`'s flag.
    pub(super) seq_indicator: u32,
    pub(super) ack_indicator: u32,
    pub(super) ack_stride: Option<u16>,
    pub(super) has_window: bool,
    /// The behavior, and the whole identification if its offset's eight bits do not suffice.
    pub(super) ip_id: IpId,
    pub(super) whole_id: Option<u16>,
    pub(super) urg_ptr: Option<u16>,
    pub(super) dscp: Option<u8>,
    pub(super) has_ttl: bool,
    pub(super) df: bool,
}

impl Values {
    /// Appends a base header of one of the sixteen small formats.
    pub(super) fn write(&self, out: &mut Vec<u8>, packet: PacketType) {
        let (seq, ack, id) = (self.seq, self.ack, u32::from(self.ip_id_offset));
        let (msn, window) = (u32::from(self.msn), u32::from(self.window));
        let w = BitWriter::new(out);
        let _ = match packet {
            PacketType::Rnd1 => self.tail(w.put(6, 0b10_1110).put(18, seq)),
            PacketType::Rnd2 => self.tail(w.put(4, 0b1100).put(4, self.scaled_seq)),
            PacketType::Rnd3 => self.tail(w.put(1, 0).put(15, ack)),
            PacketType::Rnd4 => self.tail(w.put(4, 0b1101).put(4, self.scaled_ack)),
            PacketType::Rnd5 => {
                w.put(3, 0b100).flag(self.psh_flag).put(4, msn).put(3, self.crc.into()).put(14, seq).put(15, ack)
            }
            PacketType::Rnd6 => {
                let w = w.put(4, 0b1010).put(3, self.crc.into()).flag(self.psh_flag);
                w.put(16, ack).put(4, msn).put(4, self.scaled_seq)
            }
            PacketType::Rnd7 => self.tail(w.put(6, 0b10_1111).put(18, ack).put(16, window)),
            PacketType::Rnd8 => {
                let w = w.put(5, 0b1_0110).put(2, self.rsf_index).flag(self.has_list).put(7, self.crc.into());
                let w = w.put(4, msn).flag(self.psh_flag).put(3, self.ttl.into()).flag(self.ecn_used);
                w.put(16, seq).put(16, ack)
            }
            PacketType::Seq1 => self.tail(w.put(4, 0b1010).put(4, id).put(16, seq)),
            PacketType::Seq2 => self.tail(w.put(5, 0b1_1010).put(7, id).put(4, self.scaled_seq)),
            PacketType::Seq3 => self.tail(w.put(4, 0b1001).put(4, id).put(16, ack)),
            PacketType::Seq4 => self.tail(w.put(1, 0).put(4, self.scaled_ack).put(3, id)),
            PacketType::Seq5 => self.tail(w.put(4, 0b1000).put(4, id).put(16, ack).put(16, seq)),
            PacketType::Seq6 => self.tail(w.put(5, 0b1_1011).put(4, self.scaled_seq).put(7, id).put(16, ack)),
            PacketType::Seq7 => self.tail(w.put(4, 0b1100).put(15, window).put(5, id).put(16, ack)),
            _ => {
                let w = w.put(4, 0b1011).put(4, id).flag(self.has_list).put(7, self.crc.into());
                let w = w.put(4, msn).flag(self.psh_flag).put(3, self.ttl.into()).flag(self.ecn_used);
                w.put(15, ack).put(2, self.rsf_index).put(14, seq)
            }
        };
    }

    fn tail<'a>(&self, w: BitWriter<'a>) -> BitWriter<'a> {
        w.put(4, self.msn.into()).flag(self.psh_flag).put(3, self.crc.into())
    }

    /// Appends `co_common`. The TTL of outer headers is never sent with it: see the compressor.
    pub(super) fn write_common(&self, out: &mut Vec<u8>, common: &Common) {
        let variable = |indicator: u32| match indicator {
            0 => 0,
            1 => 8,
            2 => 16,
            _ => 32,
        };
        let some = |is_there: bool, value: u32| is_there.then_some(value);
        let w = BitWriter::new(out).put(7, 0b111_1101).flag(false);
        let w = w.flag(common.ack_flag).flag(self.psh_flag).put(2, self.rsf_index).put(4, self.msn.into());
        let w = w.put(2, common.seq_indicator).put(2, common.ack_indicator);
        let w = w.flag(common.ack_stride.is_some()).flag(common.has_window);
        let w = w.flag(common.whole_id.is_some()).flag(common.urg_ptr.is_some());
        let w = w.flag(false).flag(self.ecn_used).flag(common.dscp.is_some()).flag(common.has_ttl);
        let w = w.flag(self.has_list).put(2, common.ip_id as u32).flag(common.urg_flag);
        let w = w.flag(common.df).put(7, self.crc.into());
        let w = w.put(variable(common.seq_indicator), self.seq).put(variable(common.ack_indicator), self.ack);
        let w = w.maybe(16, common.ack_stride.map(u32::from)).maybe(16, some(common.has_window, self.window.into()));
        let w = match common.whole_id {
            _ if !common.ip_id.is_sequential() => w,
            Some(id) => w.put(16, id.into()),
            None => w.put(8, self.ip_id_offset.into()),
        };
        let w = w.maybe(16, common.urg_ptr.map(u32::from)).maybe(8, common.dscp.map(|dscp| u32::from(dscp) << 2));
        let _ = w.maybe(8, some(common.has_ttl, self.ttl.into()));
    }
}
