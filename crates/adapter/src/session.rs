//! The session: finding the adapter at the other end, agreeing with it, noticing that it is gone.
//!
//! Each side sends hellos until the other's hello names its own instance: then there is a session,
//! and a hello that says that the other side has none is answered at once. From then on any good
//! frame is a sign of life, and a keep-alive makes one where nothing else is sent. A new instance
//! number is a restart: everything that was built up with the old one is void.

use engine::{Event, Random, Span, Time};

use crate::config::{AdapterConfig, RohcProfile, SessionConfig};
use crate::control::{Hello, Offer, RohcOffer, VERSIONS};
use crate::counters::SessionCounters;

/// A session began. The value is the other adapter's instance.
pub const SESSION: &str = "session with the other adapter";
/// Nothing was heard for too long. The value is how long, in milliseconds.
pub const LOST: &str = "line lost";
/// The other adapter is a new one or was restarted: contexts are void. The value is its instance.
pub const RESTARTED: &str = "other adapter restarted";
/// The other adapter speaks no version of the line protocol that this one does; there will be no
/// session. The value is its newest version.
pub const INCOMPATIBLE: &str = "other adapter speaks no common version";
/// The other adapter's line has another rate or other characters; the value is its rate in bit/s.
pub const OTHER_LINE: &str = "other adapter's line differs";

/// The adapter hears its own hellos: the line is looped back, or both adapters have one seed and name. The
/// value is its instance.
pub const LOOPED: &str = "own hello heard: line looped back";

/// What is agreed on for a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Agreed {
    /// Longest packet that the peer takes.
    pub(crate) largest_packet: usize,
    /// Header compression: what both have.
    pub(crate) rohc: Option<RohcOffer>,
    /// Data packets may be deflated.
    pub(crate) deflate: bool,
}

#[derive(Debug)]
pub(crate) struct Session {
    times: SessionConfig,
    instance: u32,
    offer: Offer,
    hello_size: usize,
    peer: Option<Peer>,
    up: bool,
    /// When the next hello is to be sent while there is no session.
    hello_at: Time,
    last_heard: Time,
    last_sent: Time,
    /// An answer is owed.
    answer: bool,
    /// The last hello had no common version; the newest that it named.
    foreign: Option<u8>,
    pub(crate) counters: SessionCounters,
}

#[derive(Debug)]
struct Peer {
    instance: u32,
}

/// What a hello changed.
#[derive(Debug, Default)]
pub(crate) struct Change {
    /// All that was built up with the peer is void.
    pub(crate) reset: Option<Option<Agreed>>,
    pub(crate) events: [Option<Event>; 3],
}

impl Session {
    pub(crate) fn new(config: &AdapterConfig, random: &mut Random) -> Self {
        let offer = Offer {
            line: (config.rate.bits_per_second() as u32, config.bits_per_character),
            largest_packet: config.largest_packet.bytes() as u32,
            rohc: config.rohc.as_ref().map(|rohc| RohcOffer {
                max_cid: rohc.max_cid,
                mode: rohc.mode,
                profiles: rohc.profiles.iter().fold(1, |set, profile| set | 1 << profile.id()),
            }),
            inflates: config.payload.is_some(),
        };
        Self {
            times: config.session.clone(),
            instance: (random.bits() as u32).max(1),
            hello_size: 1 + Hello::size(&offer),
            offer,
            peer: None,
            up: false,
            hello_at: Time::ZERO,
            last_heard: Time::ZERO,
            last_sent: Time::ZERO,
            answer: false,
            foreign: None,
            counters: SessionCounters::default(),
        }
    }

    pub(crate) fn is_up(&self) -> bool {
        self.up
    }

    /// A good frame came.
    pub(crate) fn heard(&mut self, now: Time) {
        self.last_heard = now;
    }

    /// The line is busy with our frames until `end`.
    pub(crate) fn sent(&mut self, end: Time) {
        self.last_sent = end;
    }

    pub(crate) fn take(&mut self, hello: &Hello) -> Change {
        let mut change = Change::default();
        self.counters.hellos_taken += 1;
        if hello.instance == self.instance {
            if self.counters.looped == 0 {
                change.events[0] = Some(Event { what: LOOPED, value: u64::from(self.instance) });
            }
            self.counters.looped += 1;
            return change;
        }
        if self.peer.as_ref().is_none_or(|peer| peer.instance != hello.instance) {
            self.meet(hello, &mut change);
        }
        self.foreign = None;
        if hello.heard == self.instance && !self.up {
            self.up = true;
            self.counters.begun += 1;
            change.events[2] = Some(Event { what: SESSION, value: u64::from(hello.instance) });
        }
        self.answer |= !hello.up || hello.heard != self.instance;
        change
    }

    /// The first hello of an instance.
    fn meet(&mut self, hello: &Hello, change: &mut Change) {
        let restarted = self.peer.is_some();
        self.up = false;
        change.reset = Some(Some(self.agree(&hello.offer)));
        self.peer = Some(Peer { instance: hello.instance });
        if restarted {
            self.counters.restarted += 1;
            change.events[0] = Some(Event { what: RESTARTED, value: u64::from(hello.instance) });
        }
        if hello.offer.line != self.offer.line {
            self.counters.other_line += 1;
            change.events[1] = Some(Event { what: OTHER_LINE, value: u64::from(hello.offer.line.0) });
        }
    }

    /// A hello of an adapter that speaks no version of ours: whoever was there before is gone.
    pub(crate) fn take_foreign(&mut self, newest: u8) -> Change {
        let mut change = Change::default();
        self.counters.hellos_taken += 1;
        self.counters.incompatible += 1;
        self.up = false;
        if self.peer.take().is_some() {
            change.reset = Some(None);
        }
        if self.foreign.replace(newest) != Some(newest) {
            change.events[1] = Some(Event { what: INCOMPATIBLE, value: u64::from(newest) });
        }
        change
    }

    fn agree(&self, theirs: &Offer) -> Agreed {
        let rohc = self.offer.rohc.as_ref().zip(theirs.rohc.as_ref()).map(|(ours, theirs)| RohcOffer {
            // Both directions of a channel have CIDs of one size, and each end has so many contexts.
            max_cid: ours.max_cid.min(theirs.max_cid),
            mode: ours.mode,
            // Profile 0x0000 is never left out (RFC 3095 5.1.1).
            profiles: ours.profiles & theirs.profiles | 1,
        });
        let deflate = self.offer.inflates && theirs.inflates;
        Agreed { largest_packet: theirs.largest_packet as usize, rohc, deflate }
    }

    /// The hello that is to be sent now, if one is.
    pub(crate) fn hello_due(&self, now: Time) -> bool {
        self.answer || !self.up && now >= self.hello_at
    }

    /// Bytes of a hello's body, with the delimiter that is sent in front of it.
    pub(crate) fn hello_size(&self) -> usize {
        self.hello_size
    }

    /// The hello, which counts as sent now.
    pub(crate) fn hello(&mut self, now: Time) -> Hello {
        self.answer = false;
        self.hello_at = now + self.times.hello;
        self.counters.hellos_sent += 1;
        let heard = self.peer.as_ref().map_or(0, |peer| peer.instance);
        let (oldest, newest) = VERSIONS.into_inner();
        Hello { oldest, newest, up: self.up, instance: self.instance, heard, offer: self.offer.clone() }
    }

    pub(crate) fn keep_alive_due(&self, now: Time) -> bool {
        self.up && now >= self.last_sent + self.times.keep_alive
    }

    /// Ends the session if nothing was heard for too long.
    pub(crate) fn tick(&mut self, now: Time) -> Option<Event> {
        if !self.up || now < self.last_heard + self.times.dead_after {
            return None;
        }
        self.up = false;
        self.hello_at = now;
        self.counters.lost += 1;
        Some(Event { what: LOST, value: now.since(self.last_heard).as_nanos() / 1_000_000 })
    }

    /// What waited longer than this when the line comes back is stale.
    pub(crate) fn hold(&self) -> Span {
        self.times.hold
    }

    pub(crate) fn deadline(&self) -> Time {
        if self.up {
            (self.last_sent + self.times.keep_alive).min(self.last_heard + self.times.dead_after)
        } else {
            self.hello_at
        }
    }
}

impl RohcProfile {
    /// The identifier that IANA assigned.
    pub(crate) const fn id(self) -> u16 {
        match self {
            Self::Uncompressed => 0,
            Self::Rtp => 1,
            Self::Udp => 2,
            Self::Esp => 3,
            Self::Ip => 4,
            Self::Tcp => 6,
        }
    }
}
