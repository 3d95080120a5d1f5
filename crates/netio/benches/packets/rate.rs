//! As many packets as go.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use engine::Span;
use netio::capture::{self, Capture, Direction};
use netio::packet_io::{Choice, Options, PacketIo, Transmit};
use netio::site::Namespace;

use crate::pair::pair;
use crate::peers::{self, Directory};
use crate::{Settings, spread};

const BURST: u64 = 32;
/// Different frames that a generator sends in turn.
const FLOWS: usize = 10;
/// Where the payload begins: Ethernet, IPv4, UDP, GTP-U with the PDU session container, IPv4, UDP.
const PAYLOAD: usize = 14 + 20 + 8 + 16 + 20 + 8;

/// An uplink packet in GTP-U to a hardware address that is nobody's, so that the peer's stack drops it soon.
pub(crate) fn frame(length: usize, flow: usize) -> Vec<u8> {
    let mut frame = vec![0; length];
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1]);
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    let ip = |frame: &mut [u8], at: usize, [source, destination]: [[u8; 4]; 2], ports: [u16; 2]| {
        let total = (length - at) as u16;
        frame[at..at + 2].copy_from_slice(&[0x45, 0]);
        frame[at + 2..at + 4].copy_from_slice(&total.to_be_bytes());
        frame[at + 8..at + 10].copy_from_slice(&[64, 17]);
        frame[at + 12..at + 16].copy_from_slice(&source);
        frame[at + 16..at + 20].copy_from_slice(&destination);
        let sum = wire::checksum::checksum(&frame[at..at + 20]);
        frame[at + 10..at + 12].copy_from_slice(&sum.to_be_bytes());
        frame[at + 20..at + 22].copy_from_slice(&ports[0].to_be_bytes());
        frame[at + 22..at + 24].copy_from_slice(&ports[1].to_be_bytes());
        frame[at + 24..at + 26].copy_from_slice(&(total - 20).to_be_bytes());
    };
    ip(&mut frame, 14, [[192, 0, 2, 1], [192, 0, 2, 2]], [2152, 2152]);
    // TS 29.281 5.1: version 1, extension header; TS 38.415 5.5.2.2: uplink, QFI 9.
    frame[42..44].copy_from_slice(&[0x34, 0xff]);
    frame[44..46].copy_from_slice(&((length - 50) as u16).to_be_bytes());
    frame[46..50].copy_from_slice(&(flow as u32 + 1).to_be_bytes());
    frame[53..58].copy_from_slice(&[0x85, 1, 0x10, 9, 0]);
    ip(&mut frame, 58, [[10, 0, 0, flow as u8 + 1], [198, 51, 100, 1]], [9, 9]);
    frame
}

/// Hands the same frames over again and again.
pub(crate) fn bare(transmit: &mut Transmit, length: usize, until: &AtomicBool) {
    while !until.load(Ordering::Relaxed) {
        for _ in 0..BURST {
            if transmit.slot().is_some() {
                transmit.commit(0..length);
            }
        }
        transmit.flush();
    }
}

/// Writes each frame whole, with the time, the flow and the number in its payload, and counts per flow.
fn generator(
    transmit: &mut Transmit,
    length: usize,
    until: &AtomicBool,
    mut sent: impl FnMut(netio::clock::Instant, &[u8]),
) -> u64 {
    let templates: Vec<Vec<u8>> = (0..FLOWS).map(|flow| frame(length, flow)).collect();
    let mut counts = [(0u64, 0u64); FLOWS];
    let mut flow = 0;
    while !until.load(Ordering::Relaxed) {
        for _ in 0..BURST {
            let Some(slot) = transmit.slot() else { break };
            let frame = &mut slot.frame[..length];
            frame.copy_from_slice(&templates[flow]);
            let now = netio::clock::Instant::now();
            frame[PAYLOAD..PAYLOAD + 8].copy_from_slice(&now.as_nanos().to_be_bytes());
            frame[PAYLOAD + 8..PAYLOAD + 16].copy_from_slice(&(flow as u64).to_be_bytes());
            frame[PAYLOAD + 16..PAYLOAD + 24].copy_from_slice(&counts[flow].0.to_be_bytes());
            sent(now, frame);
            counts[flow].0 += 1;
            counts[flow].1 += length as u64;
            flow = (flow + 1) % FLOWS;
            transmit.commit(0..length);
        }
        transmit.flush();
    }
    counts.iter().map(|count| count.0).sum()
}

/// Frames a second that `to` gets while `from` sends.
fn received(to: &Namespace, seconds: u64, from: impl FnOnce(&AtomicBool) + Send) -> f64 {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| from(&stop));
        std::thread::sleep(Duration::from_millis(300));
        let count = || to.configure(|net| net.counters("b")).unwrap().rx_packets;
        let (before, begin) = (count(), Instant::now());
        std::thread::sleep(Duration::from_secs(seconds));
        let rate = (count() - before) as f64 / begin.elapsed().as_secs_f64();
        stop.store(true, Ordering::Relaxed);
        rate
    })
}

/// A thread at the peer reads from its ring while the generator sends: what it counts.
fn receiver(from: &Namespace, to: &Namespace, length: usize, seconds: u64) -> Measured {
    let mut transmit = transmit(from, Choice::Auto);
    let mut receive = PacketIo::open_in(to, "b", &Options::default()).unwrap().split().1;
    let (stop, count) = (AtomicBool::new(false), AtomicU64::new(0));
    let (rate, sender, receiver) = std::thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let mut calls = 0;
            while !stop.load(Ordering::Relaxed) {
                receive.wait(Span::from_millis(10));
                let mut stamped = 0;
                receive.receive(4096, |frame, _| stamped += u64::from(frame[PAYLOAD..PAYLOAD + 8] != [0; 8]));
                count.fetch_add(stamped, Ordering::Relaxed);
                calls += 1;
            }
            let frames = count.load(Ordering::Relaxed) as f64;
            (thread_time() as f64 / frames, frames / f64::from(calls))
        });
        let sender = scope.spawn(|| {
            let sent = generator(&mut transmit, length, &stop, |_, _| {});
            thread_time() as f64 / sent as f64
        });
        std::thread::sleep(Duration::from_millis(300));
        let (before, begin) = (count.load(Ordering::Relaxed), Instant::now());
        std::thread::sleep(Duration::from_secs(seconds));
        let rate = (count.load(Ordering::Relaxed) - before) as f64 / begin.elapsed().as_secs_f64();
        stop.store(true, Ordering::Relaxed);
        (rate, sender.join().unwrap(), receiver.join().unwrap())
    });
    let drops = receive.kernel_drops().unwrap();
    println!("  received: {:.0} ns of the receiver's time each, {:.0} a call; {drops} dropped", receiver.0, receiver.1);
    Measured { rate, cost: Some(sender) }
}

fn transmit(namespace: &Namespace, choice: Choice) -> Transmit {
    PacketIo::open_in(namespace, "a", &Options { choice, ..Options::default() }).unwrap().split().0
}

pub(crate) fn rate(settings: &Settings) {
    let (rounds, seconds) = (settings.get("rounds", 5usize), settings.get("seconds", 2u64));
    let lengths = match settings.get("length", 0usize) {
        0 => vec![1400, 146],
        length => vec![length],
    };
    for length in lengths {
        println!("\nrate: {length}-byte frames over a veth pair, {rounds} rounds of {seconds} s each");
        let mut results: Vec<(&str, Vec<Measured>)> = Vec::new();
        for _ in 0..rounds {
            for (name, measured) in round(length, seconds) {
                match results.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, of_rounds)) => of_rounds.push(measured),
                    None => results.push((name, vec![measured])),
                }
            }
        }
        let bare: Vec<f64> = results[0].1.iter().map(|measured| measured.rate).collect();
        for (name, measured) in &results {
            let rates: Vec<f64> = measured.iter().map(|measured| measured.rate).collect();
            let ratios: Vec<f64> = rates.iter().zip(&bare).map(|(rate, bare)| rate / bare).collect();
            println!("  {name:<10} {}; of bare: {}", spread(&rates, 1e6, "Mpps"), spread(&ratios, 1.0, "times"));
            let cost: Vec<f64> = measured.iter().filter_map(|measured| measured.cost).collect();
            if !cost.is_empty() {
                println!("  {:<10} {}", "", spread(&cost, 1.0, "ns of the sender's time each"));
            }
        }
    }
}

/// What a round brought.
struct Measured {
    /// Packets a second.
    rate: f64,
    /// Nanoseconds of processor time that one takes the sender, the kernel's part included: on a busy machine the
    /// steadier figure.
    cost: Option<f64>,
}

/// A file that is not kept.
struct Nowhere;

impl std::io::Write for Nowhere {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

pub(crate) fn capture(settings: &Settings) {
    let (rounds, seconds) = (settings.get("rounds", 5usize), settings.get("seconds", 2u64));
    let length = settings.get("length", 1400usize);
    println!(
        "\ncapture: {length}-byte frames over a veth pair, {rounds} rounds of {seconds} s each, every one recorded"
    );
    let mut rows = [("no capture", None), ("128 bytes", Some(128)), ("whole frames", Some(0))]
        .map(|(name, snap_len)| (name, snap_len, Vec::new(), Vec::new()));
    for _ in 0..rounds {
        let [left, right] = pair();
        let mut transmit = transmit(&left, Choice::Auto);
        for (name, snap_len, rates, costs) in &mut rows {
            let options = snap_len.map(|snap_len| capture::Options { snap_len, limit: u64::MAX, ..Default::default() });
            let started = options.map(|options| Capture::start(Nowhere, "bench", &["n3"], 1, &options).unwrap());
            let (capture, mut tap) = started.map(|(capture, mut taps)| (capture, taps.remove(0))).unzip();
            let mut cost = 0.0;
            rates.push(received(&right, seconds, |stop| {
                let begin = thread_time();
                let sent = generator(&mut transmit, length, stop, |now, frame| {
                    if let Some(tap) = &mut tap {
                        tap.record(0, Direction::Outbound, now, frame);
                    }
                });
                cost = (thread_time() - begin) as f64 / sent as f64;
            }));
            costs.push(cost);
            if let Some(written) = capture.map(|capture| capture.finish().unwrap()) {
                println!("  {name}: {} written, {} left out", written.frames, written.overflowed);
            }
        }
    }
    for (name, _, rates, costs) in &rows {
        let costs = spread(costs, 1.0, "ns of the sender's time each");
        println!("  {name:<12} {}; {costs}", spread(rates, 1e6, "Mpps"));
    }
}

/// Nanoseconds of processor time the calling thread has used.
fn thread_time() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec, ours.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn round(length: usize, seconds: u64) -> Vec<(&'static str, Measured)> {
    let [left, right] = pair();
    let mut rates = Vec::new();
    let counted = |rate| Measured { rate, cost: None };
    for (name, choice) in [
        ("bare", Choice::AfXdp),
        ("generator", Choice::AfXdp),
        ("sendmmsg", Choice::AfPacket),
        ("segmented", Choice::AfPacketSegmented),
    ] {
        let mut transmit = transmit(&left, choice);
        let (mut cost, mut taken) = (None, 0.0);
        let counted = received(&right, seconds, |stop| {
            let (begin, used) = (Instant::now(), thread_time());
            if name == "bare" {
                bare(&mut transmit, length, stop);
            } else {
                generator(&mut transmit, length, stop, |_, _| {});
            }
            let sent = transmit.sent().frames as f64;
            taken = sent / begin.elapsed().as_secs_f64();
            cost = Some((thread_time() - used) as f64 / sent);
        });
        // The interface counts a super-frame as one.
        let rate = if choice == Choice::AfPacketSegmented { taken } else { counted };
        rates.push((name, Measured { rate, cost }));
    }
    rates.push(("received", receiver(&left, &right, length, seconds)));
    let directory = Directory::new();
    let frames: Vec<Vec<u8>> = (0..FLOWS).map(|flow| frame(length, flow)).collect();
    if peers::is_there("tcpreplay") {
        let capture = peers::pcap((0..1000).map(|n| (n as u64 * 1000, &frames[n % FLOWS][..])));
        let capture = directory.file("rate.pcap", &capture);
        let run = peers::tcpreplay_topspeed(&left, &capture, seconds + 2);
        rates.push(("tcpreplay", counted(received(&right, seconds, |_| drop(run.until(seconds))))));
    } else {
        println!("  skipped: tcpreplay (Debian: apt-get install tcpreplay)");
    }
    if peers::is_there("trafgen") {
        let bytes: Vec<String> = frames[0].iter().map(ToString::to_string).collect();
        let config = directory.file("rate.cfg", format!("{{ {} }}\n", bytes.join(", ")).as_bytes());
        let run = peers::trafgen(&left, &config);
        rates.push(("trafgen", counted(received(&right, seconds, |_| drop(run.until(seconds))))));
    } else {
        println!("  skipped: trafgen (Debian: apt-get install netsniff-ng)");
    }
    rates
}
