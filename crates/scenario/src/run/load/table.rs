//! Samples: what the threads counted, put together and written as CSV while the run goes on.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use engine::Span;
use userplane::load::{Direction, Volume, index};

use crate::run::load::threads::{Arrived, Row};

/// Name of the table.
pub const SAMPLES: &str = "samples.csv";

/// One group's sample, or all groups' together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// What was sent, uplink (on N3) and downlink (on N6).
    pub out: [Volume; 2],
    /// What came back of it, uplink (on N6) and downlink (on N3).
    pub back: [Volume; 2],
    /// Of what came back, packets whose payload holds a time, and the sum and the largest of their latencies.
    pub timed: [u64; 2],
    /// See [`timed`](Self::timed).
    pub latency_ns: [u64; 2],
    /// See [`timed`](Self::timed).
    pub latency_max: [Span; 2],
}

impl Sample {
    /// Mean latency of what came back in seconds, if anything did.
    #[must_use]
    pub fn latency_s(&self, way: usize) -> Option<f64> {
        (self.timed[way] > 0).then(|| self.latency_ns[way] as f64 / self.timed[way] as f64 / 1e9)
    }

    fn add(&mut self, other: &Self) {
        for way in 0..2 {
            for (mine, theirs) in [(&mut self.out, &other.out), (&mut self.back, &other.back)] {
                mine[way].packets += theirs[way].packets;
                mine[way].bytes += theirs[way].bytes;
            }
            self.timed[way] += other.timed[way];
            self.latency_ns[way] += other.latency_ns[way];
            self.latency_max[way] = self.latency_max[way].max(other.latency_max[way]);
        }
    }
}

/// Puts rows together. A sample is written once all threads have gone past it.
pub(super) struct Table {
    file: Option<BufWriter<File>>,
    names: Vec<String>,
    per_second: u32,
    /// Rows of the sender and of the two receivers that no sample was made of yet.
    waiting: [VecDeque<Row>; 3],
    /// What all rows before had counted.
    before_out: Vec<[Volume; 2]>,
    before_in: [Vec<Arrived>; 2],
    next: u64,
    /// All groups together, sample by sample, with the sender's own lateness.
    samples: Vec<(Sample, Span)>,
}

impl Table {
    /// Begins the table, in a file if one is given.
    pub(super) fn create(file: Option<&Path>, names: Vec<String>, per_second: u32) -> io::Result<Self> {
        let mut file = file.map(|path| File::create(path).map(BufWriter::new)).transpose()?;
        let head = "time_s,group,uplink_out_packets,uplink_out_bytes,downlink_out_packets,downlink_out_bytes,\
             uplink_in_packets,uplink_in_bytes,downlink_in_packets,downlink_in_bytes,\
             uplink_in_latency_mean_s,uplink_in_latency_max_s,downlink_in_latency_mean_s,downlink_in_latency_max_s,\
             lateness_max_s";
        if let Some(file) = &mut file {
            writeln!(file, "{head}")?;
        }
        let groups = names.len();
        Ok(Self {
            file,
            names,
            per_second,
            waiting: Default::default(),
            before_out: vec![Default::default(); groups],
            before_in: [vec![Arrived::default(); groups], vec![Arrived::default(); groups]],
            next: 0,
            samples: Vec::new(),
        })
    }

    /// Takes a row; writes what is complete by it.
    pub(super) fn take(&mut self, row: Row) -> io::Result<()> {
        let place = match &row {
            Row::Out { .. } => 0,
            Row::In { direction, .. } => 1 + index(*direction),
        };
        self.waiting[place].push_back(row);
        while self.waiting.iter().all(|rows| !rows.is_empty()) {
            self.write()?;
        }
        Ok(())
    }

    /// Writes the rest: threads that ended have nothing more to say.
    pub(super) fn finish(mut self) -> io::Result<Vec<(Sample, Span)>> {
        while self.waiting.iter().any(|rows| !rows.is_empty()) {
            self.write()?;
        }
        self.flush()?;
        Ok(self.samples)
    }

    /// Everything so far, all groups together.
    pub(super) fn total(&self) -> Sample {
        let mut total = Sample::default();
        self.samples.iter().for_each(|(sample, _)| total.add(sample));
        total
    }

    /// Hands what was written to the system.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), Write::flush)
    }

    fn write(&mut self) -> io::Result<()> {
        let mut groups = vec![Sample::default(); self.names.len()];
        let mut lateness = Span::ZERO;
        for rows in &mut self.waiting {
            match rows.pop_front() {
                Some(Row::Out { groups: now, late, .. }) => {
                    lateness = late;
                    for ((sample, now), before) in groups.iter_mut().zip(&now).zip(&self.before_out) {
                        sample.out = [0, 1].map(|way| since(now[way], before[way]));
                    }
                    self.before_out = now;
                }
                Some(Row::In { direction, groups: now, .. }) => {
                    let way = index(direction);
                    for ((sample, now), before) in groups.iter_mut().zip(&now).zip(&self.before_in[way]) {
                        sample.back[way] = since(now.volume, before.volume);
                        sample.timed[way] = now.timed - before.timed;
                        sample.latency_ns[way] = now.latency_ns - before.latency_ns;
                        sample.latency_max[way] = now.max;
                    }
                    self.before_in[way] = now;
                }
                None => {}
            }
        }
        self.next += 1;
        let mut all = Sample::default();
        groups.iter().for_each(|group| all.add(group));
        self.row("all", &all, lateness)?;
        if self.names.len() > 1 {
            for (name, group) in self.names.clone().iter().zip(&groups) {
                self.row(name, group, lateness)?;
            }
        }
        self.samples.push((all, lateness));
        Ok(())
    }

    /// One line. As in the thesis *in* is named by the interface: what went out downlink comes in
    /// uplink, where uplink packets go out.
    fn row(&mut self, group: &str, sample: &Sample, lateness: Span) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let time = self.next as f64 / f64::from(self.per_second);
        let [up, down] = [Direction::Uplink, Direction::Downlink].map(index);
        let volume = |volume: Volume| format!("{},{}", volume.packets, volume.bytes);
        let latency = |way: usize| match sample.latency_s(way) {
            Some(mean) => format!("{mean:.9},{:.9}", sample.latency_max[way].as_secs_f64()),
            None => ",".into(),
        };
        writeln!(
            file,
            "{time:.3},{group},{},{},{},{},{},{},{:.9}",
            volume(sample.out[up]),
            volume(sample.out[down]),
            volume(sample.back[down]),
            volume(sample.back[up]),
            latency(down),
            latency(up),
            lateness.as_secs_f64()
        )
    }
}

fn since(now: Volume, before: Volume) -> Volume {
    Volume { packets: now.packets - before.packets, bytes: now.bytes - before.bytes }
}
