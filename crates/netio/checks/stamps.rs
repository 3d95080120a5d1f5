//! One-way delays by the kernel's own time stamps: when a datagram left the sender's stack, and
//! when it came into the receiver's (`SO_TIMESTAMPING`, software). Our clocks have no part in it.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use engine::Span;

use crate::common::{Site, wait_for};

/// Sends `count` datagrams, `gap` apart, from the first site to the second: the delay of each that
/// arrived within ten seconds after the last, in nanoseconds.
pub(crate) fn one_way(sites: &[Site; 2], count: u32, gap: Span, payload: usize) -> Vec<i64> {
    let address = SocketAddr::new(sites[1].address, 5009);
    let receiver = sites[1].namespace.run(|| UdpSocket::bind(address)).unwrap().unwrap();
    let sender = sites[0].namespace.run(|| UdpSocket::bind((sites[0].address, 0))).unwrap().unwrap();
    sender.connect(address).unwrap();
    let common = libc::SOF_TIMESTAMPING_SOFTWARE;
    stamp(&receiver, common | libc::SOF_TIMESTAMPING_RX_SOFTWARE);
    // The kernel begins to stamp some time after it was asked to.
    let begin = Instant::now();
    loop {
        sender.send(&[0; 4]).unwrap();
        let (_, _, stamp) = wait_for("the first datagram", || receive(&receiver, 0));
        if stamp.is_some() {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(30), "the kernel stamps nothing");
    }
    stamp(
        &sender,
        common | libc::SOF_TIMESTAMPING_TX_SOFTWARE | libc::SOF_TIMESTAMPING_OPT_ID | libc::SOF_TIMESTAMPING_OPT_TSONLY,
    );
    let (mut sent, mut received) = (HashMap::new(), HashMap::new());
    let mut buffer = vec![0; payload.max(4)];
    let mut next = Instant::now();
    for number in 0..count {
        next += Duration::from(gap);
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        buffer[..4].copy_from_slice(&number.to_be_bytes());
        sender.send(&buffer).unwrap();
        collect(&sender, &receiver, &mut sent, &mut received);
    }
    let last = Instant::now();
    while (received.len() as u32) < count && last.elapsed() < Duration::from_secs(10) {
        collect(&sender, &receiver, &mut sent, &mut received);
        std::thread::yield_now();
    }
    received.iter().filter_map(|(number, at)| Some(at - sent.get(number)?)).collect()
}

fn stamp(socket: &UdpSocket, flags: u32) {
    // SAFETY: the kernel reads four bytes.
    let set = unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPING, (&raw const flags).cast(), 4)
    };
    assert_eq!(set, 0, "SO_TIMESTAMPING: {}", io::Error::last_os_error());
}

fn collect(sender: &UdpSocket, receiver: &UdpSocket, sent: &mut HashMap<u32, i64>, received: &mut HashMap<u32, i64>) {
    while let Some((number, _, at)) = receive(sender, libc::MSG_ERRQUEUE) {
        sent.extend(at.map(|at| (number, at)));
    }
    while let Some((_, number, at)) = receive(receiver, 0) {
        received.extend(at.map(|at| (number, at)));
    }
}

/// The number the kernel gave (of a sent datagram), the number in the payload (of a received one)
/// and the stamp, if there is one.
fn receive(socket: &UdpSocket, flags: libc::c_int) -> Option<(u32, u32, Option<i64>)> {
    let (mut payload, mut control) = ([0u8; 4], [0u64; 32]);
    let mut piece = libc::iovec { iov_base: payload.as_mut_ptr().cast(), iov_len: payload.len() };
    // SAFETY: plain data, valid when zeroed.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut piece;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control);
    // SAFETY: the message points to memory of the stated sizes that outlives the call.
    if unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags | libc::MSG_DONTWAIT) } < 0 {
        return None;
    }
    let (mut number, mut at) = (0, None);
    // SAFETY: the macros stay within the control data the kernel wrote; the data is read unaligned.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(&raw const message);
        while !header.is_null() {
            match ((*header).cmsg_level, (*header).cmsg_type) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => {
                    let stamp = libc::CMSG_DATA(header).cast::<libc::timespec>().read_unaligned();
                    at = Some(stamp.tv_sec * 1_000_000_000 + stamp.tv_nsec);
                }
                (libc::SOL_IP, libc::IP_RECVERR) => {
                    number = libc::CMSG_DATA(header).cast::<libc::sock_extended_err>().read_unaligned().ee_data;
                }
                _ => {}
            }
            header = libc::CMSG_NXTHDR(&raw const message, header);
        }
    }
    Some((number, u32::from_be_bytes(payload), at))
}
