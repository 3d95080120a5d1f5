//! YAML to a small tree in which every node knows where it was written.

use saphyr_parser::{Event, Parser, ScalarStyle};

use crate::read::problem::{At, Noted, Notes, Problem};

/// A value and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) at: At,
    pub(crate) value: Value,
}

#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// Nothing was written.
    Null,
    /// Text, a number or a quantity: what it is depends on where it stands.
    Scalar(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A key and its value, in the order of the file.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_at: At,
    pub(crate) node: Node,
}

/// Deeper nesting than this is no scenario.
const DEEPEST: usize = 32;
/// More values than this are no scenario; the limit is for aliases that repeat aliases.
const MOST_NODES: usize = 100_000;

impl Node {
    /// The entry of this mapping called `key`.
    pub(crate) fn entry(&self, key: &str) -> Option<&Entry> {
        match &self.value {
            Value::Map(entries) => entries.iter().find(|entry| entry.key == key),
            _ => None,
        }
    }

    /// Number of values in it.
    pub(crate) fn count(&self) -> u64 {
        match &self.value {
            Value::Null | Value::Scalar(_) => 1,
            Value::List(items) => 1 + items.iter().map(Self::count).sum::<u64>(),
            Value::Map(entries) => 1 + entries.iter().map(|entry| entry.node.count()).sum::<u64>(),
        }
    }

    /// What kind of value this is, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self.value {
            Value::Null => "nothing",
            Value::Scalar(_) => "a single value",
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
        }
    }

    /// The value in one line, as flow YAML.
    pub(crate) fn flow(&self) -> String {
        match &self.value {
            Value::Null => "~".to_owned(),
            Value::Scalar(text) => text.clone(),
            Value::List(items) => format!("[{}]", items.iter().map(Self::flow).collect::<Vec<_>>().join(", ")),
            Value::Map(entries) => {
                let entries = entries.iter().map(|entry| format!("{}: {}", entry.key, entry.node.flow()));
                format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

/// Reads one YAML document. Notes what is wrong and stops there.
pub(crate) fn parse(notes: &Notes, source: u32, text: &str) -> Result<Node, Noted> {
    let mut builder = Builder { notes, open: Vec::new(), root: None, anchors: Vec::new(), nodes: 0 };
    let mut parser = Parser::new_from_str(text);
    loop {
        match parser.next_event() {
            Some(Ok((event, span))) => {
                let at = At::new(source, span.start.index()..span.end.index());
                builder.event(event, at)?;
            }
            Some(Err(error)) => {
                let here = error.marker().index();
                let what = format!("this is not YAML: {}", error.info());
                let problem = Problem::new(At::new(source, here..here), what).label("here");
                return Err(
                    notes.note(problem.remedy("see the guide's page on the scenario file for how it is written"))
                );
            }
            None => break,
        }
    }
    let nothing = |at| Problem::new(at, "there is nothing in this file").remedy("start from scenarios/first.yaml");
    builder.root.ok_or_else(|| notes.note(nothing(At::new(source, 0..0))))
}

struct Builder<'a> {
    notes: &'a Notes,
    /// Collections that have begun and not ended.
    open: Vec<Open>,
    root: Option<Node>,
    /// Complete nodes that aliases may name, by the parser's number.
    anchors: Vec<(usize, Node, usize)>,
    nodes: usize,
}

struct Open {
    node: Node,
    anchor: usize,
    /// The key whose value comes next.
    key: Option<(String, At)>,
    keys: std::collections::BTreeSet<String>,
    /// Nodes counted before this one.
    before: usize,
}

impl Builder<'_> {
    fn event(&mut self, event: Event<'_>, at: At) -> Result<(), Noted> {
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
            Event::DocumentStart(_) if self.root.is_none() => Ok(()),
            Event::DocumentStart(_) => {
                let problem = Problem::new(at, "a second document begins here").label("second document");
                Err(self.notes.note(problem.remedy("a file holds one scenario: put the other into a file of its own")))
            }
            Event::Alias(id) => {
                let Some((_, node, count)) = self.anchors.iter().find(|(anchor, ..)| *anchor == id) else {
                    let problem = Problem::new(at, "this alias repeats a value that is not complete yet");
                    return Err(self.notes.note(problem.remedy("write the value out")));
                };
                let (node, count) = (node.clone(), *count);
                self.count(count, at)?;
                self.complete(Node { at, ..node }, 0, count)
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.untagged(tag.is_some(), at)?;
                self.count(1, at)?;
                let null = style == ScalarStyle::Plain && matches!(&*text, "" | "~" | "null");
                let value = if null { Value::Null } else { Value::Scalar(text.into_owned()) };
                self.complete(Node { at, value }, anchor, 1)
            }
            Event::SequenceStart(anchor, tag) => self.begin(Value::List(Vec::new()), anchor, tag.is_some(), at),
            Event::MappingStart(anchor, tag) => self.begin(Value::Map(Vec::new()), anchor, tag.is_some(), at),
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(Open { mut node, anchor, before, .. }) = self.open.pop() else { return Ok(()) };
                node.at = node.at.to(at);
                self.complete(node, anchor, self.nodes - before)
            }
        }
    }

    fn begin(&mut self, value: Value, anchor: usize, tagged: bool, at: At) -> Result<(), Noted> {
        self.untagged(tagged, at)?;
        if self.open.len() == DEEPEST {
            let problem = Problem::new(at, format!("values are nested deeper than {DEEPEST} levels"));
            return Err(self.notes.note(problem.remedy("no scenario needs that: check brackets and indentation")));
        }
        let before = self.nodes;
        self.count(1, at)?;
        let keys = std::collections::BTreeSet::new();
        self.open.push(Open { node: Node { at, value }, anchor, key: None, keys, before });
        Ok(())
    }

    /// Puts a finished node where it belongs.
    fn complete(&mut self, node: Node, anchor: usize, count: usize) -> Result<(), Noted> {
        if anchor > 0 {
            self.anchors.push((anchor, node.clone(), count));
        }
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        match (&mut open.node.value, open.key.take()) {
            (Value::Map(entries), Some((key, key_at))) => entries.push(Entry { key, key_at, node }),
            (Value::Map(_), None) => {
                let Value::Scalar(key) = node.value else {
                    let problem = Problem::new(node.at, format!("a key must be a word, not {}", node.kind()));
                    return Err(self.notes.note(problem.remedy("write `key: value`")));
                };
                if !open.keys.insert(key.clone()) {
                    let problem = Problem::new(node.at, format!("the key `{key}` stands here twice"));
                    return Err(self.notes.note(problem.label("second time").remedy("keep one of the two")));
                }
                open.key = Some((key, node.at));
            }
            (Value::List(items), _) => items.push(node),
            (Value::Null | Value::Scalar(_), _) => {}
        }
        Ok(())
    }

    fn count(&mut self, more: usize, at: At) -> Result<(), Noted> {
        self.nodes += more;
        if self.nodes <= MOST_NODES {
            return Ok(());
        }
        let problem = Problem::new(at, format!("the file stands for more than {MOST_NODES} values"));
        Err(self.notes.note(problem.remedy("no scenario needs that: look for aliases that repeat aliases")))
    }

    fn untagged(&self, tagged: bool, at: At) -> Result<(), Noted> {
        if !tagged {
            return Ok(());
        }
        let problem = Problem::new(at, "type tags (`!…`) mean nothing in a scenario");
        Err(self.notes.note(problem.remedy("leave the tag away")))
    }
}
