//! The files a scenario names: delivery traces, delay tables and timelines, recorded losses.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;

use engine::Span;
use link::{Empirical, LossTrace, Opportunities, Timeline};
use traffic::Frames;

use crate::read::fields;
use crate::read::file::ReadFile;
use crate::read::load::parse_load;
use crate::read::problem::{Noted, Notes, Problem};
use crate::read::yaml::Node;

/// Reads each file once, however many cells name it.
pub(crate) struct Traces<'a> {
    read: ReadFile<'a>,
    folder: &'a Path,
    texts: RefCell<BTreeMap<String, Result<String, String>>>,
}

impl<'a> Traces<'a> {
    /// `folder` is where captures are, which are read when they are played.
    pub(crate) fn new(read: ReadFile<'a>, folder: &'a Path) -> Self {
        Self { read, folder, texts: RefCell::default() }
    }

    /// Where captures are.
    pub(crate) fn folder(&self) -> &Path {
        self.folder
    }

    /// A load file: its name and what stands in it.
    pub(crate) fn load_file(&self, notes: &Notes, node: &Node) -> Result<(String, String), Noted> {
        let name = fields::text(notes, node)?;
        self.parse(notes, node, "a load, as `narrows load` takes it", |text| {
            let plan = parse_load(name, name, text, self.folder, 0).map_err(|error| error.to_string())?;
            Ok(plan.source)
        })
    }

    /// Bytes of all files read so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.texts.borrow().values().flatten().map(|text| text.len() as u64).sum()
    }

    /// A packet delivery trace as mahimahi reads it: on each line the millisecond of an opportunity.
    pub(crate) fn opportunities(&self, notes: &Notes, node: &Node) -> Result<Opportunities, Noted> {
        self.parse(notes, node, "a mahimahi trace, one whole millisecond on each line, never decreasing", |text| {
            let mut at_ms: Vec<u64> = Vec::new();
            for (number, line) in lines(text) {
                let ms = line.parse().map_err(|_| format!("line {number}: `{}` is not a whole number", cut(line)))?;
                if at_ms.last().is_some_and(|last| ms < *last) {
                    return Err(format!("line {number}: {ms} is before the line above"));
                }
                at_ms.push(ms);
            }
            match at_ms.last() {
                None => Err("there is no opportunity in it".to_owned()),
                Some(0) => Err("it has no length: the last line must be over 0".to_owned()),
                Some(_) => Ok(at_ms),
            }
        })
        .map(|(source, at_ms)| Opportunities { source, at_ms })
    }

    /// A distribution of delays, one with its unit on each line.
    pub(crate) fn empirical(&self, notes: &Notes, node: &Node) -> Result<Empirical, Noted> {
        self.parse(notes, node, "delays, one with its unit on each line", |text| {
            let mut delays = Vec::new();
            for (number, line) in lines(text) {
                delays.push(line.parse::<Span>().map_err(|error| format!("line {number}: {error}"))?);
            }
            delays.sort_unstable();
            if delays.len() < 2 { Err("a distribution needs at least two delays".to_owned()) } else { Ok(delays) }
        })
        .map(|(source, delays)| Empirical { source, delays })
    }

    /// Delays over time: CSV whose two columns name their units, such as `time_s,delay_ms`.
    pub(crate) fn timeline(&self, notes: &Notes, node: &Node, interpolate: bool) -> Result<Timeline, Noted> {
        self.parse(notes, node, "CSV with the columns `time_s,delay_ms`", |text| {
            let mut lines = lines(text);
            let (_, header) = lines.next().ok_or("it is empty")?;
            let (time, delay) = header.split_once(',').ok_or("its first line does not name two columns")?;
            let (time, delay) = (column(time, "time_")?, column(delay, "delay_")?);
            let mut steps: Vec<(Span, Span)> = Vec::new();
            for (number, line) in lines {
                let (at, long) = line.split_once(',').ok_or_else(|| format!("line {number}: there is one column"))?;
                let read = |value: &str, unit: &str| format!("{}{unit}", value.trim()).parse::<Span>();
                let at = read(at, time).map_err(|error| format!("line {number}: {error}"))?;
                let long = read(long, delay).map_err(|error| format!("line {number}: {error}"))?;
                match steps.last() {
                    None if at > Span::ZERO => return Err(format!("line {number}: the first time must be 0")),
                    Some((before, _)) if at <= *before => {
                        return Err(format!("line {number}: its time is not after the line above"));
                    }
                    _ => steps.push((at, long)),
                }
            }
            if steps.is_empty() { Err("there is no step in it".to_owned()) } else { Ok(steps) }
        })
        .map(|(source, steps)| Timeline { source, steps, interpolate })
    }

    /// Recorded losses: `1` is lost, `0` is not, white space between them means nothing.
    pub(crate) fn losses(&self, notes: &Notes, node: &Node) -> Result<LossTrace, Noted> {
        self.parse(notes, node, "`0` and `1`, one for each packet", |text| {
            let mut lost = Vec::new();
            for (number, line) in lines(text) {
                for c in line.chars().filter(|c| !c.is_whitespace()) {
                    match c {
                        '0' | '1' => lost.push(c == '1'),
                        _ => return Err(format!("line {number}: `{}` is neither 0 nor 1", c.escape_default())),
                    }
                }
            }
            if lost.is_empty() { Err("there is no packet in it".to_owned()) } else { Ok(lost) }
        })
        .map(|(source, lost)| LossTrace { source, lost })
    }

    /// Frames of a vocoder in hexadecimal.
    pub(crate) fn frames(&self, notes: &Notes, node: &Node) -> Result<Frames, Noted> {
        self.parse(notes, node, "frames of a vocoder in hexadecimal digits", |text| {
            let digits: String = lines(text).map(|(_, line)| line).collect();
            Frames::parse(&digits).ok_or_else(|| "it is not pairs of hexadecimal digits".to_owned())
        })
        .map(|(_, frames)| frames)
    }

    fn parse<T>(
        &self,
        notes: &Notes,
        node: &Node,
        wanted: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<(String, T), Noted> {
        let name = fields::text(notes, node)?;
        let mut texts = self.texts.borrow_mut();
        if !texts.contains_key(name) {
            texts.insert(name.to_owned(), (self.read)(name).map_err(|error| error.to_string()));
        }
        match &texts[name] {
            Err(error) => {
                let problem = Problem::new(node.at, format!("cannot read `{name}`: {error}"));
                Err(notes.note(problem.remedy("files are looked for beside the scenario")))
            }
            Ok(text) => parse(text).map(|value| (name.to_owned(), value)).map_err(|error| {
                let problem = Problem::new(node.at, format!("`{name}` cannot be used, {error}"));
                notes.note(problem.remedy(format!("it should hold {wanted}")))
            }),
        }
    }
}

/// Lines with something in them, and their numbers; `#` begins a comment.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let content = |line: &'_ str| line.find('#').map_or(line.len(), |hash| hash);
    let lines = text.lines().enumerate().map(move |(i, line)| (i + 1, line[..content(line)].trim()));
    lines.filter(|(_, line)| !line.is_empty())
}

/// The unit in a column's name.
fn column<'a>(name: &'a str, prefix: &str) -> Result<&'a str, String> {
    let name = name.trim();
    match name.strip_prefix(prefix) {
        Some(unit @ ("ns" | "us" | "ms" | "s")) => Ok(unit),
        _ => Err(format!("the column `{}` should be called `{prefix}` and a unit: ns, us, ms or s", cut(name))),
    }
}

/// The beginning of a text, for a message.
fn cut(text: &str) -> &str {
    text.char_indices().nth(40).map_or(text, |(byte, _)| &text[..byte])
}
