//! Frames through [`PacketIo`] over a veth pair: all of them, in order, unaltered.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use engine::Span;
use netio::clock::Instant;
use netio::packet_io::{Choice, Options, PacketIo, Receive};
use wire::checksum::{Sum, checksum};

use crate::SKIPPED;
use crate::common::wait_for;
use crate::pair::pair;

pub(crate) fn check(name: &str) -> Option<i32> {
    Some(match name {
        "frames-af-xdp" => frames(Choice::AfXdp),
        "frames-af-packet" => frames(Choice::AfPacket),
        "frames-auto" => frames(Choice::Auto),
        "frames-segmented" => frames(Choice::AfPacketSegmented),
        "datagrams-segmented" => datagrams_segmented(),
        "interface-down" => interface_down(),
        "frames-of-a-stack" => frames_of_a_stack(),
        "opened-again" => opened_again(),
        "no-locked-memory" => no_locked_memory(),
        _ => return None,
    })
}

const BURST: u64 = 32;
const FRAMES: u64 = 20_000;

/// A frame of the `number`th length, filled by its number.
fn fill(frame: &mut [u8], number: u64) -> usize {
    let length = 60 + (number * 7919 % 1455) as usize;
    // A local experimental EtherType (IEEE 802 9.2.2).
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    for (at, byte) in frame[14..length].iter_mut().enumerate() {
        *byte = (number as usize * 31 + at) as u8;
    }
    frame[14..22].copy_from_slice(&number.to_be_bytes());
    length
}

/// What is sent at one end comes in at the other, as it was, in its order, and with a time between
/// sending and receiving.
fn frames(choice: Choice) -> i32 {
    let [left, right] = pair();
    let options = Options { choice, ..Options::default() };
    let sender = match PacketIo::open_in(&left, "a", &options) {
        Ok(io) => io,
        Err(error) if choice == Choice::AfXdp => {
            println!("{error}");
            return SKIPPED;
        }
        Err(error) => panic!("{error}"),
    };
    println!("{}", sender.choice());
    let (mut transmit, mut echo) = sender.split();
    let (_, mut receive) = PacketIo::open_in(&right, "b", &options).unwrap().split();
    let (mut sent, mut next) = (0, 0);
    let mut expected = vec![0; 2048];
    while next < FRAMES {
        let begin = Instant::now();
        // Each frame somewhere else in its room.
        while sent < FRAMES && sent < next + BURST {
            let Some(slot) = transmit.slot() else { break };
            let start = (sent % 64) as usize;
            *slot.tag += 1;
            let length = fill(&mut slot.frame[start..], sent);
            transmit.commit(start..start + length);
            sent += 1;
        }
        transmit.flush();
        receive.wait(Span::from_secs(5));
        let before = next;
        receive.receive(1024, |frame, at| {
            let length = fill(&mut expected, next);
            assert_eq!(frame, &expected[..length], "frame {next}");
            assert!(at >= begin && at <= Instant::now(), "frame {next}: {at:?} is not after {begin:?}");
            next += 1;
        });
        assert!(next > before, "nothing arrived after frame {next}: {:?}", transmit.sent());
    }
    assert_eq!((transmit.sent().frames, transmit.queued(), receive.kernel_drops().unwrap()), (FRAMES, 0, 0));
    let bytes: u64 = (0..FRAMES).map(|number| fill(&mut expected, number) as u64).sum();
    assert_eq!(transmit.sent().bytes, bytes);
    // What we send does not come back to us.
    echo.receive(1, |frame, _| panic!("{frame:?}"));
    0
}

/// Datagrams that travel as super-frames come in as they were.
fn datagrams_segmented() -> i32 {
    const DATAGRAMS: u16 = 20_000;
    let [left, right] = pair();
    let options = Options { choice: Choice::AfPacketSegmented, ..Options::default() };
    let (mut transmit, _) = PacketIo::open_in(&left, "a", &options).unwrap().split();
    let (_, mut receive) = PacketIo::open_in(&right, "b", &options).unwrap().split();
    let (mut sent, mut next) = (0, 0);
    while next < DATAGRAMS {
        // Most of one length; one in a hundred is shorter, one in a thousand of another flow.
        while sent < DATAGRAMS && sent < next + 64 {
            let Some(slot) = transmit.slot() else { break };
            let datagram = datagram(sent);
            slot.frame[..datagram.len()].copy_from_slice(&datagram);
            transmit.commit(0..datagram.len());
            sent += 1;
        }
        transmit.flush();
        receive.wait(Span::from_secs(5));
        let before = next;
        let received = receive.receive(1024, |frame, _| {
            assert_eq!(frame, datagram(next), "datagram {next}");
            next += 1;
        });
        assert!(next > before, "nothing arrived after datagram {next}: {received:?}, {:?}", transmit.sent());
    }
    let bytes = (0..DATAGRAMS).map(|number| datagram(number).len() as u64).sum::<u64>();
    assert_eq!((transmit.sent().frames, transmit.sent().bytes), (u64::from(DATAGRAMS), bytes));
    0
}

/// A datagram with its number as identification and in its payload.
fn datagram(number: u16) -> Vec<u8> {
    let length = if number % 100 == 99 { 500 } else { 1000 };
    let mut frame = vec![number as u8; 42 + length];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00]);
    frame[14..34].copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame[16..18].copy_from_slice(&(28 + length as u16).to_be_bytes());
    frame[18..20].copy_from_slice(&number.to_be_bytes());
    let sum = checksum(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    let port = if number % 1000 == 500 { 2153_u16 } else { 2152 };
    frame[34..36].copy_from_slice(&port.to_be_bytes());
    frame[36..38].copy_from_slice(&2152_u16.to_be_bytes());
    frame[38..40].copy_from_slice(&(8 + length as u16).to_be_bytes());
    frame[40..42].copy_from_slice(&[0, 0]);
    let address = |n| Ipv4Addr::new(10, 0, 0, n).into();
    let sum = Sum::pseudo_header(address(1), address(2), 17, 8 + length as u32) + Sum::of(&frame[34..]);
    frame[40..42].copy_from_slice(&sum.checksum().to_be_bytes());
    frame
}

/// Frames for an interface that is down are not lost without a word, and go on when it is up.
fn interface_down() -> i32 {
    for choice in [Choice::AfXdp, Choice::AfPacket] {
        let [left, _right] = pair();
        let (mut transmit, _) = match PacketIo::open_in(&left, "a", &Options { choice, ..Options::default() }) {
            Ok(io) => io.split(),
            Err(error) => {
                println!("{error}");
                continue;
            }
        };
        left.configure(|net| net.down("a")).unwrap();
        transmit.send(&[&[0xff; 60][..]; 3]);
        let sent = transmit.sent().clone();
        let told = sent.refused.iter().map(|(_, count)| count).sum::<u64>();
        println!("{choice:?}, down: {sent:?}, {} queued", transmit.queued());
        assert_eq!((sent.frames, told + transmit.queued() as u64), (0, 3));
        left.configure(|net| net.up("a")).unwrap();
        transmit.send(&[&[0xff; 60][..]; 3]);
        println!("{choice:?}, up: {:?}", transmit.sent());
        assert_eq!(transmit.sent().frames + told, 6);
    }
    0
}

/// What a kernel's stack sends has its checksums in place, and super-frames are cut.
fn frames_of_a_stack() -> i32 {
    let [left, right] = pair();
    let address = |n| IpAddr::V4(Ipv4Addr::new(10, 0, 0, n));
    left.configure(|net| {
        net.address("a", address(1), 24)?;
        net.neighbour("a", address(2), [2, 0, 0, 0, 0, 2])
    })
    .unwrap();
    let mut receive = PacketIo::open_in(&right, "b", &Options::default()).unwrap().split().1;
    let socket = left.run(|| UdpSocket::bind((address(1), 0))).unwrap().unwrap();
    socket.send_to(&[7; 1000], SocketAddr::new(address(2), 9)).unwrap();
    let datagram = collect(&mut receive, 1);
    assert_eq!(datagram[0].len(), 1042);
    assert_sums(&datagram[0]);
    // A datagram's super-frame: 40 segments in one call.
    let size: libc::c_int = 1400;
    // SAFETY: the kernel reads one integer.
    let set = unsafe {
        use std::os::fd::AsRawFd;
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, (&raw const size).cast(), 4)
    };
    assert_eq!(set, 0, "UDP_SEGMENT");
    socket.send_to(&[8; 1400 * 40], SocketAddr::new(address(2), 9)).unwrap();
    let segments = collect(&mut receive, 40);
    for segment in &segments {
        assert_eq!(segment.len(), 1442);
        assert_sums(segment);
    }
    0
}

/// The kernel frees an AF_XDP socket's queue in the background; whoever opens it at once waits.
fn opened_again() -> i32 {
    let [left, _right] = pair();
    let options = Options { choice: Choice::AfXdp, ..Options::default() };
    for round in 0..10 {
        match PacketIo::open_in(&left, "a", &options) {
            Ok(_) => {}
            Err(error) if round == 0 => {
                println!("{error}");
                return SKIPPED;
            }
            Err(error) => panic!("round {round}: {error}"),
        }
    }
    0
}

/// Where no memory may be locked, packet sockets are taken, and it is said why. Real root may always.
fn no_locked_memory() -> i32 {
    let limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel reads one rlimit, ours.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const limit) }, 0);
    let [left, _right] = pair();
    let io = PacketIo::open_in(&left, "a", &Options::default()).unwrap();
    println!("{}", io.choice());
    let fell_back = io.choice().starts_with("AF_PACKET") && io.choice().contains("ulimit -l");
    let (mut transmit, _) = io.split();
    assert_eq!(transmit.send(&[&[0xff; 60][..]]), 1);
    assert_eq!(transmit.sent().frames, 1);
    i32::from(!fell_back && netio::sandbox::host_network().is_none())
}

fn collect(receive: &mut Receive, count: usize) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    wait_for("the frames", || {
        receive.wait(Span::from_millis(100));
        let received = receive.receive(1024, |frame, _| frames.push(frame.to_vec()));
        assert_eq!(received.malformed, 0);
        (frames.len() >= count).then_some(())
    });
    frames
}

/// RFC 768: pseudo-header, header and payload sum up to all ones.
fn assert_sums(frame: &[u8]) {
    let octets = |at: usize| Ipv4Addr::from_octets([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]]).into();
    let udp = &frame[34..];
    let sum = Sum::pseudo_header(octets(26), octets(30), 17, udp.len() as u32) + Sum::of(udp);
    assert_eq!((sum.checksum(), udp[6..8] != [0, 0]), (0, true), "{frame:?}");
}
