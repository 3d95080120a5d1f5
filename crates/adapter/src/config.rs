//! What an adapter is told to be.

use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use engine::{Rate, Size, Span};
use queue::{Codel, Discipline, FqCodel, QueueConfig, Selector};
use serde::{Deserialize, Serialize};

use crate::cache::CacheConfig;
use crate::class::Priority;
use crate::frame::MAX_BODY;
use crate::payload::PayloadConfig;

/// An adapter. Whatever is not given takes its default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct AdapterConfig {
    /// Speed of the line in bit/s, start and stop bits included; 50bit/s to 1Gbit/s. Default
    /// 9600bit/s.
    pub rate: Rate,
    /// Bits on the line for each character: 10 for 8N1, 8 for a synchronous or packet link; 7 to 12.
    /// Default 10.
    pub bits_per_character: u8,
    /// How long before the line falls idle the next frame is handed to it, so that a real UART never
    /// waits; 0 to 100ms. A real-time packet may wait that much longer. Default 0.
    pub lead: Span,
    /// What is sent next. Default `gaps`.
    pub schedule: Schedule,
    /// Which packets are what; the first rule that matches holds. At most 64. Default none.
    pub rules: Vec<Rule>,
    /// How real-time flows are found that no rule names; absent: not at all. Default present.
    pub behaviour: Option<Behaviour>,
    /// Which real-time flows are let onto the line.
    pub admission: Admission,
    /// How packets are cut.
    pub fragments: Fragments,
    /// Where packets wait.
    pub queues: Queues,
    /// Longest packet that is taken from the line, in bytes of its network layer; 1280B to 65575B
    /// (an IPv6 packet with the longest payload). The peer is told. Default 65575B.
    pub largest_packet: Size,
    /// Header compression; absent: none. Default present.
    pub rohc: Option<Rohc>,
    /// Payload compression; absent: none. Default present.
    pub payload: Option<PayloadConfig>,
    /// What is answered on the near side. Default: neighbours, ARP, routers and tables.
    pub cache: CacheConfig,
    /// Hello, keep-alive and when the line counts as lost.
    pub session: SessionConfig,
}

/// What is sent next when the line is free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// Real-time packets first; fragments of other packets fill the predicted gaps between them.
    #[default]
    Gaps,
    /// Real-time packets first; other packets in fragments of one size ([`Fragments::time`]), without
    /// prediction.
    Priority,
    /// All packets in order of arrival through one queue, cut to the framing's size alone. No
    /// admission.
    Fifo,
}

/// What packets that match are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Rule {
    /// Which packets: all conditions that are given hold.
    #[serde(rename = "match")]
    pub selector: Selector,
    /// What they are.
    pub class: RuleClass,
    /// Priority of data, 0 to 3, 3 first. Default 0. Means nothing for real-time.
    #[serde(default)]
    pub priority: Priority,
    /// What each real-time flow reserves of the line, in bit/s of characters on the line (8 bits
    /// each); absent: what it is measured to need. Default absent.
    #[serde(default)]
    pub bandwidth: Option<Rate>,
}

/// What a rule makes of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuleClass {
    /// Sent whole, before all else. A datagram over 224 B is data of priority 3.
    RealTime,
    /// Cut to fit.
    Data,
}

/// How a flow shows that it is real-time: small packets at a steady pace (UDP, UDP-Lite, DCCP or
/// ESP).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Behaviour {
    /// Packets in a row with steady spacing before the flow is real-time; 4 to 16. Default 5.
    pub packets: u8,
    /// Longest such packet, in bytes of its network layer; 40B to 224B. Default 200B.
    pub largest: Size,
    /// Longest mean spacing; 10ms to 5s. Default 500ms.
    pub spacing: Span,
    /// How far a spacing may be from the mean, in percent of it; 1 to 50. Default 30.
    pub tolerance_percent: u8,
}

/// Which real-time flows are let onto the line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Admission {
    /// How much of the line real-time flows may fill together, in percent; 1 to 100. Default 100.
    pub share_percent: u8,
    /// After so long without a packet a flow's place is free again; 1s to 1h. Default 10s.
    pub silence: Span,
    /// What becomes of a flow that does not fit. Default `drop`.
    pub refused: Refused,
    /// Flows that are watched at once; the one unheard for longest gives way. 8 to 4096. Default 256.
    pub flows: u32,
}

/// What becomes of a real-time flow that does not fit onto the line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Refused {
    /// Its packets are dropped, and its sender is told (administratively prohibited).
    #[default]
    Drop,
    /// Its packets are data of priority 0.
    Data,
}

/// How packets are cut.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Fragments {
    /// Longest time a fragment takes on the line while no real-time flow is predicted: what the first
    /// packet of a call may have to wait. 1ms to 10s; a frame never has over 251 B of body. Default
    /// 100ms.
    pub time: Span,
    /// Least body of a fragment that does not end its packet, in bytes; 1 to 128. Default 4. If
    /// less than that fits before the next real-time packet, the line is held back. Small fragments
    /// are little use and still more than none: the time before a predicted packet has no other.
    pub least: u8,
}

/// Where packets wait.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Queues {
    /// Most real-time packets that wait; 1 to 1024. Default 32.
    pub real_time_packets: u32,
    /// Most data packets that wait in one priority; 1 to 65536. Default 64.
    pub data_packets: u32,
    /// Most bytes that wait in one priority; 64KiB to 16MiB. Default 128KiB.
    pub data_bytes: Size,
    /// What manages the queues of data; absent: FQ-CoDel whose target is the time of 1.5 packets of
    /// 1500 B on this line (at least 5 ms; RFC 8289 4.4) and whose interval is four times that (at
    /// least 100 ms), with ECN; and drop-tail for the schedule `fifo`. Default absent.
    pub discipline: Option<Discipline>,
}

/// Robust header compression (RFC 3095).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Rohc {
    /// Profiles that are offered to the peer. Default all: uncompressed, rtp, udp, esp, ip, tcp.
    pub profiles: Vec<RohcProfile>,
    /// Mode of the decompressor: without or with feedback. Default `optimistic`.
    pub mode: RohcMode,
    /// Largest context identifier; over 15 means large CIDs (RFC 3095 5.1.3). 0 to 1023. Default 15.
    /// The lesser of both ends holds.
    pub max_cid: u16,
    /// UDP ports whose packets are taken as RTP, at most 16. Default 5004.
    pub rtp_ports: Vec<u16>,
}

/// A profile of header compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RohcProfile {
    /// 0x0000, RFC 3095 5.10; always offered.
    Uncompressed,
    /// 0x0001, RFC 3095 5.7.
    Rtp,
    /// 0x0002, RFC 3095 5.11.
    Udp,
    /// 0x0003, RFC 3095 5.12.
    Esp,
    /// 0x0004, RFC 3843.
    Ip,
    /// 0x0006, RFC 6846.
    Tcp,
}

/// Modes of header compression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RohcMode {
    /// Without feedback (RFC 3095 4.4.1).
    Unidirectional,
    /// With feedback that repairs contexts (RFC 3095 4.4.2).
    #[default]
    Optimistic,
}

/// Hello, keep-alive and loss of the line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct SessionConfig {
    /// Time between hellos while there is no session; 100ms to 60s. Default 1s.
    pub hello: Span,
    /// A keep-alive is sent after so long without any frame; 100ms to 60s. Default 1s.
    pub keep_alive: Span,
    /// The line counts as lost after so long without a good frame; at least twice the keep-alive, at
    /// most 10min. Default 4s.
    pub dead_after: Span,
    /// Packets that have waited longer than this when the line comes back are dropped; 0 to 10min.
    /// Default 4s.
    pub hold: Span,
}

/// An adapter that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A value is out of its range.
    #[error("the adapter's `{field}` is {value}; it must be {valid}")]
    Invalid {
        /// Which value, as it is written in the configuration.
        field: &'static str,
        /// What it is.
        value: String,
        /// What it may be.
        valid: &'static str,
    },
    /// The queues' discipline cannot be.
    #[error("the adapter's `queues.discipline`: {0}")]
    Queue(queue::ConfigError),
    /// A rule's condition cannot be.
    #[error("rule {number}: {error}")]
    Rule {
        /// Which rule, from 1.
        number: usize,
        /// What is wrong with it.
        error: queue::SelectorError,
    },
}

/// The longest datagram that travels whole, in bytes of its network layer: a frame's body with room
/// for an explicit Ethernet header and what a header compressor may add when it starts a context.
pub const LARGEST_REAL_TIME: usize = 224;

const _: () = assert!(LARGEST_REAL_TIME + wire::ETHERNET_LEN + 13 <= MAX_BODY);

impl AdapterConfig {
    /// A line without any of it, as a serial IP link is: one queue in order, no header compression.
    /// The framing is the same.
    #[must_use]
    pub fn plain() -> Self {
        Self { schedule: Schedule::Fifo, rohc: None, payload: None, cache: CacheConfig::off(), ..Self::default() }
    }

    /// Whether such an adapter can be.
    ///
    /// # Errors
    ///
    /// Names the field and its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let millis = Span::from_millis;
        within("rate", self.rate.bits_per_second(), 50, 1_000_000_000, self.rate, "50bit/s to 1Gbit/s")?;
        number("bits-per-character", self.bits_per_character, 7, 12, "7 to 12")?;
        span("lead", self.lead, Span::ZERO, millis(100), "0 to 100ms")?;
        number("rules", self.rules.len() as u64, 0, 64, "at most 64 rules")?;
        for (index, rule) in self.rules.iter().enumerate() {
            rule.selector.validate().map_err(|error| ConfigError::Rule { number: index + 1, error })?;
        }
        if let Some(behaviour) = &self.behaviour {
            number("behaviour.packets", behaviour.packets, 4, 16, "4 to 16")?;
            size("behaviour.largest", behaviour.largest, 40, LARGEST_REAL_TIME as u64, "40B to 224B")?;
            span("behaviour.spacing", behaviour.spacing, millis(10), Span::from_secs(5), "10ms to 5s")?;
            number("behaviour.tolerance-percent", behaviour.tolerance_percent, 1, 50, "1 to 50")?;
        }
        let admission = &self.admission;
        number("admission.share-percent", admission.share_percent, 1, 100, "1 to 100")?;
        span("admission.silence", admission.silence, Span::from_secs(1), Span::from_secs(3600), "1s to 1h")?;
        number("admission.flows", admission.flows, 8, 4096, "8 to 4096")?;
        span("fragments.time", self.fragments.time, millis(1), Span::from_secs(10), "1ms to 10s")?;
        number("fragments.least", self.fragments.least, 1, 128, "1 to 128")?;
        let queues = &self.queues;
        number("queues.real-time-packets", queues.real_time_packets, 1, 1024, "1 to 1024")?;
        number("queues.data-packets", queues.data_packets, 1, 65_536, "1 to 65536")?;
        size("queues.data-bytes", queues.data_bytes, 64 << 10, 16 << 20, "64KiB to 16MiB")?;
        self.data_queue().validate().map_err(ConfigError::Queue)?;
        size("largest-packet", self.largest_packet, 1280, 65_575, "1280B to 65575B")?;
        if let Some(rohc) = &self.rohc {
            number("rohc.max-cid", rohc.max_cid, 0, 1023, "0 to 1023")?;
            number("rohc.rtp-ports", rohc.rtp_ports.len() as u64, 0, 16, "at most 16 ports")?;
        }
        if let Some(payload) = &self.payload {
            size("payload.least", payload.least, 32, 1500, "32B to 1500B")?;
            size("payload.margin", payload.margin, 1, 256, "1B to 256B")?;
            number("payload.level", payload.level, 1, 9, "1 to 9")?;
        }
        for (field, time) in self.cache.times() {
            span(field, time, Span::from_secs(1), Span::from_secs(3600), "1s to 1h")?;
        }
        number("cache.entries", self.cache.entries, 16, 4096, "16 to 4096")?;
        let session = &self.session;
        span("session.hello", session.hello, millis(100), Span::from_secs(60), "100ms to 60s")?;
        span("session.keep-alive", session.keep_alive, millis(100), Span::from_secs(60), "100ms to 60s")?;
        let least = session.keep_alive.times(2);
        let valid = "at least twice `session.keep-alive`, at most 10min";
        span("session.dead-after", session.dead_after, least, Span::from_secs(600), valid)?;
        span("session.hold", session.hold, Span::ZERO, Span::from_secs(600), "0 to 10min")
    }

    /// The queue of each priority of data.
    pub(crate) fn data_queue(&self) -> QueueConfig {
        let discipline = self.queues.discipline.clone().unwrap_or_else(|| match self.schedule {
            Schedule::Fifo => Discipline::DropTail,
            Schedule::Gaps | Schedule::Priority => {
                let bits = 1500 * u64::from(self.bits_per_character);
                let packet = Span::from_nanos(bits * 1_000_000_000 / self.rate.bits_per_second());
                let target = Span::from_nanos(packet.as_nanos() * 3 / 2).max(Span::from_millis(5));
                let interval = target.times(4).max(Span::from_millis(100));
                // Sparse flows gain from a small quantum on a slow line (RFC 8290 6.2.1: 300 B).
                Discipline::FqCodel(FqCodel { flows: 256, quantum: 300, codel: Codel { target, interval, ecn: true } })
            }
        });
        QueueConfig { packets: Some(self.queues.data_packets), bytes: Some(self.queues.data_bytes), discipline }
    }
}

fn within(
    field: &'static str,
    value: u64,
    least: u64,
    most: u64,
    written: impl fmt::Display,
    valid: &'static str,
) -> Result<(), ConfigError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(ConfigError::Invalid { field, value: written.to_string(), valid })
}

fn number(
    field: &'static str,
    value: impl Into<u64>,
    least: u64,
    most: u64,
    valid: &'static str,
) -> Result<(), ConfigError> {
    let value = value.into();
    within(field, value, least, most, value, valid)
}

fn span(field: &'static str, value: Span, least: Span, most: Span, valid: &'static str) -> Result<(), ConfigError> {
    within(field, value.as_nanos(), least.as_nanos(), most.as_nanos(), value, valid)
}

fn size(field: &'static str, value: Size, least: u64, most: u64, valid: &'static str) -> Result<(), ConfigError> {
    within(field, value.bytes(), least, most, value, valid)
}

impl Default for AdapterConfig {
    /// 9600 baud, 8N1, everything on.
    fn default() -> Self {
        const RATE: Rate = match Rate::from_bits_per_second(9600) {
            Some(rate) => rate,
            None => unreachable!(),
        };
        Self {
            rate: RATE,
            bits_per_character: 10,
            lead: Span::ZERO,
            schedule: Schedule::Gaps,
            rules: Vec::new(),
            behaviour: Some(Behaviour::default()),
            admission: Admission::default(),
            fragments: Fragments::default(),
            queues: Queues::default(),
            largest_packet: Size::from_bytes(65_575),
            rohc: Some(Rohc::default()),
            payload: Some(PayloadConfig::default()),
            cache: CacheConfig::default(),
            session: SessionConfig::default(),
        }
    }
}

impl Default for Behaviour {
    fn default() -> Self {
        Self { packets: 5, largest: Size::from_bytes(200), spacing: Span::from_millis(500), tolerance_percent: 30 }
    }
}

impl Default for Admission {
    fn default() -> Self {
        Self { share_percent: 100, silence: Span::from_secs(10), refused: Refused::Drop, flows: 256 }
    }
}

impl Default for Fragments {
    fn default() -> Self {
        Self { time: Span::from_millis(100), least: 4 }
    }
}

impl Default for Queues {
    fn default() -> Self {
        Self { real_time_packets: 32, data_packets: 64, data_bytes: Size::from_bytes(128 << 10), discipline: None }
    }
}

impl Default for Rohc {
    fn default() -> Self {
        use RohcProfile::{Esp, Ip, Rtp, Tcp, Udp, Uncompressed};
        Self {
            profiles: vec![Uncompressed, Rtp, Udp, Esp, Ip, Tcp],
            mode: RohcMode::Optimistic,
            max_cid: 15,
            rtp_ports: vec![5004],
        }
    }
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self {
            hello: Span::from_secs(1),
            keep_alive: Span::from_secs(1),
            dead_after: Span::from_secs(4),
            hold: Span::from_secs(4),
        }
    }
}
