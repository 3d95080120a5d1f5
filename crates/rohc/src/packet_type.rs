//! The names of what goes over the channel.

use core::fmt;

/// The kind of a ROHC packet: what its first octets say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PacketType {
    /// IR: static and dynamic parts of the context (RFC 3095 5.7.7.1).
    Ir,
    /// IR-DYN: the dynamic part alone (RFC 3095 5.7.7.2).
    IrDyn,
    /// Normal packet of profile 0x0000 (RFC 3095 5.10.2).
    Normal,
    /// UO-0 (RFC 3095 5.7.1).
    Uo0,
    /// UO-1 (RFC 3095 5.7.3, 5.11.3).
    Uo1,
    /// UO-1-ID (RFC 3095 5.7.3).
    Uo1Id,
    /// UO-1-TS (RFC 3095 5.7.3).
    Uo1Ts,
    /// UOR-2 (RFC 3095 5.7.4, 5.11.3).
    Uor2,
    /// UOR-2-ID (RFC 3095 5.7.4).
    Uor2Id,
    /// UOR-2-TS (RFC 3095 5.7.4).
    Uor2Ts,
    /// IR-CR: a context made from another one (RFC 6846 7.2, RFC 4164).
    IrCr,
    /// co_common (RFC 6846 8.2), like all that follow.
    CoCommon,
    /// rnd_1: identification random, zero or none.
    Rnd1,
    /// rnd_2: identification random, zero or none.
    Rnd2,
    /// rnd_3: identification random, zero or none.
    Rnd3,
    /// rnd_4: identification random, zero or none.
    Rnd4,
    /// rnd_5: identification random, zero or none.
    Rnd5,
    /// rnd_6: identification random, zero or none.
    Rnd6,
    /// rnd_7: identification random, zero or none.
    Rnd7,
    /// rnd_8: identification random, zero or none.
    Rnd8,
    /// seq_1: identification sequential.
    Seq1,
    /// seq_2: identification sequential.
    Seq2,
    /// seq_3: identification sequential.
    Seq3,
    /// seq_4: identification sequential.
    Seq4,
    /// seq_5: identification sequential.
    Seq5,
    /// seq_6: identification sequential.
    Seq6,
    /// seq_7: identification sequential.
    Seq7,
    /// seq_8: identification sequential.
    Seq8,
}

impl fmt::Display for PacketType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ir => "IR",
            Self::IrDyn => "IR-DYN",
            Self::Normal => "Normal",
            Self::Uo0 => "UO-0",
            Self::Uo1 => "UO-1",
            Self::Uo1Id => "UO-1-ID",
            Self::Uo1Ts => "UO-1-TS",
            Self::Uor2 => "UOR-2",
            Self::Uor2Id => "UOR-2-ID",
            Self::Uor2Ts => "UOR-2-TS",
            Self::IrCr => "IR-CR",
            Self::CoCommon => "co_common",
            Self::Rnd1 => "rnd_1",
            Self::Rnd2 => "rnd_2",
            Self::Rnd3 => "rnd_3",
            Self::Rnd4 => "rnd_4",
            Self::Rnd5 => "rnd_5",
            Self::Rnd6 => "rnd_6",
            Self::Rnd7 => "rnd_7",
            Self::Rnd8 => "rnd_8",
            Self::Seq1 => "seq_1",
            Self::Seq2 => "seq_2",
            Self::Seq3 => "seq_3",
            Self::Seq4 => "seq_4",
            Self::Seq5 => "seq_5",
            Self::Seq6 => "seq_6",
            Self::Seq7 => "seq_7",
            Self::Seq8 => "seq_8",
        })
    }
}
