//! How well the machine kept up, over all cells.

use std::collections::{BTreeMap, HashSet};

use hdrhistogram::Histogram;

use crate::analysis::{Group, NotJudged};
use crate::record::LATENESS;
use crate::statistics::median;
use crate::{Discarded, Name, Quantiles, Recording};

/// How well the machine kept up while a recording was made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HealthSummary {
    /// Whether time was virtual: nobody waits then, so nothing is late and no CPU time is told.
    pub virtual_time: bool,
    /// Cells of the plan.
    pub planned: usize,
    /// Cells that finished.
    pub finished: usize,
    /// Spoiled cells, and why.
    pub spoiled: Vec<NotJudged>,
    /// Packets the executor sent.
    pub packets: u64,
    /// Of those, how many were late.
    pub late_packets: u64,
    /// What counts as late, in seconds (the largest limit).
    pub late_limit_s: f64,
    /// Lateness of all packets in seconds, where its histograms were kept.
    pub lateness: Option<Quantiles>,
    /// The largest 99th percentile of a cell's lateness in seconds.
    pub worst_p99_s: f64,
    /// The largest lateness of any packet in seconds.
    pub worst_s: f64,
    /// Times the executor was kept from the CPU.
    pub stalls: u64,
    /// For how long in all, in seconds.
    pub stalled_s: f64,
    /// Packets the kernel lost between a site and the executor.
    pub kernel_drops: u64,
    /// CPU time in seconds by part.
    pub cpu_s: Vec<(Name, f64)>,
    /// Share of the machine's CPU time in use: median and largest over the cells.
    pub machine_busy: Option<(f64, f64)>,
    /// Largest share taken by the hypervisor.
    pub machine_steal: f64,
    /// Most cells that ran at the same time.
    pub cells_beside: u32,
    /// What the links dropped.
    pub drops: Vec<Dropped>,
    /// Packets that ended outside the links, over all cells, by place and reason.
    pub discarded: Vec<Discarded>,
}

/// Packets dropped by a pipe for one reason, over all cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// Link, direction and pipe.
    pub pipe: (String, String, String),
    /// Packets that came to the pipe; of a line, characters.
    pub offered: u64,
    /// The reason.
    pub reason: String,
    /// Packets dropped for it; of a line, characters.
    pub packets: u64,
}

pub(crate) fn summary(recording: &Recording, groups: &[Group]) -> HealthSummary {
    let mut all = HealthSummary {
        virtual_time: recording.sessions().last().is_some_and(|session| session.executor == "virtual"),
        planned: recording.outline.cells.len(),
        finished: recording.cells.len(),
        ..HealthSummary::default()
    };
    let mut lateness: Option<Histogram<u64>> = None;
    let mut cpu: BTreeMap<&str, f64> = BTreeMap::new();
    let mut offered: BTreeMap<(&str, &str, &str), u64> = BTreeMap::new();
    let mut drops: BTreeMap<((&str, &str, &str), &str), u64> = BTreeMap::new();
    let mut discarded: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for cell in &recording.cells {
        let health = &cell.health;
        all.packets += health.packets;
        all.late_packets += health.late_packets;
        all.late_limit_s = all.late_limit_s.max(health.late_limit.as_secs_f64());
        all.worst_p99_s = all.worst_p99_s.max(health.lateness.p99);
        all.worst_s = all.worst_s.max(health.lateness.max);
        all.stalls += health.stalls;
        all.stalled_s += health.stalled.as_secs_f64();
        all.kernel_drops += health.kernel_drops;
        all.machine_steal = all.machine_steal.max(health.machine_steal);
        all.cells_beside = all.cells_beside.max(health.cells_beside);
        for (part, seconds) in &health.cpu_s {
            *cpu.entry(part).or_default() += seconds;
        }
        for (_, histogram) in cell.histograms.iter().filter(|(name, _)| name == LATENESS) {
            match &mut lateness {
                None => lateness = Some(histogram.clone()),
                // Histograms of one precision always add up; another one is left out.
                Some(sum) => sum.add(histogram).unwrap_or_default(),
            }
        }
        for Discarded { place, reason, packets } in &cell.discarded {
            *discarded.entry((place, reason)).or_default() += packets;
        }
        for pipe in &cell.pipes {
            let name = (pipe.link.as_str(), pipe.direction.as_ref(), pipe.pipe.as_str());
            *offered.entry(name).or_default() += if pipe.is_line() { pipe.offered_bytes } else { pipe.offered_packets };
            for (reason, packets) in pipe.drops.iter().filter(|(_, packets)| *packets > 0) {
                *drops.entry((name, reason)).or_default() += packets;
            }
        }
    }
    all.lateness = lateness.as_ref().and_then(Quantiles::of_nanos);
    all.cpu_s = cpu.into_iter().map(|(part, seconds)| (Name::Owned(part.to_string()), seconds)).collect();
    let busy: Vec<f64> = recording.cells.iter().map(|cell| cell.health.machine_busy).collect();
    all.machine_busy = median(&busy).zip(crate::statistics::range(&busy)).map(|(middle, (_, most))| (middle, most));
    all.drops = drops
        .into_iter()
        .map(|((pipe, reason), packets)| Dropped {
            pipe: (pipe.0.to_string(), pipe.1.to_string(), pipe.2.to_string()),
            offered: offered.get(&pipe).copied().unwrap_or_default(),
            reason: reason.to_string(),
            packets,
        })
        .collect();
    all.discarded = discarded
        .into_iter()
        .map(|((place, reason), packets)| Discarded { place: place.into(), reason: reason.to_string().into(), packets })
        .collect();
    let spoiled = recording.cells.iter().filter(|cell| cell.health.spoiled.is_some());
    let bent: HashSet<u32> = spoiled.map(|cell| cell.cell).collect();
    let mut named = HashSet::new();
    let entries = groups.iter().flat_map(|group| &group.not_judged);
    // The flows of a cell are spoiled together: each cell is named once.
    let spoiled = entries.filter(|entry| entry.cell.is_some_and(|cell| bent.contains(&cell) && named.insert(cell)));
    all.spoiled = spoiled.cloned().collect();
    all
}
