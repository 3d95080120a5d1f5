//! Transfers between two sites by way of the executor.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

use engine::{Pool, Random, Span};
use netio::executor::{CellReport, Dataplane, Options};
use netio::port::{self, Kind, Packet, Scratch, Wire};
use netio::site::{Namespace, Vxlan};

use crate::common::Site;
use crate::hold::{Hold, held, held_sites};
use crate::{SKIPPED, stamps, wait_for};

/// Runs a check of this module, if `name` is one.
pub(crate) fn check(name: &str) -> Option<i32> {
    Some(match name {
        "tap" => tcp(Kind::Tap, 1500),
        "tap-jumbo" => tcp(Kind::Tap, 9000),
        "veth" => tcp(Kind::Veth, 1500),
        "datagrams-tap" => datagrams(Kind::Tap),
        "datagrams-veth" => datagrams(Kind::Veth),
        "vxlan-tap" => vxlan(Kind::Tap),
        "vxlan-veth" => vxlan(Kind::Veth),
        "interfaces" => interfaces(),
        "tagged" => tagged(),
        "no-tun" => no_tun(),
        "never-early" => never_early(),
        "commands" => commands(),
        _ => return None,
    })
}

const LENGTH: usize = 16 << 20;

/// Bytes that are wrong if one is missing or out of place.
fn pattern(length: usize) -> Vec<u8> {
    let mut random = Random::stream(1, "transfer");
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        bytes.extend(random.bits().to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// Sends the pattern both ways at once and checks what arrives.
fn exchange(here: &Namespace, there: &Namespace, address: SocketAddr) {
    let listener = there.run(|| TcpListener::bind(address)).unwrap().unwrap();
    let stream = here.run(|| TcpStream::connect(address)).unwrap().unwrap();
    let (peer, _) = listener.accept().unwrap();
    let bytes = pattern(LENGTH);
    std::thread::scope(|scope| {
        for stream in [&stream, &peer] {
            let bytes = &bytes;
            scope.spawn(move || {
                let mut stream = stream;
                stream.write_all(bytes).unwrap();
                stream.shutdown(Shutdown::Write).unwrap();
            });
            scope.spawn(move || {
                let (mut stream, mut received) = (stream, Vec::new());
                stream.read_to_end(&mut received).unwrap();
                assert!(received == *bytes, "{} bytes came, or other ones", received.len());
            });
        }
    });
}

/// A cell between two sites, or the status of a check that has to be skipped.
fn joined(kind: Kind, mtu: u32) -> Result<([Site; 2], Dataplane, netio::executor::CellHandle), i32> {
    let (sites, cell, choice) = held_sites(kind, Span::from_millis(2), mtu).map_err(|error| {
        println!("{error}");
        SKIPPED
    })?;
    println!("{choice}");
    let plane = Dataplane::start(Options::default()).unwrap();
    let handle = plane.add(cell).unwrap();
    Ok((sites, plane, handle))
}

fn nothing_lost(report: &CellReport) -> bool {
    println!("{report:?}");
    report.packets_in == report.packets_out && report.drops.is_empty() && report.broken.is_empty()
}

fn tcp(kind: Kind, mtu: u32) -> i32 {
    let (sites, _plane, handle) = match joined(kind, mtu) {
        Ok(joined) => joined,
        Err(status) => return status,
    };
    exchange(&sites[0].namespace, &sites[1].namespace, SocketAddr::new(sites[1].address, 5001));
    // What is on its way when the last byte was read (acknowledgements) comes out by itself.
    let all_out = || Some(handle.report().unwrap()).filter(|report| report.packets_in == report.packets_out);
    wait_for("the last packets", all_out);
    let report = handle.remove().unwrap().report;
    // No element and no wire ever saw a frame over the MTU: there are as many packets as it takes.
    let least = (2 * LENGTH).div_ceil(mtu as usize - 40) as u64;
    i32::from(!nothing_lost(&report) || report.packets_in < least)
}

/// UDP super-frames (USO) are cut, and datagrams arrive with their boundaries.
fn datagrams(kind: Kind) -> i32 {
    let (sites, _plane, handle) = match joined(kind, 1500) {
        Ok(joined) => joined,
        Err(status) => return status,
    };
    let address = SocketAddr::new(sites[1].address, 5002);
    let receiver = sites[1].namespace.run(|| UdpSocket::bind(address)).unwrap().unwrap();
    receiver.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let sender = sites[0].namespace.run(|| UdpSocket::bind((sites[0].address, 0))).unwrap().unwrap();
    sender.connect(address).unwrap();
    let size: libc::c_int = 1000;
    // SAFETY: the kernel reads four bytes.
    let set =
        unsafe { libc::setsockopt(sender.as_raw_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, (&raw const size).cast(), 4) };
    assert_eq!(set, 0, "UDP_SEGMENT: {}", std::io::Error::last_os_error());
    let bytes = pattern(20_500);
    let mut buffer = [0; 2000];
    for _ in 0..20 {
        sender.send(&bytes).unwrap();
        for expected in bytes.chunks(1000) {
            let length = receiver.recv(&mut buffer).unwrap();
            assert!(buffer[..length] == *expected, "a datagram of {length} bytes");
        }
    }
    let report = handle.remove().unwrap().report;
    i32::from(!nothing_lost(&report) || report.packets_in != 20 * 21)
}

/// TCP inside a VXLAN: the kernel cuts before it tunnels, as no wire announces tunnel offloads.
fn vxlan(kind: Kind) -> i32 {
    let (sites, _plane, handle) = match joined(kind, 1500) {
        Ok(joined) => joined,
        Err(status) => return status,
    };
    let overlay = |n: u8| IpAddr::V4(Ipv4Addr::new(10, 1, 0, n));
    let mac = |n: u8| [2, 1, 0, 0, 0, n];
    for (site, here, there) in [(&sites[0], 1, 2), (&sites[1], 2, 1)] {
        let remote = sites[usize::from(there) - 1].address;
        site.namespace
            .configure(|net| {
                net.vxlan("vx0", &Vxlan { id: 7, local: site.address, ttl: 64 })?;
                net.mac("vx0", mac(here))?;
                net.mtu("vx0", 1440)?;
                net.ipv6("vx0", false)?;
                net.address("vx0", overlay(here), 24)?;
                net.tunnel("vx0", mac(there), remote)?;
                net.neighbour("vx0", overlay(there), mac(there))?;
                net.up("vx0")
            })
            .unwrap();
    }
    exchange(&sites[0].namespace, &sites[1].namespace, SocketAddr::new(overlay(2), 5003));
    let all_out = || Some(handle.report().unwrap()).filter(|report| report.packets_in == report.packets_out);
    wait_for("the last packets", all_out);
    let report = handle.remove().unwrap().report;
    i32::from(!nothing_lost(&report) || report.packets_in < (2 * LENGTH).div_ceil(1400) as u64)
}

/// Two interfaces of a machine in the middle, as a box between two others has them.
fn interfaces() -> i32 {
    let middle = Namespace::new().unwrap();
    let site = |n: u8, far: &str| {
        let namespace = Namespace::new().unwrap();
        let (address, peer) = (Ipv4Addr::new(10, 0, 0, n), 3 - n);
        namespace
            .configure(|net| {
                net.veth("eth0", &middle, far)?;
                net.mac("eth0", [2, 0, 0, 0, 0, n])?;
                net.address("eth0", address.into(), 24)?;
                net.up("eth0")?;
                net.neighbour("eth0", Ipv4Addr::new(10, 0, 0, peer).into(), [2, 0, 0, 0, 0, peer])
            })
            .unwrap();
        middle
            .configure(|net| {
                net.ipv6(far, false)?;
                net.up(far)
            })
            .unwrap();
        (namespace, Wire::Packet(Packet::interface(&middle, far).unwrap()))
    };
    let (left, left_wire) = site(1, "if1");
    let (right, right_wire) = site(2, "if2");
    let plane = Dataplane::start(Options::default()).unwrap();
    let handle = plane.add(held([left_wire, right_wire], Span::from_millis(2))).unwrap();
    exchange(&left, &right, SocketAddr::new(Ipv4Addr::new(10, 0, 0, 2).into(), 5004));
    let report = handle.remove().unwrap().report;
    println!("{report:?}");
    i32::from(!report.drops.is_empty() || !report.broken.is_empty())
}

/// A VLAN tag, which the kernel takes out of a frame, is in its place in what a wire brings.
fn tagged() -> i32 {
    let site = Namespace::new().unwrap();
    let mut wire = site
        .configure(|net| {
            let (wire, _) = net.wire(&port::Options { kind: Kind::Veth, ..port::Options::new("eth0") })?;
            net.ipv6("eth0", false)?;
            net.up("eth0")?;
            Ok(wire)
        })
        .unwrap();
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x81, 0x00, 0x60, 0x07, 0x88, 0xb5];
    frame.extend(pattern(200));
    site.run(|| crate::blaster::Blaster::new().send(&frame, 1)).unwrap();
    let (mut scratch, mut pool, mut packets) = (Scratch::new(), Pool::new(4), Vec::new());
    wait_for("the frame", || {
        wire.receive(&mut scratch, &mut pool, &mut packets, 8).unwrap();
        (!packets.is_empty()).then_some(())
    });
    println!("{:02x?}", &packets[0].bytes[..20]);
    i32::from(packets[0].bytes != frame)
}

/// Without `/dev/net/tun` a veth pair is taken, and the reason is told.
fn no_tun() -> i32 {
    // SAFETY: terminated strings; the mount namespace is the sandbox's own.
    let hidden = unsafe { libc::mount(c"none".as_ptr(), c"/dev/net".as_ptr(), c"tmpfs".as_ptr(), 0, std::ptr::null()) };
    if hidden != 0 {
        println!("cannot hide /dev/net: {}", std::io::Error::last_os_error());
        return SKIPPED;
    }
    let (_, _, choice) = held_sites(Kind::Auto, Span::from_millis(1), 1500).unwrap();
    println!("{choice}");
    let told = choice.to_string();
    let refused = held_sites(Kind::Tap, Span::from_millis(1), 1500).is_err();
    i32::from(!told.starts_with("veth pair") || !told.contains("cannot open /dev/net/tun") || !refused)
}

/// By the kernel's time stamps at both ends no packet is faster than the link.
fn never_early() -> i32 {
    let (sites, _plane, handle) = match joined(Kind::Auto, 1500) {
        Ok(joined) => joined,
        Err(status) => return status,
    };
    let shortest = shortest(&sites, 2000);
    println!("the fastest of 2000 took {shortest} ns, the link takes 2000000 ns");
    let report = handle.remove().unwrap().report;
    i32::from(!nothing_lost(&report) || shortest < 2_000_000)
}

/// The shortest delay of `count` datagrams, in nanoseconds. All have to arrive.
fn shortest(sites: &[Site; 2], count: u32) -> i64 {
    let delays = stamps::one_way(sites, count, Span::from_micros(200), 100);
    assert_eq!(delays.len(), count as usize);
    delays.into_iter().min().unwrap()
}

/// A graph is read and changed while packets pass.
fn commands() -> i32 {
    let (sites, _plane, handle) = match joined(Kind::Auto, 1500) {
        Ok(joined) => joined,
        Err(status) => return status,
    };
    let names = handle.ask(|graph| graph.nodes().map(|node| graph.name(node).to_owned()).collect::<Vec<_>>()).unwrap();
    assert_eq!(names, ["there", "back"]);
    let before = shortest(&sites, 50);
    handle
        .command(|graph| {
            let there = graph.nodes().next().unwrap();
            graph.element_mut::<Hold>(there).unwrap().set_delay(Span::from_millis(30));
        })
        .unwrap();
    // The question comes after the command.
    handle.ask(|_| ()).unwrap();
    let after = shortest(&sites, 50);
    println!("{before} ns before, {after} ns after");
    i32::from(before >= 30_000_000 || after < 30_000_000)
}
