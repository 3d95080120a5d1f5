//! Packets a second through the UPF, without input and output, on one core: `cargo bench -p narrows-userplane --bench upf`.
//!
//! Each packet is copied into a buffer, as from a receive ring, and changed there.

#![allow(missing_docs, reason = "criterion makes functions without")]
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

#[allow(dead_code, reason = "what the tests need besides")]
#[path = "../tests/upf/lab.rs"]
mod lab;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use engine::Time;
use userplane::upf::{Direction, HEADROOM, Side, Upf, Verdict};
use wire::gtpu::Qfi;
use wire::pfcp::rules::{CreateQer, CreateUrr};
use wire::pfcp::value::{
    Addresses, BitRates, FTeid, MeasurementMethod, QerId, ReportingTriggers, UeIp, UrrId, Volumes,
};

use lab::*;

const PACKETS: usize = 10_000;

/// A UPF with sessions, each with a flow to mark, a rate that is never reached, and a volume that is reported.
fn upf(sessions: u32) -> Upf {
    let mut lab = lab();
    for n in 0..sessions {
        let mut request = establishment();
        request.cp_fseid.seid += u64::from(n);
        let addresses = Addresses::V4(UPF_N3);
        request.create_pdr[0].pdi.teid = Some(FTeid::Fixed { teid: TEID + n, addresses });
        let mbr = Some(BitRates { uplink: 1_000_000_000, downlink: 1_000_000_000 });
        let qfi = Qfi::new(9);
        request.create_qer = vec![CreateQer { id: QerId(1), qfi, mbr, ..CreateQer::default() }];
        request.create_urr = vec![CreateUrr {
            id: UrrId(1),
            method: MeasurementMethod::VOLUM,
            triggers: ReportingTriggers::VOLTH,
            volume_threshold: Some(Volumes { total: Some(1 << 40), ..Volumes::default() }),
            ..CreateUrr::default()
        }];
        for (pdr, destination) in request.create_pdr.iter_mut().zip([false, true]) {
            let ue = Addresses::V4((u32::from(UE) + n).into());
            pdr.pdi.ue_ip = vec![UeIp::new(ue, destination)];
            (pdr.qer, pdr.urr) = (vec![QerId(1)], vec![UrrId(1)]);
        }
        lab.session(request);
    }
    lab.upf
}

fn frames(direction: Direction, sessions: u32, len: usize) -> Vec<(Side, Vec<u8>)> {
    let mut random = engine::Random::stream(1, "bench");
    let frame = |n: u32| {
        let ue = std::net::Ipv4Addr::from(u32::from(UE) + n);
        let payload = vec![0; len - 28];
        match direction {
            Direction::Uplink => (Side::N3, from_gnb(&tunnelled(TEID + n, Some(9), &packet(ue, SERVER, &payload)))),
            Direction::Downlink => (Side::N6, from_server(&packet(SERVER, ue, &payload))),
        }
    };
    (0..PACKETS.min(sessions as usize * 4)).map(|_| frame(random.below(sessions.into()) as u32)).collect()
}

fn forwarding(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("upf");
    group.throughput(Throughput::Elements(PACKETS as u64));
    for sessions in [1, 10_000, 100_000] {
        let mut upf = upf(sessions);
        for (direction, name) in [(Direction::Uplink, "uplink"), (Direction::Downlink, "downlink")] {
            for len in [100, 1_400] {
                let frames = frames(direction, sessions, len);
                let mut buffer = vec![0; 2_048];
                let mut now = Time::ZERO;
                let id = format!("{name}, {len} bytes, {sessions} sessions");
                group.bench_function(id, |bencher| {
                    bencher.iter(|| {
                        for (side, frame) in frames.iter().cycle().take(PACKETS) {
                            now += engine::Span::from_nanos(100);
                            let at = HEADROOM..HEADROOM + frame.len();
                            buffer[at.clone()].copy_from_slice(frame);
                            let verdict = upf.handle(now, *side, &mut buffer, at);
                            assert!(matches!(verdict, Verdict::Send { .. }));
                        }
                        // Neighbours are asked again now and then, and do not answer here.
                        now = Time::ZERO;
                        while upf.poll().is_some() {}
                    });
                });
            }
        }
    }
    group.finish();
}

criterion_group!(benches, forwarding);
criterion_main!(benches);
