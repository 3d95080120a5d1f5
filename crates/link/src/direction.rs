//! The element: one direction of a link.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use engine::{Element, Output, Packet, Port, Random, Size, Time};
use wire::Headers;

use crate::config::{DelayModel, DirectionConfig, LossModel, PipeConfig, RateModel, Selector};
use crate::counters::Counters;
use crate::pipe::Pipe;
use crate::validate::ConfigError;

/// One direction of an emulated link: frames go in at input 0 and come out at output 0.
///
/// See the [crate's documentation](crate) for what happens to them on the way.
#[derive(Debug)]
pub struct Direction {
    branches: Vec<BranchPipe>,
    main: Pipe,
    outputs: VecDeque<Output>,
}

#[derive(Debug)]
struct BranchPipe {
    name: String,
    selector: Selector,
    random: Random,
    pipe: Pipe,
}

/// A change to a pipe while packets run through it.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Another rate (`None`: unlimited). The packet in transmission keeps the bits that are sent;
    /// the rest of it goes at the new rate. Packets in the queue stay.
    Rate(Option<RateModel>),
    /// Another delay, for packets that set out from now on. Those in flight arrive when they would
    /// have; where none may overtake, later ones wait for them.
    Delay(DelayModel),
    /// Another loss model; a chain starts in a state drawn anew.
    Loss(LossModel),
    /// Other limits of the queue (`None`: no limit of this kind). Packets that wait stay.
    QueueLimits {
        /// Most packets that wait.
        packets: Option<u32>,
        /// Most bytes that wait.
        bytes: Option<Size>,
    },
    /// Another chance of duplication.
    Duplicate(f64),
    /// Another chance of corruption.
    Corrupt(f64),
}

impl Direction {
    /// Name of the pipe of all packets that no branch takes.
    pub const MAIN: &str = "main";

    /// A direction without packets. `label` names its random streams: with another label the same
    /// seed gives other draws.
    ///
    /// # Errors
    ///
    /// The configuration cannot be: see [`DirectionConfig::validate`].
    pub fn new(config: &DirectionConfig, seed: u64, label: &str) -> Result<Self, ConfigError> {
        config.validate()?;
        let branches = config.branches.iter().map(|branch| {
            let label = format!("{label}/{}", branch.name);
            BranchPipe {
                name: branch.name.clone(),
                selector: branch.selector.clone(),
                random: Random::stream(seed, &format!("{label}.choose")),
                pipe: Pipe::new(&branch.pipe, seed, &label),
            }
        });
        Ok(Self { branches: branches.collect(), main: Pipe::new(&config.pipe, seed, label), outputs: VecDeque::new() })
    }

    /// Changes a pipe ([`MAIN`](Self::MAIN) or a branch's name) from `now` on. What comes out by
    /// this is given by the next [`poll`](Element::poll).
    ///
    /// # Errors
    ///
    /// There is no such pipe, or it could not be like that; nothing is changed then.
    pub fn set(&mut self, now: Time, pipe: &str, change: &Change) -> Result<(), ConfigError> {
        let names = self.branches.iter().map(|branch| branch.name.clone());
        let unknown = ConfigError::NoSuchPipe { name: pipe.to_string(), pipes: names.collect() };
        let name = pipe;
        let pipe = match name {
            Self::MAIN => &mut self.main,
            name => self.branches.iter_mut().find(|branch| branch.name == name).map(|b| &mut b.pipe).ok_or(unknown)?,
        };
        let mut config = pipe.config().clone();
        match change {
            Change::Rate(rate) => config.rate.clone_from(rate),
            Change::Delay(delay) => config.delay.clone_from(delay),
            Change::Loss(loss) => config.loss.clone_from(loss),
            Change::QueueLimits { packets, bytes } => (config.queue.packets, config.queue.bytes) = (*packets, *bytes),
            Change::Duplicate(chance) => config.duplicate = *chance,
            Change::Corrupt(chance) => config.corrupt = *chance,
        }
        config.validate().map_err(|error| if name == Self::MAIN { error } else { error.in_branch(name) })?;
        pipe.set(now, config, change, &mut self.outputs);
        Ok(())
    }

    /// The pipes with what they count: [`MAIN`](Self::MAIN) first, then the branches in order.
    pub fn counters(&self) -> impl Iterator<Item = (&str, Counters)> {
        self.pipes().map(|(name, pipe)| (name, pipe.counters()))
    }

    /// The pipes with what they are at present, in the same order.
    pub fn configs(&self) -> impl Iterator<Item = (&str, &PipeConfig)> {
        self.pipes().map(|(name, pipe)| (name, pipe.config()))
    }

    fn pipes(&self) -> impl Iterator<Item = (&str, &Pipe)> {
        let branches = self.branches.iter().map(|branch| (branch.name.as_str(), &branch.pipe));
        core::iter::once((Self::MAIN, &self.main)).chain(branches)
    }

    fn choose(&mut self, packet: &Packet) -> &mut Pipe {
        if !self.branches.is_empty() {
            let headers = Headers::parse(&packet.bytes);
            for branch in &mut self.branches {
                if branch.selector.takes(&headers, &mut branch.random) {
                    return &mut branch.pipe;
                }
            }
        }
        &mut self.main
    }
}

impl Element for Direction {
    fn handle(&mut self, now: Time, _: Port, packet: Packet) {
        let mut outputs = core::mem::take(&mut self.outputs);
        self.choose(&packet).arrive(now, packet, &mut outputs);
        self.outputs = outputs;
    }

    fn tick(&mut self, now: Time) {
        self.main.run(now, &mut self.outputs);
        for branch in &mut self.branches {
            branch.pipe.run(now, &mut self.outputs);
        }
    }

    fn deadline(&self) -> Option<Time> {
        let branches = self.branches.iter().filter_map(|branch| branch.pipe.deadline());
        branches.chain(self.main.deadline()).min()
    }

    fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }
}
