//! Calls: SIP user agents (RFC 3261) around voice flows, without sockets.
//!
//! A subset: INVITE, ACK and BYE over UDP, provisional and final responses, SDP's offer and answer
//! (RFC 4566, RFC 3264) with one audio stream. There is no registrar, proxy, authentication, CANCEL,
//! re-INVITE or DNS. What a transaction's timers D, I, J and K keep for a while is kept until the next
//! call. The base time T1 is chosen for the line (RFC 3261 17.1.1.2 allows a longer one); T2 and T4
//! are in the same ratio to it as the RFC's 4 s and 5 s are to its 500 ms.

mod callee;
mod caller;
mod message;
mod sdp;

use alloc::format;
use alloc::string::String;
use core::net::IpAddr;

use engine::{Random, Span, Time};

pub use callee::Callee;
pub use caller::Caller;
pub use message::{Method, SipMessage, Start};
pub use sdp::Sdp;

use crate::VoiceConfig;

/// Socket of the signalling in [`Application`](crate::Application)'s order.
const SIGNALLING: usize = 0;
/// Socket of the media.
const MEDIA: usize = 1;

/// The calls of a flow.
#[derive(Clone, Debug, PartialEq)]
pub struct CallConfig {
    /// What is said from the caller to the callee, over RTP.
    pub voice: VoiceConfig,
    /// What is said back, if anything is.
    pub back: Option<VoiceConfig>,
    /// Addresses of caller and callee.
    pub addresses: [IpAddr; 2],
    /// Ports of signalling and media, the same at both ends.
    pub ports: [u16; 2],
    /// How long a call lasts once it stands.
    pub hold: Span,
    /// From the end of a call to the next.
    pub pause: Span,
    /// How long it rings before the callee answers.
    pub ring: Span,
    /// SIP's base time T1: an estimate of the round trip of an INVITE.
    pub t1: Span,
    /// Compact header names (RFC 3261 7.3.3).
    pub compact: bool,
    /// Seed of tags, branches and identifiers.
    pub seed: u64,
}

impl CallConfig {
    /// RFC 3261 17.1.2.2: 4 s where T1 is 500 ms.
    fn t2(&self) -> Span {
        self.t1.times(8)
    }

    /// Timers B, F and H: 64 T1.
    fn patience(&self) -> Span {
        self.t1.times(64)
    }

    fn names(&self) -> Names {
        Names(Random::stream(self.seed, "sip"))
    }

    /// An end's URI: 0 is the caller.
    fn uri(&self, end: usize) -> String {
        let user = ["caller", "callee"][end];
        format!("sip:{user}@{}", self.host(end))
    }

    /// Address and port of an end's signalling.
    fn host(&self, end: usize) -> String {
        // RFC 3261 19.1.1: an IPv6 address stands in brackets.
        match self.addresses[end] {
            IpAddr::V4(address) => format!("{address}:{}", self.ports[0]),
            IpAddr::V6(address) => format!("[{address}]:{}", self.ports[0]),
        }
    }

    /// What an end offers or answers.
    fn sdp(&self, end: usize) -> Sdp {
        Sdp {
            address: self.addresses[end],
            port: self.ports[1],
            payload_type: self.voice.rtp.unwrap_or(0),
            packet_ms: u32::try_from(self.voice.every.as_nanos() / 1_000_000).unwrap_or(u32::MAX),
        }
    }
}

/// Names that nobody else has.
#[derive(Debug)]
struct Names(Random);

impl Names {
    fn token(&mut self) -> String {
        format!("{:08x}", self.0.bits() as u32)
    }

    /// RFC 3261 8.1.1.7: a branch begins with the magic cookie.
    fn branch(&mut self) -> String {
        format!("z9hG4bK{}", self.token())
    }
}

/// A message that is sent again until something answers it, at intervals that double.
#[derive(Debug)]
struct Repeating {
    bytes: alloc::vec::Vec<u8>,
    next: Time,
    interval: Span,
    /// Where the interval stops growing.
    most: Span,
    /// For how long it is tried.
    patience: Span,
    /// When it is given up.
    until: Time,
    sent: u32,
}

/// How long it may ring. RFC 3261 17.1.1.2 sets a caller no limit once it has heard of the other end; proxies wait
/// three minutes (16.6, timer C).
pub const LONGEST_RING: Span = Span::from_secs(180);

/// What is to be done with a [`Repeating`] message.
enum Due<'a> {
    /// Send it; `true` if that is again.
    Send(&'a [u8], bool),
    /// Give it up.
    Over,
    /// Wait.
    Nothing,
}

impl Repeating {
    /// Sent at once, then after `t1`, and so on; given up after `patience`.
    fn new(bytes: alloc::vec::Vec<u8>, now: Time, t1: Span, most: Span, patience: Span) -> Self {
        Self { bytes, next: now, interval: t1, most, patience, until: now + patience, sent: 0 }
    }

    fn due(&mut self, now: Time) -> Due<'_> {
        if now >= self.until {
            return Due::Over;
        }
        if now < self.next {
            return Due::Nothing;
        }
        self.next = now + self.interval;
        self.interval = self.interval.times(2).min(self.most);
        self.sent += 1;
        Due::Send(&self.bytes, self.sent > 1)
    }

    fn deadline(&self) -> Time {
        self.next.min(self.until)
    }

    /// A provisional response was heard at `now`: it is not sent again, and given up only when the other end can be
    /// taken to have gone.
    fn quiet(&mut self, now: Time) {
        self.next = Time::MAX;
        self.until = now + LONGEST_RING + self.patience;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::application::{Application, passages};
    use crate::{Vocoder, VoiceConfig};
    use alloc::boxed::Box;
    use alloc::vec::Vec;

    /// Caller and callee.
    type Ends = [Box<dyn Application>; 2];
    /// When something was said, by whom, and its first line.
    type Said = (Time, usize, String);

    const T1: Span = Span::from_secs(2);

    fn second(n: u64) -> Time {
        Time::ZERO + Span::from_secs(n)
    }

    fn config() -> CallConfig {
        let melp = Vocoder::named("melp-1200").unwrap();
        CallConfig {
            voice: VoiceConfig {
                payload: 33,
                every: melp.frame.times(3),
                rtp: Some(96),
                talk: None,
                frames: None,
                seed: 3,
            },
            back: None,
            addresses: ["10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap()],
            ports: [5_060, 16_384],
            hold: Span::from_secs(10),
            pause: Span::from_secs(5),
            ring: Span::from_secs(1),
            t1: T1,
            compact: true,
            seed: 5,
        }
    }

    /// Both ends over a way of 300 ms, on which `lost` decides by the number and the text of each
    /// signalling message. Returns them, and what was sent: when, by whom, its first line.
    fn converse(config: &CallConfig, until: Time, mut lost: impl FnMut(usize, &str) -> bool) -> (Ends, Vec<Said>) {
        let mut ends: Ends = [Box::new(Caller::new(config.clone())), Box::new(Callee::new(config.clone()))];
        for end in &mut ends {
            end.begin(second(0)..until);
        }
        let mut way: Vec<(Time, usize, usize, Vec<u8>)> = Vec::new();
        let mut said = Vec::new();
        let mut now = second(0);
        let limit = until + T1.times(64);
        while now <= limit {
            while let Some(at) = way.iter().position(|(arrives, ..)| *arrives <= now) {
                let (_, to, socket, payload) = way.remove(at);
                ends[to].receive(now, socket, &payload);
            }
            for (from, end) in ends.iter_mut().enumerate() {
                let mut payload = Vec::new();
                while let Some(socket) = end.send(now, &mut payload) {
                    let text = String::from_utf8_lossy(&payload).into_owned();
                    let first = String::from(text.lines().next().unwrap_or_default());
                    let drops = socket == SIGNALLING && lost(said.len(), &first);
                    if socket == SIGNALLING {
                        said.push((now, from, first));
                    }
                    if !drops {
                        way.push((now + Span::from_millis(300), 1 - from, socket, payload.clone()));
                    }
                    payload.clear();
                }
            }
            let next = ends.iter().filter_map(|end| end.deadline()).chain(way.iter().map(|(at, ..)| *at)).min();
            let Some(next) = next else { break };
            assert!(next > now, "nothing is left to do at {now}");
            now = next;
        }
        (ends, said)
    }

    fn lines(said: &[Said]) -> Vec<&str> {
        said.iter().map(|(_, _, line)| line.split(" sip:").next().unwrap_or(line)).collect()
    }

    #[test]
    fn a_call_is_set_up_carries_voice_and_is_released() {
        let (ends, said) = converse(&config(), second(15), |_, _| false);
        assert_eq!(lines(&said), ["INVITE", "SIP/2.0 180 Ringing", "SIP/2.0 200 OK", "ACK", "BYE", "SIP/2.0 200 OK"]);
        let call = ends[0].calls()[0];
        // There and back, and a second of ringing.
        assert_eq!(call.answered.unwrap().since(call.invited), Span::from_millis(1_600));
        assert!(call.released && call.ended.is_some());
        assert!(ends.iter().all(|end| end.retransmissions().is_empty()));
        // Ten seconds of a packet every 202.5 ms, each whole.
        let seen = passages(ends[0].sent(), ends[1].received());
        assert_eq!(seen.len(), 50);
        assert!(seen.iter().all(|passage| passage.arrived.is_some() && passage.intact));
    }

    #[test]
    fn each_message_may_be_lost_once() {
        for victim in 0..6 {
            let (ends, said) = converse(&config(), second(15), |number, _| number == victim);
            let call = ends[0].calls()[0];
            assert!(call.answered.is_some() && call.released, "without message {victim}: {said:?}");
            let again = ends.iter().map(|end| end.retransmissions().len()).sum::<usize>();
            // The 180 is no loss; everything else is asked for again.
            assert_eq!(again > 0, victim != 1, "without message {victim}: {said:?}");
        }
    }

    #[test]
    fn invitations_double_their_intervals_and_end_after_64_t1() {
        let (ends, said) = converse(&config(), second(1), |_, _| true);
        let times: Vec<u64> = said.iter().map(|(at, ..)| at.as_nanos() / 1_000_000_000).collect();
        // T1 is 2 s: 0, 2, 6, 14, 30, 62, 126; given up at 128.
        assert_eq!(times, [0, 2, 6, 14, 30, 62, 126]);
        let call = ends[0].calls()[0];
        assert_eq!((call.answered, call.ended, call.released), (None, Some(second(128)), false));
    }

    #[test]
    fn a_release_that_is_never_answered_is_given_up_and_the_callee_is_free_again() {
        let (ends, said) = converse(&config(), second(400), |_, line| line.starts_with("BYE"));
        let byes = said.iter().filter(|(_, _, line)| line.starts_with("BYE")).count();
        assert!(byes > 8, "{said:?}");
        let calls = ends[0].calls();
        assert!(calls.len() >= 2 && calls.iter().all(|call| !call.released), "{calls:?}");
        // The callee takes its caller for gone 64 T1 after the call should have ended.
        assert!(calls[1].answered.is_some(), "{calls:?}");
    }

    #[test]
    fn calls_follow_each_other_and_numbers_go_on() {
        let both = CallConfig { back: Some(VoiceConfig { seed: 4, ..config().voice }), ..config() };
        let (ends, _) = converse(&both, second(60), |_, _| false);
        let calls = ends[0].calls();
        assert_eq!(calls.len(), 4);
        assert!(calls.iter().all(|call| call.released));
        for (from, to) in [(0, 1), (1, 0)] {
            let seen = passages(ends[from].sent(), ends[to].received());
            assert!(seen.len() > 150 && seen.iter().all(|passage| passage.intact));
            // Of the callee's last words some come after the caller has hung up, and none is lost.
            assert!(seen.iter().all(|passage| passage.arrived.is_some()));
            assert_eq!(seen.iter().filter(|passage| passage.sent.first).count(), 4);
        }
    }

    #[test]
    fn others_are_refused_while_a_call_stands() {
        let mut callee = Callee::new(config());
        callee.begin(second(0)..second(100));
        let mut invite = |seed| {
            let mut caller = Caller::new(CallConfig { seed, ..config() });
            caller.begin(second(0)..second(100));
            let mut payload = Vec::new();
            caller.send(second(0), &mut payload);
            callee.receive(second(1), SIGNALLING, &payload);
            let mut answer = Vec::new();
            callee.send(second(1), &mut answer);
            SipMessage::read(&answer).and_then(|message| message.status())
        };
        assert_eq!((invite(1), invite(2)), (Some(180), Some(486)));
        // What is no call of ours is answered so that its sender stops asking.
        let bye =
            "BYE sip:x SIP/2.0\r\nv: SIP/2.0/UDP x;branch=z9hG4bK1\r\nf: a\r\nt: b\r\ni: c\r\nCSeq: 2 BYE\r\n\r\n";
        callee.receive(second(1), SIGNALLING, bye.as_bytes());
        let mut answer = Vec::new();
        callee.send(second(1), &mut answer);
        assert_eq!(SipMessage::read(&answer).and_then(|message| message.status()), Some(481));
    }
}
