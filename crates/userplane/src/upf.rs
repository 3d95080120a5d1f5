//! A small UPF: rules by PFCP (TS 29.244) on N4, user packets in GTP-U (TS 29.281) on N3 and as they are on N6.
//!
//! [`Upf`] does nothing by itself: frames and time are handed in, what it sends is polled. A user packet is changed in
//! place, in the buffer it stands in, and handed back; all else it sends (answers, reports, packets that waited) comes
//! from [`Upf::poll`]. [`UpfElement`] is the same as an [`engine::Element`].
//!
//! ```
//! use engine::{Random, Time};
//! use userplane::upf::{Config, HEADROOM, Interface, Reason, Side, Upf, Verdict};
//!
//! let interface = |n: u8| Interface::new([2, 0, 0, 0, 0, n], ([10, 0, n, 1].into(), 24));
//! let mut upf = Upf::new(Config::new(interface(3), interface(4), interface(6)), Random::stream(1, "upf"));
//! let mut buffer = [0; HEADROOM + 60];
//! let verdict = upf.handle(Time::ZERO, Side::N6, &mut buffer, HEADROOM..HEADROOM + 60);
//! assert_eq!(verdict, Verdict::Drop(Reason::OtherStation));
//! ```

mod control;
mod counters;
mod data;
mod element;
mod meter;
mod next_hop;
mod requests;
mod rule;
mod session;
mod sessions;
mod usage;

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use core::ops::Range;

use engine::{Random, Rate, Span, Time};
use wire::pfcp::value::{NodeId, NtpTime};
use wire::pfcp::{Cause, Encoding};

use crate::filter::Filter;
use control::Control;
pub use counters::{Counters, Reason, Traffic};
pub use element::UpfElement;
use meter::Meter;
use next_hop::{NextHops, Ready};
pub use rule::Direction;
use sessions::Sessions;

/// Bytes that have to be free before a frame that is handed in: what the longest tunnel header needs.
pub const HEADROOM: usize = 64;

/// What a UPF is told to be.
#[derive(Clone, Debug)]
pub struct Config {
    /// Towards the gNB (S1-U in 4G: towards the eNodeB).
    pub n3: Interface,
    /// Towards the control plane (Sxa and Sxb in 4G).
    pub n4: Interface,
    /// Towards the data network (SGi in 4G).
    pub n6: Interface,
    /// What it is called on N4.
    pub node: NodeId,
    /// The wall clock at [`Time::ZERO`], which is its recovery time stamp (TS 29.244 8.2.65).
    pub started: NtpTime,
    /// Rules that the control plane activates by name.
    pub predefined: Vec<Predefined>,
    /// How it writes on N4.
    pub encoding: Encoding,
    /// How far traffic may run ahead of a maximum bit rate.
    pub burst: Span,
    /// From one heartbeat of its own to the next; none if there is none.
    pub heartbeat: Option<Span>,
    /// How long it waits for an answer (T1), and how often it sends a request (N1) (TS 29.244 6.4).
    pub retransmission: (Span, u32),
    /// Limits.
    pub limits: Limits,
}

/// How much it keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Sessions.
    pub sessions: usize,
    /// Buffered packets of one session, unless a BAR says otherwise.
    pub session_packets: usize,
    /// Buffered packets of all sessions.
    pub packets: usize,
    /// Reports that wait for an answer.
    pub reports: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { sessions: 1 << 20, session_packets: 64, packets: 16_384, reports: 4_096 }
    }
}

/// One of its interfaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// Its addresses, each with the length of its network's prefix.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Where packets for other networks go, at most one of each IP version. Without any every address is asked for on the
    /// link itself.
    pub gateways: Vec<IpAddr>,
    /// The longest IP packet that goes out, in bytes.
    pub mtu: usize,
}

/// A rule that is known by name (TS 29.244 8.2.72): it adds filters to the PDR that activates it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Predefined {
    /// Its name.
    pub name: String,
    /// Which packets it takes; all if there are none.
    pub filters: Vec<Filter>,
}

/// Where frames come from and go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The gNB's: tunnels.
    N3,
    /// The control plane's.
    N4,
    /// The data network's.
    N6,
}

impl Side {
    /// All of them, in the order of their ports.
    pub const ALL: [Self; 3] = [Self::N3, Self::N4, Self::N6];

    /// Its port in a graph.
    #[must_use]
    pub const fn port(self) -> usize {
        self as usize
    }
}

/// What became of a frame that was handed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is to be sent, with new headers: this part of the buffer.
    Send {
        /// Where.
        side: Side,
        /// The frame.
        frame: Range<usize>,
    },
    /// It was for the UPF itself, or was copied and waits inside. The buffer is free.
    Taken,
    /// It ends here.
    Drop(Reason),
}

/// What comes out by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// A frame to send.
    Frame {
        /// Where.
        side: Side,
        /// The whole frame.
        bytes: Vec<u8>,
    },
    /// A PFCP message to send.
    Message {
        /// To whom.
        to: SocketAddr,
        /// The UDP payload.
        bytes: Vec<u8>,
    },
    /// A user packet that had waited ends here.
    Drop {
        /// Why.
        reason: Reason,
        /// The packet.
        bytes: Vec<u8>,
    },
    /// Something that its operator may want to know.
    News(News),
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// A control plane set an association up.
    Associated {
        /// Which.
        node: NodeId,
        /// Sessions of its association before, which ended with that.
        ended: usize,
    },
    /// A control plane released its association.
    Released {
        /// Which.
        node: NodeId,
        /// Its sessions, which ended with that.
        ended: usize,
    },
    /// A control plane does not answer heartbeats. Its sessions stay.
    Silent {
        /// Which.
        node: NodeId,
    },
    /// A control plane was restarted, as its recovery time stamp says.
    Restarted {
        /// Which.
        node: NodeId,
        /// Its sessions, which ended with that.
        ended: usize,
    },
    /// A request was refused.
    Refused {
        /// Whose.
        from: SocketAddr,
        /// The message's name.
        request: &'static str,
        /// Why.
        cause: Cause,
        /// The information element it is about.
        offending: Option<u16>,
    },
}

/// A small UPF.
#[derive(Debug)]
pub struct Upf {
    config: Config,
    now: Time,
    hops: [NextHops; 3],
    sessions: Sessions,
    control: Control,
    counters: Counters,
    /// IPv4 identification of the next tunnel packet.
    identification: u16,
    /// Holds error indications to a rate.
    errors: Meter,
    outputs: VecDeque<Output>,
}

impl Config {
    /// A UPF with these interfaces, called by its address on N4, and with defaults for the rest: 100 ms of burst, no
    /// heartbeats of its own, T1 1 s and N1 3.
    #[must_use]
    pub fn new(n3: Interface, n4: Interface, n6: Interface) -> Self {
        let node = n4.addresses.first().map_or(IpAddr::from([0; 4]), |(address, _)| *address).into();
        Self {
            n3,
            n4,
            n6,
            node,
            started: NtpTime(0),
            predefined: Vec::new(),
            encoding: Encoding::default(),
            burst: Span::from_millis(100),
            heartbeat: None,
            retransmission: (Span::from_secs(1), 3),
            limits: Limits::default(),
        }
    }
}

impl Interface {
    /// An interface with one address and its network, no gateway, and an MTU of 1500.
    #[must_use]
    pub fn new(mac: [u8; 6], address: (IpAddr, u8)) -> Self {
        Self { mac, addresses: alloc::vec![address], gateways: Vec::new(), mtu: 1_500 }
    }
}

/// Error indications a second, at most, so that a flood of packets in unknown tunnels does not become two floods.
const ERRORS_PER_SECOND: u64 = 1_000;

impl Upf {
    /// A UPF without associations and sessions. From `random` come its first TEID and sequence number.
    #[must_use]
    pub fn new(config: Config, mut random: Random) -> Self {
        let hops = [&config.n3, &config.n4, &config.n6].map(|interface| NextHops::new(interface.clone()));
        // One "byte" each.
        let errors =
            Rate::from_bits_per_second(8 * ERRORS_PER_SECOND).map(|rate| Meter::new(rate, Span::from_millis(100)));
        Self {
            now: Time::ZERO,
            hops,
            sessions: Sessions::new(random.bits() as u32),
            control: Control::new(random.bits() as u32),
            counters: Counters::default(),
            identification: 0,
            errors: errors.unwrap_or_else(|| unreachable!("the rate is not 0")),
            outputs: VecDeque::new(),
            config,
        }
    }

    /// What it was told to be.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What was counted since the start.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Sessions there are.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// A deadline has come.
    pub fn tick(&mut self, now: Time) {
        self.now = now;
        for hops in &mut self.hops {
            hops.tick(now);
        }
        self.tick_usage(now);
        self.tick_control(now);
    }

    /// When [`Upf::tick`] is wanted next, if at all.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        let hops = self.hops.iter().filter_map(NextHops::deadline);
        hops.chain(self.sessions.deadline()).chain(self.control.deadline()).min()
    }

    /// What it sends by itself, until there is nothing. To be called after every batch of frames and messages, and
    /// after every tick.
    pub fn poll(&mut self) -> Option<Output> {
        self.report_due();
        if let Some(output) = self.outputs.pop_front() {
            return Some(output);
        }
        for side in Side::ALL {
            match self.hops[side.port()].poll() {
                Some(Ready::Send(bytes)) => return Some(Output::Frame { side, bytes }),
                Some(Ready::Drop(reason, bytes)) => {
                    self.counters.drop(reason);
                    return Some(Output::Drop { reason, bytes });
                }
                None => {}
            }
        }
        None
    }
}
