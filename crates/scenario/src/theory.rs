//! What a formula gives beside what is measured.

use engine::Span;
use link::{DirectionConfig, RateModel};
use measure::{Curve, Study};

use crate::plan::{Cell, Flow, Medium, Traffic};
use crate::read::mean_delay;
use crate::topology::Topology;

/// The round-trip time of a ping that has the links to itself, by its name in a scenario.
pub(crate) const PING_ALONE: &str = "ping-alone";

/// The curve before its points are known.
pub(crate) fn curve() -> Curve {
    Curve {
        label: "theory".into(),
        formula: "a ping alone: over each link there and back, the IP datagram's bytes x 8 / rate + delay".into(),
        points: Vec::new(),
    }
}

/// Gives the curves of a study their points: one for each x that a panel's cells have.
pub(crate) fn fill(study: &mut Study, cells: &[Cell]) {
    for figure in &mut study.figures {
        for panel in &mut figure.panels {
            let Some(curve) = &mut panel.curve else { continue };
            let fixed = |key: &str| panel.select.0.iter().find(|(fixed, _)| fixed == key).map(|(_, labels)| labels);
            let taken = |cell: &&Cell| {
                cell.coordinates
                    .iter()
                    .all(|(key, value)| fixed(key).is_none_or(|labels| labels.contains(&value.label)))
            };
            for cell in cells.iter().filter(taken) {
                let x = cell.coordinates.iter().find(|(key, _)| *key == figure.x).and_then(|(_, value)| value.number);
                let named = |flow: &&Flow| fixed("flow").is_none_or(|labels| labels.contains(&flow.name));
                let mut pings = cell.flows.iter().filter(|flow| matches!(flow.traffic, Traffic::Ping(_)));
                let Some((x, flow)) = x.zip(pings.find(named)) else { continue };
                let known = curve.points.iter().any(|(other, _)| *other == x);
                if let Some(y) = ping_alone(cell, flow).filter(|_| !known) {
                    curve.points.push((x, y.as_secs_f64()));
                }
            }
            curve.points.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
    }
}

/// How long an echo request and its reply take over the links between, if these have constant
/// rates.
fn ping_alone(cell: &Cell, flow: &Flow) -> Option<Span> {
    let Traffic::Ping(ping) = &flow.traffic else { return None };
    // ICMP echo's header has 8 bytes (RFC 792, RFC 4443 4.1).
    let bytes = ping.size.bytes() + 8 + u64::from(cell.path.ip.header());
    let topology = Topology::of(cell);
    let (mut at, mut sum) = (flow.from, Span::ZERO);
    while at != flow.to {
        let route = topology.sites[at].routes.iter().find(|route| route.to == flow.to)?;
        let link = &cell.links[route.link];
        sum += match &link.medium {
            Medium::Packets { up, down } => passage(up, bytes)? + passage(down, bytes)?,
            Medium::Characters { line } => {
                line.up.pace.time_for(bytes) + line.up.delay + line.down.pace.time_for(bytes) + line.down.delay
            }
        };
        at = if route.side == 0 { link.ends.1 } else { link.ends.0 };
    }
    Some(sum)
}

fn passage(way: &DirectionConfig, bytes: u64) -> Option<Span> {
    let sending = match &way.pipe.rate {
        None => Span::ZERO,
        Some(RateModel::Constant(rate)) => rate.time_for(bytes + way.pipe.overhead.bytes(), &mut 0),
        Some(RateModel::TokenBucket { .. } | RateModel::Opportunities(_)) => return None,
    };
    Some(sending + mean_delay(&way.pipe.delay))
}
