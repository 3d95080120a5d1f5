//! The calling end.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use engine::Time;

use super::message::{Method, SipMessage, Start};
use super::{CallConfig, Due, MEDIA, Names, Repeating, SIGNALLING, Sdp};
use crate::application::{Application, Call, Received, Sent};
use crate::{VoiceSink, VoiceSource};

/// The calling end: it invites, talks for a time, releases, and after a pause calls again.
#[derive(Debug)]
pub struct Caller {
    config: CallConfig,
    names: Names,
    voice: VoiceSource,
    back: Option<VoiceSink>,
    sending: Range<Time>,
    state: State,
    /// The dialogue of the present or the last call.
    dialogue: Dialogue,
    /// Messages that go out at once: acknowledgements.
    out: VecDeque<Vec<u8>>,
    calls: Vec<Call>,
    retransmissions: Vec<Time>,
}

#[derive(Debug)]
enum State {
    /// The next call begins then.
    Idle(Time),
    /// An INVITE is out.
    Inviting(Repeating),
    /// The call stands until then.
    Talking(Time),
    /// A BYE is out.
    Releasing(Repeating),
}

/// What names a call.
#[derive(Debug, Default)]
struct Dialogue {
    call_id: String,
    from: String,
    /// As the callee's answer gives it, with its tag.
    to: String,
    /// Branch of the present transaction.
    branch: String,
    /// The last acknowledgement, for an answer that comes again.
    ack: Vec<u8>,
}

impl Caller {
    /// The calling end of `config`; it calls once it is told to begin.
    #[must_use]
    pub fn new(config: CallConfig) -> Self {
        Self {
            names: config.names(),
            voice: VoiceSource::new(config.voice.clone()),
            back: config.back.clone().map(VoiceSink::new),
            sending: Time::MAX..Time::MAX,
            state: State::Idle(Time::MAX),
            dialogue: Dialogue::default(),
            out: VecDeque::new(),
            calls: Vec::new(),
            retransmissions: Vec::new(),
            config,
        }
    }

    fn message(&self, method: Method, number: u32, branch: &str) -> SipMessage {
        let Dialogue { call_id, from, to, .. } = &self.dialogue;
        SipMessage {
            start: Start::Request(method, self.config.uri(1)),
            via: format!("SIP/2.0/UDP {};branch={branch}", self.config.host(0)),
            from: from.clone(),
            to: to.clone(),
            call_id: call_id.clone(),
            sequence: (number, method),
            contact: None,
            body: Vec::new(),
        }
    }

    fn repeating(&self, message: &SipMessage, now: Time) -> Repeating {
        let config = &self.config;
        // RFC 3261 17.1.1.2: an INVITE's intervals double without bound; 17.1.2.2: others' up to T2.
        let most = if message.request() == Some(Method::Invite) { config.patience() } else { config.t2() };
        Repeating::new(message.bytes(config.compact), now, config.t1, most, config.patience())
    }

    fn invite(&mut self, now: Time) {
        let (call_id, tag, branch) = (self.names.token(), self.names.token(), self.names.branch());
        let from = format!("<{}>;tag={tag}", self.config.uri(0));
        let to = format!("<{}>", self.config.uri(1));
        self.dialogue = Dialogue { call_id, from, to, branch, ack: Vec::new() };
        let mut invite = self.message(Method::Invite, 1, &self.dialogue.branch);
        invite.contact = Some(format!("<{}>", self.config.uri(0)));
        invite.body = self.config.sdp(0).bytes();
        self.state = State::Inviting(self.repeating(&invite, now));
        self.calls.push(Call { invited: now, answered: None, ended: None, released: false });
    }

    fn release(&mut self, now: Time) {
        self.voice.stop(now);
        self.dialogue.branch = self.names.branch();
        let bye = self.message(Method::Bye, 2, &self.dialogue.branch);
        self.state = State::Releasing(self.repeating(&bye, now));
    }

    /// The call is over, however it went.
    fn end(&mut self, now: Time, released: bool) {
        self.voice.stop(now);
        if let Some(call) = self.calls.last_mut() {
            (call.ended, call.released) = (Some(now), released);
        }
        self.state = State::Idle(now + self.config.pause);
    }

    fn take(&mut self, now: Time, message: &SipMessage) {
        if message.call_id != self.dialogue.call_id || message.from != self.dialogue.from {
            return;
        }
        let Some(status) = message.status() else { return };
        match (message.sequence, &mut self.state) {
            // RFC 3261 17.1.1.2: a provisional response ends the retransmissions, and timer B.
            ((1, Method::Invite), State::Inviting(invite)) if status < 200 => invite.quiet(now),
            ((1, Method::Invite), State::Inviting(_)) if status < 300 => self.answered(now, message),
            // RFC 3261 13.2.2.4: each 2xx that comes again is acknowledged again.
            // One for a call that was given up is left: its sender gives up in turn.
            ((1, Method::Invite), _) if (200..300).contains(&status) && !self.dialogue.ack.is_empty() => {
                self.out.push_back(self.dialogue.ack.clone());
                self.retransmissions.push(now);
            }
            // RFC 3261 17.1.1.3: the acknowledgement of a refusal has the INVITE's branch.
            ((1, Method::Invite), State::Inviting(_)) => {
                self.dialogue.to.clone_from(&message.to);
                let ack = self.message(Method::Ack, 1, &self.dialogue.branch);
                self.dialogue.ack = ack.bytes(self.config.compact);
                self.out.push_back(self.dialogue.ack.clone());
                self.end(now, false);
            }
            ((1, Method::Invite), State::Idle(_)) if status >= 300 => self.out.push_back(self.dialogue.ack.clone()),
            // RFC 3261 15.1.1: whatever final response the BYE gets, the call is over.
            ((2, Method::Bye), State::Releasing(_)) if status >= 200 => self.end(now, status < 300),
            _ => {}
        }
    }

    fn answered(&mut self, now: Time, answer: &SipMessage) {
        self.dialogue.to.clone_from(&answer.to);
        let branch = self.names.branch();
        let ack = self.message(Method::Ack, 1, &branch).bytes(self.config.compact);
        self.dialogue.ack.clone_from(&ack);
        self.out.push_back(ack);
        if let Some(call) = self.calls.last_mut() {
            call.answered = Some(now);
        }
        // RFC 3264 6: the answer names one of the formats that were offered.
        let agreed = Sdp::read(&answer.body).is_some_and(|sdp| sdp.payload_type == self.config.sdp(0).payload_type);
        let until = if agreed { (now + self.config.hold).min(self.sending.end).max(now) } else { now };
        self.state = State::Talking(until);
        self.voice.begin(now..until);
    }
}

impl Application for Caller {
    fn begin(&mut self, sending: Range<Time>) {
        self.state = State::Idle(sending.start);
        self.sending = sending;
    }

    fn receive(&mut self, now: Time, socket: usize, payload: &[u8]) {
        if socket == SIGNALLING {
            if let Some(message) = SipMessage::read(payload) {
                self.take(now, &message);
            }
        } else if let Some(back) = &mut self.back {
            back.receive(now, 0, payload);
        }
    }

    fn send(&mut self, now: Time, payload: &mut Vec<u8>) -> Option<usize> {
        loop {
            if let Some(message) = self.out.pop_front() {
                payload.extend(message);
                return Some(SIGNALLING);
            }
            match &mut self.state {
                State::Idle(at) if *at <= now && now < self.sending.end => self.invite(now),
                State::Talking(until) if *until <= now => self.release(now),
                State::Inviting(message) | State::Releasing(message) => match message.due(now) {
                    Due::Send(bytes, again) => {
                        payload.extend(bytes);
                        if again {
                            self.retransmissions.push(now);
                        }
                        return Some(SIGNALLING);
                    }
                    Due::Over => self.end(now, false),
                    Due::Nothing => break,
                },
                State::Idle(_) | State::Talking(_) => break,
            }
        }
        self.voice.send(now, payload).map(|_| MEDIA)
    }

    fn deadline(&self) -> Option<Time> {
        let own = match &self.state {
            State::Idle(at) => Some(*at).filter(|at| *at < self.sending.end),
            State::Talking(until) => Some(*until),
            State::Inviting(message) | State::Releasing(message) => Some(message.deadline()),
        };
        own.into_iter().chain(self.voice.deadline()).min()
    }

    fn sent(&self) -> &[Sent] {
        self.voice.sent()
    }

    fn received(&self) -> &[Received] {
        self.back.as_ref().map_or(&[], VoiceSink::received)
    }

    fn calls(&self) -> &[Call] {
        &self.calls
    }

    fn retransmissions(&self) -> &[Time] {
        &self.retransmissions
    }
}
