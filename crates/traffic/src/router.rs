//! The forwarding half of a modelled site with more than one link.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::IpAddr;

use engine::{DropReason, Element, Output, Packet, Port, Time};
use wire::Headers;

/// Where packets to an address go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextHop {
    /// Address of the destination site.
    pub to: IpAddr,
    /// Output it leaves by.
    pub port: Port,
    /// Source address of the frame.
    pub source: [u8; 6],
    /// Destination address of the frame.
    pub destination: [u8; 6],
}

/// Forwards IPv4 and IPv6 packets by destination address: host routes only, no queue, no delay. Unlike the
/// kernel's forwarding it sends no ICMP errors and no redirects.
///
/// Ports: as the routes say, inputs and outputs alike.
#[derive(Debug)]
pub struct Router {
    routes: Vec<NextHop>,
    out: VecDeque<Output>,
}

/// No route to the destination.
const NO_ROUTE: DropReason = DropReason("no route");
/// The packet's time to live or hop limit was used up (RFC 1812 5.3.1, RFC 8200 3).
const TTL_EXPIRED: DropReason = DropReason("time to live exceeded");

impl Router {
    /// A router with these routes.
    #[must_use]
    pub fn new(routes: Vec<NextHop>) -> Self {
        Self { routes, out: VecDeque::new() }
    }

    fn forward(&self, packet: &mut Packet) -> Result<Port, DropReason> {
        let headers = Headers::parse(&packet.bytes);
        let destination = headers.ip.map(|ip| ip.destination);
        let route = self.routes.iter().find(|route| destination == Some(route.to)).ok_or(NO_ROUTE)?;
        if !wire::take_hop(&mut packet.bytes, &headers) {
            return Err(TTL_EXPIRED);
        }
        packet.bytes[0..6].copy_from_slice(&route.destination);
        packet.bytes[6..12].copy_from_slice(&route.source);
        Ok(route.port)
    }
}

impl Element for Router {
    fn handle(&mut self, _: Time, _: Port, mut packet: Packet) {
        self.out.push_back(match self.forward(&mut packet) {
            Ok(port) => Output::Transmit { port, packet },
            Err(reason) => Output::Drop { reason, packet },
        });
    }

    fn tick(&mut self, _: Time) {}

    fn deadline(&self) -> Option<Time> {
        None
    }

    fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }
}
