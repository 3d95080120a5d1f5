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
        })
    }
}
