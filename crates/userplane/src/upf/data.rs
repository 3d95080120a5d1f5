//! The way of a frame: to the UPF itself, or by the rules of a session to the other side.

use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use core::ops::Range;

use engine::Time;
use wire::checksum::{Sum, checksum};
use wire::frame::{self, Ethernet, IpHeader};
use wire::gtpu::{self, ErrorIndication, GTPU_PORT, Gtpu, GtpuError, Message, Qfi, TunnelHeader};
use wire::pfcp::PFCP_PORT;
use wire::{ECHO_LEN, ETHERNET_LEN, Echo, Fragment, Headers, Ip, UDP_LEN, Udp, is_intact, protocol, take_hop};

use super::meter::Refusal;
use super::next_hop::NextHops;
use super::rule::{Action, Entry, Rule, Tunnel, UserPacket};
use super::session::Session;
use super::{HEADROOM, Output, Reason, Side, Upf, Verdict};

/// What a session's rules want done with a packet.
enum Decision {
    Forward { rule: usize },
    Hold { rule: usize, notify: bool },
}

impl Upf {
    /// Takes a frame that came in on `side`: the part `frame` of `buffer`, with its checksums in place, and with at least
    /// [`HEADROOM`] bytes of the buffer free before it.
    pub fn handle(&mut self, now: Time, side: Side, buffer: &mut [u8], frame: Range<usize>) -> Verdict {
        self.now = now;
        self.counters.received[side.port()].add(frame.len());
        self.receive(now, side, buffer, frame).unwrap_or_else(|reason| {
            self.counters.drop(reason);
            Verdict::Drop(reason)
        })
    }

    fn receive(&mut self, now: Time, side: Side, buffer: &mut [u8], frame: Range<usize>) -> Result<Verdict, Reason> {
        let start = frame.start;
        let bytes = buffer.get(frame).ok_or(Reason::NotIp)?;
        let headers = Headers::parse(bytes);
        let hops = &mut self.hops[side.port()];
        match bytes.first_chunk::<6>() {
            Some(station) if station[0] & 1 == 0 && *station != hops.interface().mac => {
                return Err(Reason::OtherStation);
            }
            _ => {}
        }
        let Some(ip) = headers.ip.filter(|_| headers.network == ETHERNET_LEN) else {
            return if hops.handle(now, bytes, &headers) { Ok(Verdict::Taken) } else { Err(Reason::NotIp) };
        };
        if ip.protocol == protocol::ICMPV6 && hops.handle(now, bytes, &headers) {
            return Ok(Verdict::Taken);
        }
        if hops.interface().owns(ip.destination) {
            return self.local(now, side, buffer, start, &headers, &ip);
        }
        if side != Side::N6 {
            return Err(Reason::OtherAddress);
        }
        let slot = self.sessions.by_host(ip.destination).ok_or(Reason::UnknownHost)?;
        let packet = start + ETHERNET_LEN..start + ETHERNET_LEN + headers.network_len;
        self.user(now, slot, Entry::Host, None, buffer, packet)
    }

    /// A packet for the UPF's own address. `start` is where the frame starts, from which `headers` and `ip` count.
    fn local(
        &mut self,
        now: Time,
        side: Side,
        buffer: &mut [u8],
        start: usize,
        headers: &Headers,
        ip: &Ip,
    ) -> Result<Verdict, Reason> {
        if ip.fragment != Fragment::Whole {
            return Err(Reason::Fragment);
        }
        let transport = start + ip.transport..start + headers.network + headers.network_len;
        let bytes = &buffer[transport.clone()];
        if ip.protocol == protocol::ICMP || ip.protocol == protocol::ICMPV6 {
            return answer_ping(side, buffer, start, transport, ip).ok_or(Reason::NoListener);
        }
        let (udp, payload) = match ip.protocol {
            protocol::UDP => Udp::parse(bytes).ok_or(Reason::Malformed)?,
            _ => return Err(Reason::NoListener),
        };
        // RFC 768: 0 is none; over IPv6 too, for tunnels (RFC 6935 5).
        let len = UDP_LEN + payload.len();
        let pseudo = || Sum::pseudo_header(ip.source, ip.destination, protocol::UDP, len as u32);
        if bytes[6..8] != [0, 0] && !is_intact(&bytes[..len], pseudo()) {
            return Err(Reason::Checksum);
        }
        let payload = transport.start + UDP_LEN..transport.start + len;
        match (side, udp.destination) {
            (Side::N3 | Side::N6, GTPU_PORT) => self.tunnelled(now, side, buffer, payload, ip, udp.source),
            (Side::N4, PFCP_PORT) => {
                let datagram = buffer[payload].to_vec();
                self.message(now, SocketAddr::new(ip.source, udp.source), &datagram);
                Ok(Verdict::Taken)
            }
            _ => Err(Reason::NoListener),
        }
    }

    fn tunnelled(
        &mut self,
        now: Time,
        side: Side,
        buffer: &mut [u8],
        datagram: Range<usize>,
        ip: &Ip,
        port: u16,
    ) -> Result<Verdict, Reason> {
        let bytes = &buffer[datagram.clone()];
        let message = match Gtpu::parse(bytes) {
            Ok(message) => message,
            Err(GtpuError::Extension(_)) => {
                // TS 29.281 5.2.1. It carries no number of the message it answers.
                let mut notification = Vec::new();
                gtpu::supported_extension_headers(&mut notification, 0);
                self.datagram(now, side, ip.destination, SocketAddr::new(ip.source, GTPU_PORT), &notification);
                return Err(Reason::Malformed);
            }
            Err(_) => return Err(Reason::Malformed),
        };
        match message.message {
            Message::GPdu => {
                let Some(slot) = self.sessions.by_tunnel(message.teid) else {
                    let about = ErrorIndication { teid: message.teid, peer: ip.destination };
                    self.error_indication(now, side, ip.source, about);
                    return Err(Reason::UnknownTunnel);
                };
                // What follows the message's own length is left out.
                let end = datagram.start + gtpu::MIN_LEN + usize::from(u16::from_be_bytes([bytes[2], bytes[3]]));
                let packet = end - message.payload.len()..end;
                let flow = message.pdu_session.map(gtpu::PduSession::qfi);
                self.user(now, slot, Entry::Tunnel(message.teid), flow, buffer, packet)
            }
            Message::EchoRequest => {
                let mut response = Vec::new();
                gtpu::echo_response(&mut response, message.sequence.unwrap_or(0));
                self.counters.echoes += 1;
                // TS 29.281 4.4.2.2: back to where it came from.
                self.datagram(now, side, ip.destination, SocketAddr::new(ip.source, port), &response);
                Ok(Verdict::Taken)
            }
            Message::ErrorIndication => {
                let about = ErrorIndication::parse(message.payload).ok_or(Reason::Malformed)?;
                self.counters.error_indications_received += 1;
                self.report_error_indication(now, about);
                Ok(Verdict::Taken)
            }
            Message::EndMarker => {
                self.counters.end_markers_received += 1;
                Ok(Verdict::Taken)
            }
            Message::EchoResponse | Message::SupportedExtensionHeaders => Ok(Verdict::Taken),
            Message::Other(_) => Err(Reason::Malformed),
        }
    }

    /// A user packet of a session: the part `packet` of the buffer, from its IP header on.
    fn user(
        &mut self,
        now: Time,
        slot: u32,
        entry: Entry,
        flow: Option<Qfi>,
        buffer: &mut [u8],
        packet: Range<usize>,
    ) -> Result<Verdict, Reason> {
        let user = UserPacket::read(&buffer[packet.clone()]).ok_or(Reason::MalformedUser)?;
        let packet = packet.start..packet.start + user.len();
        let session = self.sessions.get(slot).ok_or(Reason::NoRule)?;
        match session.decide(now, entry, flow, &user)? {
            Decision::Forward { rule } => {
                let (verdict, wake) =
                    forward(now, session, rule, &mut self.hops, &mut self.identification, buffer, packet, &user)?;
                session.count_gates(now, rule, user.len());
                let direction = session.rules[rule].direction;
                self.counters.forwarded[direction as usize].add(user.len());
                if wake {
                    self.wake(slot);
                }
                Ok(verdict)
            }
            Decision::Hold { rule, notify } => {
                let wanted = session.state.given.bar.as_ref().and_then(|bar| bar.packets).map(usize::from);
                if session.state.held.len() >= wanted.unwrap_or(self.config.limits.session_packets) {
                    return Err(Reason::Buffer);
                }
                if self.sessions.held >= self.config.limits.packets {
                    return Err(Reason::Buffers);
                }
                let session = self.sessions.get(slot).ok_or(Reason::NoRule)?;
                session.count_gates(now, rule, user.len());
                let mut kept = Vec::with_capacity(HEADROOM + user.len());
                kept.resize(HEADROOM, 0);
                kept.extend_from_slice(&buffer[packet]);
                let pdr = session.rules[rule].pdr;
                session.state.held.push_back((pdr, kept));
                let tell = notify && !core::mem::replace(&mut session.state.told, true);
                self.sessions.held += 1;
                self.counters.buffered += 1;
                if tell {
                    self.report_downlink_data(now, slot, pdr);
                }
                Ok(Verdict::Taken)
            }
        }
    }

    /// Sends what is buffered where the rules now say so, and discards it where they say that.
    pub(super) fn release(&mut self, now: Time, slot: u32) {
        let Some(session) = self.sessions.get(slot) else { return };
        let mut waiting = core::mem::take(&mut session.state.held);
        self.sessions.held -= waiting.len();
        let mut still = waiting.clone();
        still.clear();
        for (pdr, mut buffer) in waiting.drain(..) {
            let Some(session) = self.sessions.get(slot) else { return };
            let outcome = match session.rules.iter().position(|rule| rule.pdr == pdr) {
                Some(rule) => match session.rules[rule].action {
                    Action::Hold { .. } => {
                        still.push_back((pdr, buffer));
                        continue;
                    }
                    Action::Drop => Err(Reason::Discarded),
                    Action::Forward { .. } => {
                        let packet = HEADROOM..buffer.len();
                        let (hops, id) = (&mut self.hops, &mut self.identification);
                        match UserPacket::read(&buffer[packet.clone()]) {
                            Some(user) => {
                                let direction = session.rules[rule].direction;
                                let sent = forward(now, session, rule, hops, id, &mut buffer, packet, &user);
                                sent.map(|(verdict, wake)| (verdict, wake, direction, user.len()))
                            }
                            None => Err(Reason::MalformedUser),
                        }
                    }
                },
                None => Err(Reason::Discarded),
            };
            match outcome {
                Ok((verdict, wake, direction, len)) => {
                    self.counters.forwarded[direction as usize].add(len);
                    if let Verdict::Send { side, frame } = verdict {
                        self.outputs.push_back(Output::Frame { side, bytes: buffer[frame].to_vec() });
                    }
                    if wake {
                        self.wake(slot);
                    }
                }
                Err(reason) => self.discard(reason, buffer),
            }
        }
        self.sessions.held += still.len();
        if let Some(session) = self.sessions.get(slot) {
            session.state.told &= !still.is_empty();
            session.state.held = still;
        }
    }

    /// Counts a buffered packet, with the room before it, as dropped.
    pub(super) fn discard(&mut self, reason: Reason, mut buffer: Vec<u8>) {
        self.counters.drop(reason);
        buffer.drain(..HEADROOM);
        self.outputs.push_back(Output::Drop { reason, bytes: buffer });
    }

    /// A usage report has become due by packets, or will be by time.
    fn wake(&mut self, slot: u32) {
        let Some(session) = self.sessions.get(slot) else { return };
        if session.usages.iter().any(super::usage::Usage::is_due) {
            self.sessions.mark_due(slot);
        }
        self.sessions.schedule(slot);
    }

    /// Tells a peer that it uses a tunnel that is not there (TS 29.281 7.3.1), not more often than it is worth.
    fn error_indication(&mut self, now: Time, side: Side, peer: IpAddr, about: ErrorIndication) {
        if !self.errors.conforms(now) {
            return;
        }
        self.errors.count(now, 1);
        self.counters.error_indications += 1;
        let mut indication = Vec::new();
        gtpu::error_indication(&mut indication, about, 0);
        self.datagram(now, side, about.peer, SocketAddr::new(peer, GTPU_PORT), &indication);
    }

    /// Sends a tunnel's end marker along its path (TS 29.281 7.3.2).
    pub(super) fn end_marker(&mut self, now: Time, side: Side, peer: IpAddr, header: TunnelHeader) {
        let Some(own) = self.hops[side.port()].interface().address_like(peer) else { return };
        let mut marker = Vec::new();
        header.append_end_marker(&mut marker);
        self.counters.end_markers += 1;
        self.datagram(now, side, own, SocketAddr::new(peer, GTPU_PORT), &marker);
    }

    /// Sends a datagram of the UPF's own, from the port its service has on that side.
    pub(super) fn datagram(&mut self, now: Time, side: Side, own: IpAddr, to: SocketAddr, payload: &[u8]) {
        let hops = &mut self.hops[side.port()];
        let Some(ip) = IpHeader::between(own, to.ip(), 0) else { return };
        let source = if side == Side::N4 { PFCP_PORT } else { GTPU_PORT };
        let udp = Udp { source, destination: to.port() };
        let mac = hops.resolve(now, to.ip());
        let ethernet = Ethernet { destination: mac.unwrap_or_default(), source: hops.interface().mac };
        let mut bytes = Vec::new();
        if frame::udp(&mut bytes, &ethernet, &ip, udp, payload).is_err() {
            return;
        }
        if mac.is_some() {
            self.outputs.push_back(Output::Frame { side, bytes });
        } else if let Err(reason) = hops.hold(now, to.ip(), &bytes) {
            self.counters.drop(reason);
            self.outputs.push_back(Output::Drop { reason, bytes });
        }
    }
}

impl Session {
    /// What is to become of a packet.
    fn decide(&self, now: Time, entry: Entry, flow: Option<Qfi>, user: &UserPacket) -> Result<Decision, Reason> {
        let first = if entry == Entry::Host { self.tunnel_rules as usize } else { 0 };
        let fits = self.rules[first..].iter().position(|rule| rule.fits(entry, flow, &user.ip));
        let at = first + fits.ok_or(Reason::NoRule)?;
        let rule = &self.rules[at];
        for gate in ones(rule.qers) {
            match self.gates[gate][rule.direction as usize].refusal(now) {
                None => {}
                Some(Refusal::Gate) => return Err(Reason::Gate),
                Some(Refusal::Rate) => return Err(Reason::Rate),
            }
        }
        if ones(rule.urrs).any(|urr| self.usages[urr].is_exhausted()) {
            return Err(Reason::Quota);
        }
        match rule.action {
            Action::Drop => Err(Reason::Rule),
            Action::Hold { notify } => Ok(Decision::Hold { rule: at, notify }),
            Action::Forward { .. } => Ok(Decision::Forward { rule: at }),
        }
    }

    /// Counts a packet that passes against its maximum bit rates.
    fn count_gates(&mut self, now: Time, rule: usize, bytes: usize) {
        let Rule { qers, direction, .. } = self.rules[rule];
        for gate in ones(qers) {
            self.gates[gate][direction as usize].count(now, bytes as u64);
        }
    }

    /// Counts a packet that is sent on in the URRs. True if a report has become due, or will.
    fn count_usage(&mut self, now: Time, rule: usize, bytes: usize) -> bool {
        let Rule { urrs, direction, .. } = self.rules[rule];
        let mut wake = false;
        for urr in ones(urrs) {
            wake |= self.usages[urr].count(now, direction, bytes as u64);
        }
        wake
    }
}

/// Puts a user packet on its way: one hop less, headers, next hop; and counts it. True if a usage report has become due, or
/// will.
#[expect(clippy::too_many_arguments, reason = "parts of the UPF that are borrowed one by one")]
fn forward(
    now: Time,
    session: &mut Session,
    rule: usize,
    hops: &mut [NextHops; 3],
    identification: &mut u16,
    buffer: &mut [u8],
    packet: Range<usize>,
    user: &UserPacket,
) -> Result<(Verdict, bool), Reason> {
    let Action::Forward { to, tunnel } = &session.rules[rule].action else { return Err(Reason::Rule) };
    let hops = &mut hops[to.port()];
    let outer = tunnel.as_ref().map_or(0, Tunnel::len);
    if packet.len() + outer > hops.interface().mtu.min(0xffff) {
        return Err(Reason::TooLong);
    }
    let start = packet.start.checked_sub(outer + ETHERNET_LEN).ok_or(Reason::NoRoom)?;
    if !take_hop(&mut buffer[packet.clone()], &user.headers) {
        return Err(Reason::HopLimit);
    }
    let (destination, ethertype) = match tunnel {
        None => (user.ip.destination, user.headers.ethertype),
        Some(tunnel) => {
            *identification = identification.wrapping_add(1);
            tunnel.put(&mut buffer[packet.start - outer..packet.end], *identification);
            (tunnel.peer, tunnel.ethertype())
        }
    };
    let frame = &mut buffer[start..packet.end];
    frame[6..12].copy_from_slice(&hops.interface().mac);
    frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
    let verdict = match hops.resolve(now, destination) {
        Some(mac) => {
            frame[..6].copy_from_slice(&mac);
            Verdict::Send { side: *to, frame: start..packet.end }
        }
        None => {
            hops.hold(now, destination, frame)?;
            Verdict::Taken
        }
    };
    Ok((verdict, session.count_usage(now, rule, packet.len())))
}

/// Turns a ping of the UPF's address into its answer, in place. `None` if it is no whole echo request.
fn answer_ping(side: Side, buffer: &mut [u8], start: usize, message: Range<usize>, ip: &Ip) -> Option<Verdict> {
    let v6 = ip.source.is_ipv6();
    let bytes = &buffer[message.clone()];
    let pseudo = match v6 {
        true => Sum::pseudo_header(ip.source, ip.destination, protocol::ICMPV6, bytes.len() as u32),
        false => Sum::default(),
    };
    let (echo, _) = Echo::parse(bytes, v6).filter(|(echo, _)| !echo.reply && is_intact(bytes, pseudo))?;
    let end = message.end;
    let header = Echo { reply: true, ..echo }.to_bytes(v6);
    buffer[message.start..message.start + ECHO_LEN].copy_from_slice(&header);
    // The sum of the pseudo-header stays as it is when the addresses change places.
    let sum = (Sum::of(&buffer[message.clone()]) + pseudo).checksum();
    buffer[message.start + 2..message.start + 4].copy_from_slice(&sum.to_be_bytes());
    let (addresses, len) = if v6 { (start + ETHERNET_LEN + 8, 16) } else { (start + ETHERNET_LEN + 12, 4) };
    swap(buffer, addresses, len);
    if v6 {
        buffer[start + ETHERNET_LEN + 7] = 64;
    } else {
        let header = start + ETHERNET_LEN..start + ip.transport;
        let fields = &mut buffer[header];
        fields[8] = 64;
        fields[10..12].fill(0);
        let sum = checksum(fields);
        fields[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    swap(buffer, start, 6);
    Some(Verdict::Send { side, frame: start..end })
}

/// Exchanges two neighbouring fields of `len` bytes at `at`.
fn swap(buffer: &mut [u8], at: usize, len: usize) {
    let (first, second) = buffer[at..at + 2 * len].split_at_mut(len);
    first.swap_with_slice(second);
}

/// The places of the ones in a set of bits.
fn ones(mut set: u32) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let at = set.checked_ilog2()?;
        set &= !(1 << at);
        Some(at as usize)
    })
}
