//! The CRCs of compressed headers (RFC 3095 5.9, RFC 4815 2.1).
//!
//! Bits go in least significant first, registers start with all ones, and nothing is complemented
//! at the end.

/// x^3 + x + 1, reversed: UO-0 and UO-1 packets (RFC 3095 5.9.2).
pub(crate) static CRC3: Crc = Crc::new(0x06, 0x07);
/// x^7 + x^6 + x^3 + x^2 + x + 1 … reversed: UOR-2 packets and extension 3 (RFC 3095 5.9.2).
pub(crate) static CRC7: Crc = Crc::new(0x79, 0x7f);
/// x^8 + x^2 + x + 1, reversed: IR, IR-DYN and feedback (RFC 3095 5.9.1).
pub(crate) static CRC8: Crc = Crc::new(0xe0, 0xff);

/// Octets that are taken at once: the look-ups do not wait for each other then.
const AT_ONCE: usize = 8;

/// One polynomial with its tables.
pub(crate) struct Crc {
    /// What an octet does to a register that is zero, when so many more octets follow it.
    tables: [[u8; 256]; AT_ONCE],
    start: u8,
}

impl Crc {
    const fn new(reversed: u8, start: u8) -> Self {
        let mut tables = [[0; 256]; AT_ONCE];
        let mut octet = 0;
        while octet < 256 {
            let mut register = octet as u8;
            let mut bit = 0;
            while bit < 8 {
                register = if register & 1 == 1 { register >> 1 ^ reversed } else { register >> 1 };
                bit += 1;
            }
            tables[0][octet] = register;
            octet += 1;
        }
        let mut behind = 1;
        while behind < AT_ONCE {
            let mut octet = 0;
            while octet < 256 {
                tables[behind][octet] = tables[0][tables[behind - 1][octet] as usize];
                octet += 1;
            }
            behind += 1;
        }
        Self { tables, start }
    }

    /// The CRC of `bytes`.
    pub(crate) fn of(&self, bytes: &[u8]) -> u8 {
        self.update(self.start, bytes)
    }

    /// The CRC before any octet.
    pub(crate) const fn start(&self) -> u8 {
        self.start
    }

    /// Goes on from `register`, the CRC of what came before.
    pub(crate) fn update(&self, register: u8, bytes: &[u8]) -> u8 {
        let (blocks, rest) = bytes.as_chunks::<AT_ONCE>();
        let register = blocks.iter().fold(register, |register, block| {
            // A register of at most eight bits changes the first octet alone.
            let first = self.tables[AT_ONCE - 1][usize::from(register ^ block[0])];
            let rest = block[1..].iter().zip(self.tables[..AT_ONCE - 1].iter().rev());
            rest.fold(first, |sum, (octet, table)| sum ^ table[usize::from(*octet)])
        });
        rest.iter().fold(register, |register, octet| self.tables[0][usize::from(register ^ octet)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The CRC by the polynomial's definition, bit by bit: the register as a polynomial whose
    /// highest power leaves first, fed with each octet's least significant bit first.
    fn by_definition(bytes: &[u8], degree: u32, polynomial: u16) -> u8 {
        let mut register = (1u16 << degree) - 1;
        for byte in bytes {
            for bit in 0..8 {
                let out = register >> (degree - 1) & 1;
                register = register << 1 & ((1 << degree) - 1);
                if out ^ u16::from(byte >> bit & 1) == 1 {
                    register ^= polynomial & ((1 << degree) - 1);
                }
            }
        }
        (0..degree).fold(0, |reversed, bit| reversed << 1 | (register >> bit & 1) as u8)
    }

    #[test]
    fn tables_agree_with_the_polynomials() {
        let bytes: [u8; 40] = core::array::from_fn(|at| (at * 37 + 11) as u8);
        for length in 0..bytes.len() {
            let bytes = &bytes[..length];
            // RFC 3095 5.9.2: C(x) = 1 + x + x^3.
            assert_eq!(CRC3.of(bytes), by_definition(bytes, 3, 0b1011));
            // RFC 3095 5.9.2: C(x) = 1 + x + x^2 + x^3 + x^6 + x^7.
            assert_eq!(CRC7.of(bytes), by_definition(bytes, 7, 0b1100_1111));
            // RFC 3095 5.9.1: C(x) = 1 + x + x^2 + x^8.
            assert_eq!(CRC8.of(bytes), by_definition(bytes, 8, 0b1_0000_0111));
        }
    }

    #[test]
    fn known_answers() {
        // The check values of the catalogues: CRC-3/ROHC, CRC-7/ROHC, CRC-8/ROHC of "123456789".
        assert_eq!(CRC3.of(b"123456789"), 0x6);
        assert_eq!(CRC7.of(b"123456789"), 0x53);
        assert_eq!(CRC8.of(b"123456789"), 0xd0);
    }
}
