//! A recording done again in virtual time.

use std::collections::VecDeque;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use adapter::{LAN, LINE};
use engine::{Checksum, DropReason, Event, ExitId, Graph, NodeId, Outlet, Packet, Span, Time};
use wire::recording::{self, Kind, Problem};

use super::TO_LINE;
use super::tap::About;

/// Why a recording could not be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// It cannot be read.
    #[error("cannot read the recording {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is no good recording.
    #[error("{}: {problem}", path.display())]
    Bad {
        /// The file.
        path: PathBuf,
        /// Why.
        problem: Problem,
    },
    /// The adapter it is of is not known here.
    #[error(
        "{}: the adapter it is of is not known to this version of narrows: {why}; replay it with the version that made it",
        path.display()
    )]
    About {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// It goes on for more than a year.
    #[error("{}: there is a record at {record}, more than a year after its start; no adapter recorded that", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// When that is.
        record: Time,
    },
}

/// An adapter sends something every second: who asked for centuries would wait for them.
const LONGEST: Span = Span::from_secs(366 * 86_400);

/// What came of a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// Frames and runs of characters that the adapter was given.
    pub inputs: u64,
    /// Runs of characters on the line, as recorded.
    pub runs: u64,
    /// Characters in these.
    pub characters: u64,
    /// The end of the recording, in logical time.
    pub until: Time,
    /// It was not ended properly, and replayed up to where it is cut.
    pub cut: bool,
    /// The first difference, if there is one.
    pub difference: Option<Difference>,
}

/// Where a replay and its recording part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Characters on the line before it, which are the same.
    pub character: u64,
    /// What was recorded from there on: when, and the run.
    pub recorded: Option<(Time, Vec<u8>)>,
    /// What the replay gave.
    pub replayed: Option<(Time, Vec<u8>)>,
}

/// Gives an adapter made as the recorded one was the same inputs at the same logical times, and
/// compares what it puts on its line, and when, with what was recorded.
///
/// # Errors
///
/// See [`ReplayError`]; a difference is none.
pub fn replay(path: &Path) -> Result<Replayed, ReplayError> {
    let file = fs::read(path).map_err(|source| ReplayError::Read { path: path.into(), source })?;
    replay_recording(path, &file)
}

/// As [`replay`], of a recording that is already read; `path` stands for it in messages.
///
/// # Errors
///
/// As [`replay`].
pub fn replay_recording(path: &Path, file: &[u8]) -> Result<Replayed, ReplayError> {
    let bad = |problem| ReplayError::Bad { path: path.into(), problem };
    let (about, records) = recording::read(file).map_err(bad)?;
    let unknown = |why: String| ReplayError::About { path: path.into(), why };
    let about: About = serde_json::from_str(&about).map_err(|error| unknown(error.to_string()))?;
    let mut graph = Graph::new();
    let nodes =
        super::build(&mut graph, &about.config, about.seed, true).map_err(|error| unknown(error.to_string()))?;

    let mut line = Comparison::default();
    let (mut inputs, mut cut) = (0, false);
    for record in records {
        let record = match record {
            Ok(record) => record,
            Err(Problem::Cut(_)) => {
                cut = true;
                break;
            }
            Err(problem) => return Err(bad(problem)),
        };
        let at = Time::from_nanos(record.at);
        if at.since(Time::ZERO) > LONGEST {
            return Err(ReplayError::TooLong { path: path.into(), record: at });
        }
        let port = match record.kind {
            Kind::FromLan(_) => LAN,
            Kind::FromLine => LINE,
            Kind::ToLine => {
                line.recorded(at, record.bytes);
                continue;
            }
            Kind::End => {
                graph.advance(at, &mut line);
                break;
            }
        };
        inputs += 1;
        let mut packet = Packet::new(record.bytes.to_vec());
        if let Kind::FromLan(Some((start, offset))) = record.kind {
            packet.checksum = Checksum::Partial { start, offset };
        }
        graph.inject(at, nodes.entry(port), packet, &mut line);
    }
    // Of a recording that is cut only what both have can be compared.
    if cut {
        let until = line.last;
        graph.advance(until, &mut line);
    }
    Ok(Replayed {
        inputs,
        runs: line.runs,
        characters: line.characters,
        until: graph.now(),
        cut,
        difference: line.finish(cut),
    })
}

/// What was recorded beside what is replayed. One may be ahead of the other.
#[derive(Default)]
struct Comparison {
    recorded: VecDeque<(Time, Vec<u8>)>,
    replayed: VecDeque<(Time, Vec<u8>)>,
    runs: u64,
    characters: u64,
    same: u64,
    last: Time,
    difference: Option<Difference>,
}

impl Comparison {
    fn recorded(&mut self, at: Time, bytes: &[u8]) {
        self.runs += 1;
        self.characters += bytes.len() as u64;
        self.last = at;
        if self.difference.is_none() {
            self.recorded.push_back((at, bytes.to_vec()));
            self.compare();
        }
    }

    fn compare(&mut self) {
        while let (Some(recorded), Some(replayed)) = (self.recorded.front(), self.replayed.front()) {
            if recorded != replayed {
                return self.differ();
            }
            self.same += recorded.1.len() as u64;
            self.recorded.pop_front();
            self.replayed.pop_front();
        }
    }

    fn differ(&mut self) {
        let (recorded, replayed) = (self.recorded.pop_front(), self.replayed.pop_front());
        self.difference = Some(Difference { character: self.same, recorded, replayed });
        self.recorded.clear();
        self.replayed.clear();
    }

    fn finish(mut self, cut: bool) -> Option<Difference> {
        let rest = !self.recorded.is_empty() || (!self.replayed.is_empty() && !cut);
        if self.difference.is_none() && rest {
            self.differ();
        }
        self.difference
    }
}

impl Outlet for Comparison {
    fn transmit(&mut self, exit: ExitId, packet: Packet) {
        if exit == TO_LINE && self.difference.is_none() {
            self.replayed.push_back((packet.launch, packet.bytes));
            self.compare();
        }
    }

    fn discard(&mut self, _: Time, _: NodeId, _: DropReason, _: Packet) {}

    fn event(&mut self, _: Time, _: NodeId, _: Event) {}
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Some((then, recorded)), Some((now, replayed))) = (&self.recorded, &self.replayed) else {
            let (which, run) = match (&self.recorded, &self.replayed) {
                (Some(run), _) => ("only the recording", Some(run)),
                (None, run) => ("only the replay", run.as_ref()),
            };
            let (at, length) = run.map_or((Time::ZERO, 0), |(at, bytes)| (*at, bytes.len()));
            return write!(f, "after {} characters {which} has a run of {length} at {at}", self.character);
        };
        let same = recorded.iter().zip(replayed).take_while(|(a, b)| a == b).count();
        if recorded == replayed {
            return write!(f, "the run at character {} left at {then}, in the replay at {now}", self.character);
        }
        let byte = |run: &[u8]| run.get(same).map_or("nothing".into(), |byte| format!("{byte:#04x}"));
        write!(
            f,
            "character {} is {}, in the replay {} (run of {} at {then}, in the replay of {} at {now})",
            self.character + same as u64,
            byte(recorded),
            byte(replayed),
            recorded.len(),
            replayed.len()
        )
    }
}
