//! Cells on real kernels: sites in namespaces, links between them, many cells side by side.

mod build;
mod iperf3;
pub(crate) mod live;
mod plane;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use engine::Span;
use measure::event::{Machine, Session};
use measure::{AdapterRecord, CaptureRecord, CellRecord, Discarded, Health, Observation, Quantiles};
use netio::clock::Epoch;
use netio::cpu;
use netio::endpoint::{EndpointError, Endpoints, Timing};
use netio::executor::{AddError, CellHandle, CellReport, Dataplane, Options, Removed, Stopped};

use crate::plan::{Cell, Link, Plan};
use crate::read::mean_delay;
use crate::run::cell::{self, CONNECT_LIMIT};
use crate::run::links::{self, AdapterCounts, LinkError, LinkNodes};
use crate::run::load::LoadError;
use crate::run::schedule::{self, Governor, Jobs, Load, Queue, TOTAL_RATE, Waiting};
use crate::run::talk;
use crate::run::{Executor, Outcome, Results, RunError};
use crate::topology::Topology;

pub(crate) use iperf3::Iperf3Error;

use build::Built;

/// Why a cell could not be run on this machine.
#[derive(Debug, thiserror::Error)]
pub enum CellError {
    /// A namespace or device.
    #[error(transparent)]
    Network(#[from] netio::SetupError),
    /// A socket.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The data plane.
    #[error(transparent)]
    Add(#[from] AddError),
    /// The data plane ended.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// A link that cannot be.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// QUIC.
    #[error(transparent)]
    Keys(#[from] traffic::KeyError),
    /// A load on a UPF.
    #[error(transparent)]
    Load(LoadError),
    /// A capture that a load replays is not there.
    #[error(
        "`{file}` replays {}, which is not there; make it with a scenario that captures (`trace-download.yaml` and `trace-video.yaml` ship with Narrows; the capture is in `captures/` of the results), or name another one by `trace`", path.display()
    )]
    NoCapture {
        /// The load file.
        file: String,
        /// The capture.
        path: PathBuf,
    },
    /// A load as the scenario changes it.
    #[error("the load `{flow}` cannot be run: {why}")]
    Embedded {
        /// The traffic entry.
        flow: String,
        /// Why.
        why: String,
    },
    /// Links stand before the own UPF only.
    #[error(
        "links stand on N3 and N6 of the own UPF alone; leave `n3` and `n6` of the load away, or its UPF's addresses"
    )]
    LinkedElsewhere,
    /// A fault in the program itself.
    #[error("a cell's thread failed: {0}; this is a fault of narrows, please report it")]
    Panicked(String),
    /// The other engine.
    #[error(transparent)]
    Iperf3(#[from] Iperf3Error),
}

/// How long a load that is interrupted may take to delete its sessions.
const LOAD_ENDS: Duration = Duration::from_secs(60);
/// A packet that is late by less than this is late by nothing worth counting on any link.
const LATE_LEAST: Span = Span::from_millis(1);
/// On a slow link a packet is late only if that changes its delay by more than one part in this.
const LATE_PART: u64 = 20;
/// On a line of characters something is late only if it is so by more than this many characters.
const LATE_CHARACTERS: u64 = 5;
/// Of a cell's packets this share may be late before its figures are not trusted.
const LATE_SHARE: f64 = 0.01;
/// Of a cell's time this share may be spent in stalls.
const STALL_SHARE: f64 = 0.02;

/// Whether this machine has the programs that cells want.
///
/// # Errors
///
/// The first that is missing.
pub(crate) fn check(cells: &[Cell]) -> Result<(), CellError> {
    plane::require(cells)?;
    Ok(iperf3::require(cells)?)
}

/// Runs the cells of a plan, several side by side, until none is left or the run is interrupted.
pub(crate) fn run(plan: &Plan, mut todo: Queue, jobs: Jobs, results: &mut Results<'_>) -> Result<Outcome, RunError> {
    netio::machine::raise_descriptor_limit();
    let testbed = Arc::new(Testbed::start()?);
    let (cell_s, wire) = (longest(plan), build::wire_kind()?);
    results.begin(session(wire, jobs), cell_s)?;

    let (done, finished) = mpsc::channel();
    let mut governor = Governor::new(jobs);
    let mut running = Running::default();
    let mut watch = Watch::start(&testbed);
    let mut cut_off = false;
    loop {
        let stop = netio::sandbox::interrupted();
        while !stop && running.cells.len() < governor.limit() {
            let rate = running.rate(plan);
            let fits = |next: Waiting| {
                running.cells.is_empty() || rate.saturating_add(schedule::rate(&plan.cells[next.cell])) <= TOTAL_RATE
            };
            let Some(next) = todo.take(fits) else { break };
            running.start(&testbed, plan.cells[next.cell].clone(), next, &done);
        }
        results.running(running.cells.len());
        if running.cells.is_empty() || stop {
            break;
        }
        match finished.recv_timeout(Duration::from_millis(200)) {
            Ok((_, Err(CellError::Load(LoadError::Interrupted)))) => {
                running.cells.clear();
                cut_off = true;
                break;
            }
            Ok((cell, outcome)) => {
                running.cells.retain(|other| *other != cell);
                let record = outcome?;
                let again = record.health.spoiled.is_some() && todo.again(cell);
                results.keep(&record, again)?;
            }
            Err(RecvTimeoutError::Timeout) => {}
            // `done` is held here.
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if let Some(load) = watch.look(&testbed)? {
            governor.look(load, running.cells.len());
            if let Some(shift) = watch.clock_set() {
                results.note(format!("the system clock was set by {shift:.3} s; nothing here runs on it"))?;
            }
        }
    }
    if running.cells.iter().any(|waiting| plan.cells[waiting.cell].load().is_some()) {
        // It hears of the interruption itself, and deletes its sessions. It ran alone.
        let _ = finished.recv_timeout(LOAD_ENDS);
    }
    Ok(if todo.is_empty() && running.cells.is_empty() && !cut_off { Outcome::Complete } else { Outcome::Interrupted })
}

/// What every cell shares: one thread for the links, one for the endpoints.
struct Testbed {
    dataplane: Dataplane,
    endpoints: Endpoints,
    running: AtomicUsize,
}

impl Testbed {
    fn start() -> Result<Self, CellError> {
        let options = Options { spin: true, ..Options::default() };
        let endpoints = Endpoints::start()
            .map_err(|source| EndpointError::Socket { doing: "start the endpoints' thread".into(), source })?;
        Ok(Self { dataplane: Dataplane::start(options)?, endpoints, running: AtomicUsize::new(0) })
    }

    /// Builds a cell, runs it to its end and takes it down.
    fn run(&self, cell: &Cell) -> Result<CellRecord, CellError> {
        if let Some((flow, load)) = cell.load() {
            return plane::run(&self.dataplane, cell, flow, load);
        }
        let built = Built::new(cell)?;
        let machine = cpu::Machine::now();
        let started = Instant::now();
        let beside = self.running.fetch_add(1, Ordering::Relaxed) + 1;
        let outcome = self.measure(cell, built);
        let left = self.running.fetch_sub(1, Ordering::Relaxed);
        let Measured { observations, ends, removed, links, adapters, captures } = outcome?;

        let mut record = cell::record(cell, &Topology::of(cell), observations, "own");
        record.pipes = links::pipes(cell, &removed.graph, &links);
        record.adapters = adapters;
        record.captures = captures;
        record.discarded = discarded(cell, &removed.report);
        let unmeant = record.discarded.iter().filter(|dropped| !links::drops_by_design(cell, &dropped.place));
        let unmeant: Vec<_> = unmeant.cloned().collect();
        record.discarded.extend(links::losses(cell, &removed.graph, &links));
        record.health = health(&removed.report, &unmeant, started.elapsed());
        ends.judge(&mut record.health, started.elapsed());
        record.health.cells_beside = u32::try_from(beside.max(left)).unwrap_or(u32::MAX);
        if let Some(shares) = machine.and_then(|before| cpu::Machine::now()?.since(&before)) {
            record.health.machine_busy = shares.busy;
            record.health.machine_steal = shares.steal;
        }
        record.histograms.push((measure::LATENESS.into(), removed.report.lateness));
        Ok(record)
    }

    fn measure(&self, cell: &Cell, built: Built) -> Result<Measured, CellError> {
        let Built { spec, applications, links } = built;
        let unix = spec.epoch.unix_nanos();
        let handle = self.dataplane.add(spec)?;
        let (iperf3, own): (Vec<_>, Vec<_>) = cell.flows.iter().enumerate().partition(|(_, flow)| iperf3::is_for(flow));
        let own = own.into_iter().map(|(number, _)| build::flow_spec(cell, number, &applications));
        let own = own.collect::<Result<_, _>>()?;
        let others =
            iperf3.into_iter().zip(0..).map(|((_, flow), number)| iperf3::start(cell, flow, &applications, number));
        let others: Vec<_> = others.collect::<Result<_, _>>()?;
        let running = self.endpoints.run(own, timing(cell))?;
        let adapters = adapters(cell, &links, &handle, &running)?;
        let ran = running.wait()?;
        let mut own = ran.observations.into_iter().zip(ran.ends);
        let mut ends = Ends { cpu: ran.cpu, stalled: ran.stalls.total, overflowed: ran.overflowed };
        let mut others = others.into_iter();
        let observations = cell.flows.iter().map(|flow| {
            if !iperf3::is_for(flow) {
                let (mut observation, ends) = own.next().unwrap_or_default();
                if let Some([first, second]) = &ends {
                    talk::observe(&flow.traffic, &mut observation, [&**first, &**second]);
                }
                return observation;
            }
            let (observation, busy) = others.next().map(iperf3::Iperf3::wait).unwrap_or_default();
            ends.cpu += busy;
            observation
        });
        let observations = observations.collect();
        let removed = handle.remove()?;
        let captures = links::captures(cell, &removed.graph, &links, unix);
        Ok(Measured { observations, ends, removed, links, adapters, captures })
    }
}

/// What a cell gave.
struct Measured {
    observations: Vec<Observation>,
    ends: Ends,
    removed: Removed,
    adapters: Vec<AdapterRecord>,
    captures: Vec<CaptureRecord>,
    links: Vec<LinkNodes>,
}

/// How the endpoints of a cell fared.
struct Ends {
    cpu: Span,
    stalled: Span,
    overflowed: Option<u64>,
}

impl Ends {
    /// Adds to a cell's health what the endpoints tell of it.
    fn judge(&self, health: &mut Health, elapsed: Duration) {
        let share = self.stalled.as_secs_f64() / elapsed.as_secs_f64();
        let stalls = (share > STALL_SHARE)
            .then(|| format!("{:.1} % of its time the endpoints were held up by stalls", share * 100.0));
        let overflow = match self.overflowed {
            Some(0) => None,
            Some(lost) => Some(format!("{lost} datagrams found no room at the receiving endpoint")),
            None => Some("how many datagrams found no room at the receiving endpoint is unknown".into()),
        };
        let reasons = health.spoiled.take().into_iter().chain(stalls).chain(overflow);
        health.spoiled = reasons.reduce(|all, reason| format!("{all}; {reason}"));
        health.cpu_s.push(("endpoints".into(), self.cpu.as_secs_f64()));
    }
}

/// The cells that run now.
#[derive(Default)]
struct Running {
    cells: Vec<Waiting>,
}

type Finished = (Waiting, Result<CellRecord, CellError>);

impl Running {
    fn start(&mut self, testbed: &Arc<Testbed>, cell: Cell, next: Waiting, done: &Sender<Finished>) {
        self.cells.push(next);
        let (testbed, done) = (Arc::clone(testbed), done.clone());
        thread::spawn(move || {
            let mut outcome = caught(|| testbed.run(&cell));
            if let Ok(record) = &mut outcome {
                record.attempt = next.attempt;
            }
            // If nobody listens any more the run was interrupted.
            let _ = done.send((next, outcome));
        });
    }

    fn rate(&self, plan: &Plan) -> u64 {
        self.cells.iter().map(|waiting| schedule::rate(&plan.cells[waiting.cell])).fold(0, u64::saturating_add)
    }
}

/// A panic as an error: whoever waits for the cell would wait for ever.
fn caught<T>(work: impl FnOnce() -> Result<T, CellError>) -> Result<T, CellError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(CellError::Panicked(text.unwrap_or_else(|| "no reason given".into())))
    })
}

/// Watches the machine between the governor's looks.
struct Watch {
    machine: Option<cpu::Machine>,
    packets: u64,
    late: u64,
    looked: Instant,
    clock: Epoch,
}

impl Watch {
    fn start(testbed: &Testbed) -> Self {
        let totals = testbed.dataplane.totals().unwrap_or_default();
        Self {
            machine: cpu::Machine::now(),
            packets: totals.packets,
            late: totals.late,
            looked: Instant::now(),
            clock: Epoch::now(),
        }
    }

    /// The load since the last look, once the governor's period has passed.
    fn look(&mut self, testbed: &Testbed) -> Result<Option<Load>, CellError> {
        if self.looked.elapsed() < Duration::from(Governor::PERIOD) {
            return Ok(None);
        }
        let totals = testbed.dataplane.totals()?;
        let machine = cpu::Machine::now();
        let shares = self.machine.zip(machine).and_then(|(before, now)| now.since(&before));
        let load = Load {
            busy: shares.map_or(0.0, |shares| shares.busy + shares.steal),
            packets: totals.packets - self.packets,
            late: totals.late - self.late,
        };
        self.machine = machine;
        self.packets = totals.packets;
        self.late = totals.late;
        self.looked = Instant::now();
        Ok(Some(load))
    }

    /// By how many seconds somebody set the clock since this was last asked, if so. Slewing moves it
    /// by a few milliseconds at most meanwhile.
    fn clock_set(&mut self) -> Option<f64> {
        let shift = self.clock.realtime_shift();
        if shift.abs() < 50_000_000 {
            return None;
        }
        self.clock = Epoch::now();
        Some(shift as f64 / 1e9)
    }
}

/// Waits for the measured time to pass, and gives what the adapters did in it.
fn adapters(
    cell: &Cell,
    links: &[LinkNodes],
    handle: &CellHandle,
    running: &netio::endpoint::Running,
) -> Result<Vec<AdapterRecord>, CellError> {
    if links.iter().all(|link| link.adapters.is_none()) {
        return Ok(Vec::new());
    }
    let Some(begun) = running.begun() else { return Ok(Vec::new()) };
    let read = |after: Span| {
        thread::sleep((begun + Duration::from(after)).saturating_duration_since(Instant::now()));
        let links = links.to_vec();
        handle.ask(move |graph| AdapterCounts::read(graph, &links))
    };
    let before = read(cell.warmup)?;
    Ok(before.until(&read(cell.warmup + cell.duration)?, cell))
}

fn timing(cell: &Cell) -> Timing {
    Timing {
        connect: CONNECT_LIMIT,
        warmup: cell.warmup,
        duration: cell.duration,
        interval: cell.interval,
        drain: cell::drain(cell),
    }
}

/// From when on a packet of the cell counts as late: what is little beside its links' delays does not
/// spoil a figure.
fn late_limit(cell: &Cell) -> Span {
    let directions = cell.links.iter().filter_map(Link::packets).flatten();
    let pipes = directions.flat_map(|way| way.branches.iter().map(|branch| &branch.pipe).chain([&way.pipe]));
    let lines = cell.links.iter().filter_map(Link::characters).flatten().map(|way| way.delay);
    let shortest = pipes.map(|pipe| mean_delay(&pipe.delay)).chain(lines).min().unwrap_or(Span::ZERO);
    let part = Span::from_nanos(shortest.as_nanos() / LATE_PART);
    // A line's own grain is a character, and what matters is whole datagrams of them.
    let lines = cell.links.iter().filter_map(Link::characters).flatten();
    let grain = lines.map(|way| way.pace.time_for(LATE_CHARACTERS)).min().unwrap_or(Span::ZERO);
    // In whole microseconds, to be read.
    let grain = Span::from_micros(grain.as_nanos() / 1_000);
    LATE_LEAST.max(part).max(grain)
}

/// What ended outside the links: at the wires, or in the executor.
fn discarded(cell: &Cell, report: &CellReport) -> Vec<Discarded> {
    // The links' directions count their own, pipe by pipe.
    let own = |place: &str| cell.links.iter().any(|link| links::way_names(&link.name).iter().any(|n| n == place));
    let others = report.drops.iter().filter(|dropped| !own(&dropped.place));
    others.map(|d| Discarded { place: d.place.clone(), reason: d.reason.0.into(), packets: d.packets }).collect()
}

/// What the data plane tells of the machine, and whether it kept up.
fn health(report: &CellReport, discarded: &[Discarded], elapsed: Duration) -> Health {
    let elapsed = elapsed.as_secs_f64();
    let late_share = report.late as f64 / (report.packets_out as f64).max(1.0);
    let stall_share = report.stalls.total.as_secs_f64() / elapsed;
    let limit = report.late_limit;
    let mut reasons = Vec::new();
    if late_share > LATE_SHARE {
        reasons.push(format!("{:.1} % of its packets were more than {limit} late", late_share * 100.0));
    }
    if stall_share > STALL_SHARE {
        reasons.push(format!("{:.1} % of its time was lost in stalls", stall_share * 100.0));
    }
    reasons.extend(lost_outside(report.kernel_drops, discarded));
    for (wire, why) in &report.broken {
        reasons.push(format!("wire {wire} broke: {why}"));
    }
    Health {
        packets: report.packets_out,
        late_packets: report.late,
        late_limit: limit,
        lateness: Quantiles::of_nanos(&report.lateness).unwrap_or_default(),
        stalls: report.stalls.count,
        stalled: report.stalls.total,
        kernel_drops: report.kernel_drops.unwrap_or(0),
        cpu_s: vec![("emulator".into(), report.cpu.as_secs_f64())],
        spoiled: (!reasons.is_empty()).then(|| reasons.join("; ")),
        ..Health::default()
    }
}

/// Packets that no model of a link took away, in words.
fn lost_outside(kernel: Option<u64>, discarded: &[Discarded]) -> Vec<String> {
    let kernel = match kernel {
        Some(0) => None,
        Some(frames) => Some(format!("the kernel lost {frames} frames before the link")),
        None => Some("how many frames the kernel lost before the link is not known".into()),
    };
    let discarded = discarded.iter().map(|Discarded { place, reason, packets }| {
        format!("{packets} packets were dropped outside the links ({place}: {reason})")
    });
    kernel.into_iter().chain(discarded).collect()
}

fn longest(plan: &Plan) -> f64 {
    let lengths = plan.cells.iter().map(|cell| cell.warmup + cell.duration);
    lengths.max().unwrap_or(Span::ZERO).as_secs_f64()
}

fn session(wire: String, jobs: Jobs) -> Session {
    let machine = netio::machine::describe();
    Session {
        version: env!("CARGO_PKG_VERSION").into(),
        executor: Executor::Real.name().into(),
        started: Some(humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string()),
        wire: Some(wire),
        jobs: Some(match jobs {
            Jobs::Auto => "auto".into(),
            Jobs::Fixed(jobs) => jobs.to_string(),
        }),
        machine: Some(Machine {
            kernel: machine.kernel,
            cpu: machine.cpu,
            cpus: machine.cpus,
            memory_bytes: machine.memory_bytes,
        }),
        remarks: vec![format!(
            "A cell is spoiled, and run again up to {} times, if more than {} % of its packets are late, more than {} % of \
             its time is lost in stalls (the emulator's or the endpoints'), or packets were lost outside the links (by \
             the kernel, at a wire, at a receiving socket). Late is by more than {LATE_LEAST} or \
             1/{LATE_PART} of the cell's shortest mean one-way delay, whichever is longer.",
            schedule::RETRIES,
            LATE_SHARE * 100.0,
            STALL_SHARE * 100.0,
        )],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_outside_the_links_spoils_and_so_does_not_knowing() {
        let full = Discarded { place: "radio at ship".into(), reason: "wire full".into(), packets: 3 };
        assert!(lost_outside(Some(0), &[]).is_empty());
        assert!(lost_outside(Some(2), &[])[0].contains("lost 2 frames"));
        assert!(lost_outside(None, &[])[0].contains("not known"));
        assert!(lost_outside(Some(0), &[full])[0].contains("3 packets"));
    }

    #[test]
    fn a_cell_that_panics_ends_with_an_error() {
        let outcome: Result<(), CellError> = caught(|| panic!("no such {}", "thing"));
        assert!(matches!(outcome, Err(CellError::Panicked(why)) if why == "no such thing"));
        assert!(caught(|| Ok(())).is_ok());
    }
}
