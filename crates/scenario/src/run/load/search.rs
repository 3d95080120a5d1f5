//! The highest rate that a UPF carries: trials at steady rates, after RFC 2544 26.1.
//!
//! It differs from the RFC's throughput in that some loss is allowed (the thesis allows 2 %), in that the rate
//! is halved in on rather than lowered step by step, and in that a rate passes only if it does in each of its
//! repeats.

use engine::{Random, Span, Time};
use serde::Serialize;
use traffic::models::{Arrivals, Model, PacketRate};
use userplane::load::{DIRECTIONS, Direction, Source, Traffic, index};

use crate::run::load::sources::Part;
use crate::run::load::{LEAD, LoadError, LoadNews, Rig, summary};

/// What is searched.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    /// Share of packets that may be lost.
    pub loss: f64,
    /// Numbers of flows, each searched for by itself; of the first group with a model.
    pub flows: Vec<u32>,
    /// Directions, each searched for by itself; both at once are two in one.
    pub directions: Vec<Vec<Direction>>,
    /// How long a trial lasts.
    pub trial: Span,
    /// Trials that a rate has to pass.
    pub repeats: u32,
    /// Rate of the first trial in packets a second, each way.
    pub from: u64,
}

/// One trial.
#[derive(Clone, Debug, Serialize)]
pub struct Trial {
    /// Flows.
    pub flows: u32,
    /// `uplink`, `downlink` or `both`.
    pub direction: String,
    /// Packets a second, each way.
    pub rate: u64,
    /// Share of packets lost, all directions together.
    pub loss: f64,
    /// Received packets a second, together.
    pub received_packets_s: f64,
    /// Received bit/s, together.
    pub received_bit_s: f64,
    /// Median of the samples' mean latencies in seconds; the larger one of both directions.
    pub delay_s: Option<f64>,
    /// The sender kept its rate: otherwise the trial says nothing of the UPF.
    pub kept: bool,
    /// No more was lost than may be.
    pub passed: bool,
}

/// What a search found.
#[derive(Clone, Debug, Serialize)]
pub struct Best {
    /// Flows.
    pub flows: u32,
    /// `uplink`, `downlink` or `both`.
    pub direction: String,
    /// The trial at the highest rate that passed, if any did.
    pub best: Option<Trial>,
    /// This machine could not send faster, so that the UPF may carry more.
    pub limited_by_sender: bool,
}

/// The search ends when the rates that pass and fail are this close: 2 %.
const CLOSE: f64 = 0.02;
/// A trial whose rate the sender did not keep is run again, so often in all.
const MOST_ATTEMPTS: u32 = 3;
/// The highest rate that is tried.
const FASTEST: u64 = 20_000_000;
/// The lowest.
const SLOWEST: u64 = 10;
/// A sender that leaves more than this share of its packets unsent does not keep its rate.
const KEPT: f64 = 0.005;

pub(super) fn run(
    rig: &mut Rig<'_>,
    search: &Search,
    tell: &mut dyn FnMut(LoadNews<'_>),
) -> Result<Vec<Best>, LoadError> {
    let Some((group, sizes)) = rig.material.first_model() else {
        return Err(LoadError::NothingToSearch(
            "a search needs a group with a model, whose packet sizes it takes; give one a `load` of type `steady`",
        ));
    };
    let there = rig.material.population.groups()[group].flows;
    if search.flows.iter().any(|flows| *flows == 0 || *flows > there) {
        return Err(LoadError::NothingToSearch(
            "the first group with a model has fewer flows than are to be searched; raise its `flows_per_ue` or `nr_sessions`",
        ));
    }
    let mut found = Vec::new();
    for directions in &search.directions {
        for &flows in &search.flows {
            let mut trial = |rate: u64, tell: &mut dyn FnMut(LoadNews<'_>)| -> Result<Option<Trial>, LoadError> {
                let mut worst: Option<Trial> = None;
                let (mut repeat, mut attempts) = (0, 0);
                while repeat < search.repeats.max(1) {
                    attempts += 1;
                    let sources = directions.iter().map(|direction| {
                        let model = Model::Steady { rate: PacketRate::per_second(rate) };
                        let random = || Random::stream(rig.plan.seed, &format!("search/{rate}/{repeat}/{direction:?}"));
                        let arrivals = Arrivals::new(&model, Time::ZERO + LEAD, search.trial, random());
                        let (direction, sizes) = (*direction, sizes.clone());
                        let traffic =
                            Traffic::Model { direction, arrivals, sizes, random: random(), in_turn: true, flows };
                        Source { group, traffic }
                    });
                    let sources = sources.collect();
                    let part = Part { start: Time::ZERO + LEAD, lasts: search.trial };
                    let passage = rig.send(sources, part, None, tell)?;
                    if passage.interrupted {
                        return Ok(None);
                    }
                    let ways = summary::ways(&passage);
                    let sum = |figure: fn(&summary::Way) -> f64| ways.iter().map(figure).sum::<f64>();
                    let sent = sum(|way| way.sent_packets as f64).max(1.0);
                    let loss = sum(|way| way.lost_packets as f64) / sent;
                    let kept = sum(|way| way.unsent_packets as f64) <= KEPT * sent;
                    let delays = DIRECTIONS.map(|direction| ways[index(direction)].delay_s).into_iter().flatten();
                    let done = Trial {
                        flows,
                        direction: name(directions).to_owned(),
                        rate,
                        loss,
                        received_packets_s: sum(|way| way.received_packets_s),
                        received_bit_s: sum(|way| way.received_bit_s),
                        delay_s: delays.max_by(f64::total_cmp),
                        kept,
                        passed: kept && loss <= search.loss,
                    };
                    tell(LoadNews::Trial(&done));
                    // A stall of the machine spoils a trial; one that is too slow spoils it again.
                    if !done.kept && attempts < repeat + MOST_ATTEMPTS {
                        continue;
                    }
                    repeat += 1;
                    let failed = !done.passed;
                    if failed || worst.as_ref().is_none_or(|worst| done.loss >= worst.loss) {
                        worst = Some(done);
                    }
                    if failed {
                        break;
                    }
                }
                Ok(worst)
            };
            let (mut best, mut limited): (Option<Trial>, bool) = (None, false);
            let (mut passes, mut fails) = (0u64, None);
            let mut rate = search.from.clamp(SLOWEST, FASTEST);
            loop {
                let Some(done) = trial(rate, tell)? else { return Ok(found) };
                if done.passed {
                    passes = rate;
                    best = Some(done);
                } else {
                    limited = !done.kept;
                    fails = Some(rate);
                }
                rate = match fails {
                    None if rate >= FASTEST => break,
                    None => (rate * 2).min(FASTEST),
                    Some(fails) if (fails - passes) as f64 <= CLOSE * fails as f64 || fails <= SLOWEST => break,
                    Some(fails) if passes == 0 => (fails / 2).max(SLOWEST),
                    Some(fails) => passes + (fails - passes) / 2,
                };
            }
            found.push(Best { flows, direction: name(directions).to_owned(), best, limited_by_sender: limited });
        }
    }
    Ok(found)
}

fn name(directions: &[Direction]) -> &'static str {
    match directions {
        [Direction::Uplink] => "uplink",
        [Direction::Downlink] => "downlink",
        _ => "both",
    }
}
