//! Figures of real runs beside those of other real runs, of virtual ones, and of iperf3.
//!
//! Tolerances are stated where they are used and derived from the spread between intervals; what
//! must never be, a packet before its time, has none.

use std::process::Command;

use measure::{CellRecord, FlowRecord, PacketCounts, Recording};

use crate::common::{Place, can_isolate, judged, narrows, needs, recording, succeed, turn};

fn run(place: &Place, out: &str, options: &[&str]) -> Recording {
    let arguments = [&["run", "scenario.yaml", "--out", out], options].concat();
    succeed(&mut narrows(place, arguments));
    recording(&place.join(out))
}

fn flow<'a>(cell: &'a CellRecord, name: &str) -> &'a FlowRecord {
    cell.flows.iter().find(|flow| flow.flow == name).unwrap_or_else(|| panic!("no flow {name} in {cell:?}"))
}

fn packets(flow: &FlowRecord) -> PacketCounts {
    flow.packets.unwrap()
}

/// Mean, and its standard error.
fn mean(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, (variance / n).sqrt())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
fn cells_side_by_side_and_alone_agree() {
    if !can_isolate() {
        return;
    }
    let (place, _turn) = (Place::new(), turn());
    place.scenario(
        "name: sides\nsites: [ship, shore]\nseed: 4\n\
         links: {radio: {ends: [ship, shore], rate: 10Mbit/s, delay: 30ms}}\n\
         traffic:\n\
         \x20 data: {from: ship, to: shore, udp: {rate: 1Mbit/s, size: 500B}}\n\
         \x20 probe: {from: ship, to: shore, ping: {interval: 50ms}}\n\
         measure: {duration: 1s, interval: 250ms, repeat: 6}\n",
    );
    let (alone, beside) = (run(&place, "alone", &["--jobs", "1"]), run(&place, "beside", &["--jobs", "6"]));
    assert_eq!((alone.cells.len(), beside.cells.len()), (6, 6));
    assert!(alone.cells.iter().all(|cell| cell.health.cells_beside == 1));
    assert!(beside.cells.iter().any(|cell| cell.health.cells_beside > 1), "no cells ran side by side");

    let trusted = |recording: &Recording| recording.cells.iter().filter(|cell| judged(cell)).count();
    if trusted(&alone) < 2 || trusted(&beside) < 2 {
        println!("skipped: the machine is too busy for figures to compare");
        return;
    }
    let intervals = |recording: &Recording, value: fn(&CellRecord) -> Vec<f64>| -> Vec<f64> {
        recording.cells.iter().filter(|cell| cell.health.spoiled.is_none()).flat_map(value).collect()
    };
    let goodput = |cell: &CellRecord| {
        let rates = flow(cell, "data").intervals.iter();
        rates.map(|i| i.received_bytes as f64 * 8.0 / (i.end.saturating_sub(i.start)).as_secs_f64()).collect()
    };
    // The first interval waits 30 ms for its first packet.
    let (a, b) = (mean(&intervals(&alone, goodput)), mean(&intervals(&beside, goodput)));
    // Four standard errors of the intervals, and a datagram an interval for where it is cut.
    let tolerance = 4.0 * a.1.hypot(b.1) + 500.0 * 8.0 / 0.25;
    assert!((a.0 - b.0).abs() <= tolerance, "goodput {a:?} alone, {b:?} beside, tolerance {tolerance}");

    let delay = |cell: &CellRecord| flow(cell, "data").intervals.iter().filter_map(|i| i.delay_s).collect();
    let rtt = |cell: &CellRecord| flow(cell, "probe").intervals.iter().filter_map(|i| i.rtt_s).collect();
    let values: [fn(&CellRecord) -> Vec<f64>; 2] = [delay, rtt];
    for (what, value, crossings, least) in [("delay", values[0], 1.0, 0.030), ("rtt", values[1], 2.0, 0.060)] {
        let (a, b) = (intervals(&alone, value), intervals(&beside, value));
        assert!(a.iter().chain(&b).all(|&seconds| seconds >= least), "{what}: a packet came early");
        // What a cell calls late is what it calls different: once each way.
        let tolerance = crossings * alone.cells[0].health.late_limit.as_secs_f64();
        let (a, b) = (median(a), median(b));
        assert!((a - b).abs() <= tolerance, "{what} {a} alone, {b} beside, tolerance {tolerance}");
    }
}

#[test]
fn the_same_packets_are_lost_in_real_and_in_virtual_time() {
    if !can_isolate() {
        return;
    }
    let (place, _turn) = (Place::new(), turn());
    // One flow and nothing else in its direction, so that the nth packet is the nth in both runs. A sender
    // that was kept from the CPU makes up for it at once: the queue must hold that.
    place.scenario(
        "name: losses\nsites: [ship, shore]\nseed: 11\n\
         links: {radio: {ends: [ship, shore], rate: 10Mbit/s, delay: 10ms, loss: 0.05, queue: 1000}}\n\
         traffic: {data: {from: ship, to: shore, udp: {rate: 2Mbit/s}}}\n\
         measure: {duration: 2s}\n",
    );
    let (real, simulated) = (run(&place, "real", &[]), run(&place, "virtual", &["--virtual"]));
    let up = |recording: &Recording| recording.cells[0].pipes.iter().find(|p| p.direction == "up").unwrap().clone();
    let (a, b) = (up(&real), up(&simulated));
    assert!(b.dropped_packets() > 50, "{b:?}");
    // The sequences are the same, so that only packets that one run has more than the other differ.
    let more = a.offered_packets.abs_diff(b.offered_packets);
    assert!(more <= b.offered_packets / 100, "{} and {} packets offered", a.offered_packets, b.offered_packets);
    assert!(a.dropped_packets().abs_diff(b.dropped_packets()) <= more, "{a:?} {b:?}");
}

#[test]
fn a_cell_in_real_and_in_virtual_time_has_the_same_delays_and_losses() {
    if !can_isolate() {
        return;
    }
    let (place, _turn) = (Place::new(), turn());
    place.scenario(
        "name: twin\nsites: [ship, shore]\nseed: 5\n\
         links: {radio: {ends: [ship, shore], rate: 10Mbit/s, queue: 1000, loss: 0.03, \
         delay: {uniform: {min: 20ms, max: 60ms}}, reorder: true}}\n\
         traffic:\n\
         \x20 data: {from: ship, to: shore, udp: {rate: 1600kbit/s}}\n\
         \x20 probe: {from: ship, to: shore, ping: {interval: 10ms}}\n\
         measure: {duration: 3s}\n",
    );
    let (real, simulated) = (run(&place, "real", &[]), run(&place, "virtual", &["--virtual"]));
    let (a, b) = (&real.cells[0], &simulated.cells[0]);
    for (name, ways) in [("data", 1), ("probe", 2)] {
        let (a, b) = (packets(flow(a, name)), packets(flow(b, name)));
        assert!(a.sent.abs_diff(b.sent) <= 1 + b.sent / 100, "{name}: {a:?} {b:?}");
        let p = 1.0 - 0.97_f64.powi(ways);
        for counts in [a, b] {
            // Five standard deviations of a binomial: one test in two million fails without a fault.
            let lost = counts.sent - counts.received;
            let deviation = (counts.sent as f64 * p * (1.0 - p)).sqrt();
            assert!((lost as f64 - counts.sent as f64 * p).abs() <= 5.0 * deviation, "{name}: {counts:?}");
        }
    }
    let never_early = [("data", flow(a, "data").delay, 0.020), ("probe", flow(a, "probe").rtt, 0.040)];
    for (name, quantiles, least) in never_early {
        assert!(quantiles.unwrap().min >= least, "{name} came early: {quantiles:?}");
    }
    if !judged(a) {
        return;
    }
    let pairs = [
        (flow(a, "data").delay, flow(b, "data").delay, 0.040, 1.0),
        (flow(a, "probe").rtt, flow(b, "probe").rtt, 0.080, 2.0),
    ];
    for (real, simulated, range, crossings) in pairs {
        let (real, simulated) = (real.unwrap(), simulated.unwrap());
        for (at, a, b) in [(0.5, real.p50, simulated.p50), (0.9, real.p90, simulated.p90)] {
            // Four standard errors of the two quantiles, were the delay uniform over its range (a
            // round trip is closer to its middle), and what counts as late.
            let error = |count: u64| (at * (1.0 - at) / count as f64).sqrt() * range;
            let tolerance = 4.0 * error(real.count).hypot(error(simulated.count)) + crossings * 0.001;
            assert!((a - b).abs() <= tolerance, "quantile {at}: {a} real, {b} virtual, tolerance {tolerance}");
        }
    }
}

#[test]
fn three_sites_in_a_row_take_the_sum_of_their_delays() {
    if !can_isolate() {
        return;
    }
    let (place, _turn) = (Place::new(), turn());
    place.scenario(
        "name: row\nsites: [ship, relay, shore]\nseed: 6\n\
         links:\n\
         \x20 near: {ends: [ship, relay], rate: 20Mbit/s, delay: 10ms}\n\
         \x20 far: {ends: [relay, shore], rate: 20Mbit/s, delay: 25ms}\n\
         paths: {host: {mtu: 1440}, overlay: {vxlan: {mtu: 1440}}}\n\
         traffic:\n\
         \x20 bulk: {from: ship, to: shore, tcp: {rate: 1Mbit/s}}\n\
         \x20 data: {from: shore, to: ship, udp: {rate: 500kbit/s, size: 1400B}}\n\
         \x20 probe: {from: ship, to: shore, ping: {interval: 50ms}}\n\
         sweep: {path: [host, overlay]}\n\
         measure: {duration: 2s}\n",
    );
    for (out, options) in [("real", &[][..]), ("virtual", &["--virtual"])] {
        let recording = run(&place, out, options);
        assert_eq!(recording.cells.len(), 2);
        for cell in &recording.cells {
            let what = format!("{out} {:?}", cell.coordinates);
            let (bulk, data, probe) = (flow(cell, "bulk"), flow(cell, "data"), flow(cell, "probe"));
            assert!(bulk.connect.unwrap().as_secs_f64() >= 0.070, "{what}: {bulk:?}");
            assert!(bulk.received_bytes > 0, "{what}: {bulk:?}");
            assert!(data.delay.unwrap().min >= 0.035, "{what}: {:?}", data.delay);
            assert!(probe.rtt.unwrap().min >= 0.070, "{what}: {:?}", probe.rtt);
            for flow in [data, probe] {
                let counts = packets(flow);
                assert_eq!((counts.received, counts.duplicated), (counts.sent, 0), "{what}: {flow:?}");
            }
            // What leaves one link passes the relay to the other, but for what was there at the end.
            let pipe = |link: &str| cell.pipes.iter().find(|p| p.link == link && p.direction == "up").unwrap();
            let (near, far) = (pipe("near").delivered_packets, pipe("far").offered_packets);
            assert!(near > 100 && (far..far + 10).contains(&near), "{what}: {near} {far}");
            if judged(cell) {
                // Ten milliseconds are five times what either link's queue can hold of this traffic.
                assert!(probe.rtt.unwrap().p50 < 0.080, "{what}: {:?}", probe.rtt);
                assert!(bulk.goodput_bit_s().unwrap() > 0.8e6, "{what}: {bulk:?}");
            }
        }
    }
}

#[test]
fn the_own_endpoints_and_iperf3_agree() {
    if !can_isolate() || !needs("iperf3", Command::new("iperf3").arg("--version")) {
        return;
    }
    let (place, _turn) = (Place::new(), turn());
    place.scenario(
        "name: engines\nsites: [ship, shore]\n\
         links: {radio: {ends: [ship, shore], rate: 20Mbit/s, delay: 10ms}}\n\
         traffic: {bulk: {from: ship, to: shore, tcp: {rate: 2Mbit/s}}}\n\
         sweep: {traffic.bulk.tcp.engine: [own, iperf3]}\n\
         measure: {duration: 3s, interval: 1s, warmup: 1s}\n",
    );
    let recording = run(&place, "r", &[]);
    let engines: Vec<&str> = recording.cells.iter().map(|cell| cell.flows[0].engine.as_ref()).collect();
    assert_eq!(engines, ["own", "iperf3"]);
    if !recording.cells.iter().all(judged) {
        return;
    }
    let rates: Vec<f64> = recording.cells.iter().map(|cell| cell.flows[0].goodput_bit_s().unwrap()).collect();
    // A write is a tenth of a second's data: at either end of three seconds one may be cut.
    let tolerance = 2e6 * 2.0 * 0.1 / 3.0;
    assert!((rates[0] - rates[1]).abs() <= tolerance, "{rates:?}, tolerance {tolerance}");
    assert!(rates.iter().all(|rate| (rate - 2e6).abs() <= tolerance), "{rates:?}");
}
