//! What comes from the line.

use alloc::vec::Vec;

use engine::{Output, Packet, Time};
use wire::{ETHERNET_LEN, Headers, ethertype};

use crate::adapter::{Adapter, LAN};
use crate::cache::FromLine;
use crate::class::{Class, Priority, class_of, class_of_channel};
use crate::codec::DecodeError;
use crate::control::{Greeting, Hello, header};
use crate::fragment::{Assembly, Prefix, Taken};
use crate::frame::{BadFrame, Deframer};
use crate::pairs::{EXPLICIT, Header, ReceivePairs};

/// The state of the direction from the line.
#[derive(Debug, Default)]
pub(crate) struct Receiver {
    deframer: Deframer,
    /// The body of the frame that is being looked at.
    body: Vec<u8>,
    pub(crate) pairs: ReceivePairs,
    assemblies: [Assembly; Priority::COUNT],
}

impl Receiver {
    pub(crate) fn reset(&mut self) {
        self.pairs = ReceivePairs::default();
        self.assemblies.iter_mut().for_each(Assembly::clear);
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        self.assemblies.iter().filter_map(Assembly::deadline).min()
    }

    /// Gives up packets whose time has come: how many.
    pub(crate) fn expire(&mut self, now: Time) -> u64 {
        self.assemblies.iter_mut().map(|assembly| u64::from(assembly.expire(now))).sum()
    }
}

impl Adapter {
    pub(crate) fn take_line(&mut self, now: Time, packet: Packet) {
        self.counters.receive.characters += packet.len() as u64;
        for &character in &packet.bytes {
            let Receiver { deframer, body, .. } = &mut self.receiver;
            let frame = deframer.push(character).map(|frame| {
                frame.map(|(header, content)| {
                    body.clear();
                    body.extend_from_slice(content);
                    header
                })
            });
            let receive = &mut self.counters.receive;
            match frame {
                None => {}
                Some(Err(BadFrame::TooLong)) => receive.too_long += 1,
                Some(Err(BadFrame::Short)) => receive.short += 1,
                Some(Err(BadFrame::Check)) => receive.check += 1,
                Some(Ok(header)) => {
                    receive.frames += 1;
                    let body = core::mem::take(&mut self.receiver.body);
                    if self.take_frame(now, header, &body).is_none() {
                        self.counters.receive.malformed += 1;
                    }
                    self.receiver.body = body;
                }
            }
        }
        self.consume(packet);
    }

    /// A good frame. None if it makes no sense.
    fn take_frame(&mut self, now: Time, head: u8, body: &[u8]) -> Option<()> {
        self.session.heard(now);
        if head == header::HELLO {
            return self.take_hello(now, &Hello::read(body)?);
        }
        if !self.session.is_up() {
            self.counters.receive.no_session += 1;
            return Some(());
        }
        match (head, body) {
            (0x00..=0x7f, _) => self.take_fragment(now, head, body),
            (0x80..=0xbf, _) => {
                match self.resolve(head & 0x3f) {
                    None => {}
                    Some(Prefix::Known(header)) => self.deliver(now, Class::RealTime, header, body)?,
                    Some(Prefix::Explicit) => {
                        let (header, content) = body.split_first_chunk()?;
                        self.deliver(now, Class::RealTime, *header, content)?;
                    }
                }
                Some(())
            }
            (header::KEEP_ALIVE, []) => Some(()),
            (header::FEEDBACK, [channel, feedback @ ..]) => {
                self.codec.take_feedback(now, class_of_channel(*channel)?, feedback);
                Some(())
            }
            (header::PAIR_OPEN, [index, generation, header @ ..]) => {
                self.receiver.pairs.open(*index, *generation, *carried(header.first_chunk()?)?);
                Some(())
            }
            (header::PAIR_ACK, [index, generation]) => {
                self.pairs.acknowledged(*index, *generation);
                Some(())
            }
            (header::PAIR_UNKNOWN, [index]) => {
                self.pairs.unknown(now, *index);
                Some(())
            }
            _ => None,
        }
    }

    #[expect(clippy::unnecessary_wraps, reason = "one of the ways to take a frame")]
    fn take_hello(&mut self, now: Time, greeting: &Greeting) -> Option<()> {
        let was_up = self.session.is_up();
        let change = match greeting {
            Greeting::Hello(hello) => self.session.take(hello),
            Greeting::Foreign { newest } => self.session.take_foreign(*newest),
        };
        if let Some(agreed) = change.reset {
            self.meet(agreed);
        }
        self.outputs.extend(change.events.into_iter().flatten().map(Output::Event));
        if self.session.is_up() && !was_up {
            self.line.up_since = now;
            self.fresh_since = Time::from_nanos(now.as_nanos().saturating_sub(self.session.hold().as_nanos()));
        }
        Some(())
    }

    fn take_fragment(&mut self, now: Time, head: u8, body: &[u8]) -> Option<()> {
        let (priority, number, last) = (usize::from(head >> 5 & 3), head >> 1 & 15, head & 1 == 1);
        let limit = self.config.largest_packet.bytes() as usize;
        let resolved = if number == 0 {
            let (&index, _) = body.split_first()?;
            // The top bits are for options that no session has agreed on.
            (index <= EXPLICIT).then_some(())?;
            Some(self.resolve(index))
        } else {
            None
        };
        // The assembly is put back below: it is lent from here on together with the rest.
        let mut assembly = core::mem::take(&mut self.receiver.assemblies[priority]);
        let (incomplete, taken) = match resolved {
            Some(prefix) => assembly.first(now, prefix, body, last),
            None => (false, assembly.later(now, number, body, last, limit)),
        };
        let receive = &mut self.counters.receive;
        receive.incomplete += u64::from(incomplete);
        let sense = match taken {
            Taken::More => Some(()),
            Taken::Orphan { first } => {
                receive.orphans += 1;
                receive.incomplete += u64::from(first);
                Some(())
            }
            Taken::Oversized => {
                receive.oversized += 1;
                Some(())
            }
            Taken::Crc => {
                receive.crc += 1;
                Some(())
            }
            Taken::Malformed => None,
            Taken::Whole(header, packet) => self.deliver(now, class_of(priority), header, packet),
        };
        self.receiver.assemblies[priority] = assembly;
        sense
    }

    /// What an index stands for; none, which is counted and told to the peer, if it is not known.
    fn resolve(&mut self, index: u8) -> Option<Prefix> {
        if index == EXPLICIT {
            return Some(Prefix::Explicit);
        }
        let header = self.receiver.pairs.header(index);
        self.counters.receive.unknown_pair += u64::from(header.is_none());
        header.map(Prefix::Known)
    }

    /// A packet is whole: to the LAN with it. None if packets of its type are not carried.
    fn deliver(&mut self, now: Time, class: Class, header: Header, content: &[u8]) -> Option<()> {
        carried(&header)?;
        let mut bytes = self.buffer();
        bytes.extend_from_slice(&header);
        let ethertype = u16::from_be_bytes([header[12], header[13]]);
        let decoded = self.codec.decode(now, class, ethertype, content, &mut bytes);
        let version = bytes.get(ETHERNET_LEN).map_or(0, |first| first >> 4);
        let fits = match ethertype {
            ethertype::IPV4 => version == 4,
            ethertype::IPV6 => version == 6,
            _ => true,
        };
        if decoded.is_err() || !fits {
            match decoded {
                Err(DecodeError::Payload) => self.counters.receive.inflation += 1,
                _ => self.counters.receive.decompression += 1,
            }
            self.keep(bytes);
            return Some(());
        }
        let [.., a, b, c, d, e, f, _, _] = header;
        self.stations.is_remote([a, b, c, d, e, f]);
        if self.cache.from_line(now, &bytes, &Headers::parse(&bytes)) == FromLine::Keep {
            self.counters.receive.kept.add(bytes.len() - ETHERNET_LEN);
            self.keep(bytes);
            return Some(());
        }
        self.counters.receive.delivered.add(bytes.len() - ETHERNET_LEN);
        let packet = Packet { launch: now, ..Packet::new(bytes) };
        self.outputs.push_back(Output::Transmit { port: LAN, packet });
        Some(())
    }
}

/// The header, if packets of its type are carried.
fn carried(header: &Header) -> Option<&Header> {
    let kind = u16::from_be_bytes([header[12], header[13]]);
    matches!(kind, ethertype::IPV4 | ethertype::IPV6 | ethertype::ARP).then_some(header)
}
