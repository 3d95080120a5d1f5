//! A load as a cell of a scenario: what becomes of it in the common record.

use std::path::PathBuf;

use engine::{Span, Time};
use hdrhistogram::Histogram;
use measure::{Health, LoadRecord, Observation, PacketCounts, Quantiles, Snapshot, delay_histogram};
use netio::packet_io::Choice;

use crate::load::{Load, LoadPlan, Sizes};
use crate::run::load::network::Between;
use crate::run::load::sources::{Material, Part};
use crate::run::load::{LEAD, LoadError, LoadNews, Passage, Rig, summary};
use crate::run::upf::UpfAccount;

/// What came of a load.
pub(crate) struct Measured {
    /// Both directions and all groups together.
    pub(crate) observation: Observation,
    pub(crate) health: Health,
    pub(crate) lateness: Histogram<u64>,
    /// What the own UPF counted.
    pub(crate) upf: Option<UpfAccount>,
}

/// A sender that leaves more than this share of its packets unsent says nothing of the UPF.
const UNSENT_SHARE: f64 = 0.005;

/// Packets that leave later than this after their time are counted as late.
const LATE: Span = Span::from_millis(1);

/// Runs a load and writes nothing. `between` gets the emulator onto N3 and N6.
pub(crate) fn run_cell(
    plan: &LoadPlan,
    between: Option<&mut Between<'_>>,
    tell: &mut dyn FnMut(LoadNews<'_>),
) -> Result<Measured, LoadError> {
    let material = Material::read(plan, &mut |note| tell(LoadNews::Note(note)))?;
    let mut rig = Rig::build(plan, &material, Choice::Auto, between, tell)?;
    let part = Part { start: Time::ZERO + LEAD, lasts: plan.duration };
    let passage = material.sources(plan, part).and_then(|sources| rig.send(sources, part, None, tell));
    let (_, upf) = rig.end(tell);
    let passage = passage?;
    if passage.interrupted {
        return Err(LoadError::Interrupted);
    }
    let (observation, health) = (observe(plan, &passage), health(&passage));
    Ok(Measured { observation, health, lateness: passage.sent.lateness, upf })
}

/// The captures that a load reads.
pub(crate) fn captures(plan: &LoadPlan) -> Vec<PathBuf> {
    let path = |load: &Load| match load {
        Load::Trace(trace) => Some(trace.path.clone()),
        Load::Model { sizes: Sizes::Capture(path), .. } => Some(path.clone()),
        Load::Model { .. } | Load::Nothing => None,
    };
    plan.groups.iter().filter_map(|group| path(&group.load)).collect()
}

fn observe(plan: &LoadPlan, passage: &Passage) -> Observation {
    let ways = summary::ways(passage);
    let sum = |figure: fn(&summary::Way) -> u64| ways.iter().map(figure).sum::<u64>();
    let counts = PacketCounts {
        sent: sum(|way| way.sent_packets),
        received: sum(|way| way.received_packets),
        duplicated: sum(|way| way.duplicated_packets),
        reordered: sum(|way| way.reordered_packets),
    };
    let mut delays = delay_histogram();
    for histogram in passage.heard.iter().flat_map(|heard| &heard.latencies) {
        // Both have the same bounds.
        let _ = delays.add(histogram);
    }
    // What comes after the end counts with the last sample: goodput is over the load's own length.
    let last = (plan.duration.as_nanos() * u64::from(plan.samples_per_second)).div_ceil(1_000_000_000).max(1);
    let mut snapshots = vec![Snapshot { packets: Some(PacketCounts::default()), ..Snapshot::default() }];
    let (mut now, mut total) = (Snapshot::default(), PacketCounts::default());
    let (mut means, mut peaks) = (Vec::new(), (0, 0));
    for (number, (sample, _)) in (1..).zip(&passage.samples) {
        let [sent, received] =
            [&sample.out, &sample.back].map(|ways| (ways[0].packets + ways[1].packets, ways[0].bytes + ways[1].bytes));
        peaks = (peaks.0.max(sent.0), peaks.1.max(received.0));
        total.sent += sent.0;
        total.received += received.0;
        now.sent_bytes += sent.1;
        now.received_bytes += received.1;
        let timed = sample.timed[0] + sample.timed[1];
        let mean = (timed > 0).then(|| (sample.latency_ns[0] + sample.latency_ns[1]) / timed);
        means.extend(mean);
        now.packets = Some(total);
        now.delay = mean.map(Span::from_nanos);
        now.at = Time::ZERO + Span::from_nanos(number * 1_000_000_000 / u64::from(plan.samples_per_second));
        if number < last {
            snapshots.push(now);
        }
    }
    now.at = Time::ZERO + plan.duration;
    snapshots.push(now);
    means.sort_unstable();
    let middle = means.len() / 2;
    let sample_delay_s = match means.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(means[middle] as f64 / 1e9),
        _ => Some((means[middle - 1] + means[middle]) as f64 / 2e9),
    };
    let packets_s = counts.received as f64 / plan.duration.as_secs_f64();
    let load = LoadRecord { packets_s, sample_delay_s, peak_sent: peaks.0, peak_received: peaks.1 };
    Observation { snapshots, packets: Some(counts), delays, load: Some(load), ..Observation::new() }
}

/// How the machine kept up, and whether that spoils what was measured of the UPF.
fn health(passage: &Passage) -> Health {
    let sent = &passage.sent;
    let packets: u64 = sent.groups.iter().flatten().map(|volume| volume.packets).sum();
    let unsent: u64 = sent.unsent.iter().flatten().sum();
    let unsent_share = unsent as f64 / ((packets + unsent).max(1)) as f64;
    let dropped = passage.heard.iter().try_fold(0, |sum, heard| Some(sum + heard.dropped?));
    let refused: u64 = passage.refused.iter().flatten().map(|(_, count)| count).sum();
    let mut reasons = Vec::new();
    if unsent_share > UNSENT_SHARE {
        reasons.push(format!("{:.1} % of the packets could not be sent in time by this machine", unsent_share * 100.0));
    }
    match dropped {
        Some(0) => {}
        Some(frames) => reasons.push(format!("the kernel lost {frames} frames before the receiver")),
        None => reasons.push("how many frames the kernel lost before the receiver is not known".into()),
    }
    if refused + sent.unwritable > 0 {
        reasons.push(format!("{} packets were not taken by the kernel", refused + sent.unwritable));
    }
    Health {
        packets,
        late_packets: sent.lateness.len() - sent.lateness.count_between(0, LATE.as_nanos()),
        late_limit: LATE,
        lateness: Quantiles::of_nanos(&sent.lateness).unwrap_or_default(),
        stalls: sent.pacing.stalls.count,
        stalled: sent.pacing.stalls.total,
        kernel_drops: dropped.unwrap_or(0),
        cells_beside: 1,
        spoiled: (!reasons.is_empty()).then(|| reasons.join("; ")),
        ..Health::default()
    }
}
