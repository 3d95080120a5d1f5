//! The questions of a scenario: expectations, figures, findings.

use engine::{Rate, Span};
use measure::{Axis, Clock, Expectation, Figure, Finding, Metric, Panel, Relation, Rule, Selection, Study, Unit};

use crate::read::assign::{self, Scope, Target};
use crate::read::fields::{self, Fields};
use crate::read::keys;
use crate::read::problem::{At, Noted, Notes, Problem};
use crate::read::sweep::{self, SweptKey, Variant};
use crate::read::yaml::{Node, Value};
use crate::theory;

/// What questions may refer to.
pub(crate) struct Questions<'a> {
    notes: &'a Notes,
    /// The file as written.
    root: &'a Node,
    /// What this run sweeps.
    active: Vec<Axis>,
    /// What the file and all of its variants sweep: a question about a value that only another
    /// variant has is left out, not refused.
    known: Vec<&'a SweptKey>,
}

/// Runs that an expectation may be of.
const CLOCKS: [(&str, Clock); 2] = [("virtual", Clock::Virtual), ("real", Clock::Real)];
/// Stands for the flow's name where a swept key may stand.
const FLOW: &str = "flow";

impl<'a> Questions<'a> {
    pub(crate) fn new(notes: &'a Notes, root: &'a Node, run: &Variant, all: &[&'a Variant]) -> Self {
        let known = all.iter().flat_map(|variant| &variant.swept).collect();
        Self { notes, root, active: run.axes(), known }
    }

    /// Decodes the study. Questions about cells that this run does not have are left out.
    pub(crate) fn decode(&self) -> Result<Study, Noted> {
        let expectations = self.each("expect", |node| self.expectation(node));
        let figures = self.each("figures", |node| self.figure(node));
        let findings = self.each("findings", |node| self.finding(node));
        Ok(Study { axes: self.active.clone(), expectations: expectations?, figures: figures?, findings: findings? })
    }

    fn each<T>(&self, key: &str, decode: impl Fn(&'a Node) -> Result<Option<T>, Noted>) -> Result<Vec<T>, Noted> {
        let Some(entry) = self.root.entry(key) else { return Ok(Vec::new()) };
        let items = match &entry.node.value {
            Value::Null => return Ok(Vec::new()),
            Value::List(items) if items.is_empty() => return Ok(Vec::new()),
            _ => fields::items(self.notes, &entry.node, &format!("`{key}`"))?,
        };
        let decoded: Vec<_> = items.iter().map(decode).collect();
        decoded.into_iter().filter_map(Result::transpose).collect()
    }

    fn expectation(&self, node: &'a Node) -> Result<Option<Expectation>, Noted> {
        let fields = Fields::read(self.notes, node, &keys::EXPECT)?;
        let that = self.metric(fields.need("that")?);
        let select = self.selection(fields.get("where"));
        let against = match fields.get("against") {
            Some(node) => self.baseline(node).map(Some),
            None => Ok(None),
        };
        let (that, against) = (that?, against?);
        let holds = fields.need("holds")?;
        let (relation, bound) = self.holds(holds, that, against.is_some())?;
        let only = fields.with("only", |notes, node| fields::choice(notes, node, "kind of run", &CLOCKS))?;
        let text = fields::text(self.notes, holds)?.trim().to_owned();
        let (Some(select), false) = (select?, matches!(against, Some(None))) else { return Ok(None) };
        Ok(Some(Expectation { that, select, against: against.flatten(), relation, bound, text, only }))
    }

    /// The coordinates that something is compared with: one value for each key.
    fn baseline(&self, node: &'a Node) -> Result<Option<Selection>, Noted> {
        let entries = fields::map(self.notes, node, "`against`")?;
        if entries.is_empty() {
            let problem = Problem::new(node.at, "`against` names nothing to compare with");
            return Err(self.notes.note(problem.remedy("write for example `{path: host}`")));
        }
        if let Some(entry) = entries.iter().find(|entry| !matches!(entry.node.value, Value::Scalar(_))) {
            let problem = Problem::new(entry.node.at, "a comparison is with one value");
            return Err(self.notes.note(problem.remedy(format!("write `{}: VALUE`", entry.key))));
        }
        self.selection(Some(node))
    }

    /// `>= 9kbit/s` as relation and bound in the metric's base unit.
    fn holds(&self, node: &Node, metric: Metric, ratio: bool) -> Result<(Relation, f64), Noted> {
        const RELATIONS: [(&str, Relation); 6] = [
            ("<=", Relation::AtMost),
            (">=", Relation::AtLeast),
            ("==", Relation::Equal),
            ("<", Relation::Less),
            (">", Relation::Greater),
            ("~", Relation::About),
        ];
        let text = fields::text(self.notes, node)?.trim();
        let unit = if ratio { Unit::Ratio } else { metric.unit() };
        let example = match unit {
            Unit::BitPerSecond => ">= 9kbit/s",
            Unit::Second => "<= 50ms",
            Unit::Ratio => ">= 0.9",
            Unit::Count => "<= 100",
        };
        let remedy = format!("write `<`, `<=`, `>`, `>=`, `==` or `~` and a value, such as `{example}`");
        let found = RELATIONS.iter().find_map(|(sign, relation)| Some((*relation, text.strip_prefix(sign)?.trim())));
        let Some((relation, value)) = found else {
            let problem = Problem::new(node.at, format!("`{text}` does not begin with a comparison"));
            return Err(self.notes.note(problem.remedy(remedy)));
        };
        let zero = value.parse::<Span>() == Ok(Span::ZERO);
        let bound = match unit {
            // A rate of zero is no rate, but one may compare with it.
            Unit::BitPerSecond if zero || value == "0bit/s" => Some(0.0),
            Unit::BitPerSecond => value.parse::<Rate>().ok().map(|rate| rate.bits_per_second() as f64),
            Unit::Second => value.parse::<Span>().ok().map(Span::as_secs_f64),
            Unit::Ratio => match value.strip_suffix('%') {
                Some(percent) => fields::decimal(percent.trim_end()).map(|percent| percent / 100.0),
                None => fields::decimal(value),
            },
            Unit::Count => fields::decimal(value),
        };
        match bound {
            Some(bound) if bound >= 0.0 => Ok((relation, bound)),
            _ => {
                let of = if ratio { "the ratio".to_owned() } else { format!("`{}`", metric.name()) };
                let problem = Problem::new(node.at, format!("`{value}` is not a value of {of}"));
                Err(self.notes.note(problem.remedy(remedy)))
            }
        }
    }

    fn figure(&self, node: &'a Node) -> Result<Option<Figure>, Noted> {
        let fields = Fields::read(self.notes, node, &keys::FIGURE)?;
        let within = [Figure::TIME, Figure::PACKET_SIZE];
        let x = fields.need("x").and_then(|node| match &node.value {
            Value::Scalar(text) if within.contains(&text.as_str()) => Ok(text.clone()),
            _ => self.numeric(node),
        });
        let y = self.metric(fields.need("y")?);
        let series = self.axis(fields.need("series")?);
        let (x, y, series) = (x?, y?, series?);
        let fitting: &[Metric] = match x.as_str() {
            Figure::TIME => &Metric::OVER_TIME,
            Figure::PACKET_SIZE => &Metric::BY_PACKET,
            _ => &Metric::ALL,
        };
        if let Some(node) = fields.get("y").filter(|_| !fitting.contains(&y)) {
            let problem = Problem::new(node.at, format!("`{}` cannot be drawn over `{x}`", y.name()));
            let valid = fields::list(fitting.iter().map(|metric| metric.name()));
            return Err(self.notes.note(problem.remedy(format!("choose one of {valid}"))));
        }
        let theory =
            fields.with("theory", |notes, node| fields::choice(notes, node, "theory", &[(theory::PING_ALONE, ())]));
        if let Some(node) = fields.get("theory").filter(|_| theory.is_ok() && y != Metric::RttP50) {
            let problem = Problem::new(node.at, format!("`{}` tells the round-trip time of pings", theory::PING_ALONE));
            return Err(self.notes.note(problem.remedy("write `y: rtt-p50`, or leave `theory` away")));
        }
        let shown = [x.as_str(), series.as_str()];
        let mut panels = match (fields.get("page"), fields.get("panels")) {
            (Some(_), Some(panels)) => {
                let problem = Problem::new(panels.at, "a figure has either `page` or `panels`");
                return Err(self.notes.note(problem.remedy("leave one of them away")));
            }
            (Some(page), None) => self.pages(page, &shown)?,
            (None, Some(panels)) => self.panels(panels, &series, &shown)?,
            (None, None) => {
                let title = format!("{} over {x}", y.name());
                let panel = Panel { title, select: Selection::default(), omit: Vec::new(), curve: None };
                self.told_apart(fields.at, &shown, &panel.select)?;
                vec![panel]
            }
        };
        if theory?.is_some() {
            for panel in &mut panels {
                panel.curve = Some(theory::curve());
            }
        }
        Ok((!panels.is_empty()).then_some(Figure { x, y, series, panels }))
    }

    /// One panel for each combination of the keys' values, the last key fastest.
    fn pages(&self, node: &'a Node, shown: &[&str]) -> Result<Vec<Panel>, Noted> {
        let mut panels =
            vec![Panel { title: String::new(), select: Selection::default(), omit: Vec::new(), curve: None }];
        for node in fields::one_or_more(self.notes, node, "`page`")? {
            let key = self.axis(node)?;
            let Some(axis) = self.active.iter().find(|axis| axis.key == key) else {
                let problem = Problem::new(node.at, format!("`{key}` cannot make pages"));
                return Err(self.notes.note(problem.remedy("only swept keys can")));
            };
            let with = |panel: &Panel, label: &str| {
                let mut panel = panel.clone();
                panel.title =
                    if panel.title.is_empty() { label.to_owned() } else { format!("{} · {label}", panel.title) };
                panel.select.0.push((key.clone(), vec![label.to_owned()]));
                panel
            };
            let labels = || axis.values.iter().map(|value| value.label.as_str());
            panels =
                panels.iter().flat_map(|panel| labels().map(|label| with(panel, label)).collect::<Vec<_>>()).collect();
            if panels.len() > MOST_PANELS {
                let problem = Problem::new(node.at, format!("these keys make more than {MOST_PANELS} panels"));
                return Err(self.notes.note(problem.remedy("take fewer keys, or name `panels`")));
            }
        }
        if let Some(panel) = panels.first() {
            self.told_apart(node.at, shown, &panel.select)?;
        }
        Ok(panels)
    }

    fn panels(&self, node: &'a Node, series: &str, shown: &[&str]) -> Result<Vec<Panel>, Noted> {
        let mut panels = Vec::new();
        for node in fields::items(self.notes, node, "`panels`")? {
            let fields = Fields::read(self.notes, node, &keys::PANEL)?;
            let title = fields::text(self.notes, fields.need("title")?)?.to_owned();
            let select = self.selection(fields.get("where"))?;
            let mut omit = Vec::new();
            if let Some(node) = fields.get("omit") {
                for node in fields::one_or_more(self.notes, node, "`omit`")? {
                    omit.extend(self.label(series, node)?);
                }
            }
            let Some(select) = select else { continue };
            self.told_apart(node.at, shown, &select)?;
            panels.push(Panel { title, select, omit, curve: None });
        }
        Ok(panels)
    }

    /// Every key with several values must be along x, a series, or fixed: otherwise points of
    /// different cells would lie on top of each other.
    fn told_apart(&self, at: At, shown: &[&str], select: &Selection) -> Result<(), Noted> {
        let fixed = |key: &str| select.0.iter().any(|(fixed, labels)| fixed == key && labels.len() == 1);
        let loose = |axis: &&Axis| axis.values.len() > 1 && !shown.contains(&axis.key.as_str()) && !fixed(&axis.key);
        match self.active.iter().find(loose) {
            None => Ok(()),
            Some(axis) => {
                let problem =
                    Problem::new(at, format!("cells that differ in `{}` would be drawn over each other", axis.key));
                Err(self.notes.note(problem.remedy("put the key under `page`, or fix it with `where`")))
            }
        }
    }

    fn finding(&self, node: &'a Node) -> Result<Option<Finding>, Noted> {
        let notes = self.notes;
        let fields = Fields::read(notes, node, &keys::FINDING)?;
        let source = fields::text(notes, fields.need("source")?)?.to_owned();
        let paper = fields::text(notes, fields.need("paper")?)?.trim().to_owned();
        let select = self.selection(fields.get("where"));
        let agrees = self.agrees(fields.need("agrees")?);
        let kinds = ["decay", "converge", "cost", "lowest-share", "value"];
        let mut said = kinds.iter().filter_map(|kind| fields.entry(kind));
        let (Some(kind), None) = (said.next(), said.next()) else {
            let problem = Problem::new(node.at, "a finding has exactly one rule");
            return Err(notes.note(problem.remedy(format!("give one of {}", fields::list(kinds)))));
        };
        let rule = self.rule(&kind.key, &kind.node);
        let (select, agrees, rule) = (select?, agrees?, rule?);
        if let (Some(select), Some(Rule::Converge { series, .. })) = (&select, &rule)
            && self.active.iter().any(|axis| axis.key == *series && chosen(axis, select) < 2)
        {
            // Only another variant has two series that could meet.
            return Ok(None);
        }
        Ok(select.zip(rule).map(|(select, rule)| Finding { source, paper, rule, select, agrees }))
    }

    /// The rule of a finding, or `None` if this run does not have the cells for it.
    fn rule(&self, kind: &str, node: &'a Node) -> Result<Option<Rule>, Noted> {
        let notes = self.notes;
        let metric =
            |fields: &Fields<'a>| Ok(fields.with("metric", |_, node| self.metric(node))?.unwrap_or(Metric::Goodput));
        match kind {
            "decay" => {
                let fields = Fields::read(notes, node, &keys::DECAY)?;
                let over = self.numeric(fields.need("over")?);
                let share = fields::probability(notes, fields.need("share")?);
                Ok(Some(Rule::Decay { metric: metric(&fields)?, over: over?, share: share? }))
            }
            "converge" => {
                let fields = Fields::read(notes, node, &keys::CONVERGE)?;
                let over = self.numeric(fields.need("over")?);
                let series = self.axis(fields.need("series")?);
                let within = fields::number_over(notes, fields.need("within")?, 1.0);
                Ok(Some(Rule::Converge { metric: metric(&fields)?, over: over?, series: series?, within: within? }))
            }
            "cost" => {
                let fields = Fields::read(notes, node, &keys::COST)?;
                let key = self.axis(fields.need("key")?)?;
                let base = self.label(&key, fields.need("base")?)?;
                let variant = self.label(&key, fields.need("variant")?)?;
                let pair = base.zip(variant);
                let metric = metric(&fields)?;
                Ok(pair.map(|(base, variant)| Rule::Cost { metric, key, base, variant }))
            }
            "value" => {
                let fields = Fields::read(notes, node, &keys::VALUE)?;
                Ok(Some(Rule::Value { metric: metric(&fields)? }))
            }
            _ => {
                let fields = Fields::read(notes, node, &keys::LOWEST_SHARE)?;
                Ok(Some(Rule::LowestShare { metric: metric(&fields)? }))
            }
        }
    }

    fn agrees(&self, node: &'a Node) -> Result<(Option<f64>, Option<f64>), Noted> {
        let fields = Fields::read(self.notes, node, &keys::AGREES)?;
        let read = |key| {
            fields.with(key, |notes, node| {
                let text = fields::text(notes, node)?;
                sweep::number(text).ok_or_else(|| {
                    let problem = Problem::new(node.at, format!("`{text}` is not a number"));
                    notes.note(problem.remedy("write for example `0.03`"))
                })
            })
        };
        let (from, to) = (read("from")?, read("to")?);
        match (from, to) {
            (None, None) => {
                let problem = Problem::new(node.at, "`agrees` says nothing");
                Err(self.notes.note(problem.remedy("give `from`, `to` or both")))
            }
            (Some(from), Some(to)) if from > to => {
                let problem = Problem::new(node.at, "nothing lies between these");
                Err(self.notes.note(problem.remedy("exchange `from` and `to`")))
            }
            both => Ok(both),
        }
    }

    fn metric(&self, node: &Node) -> Result<Metric, Noted> {
        let choices = Metric::ALL.map(|metric| (metric.name(), metric));
        fields::choice(self.notes, node, "metric", &choices)
    }

    /// The rows that `where` takes, or `None` if this run has none of them.
    fn selection(&self, node: Option<&'a Node>) -> Result<Option<Selection>, Noted> {
        let mut selection = Selection::default();
        let Some(node) = node else { return Ok(Some(selection)) };
        let mut met = true;
        for entry in fields::map(self.notes, node, "`where`")? {
            let key = self.key(&entry.key, entry.key_at)?;
            let mut labels = Vec::new();
            for node in fields::one_or_more(self.notes, &entry.node, "this choice")? {
                labels.extend(self.label(&key, node)?);
            }
            met &= !labels.is_empty();
            selection.0.push((key, labels));
        }
        Ok(met.then_some(selection))
    }

    /// A swept key, or `flow`, as it is called in the results.
    fn axis(&self, node: &Node) -> Result<String, Noted> {
        self.key(fields::text(self.notes, node)?, node.at)
    }

    fn key(&self, key: &str, at: At) -> Result<String, Noted> {
        if key == FLOW {
            return Ok(key.to_owned());
        }
        // What cannot be resolved is not swept either, and that is the better message here.
        let scratch = Notes::default();
        let target = Target::resolve(&scratch, self.root, key, at, Scope::Sweep).ok();
        let known = self.known.iter().find(|swept| target.as_ref().is_some_and(|t| t.path == swept.target.path));
        if let Some(swept) = known {
            return Ok(swept.key.clone());
        }
        if key == "traffic" {
            let problem = Problem::new(at, "`traffic` is not swept: all entries run together");
            return Err(self.notes.note(problem.remedy("write `flow` to choose among them")));
        }
        let valid = self.known.iter().map(|swept| swept.key.as_str()).chain([FLOW]);
        Err(fields::unknown(self.notes, at, "coordinate", key, valid, ": it is not swept"))
    }

    /// A swept key whose values are numbers.
    fn numeric(&self, node: &Node) -> Result<String, Noted> {
        let key = self.axis(node)?;
        let swept: Vec<_> = self.known.iter().filter(|swept| swept.key == key).collect();
        let words = swept.iter().flat_map(|swept| &swept.values).find(|value| value.scalar.number.is_none());
        if let (false, None) = (swept.is_empty(), words) {
            return Ok(key);
        }
        let example = words.map_or(String::new(), |value| format!(", such as `{}`", value.scalar.label));
        let problem = Problem::new(node.at, format!("the values of `{key}` are not numbers{example}"));
        Err(self.notes.note(problem.remedy("choose a key that is swept over numbers")))
    }

    /// The label that `node` means among the values of `key`: `None` if this run leaves it out.
    fn label(&self, key: &str, node: &Node) -> Result<Option<String>, Noted> {
        let text = fields::text(self.notes, node)?;
        if key == FLOW {
            let known: Vec<&str> = assign::names(self.root, "traffic").collect();
            if known.contains(&text) {
                return Ok(Some(text.to_owned()));
            }
            return Err(fields::unknown(self.notes, node.at, "traffic entry", text, known, ""));
        }
        let label = sweep::label(text);
        let values = self.known.iter().filter(|swept| swept.key == key).flat_map(|swept| &swept.values);
        let labels: Vec<&str> = values.map(|value| value.scalar.label.as_str()).collect();
        if !labels.contains(&label.as_str()) {
            return Err(fields::unknown(
                self.notes,
                node.at,
                "value",
                text,
                labels,
                &format!(" of `{key}`: it is not swept over"),
            ));
        }
        let active = self.active.iter().find(|axis| axis.key == key);
        let active = active.is_some_and(|axis| axis.values.iter().any(|value| value.label == label));
        Ok(active.then_some(label))
    }
}

/// How many values of an axis a selection takes.
fn chosen(axis: &Axis, select: &Selection) -> usize {
    let labels = select.0.iter().find(|(key, _)| *key == axis.key);
    labels.map_or(axis.values.len(), |(_, labels)| labels.len())
}

/// More panels than this are no page.
const MOST_PANELS: usize = 200;
