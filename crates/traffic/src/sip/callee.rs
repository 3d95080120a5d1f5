//! The called end.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use engine::Time;

use super::message::{Method, SipMessage};
use super::{CallConfig, Due, MEDIA, Names, Repeating, SIGNALLING, Sdp};
use crate::application::{Application, Received, Sent};
use crate::{VoiceSink, VoiceSource};

/// The called end: it rings, answers, listens (and talks back), and is released.
#[derive(Debug)]
pub struct Callee {
    config: CallConfig,
    names: Names,
    voice: VoiceSink,
    back: Option<VoiceSource>,
    sending: Range<Time>,
    state: State,
    /// Call-ID and branch of the call that is, or was last.
    call: (String, String),
    /// The response to that call's INVITE, for one that comes again.
    response: Vec<u8>,
    /// The refusal of another call, until it is acknowledged (timers G and H).
    refusal: Option<(String, Repeating)>,
    /// Messages that go out at once.
    out: VecDeque<Vec<u8>>,
    retransmissions: Vec<Time>,
}

#[derive(Debug)]
enum State {
    Free,
    /// It rings until then; the answer is ready.
    Ringing(Time, SipMessage),
    /// A 200 is out, until it is acknowledged.
    Answering(Repeating),
    /// The call stands. A caller that is not heard of again by then has gone.
    Talking(Time),
}

impl Callee {
    /// The called end of `config`.
    #[must_use]
    pub fn new(config: CallConfig) -> Self {
        Self {
            names: Names(engine::Random::stream(config.seed, "sip.callee")),
            voice: VoiceSink::new(config.voice.clone()),
            back: config.back.clone().map(VoiceSource::new),
            sending: Time::MAX..Time::MAX,
            state: State::Free,
            call: (String::new(), String::new()),
            response: Vec::new(),
            refusal: None,
            out: VecDeque::new(),
            retransmissions: Vec::new(),
            config,
        }
    }

    fn take(&mut self, now: Time, message: &SipMessage) {
        let own = message.call_id == self.call.0;
        match message.request() {
            Some(Method::Invite) if own => {
                // RFC 3261 17.2.1: a retransmission is given the last response again. A 200 has a timer of
                // its own (13.3.1.4).
                if matches!(self.state, State::Ringing(..)) {
                    self.out.push_back(self.response.clone());
                    self.retransmissions.push(now);
                }
            }
            Some(Method::Invite) => match self.state {
                State::Free => self.invited(now, message),
                _ => self.refuse(now, message, 486, "Busy Here"),
            },
            Some(Method::Ack) => {
                if self.refusal.as_ref().is_some_and(|(call_id, _)| *call_id == message.call_id) {
                    self.refusal = None;
                }
                if own && matches!(self.state, State::Answering(_)) {
                    self.state = State::Talking(now + self.config.hold + self.config.patience());
                    if let Some(back) = &mut self.back {
                        back.begin(now..(now + self.config.hold).min(self.sending.end).max(now));
                    }
                }
            }
            Some(Method::Bye) => {
                // RFC 3261 15.1.2: what is not known is answered with 481. A BYE that comes again, for
                // whose answer was lost, finds the last call.
                let (status, reason) = if own { (200, "OK") } else { (481, "Call/Transaction Does Not Exist") };
                self.out.push_back(message.response(status, reason, None).bytes(self.config.compact));
                if own && matches!(self.state, State::Free) {
                    self.retransmissions.push(now);
                } else if own {
                    self.hang_up(now);
                }
            }
            None => {}
        }
    }

    fn invited(&mut self, now: Time, invite: &SipMessage) {
        let offered = Sdp::read(&invite.body).filter(|sdp| sdp.payload_type == self.config.sdp(1).payload_type);
        let Some(branch) = invite.branch() else { return };
        if offered.is_none() {
            return self.refuse(now, invite, 488, "Not Acceptable Here");
        }
        self.call = (invite.call_id.clone(), branch.into());
        let tag = self.names.token();
        let mut answer = invite.response(200, "OK", Some(&tag));
        answer.contact = Some(format!("<{}>", self.config.uri(1)));
        answer.body = self.config.sdp(1).bytes();
        let ringing = invite.response(180, "Ringing", Some(&tag));
        self.response = ringing.bytes(self.config.compact);
        // RFC 3261 17.2.1: no 100 where the user agent responds within 200 ms; none rings that answers
        // at once.
        if self.config.ring > engine::Span::ZERO {
            self.out.push_back(self.response.clone());
        }
        self.state = State::Ringing(now + self.config.ring, answer);
    }

    fn refuse(&mut self, now: Time, invite: &SipMessage, status: u16, reason: &str) {
        let tag = self.names.token();
        let refusal = invite.response(status, reason, Some(&tag)).bytes(self.config.compact);
        let known = self.refusal.as_ref().is_some_and(|(call_id, _)| *call_id == invite.call_id);
        if !known {
            let (t1, most, patience) = (self.config.t1, self.config.t2(), self.config.patience());
            self.refusal = Some((invite.call_id.clone(), Repeating::new(refusal, now, t1, most, patience)));
        }
    }

    fn hang_up(&mut self, now: Time) {
        self.state = State::Free;
        if let Some(back) = &mut self.back {
            back.stop(now);
        }
    }
}

impl Application for Callee {
    fn begin(&mut self, sending: Range<Time>) {
        self.sending = sending;
    }

    fn receive(&mut self, now: Time, socket: usize, payload: &[u8]) {
        if socket == MEDIA {
            self.voice.receive(now, 0, payload);
        } else if let Some(message) = SipMessage::read(payload) {
            self.take(now, &message);
        }
    }

    fn send(&mut self, now: Time, payload: &mut Vec<u8>) -> Option<usize> {
        if let Some(message) = self.out.pop_front() {
            payload.extend(message);
            return Some(SIGNALLING);
        }
        if let State::Ringing(until, answer) = &self.state
            && *until <= now
        {
            let (t1, most, patience) = (self.config.t1, self.config.t2(), self.config.patience());
            self.state = State::Answering(Repeating::new(answer.bytes(self.config.compact), now, t1, most, patience));
        }
        let answer = match &mut self.state {
            State::Answering(answer) => Some(answer),
            _ => None,
        };
        for message in answer.into_iter().chain(self.refusal.as_mut().map(|(_, refusal)| refusal)) {
            if let Due::Send(bytes, again) = message.due(now) {
                payload.extend(bytes);
                if again {
                    self.retransmissions.push(now);
                }
                return Some(SIGNALLING);
            }
        }
        // RFC 3261 13.3.1.4: a 200 that is never acknowledged ends the call. (The standard has a BYE sent;
        // the caller, who has heard nothing, gives up by itself.)
        let over = match &self.state {
            State::Answering(answer) => answer.until <= now,
            State::Talking(until) => *until <= now,
            State::Free | State::Ringing(..) => false,
        };
        if over {
            self.hang_up(now);
        }
        self.refusal.take_if(|(_, refusal)| refusal.until <= now);
        self.back.as_mut()?.send(now, payload).map(|_| MEDIA)
    }

    fn deadline(&self) -> Option<Time> {
        let own = match &self.state {
            State::Ringing(until, _) => Some(*until),
            State::Answering(answer) => Some(answer.deadline()),
            State::Talking(until) => Some(*until),
            State::Free => None,
        };
        let refusal = self.refusal.as_ref().map(|(_, refusal)| refusal.deadline());
        let back = self.back.as_ref().and_then(VoiceSource::deadline);
        [own, refusal, back].into_iter().flatten().min()
    }

    fn sent(&self) -> &[Sent] {
        self.back.as_ref().map_or(&[], VoiceSource::sent)
    }

    fn received(&self) -> &[Received] {
        self.voice.received()
    }

    fn retransmissions(&self) -> &[Time] {
        &self.retransmissions
    }
}
