//! A checked plan: everything a run needs, with nothing left to look up or to refuse.

use std::collections::BTreeSet;
use std::net::IpAddr;

use adapter::AdapterConfig;
use engine::{Rate, Size, Span};
use link::{DirectionConfig, LineConfig};
use measure::{Scalar, Study};
use serde::{Deserialize, Serialize};
use traffic::VideoConfig;
use traffic::pairs::PairsConfig;
use traffic::sip::CallConfig;
use traffic::{Frames, Talk, VoiceConfig};

use crate::load::Embedded;

/// What `run` does. Kept as `plan.json` with the results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Version of this layout and of the results directory.
    pub schema: u32,
    /// Version of Narrows that made it.
    pub version: String,
    /// The scenario's name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The file as it was, `--set` and `--quick` not applied.
    pub source: String,
    /// Whether `--quick` was given.
    pub quick: bool,
    /// `--set` options, in order.
    pub set: Vec<String>,
    /// Seed of the run; every cell's seed derives from it.
    pub seed: u64,
    /// The questions the run answers.
    pub study: Study,
    /// What is run, in canonical order: last axis fastest, repeats outermost.
    pub cells: Vec<Cell>,
}

impl Plan {
    /// The plan as it stands in `plan.json`.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Only maps with keys that are no strings, and writers that fail, can make this fail.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// What may be run as it stands but is hardly meant, in words, each said once.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut found = BTreeSet::new();
        for cell in self.cells.iter().filter(|cell| cell.path.vxlan || cell.path.esp) {
            for link in &cell.links {
                let directions = link.packets().into_iter().flatten();
                let branches = directions.flat_map(|way| &way.branches);
                let blind = branches.filter(|branch| branch.selector.reads_what_tunnels_hide());
                found.extend(blind.map(|branch| (&link.name, &branch.name, &cell.path.name, cell.path.esp)));
            }
        }
        found
            .into_iter()
            .map(|(link, branch, path, esp)| {
                let seen = if esp {
                    "ESP between the gateways' addresses, and the DSCP of what is inside"
                } else {
                    "VXLAN between the sites' addresses, UDP to port 4789 from a port by the flow's hash, and the DSCP of what is inside"
                };
                format!("branch `{branch}` of `{link}` matches by header, but on the path `{path}` the link sees the tunnel's: {seen}")
            })
            .collect()
    }
}

/// One point of the sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Position in [`Plan::cells`].
    pub id: u32,
    /// Which repeat, from 0.
    pub repeat: u32,
    /// Key and value of each axis, in the order of the file.
    pub coordinates: Vec<(String, Scalar)>,
    /// Seed of the cell's random streams.
    pub seed: u64,
    /// Names of the sites.
    pub sites: Vec<String>,
    /// The links between them. Every site that takes part in a flow can be reached.
    pub links: Vec<Link>,
    /// What packets pass between a site's application and its links.
    pub path: Path,
    /// What runs; at least one.
    pub flows: Vec<Flow>,
    /// Length of the measured time.
    pub duration: Span,
    /// Length of an interval; at most the duration.
    pub interval: Span,
    /// Time the flows run before measuring begins.
    pub warmup: Span,
}

impl Cell {
    /// The load on a UPF, if the cell is that.
    #[must_use]
    pub fn load(&self) -> Option<(&Flow, &Embedded)> {
        self.flows.iter().find_map(|flow| match &flow.traffic {
            Traffic::Load(load) => Some((flow, &**load)),
            _ => None,
        })
    }
}

/// A link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// Its ends, as positions in [`Cell::sites`].
    pub ends: (usize, usize),
    /// Name of the profile it was made from.
    pub profile: Option<String>,
    /// What it carries, and how.
    #[serde(flatten)]
    pub medium: Medium,
    /// The narrowband adapters at its first and its second end, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapters: Option<Box<[AdapterConfig; 2]>>,
    /// Whether what crosses its first end is captured.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub capture: bool,
}

/// What a link carries, from its first end to the second (up) and back (down).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
#[expect(clippy::large_enum_variant, reason = "a plan has few links")]
pub enum Medium {
    /// Packets.
    Packets {
        /// From the first end to the second.
        up: DirectionConfig,
        /// From the second end to the first.
        down: DirectionConfig,
    },
    /// Characters, between a pair of adapters.
    Characters {
        /// The line.
        line: Line,
    },
}

/// A line that carries characters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// From the first end to the second.
    pub up: LineConfig,
    /// From the second end to the first.
    pub down: LineConfig,
    /// In a real run the characters cross a pseudo-terminal of the kernel's instead of the emulated
    /// line.
    pub pty: bool,
}

impl Link {
    /// Its directions up and down, if it carries packets.
    #[must_use]
    pub fn packets(&self) -> Option<[&DirectionConfig; 2]> {
        match &self.medium {
            Medium::Packets { up, down } => Some([up, down]),
            Medium::Characters { .. } => None,
        }
    }

    /// Its directions up and down, if it carries characters.
    #[must_use]
    pub fn characters(&self) -> Option<[&LineConfig; 2]> {
        match &self.medium {
            Medium::Packets { .. } => None,
            Medium::Characters { line } => Some([&line.up, &line.down]),
        }
    }
}

/// A version of the Internet Protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum IpVersion {
    /// IPv4.
    #[default]
    #[serde(rename = "4")]
    V4,
    /// IPv6.
    #[serde(rename = "6")]
    V6,
}

impl IpVersion {
    /// Length of its header in bytes, without options or extensions.
    #[must_use]
    pub const fn header(self) -> u16 {
        match self {
            Self::V4 => 20,
            Self::V6 => 40,
        }
    }

    /// The smallest MTU a link under it may have (RFC 791 3.2 asks 68; every host takes 576), in bytes.
    #[must_use]
    pub const fn least_mtu(self) -> u16 {
        match self {
            Self::V4 => 576,
            // RFC 8200 5.
            Self::V6 => 1_280,
        }
    }
}

/// How applications reach the links of their site.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Path {
    /// Its name.
    pub name: String,
    /// Version of all addresses: of sites, pods and the tunnels between them.
    pub ip: IpVersion,
    /// MTU the application's interface has, in bytes.
    pub mtu: u16,
    /// Whether applications stand in a namespace of their own, joined by a VXLAN tunnel
    /// (RFC 7348) over a bridge.
    pub vxlan: bool,
    /// Whether a pair of IPsec gateways stands at the ends of every link, between the sites and what
    /// else is there (adapters): an ESP tunnel in tunnel mode (RFC 4303).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub esp: bool,
}

impl Path {
    /// Applications on the site itself, with Ethernet's MTU.
    #[must_use]
    pub fn host(ip: IpVersion) -> Self {
        Self { name: "host".to_owned(), ip, mtu: ETHERNET_MTU, vxlan: false, esp: false }
    }

    /// The largest packet that leaves a site, in bytes: the application's, in its VXLAN tunnel if there
    /// is one.
    #[must_use]
    pub const fn largest_sent(&self) -> u16 {
        if self.vxlan { self.mtu + vxlan_overhead(self.ip) } else { self.mtu }
    }

    /// The largest packet on the links (or that reaches their adapters), in bytes.
    #[must_use]
    pub const fn largest_packet(&self) -> u16 {
        let sent = self.largest_sent();
        if self.esp { traffic::esp_length(self.ip.header() as usize, sent as usize) as u16 } else { sent }
    }

    /// The largest MTU of applications with which the links carry no more than Ethernet's.
    #[must_use]
    pub const fn ethernet_mtu(ip: IpVersion, vxlan: bool, esp: bool) -> u16 {
        let sent =
            if esp { traffic::esp_room(ip.header() as usize, ETHERNET_MTU as usize) as u16 } else { ETHERNET_MTU };
        if vxlan { sent - vxlan_overhead(ip) } else { sent }
    }
}

/// Ethernet's MTU in bytes.
pub const ETHERNET_MTU: u16 = 1_500;

/// Bytes VXLAN adds to a packet: 14 inner Ethernet, 8 VXLAN, 8 UDP, and the outer IP header
/// (RFC 7348 5).
#[must_use]
pub const fn vxlan_overhead(ip: IpVersion) -> u16 {
    14 + 8 + 8 + ip.header()
}

/// Traffic from one site to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// Its name.
    pub name: String,
    /// Site it is sent from, as a position in [`Cell::sites`].
    pub from: usize,
    /// Site it is sent to.
    pub to: usize,
    /// When it starts, from the start of the cell (warm-up included).
    pub start: Span,
    /// When it stops; at the end of the cell if absent.
    pub stop: Option<Span>,
    /// Differentiated services code point of its packets.
    pub dscp: u8,
    /// What is sent.
    pub traffic: Traffic,
}

/// UDP ports that are not said are the flow's number above this one.
pub const FIRST_PORT: u16 = 5_001;

impl Flow {
    /// The UDP ports of the flow with this number in its cell, the same at both ends.
    #[must_use]
    pub fn udp_ports(&self, number: usize) -> Vec<u16> {
        match &self.traffic {
            Traffic::Udp(_) => vec![FIRST_PORT + number as u16],
            Traffic::Voice(voice) => vec![voice.port],
            Traffic::Pairs(pairs) => vec![pairs.port],
            Traffic::Call(call) => vec![call.port, call.voice.port],
            Traffic::Quic(quic) => vec![quic.port],
            Traffic::Tcp(_) | Traffic::Ping(_) | Traffic::Load(_) => Vec::new(),
        }
    }
}

/// What a flow sends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Traffic {
    /// A TCP connection.
    Tcp(Tcp),
    /// Datagrams at a rate.
    Udp(Udp),
    /// ICMP echo requests.
    Ping(Ping),
    /// What a vocoder makes of speech.
    Voice(Voice),
    /// Packet pairs.
    Pairs(Pairs),
    /// Voice in calls that are set up and released.
    Call(Call),
    /// Video over QUIC.
    Quic(Quic),
    /// A load on a UPF; nothing runs beside it.
    Load(Box<Embedded>),
}

/// A TCP connection, limited as `iperf3 -b` limits it: a block is written whenever the average rate
/// since the start is below the rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tcp {
    /// Rate of the application; as fast as it goes if absent.
    pub rate: Option<Rate>,
    /// Bytes in a write.
    pub write: Size,
    /// Congestion control, set on the socket.
    pub congestion: String,
    /// Bytes in all, if it is a transfer; it goes on to its stop if absent.
    pub transfer: Option<Size>,
    /// What sends and receives.
    pub engine: TcpEngine,
}

/// What sends and receives a TCP flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TcpEngine {
    /// Narrows' own endpoints: counts are exchanged beside the link.
    Own,
    /// A real iperf3, whose control connection crosses the link.
    Iperf3,
}

/// Datagrams at a constant rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Udp {
    /// Rate of the UDP payload.
    pub rate: Rate,
    /// UDP payload of a datagram: at least 24 bytes, for number and time.
    pub size: Size,
}

/// ICMP echo requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ping {
    /// From one request to the next.
    pub interval: Span,
    /// ICMP payload.
    pub size: Size,
}

/// What a vocoder makes of speech, in datagrams.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Voice {
    /// Name of the vocoder; `custom` if it is given by its figures.
    pub codec: String,
    /// Bytes of vocoder frames in a packet, each frame in whole octets.
    pub payload: Size,
    /// Speech in a packet.
    pub packet: Span,
    /// From one packet to the next; the paper rounds it.
    pub every: Span,
    /// Payload type, if it goes over RTP (RFC 3550).
    pub rtp: Option<u8>,
    /// UDP port at both ends.
    pub port: u16,
    /// Talk spurts and pauses; somebody talks all the time if absent.
    pub talk: Option<Talk>,
    /// Depth of the listener's playout buffer.
    pub buffer: Span,
    /// Equipment impairment factor without loss (ITU-T G.113).
    pub ie: f64,
    /// Packet-loss robustness factor.
    pub bpl: f64,
    /// Real frames; pseudo-random bits if absent.
    pub frames: Option<Frames>,
}

impl Voice {
    /// Rate of the UDP payload while somebody talks.
    #[must_use]
    pub fn rate(&self) -> Option<Rate> {
        let bits = u128::from(self.config(0).datagram() as u64) * 8_000_000_000;
        Rate::from_bits_per_second(u64::try_from(bits / u128::from(self.every.as_nanos().max(1))).unwrap_or(u64::MAX))
    }

    /// As the ends of the flow are told; `seed` is of spurts, RTP's origins and bits.
    #[must_use]
    pub fn config(&self, seed: u64) -> VoiceConfig {
        VoiceConfig {
            payload: usize::try_from(self.payload.bytes()).unwrap_or(usize::MAX),
            every: self.every,
            rtp: self.rtp,
            talk: self.talk,
            frames: self.frames.clone(),
            seed,
        }
    }
}

/// Packet pairs: two datagrams back to back, over several sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pairs {
    /// Sizes of the IP datagrams in bytes, in the order in which they are sent.
    pub sizes: Vec<u16>,
    /// How often all sizes are gone through.
    pub rounds: u16,
    /// From one pair to the next.
    pub every: Span,
    /// Bytes of the IP and UDP headers.
    pub header: u16,
    /// Zeros as payload, instead of bytes that do not compress.
    pub zeros: bool,
    /// UDP port at both ends.
    pub port: u16,
}

impl Pairs {
    /// As the ends of the flow are told.
    #[must_use]
    pub fn config(&self, seed: u64) -> PairsConfig {
        PairsConfig {
            sizes: self.sizes.clone(),
            rounds: self.rounds,
            every: self.every,
            header: self.header,
            zeros: self.zeros,
            session: seed as u32,
            seed,
        }
    }
}

/// Video on demand over QUIC (RFC 9000), from the first site, where the server is, to the second, where the
/// player is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quic {
    /// Mean rate of the video.
    pub rate: Rate,
    /// Playing time of a segment.
    pub segment: Span,
    /// Segments that are asked for at once at the start.
    pub ahead: u32,
    /// UDP payload of full datagrams.
    pub datagram: Size,
    /// Packets that the player acknowledges together.
    pub acknowledge: u32,
    /// UDP port at both ends.
    pub port: u16,
}

impl Quic {
    /// As the ends of the flow are told.
    #[must_use]
    pub fn config(&self, seed: u64) -> VideoConfig {
        VideoConfig {
            rate: self.rate,
            segment: self.segment,
            ahead: self.ahead,
            datagram: self.datagram.bytes() as u16,
            acknowledge: self.acknowledge,
            seed,
        }
    }
}

/// Voice in calls that are set up and released by SIP (RFC 3261), one after the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// What is said, over RTP.
    pub voice: Voice,
    /// Whether the called site talks too.
    pub both_ways: bool,
    /// How long a call lasts once it stands.
    pub hold: Span,
    /// From the end of a call to the next.
    pub pause: Span,
    /// How long it rings before it is answered.
    pub ring: Span,
    /// SIP's base time T1.
    pub t1: Span,
    /// Compact header names.
    pub compact: bool,
    /// UDP port of the signalling at both ends.
    pub port: u16,
}

impl Call {
    /// As the ends of the flow, at these addresses, are told.
    #[must_use]
    pub fn config(&self, addresses: [IpAddr; 2], seed: u64) -> CallConfig {
        CallConfig {
            voice: self.voice.config(seed),
            // Another seed: two speakers do not pause together.
            back: self.both_ways.then(|| self.voice.config(!seed)),
            addresses,
            ports: [self.port, self.voice.port],
            hold: self.hold,
            pause: self.pause,
            ring: self.ring,
            t1: self.t1,
            compact: self.compact,
            seed,
        }
    }
}
