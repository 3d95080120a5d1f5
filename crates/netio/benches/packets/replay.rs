//! How well a replay meets its times, by the kernel's stamps at the peer.

use std::sync::atomic::{AtomicBool, Ordering};

use engine::{Span, Time};
use netio::clock::{Epoch, Instant};
use netio::pacer::{self, Pacer};
use netio::packet_io::{Options, PacketIo, Receive, Transmit};

use crate::pair::pair;
use crate::peers::{self, Directory};
use crate::rate::frame;
use crate::{Settings, quantiles};

const BURST: usize = 32;
/// Where a frame's number is.
const NUMBER: usize = 60;

/// A packet of a trace.
struct Planned {
    at: Time,
    frame: Vec<u8>,
}

/// Packets in bursts: four of five follow the one before by 8 µs, the others by up to a limit that gives the
/// mean rate; two of three are full segments.
fn trace(packets: usize, length: Span) -> Vec<Planned> {
    let mean = length.as_nanos() / packets as u64;
    let limit = mean.saturating_mul(5).saturating_sub(4 * 8_000).saturating_mul(2).max(1);
    let mut state = 1u64;
    let mut draw = |below: u64| {
        // Knuth's multiplier, MMIX.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut at = 0;
    (0..packets)
        .map(|number| {
            at += if draw(5) < 4 { 8_000 } else { draw(limit) };
            let mut frame = frame(if draw(3) < 2 { 1514 } else { 94 }, 0);
            frame[NUMBER..NUMBER + 8].copy_from_slice(&(number as u64).to_be_bytes());
            Planned { at: Time::from_nanos(at), frame }
        })
        .collect()
}

pub(crate) fn replay(settings: &Settings) {
    let (packets, seconds) = (settings.get("packets", 60_000usize), settings.get("seconds", 2u64));
    let (rounds, real_time) = (settings.get("rounds", 3usize), settings.get("realtime", false));
    let trace = trace(packets, Span::from_secs(seconds));
    println!(
        "\nreplay: {packets} packets over {}, from when they are due to the kernel's stamp at the peer",
        trace.last().unwrap().at
    );
    for round in 1..=rounds {
        let [left, right] = pair();
        let (mut transmit, _) = PacketIo::open_in(&left, "a", &Options::default()).unwrap().split();
        let (_, mut receive) = PacketIo::open_in(&right, "b", &Options::default()).unwrap().split();
        let epoch = Epoch::now();
        let begin = epoch.time() + Span::from_millis(100);
        let mut account = None;
        let stamps = stamps(&mut receive, packets, || {
            account = Some(send(&mut transmit, &trace, epoch, begin, real_time));
        });
        let late = |at: Instant, planned: &Planned| {
            let due = epoch.instant(begin + planned.at.since(Time::ZERO));
            at.as_nanos().cast_signed() - due.as_nanos().cast_signed()
        };
        let account = account.unwrap();
        show(&format!("narrows {round}"), &trace, &stamps, late);
        println!(
            "    its own account: waits ended p50 {:.2} µs, p99 {:.1} µs late; {} stalls, {:.1} ms in all, longest {:.1} ms",
            account.lateness.value_at_quantile(0.5) as f64 / 1e3,
            account.lateness.value_at_quantile(0.99) as f64 / 1e3,
            account.stalls.count,
            account.stalls.total.as_nanos() as f64 / 1e6,
            account.stalls.longest.as_nanos() as f64 / 1e6,
        );
        drop(transmit);
        if !peers::is_there("tcpreplay") {
            println!("  skipped: tcpreplay (Debian: apt-get install tcpreplay)");
            continue;
        }
        let directory = Directory::new();
        let capture = peers::pcap(trace.iter().map(|planned| (planned.at.as_nanos(), &planned.frame[..])));
        let capture = directory.file("replay.pcap", &capture);
        let stamps = self::stamps(&mut receive, packets, || peers::tcpreplay(&left, &capture).wait());
        // It has no clock that we know of: its first packet is taken as on time.
        if let Some(first) = stamps[0] {
            let late = |at: Instant, planned: &Planned| {
                at.since(first).as_nanos().cast_signed() - planned.at.since(trace[0].at).as_nanos().cast_signed()
            };
            show(&format!("tcpreplay {round}"), &trace, &stamps, late);
        }
    }
}

fn send(transmit: &mut Transmit, trace: &[Planned], epoch: Epoch, begin: Time, real_time: bool) -> pacer::Account {
    let options = pacer::Options { real_time, ..pacer::Options::default() };
    let mut pacer = Pacer::new(epoch, None, options).unwrap();
    assert_eq!(pacer.is_real_time(), real_time, "running before others needs real root");
    let due = |planned: &Planned| begin + planned.at.since(Time::ZERO);
    let mut next = 0;
    while let Some(first) = trace.get(next) {
        let now = pacer.wait(due(first));
        for planned in trace[next..].iter().take(BURST).take_while(|planned| due(planned) <= now) {
            let Some(slot) = transmit.slot() else { break };
            slot.frame[..planned.frame.len()].copy_from_slice(&planned.frame);
            transmit.commit(0..planned.frame.len());
            next += 1;
        }
        transmit.flush();
        pacer.worked_since(now);
    }
    pacer.account().clone()
}

/// When the kernel got each frame that came in until `send` was done.
fn stamps(receive: &mut Receive, packets: usize, send: impl FnOnce() + Send) -> Vec<Option<Instant>> {
    let mut stamps = vec![None; packets];
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            loop {
                let last = done.load(Ordering::Acquire);
                receive.wait(Span::from_millis(10));
                receive.receive(4096, |frame, at| {
                    let number =
                        frame.get(NUMBER..NUMBER + 8).map(|bytes| u64::from_be_bytes(bytes.try_into().unwrap()));
                    if let Some(stamp) = number.and_then(|number| stamps.get_mut(usize::try_from(number).ok()?)) {
                        *stamp = Some(at);
                    }
                });
                if last {
                    break;
                }
            }
        });
        // On a thread of its own, whose priority and processor end with it.
        scope.spawn(send).join().unwrap();
        done.store(true, Ordering::Release);
    });
    stamps
}

fn show(name: &str, trace: &[Planned], stamps: &[Option<Instant>], late: impl Fn(Instant, &Planned) -> i64) {
    /// Later than that is a stall of the machine.
    const STALL: i64 = 1_000_000;
    let mut all: Vec<i64> =
        trace.iter().zip(stamps).filter_map(|(planned, stamp)| Some(late((*stamp)?, planned))).collect();
    let mut calm: Vec<i64> = all.iter().copied().filter(|late| *late <= STALL).collect();
    all.sort_unstable();
    calm.sort_unstable();
    println!("  {name:<12} {} of {} arrived; late: {}", all.len(), trace.len(), quantiles(&all));
    println!("  {:<12} but for {} over 1 ms late: {}", "", all.len() - calm.len(), quantiles(&calm));
}
