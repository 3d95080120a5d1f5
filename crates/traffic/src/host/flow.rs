//! The ends of flows on a host: what applications do with their sockets.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;

use engine::{Rate, Span, Time};
use smoltcp::iface::{SocketHandle, SocketSet};
use smoltcp::socket::{icmp, tcp, udp};
use smoltcp::wire::{IpAddress, IpEndpoint};
use wire::{ECHO_LEN, Echo};

use super::TcpSource;
use crate::filler::fill;
use crate::{Application, Arrival, EchoPassage, Echoes, PROBE_LEN, Probe, ProbeReceiver, Throttle};

/// One end of a flow on a host, with its counters.
#[derive(Debug)]
pub struct HostFlow {
    /// When the connection was established (TCP).
    pub established: Option<Time>,
    /// When the first byte was written (TCP source).
    pub began: Option<Time>,
    /// When a transfer's last byte was read (TCP sink).
    pub completed: Option<Time>,
    /// Bytes the application wrote or the socket took.
    pub sent_bytes: u64,
    /// Datagrams or echo requests sent in the window.
    pub sent_packets: u64,
    /// Bytes the application received.
    pub received_bytes: u64,
    /// Datagrams or replies, for flows that number them.
    pub receiver: Option<ProbeReceiver>,
    /// One-way delays (UDP) or round trips (ping) since [`Host::take_delays`](super::Host::take_delays), in order of arrival.
    pub(super) delays: Vec<Span>,
    pub(super) sending: Range<Time>,
    pub(super) window: Range<Time>,
    pub(super) end: End,
}

#[derive(Debug)]
pub(super) enum End {
    TcpSource {
        handle: SocketHandle,
        config: TcpSource,
        throttle: Option<Throttle>,
        left: u64,
    },
    /// `left` is what of a transfer has not come yet.
    TcpSink {
        handle: SocketHandle,
        left: Option<u64>,
    },
    UdpSource {
        handle: SocketHandle,
        remote: IpEndpoint,
        size: usize,
        rate: Rate,
        throttle: Option<Throttle>,
    },
    UdpSink {
        handle: SocketHandle,
    },
    Ping {
        handle: SocketHandle,
        remote: IpAddress,
        ident: u16,
        size: usize,
        interval: Span,
        next: Option<Time>,
        echoes: Echoes,
    },
    Application {
        sockets: Vec<(SocketHandle, IpEndpoint)>,
        application: Box<dyn Application>,
    },
}

impl HostFlow {
    /// What stands at this end, if it is an [`Application`].
    #[must_use]
    pub fn application(&self) -> Option<&dyn Application> {
        match &self.end {
            End::Application { application, .. } => Some(&**application),
            _ => None,
        }
    }

    /// The requests of a ping, one by one.
    #[must_use]
    pub fn echoes(&self) -> &[EchoPassage] {
        match &self.end {
            End::Ping { echoes, .. } => echoes.single(),
            _ => &[],
        }
    }

    /// Does what can be done now; says when there is more to do, if the stack will not say.
    pub(super) fn run(&mut self, now: Time, sockets: &mut SocketSet<'static>) -> Option<Time> {
        let sending = self.sending.contains(&now);
        let counted = self.window.contains(&now);
        match &mut self.end {
            End::TcpSource { handle, config, throttle, left } => {
                let socket = sockets.get_mut::<tcp::Socket<'_>>(*handle);
                if self.established.is_none() && socket.may_send() {
                    self.established = Some(now);
                }
                if !sending {
                    let begun = self.sending.start < Time::MAX;
                    return (begun && now < self.sending.start).then_some(self.sending.start);
                }
                self.established?;
                let throttle = throttle.get_or_insert_with(|| Throttle::new(config.rate, now));
                self.began.get_or_insert(now);
                loop {
                    if *left == 0 {
                        if throttle.ready_at() > now {
                            return Some(throttle.ready_at());
                        }
                        let rest = config.transfer.map_or(u64::MAX, |transfer| transfer - throttle.written());
                        *left = config.write.min(rest);
                        if rest == 0 {
                            return None;
                        }
                    }
                    // A full buffer is emptied by acknowledgements, which run this again.
                    let mut block = [0; 4096];
                    let take = block.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    fill(&mut block[..take]);
                    let taken = socket.send_slice(&block[..take]).unwrap_or(0) as u64;
                    if taken == 0 {
                        return None;
                    }
                    *left -= taken;
                    throttle.wrote(taken);
                    self.sent_bytes += if counted { taken } else { 0 };
                }
            }
            End::TcpSink { handle, left } => {
                let socket = sockets.get_mut::<tcp::Socket<'_>>(*handle);
                while let Ok(taken @ 1..) = socket.recv(|bytes| (bytes.len(), bytes.len())) {
                    self.received_bytes += if counted { taken as u64 } else { 0 };
                    if let Some(left) = left {
                        *left = left.saturating_sub(taken as u64);
                        if *left == 0 {
                            self.completed.get_or_insert(now);
                        }
                    }
                }
                None
            }
            End::UdpSource { handle, remote, size, throttle, .. } => {
                let socket = sockets.get_mut::<udp::Socket<'_>>(*handle);
                let throttle = throttle.as_mut()?;
                if now >= self.sending.end {
                    return None;
                }
                while throttle.ready_at() <= now {
                    let number = throttle.written() / *size as u64;
                    throttle.wrote(*size as u64);
                    let probe = Probe { flow: 0, number, sent: now };
                    if let Ok(payload) = socket.send(*size, *remote) {
                        fill(payload);
                        payload[..PROBE_LEN].copy_from_slice(&probe.bytes());
                    }
                    self.sent_packets += u64::from(counted);
                    self.sent_bytes += if counted { *size as u64 } else { 0 };
                }
                Some(throttle.ready_at())
            }
            End::UdpSink { handle } => {
                let socket = sockets.get_mut::<udp::Socket<'_>>(*handle);
                while let Ok((payload, _)) = socket.recv() {
                    if counted {
                        self.received_bytes += payload.len() as u64;
                    }
                    if let (Some(probe), Some(receiver)) = (Probe::read(payload), &mut self.receiver)
                        && let Arrival::First { delay, .. } = receiver.receive(now, &probe)
                        && self.window.contains(&probe.sent)
                    {
                        self.delays.push(delay);
                    }
                }
                None
            }
            End::Application { sockets: own, application } => {
                for (position, (handle, _)) in own.iter().enumerate() {
                    let socket = sockets.get_mut::<udp::Socket<'_>>(*handle);
                    while let Ok((payload, _)) = socket.recv() {
                        self.received_bytes += if counted { payload.len() as u64 } else { 0 };
                        application.receive(now, position, payload);
                    }
                }
                let mut payload = Vec::new();
                while let Some((handle, remote)) = application.send(now, &mut payload).and_then(|at| own.get(at)) {
                    // What finds no room in the buffer counts as sent: it is lost as in a queue.
                    let _ = sockets.get_mut::<udp::Socket<'_>>(*handle).send_slice(&payload, *remote);
                    self.sent_bytes += if counted { payload.len() as u64 } else { 0 };
                    payload.clear();
                }
                application.deadline()
            }
            End::Ping { handle, remote, ident, size, interval, next, echoes } => {
                let socket = sockets.get_mut::<icmp::Socket<'_>>(*handle);
                let v6 = matches!(remote, IpAddress::Ipv6(_));
                while let Ok((reply, _)) = socket.recv() {
                    let reply = Echo::parse(reply, v6).filter(|(echo, _)| echo.reply);
                    let probe = reply.and_then(|(echo, _)| echoes.reply(now, echo.sequence));
                    if let (Some(probe), Some(receiver)) = (probe, &mut self.receiver)
                        && let Arrival::First { delay, .. } = receiver.receive(now, &probe)
                        && self.window.contains(&probe.sent)
                    {
                        self.received_bytes += *size as u64;
                        self.delays.push(delay);
                    }
                }
                let next = next.as_mut()?;
                if *next >= self.sending.end {
                    return None;
                }
                while *next <= now {
                    let echo = Echo { reply: false, identifier: *ident, sequence: echoes.send(now) };
                    if let Ok(message) = socket.send(ECHO_LEN + *size, *remote) {
                        // The stack fills in the checksum.
                        let (header, payload) = message.split_at_mut(ECHO_LEN);
                        header.copy_from_slice(&echo.to_bytes(v6));
                        fill(payload);
                    }
                    self.sent_packets += u64::from(counted);
                    *next += *interval;
                }
                Some(*next)
            }
        }
    }
}
