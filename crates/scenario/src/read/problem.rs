//! What is wrong with a scenario, and where: texts with positions, problems, and how they are drawn.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet, normalize_untrusted_str};

/// Why a scenario cannot be run. Displays without colours, one paragraph a problem, each with file,
/// line, column and remedy; [`coloured`](Self::coloured) also draws it for a terminal.
#[derive(Clone, Debug)]
pub struct ScenarioError {
    sources: Vec<Source>,
    problems: Vec<Problem>,
    /// Problems beyond those listed.
    more: usize,
}

/// A text that positions refer to: the scenario file, or what an option said.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// What the user calls it.
    pub(crate) name: String,
    pub(crate) text: String,
}

/// A stretch of one of the sources, in characters as the YAML parser counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct At {
    source: u32,
    start: u32,
    end: u32,
}

/// One thing that is wrong.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) at: Option<At>,
    /// What is wrong, in one sentence.
    pub(crate) what: String,
    /// A word at the place itself.
    pub(crate) label: String,
    /// What to do.
    pub(crate) remedy: String,
}

/// Proof that a problem was noted: decoding goes on elsewhere and fails at the end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Noted(());

/// Collects sources and problems while a scenario is read.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    sources: RefCell<Vec<Source>>,
    /// By place and by what is wrong but for its numbers: once in however many cells, and once in
    /// however many values of a range.
    problems: RefCell<BTreeMap<(Option<At>, String), Problem>>,
    /// When the problems that are noted now arise; always, if empty.
    when: Cell<&'static str>,
}

/// So many problems are drawn; who mends them sees the rest.
const MOST_DRAWN: usize = 20;
/// A line longer than this is not drawn, only named.
const LONGEST_LINE_DRAWN: usize = 400;

impl At {
    pub(crate) fn new(source: u32, range: Range<usize>) -> Self {
        let cut = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Self { source, start: cut(range.start), end: cut(range.end.max(range.start)) }
    }

    /// From the start of this stretch to the end of `other`.
    pub(crate) fn to(self, other: At) -> At {
        At { end: other.end.max(self.start), ..self }
    }
}

impl Problem {
    pub(crate) fn new(at: impl Into<Option<At>>, what: impl Into<String>) -> Self {
        Self { at: at.into(), what: what.into(), label: String::new(), remedy: String::new() }
    }

    pub(crate) fn label(self, label: impl Into<String>) -> Self {
        Self { label: label.into(), ..self }
    }

    pub(crate) fn remedy(self, remedy: impl Into<String>) -> Self {
        Self { remedy: remedy.into(), ..self }
    }
}

impl Notes {
    /// Adds a text; positions name it by the number given back.
    pub(crate) fn source(&self, name: impl Into<String>, text: impl Into<String>) -> u32 {
        let mut sources = self.sources.borrow_mut();
        sources.push(Source { name: name.into(), text: text.into() });
        u32::try_from(sources.len() - 1).unwrap_or(u32::MAX)
    }

    /// Notes a problem. The same problem at the same place (in another cell) counts once.
    pub(crate) fn note(&self, mut problem: Problem) -> Noted {
        let kind = problem.what.chars().filter(|c| !c.is_ascii_digit() && *c != '.').collect();
        self.problems.borrow_mut().entry((problem.at, kind)).or_insert_with(|| {
            problem.what.push_str(self.when.get());
            problem
        });
        Noted(())
    }

    /// From now on, problems that were not noted before arise only `when`.
    pub(crate) fn only(&self, when: &'static str) {
        self.when.set(when);
    }

    /// Whether there are so many problems that looking for more is of no use.
    pub(crate) fn is_full(&self) -> bool {
        self.problems.borrow().len() >= MOST_DRAWN
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.problems.borrow().is_empty()
    }

    /// Whether a problem lies within `at`.
    pub(crate) fn concern(&self, at: At) -> bool {
        let within = |p: At| p.source == at.source && p.start >= at.start && p.end <= at.end;
        self.problems.borrow().keys().any(|(place, _)| place.is_some_and(within))
    }

    /// The error that all problems make.
    pub(crate) fn into_error(self) -> ScenarioError {
        let mut problems: Vec<_> = self.problems.into_inner().into_values().collect();
        let more = problems.len().saturating_sub(MOST_DRAWN);
        problems.truncate(MOST_DRAWN);
        ScenarioError { sources: self.sources.into_inner(), problems, more }
    }
}

impl ScenarioError {
    /// The error with a terminal's colours.
    #[must_use]
    pub fn coloured(&self) -> String {
        self.render(&Renderer::styled())
    }

    fn render(&self, renderer: &Renderer) -> String {
        let mut out = String::new();
        for problem in &self.problems {
            if !out.is_empty() {
                out.push_str("\n\n");
            }
            out.push_str(&renderer.render(&[self.draw(problem)]));
        }
        if self.more > 0 {
            out.push_str(&format!("\n\nand {} more problems", self.more));
        }
        out
    }

    /// Each problem in one line, as `file:line:column: what; remedy`.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.problems.iter().map(|problem| {
            let place = problem.at.map(|at| {
                let source = &self.sources[at.source as usize];
                let (line, column) = source.place(at).0;
                format!("{}:{line}:{column}: ", source.name)
            });
            let remedy = if problem.remedy.is_empty() { String::new() } else { format!("; {}", problem.remedy) };
            normalize_untrusted_str(&format!("{}{}{remedy}", place.unwrap_or_default(), problem.what))
        })
    }

    fn draw<'a>(&'a self, problem: &'a Problem) -> Group<'a> {
        let mut group = Group::with_title(Level::ERROR.primary_title(normalize_untrusted_str(&problem.what)));
        if let Some(at) = problem.at {
            let source = &self.sources[at.source as usize];
            let ((line, column), text, span) = source.place(at);
            if text.len() <= LONGEST_LINE_DRAWN {
                let label = Some(normalize_untrusted_str(&problem.label)).filter(|label| !label.is_empty());
                let mark = AnnotationKind::Primary.span(span).label(label);
                group = group.element(Snippet::source(text).path(&source.name).line_start(line).annotation(mark));
            } else {
                group = group.element(Origin::path(&source.name).line(line).char_column(column));
            }
        }
        if !problem.remedy.is_empty() {
            group = group.element(Level::HELP.message(normalize_untrusted_str(&problem.remedy)));
        }
        group
    }
}

impl Source {
    /// Line and column (from 1, in characters), the line's text, and the byte range in it that `at`
    /// marks: at least one character where there is one.
    fn place(&self, at: At) -> ((usize, usize), &str, Range<usize>) {
        let byte = |n: u32| self.text.char_indices().nth(n as usize).map_or(self.text.len(), |(byte, _)| byte);
        let mut start = byte(at.start);
        if start == self.text.len() {
            // The end of the text is shown at its last line with something in it.
            start = self.text.trim_end().len();
        }
        let from = self.text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let to = self.text[start..].find('\n').map_or(self.text.len(), |newline| start + newline);
        let line = self.text[from..to].trim_end_matches('\r');
        let one = line.get(start - from..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8);
        let end = byte(at.end).clamp(start + one, (from + line.trim_end().len()).max(start + one));
        let number = self.text[..start].matches('\n').count() + 1;
        let column = self.text[from..start].chars().count() + 1;
        ((number, column), line, start - from..end - from)
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(&Renderer::plain()))
    }
}

impl std::error::Error for ScenarioError {}
