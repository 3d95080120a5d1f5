//! What payloads are filled with where nobody asks for their contents.

/// Bytes that no compression on the way makes shorter, so that a load is as heavy as it says: what
/// applications send is mostly compressed or encrypted already. Repeats after 4,096 bytes, more than
/// a packet holds.
pub fn fill(payload: &mut [u8]) {
    for chunk in payload.chunks_mut(NOISE.len()) {
        chunk.copy_from_slice(&NOISE[..chunk.len()]);
    }
}

static NOISE: [u8; 4096] = noise();

/// Marsaglia's xorshift64 ("Xorshift RNGs", 2003), its high byte.
const fn noise() -> [u8; 4096] {
    let mut bytes = [0; 4096];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut at = 0;
    while at < bytes.len() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes[at] = (state >> 56) as u8;
        at += 1;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::vec;

    #[test]
    fn nothing_in_a_packet_repeats() {
        let mut packet = vec![0; 1_500];
        fill(&mut packet);
        // DEFLATE refers back to what it has seen three bytes or more of (RFC 1951 3.2.5): by chance
        // 1,500 bytes have a handful of such places.
        let triples: BTreeSet<&[u8]> = packet.windows(3).collect();
        assert!(triples.len() > packet.len() - 10, "{} of {}", triples.len(), packet.len());
        let values: BTreeSet<u8> = packet.iter().copied().collect();
        assert!(values.len() > 250);
    }
}
