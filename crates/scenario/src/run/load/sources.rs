//! From a plan to what generates its packets: captures are read, models begun.

use std::path::Path;
use std::sync::Arc;

use engine::{Random, Span, Time};
use traffic::models::{Arrivals, Model, PacketSizes};
use traffic::replay::{AddressTable, Network, Over, Replay, ReplayConfig, Trace};
use userplane::load::{AddressRange, DIRECTIONS, Population, Source, Traffic, User, index};

use crate::capture::{Capture, CaptureOptions};
use crate::load::{Load, LoadPlan, Sizes, TraceLoad};
use crate::run::load::LoadError;

/// Everything that was read from files, kept for as many runs as there are.
pub(super) struct Material {
    groups: Vec<Ready>,
    /// The population with the addresses that traces need.
    pub(super) population: Arc<Population>,
}

enum Ready {
    Nothing,
    Model([Option<Model>; 2], PacketSizes),
    Trace(Arc<Trace>, Arc<AddressTable>, TraceLoad),
}

/// How much of a plan's models is sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// When the first packets leave.
    pub(super) start: Time,
    /// For how long.
    pub(super) lasts: Span,
}

impl Material {
    /// Reads what the plan names.
    pub(super) fn read(plan: &LoadPlan, note: &mut dyn FnMut(&str)) -> Result<Self, LoadError> {
        let mut members = plan.population.groups().to_vec();
        let mut groups = Vec::new();
        for (group, members) in plan.groups.iter().zip(&mut members) {
            groups.push(match &group.load {
                Load::Nothing => Ready::Nothing,
                Load::Model { models, sizes } => {
                    let sizes = match sizes {
                        Sizes::Drawn(sizes) => sizes.clone(),
                        Sizes::Capture(path) => sizes_of(path, members.ues.first().is_ipv6())?,
                    };
                    Ready::Model(models.clone(), sizes)
                }
                Load::Trace(load) => {
                    let options = CaptureOptions {
                        filter: load.filter.clone(),
                        max_gap: load.max_gap,
                        ..CaptureOptions::default()
                    };
                    let capture = Capture::read(&load.path, &options)?;
                    if let Some(at) = capture.cut_off {
                        note(&format!(
                            "{}: ends in the middle of a packet, at byte {at}; what is before is replayed",
                            load.path.display()
                        ));
                    }
                    let table = AddressTable::new(&capture.trace, &load.rule);
                    let apart = if load.instances.over == Over::Pdn { load.instances.count } else { 1 };
                    let pdns = u64::from(table.pdns(members.ues.first().is_ipv6())) * u64::from(apart);
                    members.pdns = AddressRange::new(members.pdns.first(), pdns)
                        .map_err(|error| LoadError::Trace(members.name.clone(), error.to_string()))?;
                    Ready::Trace(Arc::new(capture.trace), Arc::new(table), load.clone())
                }
            });
        }
        // Traces may need more addresses than the file could know.
        let population = Population::new(members).map_err(LoadError::Population)?;
        Ok(Self { groups, population: Arc::new(population) })
    }

    /// What generates the plan's packets.
    pub(super) fn sources(&self, plan: &LoadPlan, part: Part) -> Result<Vec<Source>, LoadError> {
        let mut sources = Vec::new();
        for (group, ready) in self.groups.iter().enumerate() {
            let members = &self.population.groups()[group];
            match ready {
                Ready::Nothing => {}
                Ready::Model(models, sizes) => {
                    for direction in DIRECTIONS {
                        let Some(model) = &models[index(direction)] else { continue };
                        let name = |what| format!("{}/{direction:?}/{what}", members.name);
                        let random = |what| Random::stream(plan.seed, &name(what));
                        let arrivals = Arrivals::new(model, part.start, part.lasts, random("arrivals"));
                        let in_turn = !matches!(model, Model::Poisson { .. });
                        let (sizes, random, flows) = (sizes.clone(), random("packets"), members.flows);
                        let traffic = Traffic::Model { direction, arrivals, sizes, random, in_turn, flows };
                        sources.push(Source { group, traffic });
                    }
                }
                Ready::Trace(trace, table, load) => {
                    let (pdn_v4, pdn_v6) = match members.pdns.first() {
                        std::net::IpAddr::V4(v4) => (Some(v4), None),
                        std::net::IpAddr::V6(v6) => (None, Some(v6)),
                    };
                    let config = ReplayConfig {
                        start: part.start,
                        repetitions: load.repetitions,
                        instances: load.instances,
                        spacing: load.spacing,
                        stateful: load.stateful.then_some(load.timeout),
                        network: Network { ues: members.sessions(), pdn_v4, pdn_v6 },
                    };
                    let random = Random::stream(plan.seed, &format!("{}/spacing", members.name));
                    let replay = Replay::new(trace.clone(), table.clone(), &config, random)
                        .map_err(|error| LoadError::Trace(members.name.clone(), error.to_string()))?;
                    sources.push(Source { group, traffic: Traffic::Trace(replay) });
                }
            }
        }
        Ok(sources)
    }

    /// The first group with a model, and its sizes.
    pub(super) fn first_model(&self) -> Option<(usize, PacketSizes)> {
        self.groups.iter().enumerate().find_map(|(number, ready)| match ready {
            Ready::Model(_, sizes) => Some((number, sizes.clone())),
            _ => None,
        })
    }

    /// Whether there are models, which last as long as they are told.
    pub(super) fn has_models(&self) -> bool {
        self.groups.iter().any(|ready| matches!(ready, Ready::Model(..)))
    }

    /// The longest user packet that may come.
    pub(super) fn longest(&self) -> usize {
        let of = |ready: &Ready| match ready {
            Ready::Nothing => 0,
            Ready::Model(_, sizes) => sizes.largest() as usize,
            Ready::Trace(trace, ..) => trace.packets().map(|packet| packet.length as usize).max().unwrap_or(0),
        };
        self.groups.iter().map(of).max().unwrap_or(0)
    }
}

/// The sizes of a capture's packets. Those that have no room for a stamp are made as long as it needs.
fn sizes_of(path: &Path, v6: bool) -> Result<PacketSizes, LoadError> {
    let capture = Capture::read(path, &CaptureOptions::default())?;
    let least = User::least_numbered(v6) as u32;
    let sizes = capture.trace.packets().map(|packet| (packet.length.max(least), 1));
    PacketSizes::weighted(sizes).map_err(|error| LoadError::Trace(path.display().to_string(), error.to_string()))
}
