//! The stack's side of a host's interface: frames in, packets with room for their Ethernet header
//! out, and what is done to their headers on the way.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use engine::Packet;
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;
use wire::{ETHERNET_LEN, Echo, Headers, ethertype, protocol};

/// Frames that arrived and were not taken yet, and what the stack gives out.
#[derive(Debug)]
pub(super) struct Frames {
    pub(super) arrived: VecDeque<Packet>,
    pub(super) out: VecDeque<FromStack>,
    pub(super) mtu: usize,
}

/// What `poll` gives out: packets to send, and what is left of those the stack took (the stack's
/// tokens own the bytes, so the buffer is gone; virtual time has no hot path to spare it for).
#[derive(Debug)]
pub(super) enum FromStack {
    /// The Ethernet header has its type only.
    Sent(Vec<u8>),
    Taken(Packet),
}

pub(super) struct Received(Vec<u8>);

pub(super) struct Sending<'a> {
    out: &'a mut VecDeque<FromStack>,
    /// Code point of the packet this may be the reply to.
    echo: Option<u8>,
}

/// What a packet's code point is chosen by: protocol, and source port or the identifier of an echo
/// request.
pub(super) fn origin(frame: &[u8], headers: &Headers) -> Option<(u8, u16)> {
    let ip = headers.ip?;
    match echo(frame, headers) {
        Some(echo) if !echo.reply => Some((ip.protocol, echo.identifier)),
        Some(_) => None,
        None => Some((ip.protocol, ip.ports?.0)),
    }
}

/// The ICMP echo message of a packet, if it is one.
fn echo(frame: &[u8], headers: &Headers) -> Option<Echo> {
    let ip = headers.ip?;
    let v6 = ip.source.is_ipv6();
    let icmp = if v6 { protocol::ICMPV6 } else { protocol::ICMP };
    (ip.protocol == icmp).then(|| Echo::parse(frame.get(ip.transport..)?, v6))?.map(|(echo, _)| echo)
}

impl Device for Frames {
    type RxToken<'a> = Received;
    type TxToken<'a> = Sending<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Received, Sending<'_>)> {
        let mut packet = self.arrived.pop_front()?;
        let bytes = core::mem::take(&mut packet.bytes);
        let echo = Headers::parse(&bytes).ip.map(|ip| ip.dscp);
        self.out.push_back(FromStack::Taken(packet));
        Some((Received(bytes), Sending { out: &mut self.out, echo }))
    }

    fn transmit(&mut self, _: Instant) -> Option<Sending<'_>> {
        Some(Sending { out: &mut self.out, echo: None })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        capabilities
    }
}

impl RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, take: F) -> R {
        take(self.0.get(ETHERNET_LEN..).unwrap_or(&[]))
    }
}

impl TxToken for Sending<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, fill: F) -> R {
        let mut frame = vec![0; ETHERNET_LEN + len];
        let result = fill(&mut frame[ETHERNET_LEN..]);
        let v6 = frame.get(ETHERNET_LEN).is_some_and(|first| first >> 4 == 6);
        let kind = if v6 { ethertype::IPV6 } else { ethertype::IPV4 };
        frame[ETHERNET_LEN - 2..ETHERNET_LEN].copy_from_slice(&kind.to_be_bytes());
        if let Some(dscp) = self.echo {
            let headers = Headers::parse(&frame);
            if echo(&frame, &headers).is_some_and(|echo| echo.reply) {
                wire::set_dscp(&mut frame, &headers, dscp);
            }
        }
        self.out.push_back(FromStack::Sent(frame));
        result
    }
}
