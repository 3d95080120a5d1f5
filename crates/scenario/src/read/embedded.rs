//! Loads on a UPF that a scenario embeds.

use engine::Span;

use crate::load::{Change, Embedded, Ways};
use crate::plan::{Flow, Link, Traffic};
use crate::read::decode::Decoder;
use crate::read::fields::{self, Fields};
use crate::read::keys;
use crate::read::load::parse_load;
use crate::read::problem::{Noted, Notes, Problem};
use crate::read::yaml::Node;

/// As many samples a second as a load may have.
const MOST_SAMPLES: u64 = 1_000;

impl Decoder<'_> {
    /// A load; the positions of its links are found when all links are known.
    pub(crate) fn load(&self, node: &Node) -> Result<Embedded, Noted> {
        let notes = self.notes;
        let fields = Fields::read(notes, node, &keys::EMBEDDED)?;
        let file = fields.need("file").and_then(|node| self.traces.load_file(notes, node));
        let groups = fields.with("groups", |notes, node| {
            let entries = fields::map(notes, node, "`groups`")?.iter();
            let groups = entries.map(|entry| {
                let fields = Fields::read(notes, &entry.node, &keys::CHANGE)?;
                Ok((entry.key.clone(), change(&fields)?))
            });
            groups.collect::<Result<Vec<_>, Noted>>()
        });
        let change = change(&fields);
        let (file, text) = file?;
        let folder = self.traces.folder().to_owned();
        Ok(Embedded { file, text, folder, change: change?, groups: groups?.unwrap_or_default(), n3: None, n6: None })
    }

    /// Whether there is a load among the traffic, whatever else is wrong with it.
    pub(crate) fn is_load(&self, root: &Node) -> bool {
        let traffic = root.entry("traffic").map(|entry| &entry.node);
        traffic
            .and_then(|node| fields::map(&Notes::default(), node, "`traffic`").ok())
            .is_some_and(|entries| entries.iter().any(|entry| entry.node.entry("load").is_some()))
    }

    /// A load runs alone, on the links it names, for as long as is measured, and can be changed as is said.
    pub(crate) fn load_fits(
        &self,
        top: &Fields<'_>,
        flows: &mut [Flow],
        links: &[Link],
        (duration, interval, warmup): (Span, Span, Span),
    ) -> Result<(), Noted> {
        let notes = self.notes;
        let refuse = |at, what: String, remedy: &str| Err(notes.note(Problem::new(at, what).remedy(remedy)));
        let traffic = top.get("traffic");
        if flows.len() > 1 {
            let at = traffic.map(|node| node.at);
            return refuse(
                at,
                "other traffic stands beside a `load`, which runs alone".into(),
                "sweep `traffic`, or make the load one of groups in one file",
            );
        }
        for flow in flows {
            let entry = traffic.and_then(|node| node.entry(&flow.name));
            let at = entry.map(|entry| entry.key_at);
            if flow.start > Span::ZERO || flow.stop.is_some() || flow.dscp != 0 {
                return refuse(at, "a load has neither `start`, `stop` nor `dscp`".into(), "leave them away");
            }
            let Traffic::Load(load) = &mut flow.traffic else { continue };
            let said = entry.and_then(|entry| entry.node.entry("load")).map(|entry| &entry.node);
            for (key, place) in [("n3", &mut load.n3), ("n6", &mut load.n6)] {
                let Some(entry) = said.and_then(|node| node.entry(key)) else { continue };
                let name = fields::text(notes, &entry.node)?;
                let number = links.iter().position(|link| link.name == name).ok_or_else(|| {
                    let names = links.iter().map(|link| link.name.as_str());
                    fields::unknown(notes, entry.node.at, "link", name, names, "")
                })?;
                if links[number].packets().is_none() || links[number].adapters.is_some() {
                    let what = format!("`{name}` is a line of characters or has adapters, and a load needs packets");
                    return refuse(Some(entry.node.at), what, "name a link that carries packets");
                }
                *place = Some(number);
            }
            let idle = (0..links.len()).find(|number| ![load.n3, load.n6].contains(&Some(*number)));
            if let Some(number) = idle {
                let what = format!("the link `{}` stands neither on N3 nor on N6", links[number].name);
                return refuse(at, what, "name it by `n3` or `n6` of the load, or leave it away");
            }
            if load.n3.is_some() && load.n3 == load.n6 {
                return refuse(at, "one link cannot stand on both N3 and N6".into(), "make a second one like it");
            }
            if warmup > Span::ZERO {
                let at = top.get("measure").map(|node| node.at);
                return refuse(at, "a load has no warm-up".into(), "leave `warmup` away");
            }
            let Some(samples) = samples_per_second(interval) else {
                let at = top.get("measure").map(|node| node.at);
                let what = format!("a load cannot be sampled every {interval}");
                return refuse(at, what, "choose an interval of which a second has a whole number, such as `100ms`");
            };
            let mut plan = parse_load(&load.file, &load.file, &load.text, &load.folder, 0)
                .map_err(|error| notes.note(Problem::new(at, error.to_string())))?;
            if let Err(error) = load.apply(&mut plan, duration, samples) {
                let problem = Problem::new(at, error.to_string());
                return Err(notes.note(problem.remedy(format!("look at `session_group` in `{}`", load.file))));
            }
        }
        Ok(())
    }
}

/// How many intervals a second has, if it is a whole number and a load can have as many samples.
pub(crate) fn samples_per_second(interval: Span) -> Option<u32> {
    let second = Span::from_secs(1).as_nanos();
    let whole = interval > Span::ZERO && second.is_multiple_of(interval.as_nanos());
    let samples = second / interval.as_nanos().max(1);
    (whole && samples <= MOST_SAMPLES).then_some(samples as u32)
}

fn change(fields: &Fields<'_>) -> Result<Change, Noted> {
    const WAYS: [(&str, Ways); 3] = [("up", Ways::Up), ("down", Ways::Down), ("both", Ways::Both)];
    let rate = fields.with("rate", |notes, node| fields::integer(notes, node, 0..=100_000_000));
    let direction = fields.with("direction", |notes, node| fields::choice(notes, node, "direction", &WAYS));
    let flows = fields.with("flows", |notes, node| fields::integer(notes, node, 1..=1_000_000));
    let instances = fields.with("instances", |notes, node| fields::integer(notes, node, 0..=100_000));
    let repetitions = fields.with("repetitions", |notes, node| fields::integer(notes, node, 1..=1_000_000));
    let trace = fields.with("trace", |notes, node| fields::text(notes, node).map(str::to_owned));
    Ok(Change {
        rate: rate?,
        direction: direction?,
        flows: flows?.map(|flows| flows as u32),
        instances: instances?.map(|count| count as u32),
        repetitions: repetitions?.map(|times| times as u32),
        trace: trace?,
    })
}
