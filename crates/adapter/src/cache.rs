//! The reply cache: what hosts and routers ask again and again is answered on the near side.
//!
//! The far side's answers are kept as they pass, each for a set time from when the far side gave it.
//! Until then the same question is answered here and does not cross the line. What is answered:
//!
//! | question | answer | known by |
//! |---|---|---|
//! | neighbour solicitation (RFC 4861) | advertisement, Override clear as a proxy's (7.2.4) | solicited advertisement |
//! | ARP request (RFC 826) | reply | reply |
//! | router solicitation | the router's last advertisement, its lifetimes less its age | advertisement |
//! | ICMP and `ICMPv6` echo request | echo reply with the request's data | echo reply to the same host |
//! | OSPFv2 and `OSPFv3` hello that says nothing new | the far routers' last hellos | hello |
//! | RIP and `RIPng` request for the whole table | the response to an earlier one | response, kept up by updates |
//!
//! A probe for duplicate addresses (RFC 4862 5.4, RFC 5227) is never answered here. In the last quarter
//! of an answer's time a question is answered and goes on over the line as well, which renews the
//! answer before it is missed; a renewal that is lost is tried again with the next question, and when
//! nothing is cached any more the questions themselves go through. What the far side takes back (an
//! advertisement with another address, a router that is none any more) is forgotten at once.
//!
//! Adapters may stand in a chain: an answer of a cache is marked as one (Override clear beside an address,
//! a router advertisement's flag P of RFC 4389, no target hardware address in an ARP reply) and is passed on,
//! but nothing is kept or renewed by it. So through any chain nobody is answered for past the set time and
//! one round trip; that does not hold for echoes, hellos and tables, whose times add up.
//!
//! Hellos have no replies that would renew them: of every half of the time two go through, so that the
//! far cache holds on to them when one is lost.

mod discovery;
mod echo;
mod routing;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use engine::{Span, Time};
use serde::{Deserialize, Serialize};
use wire::Headers;

use routing::Said;

/// What is answered on the near side, and for how long after the far side last gave that answer;
/// absent: it is not. 1s to 1h each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct CacheConfig {
    /// Neighbour solicitations. Default 30s (`REACHABLE_TIME`, RFC 4861 10).
    pub neighbours: Option<Span>,
    /// ARP requests. Default 60s (RFC 1122 2.3.2.1: of the order of a minute).
    pub arp: Option<Span>,
    /// Router solicitations; never longer than the router is one. Default 10min (RFC 4861 6.2.1: the
    /// longest between its advertisements).
    pub routers: Option<Span>,
    /// Echo requests. Default absent: who pings wants to know about the line.
    pub echoes: Option<Span>,
    /// OSPF hellos. A far router that is gone is found dead by so much later. Default absent.
    pub hellos: Option<Span>,
    /// RIP and RIPng requests for a whole table. Default 30s (RFC 2453 3.8, RFC 2080 2.3: from update to
    /// update).
    pub tables: Option<Span>,
    /// Most answers that are kept; the one whose time is over first gives way. 16 to 4096. Default 256.
    pub entries: u32,
}

impl CacheConfig {
    /// Answers nothing.
    #[must_use]
    pub fn off() -> Self {
        let entries = Self::default().entries;
        Self { neighbours: None, arp: None, routers: None, echoes: None, hellos: None, tables: None, entries }
    }

    /// Every time that is set, by the name of its key.
    pub(crate) fn times(&self) -> impl Iterator<Item = (&'static str, Span)> {
        [
            ("cache.neighbours", self.neighbours),
            ("cache.arp", self.arp),
            ("cache.routers", self.routers),
            ("cache.echoes", self.echoes),
            ("cache.hellos", self.hellos),
            ("cache.tables", self.tables),
        ]
        .into_iter()
        .filter_map(|(name, time)| Some((name, time?)))
    }
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self {
            neighbours: Some(Span::from_secs(30)),
            arp: Some(Span::from_secs(60)),
            routers: Some(Span::from_secs(600)),
            echoes: None,
            hellos: None,
            tables: Some(Span::from_secs(30)),
            entries: 256,
        }
    }
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheKind {
    /// Neighbour solicitations.
    Neighbours,
    /// ARP requests.
    Arp,
    /// Router solicitations.
    Routers,
    /// Echo requests.
    Echoes,
    /// OSPF hellos.
    Hellos,
    /// Requests for whole routing tables.
    Tables,
}

impl CacheKind {
    /// All kinds, in the order of their counters.
    pub const ALL: [Self; 6] = [Self::Neighbours, Self::Arp, Self::Routers, Self::Echoes, Self::Hellos, Self::Tables];

    /// What reports call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Neighbours => "neighbours",
            Self::Arp => "arp",
            Self::Routers => "routers",
            Self::Echoes => "echoes",
            Self::Hellos => "hellos",
            Self::Tables => "tables",
        }
    }
}

/// What became of questions of one kind, and of answers to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounters {
    /// Questions answered on the near side.
    pub answered: u64,
    /// Questions that went over the line, those that renew an answer included.
    pub passed: u64,
    /// Answers whose time was over. Counted when the next question or answer of any kind comes.
    pub expired: u64,
    /// Answers that gave way to others in a full cache.
    pub displaced: u64,
    /// Answers the far side took back.
    pub withdrawn: u64,
}

/// What becomes of a frame from the LAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FromLan {
    /// It goes over the line.
    Pass,
    /// It was answered and ends here.
    Answered,
    /// It was answered, and goes over the line to renew the answer.
    Renew,
}

/// What becomes of a frame from the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FromLine {
    /// It goes to the LAN.
    Deliver,
    /// It renewed an answer that was given already, and ends here.
    Keep,
}

/// Longest frame that is kept as an answer, in bytes: Ethernet's.
const LONGEST_FRAME: usize = 1_514;

/// The answers of the far side; see the [module](self).
#[derive(Clone, Debug)]
pub struct ReplyCache {
    config: CacheConfig,
    entries: BTreeMap<Key, Entry>,
    /// What near routers said in their last hellos.
    said: BTreeMap<IpAddr, Said>,
    /// Not before this is any entry's time over.
    soonest: Time,
    counters: [CacheCounters; CacheKind::ALL.len()],
    /// Where answers are written.
    scratch: Vec<u8>,
}

/// What an answer is found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Neighbour(Ipv6Addr),
    Arp(Ipv4Addr),
    Router(Ipv6Addr),
    Echo { from: IpAddr, to: IpAddr },
    Hello(IpAddr),
    Table(IpAddr),
}

#[derive(Clone, Debug)]
struct Entry {
    answer: Answer,
    /// When the far side gave it.
    given: Time,
    expires: Time,
    /// When a question last went on to renew it.
    renewing: Option<Time>,
}

#[derive(Clone, Debug)]
enum Answer {
    Station {
        mac: [u8; 6],
        router: bool,
    },
    /// Hop limit of the reply, and identifier and number of the request that went on to renew it.
    Echo {
        hops: u8,
        renewal: Option<(u16, u16)>,
    },
    Frame(Vec<u8>),
}

impl ReplyCache {
    /// An empty cache.
    #[must_use]
    pub fn new(config: CacheConfig) -> Self {
        Self {
            config,
            entries: BTreeMap::new(),
            said: BTreeMap::new(),
            soonest: Time::MAX,
            counters: Default::default(),
            scratch: Vec::new(),
        }
    }

    /// A frame came from the LAN; `headers` must be its own. Answers are handed to `answer` as whole
    /// frames to be put on the LAN.
    pub fn from_lan(&mut self, now: Time, frame: &[u8], headers: &Headers, mut answer: impl FnMut(&[u8])) -> FromLan {
        let Some(question) = Question::of(frame, headers) else { return FromLan::Pass };
        self.expire(now);
        let mut scratch = core::mem::take(&mut self.scratch);
        let answer = &mut answer;
        let (kind, verdict) = match question {
            Question::Discovery(message) => self.discovery_asked(now, frame, message, &mut scratch, answer),
            Question::Arp(arp) => self.arp_asked(now, frame, arp, &mut scratch, answer),
            Question::Echo(echo) => self.echo_asked(now, frame, headers, echo, &mut scratch, answer),
            Question::Hello(hello) => self.hello_asked(now, hello, answer),
            Question::Routes(routes) => self.table_asked(now, frame, routes, &mut scratch, answer),
        };
        self.scratch = scratch;
        if let Some(kind) = kind {
            let counters = &mut self.counters[kind as usize];
            counters.answered += u64::from(verdict != FromLan::Pass);
            counters.passed += u64::from(verdict != FromLan::Answered);
        }
        verdict
    }

    /// A frame came from the line; `headers` must be its own.
    pub fn from_line(&mut self, now: Time, frame: &[u8], headers: &Headers) -> FromLine {
        let Some(said) = Question::of(frame, headers) else { return FromLine::Deliver };
        self.expire(now);
        match said {
            Question::Discovery(message) => self.discovery_heard(now, frame, message),
            Question::Arp(arp) => self.arp_heard(now, arp),
            Question::Echo(echo) => return self.echo_heard(now, frame, headers, echo),
            Question::Hello(hello) => self.hello_heard(now, frame, hello),
            Question::Routes(routes) => self.table_heard(now, frame, routes),
        }
        FromLine::Deliver
    }

    /// What became of questions and answers of a kind.
    #[must_use]
    pub fn counters(&self, kind: CacheKind) -> CacheCounters {
        self.counters[kind as usize]
    }

    /// How many answers are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no answer is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Forgets everything: the far side may be another one now.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.said.clear();
        self.soonest = Time::MAX;
    }

    /// Forgets what has had its time.
    fn expire(&mut self, now: Time) {
        if now < self.soonest {
            return;
        }
        let (counters, mut soonest) = (&mut self.counters, Time::MAX);
        self.entries.retain(|key, entry| {
            let keep = entry.expires > now;
            if keep {
                soonest = soonest.min(entry.expires);
            } else {
                counters[key.kind() as usize].expired += 1;
            }
            keep
        });
        self.soonest = soonest;
    }

    /// The far side gave an answer, which holds for `hold`.
    fn keep(&mut self, now: Time, key: Key, hold: Span, answer: Answer) {
        let full = self.entries.len() >= self.config.entries as usize && !self.entries.contains_key(&key);
        if full && let Some((&oldest, _)) = self.entries.iter().min_by_key(|(_, entry)| entry.expires) {
            self.entries.remove(&oldest);
            self.counters[oldest.kind() as usize].displaced += 1;
        }
        let expires = now + hold;
        self.soonest = self.soonest.min(expires);
        self.entries.insert(key, Entry { answer, given: now, expires, renewing: None });
    }

    /// The far side took an answer back, or it is doubtful.
    fn withdraw(&mut self, key: Key) {
        if self.entries.remove(&key).is_some() {
            self.counters[key.kind() as usize].withdrawn += 1;
        }
    }
}

impl Key {
    const fn kind(self) -> CacheKind {
        match self {
            Self::Neighbour(_) => CacheKind::Neighbours,
            Self::Arp(_) => CacheKind::Arp,
            Self::Router(_) => CacheKind::Routers,
            Self::Echo { .. } => CacheKind::Echoes,
            Self::Hello(_) => CacheKind::Hellos,
            Self::Table(_) => CacheKind::Tables,
        }
    }
}

impl Entry {
    /// Whether a question that comes now goes on to renew the answer: once the last quarter of its
    /// time has begun, and again after each sixteenth, until it is renewed.
    fn is_due(&mut self, now: Time) -> bool {
        let hold = self.expires.since(self.given).as_nanos();
        let left = self.expires.since(now).as_nanos();
        let again = self.renewing.is_none_or(|at| now.since(at).as_nanos() >= hold / 16);
        let due = left <= hold / 4 && again;
        if due {
            self.renewing = Some(now);
        }
        due
    }
}

/// A frame the cache has to do with: what asks, and what answers.
enum Question<'a> {
    Discovery(wire::ndp::Message),
    Arp(wire::arp::Arp),
    Echo(wire::Echo),
    Hello(routing::Hello<'a>),
    Routes(routing::Routes<'a>),
}

impl<'a> Question<'a> {
    /// All other frames, almost all there are, are told by their protocol and ports alone.
    fn of(frame: &'a [u8], headers: &Headers) -> Option<Self> {
        use wire::protocol::{ICMP, ICMPV6, UDP};
        let Some(ip) = headers.ip else {
            return wire::arp::Arp::parse(frame, headers).map(Self::Arp);
        };
        match ip.protocol {
            ICMPV6 => match wire::ndp::Message::parse(frame, headers) {
                Some(message) => Some(Self::Discovery(message)),
                None => echo::parse(frame, headers).map(Self::Echo),
            },
            ICMP => echo::parse(frame, headers).map(Self::Echo),
            routing::OSPF => routing::Hello::parse(frame, headers).map(Self::Hello),
            UDP => routing::Routes::parse(frame, headers).map(Self::Routes),
            _ => None,
        }
    }
}
