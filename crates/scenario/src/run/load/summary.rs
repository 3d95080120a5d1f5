//! The figures of a load.

use engine::Span;
use hdrhistogram::Histogram;
use serde::Serialize;
use userplane::load::{DIRECTIONS, Population, index};

use crate::load::LoadPlan;
use crate::run::load::Passage;
use crate::run::load::sessions::SessionAccount;
use crate::run::load::table::Sample;
use crate::run::upf::UpfAccount;

/// What came of a load.
#[derive(Clone, Debug, Serialize)]
pub struct LoadSummary {
    /// The load's name.
    pub name: String,
    /// Seed of the run.
    pub seed: u64,
    /// How long packets were sent, in seconds.
    pub elapsed_s: f64,
    /// N4.
    pub sessions: SessionAccount,
    /// All groups, uplink and downlink.
    pub all: [Way; 2],
    /// Each group, uplink and downlink, if there are several.
    pub groups: Vec<(String, [Way; 2])>,
    /// How the own machine kept up.
    pub machine: Machine,
    /// Frames that came in and were nobody's, by reason.
    pub others: Vec<(&'static str, u64)>,
    /// What the own UPF counted.
    pub upf: Option<serde_json::Value>,
}

/// Traffic in one direction, from where it was sent to where it came out of the UPF.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Way {
    /// Packets sent.
    pub sent_packets: u64,
    /// Bytes of their frames, on the interface they left by.
    pub sent_bytes: u64,
    /// Packets whose time came but which were not sent before the end: the machine could not keep up.
    pub unsent_packets: u64,
    /// Packets that came back, without copies.
    pub received_packets: u64,
    /// Bytes of their frames, on the interface they came by.
    pub received_bytes: u64,
    /// Sent and not received.
    pub lost_packets: u64,
    /// Lost over sent (the thesis's loss ratio).
    pub loss: f64,
    /// Copies beyond the first.
    pub duplicated_packets: u64,
    /// First copies that came after a later packet of their flow.
    pub reordered_packets: u64,
    /// Sent, in packets a second and bit/s.
    pub sent_packets_s: f64,
    /// See `sent_packets_s`.
    pub sent_bit_s: f64,
    /// Received, in packets a second and bit/s (the thesis's incoming throughput).
    pub received_packets_s: f64,
    /// See `received_packets_s`.
    pub received_bit_s: f64,
    /// Most packets received in one sample.
    pub peak_sample_packets: u64,
    /// Median of the samples' mean latencies (the thesis's delay).
    pub delay_s: Option<f64>,
    /// Latency of packets: quantiles and largest.
    pub latency_p50_s: Option<f64>,
    /// See `latency_p50_s`.
    pub latency_p90_s: Option<f64>,
    /// See `latency_p50_s`.
    pub latency_p99_s: Option<f64>,
    /// See `latency_p50_s`.
    pub latency_p999_s: Option<f64>,
    /// See `latency_p50_s`.
    pub latency_max_s: Option<f64>,
}

/// How the machine kept up, apart from the UPF.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// By how much packets left after their time: median, 99th percentile, largest, in seconds.
    pub lateness_p50_s: f64,
    /// See `lateness_p50_s`.
    pub lateness_p99_s: f64,
    /// See `lateness_p50_s`.
    pub lateness_max_s: f64,
    /// Times that the machine took the processor from the sender.
    pub stalls: u64,
    /// For how long together, in seconds.
    pub stalled_s: f64,
    /// Times that the kernel had no room for a packet just then.
    pub full: u64,
    /// Packets the kernel did not take.
    pub refused: u64,
    /// Packets that no frame of the interface holds.
    pub unwritable: u64,
    /// Frames the kernel dropped before they were received, at N6 and N3; nothing if that is not known.
    pub dropped: [Option<u64>; 2],
    /// Frames left out of the capture.
    pub uncaptured: u64,
    /// Packets of stateful traces that waited beyond their time for one they answer.
    pub waited: u64,
    /// Of these, packets sent without it as it did not come in time.
    pub timed_out: u64,
    /// Packets that came and of which stateful traces could not be told.
    pub untold: u64,
}

pub(super) fn of(
    plan: &LoadPlan,
    population: &Population,
    passage: &Passage,
    sessions: SessionAccount,
    upf: Option<UpfAccount>,
) -> LoadSummary {
    let one = |group: usize| DIRECTIONS.map(|direction| way(passage, &[group], index(direction)));
    let groups = if population.groups().len() > 1 {
        population.groups().iter().enumerate().map(|(i, group)| (group.name.clone(), one(i))).collect()
    } else {
        Vec::new()
    };
    let sent = &passage.sent;
    let seconds = |nanos: u64| nanos as f64 / 1e9;
    let refused = passage.refused.iter().flatten().map(|(_, count)| count).sum();
    let machine = Machine {
        lateness_p50_s: seconds(sent.lateness.value_at_quantile(0.5)),
        lateness_p99_s: seconds(sent.lateness.value_at_quantile(0.99)),
        lateness_max_s: seconds(sent.lateness.max()),
        stalls: sent.pacing.stalls.count,
        stalled_s: sent.pacing.stalls.total.as_secs_f64(),
        full: sent.full,
        refused,
        unwritable: sent.unwritable,
        dropped: passage.heard.each_ref().map(|heard| heard.dropped),
        uncaptured: passage.captured.map_or(0, |written| written.overflowed + written.beyond_limit),
        waited: sent.waits.waited,
        timed_out: sent.waits.timed_out,
        untold: passage.heard.iter().map(|heard| heard.untold).sum(),
    };
    let mut others: Vec<(&'static str, u64)> = Vec::new();
    for heard in &passage.heard {
        let seen = heard.receiver.others();
        for (what, count) in [
            ("by another UE's tunnel", seen.misrouted),
            ("without this run's stamp", seen.unstamped),
            ("GTP-U echo requests", seen.echoes),
            ("GTP-U error indications", seen.error_indications),
            ("GTP-U end markers", seen.end_markers),
            ("GTP-U not to be read", seen.malformed),
            ("of nobody here", seen.foreign),
            ("super-frames not to be cut", heard.malformed),
        ] {
            match others.iter_mut().find(|(known, _)| *known == what) {
                Some((_, sum)) => *sum += count,
                None => others.push((what, count)),
            }
        }
    }
    others.retain(|(_, count)| *count > 0);
    LoadSummary {
        name: plan.name.clone(),
        seed: plan.seed,
        elapsed_s: passage.elapsed.as_secs_f64(),
        sessions,
        all: ways(passage),
        groups,
        machine,
        others,
        upf: upf.map(|upf| upf.json()),
    }
}

/// The figures of all groups together, uplink and downlink.
pub(super) fn ways(passage: &Passage) -> [Way; 2] {
    let everything: Vec<usize> = (0..passage.sent.groups.len()).collect();
    let samples = || passage.samples.iter().map(|(sample, _)| sample);
    DIRECTIONS.map(index).map(|number| Way {
        peak_sample_packets: samples().map(|sample| sample.back[number].packets).max().unwrap_or(0),
        delay_s: median(samples().filter_map(|sample: &Sample| sample.latency_s(number)).collect()),
        ..way(passage, &everything, number)
    })
}

fn way(passage: &Passage, groups: &[usize], way: usize) -> Way {
    let mut figures = Way::default();
    let mut latencies = measure::delay_histogram();
    let heard = &passage.heard[way];
    for &group in groups {
        let (out, inward) = (passage.sent.groups[group][way], heard.receiver.groups()[group]);
        figures.sent_packets += out.packets;
        figures.sent_bytes += out.bytes;
        figures.unsent_packets += passage.sent.unsent[group][way];
        figures.received_packets += inward.volume.packets - inward.duplicated;
        figures.received_bytes += inward.volume.bytes;
        figures.duplicated_packets += inward.duplicated;
        figures.reordered_packets += inward.reordered;
        let _ = latencies.add(&heard.latencies[group]);
    }
    figures.lost_packets = figures.sent_packets.saturating_sub(figures.received_packets);
    figures.loss =
        if figures.sent_packets > 0 { figures.lost_packets as f64 / figures.sent_packets as f64 } else { 0.0 };
    let seconds = passage.elapsed.max(Span::from_nanos(1)).as_secs_f64();
    figures.sent_packets_s = figures.sent_packets as f64 / seconds;
    figures.sent_bit_s = figures.sent_bytes as f64 * 8.0 / seconds;
    figures.received_packets_s = figures.received_packets as f64 / seconds;
    figures.received_bit_s = figures.received_bytes as f64 * 8.0 / seconds;
    let quantile = |q: f64, of: &Histogram<u64>| (!of.is_empty()).then(|| of.value_at_quantile(q) as f64 / 1e9);
    figures.latency_p50_s = quantile(0.5, &latencies);
    figures.latency_p90_s = quantile(0.9, &latencies);
    figures.latency_p99_s = quantile(0.99, &latencies);
    figures.latency_p999_s = quantile(0.999, &latencies);
    figures.latency_max_s = (!latencies.is_empty()).then(|| latencies.max() as f64 / 1e9);
    figures
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

impl LoadSummary {
    /// The figures in words, line by line.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        use measure::format::{count, duration};
        let mut lines = Vec::new();
        let sessions = &self.sessions;
        lines.push(format!(
            "{} of {} sessions, established in {}",
            count(sessions.established),
            count(sessions.wanted),
            duration(sessions.took_ns as f64 / 1e9)
        ));
        let mut table = |name: &str, ways: &[Way; 2]| {
            for (way, name) in ways.iter().zip([format!("{name}uplink"), format!("{name}downlink")]) {
                if way.sent_packets + way.received_packets + way.unsent_packets == 0 {
                    continue;
                }
                lines.push(format!(
                    "{name}: {} sent, {} received, loss {}, {:.4} Gbit/s in, {:.0} packets/s",
                    count(way.sent_packets),
                    count(way.received_packets),
                    way.loss,
                    way.received_bit_s / 1e9,
                    way.received_packets_s
                ));
                let time = |value: Option<f64>| value.map_or("-".into(), duration);
                lines.push(format!(
                    "  latency: median of samples {}, of packets {}, p99 {}, max {}",
                    time(way.delay_s.or(way.latency_p50_s)),
                    time(way.latency_p50_s),
                    time(way.latency_p99_s),
                    time(way.latency_max_s)
                ));
                for (packets, what) in [
                    (way.duplicated_packets, "came twice"),
                    (way.reordered_packets, "came after later ones"),
                    (way.unsent_packets, "could not be sent in time: this machine did not keep up"),
                ] {
                    if packets > 0 {
                        lines.push(format!("  {} packets {what}", count(packets)));
                    }
                }
            }
        };
        table("", &self.all);
        for (name, ways) in &self.groups {
            table(&format!("{name} "), ways);
        }
        let machine = &self.machine;
        lines.push(format!(
            "own lateness: median {}, p99 {}, max {}; {} of {} in all",
            duration(machine.lateness_p50_s),
            duration(machine.lateness_p99_s),
            duration(machine.lateness_max_s),
            if machine.stalls == 1 { "one stall".into() } else { format!("{} stalls", count(machine.stalls)) },
            duration(machine.stalled_s)
        ));
        let dropped = machine.dropped.iter().flatten().sum::<u64>();
        for (number, what) in [
            (machine.refused, "packets were refused by the kernel"),
            (machine.unwritable, "packets were too long to send"),
            (dropped, "frames were dropped by the kernel before they were received: figures of loss are too high"),
            (machine.uncaptured, "frames are missing in the capture"),
            (machine.waited, "packets waited for one they answer"),
            (machine.timed_out, "packets were sent without the one they answer, which did not come in time"),
            (machine.untold, "packets came that waiting ones could not be told of: too many at once"),
        ] {
            if number > 0 {
                lines.push(format!("{} {what}", count(number)));
            }
        }
        for (what, number) in &self.others {
            lines.push(format!("came in: {} {what}", count(*number)));
        }
        lines
    }
}
