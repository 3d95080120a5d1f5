//! Reading a results directory, also while its run is still under way.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::event::{Finished, Session};
use crate::outline::{Outline, SCHEMA};
use crate::recorder::histogram_path;
use crate::table::{self, Row, Sheet, TABLES};
use crate::{CellRecord, Event, RecordError, histlog};

pub(crate) const PLAN: &str = "plan.json";
pub(crate) const EVENTS: &str = "events.jsonl";
pub(crate) const CAPTURES: &str = "captures";
pub(crate) const HISTOGRAMS: &str = "hist";

/// What a run left behind.
#[derive(Debug)]
pub struct Recording {
    /// Where it was read from.
    pub dir: PathBuf,
    /// What was asked.
    pub outline: Outline,
    /// The whole plan, as JSON.
    pub plan: Value,
    /// The cells that finished, by number; of each the last attempt that was not spoiled, else the
    /// last.
    pub cells: Vec<CellRecord>,
    /// Everything that was noted, in order.
    pub events: Vec<Event>,
}

impl Recording {
    /// Reads the results directory `dir`.
    ///
    /// # Errors
    /// [`RecordError::NotResults`], [`RecordError::Schema`], [`RecordError::Malformed`],
    /// [`RecordError::Io`].
    pub fn load(dir: &Path) -> Result<Self, RecordError> {
        let (path, text) = read_plan(dir)?;
        let outline = outline(&path, &text)?;
        if outline.schema != SCHEMA {
            return Err(RecordError::Schema { path: dir.to_path_buf(), found: outline.schema, expected: SCHEMA });
        }
        let plan = serde_json::from_str(&text).map_err(|e| plan_error(&path, &e))?;
        // The events first: a cell that finishes while the tables are read is then not expected in them.
        let (events, _) = events(&dir.join(EVENTS))?;
        let sheets = sheets(dir)?;
        let rows = index(&sheets)?;
        let mut cells: BTreeMap<u32, CellRecord> = BTreeMap::new();
        for Finished { cell, attempt, .. } in finished(&events, &sheets)? {
            let of_cell: Vec<&[Row]> =
                rows.iter().map(|table| table.get(&(cell, attempt)).map_or(&[][..], Vec::as_slice)).collect();
            let Ok(of_cell) = table::CellRows::try_from(of_cell) else { continue };
            let Some(mut record) = table::cell(&outline, of_cell)? else { continue };
            let better = cells.get(&cell).is_none_or(|known| {
                let rank = |r: &CellRecord| (r.health.spoiled.is_none(), r.attempt);
                rank(&record) > rank(known)
            });
            if better {
                let path = histogram_path(dir, cell, attempt);
                record.histograms = if path.exists() { histlog::read(&path)? } else { Vec::new() };
                cells.insert(cell, record);
            }
        }
        Ok(Self { dir: dir.to_path_buf(), outline, plan, cells: cells.into_values().collect(), events })
    }

    /// The seed of the run in `dir`, which need not have finished a cell.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn seed_of(dir: &Path) -> Result<u64, RecordError> {
        let (path, text) = read_plan(dir)?;
        Ok(outline(&path, &text)?.seed)
    }

    /// How the run was made, session by session.
    pub fn sessions(&self) -> impl Iterator<Item = &Session> {
        self.events.iter().filter_map(|event| if let Event::Session(session) = event { Some(session) } else { None })
    }

    /// Time spent, in seconds, over the sessions that noted it.
    #[must_use]
    pub fn elapsed_s(&self) -> Option<f64> {
        let ends =
            self.events.iter().filter_map(|event| if let Event::Ended(ended) = event { ended.elapsed_s } else { None });
        ends.fold(None, |sum, s| Some(sum.unwrap_or(0.0) + s))
    }
}

/// The path and text of the plan in `dir`.
pub(crate) fn read_plan(dir: &Path) -> Result<(PathBuf, String), RecordError> {
    let path = dir.join(PLAN);
    if !path.exists() {
        return Err(RecordError::NotResults { path: dir.to_path_buf() });
    }
    let text = fs::read_to_string(&path).map_err(RecordError::io("read", &path))?;
    Ok((path, text))
}

/// The outline in the text of a plan.
pub(crate) fn outline(path: &Path, text: &str) -> Result<Outline, RecordError> {
    serde_json::from_str(text).map_err(|e| plan_error(path, &e))
}

fn plan_error(path: &Path, error: &serde_json::Error) -> RecordError {
    RecordError::Malformed {
        path: path.to_path_buf(),
        line: error.line() as u64,
        what: format!("not a plan ({error})"),
    }
}

/// All tables of `dir`, in the order of [`TABLES`].
pub(crate) fn sheets(dir: &Path) -> Result<Vec<Sheet>, RecordError> {
    TABLES.iter().map(|name| Sheet::read(&dir.join(name))).collect()
}

/// The events of a file, and where the last of them ends. What follows it was torn off when the run
/// was: a last line without its line end, or whatever a power failure left there.
pub(crate) fn events(path: &Path) -> Result<(Vec<Event>, u64), RecordError> {
    let bytes = fs::read(path).map_err(RecordError::io("read", path))?;
    let (mut events, mut end) = (Vec::new(), 0);
    let mut torn: Option<RecordError> = None;
    let mut offset = 0;
    for (i, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        offset += line.len() as u64;
        if !line.ends_with(b"\n") || line == b"\n" {
            continue;
        }
        match serde_json::from_slice(line) {
            // Nothing was written after what was torn off: this is something else.
            Ok(_) if torn.is_some() => return torn.map_or(Ok((events, end)), Err),
            Ok(event) => {
                events.push(event);
                end = offset;
            }
            Err(e) => {
                let (path, line, what) = (path.to_path_buf(), i as u64 + 1, format!("not an event ({e})"));
                torn.get_or_insert(RecordError::Malformed { path, line, what });
            }
        }
    }
    Ok((events, end))
}

/// The cells whose rows are all there, in the order in which they finished.
pub(crate) fn finished(events: &[Event], sheets: &[Sheet]) -> Result<Vec<Finished>, RecordError> {
    let rows = index(sheets)?;
    let count = |table: usize, key: (u32, u32)| rows[table].get(&key).map_or(0, Vec::len);
    let whole = |done: &&Finished| {
        let key = (done.cell, done.attempt);
        let rows = &done.rows;
        let expected = [rows.samples, rows.links, rows.drops, rows.cpu, rows.packets, rows.adapters, rows.cells];
        expected.into_iter().enumerate().all(|(table, rows)| count(table, key) == rows)
    };
    let mut seen = std::collections::HashSet::new();
    Ok(events
        .iter()
        .filter_map(|event| if let Event::Finished(done) = event { Some(done) } else { None })
        .filter(whole)
        .filter(|done| seen.insert((done.cell, done.attempt)))
        .cloned()
        .collect())
}

type Index<'a> = Vec<HashMap<(u32, u32), Vec<Row<'a>>>>;

fn index(sheets: &[Sheet]) -> Result<Index<'_>, RecordError> {
    sheets.iter().map(Sheet::by_cell).collect()
}
