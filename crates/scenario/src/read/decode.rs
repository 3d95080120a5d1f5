//! From the tree to a plan: sites, links, paths, traffic, what is measured, and all cells.

use engine::{Random, Span};

use crate::plan::{Cell, Flow, IpVersion, Link, Medium, Path, Plan};
use crate::profiles::{PROFILES, profile};
use crate::read::assign::{Scope, Target};
use crate::read::fields::{self, Fields};
use crate::read::file::{Options, ReadFile};
use crate::read::keys;
use crate::read::line;
use crate::read::path::Adapters;
use crate::read::pipe;
use crate::read::problem::{Noted, Notes, Problem};
use crate::read::single::key_and_value;
use crate::read::study::Questions;
use crate::read::sweep::{SweptKey, Variant};
use crate::read::traces::Traces;
use crate::read::yaml::{self, Node};
use crate::theory;

/// Most sites of a scenario.
const MOST_SITES: usize = 250;
/// Most links of a cell: the real executor tells 64 wires of a cell apart, and a link has two.
const MOST_LINKS: usize = 32;
/// Most bytes that the traces of all cells may take together.
const MOST_TRACE_BYTES: u64 = 1 << 30;

/// Decodes a scenario. What is wrong is noted; the plan is good if nothing was.
pub(crate) fn plan(
    notes: &Notes,
    source: u32,
    text: &str,
    read: ReadFile<'_>,
    options: &Options,
) -> Result<Plan, Noted> {
    let root = yaml::parse(notes, source, text)?;
    let top = Fields::read(notes, &root, &keys::SCENARIO)?;
    let as_written = Variant::new(notes, &root)?;
    let mut full = as_written.clone();
    let mut quick = top.get("quick").map(|node| quick(notes, &root, &as_written, node)).transpose()?;
    for option in &options.set {
        let (key, at, node) = key_and_value(notes, option)?;
        let target = Target::resolve(notes, &root, key, at, Scope::Change)?;
        for variant in [&mut full].into_iter().chain(&mut quick) {
            variant.change(notes, &target, &node)?;
        }
    }
    let variants: Vec<&Variant> = [&as_written, &full].into_iter().chain(&quick).collect();
    let traces = Traces::new(read, &options.folder);
    let make = |variant: &Variant, quick: bool| -> Result<Plan, Noted> {
        let top = Fields::read(notes, &variant.root, &keys::SCENARIO)?;
        let name = |notes, node: &Node| {
            fields::name(notes, node.at, fields::text(notes, node)?, "a scenario").map(str::to_owned)
        };
        let name = top.need("name").and_then(|node| name(notes, node));
        let description = top.with("description", fields::text);
        let seed = top.with("seed", |notes, node| fields::integer(notes, node, 0..=u64::MAX))?.unwrap_or(options.seed);
        let cells = Decoder { notes, traces: &traces }.cells(variant, seed);
        // Where the swept values are wrong, questions about them would be found wrong too.
        let slipped = |key| root.entry(key).is_some_and(|entry| notes.concern(entry.key_at.to(entry.node.at)));
        let study = match &cells {
            Err(noted) if slipped("sweep") || slipped("quick") => Err(*noted),
            _ => Questions::new(notes, &root, variant, &variants).decode(),
        };
        let (mut study, cells) = (study?, cells?);
        theory::fill(&mut study, &cells);
        Ok(Plan {
            schema: measure::SCHEMA,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            name: name?,
            description: description?.unwrap_or_default().trim().to_owned(),
            source: text.to_owned(),
            quick,
            set: options.set.clone(),
            seed,
            study,
            cells,
        })
    };
    let plan = make(&full, false);
    // What the other of full and quick would run is checked as well.
    notes.only(" (with `--quick`)");
    match (quick.as_ref().map(|quick| make(quick, true)), options.quick) {
        (Some(quick), true) => quick,
        (Some(Err(noted)), false) => Err(noted),
        (_, false) => plan,
        (None, true) => {
            notes.only("");
            let problem = Problem::new(root.at, "this scenario has no `quick` block");
            Err(notes.note(problem.remedy("run it without `--quick`, or say there what `--quick` changes")))
        }
    }
}

/// The file with its `quick` block applied.
fn quick(notes: &Notes, root: &Node, file: &Variant, node: &Node) -> Result<Variant, Noted> {
    let mut variant = file.clone();
    for entry in fields::map(notes, node, "`quick`")? {
        let target = Target::resolve(notes, root, &entry.key, entry.key_at, Scope::Change)?;
        variant.change(notes, &target, &entry.node)?;
    }
    Ok(variant)
}

/// What cells are decoded with.
#[derive(Clone, Copy)]
pub(crate) struct Decoder<'a> {
    pub(crate) notes: &'a Notes,
    pub(crate) traces: &'a Traces<'a>,
}

impl Decoder<'_> {
    /// Every cell of a variant, in canonical order: repeats outermost, last key fastest.
    fn cells(&self, variant: &Variant, seed: u64) -> Result<Vec<Cell>, Noted> {
        let notes = self.notes;
        let measure = Fields::read(notes, &variant.root, &keys::SCENARIO)?.with("measure", |notes, node| {
            Fields::read(notes, node, &keys::MEASURE)?
                .with("repeat", |notes, node| fields::integer(notes, node, 1..=1_000))
        });
        let repeats = measure?.flatten().unwrap_or(1);
        let points = variant.checked_points(notes, repeats)?;
        let mut cells = Vec::with_capacity(points as usize);
        let mut noted = None;
        for point in 0..points {
            match self.cell(variant, point, seed, None) {
                Ok(cell) => cells.push(cell),
                Err(error) => noted = Some(error),
            }
            if notes.is_full() {
                break;
            }
            let trace_bytes = self.traces.bytes().saturating_mul(points * repeats);
            if trace_bytes > MOST_TRACE_BYTES {
                let what = format!("the traces of {points} cells would take {} MiB", trace_bytes >> 20);
                let problem = Problem::new(None, what);
                return Err(notes.note(problem.remedy("use shorter traces or fewer cells")));
            }
        }
        for swept in variant.overwritten() {
            noted = self.cell(variant, 0, seed, Some(swept)).err().or(noted);
        }
        match noted {
            Some(noted) => Err(noted),
            None => Ok(repeated(&cells, repeats, seed)),
        }
    }

    fn cell(&self, variant: &Variant, point: u64, seed: u64, except: Option<&SweptKey>) -> Result<Cell, Noted> {
        let notes = self.notes;
        let (root, coordinates) = variant.point(notes, point, except)?;
        let top = Fields::read(notes, &root, &keys::SCENARIO)?;
        let sites = self.sites(top.need("sites")?);
        let path = self.path(&top);
        let measure = self.measure(variant, &top);
        let (sites, (path, adapters)) = (sites?, path?);
        let links = match top.get("links") {
            None if self.is_load(&root) => Ok(Vec::new()),
            _ => top.need("links").and_then(|node| self.links(node, &sites, &path, adapters.as_ref())),
        };
        let measure = measure?;
        let flows = top.need("traffic").and_then(|node| self.flows(node, &sites, &path, measure.0 + measure.2));
        let (links, flows) = (links?, flows?);
        let mut flows = flows;
        if self.is_load(&root) {
            self.load_fits(&top, &mut flows, &links, measure)?;
        } else {
            self.reachable(&top, &sites, &links, &flows)?;
        }
        self.iperf3_limits(&top, &flows, measure)?;
        self.pairs_after(&top, &flows, measure.2)?;
        let (duration, interval, warmup) = measure;
        Ok(Cell { id: 0, repeat: 0, coordinates, seed, sites, links, path, flows, duration, interval, warmup })
    }

    fn sites(&self, node: &Node) -> Result<Vec<String>, Noted> {
        let notes = self.notes;
        let mut sites: Vec<String> = Vec::new();
        let items = fields::items(notes, node, "`sites`")?;
        if items.len() < 2 || items.len() > MOST_SITES {
            let problem =
                Problem::new(node.at, format!("a scenario has 2 to {MOST_SITES} sites, this has {}", items.len()));
            return Err(notes.note(problem.remedy("write for example `sites: [ship, shore]`")));
        }
        for node in items {
            let name = fields::name(notes, node.at, fields::text(notes, node)?, "a site")?;
            if sites.iter().any(|site| site == name) {
                let problem = Problem::new(node.at, format!("the site `{name}` stands here twice"));
                return Err(notes.note(problem.remedy("give every site a name of its own")));
            }
            sites.push(name.to_owned());
        }
        Ok(sites)
    }

    pub(crate) fn site(&self, node: &Node, sites: &[String]) -> Result<usize, Noted> {
        let name = fields::text(self.notes, node)?;
        let found = sites.iter().position(|site| site == name);
        found.ok_or_else(|| fields::unknown(self.notes, node.at, "site", name, sites.iter().map(String::as_str), ""))
    }

    fn links(
        &self,
        node: &Node,
        sites: &[String],
        path: &Path,
        adapters: Option<&Adapters>,
    ) -> Result<Vec<Link>, Noted> {
        let notes = self.notes;
        let entries = fields::map(notes, node, "`links`")?;
        if entries.is_empty() {
            let problem = Problem::new(node.at, "there is no link");
            return Err(notes.note(problem.remedy("write for example `links: {radio: {ends: [ship, shore]}}`")));
        }
        if entries.len() > MOST_LINKS {
            let problem = Problem::new(node.at, format!("there are {} links", entries.len()));
            return Err(notes.note(problem.remedy(format!("a scenario has at most {MOST_LINKS}: leave some away"))));
        }
        let links: Vec<_> = entries
            .iter()
            .map(|entry| {
                let name = fields::name(notes, entry.key_at, &entry.key, "a link")?;
                if keys::SCENARIO.has(name) {
                    let problem = Problem::new(entry.key_at, format!("a link cannot be called `{name}`"));
                    return Err(notes.note(problem.remedy("this is a key of the scenario: choose another name")));
                }
                self.link(name, &entry.node, sites, path)
            })
            .collect();
        let mut links: Vec<Link> = links.into_iter().collect::<Result<_, Noted>>()?;
        self.place(adapters, &mut links)?;
        Ok(links)
    }

    pub(crate) fn link(&self, name: &str, node: &Node, sites: &[String], path: &Path) -> Result<Link, Noted> {
        let notes = self.notes;
        let fields = Fields::read(notes, node, &keys::LINK)?;
        let ends = fields.need("ends").and_then(|node| self.ends(node, sites));
        let profile = fields.with("profile", |notes, node| {
            let name = fields::text(notes, node)?;
            let names = || PROFILES.iter().map(|profile| profile.name);
            profile(name).ok_or_else(|| fields::unknown(notes, node.at, "profile", name, names(), ""))
        });
        let profile = profile?;
        let capture = fields.with("capture", fields::boolean)?.unwrap_or(false);
        if let Some(entry) = fields.entry("line") {
            let ends = ends?;
            let beside = keys::LINK.names().filter(|key| !["ends", "line", "capture"].contains(key));
            if let Some(other) = beside.filter_map(|key| fields.entry(key)).next() {
                let what = format!("`{}` stands beside `line`, and a line has its keys of its own", other.key);
                let remedy = "write it into `line`, or leave one of them away";
                return Err(notes.note(Problem::new(other.key_at, what).remedy(remedy)));
            }
            let line = line::line(notes, &entry.node)?;
            let medium = Medium::Characters { line };
            return Ok(Link { name: name.to_owned(), ends, profile: None, medium, adapters: None, capture });
        }
        let cx = pipe::Context { notes, traces: self.traces, packet: u64::from(path.largest_packet()) };
        let (up, down) = pipe::directions(cx, fields, profile)?;
        Ok(Link {
            name: name.to_owned(),
            ends: ends?,
            profile: profile.map(|profile| profile.name.to_owned()),
            medium: Medium::Packets { up, down },
            adapters: None,
            capture,
        })
    }

    fn ends(&self, node: &Node, sites: &[String]) -> Result<(usize, usize), Noted> {
        let items = fields::items(self.notes, node, "`ends`")?;
        let [first, second] = items else {
            let problem = Problem::new(node.at, format!("a link has two ends, not {}", items.len()));
            return Err(self.notes.note(problem.remedy("write `ends: [ONE, OTHER]`")));
        };
        let ends = (self.site(first, sites)?, self.site(second, sites)?);
        if ends.0 == ends.1 {
            let problem = Problem::new(node.at, "both ends of this link are the same site");
            return Err(self.notes.note(problem.remedy("join two different sites")));
        }
        Ok(ends)
    }

    /// The path that is taken.
    fn path(&self, top: &Fields<'_>) -> Result<(Path, Option<Adapters>), Noted> {
        let notes = self.notes;
        const VERSIONS: [(&str, IpVersion); 2] = [("4", IpVersion::V4), ("6", IpVersion::V6)];
        let ip = top.with("ip", |notes, node| fields::choice(notes, node, "version of IP", &VERSIONS))?;
        let ip = ip.unwrap_or_default();
        let entries = top.with("paths", |notes, node| fields::map(notes, node, "`paths`"))?.unwrap_or_default();
        let paths: Vec<_> = entries
            .iter()
            .map(|entry| {
                let name = fields::name(notes, entry.key_at, &entry.key, "a path")?;
                let fields = Fields::read(notes, &entry.node, &keys::PATH)?;
                let inner = fields.with("vxlan", |notes, node| Fields::read(notes, node, &keys::VXLAN))?;
                if let (Some(_), Some(both)) = (inner, fields.entry("mtu")) {
                    let problem = Problem::new(both.key_at, "a VXLAN path has its MTU inside");
                    return Err(notes.note(problem.remedy("write `{vxlan: {mtu: 1440}}`")));
                }
                let least = u64::from(ip.least_mtu());
                let mtu =
                    inner.unwrap_or(fields).with("mtu", |notes, node| fields::integer(notes, node, least..=9_000))?;
                let esp = fields.with("esp", fields::boolean)?.unwrap_or(false);
                let mtu = mtu.map_or_else(|| Path::ethernet_mtu(ip, inner.is_some(), esp), |mtu| mtu as u16);
                let adapters = fields.with("adapter", Adapters::read)?;
                Ok((Path { name: name.to_owned(), ip, mtu, vxlan: inner.is_some(), esp }, adapters))
            })
            .collect();
        let mut paths: Vec<(Path, Option<Adapters>)> = paths.into_iter().collect::<Result<_, Noted>>()?;
        if paths.is_empty() {
            paths.push((Path::host(ip), None));
        }
        let names = || paths.iter().map(|(path, _)| path.name.as_str());
        match (top.get("path"), paths.as_slice()) {
            (Some(node), paths) => {
                let name = fields::text(notes, node)?;
                let found = paths.iter().find(|(path, _)| path.name == name).cloned();
                found.ok_or_else(|| fields::unknown(notes, node.at, "path", name, names(), ""))
            }
            (None, [only]) => Ok(only.clone()),
            (None, _) => {
                let at = top.entry("paths").map(|entry| entry.key_at);
                let problem = Problem::new(at, "there are several paths and none is chosen");
                Err(notes.note(
                    problem.remedy(format!("sweep `path`, or choose with `path:` one of {}", fields::list(names()))),
                ))
            }
        }
    }

    /// Duration, interval and warm-up.
    fn measure(&self, variant: &Variant, top: &Fields<'_>) -> Result<(Span, Span, Span), Noted> {
        let notes = self.notes;
        let fields = top.with("measure", |notes, node| Fields::read(notes, node, &keys::MEASURE))?;
        let read = |key| fields.as_ref().and_then(|fields| fields.get(key));
        let duration = read("duration").map_or(Ok(Span::from_secs(10)), |node| fields::positive_span(notes, node));
        let interval = read("interval").map(|node| fields::positive_span(notes, node)).transpose();
        let warmup = read("warmup").map_or(Ok(Span::ZERO), |node| fields::span(notes, node));
        let (duration, interval, warmup) = (duration?, interval?, warmup?);
        let changed = |key: &str| variant.changed.iter().any(|path| path[..] == ["measure", key]);
        let interval = match (interval, read("interval")) {
            (Some(interval), Some(node)) if interval > duration => {
                // Who shortens the run alone means the interval with it.
                if !changed("duration") || changed("interval") {
                    let problem =
                        Problem::new(node.at, format!("an interval of {interval} does not fit into {duration}"));
                    return Err(notes.note(problem.remedy("choose an interval of at most `measure.duration`")));
                }
                duration
            }
            (interval, _) => interval.unwrap_or(Span::from_secs(1)).min(duration),
        };
        let intervals = duration.as_nanos().div_ceil(interval.as_nanos());
        if intervals > MOST_INTERVALS {
            let at = read("interval").map(|node| node.at);
            let problem = Problem::new(at, format!("this makes {intervals} intervals in a cell"));
            return Err(notes.note(problem.remedy(format!("take longer ones: a cell has at most {MOST_INTERVALS}"))));
        }
        Ok((duration, interval, warmup))
    }

    /// Every flow finds a way over the links.
    fn reachable(&self, top: &Fields<'_>, sites: &[String], links: &[Link], flows: &[Flow]) -> Result<(), Noted> {
        for flow in flows {
            let mut reached = vec![false; sites.len()];
            let mut open = vec![flow.from];
            while let Some(site) = open.pop() {
                if !std::mem::replace(&mut reached[site], true) {
                    let ends = links.iter().flat_map(|link| [link.ends, (link.ends.1, link.ends.0)]);
                    open.extend(ends.filter(|(from, _)| *from == site).map(|(_, to)| to));
                }
            }
            if !reached[flow.to] {
                let at = top.get("traffic").and_then(|node| node.entry(&flow.name)).map(|entry| entry.key_at);
                let (from, to) = (&sites[flow.from], &sites[flow.to]);
                let problem = Problem::new(at, format!("`{to}` is unreachable from `{from}`"));
                return Err(self
                    .notes
                    .note(problem.remedy(format!("join `{from}` and `{to}` by a link, or by several"))));
            }
        }
        Ok(())
    }
}

const MOST_INTERVALS: u64 = 100_000;

/// The cells of all repeats, with their numbers and seeds.
fn repeated(points: &[Cell], repeats: u64, seed: u64) -> Vec<Cell> {
    let mut cells = Vec::with_capacity(points.len() * repeats as usize);
    for repeat in 0..repeats {
        for point in points {
            let repeat = repeat as u32;
            let id = u32::try_from(cells.len()).unwrap_or(u32::MAX);
            cells.push(Cell { id, repeat, seed: cell_seed(seed, point, repeat), ..point.clone() });
        }
    }
    cells
}

/// A cell's seed follows from the run's, its coordinates and its repeat alone: it stays the same
/// when other values are swept or left out.
fn cell_seed(seed: u64, cell: &Cell, repeat: u32) -> u64 {
    let mut label = format!("cell repeat={repeat}");
    for (key, value) in &cell.coordinates {
        label.push_str(&format!(" {key}={}", value.label));
    }
    Random::stream(seed, &label).bits()
}
