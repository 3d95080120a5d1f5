//! The table of narrowband adapters.

use measure::{AdapterRecord, Quantiles, Recording};
use serde_json::{Value, json};

use crate::page::{column, four_digits};

/// What the columns mean, as HTML.
pub(crate) const NOTE: &str = "<p class=\"note\">Each row is the adapter at one end of a line, and what it sent over the line in the measured time. Real-time delay is from the LAN to the last character on the line, queue delay from there to the first; the gap is the time foretold to be free before the next real-time datagram. e is data's own characters over these, their framing, and the time the line was held for real-time datagrams while data waited; data's share is its bytes of IP over what real-time datagrams leave of the line.</p>";

/// A column's name, and its value for an adapter.
type Column = (&'static str, fn(&AdapterRecord) -> Option<f64>);

const COLUMNS: [Column; 23] = [
    ("line, bit/s", |a| Some(a.line_bit_s)),
    ("line use, %", |a| percent(a.line_use())),
    ("e, %", |a| percent(a.efficiency())),
    ("data's share, %", |a| percent(a.data_share())),
    ("real-time packets", |a| count(a.real_time_packets)),
    ("real-time delay p50, ms", |a| millis(a.real_time_delay, |q| q.p50)),
    ("p99, ms", |a| millis(a.real_time_delay, |q| q.p99)),
    ("most, ms", |a| millis(a.real_time_delay, |q| q.max)),
    ("overdue", |a| count(a.overdue)),
    ("foretold and held", |a| count(a.predictions_held)),
    ("missed", |a| count(a.predictions_missed)),
    ("refused flows", |a| count(a.refused)),
    ("data packets", |a| count(a.data_packets)),
    ("frames", |a| count(a.frames)),
    ("queue delay p50, ms", |a| millis(a.queue_delay, |q| q.p50)),
    ("queue p99, ms", |a| millis(a.queue_delay, |q| q.p99)),
    ("gap p50, ms", |a| millis(a.gap, |q| q.p50)),
    ("gap p90, ms", |a| millis(a.gap, |q| q.p90)),
    ("header, B", |a| a.header_mean_bytes),
    ("answered from cache", |a| count(a.replies_cached)),
    ("bad frames received", |a| count(a.bad_frames)),
    ("packets lost in receiving", |a| count(a.lost_packets)),
    ("measured, s", |a| Some(a.measured.as_secs_f64())),
];

fn percent(ratio: Option<f64>) -> Option<f64> {
    ratio.map(|ratio| ratio * 100.0)
}

fn millis(quantiles: Option<Quantiles>, pick: fn(Quantiles) -> f64) -> Option<f64> {
    quantiles.map(|quantiles| pick(quantiles) * 1e3)
}

fn count(n: u64) -> Option<f64> {
    Some(n as f64)
}

/// Every adapter of every cell, as the script draws it.
pub(crate) fn table(recording: &Recording) -> Value {
    let mut columns = vec![column("cell", true)];
    columns[0]["digits"] = json!(false);
    columns.extend(recording.outline.study.axes.iter().map(|axis| column(&axis.key, false)));
    columns.push(column("adapter", false));
    columns.extend(COLUMNS.iter().map(|(name, _)| column(name, true)));
    let mut rows: Vec<Value> = Vec::new();
    for (cell, adapter) in recording.cells.iter().flat_map(|cell| cell.adapters.iter().map(move |a| (cell, a))) {
        let mut row = vec![json!(cell.cell)];
        row.extend(cell.coordinates.iter().map(|(_, value)| json!(value.label)));
        row.push(json!(adapter.adapter));
        row.extend(COLUMNS.iter().map(|(_, of)| json!(of(adapter).map(four_digits))));
        rows.push(json!(row));
    }
    json!({"id": "adapters-table", "columns": columns, "rows": rows, "marked": []})
}
