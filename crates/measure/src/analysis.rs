//! What may be said of a recording: groups of repeats, what held, what was found, how the machine
//! kept up.

mod expectation;
mod figure;
mod finding;
mod group;
mod health;

pub use expectation::{Held, Shown};
pub use figure::{Series, series};
pub use finding::{Breakdown, Cost, Found, Part};
pub use group::{Group, NotJudged};
pub use health::{Dropped, HealthSummary};

use serde::Serialize;

use crate::{Clock, Recording};

/// The outcome of a judgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It holds; a finding agrees with the paper.
    Holds,
    /// It does not.
    Fails,
    /// It could not be judged.
    NotJudged,
}

/// What may be said of a recording.
#[derive(Debug)]
pub struct Analysis<'a> {
    /// The plan's cells and flows, repeats together, in the plan's order.
    pub groups: Vec<Group<'a>>,
    /// The expectations, in the study's order.
    pub expectations: Vec<Held>,
    /// How many more there are, of runs of the other kind (virtual or real).
    pub elsewhere: usize,
    /// The findings, in the study's order.
    pub findings: Vec<Found>,
    /// How the machine kept up.
    pub health: HealthSummary,
}

impl<'a> Analysis<'a> {
    /// Draws everything from a recording. The same recording gives the same analysis.
    #[must_use]
    pub fn of(recording: &'a Recording) -> Self {
        let groups = group::groups(recording);
        let study = &recording.outline.study;
        let health = health::summary(recording, &groups);
        let clock = if health.virtual_time { Clock::Virtual } else { Clock::Real };
        let here = study.expectations.iter().filter(|e| e.only.is_none_or(|only| only == clock));
        let expectations: Vec<_> = here.map(|e| expectation::judge(e, &groups)).collect();
        let elsewhere = study.expectations.len() - expectations.len();
        let seed = recording.outline.seed;
        let findings = study.findings.iter().map(|f| finding::find(f, &groups, study, seed)).collect();
        Self { groups, expectations, elsewhere, findings, health }
    }

    /// The verdict on all expectations: fails if one fails, else not judged if one is not judged.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let any = |verdict| self.expectations.iter().any(|held| held.verdict == verdict);
        match () {
            () if any(Verdict::Fails) => Verdict::Fails,
            () if any(Verdict::NotJudged) => Verdict::NotJudged,
            () => Verdict::Holds,
        }
    }
}
