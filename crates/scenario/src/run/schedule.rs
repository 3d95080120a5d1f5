//! Which cell runs when, and how many side by side.

use std::collections::VecDeque;
use std::num::NonZeroUsize;

use engine::{Random, Rate, Span};
use link::RateModel;

use crate::plan::{Cell, Link, Traffic};

/// How many cells run side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jobs {
    /// As many as the machine carries by the limits of [`Governor`].
    Auto,
    /// This many, whatever the machine does.
    Fixed(NonZeroUsize),
}

/// How often a spoiled cell is run again.
pub const RETRIES: u32 = 2;

/// The cells that are still to be run, in an order in which neighbours of the sweep lie far apart,
/// so that a machine that slows down for a while does not put a step into a curve.
#[derive(Debug)]
pub(crate) struct Queue {
    waiting: VecDeque<Waiting>,
}

/// A cell to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// Its position in the plan.
    pub cell: usize,
    /// How often it was run before.
    pub attempt: u32,
}

impl Queue {
    /// All of `cells`, shuffled by the run's seed.
    #[must_use]
    pub(crate) fn new(mut cells: Vec<Waiting>, seed: u64) -> Self {
        let mut random = Random::stream(seed, "order");
        for last in (1..cells.len()).rev() {
            cells.swap(last, random.below(last as u64 + 1) as usize);
        }
        Self { waiting: cells.into() }
    }

    /// The first cell that `fits`. Cells keep their order otherwise.
    pub(crate) fn take(&mut self, fits: impl Fn(Waiting) -> bool) -> Option<Waiting> {
        let position = self.waiting.iter().position(|waiting| fits(*waiting))?;
        self.waiting.remove(position)
    }

    /// Puts a spoiled cell at the end, unless it was run often enough. Says whether it did.
    pub(crate) fn again(&mut self, spoiled: Waiting) -> bool {
        let more = spoiled.attempt < RETRIES;
        if more {
            self.waiting.push_back(Waiting { attempt: spoiled.attempt + 1, ..spoiled });
        }
        more
    }

    /// Whether none waits.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// Decides by watching the machine how many cells may run side by side.
///
/// It begins with [`Governor::FIRST`] and looks every [`Governor::PERIOD`]. While the machine is
/// less than 70 % busy, and of the packets sent since the last look fewer than 1 in 100 were late,
/// four more may run, up to [`Governor::MOST`]. If it is more than 85 % busy or 1 in 20 was late, a
/// quarter fewer may; cells that run are not stopped. A single stall of the machine makes some
/// packets in 100 late, and is no reason to slow down.
#[derive(Debug)]
pub struct Governor {
    jobs: Jobs,
    limit: usize,
}

/// What the governor looks at: the machine since its last look.
#[derive(Clone, Copy, Debug, Default)]
pub struct Load {
    /// Share of CPU time in use, 0 to 1.
    pub busy: f64,
    /// Packets sent by the executor.
    pub packets: u64,
    /// Of those, late ones.
    pub late: u64,
}

impl Governor {
    /// Cells at first.
    pub const FIRST: usize = 8;
    /// Most cells.
    pub const MOST: usize = 48;
    /// How often it looks.
    pub const PERIOD: Span = Span::from_secs(2);

    /// A governor for `jobs`.
    #[must_use]
    pub fn new(jobs: Jobs) -> Self {
        let limit = match jobs {
            Jobs::Auto => Self::FIRST,
            Jobs::Fixed(jobs) => jobs.get(),
        };
        Self { jobs, limit }
    }

    /// How many cells may run now.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Takes the load since the last look, while `running` cells ran, into account.
    pub fn look(&mut self, load: Load, running: usize) {
        if self.jobs != Jobs::Auto {
            return;
        }
        let late = if load.packets == 0 { 0.0 } else { load.late as f64 / load.packets as f64 };
        if load.busy > 0.85 || late > 0.05 {
            self.limit = (running.min(self.limit) * 3 / 4).max(1);
        } else if load.busy < 0.70 && late < 0.01 && running >= self.limit {
            self.limit = (self.limit + 4).min(Self::MOST);
        }
    }
}

/// What cells may load the machine with together, however many they are: a cell over it runs alone.
pub(crate) const TOTAL_RATE: u64 = 400_000_000;

/// The most bits a second that a cell's flows can put on its links: what the applications offer,
/// but no more than the links carry.
#[must_use]
pub(crate) fn rate(cell: &Cell) -> u64 {
    // Generator and UPF take the whole machine, whatever a link on the way lets pass.
    if cell.load().is_some() {
        return u64::MAX;
    }
    let directions = cell.links.iter().filter_map(Link::packets).flatten();
    let pipes = directions.flat_map(|way| way.branches.iter().map(|branch| &branch.pipe).chain([&way.pipe]));
    let lines = cell.links.iter().filter_map(Link::characters).flatten().map(|way| way.pace.bits_per_second());
    let link = pipes.map(|pipe| top_rate(pipe.rate.as_ref())).chain(lines).max().unwrap_or(u64::MAX);
    let flows = cell.flows.iter().map(|flow| match &flow.traffic {
        Traffic::Tcp(tcp) => tcp.rate.map_or(u64::MAX, Rate::bits_per_second),
        Traffic::Udp(udp) => udp.rate.bits_per_second(),
        Traffic::Voice(voice) => voice.rate().map_or(0, Rate::bits_per_second),
        // Voice; a call's signalling is little beside it.
        Traffic::Call(call) => call.voice.rate().map_or(0, Rate::bits_per_second),
        // As fast as the link takes a segment.
        Traffic::Quic(_) | Traffic::Load(_) => u64::MAX,
        Traffic::Ping(_) | Traffic::Pairs(_) => 0,
    });
    flows.fold(0, u64::saturating_add).min(link.saturating_mul(2))
}

fn top_rate(rate: Option<&RateModel>) -> u64 {
    match rate {
        Some(RateModel::Constant(rate) | RateModel::TokenBucket { rate, .. }) => rate.bits_per_second(),
        // How fast a trace is changes with time; none is known to be slow.
        Some(RateModel::Opportunities(_)) | None => u64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(n: usize) -> Vec<Waiting> {
        (0..n).map(|cell| Waiting { cell, attempt: 0 }).collect()
    }

    #[test]
    fn every_cell_comes_once_in_an_order_of_the_seed() {
        let order = |seed| {
            let mut queue = Queue::new(waiting(100), seed);
            std::iter::from_fn(|| queue.take(|_| true)).map(|waiting| waiting.cell).collect::<Vec<_>>()
        };
        let mut sorted = order(1);
        assert_eq!(order(1), sorted);
        assert_ne!(order(2), sorted);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn a_cell_loads_the_machine_by_its_fastest_pipe() {
        let rate_of = |link: &str| {
            let text = format!(
                "name: t\nsites: [a, b]\nlinks: {{l: {{ends: [a, b], rate: 1Mbit/s{link}}}}}\n\
                 traffic: {{x: {{from: a, to: b, tcp: {{}}}}}}\n"
            );
            let no_files = |_: &str| Err(std::io::Error::from(std::io::ErrorKind::NotFound).into());
            let plan = crate::read::parse("t.yaml", &text, &no_files, &crate::read::Options::default());
            rate(&plan.unwrap().cells[0])
        };
        assert_eq!(rate_of(""), 2_000_000);
        let branch = ", up: {branches: {fast: {match: {dscp: 46}, rate: 500Mbit/s}}}";
        assert_eq!(rate_of(branch), 1_000_000_000);
    }

    #[test]
    fn a_spoiled_cell_is_run_again_but_not_for_ever() {
        let mut queue = Queue::new(waiting(1), 1);
        let mut runs = 0;
        while let Some(cell) = queue.take(|_| true) {
            runs += 1;
            queue.again(cell);
        }
        assert_eq!(runs, 1 + RETRIES);
    }

    #[test]
    fn the_governor_climbs_while_all_is_well_and_yields_when_it_is_not() {
        let mut governor = Governor::new(Jobs::Auto);
        let well = Load { busy: 0.3, packets: 10_000, late: 1 };
        for _ in 0..100 {
            governor.look(well, governor.limit());
        }
        assert_eq!(governor.limit(), Governor::MOST);
        governor.look(Load { late: 600, ..well }, Governor::MOST);
        assert_eq!(governor.limit(), Governor::MOST * 3 / 4);
        governor.look(Load { busy: 0.8, ..well }, governor.limit());
        assert_eq!(governor.limit(), Governor::MOST * 3 / 4);
        for _ in 0..100 {
            governor.look(Load { busy: 0.99, ..well }, governor.limit());
        }
        assert_eq!(governor.limit(), 1);
        // It does not climb on the strength of cells that did not run.
        governor.look(well, 0);
        assert_eq!(governor.limit(), 1);

        let mut fixed = Governor::new(Jobs::Fixed(NonZeroUsize::MIN));
        fixed.look(well, 1);
        assert_eq!(fixed.limit(), 1);
    }
}
