//! What a narrowband adapter did in a cell: a row of `adapters.csv`.

use engine::Span;

use crate::Quantiles;

/// One adapter of a pair: what it sent over its line in the measured time.
///
/// Bytes *on the line* are characters: framing, headers of the line protocol and all. Bytes of *IP*
/// are those of the datagrams as they came from the LAN, before any compression.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AdapterRecord {
    /// Its name: the link's, a dot, and the site's it stands at.
    pub adapter: String,
    /// The link it sends over.
    pub link: String,
    /// The site it stands at.
    pub site: String,
    /// Time over which was counted.
    pub measured: Span,
    /// What the line carries towards the other adapter: eight bits a character, in bit/s.
    pub line_bit_s: f64,
    /// Characters put on the line, all kinds.
    pub line_bytes: u64,
    /// Of these, for real-time datagrams.
    pub real_time_line_bytes: u64,
    /// Of these, other datagrams themselves, after compression.
    pub data_line_bytes: u64,
    /// Of these, what framed the fragments of other datagrams, the last of each left out.
    pub framing_line_bytes: u64,
    /// Of these, what another datagram costs once, however long it is: the framing of its last
    /// fragment, index, explicit Ethernet header, CRC-32.
    pub encapsulation_line_bytes: u64,
    /// Of these, the adapters' own frames.
    pub control_line_bytes: u64,
    /// Characters that were not sent while data waited: the line was held for a datagram foretold.
    pub held_line_bytes: u64,
    /// Real-time datagrams that left whole.
    pub real_time_packets: u64,
    /// Their bytes of IP.
    pub real_time_ip_bytes: u64,
    /// Other datagrams that left whole.
    pub data_packets: u64,
    /// Their bytes of IP.
    pub data_ip_bytes: u64,
    /// Frames put on the line, all kinds.
    pub frames: u64,
    /// Real-time datagrams that came when they were foretold.
    pub predictions_held: u64,
    /// Those that came at another time.
    pub predictions_missed: u64,
    /// Real-time datagrams that waited longer than the adapter promises.
    pub overdue: u64,
    /// Real-time flows that were refused since the line has no room for them.
    pub refused: u64,
    /// Requests answered on the near side, out of the cache.
    pub replies_cached: u64,
    /// Frames that came damaged over the line.
    pub bad_frames: u64,
    /// Packets that came over the line in part, or whole and not to be used.
    pub lost_packets: u64,
    /// Mean length of a compressed header in bytes.
    pub header_mean_bytes: Option<f64>,
    /// Real-time datagram delay: from the LAN to the last character on the line, in seconds.
    pub real_time_delay: Option<Quantiles>,
    /// Forwarding queue delay: from the LAN to the first character on the line, of other datagrams.
    pub queue_delay: Option<Quantiles>,
    /// Predicted gap length: the time that was seen free before the next real-time datagram.
    pub gap: Option<Quantiles>,
}

impl AdapterRecord {
    /// Share of the measured time in which characters were put on the line.
    #[must_use]
    pub fn line_use(&self) -> Option<f64> {
        self.share_of_line(self.line_bytes)
    }

    /// e: data's own characters over these, the framing of fragments, and the time the line was held
    /// back for real-time datagrams while data waited. What a datagram costs once is not in it: it
    /// is the price of one byte more, which is what the slope of packet pairs measures.
    #[must_use]
    pub fn efficiency(&self) -> Option<f64> {
        let used = self.data_line_bytes + self.framing_line_bytes + self.held_line_bytes;
        (self.data_line_bytes > 0).then(|| self.data_line_bytes as f64 / used as f64)
    }

    /// What real-time datagrams leave of the line, in bit/s.
    #[must_use]
    pub fn left_bit_s(&self) -> Option<f64> {
        self.share_of_line(self.real_time_line_bytes).map(|share| self.line_bit_s * (1.0 - share))
    }

    /// Other datagrams' bytes of IP over what real-time datagrams leave of the line.
    #[must_use]
    pub fn data_share(&self) -> Option<f64> {
        let data = self.share_of_line(self.data_ip_bytes)? * self.line_bit_s;
        self.left_bit_s().filter(|left| *left > 0.0).map(|left| data / left)
    }

    fn share_of_line(&self, bytes: u64) -> Option<f64> {
        let capacity = self.line_bit_s * self.measured.as_secs_f64() / 8.0;
        (capacity > 0.0).then(|| bytes as f64 / capacity)
    }
}
