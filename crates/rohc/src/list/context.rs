//! All lists of a context.

use alloc::vec::Vec;

use super::{ChainCompressor, ChainDecompressor, ExtensionHeaders, Kind, ListCompressor, ListDecompressor};
use crate::headers::Headers;

/// The compressor's lists: the extension headers of each IP header, and RTP's CSRC list.
#[derive(Clone, Debug)]
pub(crate) struct CompressorLists {
    /// From the outermost IP header inwards.
    pub(crate) chains: Vec<ChainCompressor>,
    pub(crate) sources: ListCompressor,
}

impl CompressorLists {
    /// No lists: to be [restarted](Self::restart).
    pub(crate) const fn new() -> Self {
        Self { chains: Vec::new(), sources: ListCompressor::new(Kind::Csrc, 0) }
    }

    /// Begins a flow with `count` IP headers and a sequence number of `sn_bits` bits. `repeats` is L of
    /// RFC 3095 5.8.1.2.
    pub(crate) fn restart(&mut self, count: usize, sn_bits: u32, repeats: u8) {
        self.chains.clear();
        self.chains.resize_with(count, || ChainCompressor::new(repeats, sn_bits));
        self.sources = ListCompressor::new(Kind::Csrc, repeats);
    }

    /// Takes the lists of a packet with sequence number `sn`; `sources` is its CSRC list. Says whether there is
    /// something new to be sent.
    pub(crate) fn observe(&mut self, packet: &[u8], headers: &Headers, sources: &[u8], sn: u32) -> bool {
        let mut changed = self.sources.observe(sources.chunks_exact(4));
        for (ip, chain) in headers.ip().iter().zip(&mut self.chains) {
            if ip.extensions == 0 && chain.is_empty() {
                continue;
            }
            let (first, octets) = ip.extension_headers(packet);
            // `Headers` found them, so that they can be read.
            let version = if ip.is_v6 { 6 } else { 4 };
            let read = ExtensionHeaders::read(version, first, octets).unwrap_or(ExtensionHeaders::none(first));
            changed |= chain.observe(&read, octets, sn);
        }
        changed
    }

    /// The decompressor has a packet since something last changed.
    pub(crate) fn acknowledge(&mut self) {
        self.sources.acknowledge();
        self.chains.iter_mut().for_each(ChainCompressor::acknowledge);
    }

    /// The decompressor lost something: everything has to be sent again.
    pub(crate) fn doubt(&mut self) {
        self.sources.doubt();
        self.chains.iter_mut().for_each(ChainCompressor::doubt);
    }
}

/// The decompressor's lists: the extension headers of each IP header, and RTP's CSRC list.
#[derive(Clone, Debug)]
pub(crate) struct DecompressorLists {
    /// From the outermost IP header inwards.
    pub(crate) chains: Vec<ChainDecompressor>,
    pub(crate) sources: ListDecompressor,
    sn_bits: u32,
}

impl DecompressorLists {
    /// No lists: to be [restarted](Self::restart).
    pub(crate) const fn new() -> Self {
        Self { chains: Vec::new(), sources: ListDecompressor::new(Kind::Csrc), sn_bits: 0 }
    }

    /// Begins a flow with `count` IP headers and a sequence number of `sn_bits` bits.
    pub(crate) fn restart(&mut self, count: usize, sn_bits: u32) {
        self.chains.clear();
        self.chains.resize_with(count, || ChainDecompressor::new(sn_bits));
        self.sources = ListDecompressor::new(Kind::Csrc);
        self.sn_bits = sn_bits;
    }

    /// Are these the lists of such a flow? If so, an IR or IR-DYN packet does not clear them (RFC 4815 6.3).
    pub(crate) fn fit(&self, count: usize, sn_bits: u32) -> bool {
        self.chains.len() == count && self.sn_bits == sn_bits
    }

    /// Are there headers whose own sequence numbers follow the flow's?
    pub(crate) fn has_sequences(&self) -> bool {
        self.chains.iter().any(ChainDecompressor::has_sequences)
    }

    /// Begins a packet: what the last one brought and was not committed is forgotten.
    pub(crate) fn begin(&mut self) {
        self.sources.abandon();
        self.chains.iter_mut().for_each(ChainDecompressor::begin);
    }

    /// Takes over what was read: the packet with sequence number `sn` was right. Unless it may update `lists`, only
    /// items and sequence numbers are kept (RFC 4815 6.2).
    pub(crate) fn commit(&mut self, sn: u32, lists: bool) {
        self.sources.commit(lists);
        self.chains.iter_mut().for_each(|chain| chain.commit(sn, lists));
    }
}
