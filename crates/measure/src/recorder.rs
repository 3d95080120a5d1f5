//! Writing a results directory while a run goes on.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::event::{Finished, Note};
use crate::outline::plan_differences;
use crate::recording::{self, CAPTURES, EVENTS, HISTOGRAMS, PLAN};
use crate::table::{self, Sheet, TABLES};
use crate::{CaptureRecord, CellRecord, Event, RecordError};

/// Writes cells to a results directory as they finish.
///
/// All rows of a cell are written before its [`Event::Finished`]; rows without it do not count, so
/// a run that is killed, or runs out of disk, loses at most the cells it was writing. One process
/// at a time may hold a directory.
#[derive(Debug)]
pub struct Recorder {
    dir: PathBuf,
    /// In the order of [`TABLES`], then the events.
    files: Vec<Appended>,
}

/// A file that grows by whole batches of lines.
#[derive(Debug)]
struct Appended {
    path: PathBuf,
    file: File,
    /// Bytes that are known to be whole.
    length: u64,
}

impl Recorder {
    /// Starts a new run in `dir`, which is made if it is not there. `plan` is the JSON of the plan.
    ///
    /// # Errors
    /// [`RecordError::Taken`] if a run is there already, [`RecordError::Busy`] if one is running,
    /// [`RecordError::Malformed`] if `plan` is not a plan, [`RecordError::Io`] if the system refuses.
    pub fn create(dir: &Path, plan: &str) -> Result<Self, RecordError> {
        let hist = dir.join(HISTOGRAMS);
        fs::create_dir_all(&hist).map_err(RecordError::io("make", &hist))?;
        let path = dir.join(PLAN);
        let outline = recording::outline(&path, plan)?;
        let mut recorder = Self::open(dir)?;
        if path.exists() {
            return Err(RecordError::Taken { path: dir.to_path_buf() });
        }
        let axes: Vec<String> = outline.study.axes.iter().map(|axis| axis.key.clone()).collect();
        let headers = table::headers(&axes).map_err(RecordError::io("lay out", dir))?;
        for (file, header) in recorder.files.iter_mut().zip(headers) {
            file.truncate(0)?;
            file.append(&header)?;
        }
        recorder.events().truncate(0)?;
        // The plan comes last: a directory with a plan is one whose tables are there.
        write_whole(&path, plan.as_bytes())?;
        Ok(recorder)
    }

    /// Goes on with the run in `dir`, cutting off what the last session did not finish. Also gives
    /// what is finished; `plan` and `executor` (`real` or `virtual`) must be those it was begun with.
    ///
    /// # Errors
    /// [`RecordError::OtherPlan`] if the plan is another, [`RecordError::OtherExecutor`] if the
    /// executor is, otherwise as [`create`](Self::create) and
    /// [`Recording::load`](crate::Recording::load).
    pub fn resume(dir: &Path, plan: &str, executor: &str) -> Result<(Self, Vec<Finished>), RecordError> {
        let (path, text) = recording::read_plan(dir)?;
        let json = |text: &str| {
            serde_json::from_str::<Value>(text).map_err(|e| RecordError::Malformed {
                path: path.clone(),
                line: e.line() as u64,
                what: e.to_string(),
            })
        };
        if let Some(first) = plan_differences(&json(&text)?, &json(plan)?, 1).pop() {
            return Err(RecordError::OtherPlan { path: dir.to_path_buf(), differs: first.place });
        }
        let mut recorder = Self::open(dir)?;
        let sheets = recording::sheets(dir)?;
        let (events, whole) = recording::events(&dir.join(EVENTS))?;
        let first =
            events.iter().find_map(|event| if let Event::Session(session) = event { Some(session) } else { None });
        if let Some(first) = first.filter(|first| first.executor != executor) {
            let (path, found, wanted) = (dir.to_path_buf(), first.executor.clone(), executor.to_string());
            return Err(RecordError::OtherExecutor { path, found, wanted });
        }
        let finished = recording::finished(&events, &sheets)?;
        let keys: HashSet<(u32, u32)> = finished.iter().map(|f| (f.cell, f.attempt)).collect();
        let axes: Vec<String> = recording::outline(&path, &text)?.study.axes.into_iter().map(|axis| axis.key).collect();
        let headers = table::headers(&axes).map_err(RecordError::io("lay out", dir))?;
        for ((file, sheet), header) in recorder.files.iter_mut().zip(&sheets).zip(headers) {
            let end = last_row_of(sheet, &keys)?;
            file.truncate(end)?;
            // A table that was added since the run began.
            if end == 0 {
                file.append(&header)?;
            }
        }
        recorder.events().truncate(whole)?;
        Ok((recorder, finished))
    }

    /// Writes a finished cell. When this returns, the cell survives a kill and a power failure.
    ///
    /// # Errors
    /// [`RecordError::Io`]; then nothing of the cell is kept, and it may be tried again.
    pub fn cell(&mut self, cell: &CellRecord) -> Result<Finished, RecordError> {
        let (tables, rows) = table::rows(cell).map_err(RecordError::io("lay out", &self.dir))?;
        let finished = Finished {
            cell: cell.cell,
            repeat: cell.repeat,
            attempt: cell.attempt,
            spoiled: cell.health.spoiled.clone(),
            rows,
        };
        let path = histogram_path(&self.dir, cell.cell, cell.attempt);
        let log = crate::histlog::encode(&cell.histograms).map_err(RecordError::io("lay out", &path))?;
        write_whole(&path, &log)?;
        for capture in &cell.captures {
            self.capture(cell, capture)?;
        }
        let lengths: Vec<u64> = self.files.iter().map(|file| file.length).collect();
        let mut write = || {
            for (file, rows) in self.files.iter_mut().zip(&tables) {
                file.append(rows)?;
                // The line that says they are there must not be on the disk before them.
                file.sync()?;
            }
            self.event(&Event::Finished(finished.clone()))?;
            self.events().sync()
        };
        let outcome = write();
        if outcome.is_err() {
            for (file, length) in self.files.iter_mut().zip(lengths) {
                // Shrinking works on a full disk; if it does not, the missing event has the same effect.
                file.truncate(length).ok();
            }
        }
        outcome.map(|()| finished)
    }

    /// Writes what crossed a link, and says so if that is not all of it.
    fn capture(&mut self, cell: &CellRecord, capture: &CaptureRecord) -> Result<(), RecordError> {
        let dir = self.dir.join(CAPTURES);
        fs::create_dir_all(&dir).map_err(RecordError::io("make", &dir))?;
        write_whole(&dir.join(format!("{:05}-{}.{}.pcapng", cell.cell, cell.attempt, capture.link)), &capture.bytes)?;
        if capture.left_out > 0 {
            let what = format!("packets that the capture of `{}` had no room for", capture.link);
            let note = Note { at_s: None, cell: Some(cell.cell), what, value: Some(capture.left_out) };
            self.event(&Event::Note(note))?;
        }
        Ok(())
    }

    /// Writes a line to `events.jsonl`.
    ///
    /// # Errors
    /// [`RecordError::Io`]; then nothing of it is kept.
    pub fn event(&mut self, event: &Event) -> Result<(), RecordError> {
        let path = self.dir.join(EVENTS);
        let mut line = serde_json::to_vec(event).map_err(|e| RecordError::io("lay out", &path)(e.into()))?;
        line.push(b'\n');
        self.events().append(&line)
    }

    fn open(dir: &Path) -> Result<Self, RecordError> {
        let mut files = Vec::new();
        for name in TABLES.into_iter().chain([EVENTS]) {
            let path = dir.join(name);
            let mut file = OpenOptions::new()
                .create(true)
                .truncate(false)
                .write(true)
                .open(&path)
                .map_err(RecordError::io("open", &path))?;
            let length = file.seek(SeekFrom::End(0)).map_err(RecordError::io("read", &path))?;
            files.push(Appended { path, file, length });
        }
        let recorder = Self { dir: dir.to_path_buf(), files };
        match recorder.files[TABLES.len()].file.try_lock() {
            Ok(()) => Ok(recorder),
            Err(TryLockError::WouldBlock) => Err(RecordError::Busy { path: dir.to_path_buf() }),
            Err(TryLockError::Error(source)) => Err(RecordError::io("lock", &dir.join(EVENTS))(source)),
        }
    }

    fn events(&mut self) -> &mut Appended {
        &mut self.files[TABLES.len()]
    }
}

impl Appended {
    fn append(&mut self, bytes: &[u8]) -> Result<(), RecordError> {
        match self.file.write_all(bytes) {
            Ok(()) => {
                self.length += bytes.len() as u64;
                Ok(())
            }
            Err(source) => {
                let error = RecordError::io("write", &self.path)(source);
                self.truncate(self.length).ok();
                Err(error)
            }
        }
    }

    /// Waits until what was written is on the disk.
    fn sync(&self) -> Result<(), RecordError> {
        self.file.sync_data().map_err(RecordError::io("write", &self.path))
    }

    fn truncate(&mut self, length: u64) -> Result<(), RecordError> {
        self.file
            .set_len(length)
            .and_then(|()| self.file.seek(SeekFrom::Start(length)))
            .map_err(RecordError::io("shorten", &self.path))?;
        self.length = length;
        Ok(())
    }
}

/// Where a cell's histograms are.
pub(crate) fn histogram_path(dir: &Path, cell: u32, attempt: u32) -> PathBuf {
    dir.join(HISTOGRAMS).join(format!("{cell:05}-{attempt}.hlog"))
}

/// Where the last row of a finished cell ends. Cells are written one after another, so what follows
/// is of the cell that was being written when the run stopped.
fn last_row_of(sheet: &Sheet, finished: &HashSet<(u32, u32)>) -> Result<u64, RecordError> {
    let mut end = sheet.header_end();
    for row in sheet.rows() {
        if finished.contains(&row.key()?) {
            end = row.end();
        }
    }
    Ok(end)
}

/// Writes a file so that it is either there as a whole or not at all.
///
/// # Errors
/// [`RecordError::Io`].
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), RecordError> {
    let mut name = path.as_os_str().to_os_string();
    name.push(".part");
    let part = PathBuf::from(name);
    let write = || {
        let mut file = File::create(&part)?;
        file.write_all(bytes)?;
        // A name must not come before what it names, should the power fail.
        file.sync_data()?;
        fs::rename(&part, path)
    };
    let outcome = write();
    if outcome.is_err() {
        fs::remove_file(&part).ok();
    }
    outcome.map_err(RecordError::io("write", path))
}
