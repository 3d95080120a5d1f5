//! The tables: records to CSV rows and back. Each table's columns are stated once, by the function
//! that writes its rows; the header comes from the same function.
//!
//! CSV as in RFC 4180, but with line feeds alone; numbers plain, empty where there is no value, no
//! line breaks inside a field. `docs/guide/src/results.md` describes every column.

use std::collections::HashMap;
use std::fmt::Display;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use csv::StringRecord;
use engine::Span;

use crate::event::Rows;
use crate::outline::written;
use crate::{
    AdapterRecord, CallsRecord, CellRecord, Discarded, FlowRecord, Health, Interval, LoadRecord, Metric, Name, Outline,
    PacketCounts, PacketPoint, PairsRecord, PipeRecord, Quantiles, RecordError, Scalar, VoiceRecord,
};

/// The tables of a results directory.
pub(crate) const TABLES: [&str; 7] = ["samples.csv", "links.csv", "drops.csv", "cpu.csv", PACKETS, ADAPTERS, CELLS];
pub(crate) const CELLS: &str = "cells.csv";

pub(crate) const PACKETS: &str = "packets.csv";
pub(crate) const ADAPTERS: &str = "adapters.csv";

/// Tables that older recordings do not have.
const LATER: [&str; 2] = [PACKETS, ADAPTERS];

/// The rows of one cell, for each table in the order of [`TABLES`], as CSV without header.
pub(crate) fn rows(cell: &CellRecord) -> io::Result<([Vec<u8>; 7], Rows)> {
    let [samples, links, drops, cpu, packets, adapters, cells] = lines(cell);
    let rows = Rows {
        cells: cells.len(),
        samples: samples.len(),
        links: links.len(),
        drops: drops.len(),
        cpu: cpu.len(),
        packets: packets.len(),
        adapters: adapters.len(),
    };
    let csv = |lines: Vec<Line>| to_csv(lines.iter().map(|line| line.0.iter().map(|(_, value)| value.as_str())));
    let tables = [csv(samples)?, csv(links)?, csv(drops)?, csv(cpu)?, csv(packets)?, csv(adapters)?, csv(cells)?];
    Ok((tables, rows))
}

/// The header of each table in the order of [`TABLES`].
pub(crate) fn headers(axes: &[String]) -> io::Result<[Vec<u8>; 7]> {
    let unset = Scalar { label: String::new(), number: None };
    let blank = CellRecord {
        cell: 0,
        repeat: 0,
        attempt: 0,
        coordinates: axes.iter().map(|key| (key.clone(), unset.clone())).collect(),
        seed: 0,
        flows: vec![FlowRecord {
            intervals: vec![Interval::default()],
            series: vec![PacketPoint::default()],
            ..FlowRecord::default()
        }],
        pipes: vec![PipeRecord { drops: vec![("".into(), 0)], ..PipeRecord::default() }],
        adapters: vec![AdapterRecord::default()],
        captures: Vec::new(),
        discarded: Vec::new(),
        health: Health { cpu_s: vec![("".into(), 0.0)], ..Health::default() },
        histograms: Vec::new(),
    };
    let mut headers: [Vec<u8>; 7] = Default::default();
    for (header, lines) in headers.iter_mut().zip(lines(&blank)) {
        *header = to_csv(lines.iter().map(|line| line.0.iter().map(|(name, _)| name.as_ref())))?;
    }
    Ok(headers)
}

fn lines(cell: &CellRecord) -> [Vec<Line>; 7] {
    let drops =
        |pipe: &PipeRecord| pipe.drops.iter().map(|(why, n)| drop_line(cell, pipe, why, *n)).collect::<Vec<_>>();
    [
        cell.flows.iter().flat_map(|flow| flow.intervals.iter().map(|i| sample_line(cell, flow, i))).collect(),
        cell.pipes.iter().map(|pipe| link_line(cell, pipe)).collect(),
        cell.pipes.iter().flat_map(drops).chain(cell.discarded.iter().map(|d| discard_line(cell, d))).collect(),
        cell.health.cpu_s.iter().map(|(part, s)| Line::of(cell).put("part", part).put("cpu_s", s)).collect(),
        cell.flows.iter().flat_map(|flow| flow.series.iter().map(|point| packet_line(cell, flow, point))).collect(),
        cell.adapters.iter().map(|adapter| adapter_line(cell, adapter)).collect(),
        cell.flows.iter().map(|flow| cell_line(cell, flow)).collect(),
    ]
}

fn cell_line(cell: &CellRecord, flow: &FlowRecord) -> Line {
    let health = &cell.health;
    let mut line = Line::of(cell).put("cell_seed", cell.seed);
    for (key, value) in &cell.coordinates {
        line = line.put(key.clone(), written(value));
    }
    line = line
        .put("flow", &flow.flow)
        .put("from", &flow.from)
        .put("to", &flow.to)
        .put("protocol", &flow.protocol)
        .put("engine", &flow.engine)
        .put("judged", health.spoiled.is_none() && flow.is_measured())
        .maybe("spoiled", health.spoiled.as_ref())
        .maybe("error", flow.error.as_ref())
        .maybe("offered_bit_s", flow.offered_bit_s)
        .maybe("connect_s", flow.connect.map(seconds))
        .put("measured_s", seconds(flow.measured))
        .put("sent_bytes", flow.sent_bytes)
        .put("received_bytes", flow.received_bytes);
    for metric in [Metric::Goodput, Metric::Share, Metric::Loss] {
        line = line.maybe(metric.column(), metric.of(cell, flow));
    }
    line.packets(flow.packets.as_ref())
        .quantiles("delay", flow.delay.as_ref())
        .quantiles("rtt", flow.rtt.as_ref())
        .maybe(Metric::Jitter.column(), flow.jitter_s)
        .maybe(Metric::Retransmits.column(), flow.retransmits)
        .voice(flow.voice.as_ref())
        .pairs(flow.pairs.as_ref())
        .calls(flow.calls.as_ref())
        .maybe(Metric::CallSuccess.column(), Metric::CallSuccess.of(cell, flow))
        .maybe(Metric::TransferTime.column(), flow.transfer_s)
        .maybe(Metric::PacketRate.column(), flow.load.as_ref().map(|load| load.packets_s))
        .maybe(Metric::SampleDelay.column(), flow.load.as_ref().and_then(|load| load.sample_delay_s))
        .maybe(Metric::PeakSent.column(), flow.load.as_ref().map(|load| load.peak_sent))
        .maybe(Metric::PeakReceived.column(), flow.load.as_ref().map(|load| load.peak_received))
        .maybe(Metric::PairAgreement.column(), Metric::PairAgreement.of(cell, flow))
        .put("link_offered_packets", cell.pipes.iter().map(|p| p.offered_packets).sum::<u64>())
        .put("link_dropped_packets", cell.pipes.iter().map(PipeRecord::dropped_packets).sum::<u64>())
        .put("executor_packets", health.packets)
        .put("late_packets", health.late_packets)
        .put("late_limit_s", seconds(health.late_limit))
        .quantiles("lateness", Some(&health.lateness))
        .put("stalls", health.stalls)
        .put("stalled_s", seconds(health.stalled))
        .put("kernel_drops", health.kernel_drops)
        .put("cpu_s", health.cpu_s.iter().map(|(_, s)| s).sum::<f64>())
        .put("machine_busy_ratio", health.machine_busy)
        .put("machine_steal_ratio", health.machine_steal)
        .put("cells_beside", health.cells_beside)
        .maybe("adapter", flow.adapter.as_ref())
}

fn sample_line(cell: &CellRecord, flow: &FlowRecord, interval: &Interval) -> Line {
    Line::of(cell)
        .put("flow", &flow.flow)
        .put("start_s", seconds(interval.start))
        .put("end_s", seconds(interval.end))
        .put("received_bytes", interval.received_bytes)
        .maybe("goodput_bit_s", interval.goodput_bit_s())
        .maybe("retransmits", interval.retransmits)
        .maybe("rtt_s", interval.rtt_s)
        .maybe("cwnd_bytes", interval.cwnd_bytes)
        .packets(interval.packets.as_ref())
        .maybe("delay_s", interval.delay_s)
        .maybe("jitter_s", interval.jitter_s)
}

fn packet_line(cell: &CellRecord, flow: &FlowRecord, point: &PacketPoint) -> Line {
    Line::of(cell)
        .put("flow", &flow.flow)
        .put("direction", if point.back { "back" } else { "there" })
        .put("number", point.number)
        .put("size_bytes", point.bytes)
        .put("sent_s", point.sent_s)
        .maybe("delay_s", point.delay_s)
        .maybe("jitter_s", point.jitter_s)
        .maybe("separation_s", point.separation_s)
        .maybe(Metric::SizeRate.column(), Metric::SizeRate.of_packet(point))
}

fn link_line(cell: &CellRecord, pipe: &PipeRecord) -> Line {
    Line::of(cell)
        .pipe(pipe)
        .put("offered_packets", pipe.offered_packets)
        .put("offered_bytes", pipe.offered_bytes)
        .put("delivered_packets", pipe.delivered_packets)
        .put("delivered_bytes", pipe.delivered_bytes)
        .put("dropped_packets", pipe.dropped_packets())
        .put("marked_packets", pipe.marked)
        .put("duplicated_packets", pipe.duplicated)
        .put("corrupted_packets", pipe.corrupted)
        .put("queue_peak_packets", pipe.queue_peak_packets)
        .put("queue_peak_bytes", pipe.queue_peak_bytes)
}

fn adapter_line(cell: &CellRecord, adapter: &AdapterRecord) -> Line {
    Line::of(cell)
        .put("adapter", &adapter.adapter)
        .put("link", &adapter.link)
        .put("site", &adapter.site)
        .put("measured_s", seconds(adapter.measured))
        .put("line_bit_s", adapter.line_bit_s)
        .maybe("line_use_ratio", adapter.line_use())
        .maybe("efficiency_ratio", adapter.efficiency())
        .maybe("data_share_ratio", adapter.data_share())
        .put("line_bytes", adapter.line_bytes)
        .put("real_time_line_bytes", adapter.real_time_line_bytes)
        .put("data_line_bytes", adapter.data_line_bytes)
        .put("framing_line_bytes", adapter.framing_line_bytes)
        .put("encapsulation_line_bytes", adapter.encapsulation_line_bytes)
        .put("control_line_bytes", adapter.control_line_bytes)
        .put("held_line_bytes", adapter.held_line_bytes)
        .put("real_time_packets", adapter.real_time_packets)
        .put("real_time_ip_bytes", adapter.real_time_ip_bytes)
        .put("data_packets", adapter.data_packets)
        .put("data_ip_bytes", adapter.data_ip_bytes)
        .put("frames", adapter.frames)
        .put("predictions_held", adapter.predictions_held)
        .put("predictions_missed", adapter.predictions_missed)
        .put("overdue", adapter.overdue)
        .put("refused", adapter.refused)
        .put("replies_cached", adapter.replies_cached)
        .put("bad_frames", adapter.bad_frames)
        .put("lost_packets", adapter.lost_packets)
        .maybe("header_mean_bytes", adapter.header_mean_bytes)
        .quantiles("real_time_delay", adapter.real_time_delay.as_ref())
        .quantiles("queue_delay", adapter.queue_delay.as_ref())
        .quantiles("gap", adapter.gap.as_ref())
}

fn drop_line(cell: &CellRecord, pipe: &PipeRecord, reason: &str, packets: u64) -> Line {
    Line::of(cell).pipe(pipe).put("reason", reason).put("dropped_packets", packets).put("unit", unit(pipe, reason))
}

/// In the columns of [`drop_line`]: a place that is no pipe has neither direction nor pipe.
fn discard_line(cell: &CellRecord, discarded: &Discarded) -> Line {
    let place = PipeRecord { link: discarded.place.clone(), ..PipeRecord::default() };
    drop_line(cell, &place, &discarded.reason, discarded.packets)
}

/// What is counted: characters on a line, frames and fragments that an adapter names in the reason, else
/// packets.
fn unit(pipe: &PipeRecord, reason: &str) -> &'static str {
    let of_adapter =
        ["frames", "fragments"].into_iter().find(|unit| pipe.direction.is_empty() && reason.starts_with(unit));
    if pipe.is_line() { "characters" } else { of_adapter.unwrap_or("packets") }
}

/// A row: names and values in order.
struct Line(Vec<(Name, String)>);

impl Line {
    fn of(cell: &CellRecord) -> Self {
        Self(Vec::with_capacity(48)).put("cell", cell.cell).put("repeat", cell.repeat).put("attempt", cell.attempt)
    }

    fn put(mut self, name: impl Into<Name>, value: impl Display) -> Self {
        // A line is a row in every tool: no breaks inside fields.
        let value = value.to_string().replace(['\r', '\n'], " ");
        self.0.push((name.into(), value));
        self
    }

    fn maybe(self, name: impl Into<Name>, value: Option<impl Display>) -> Self {
        match value {
            Some(value) => self.put(name, value),
            None => self.put(name, ""),
        }
    }

    fn pipe(self, pipe: &PipeRecord) -> Self {
        self.put("link", &pipe.link).put("direction", &pipe.direction).put("pipe", &pipe.pipe)
    }

    fn packets(self, counts: Option<&PacketCounts>) -> Self {
        self.maybe("packets_sent", counts.map(|c| c.sent))
            .maybe("packets_received", counts.map(|c| c.received))
            .maybe("packets_duplicated", counts.map(|c| c.duplicated))
            .maybe("packets_reordered", counts.map(|c| c.reordered))
    }

    fn voice(self, voice: Option<&VoiceRecord>) -> Self {
        self.maybe(Metric::JitterP99.column(), voice.and_then(|v| v.jitter_p99_s))
            .maybe("late_voice_packets", voice.map(|v| v.late_packets))
            .maybe("missing_ratio", voice.map(|v| v.missing_ratio))
            .maybe("burst_ratio", voice.map(|v| v.burst_ratio))
            .maybe("playout_s", voice.map(|v| v.playout_s))
            .maybe(Metric::Rating.column(), voice.and_then(|v| v.rating))
    }

    fn pairs(self, pairs: Option<&PairsRecord>) -> Self {
        self.maybe("pairs", pairs.map(|p| p.count))
            .maybe(Metric::PairRate.column(), pairs.map(|p| p.rate_bit_s))
            .maybe("pair_rate_low_bit_s", pairs.map(|p| p.rate_low_bit_s))
            .maybe("pair_rate_high_bit_s", pairs.and_then(|p| p.rate_high_bit_s))
            .maybe("pair_sizes_disagreeing", pairs.map(|p| p.disagreeing_sizes))
    }

    fn calls(self, calls: Option<&CallsRecord>) -> Self {
        self.maybe("calls_tried", calls.map(|c| c.tried))
            .maybe("calls_established", calls.map(|c| c.established))
            .maybe("calls_released", calls.map(|c| c.released))
            .maybe(Metric::SetupTime.column(), calls.and_then(|c| c.setup_p50_s))
            .maybe("setup_max_s", calls.and_then(|c| c.setup_max_s))
    }

    fn quantiles(self, prefix: &str, quantiles: Option<&Quantiles>) -> Self {
        self.maybe(format!("{prefix}_count"), quantiles.map(|q| q.count))
            .maybe(format!("{prefix}_min_s"), quantiles.map(|q| q.min))
            .maybe(format!("{prefix}_p50_s"), quantiles.map(|q| q.p50))
            .maybe(format!("{prefix}_p90_s"), quantiles.map(|q| q.p90))
            .maybe(format!("{prefix}_p99_s"), quantiles.map(|q| q.p99))
            .maybe(format!("{prefix}_max_s"), quantiles.map(|q| q.max))
    }
}

fn to_csv<'a>(rows: impl Iterator<Item = impl Iterator<Item = &'a str>>) -> io::Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        writer.write_record(row)?;
    }
    writer.into_inner().map_err(|e| io::Error::other(e.to_string()))
}

/// Whole nanoseconds as decimal seconds, exactly.
fn seconds(span: Span) -> String {
    let nanos = span.as_nanos();
    let text = format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// A table as it was read. A last line without its line end was torn off and is left out.
#[derive(Debug)]
pub(crate) struct Sheet {
    path: PathBuf,
    header: HashMap<String, usize>,
    /// Each row with its line and the offset at which it ends.
    rows: Vec<(StringRecord, u64, u64)>,
    header_end: u64,
}

impl Sheet {
    pub(crate) fn read(path: &Path) -> Result<Self, RecordError> {
        let bytes = match fs::read(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound && LATER.iter().any(|name| path.ends_with(name)) => {
                Vec::new()
            }
            read => read.map_err(RecordError::io("read", path))?,
        };
        let whole = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
        let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(&bytes[..whole]);
        let malformed = |e: &csv::Error| RecordError::Malformed {
            path: path.to_path_buf(),
            line: e.position().map_or(1, csv::Position::line),
            what: format!("not CSV in UTF-8 ({e})"),
        };
        let header = reader.headers().map_err(|e| malformed(&e))?.clone();
        let mut sheet = Self {
            path: path.to_path_buf(),
            header: header.iter().enumerate().map(|(i, name)| (name.to_string(), i)).collect(),
            rows: Vec::new(),
            header_end: reader.position().byte(),
        };
        let mut record = StringRecord::new();
        while reader.read_record(&mut record).map_err(|e| malformed(&e))? {
            let line = record.position().map_or(0, csv::Position::line);
            if record.len() != header.len() {
                let what = format!("{} fields where the header has {}", record.len(), header.len());
                return Err(RecordError::Malformed { path: path.to_path_buf(), line, what });
            }
            sheet.rows.push((record.clone(), line, reader.position().byte()));
        }
        Ok(sheet)
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().map(|(record, line, end)| Row { sheet: self, record, line: *line, end: *end })
    }

    /// The offset at which the header ends.
    pub(crate) fn header_end(&self) -> u64 {
        self.header_end
    }

    /// The rows of each cell and attempt, in order.
    pub(crate) fn by_cell(&self) -> Result<HashMap<(u32, u32), Vec<Row<'_>>>, RecordError> {
        let mut found: HashMap<_, Vec<_>> = HashMap::new();
        for row in self.rows() {
            found.entry(row.key()?).or_default().push(row);
        }
        Ok(found)
    }
}

/// A row of a [`Sheet`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'a> {
    sheet: &'a Sheet,
    record: &'a StringRecord,
    line: u64,
    end: u64,
}

impl Row<'_> {
    /// Cell and attempt.
    pub(crate) fn key(&self) -> Result<(u32, u32), RecordError> {
        Ok((self.get("cell")?, self.get("attempt")?))
    }

    /// The offset at which the row ends.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    pub(crate) fn text(&self, column: &str) -> Result<&str, RecordError> {
        let at = self.sheet.header.get(column).ok_or_else(|| self.malformed(format!("no column `{column}`")))?;
        Ok(&self.record[*at])
    }

    /// Whether the table has the column: those that were added later are missing in older results.
    fn has(&self, column: &str) -> bool {
        self.sheet.header.contains_key(column)
    }

    pub(crate) fn get<T: FromStr>(&self, column: &str) -> Result<T, RecordError> {
        let text = self.text(column)?;
        text.parse().map_err(|_| self.malformed(format!("`{text}` in column `{column}` is not what belongs there")))
    }

    pub(crate) fn option<T: FromStr>(&self, column: &str) -> Result<Option<T>, RecordError> {
        if self.text(column)?.is_empty() { Ok(None) } else { self.get(column).map(Some) }
    }

    /// As [`option`](Self::option), of a column that older recordings do not have.
    fn added<T: FromStr>(&self, column: &str) -> Result<Option<T>, RecordError> {
        if self.sheet.header.contains_key(column) { self.option(column) } else { Ok(None) }
    }

    fn owned(&self, column: &str) -> Result<String, RecordError> {
        self.text(column).map(str::to_string)
    }

    fn name(&self, column: &str) -> Result<Name, RecordError> {
        self.owned(column).map(Name::Owned)
    }

    fn span(&self, column: &str) -> Result<Span, RecordError> {
        let text = self.text(column)?;
        format!("{text}s")
            .parse()
            .map_err(|_| self.malformed(format!("`{text}` in column `{column}` is not a time in seconds")))
    }

    fn quantiles(&self, prefix: &str) -> Result<Option<Quantiles>, RecordError> {
        let Some(count) = self.option(&format!("{prefix}_count"))? else { return Ok(None) };
        let at = |name: &str| self.get(&format!("{prefix}_{name}_s"));
        Ok(Some(Quantiles {
            count,
            min: at("min")?,
            p50: at("p50")?,
            p90: at("p90")?,
            p99: at("p99")?,
            max: at("max")?,
        }))
    }

    fn voice(&self) -> Result<Option<VoiceRecord>, RecordError> {
        let Some(late_packets) = self.added("late_voice_packets")? else { return Ok(None) };
        Ok(Some(VoiceRecord {
            jitter_p99_s: self.option(Metric::JitterP99.column())?,
            late_packets,
            missing_ratio: self.get("missing_ratio")?,
            burst_ratio: self.get("burst_ratio")?,
            playout_s: self.get("playout_s")?,
            rating: self.option(Metric::Rating.column())?,
        }))
    }

    fn pairs(&self) -> Result<Option<PairsRecord>, RecordError> {
        let Some(count) = self.added("pairs")? else { return Ok(None) };
        Ok(Some(PairsRecord {
            count,
            rate_bit_s: self.get(Metric::PairRate.column())?,
            rate_low_bit_s: self.get("pair_rate_low_bit_s")?,
            rate_high_bit_s: self.option("pair_rate_high_bit_s")?,
            disagreeing_sizes: self.get("pair_sizes_disagreeing")?,
        }))
    }

    fn calls(&self) -> Result<Option<CallsRecord>, RecordError> {
        let Some(tried) = self.added("calls_tried")? else { return Ok(None) };
        Ok(Some(CallsRecord {
            tried,
            established: self.get("calls_established")?,
            released: self.get("calls_released")?,
            setup_p50_s: self.option(Metric::SetupTime.column())?,
            setup_max_s: self.option("setup_max_s")?,
        }))
    }

    fn load(&self) -> Result<Option<LoadRecord>, RecordError> {
        let Some(packets_s) = self.added(Metric::PacketRate.column())? else { return Ok(None) };
        Ok(Some(LoadRecord {
            packets_s,
            sample_delay_s: self.option(Metric::SampleDelay.column())?,
            peak_sent: self.get(Metric::PeakSent.column())?,
            peak_received: self.get(Metric::PeakReceived.column())?,
        }))
    }

    fn packets(&self) -> Result<Option<PacketCounts>, RecordError> {
        let Some(sent) = self.option("packets_sent")? else { return Ok(None) };
        Ok(Some(PacketCounts {
            sent,
            received: self.get("packets_received")?,
            duplicated: self.get("packets_duplicated")?,
            reordered: self.get("packets_reordered")?,
        }))
    }

    fn malformed(&self, what: String) -> RecordError {
        RecordError::Malformed { path: self.sheet.path.clone(), line: self.line, what }
    }
}

/// The rows of one cell and attempt, in the order of [`TABLES`].
pub(crate) type CellRows<'a> = [&'a [Row<'a>]; 7];

/// A cell from its rows, without its histograms. `None` if it has no row in `cells.csv`.
pub(crate) fn cell(outline: &Outline, rows: CellRows<'_>) -> Result<Option<CellRecord>, RecordError> {
    let [samples, links, drops, cpu, packets, adapters, cells] = rows;
    let Some(first) = cells.first() else { return Ok(None) };
    let mut coordinates = Vec::new();
    for axis in &outline.study.axes {
        coordinates.push((axis.key.clone(), outline.scalar(&axis.key, first.text(&axis.key)?)));
    }
    let mut flows = cells.iter().map(flow).collect::<Result<Vec<_>, _>>()?;
    for row in samples {
        let name = row.text("flow")?;
        if let Some(flow) = flows.iter_mut().find(|flow| flow.flow == name) {
            flow.intervals.push(interval(row)?);
        }
    }
    for row in packets {
        let name = row.text("flow")?;
        if let Some(flow) = flows.iter_mut().find(|flow| flow.flow == name) {
            flow.series.push(point(row)?);
        }
    }
    let mut pipes = links.iter().map(pipe).collect::<Result<Vec<_>, _>>()?;
    let mut discarded = Vec::new();
    for row in drops {
        let (link, direction, name) = (row.text("link")?, row.text("direction")?, row.text("pipe")?);
        if direction.is_empty() {
            let (reason, packets) = (row.name("reason")?, row.get("dropped_packets")?);
            discarded.push(Discarded { place: link.to_string(), reason, packets });
        } else if let Some(pipe) =
            pipes.iter_mut().find(|p| p.link == link && p.direction == direction && p.pipe == name)
        {
            pipe.drops.push((row.name("reason")?, row.get("dropped_packets")?));
        }
    }
    let mut cpu_s = Vec::new();
    for row in cpu {
        cpu_s.push((row.name("part")?, row.get("cpu_s")?));
    }
    Ok(Some(CellRecord {
        cell: first.get("cell")?,
        repeat: first.get("repeat")?,
        attempt: first.get("attempt")?,
        coordinates,
        seed: first.get("cell_seed")?,
        flows,
        pipes,
        adapters: adapters.iter().map(adapter).collect::<Result<_, _>>()?,
        // They are files of their own.
        captures: Vec::new(),
        discarded,
        health: Health {
            packets: first.get("executor_packets")?,
            late_packets: first.get("late_packets")?,
            late_limit: first.span("late_limit_s")?,
            lateness: first.quantiles("lateness")?.unwrap_or_default(),
            stalls: first.get("stalls")?,
            stalled: first.span("stalled_s")?,
            kernel_drops: first.get("kernel_drops")?,
            cpu_s,
            machine_busy: first.get("machine_busy_ratio")?,
            machine_steal: first.get("machine_steal_ratio")?,
            cells_beside: first.get("cells_beside")?,
            spoiled: first.option("spoiled")?,
        },
        histograms: Vec::new(),
    }))
}

fn flow(row: &Row) -> Result<FlowRecord, RecordError> {
    Ok(FlowRecord {
        flow: row.owned("flow")?,
        from: row.owned("from")?,
        to: row.owned("to")?,
        protocol: row.name("protocol")?,
        engine: row.name("engine")?,
        adapter: if row.has("adapter") { row.option("adapter")? } else { None },
        offered_bit_s: row.option("offered_bit_s")?,
        connect: if row.text("connect_s")?.is_empty() { None } else { Some(row.span("connect_s")?) },
        measured: row.span("measured_s")?,
        sent_bytes: row.get("sent_bytes")?,
        received_bytes: row.get("received_bytes")?,
        packets: row.packets()?,
        delay: row.quantiles("delay")?,
        rtt: row.quantiles("rtt")?,
        jitter_s: row.option("jitter_s")?,
        retransmits: row.option("retransmits")?,
        voice: row.voice()?,
        pairs: row.pairs()?,
        calls: row.calls()?,
        transfer_s: row.added(Metric::TransferTime.column())?,
        load: row.load()?,
        intervals: Vec::new(),
        series: Vec::new(),
        error: row.option("error")?,
    })
}

fn adapter(row: &Row) -> Result<AdapterRecord, RecordError> {
    Ok(AdapterRecord {
        adapter: row.owned("adapter")?,
        link: row.owned("link")?,
        site: row.owned("site")?,
        measured: row.span("measured_s")?,
        line_bit_s: row.get("line_bit_s")?,
        line_bytes: row.get("line_bytes")?,
        real_time_line_bytes: row.get("real_time_line_bytes")?,
        data_line_bytes: row.get("data_line_bytes")?,
        framing_line_bytes: row.get("framing_line_bytes")?,
        encapsulation_line_bytes: row.get("encapsulation_line_bytes")?,
        control_line_bytes: row.get("control_line_bytes")?,
        held_line_bytes: row.get("held_line_bytes")?,
        real_time_packets: row.get("real_time_packets")?,
        real_time_ip_bytes: row.get("real_time_ip_bytes")?,
        data_packets: row.get("data_packets")?,
        data_ip_bytes: row.get("data_ip_bytes")?,
        frames: row.get("frames")?,
        predictions_held: row.get("predictions_held")?,
        predictions_missed: row.get("predictions_missed")?,
        overdue: row.get("overdue")?,
        refused: row.get("refused")?,
        replies_cached: row.get("replies_cached")?,
        bad_frames: row.added("bad_frames")?.unwrap_or_default(),
        lost_packets: row.added("lost_packets")?.unwrap_or_default(),
        header_mean_bytes: row.option("header_mean_bytes")?,
        real_time_delay: row.quantiles("real_time_delay")?,
        queue_delay: row.quantiles("queue_delay")?,
        gap: row.quantiles("gap")?,
    })
}

fn interval(row: &Row) -> Result<Interval, RecordError> {
    Ok(Interval {
        start: row.span("start_s")?,
        end: row.span("end_s")?,
        received_bytes: row.get("received_bytes")?,
        retransmits: row.option("retransmits")?,
        rtt_s: row.option("rtt_s")?,
        cwnd_bytes: row.option("cwnd_bytes")?,
        packets: row.packets()?,
        delay_s: row.option("delay_s")?,
        jitter_s: row.option("jitter_s")?,
    })
}

fn point(row: &Row) -> Result<PacketPoint, RecordError> {
    Ok(PacketPoint {
        number: row.get("number")?,
        back: row.text("direction")? == "back",
        bytes: row.get("size_bytes")?,
        sent_s: row.get("sent_s")?,
        delay_s: row.option("delay_s")?,
        jitter_s: row.option("jitter_s")?,
        separation_s: row.option("separation_s")?,
    })
}

fn pipe(row: &Row) -> Result<PipeRecord, RecordError> {
    Ok(PipeRecord {
        link: row.owned("link")?,
        direction: row.name("direction")?,
        pipe: row.owned("pipe")?,
        offered_packets: row.get("offered_packets")?,
        offered_bytes: row.get("offered_bytes")?,
        delivered_packets: row.get("delivered_packets")?,
        delivered_bytes: row.get("delivered_bytes")?,
        drops: Vec::new(),
        marked: row.get("marked_packets")?,
        duplicated: row.get("duplicated_packets")?,
        corrupted: row.get("corrupted_packets")?,
        queue_peak_packets: row.get("queue_peak_packets")?,
        queue_peak_bytes: row.get("queue_peak_bytes")?,
    })
}
