//! A cell that is a load on a UPF: generator and UPF alone on the machine, and links on N3 and N6.

use engine::{ExitId, Graph};
use measure::{CellRecord, Discarded};
use netio::clock::Epoch;
use netio::cpu;
use netio::executor::{CellHandle, CellSpec, CellWire, Dataplane};
use netio::port::{Packet, Wire};
use netio::site::Namespace;

use super::{CellError, discarded, late_limit};
use crate::load::{Embedded, LoadPlan, Upf};
use crate::plan::{Cell, Flow};
use crate::read::{parse_load, samples_per_second};
use crate::run::cell;
use crate::run::links::{self, LinkNodes};
use crate::run::load::{Between, LoadError, LoadNews, Measured, captures, run_cell};
use crate::topology::Topology;

/// Whether the captures are there that the cells' loads replay.
///
/// # Errors
///
/// The first that is missing.
pub(super) fn require(cells: &[Cell]) -> Result<(), CellError> {
    for cell in cells {
        let Some((flow, load)) = cell.load() else { continue };
        let plan = plan(cell, flow, load)?;
        if let Some(path) = captures(&plan).into_iter().find(|path| !path.exists()) {
            return Err(CellError::NoCapture { file: load.file.clone(), path });
        }
        let linked = load.n3.is_some() || load.n6.is_some();
        if plan.upf != Upf::Own && linked {
            return Err(CellError::LinkedElsewhere);
        }
    }
    Ok(())
}

/// Runs the load of a cell.
///
/// # Errors
///
/// What keeps it from running.
pub(super) fn run(dataplane: &Dataplane, cell: &Cell, flow: &Flow, load: &Embedded) -> Result<CellRecord, CellError> {
    let plan = plan(cell, flow, load)?;
    let machine = cpu::Machine::now();
    let mut emulated: Option<Emulated> = None;
    let mut told = Vec::new();
    let mut tell = |news: LoadNews<'_>| {
        if let LoadNews::Note(what) = news {
            told.push(what.to_owned());
        }
    };
    let measured = match &plan.upf {
        Upf::Own => {
            let mut open = |between: &Namespace| {
                let started = Emulated::start(dataplane, cell, load, between);
                emulated = Some(started.map_err(|error| LoadError::Link(error.to_string()))?);
                Ok(())
            };
            let lines = [load.n3.is_some(), load.n6.is_some()];
            let mut between = Between { lines, open: &mut open };
            run_cell(&plan, lines.contains(&true).then_some(&mut between), &mut tell)
        }
        // Its interfaces are the machine's, which cells otherwise do not see.
        Upf::Other(_) => match netio::sandbox::host_network() {
            Some(host) => host.run(|| run_cell(&plan, None, &mut tell))?,
            None => run_cell(&plan, None, &mut tell),
        },
    };
    let removed =
        emulated.map(|emulated| Ok::<_, CellError>((emulated.handle.remove()?, emulated.links))).transpose()?;
    let Measured { observation, mut health, lateness, upf } = measured.map_err(CellError::Load)?;
    if let Some(shares) = machine.and_then(|before| cpu::Machine::now()?.since(&before)) {
        health.machine_busy = shares.busy;
        health.machine_steal = shares.steal;
    }
    let mut record = cell::record(cell, &Topology::of(cell), vec![observation], "own");
    record.health = health;
    record.histograms.push((measure::LATENESS.into(), lateness));
    if let Some((removed, nodes)) = removed {
        record.pipes = links::pipes(cell, &removed.graph, &nodes);
        record.captures = links::captures(cell, &removed.graph, &nodes, 0);
        record.discarded = discarded(cell, &removed.report);
    }
    if let Some(upf) = upf {
        let drops = upf.counters.drops().into_iter().filter(|(_, packets)| *packets > 0);
        let drops = drops.map(|(reason, packets)| ("UPF".to_owned(), reason.name().into(), packets));
        let lost = upf.ports.iter().map(|port| (format!("UPF's {}", port.name), "interface".into(), port.lost()));
        let all = drops.chain(lost.filter(|(.., packets)| *packets > 0));
        record.discarded.extend(all.map(|(place, reason, packets)| Discarded { place, reason, packets }));
    }
    Ok(record)
}

/// The load of a cell, changed as the scenario says.
fn plan(cell: &Cell, flow: &Flow, load: &Embedded) -> Result<LoadPlan, CellError> {
    let refuse = |why: String| CellError::Embedded { flow: flow.name.clone(), why };
    let mut plan = parse_load(&load.file, &flow.name, &load.text, &load.folder, cell.seed)
        .map_err(|error| refuse(error.to_string()))?;
    plan.seed = cell.seed;
    let samples = samples_per_second(cell.interval).ok_or_else(|| refuse("its samples".into()))?;
    load.apply(&mut plan, cell.duration, samples).map_err(|error| refuse(error.to_string()))?;
    Ok(plan)
}

/// Links on the way.
struct Emulated {
    handle: CellHandle,
    links: Vec<LinkNodes>,
}

impl Emulated {
    /// Joins what lies between generator and UPF by the links.
    fn start(dataplane: &Dataplane, cell: &Cell, load: &Embedded, between: &Namespace) -> Result<Self, CellError> {
        let mut graph = Graph::new();
        let links = links::add(cell, &mut graph)?;
        let mut wires = Vec::new();
        // A link's first end is where uplink packets come from.
        let n3 = load.n3.map(|link| (link, ["n3-load", "n3-upf"]));
        let n6 = load.n6.map(|link| (link, ["n6-upf", "n6-load"]));
        for (link, interfaces) in n3.into_iter().chain(n6) {
            for (side, interface) in interfaces.into_iter().enumerate() {
                let exit = ExitId(link * 2 + side);
                graph.connect_exit(links[link].exit(side), exit);
                let wire = Wire::Packet(Packet::interface(between, interface)?);
                let name = format!("{} at {interface}", cell.links[link].name);
                wires.push(CellWire { name, wire, entry: links[link].entry(side), exit });
            }
        }
        let spec = CellSpec { epoch: Epoch::now(), graph, wires, late: late_limit(cell) };
        Ok(Self { handle: dataplane.add(spec)?, links })
    }
}
