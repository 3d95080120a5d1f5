//! A load that a scenario embeds: a load file, and what the scenario changes of it from cell to cell.

use std::path::PathBuf;

use engine::Span;
use serde::{Deserialize, Serialize};
use traffic::models::{Model, PacketRate};
use userplane::load::{AddressRange, Direction, Group, Population, index};

use crate::load::{GroupPlan, Load, LoadPlan};

/// A load file in a scenario, as text: a run that is resumed loads what it began with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Embedded {
    /// The file as the scenario names it.
    pub file: String,
    /// What stands in it.
    pub text: String,
    /// Where captures that it names are looked for.
    pub folder: PathBuf,
    /// What is changed in every group.
    pub change: Change,
    /// What is changed in single groups, by name; it goes before the change of all.
    pub groups: Vec<(String, Change)>,
    /// Position of the link on N3 in the cell's; its first end is at the gNB.
    pub n3: Option<usize>,
    /// Position of the link on N6; its first end is at the UPF.
    pub n6: Option<usize>,
}

/// What a scenario changes in a group. What is absent stays as the load file has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Packets a second in all directions together; 0 for none. Of steady models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u64>,
    /// Which directions share the rate. Of steady models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<Ways>,
    /// Flows of the whole group. Of models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<u32>,
    /// Instances of a trace at once (the thesis's scale); 0 for none. Of traces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instances: Option<u32>,
    /// How often a trace is played, one after the other. Of traces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repetitions: Option<u32>,
    /// Another capture. Of traces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
}

/// Directions of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ways {
    /// Uplink.
    Up,
    /// Downlink.
    Down,
    /// Half of the rate each way.
    Both,
}

/// Why a change cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// There is no such group.
    #[error("the load has no group `{0}`; its groups are {1}")]
    NoGroup(String, String),
    /// It means nothing there.
    #[error("`{key}` means nothing for the group `{group}`, {what}; change the group's own load file, or another key")]
    Meaningless {
        /// The key.
        key: &'static str,
        /// The group.
        group: String,
        /// What the group is.
        what: &'static str,
    },
    /// Flows that sessions cannot share.
    #[error("{flows} flows are not shared equally by the {sessions} sessions of the group `{group}`; take a multiple")]
    Uneven {
        /// The group.
        group: String,
        /// Flows of the group.
        flows: u32,
        /// Its sessions.
        sessions: u32,
    },
    /// Addresses.
    #[error("{0}")]
    Addresses(String),
}

impl Embedded {
    /// Makes the changes in what the file says, and sets its length and its samples.
    ///
    /// # Errors
    ///
    /// A group that is not there, a change that means nothing for a group that is named, or addresses that
    /// overlap then.
    pub fn apply(&self, plan: &mut LoadPlan, duration: Span, samples_per_second: u32) -> Result<(), ChangeError> {
        let mut members = plan.population.groups().to_vec();
        if let Some((name, _)) = self.groups.iter().find(|(name, _)| !members.iter().any(|group| group.name == *name)) {
            let known: Vec<_> = members.iter().map(|group| format!("`{}`", group.name)).collect();
            return Err(ChangeError::NoGroup(name.clone(), known.join(", ")));
        }
        for (group, members) in plan.groups.iter_mut().zip(&mut members) {
            // What is changed everywhere is changed where it means something.
            self.change.fitting(&group.load).apply(group, members, &self.folder)?;
            if let Some((_, change)) = self.groups.iter().find(|(name, _)| *name == members.name) {
                change.apply(group, members, &self.folder)?;
            }
        }
        plan.population = Population::new(members).map_err(|error| ChangeError::Addresses(error.to_string()))?;
        (plan.duration, plan.samples_per_second) = (duration, samples_per_second);
        Ok(())
    }
}

impl Change {
    /// Those of the changes that mean something for this load.
    fn fitting(&self, load: &Load) -> Self {
        match load {
            Load::Nothing => Self::default(),
            Load::Model { models, .. } => {
                let steady = models.iter().flatten().all(|model| matches!(model, Model::Steady { .. }));
                let (rate, direction) = (self.rate.filter(|_| steady), self.direction.filter(|_| steady));
                Self { rate, direction, flows: self.flows, ..Self::default() }
            }
            Load::Trace(_) => Self { rate: None, direction: None, flows: None, ..self.clone() },
        }
    }

    fn apply(&self, group: &mut GroupPlan, members: &mut Group, folder: &std::path::Path) -> Result<(), ChangeError> {
        let meaningless = |key, what| ChangeError::Meaningless { key, group: members.name.clone(), what };
        let of_models =
            [("rate", self.rate.is_some()), ("direction", self.direction.is_some()), ("flows", self.flows.is_some())];
        let of_traces = [
            ("instances", self.instances.is_some()),
            ("repetitions", self.repetitions.is_some()),
            ("trace", self.trace.is_some()),
        ];
        let said = |keys: [(&'static str, bool); 3]| keys.into_iter().find(|(_, said)| *said).map(|(key, _)| key);
        match &mut group.load {
            Load::Nothing => match said(of_models).or(said(of_traces)) {
                Some(key) => Err(meaningless(key, "which sends nothing")),
                None => Ok(()),
            },
            Load::Model { models, .. } => {
                if let Some(key) = said(of_traces) {
                    return Err(meaningless(key, "which replays no trace"));
                }
                if self.rate.is_some() || self.direction.is_some() {
                    let Some(shared) = self.share(models) else {
                        let key = if self.rate.is_some() { "rate" } else { "direction" };
                        return Err(meaningless(key, "whose model is not steady"));
                    };
                    *models = shared;
                }
                if let Some(flows) = self.flows {
                    let sessions = members.sessions();
                    if flows == 0 || !flows.is_multiple_of(sessions) {
                        return Err(ChangeError::Uneven { group: members.name.clone(), flows, sessions });
                    }
                    members.flows_per_ue = flows / sessions;
                    members.flows = flows;
                    members.pdns = AddressRange::new(members.pdns.first(), u64::from(members.flows_per_ue))
                        .map_err(|error| ChangeError::Addresses(error.to_string()))?;
                }
                if models.iter().all(Option::is_none) {
                    group.load = Load::Nothing;
                }
                Ok(())
            }
            Load::Trace(trace) => {
                if let Some(key) = said(of_models) {
                    return Err(meaningless(key, "which replays a trace"));
                }
                if let Some(path) = &self.trace {
                    trace.path = folder.join(path);
                }
                if let Some(times) = self.repetitions {
                    trace.repetitions = times;
                }
                match self.instances {
                    Some(0) => group.load = Load::Nothing,
                    Some(count) => {
                        trace.instances.count = count;
                        members.flows = count;
                    }
                    None => {}
                }
                Ok(())
            }
        }
    }

    /// Steady models with the rate shared by the directions; nothing if one of `models` is not steady.
    fn share(&self, models: &[Option<Model>; 2]) -> Option<[Option<Model>; 2]> {
        let mut packets = 0;
        for model in models.iter().flatten() {
            let Model::Steady { rate } = model else { return None };
            packets += rate.a_second().round() as u64;
        }
        let packets = self.rate.unwrap_or(packets);
        let ways = self.direction.unwrap_or(match models {
            [Some(_), None] => Ways::Up,
            [None, Some(_)] => Ways::Down,
            _ => Ways::Both,
        });
        let (up, down) = match ways {
            Ways::Up => (packets, 0),
            Ways::Down => (0, packets),
            Ways::Both => (packets.div_ceil(2), packets / 2),
        };
        let model = |packets| (packets > 0).then(|| Model::Steady { rate: PacketRate::per_second(packets) });
        let mut shared = [None, None];
        shared[index(Direction::Uplink)] = model(up);
        shared[index(Direction::Downlink)] = model(down);
        Some(shared)
    }
}
