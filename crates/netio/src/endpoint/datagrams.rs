//! Flows whose ends are applications: their sockets, and what passes between the two.

use std::io::{self, ErrorKind};
use std::os::fd::AsFd;

use socket2::Socket;
use traffic::Application;

use super::flow::{make, udp_source};
use super::{End, EndpointError};
use crate::arrival::{receive_stamped, stamp_arrivals};
use crate::clock::Epoch;

/// The sockets of the end `here`, one a port, each connected to the same port at `there`.
pub(super) fn sockets(here: &End, there: &End, ports: &[u16], dscp: u8) -> Result<Vec<Socket>, EndpointError> {
    let open = |port: u16| {
        let socket = udp_source((here.address, port).into(), (there.address, port).into(), dscp)?;
        socket.set_recv_buffer_size(1 << 20)?;
        stamp_arrivals(&socket.as_fd())?;
        Ok(socket)
    };
    ports.iter().map(|&port| make("open a UDP socket", here, || open(port))).collect()
}

/// Hands what arrived to the applications, at most `turn` datagrams a socket. True if there may be
/// more.
pub(super) fn receive(
    sockets: &[Vec<Socket>; 2],
    ends: &mut [Box<dyn Application>; 2],
    clock: &Epoch,
    turn: usize,
) -> bool {
    let mut buffer = [0; 65_536];
    let mut more = false;
    for (sockets, end) in sockets.iter().zip(ends) {
        for (position, socket) in sockets.iter().enumerate() {
            more |= !(0..turn).any(|_| match receive_stamped(socket, &mut buffer) {
                Ok((length, arrived)) => {
                    end.receive(clock.time_at(arrived), position, &buffer[..length]);
                    false
                }
                // Anything else is such as an ICMP error for what was sent before the other end was there.
                Err(error) => error.kind() == ErrorKind::WouldBlock,
            });
        }
    }
    more
}

/// Sends what is due, at most `turn` datagrams an end. True if there may be more.
///
/// # Errors
///
/// What the kernel refuses for another reason than want of room; a datagram that finds none counts
/// as sent, and is lost like one that a queue drops.
pub(super) fn send(
    sockets: &[Vec<Socket>; 2],
    ends: &mut [Box<dyn Application>; 2],
    clock: &Epoch,
    turn: usize,
) -> io::Result<bool> {
    let mut more = false;
    let mut payload = Vec::new();
    for (sockets, end) in sockets.iter().zip(ends) {
        let mut sent = 0;
        while sent < turn {
            payload.clear();
            let Some(socket) = end.send(clock.time(), &mut payload).and_then(|at| sockets.get(at)) else { break };
            sent += 1;
            match socket.send(&payload) {
                Err(error)
                    if !matches!(error.raw_os_error(), Some(libc::ENOBUFS | libc::EAGAIN | libc::ECONNREFUSED)) =>
                {
                    return Err(error);
                }
                _ => {}
            }
        }
        more |= sent == turn;
    }
    Ok(more)
}

/// Whether all has arrived and nobody means to send any more.
pub(super) fn is_complete(ends: &[Box<dyn Application>; 2]) -> bool {
    let [first, second] = ends;
    let arrived = |from: &dyn Application, to: &dyn Application| to.received().len() >= from.sent().len();
    ends.iter().all(|end| end.deadline().is_none()) && arrived(&**first, &**second) && arrived(&**second, &**first)
}
