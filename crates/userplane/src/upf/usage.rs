//! Usage reporting rules: volume and time that are measured, reported and held to a quota (TS 29.244 5.2.2).

use alloc::boxed::Box;

use engine::{Span, Time};
use wire::pfcp::rules::{CreateUrr, UpdateUrr, UsageReport};
use wire::pfcp::value::{
    MeasurementMethod, NtpTime, ReportingTriggers, UrrId, UsageTrigger, VolumeMeasurement, Volumes,
};

use super::Direction;

/// Bytes in each direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Bytes {
    uplink: u64,
    downlink: u64,
}

/// A URR at work.
///
/// Thresholds count from the last report, quotas from when they were given (TS 29.244 5.2.2.2). Time is that of use: it runs from the
/// first packet, and with an inactivity detection time stops that long after a packet.
///
/// What every packet touches stands together, the rest behind a pointer: with many sessions memory is what takes time.
#[derive(Clone, Debug)]
pub(super) struct Usage {
    volume: Bytes,
    /// Volumes at which a limit is reached: both directions together, and each.
    alarm: [u64; 3],
    /// When the last packet came, whatever was reported since.
    last_seen: Time,
    /// What is to be reported, and was not yet fetched.
    due: UsageTrigger,
    /// Packets have come since the last report.
    counted: bool,
    /// Packets have come, and not yet stopped.
    active: bool,
    /// Time of use counts.
    timed: bool,
    exhausted: bool,
    rest: Box<Rest>,
}

#[derive(Clone, Debug)]
struct Rest {
    rule: CreateUrr,
    /// Number of the next report (TS 29.244 8.2.53).
    sequence: u32,
    /// Start of what is measured now: the rule's making or its last report.
    since: Time,
    first_packet: Time,
    /// Time of use, but for what runs.
    used: Span,
    /// While time of use runs: since when it was not added to `used` yet.
    running_since: Option<Time>,
    /// Used of the quotas up to the last report.
    quota_volume: Bytes,
    quota_used: Span,
    /// When the period ends that is to be reported.
    period_ends: Option<Time>,
}

impl Usage {
    pub(super) fn new(rule: CreateUrr, now: Time) -> Self {
        let rest = Rest {
            rule,
            sequence: 0,
            since: now,
            first_packet: now,
            used: Span::ZERO,
            running_since: None,
            quota_volume: Bytes::default(),
            quota_used: Span::ZERO,
            period_ends: None,
        };
        let mut usage = Self {
            volume: Bytes::default(),
            alarm: [u64::MAX; 3],
            last_seen: now,
            due: UsageTrigger::default(),
            counted: false,
            active: false,
            timed: false,
            exhausted: false,
            rest: Box::new(rest),
        };
        usage.begin_period(now);
        usage.arm();
        usage
    }

    pub(super) fn id(&self) -> UrrId {
        self.rest.rule.id
    }

    /// What is there replaces what was; a quota that is given begins anew (TS 29.244 5.2.2.2.1).
    pub(super) fn update(&mut self, update: &UpdateUrr, now: Time) {
        self.settle(now);
        let rest = &mut *self.rest;
        let rule = &mut rest.rule;
        rule.method = update.method.unwrap_or(rule.method);
        rule.triggers = update.triggers.unwrap_or(rule.triggers);
        rule.volume_threshold = update.volume_threshold.or(rule.volume_threshold);
        rule.time_threshold = update.time_threshold.or(rule.time_threshold);
        rule.inactivity = update.inactivity.or(rule.inactivity);
        if update.volume_quota.is_some() {
            rule.volume_quota = update.volume_quota;
            // What was measured, but not yet reported, counts against the new one no more.
            rest.quota_volume = Bytes::default().minus(self.volume);
            self.exhausted = false;
        }
        if update.time_quota.is_some() {
            rule.time_quota = update.time_quota;
            // Time that is not yet reported counts against the new one, a little less than what it gives.
            rest.quota_used = Span::ZERO;
            self.exhausted = false;
        }
        if update.period.is_some() {
            rule.period = update.period;
            self.begin_period(now);
        }
        self.arm();
    }

    /// Whether its quota is used up, so that nothing may pass.
    pub(super) fn is_exhausted(&self) -> bool {
        self.exhausted
    }

    /// Counts a packet that passes. True if a report has become due, or a deadline may have.
    pub(super) fn count(&mut self, now: Time, direction: Direction, bytes: u64) -> bool {
        match direction {
            Direction::Uplink => self.volume.uplink += bytes,
            Direction::Downlink => self.volume.downlink += bytes,
        }
        if self.timed {
            self.settle(now);
            self.rest.running_since = Some(now);
        }
        let begins = !self.active;
        if begins && self.rest.rule.triggers.contains(ReportingTriggers::START) {
            self.due |= UsageTrigger::START;
        }
        self.active = true;
        self.last_seen = now;
        if !core::mem::replace(&mut self.counted, true) {
            self.rest.first_packet = now;
        }
        if self.volume.reaches(self.alarm) {
            self.judge_volume();
        }
        begins || self.due.0 != 0
    }

    fn judge_volume(&mut self) {
        let rule = &self.rest.rule;
        let reached = |limit: Option<Volumes>, bytes: Bytes| limit.is_some_and(|limit| bytes.reaches(limits(limit)));
        if rule.triggers.contains(ReportingTriggers::VOLTH) && reached(rule.volume_threshold, self.volume) {
            self.due |= UsageTrigger::VOLTH;
        }
        if !self.exhausted && reached(rule.volume_quota, self.rest.quota_volume.plus(self.volume)) {
            self.exhausted = true;
            self.due |= UsageTrigger::VOLQU;
        }
        self.arm();
    }

    /// Sets what [`Usage::count`] looks at, from the rule and what was used.
    fn arm(&mut self) {
        let rule = &self.rest.rule;
        self.timed = rule.method.contains(MeasurementMethod::DURAT)
            || rule.time_threshold.is_some()
            || rule.time_quota.is_some()
            || rule.inactivity.is_some();
        let threshold = rule.volume_threshold.filter(|_| rule.triggers.contains(ReportingTriggers::VOLTH));
        let threshold = threshold.map_or([u64::MAX; 3], limits);
        let quota = rule.volume_quota.filter(|_| !self.exhausted).map_or([u64::MAX; 3], limits);
        let Bytes { uplink, downlink } = self.rest.quota_volume;
        let used = [uplink.wrapping_add(downlink), uplink, downlink];
        for (at, alarm) in self.alarm.iter_mut().enumerate() {
            // What is left of a quota that was given after some of it was measured is more than the quota.
            let left = if quota[at] == u64::MAX { u64::MAX } else { quota[at].wrapping_sub(used[at]) };
            *alarm = threshold[at].min(left);
        }
    }

    /// What has become due by time alone.
    pub(super) fn tick(&mut self, now: Time) {
        if self.rest.period_ends.is_some_and(|end| end <= now) {
            self.due |= UsageTrigger::PERIO;
            self.begin_period(now);
        }
        self.settle(now);
        if self.threshold_left().is_some_and(|left| left == Span::ZERO) {
            self.due |= UsageTrigger::TIMTH;
        }
        if !self.exhausted && self.quota_left().is_some_and(|left| left == Span::ZERO) {
            self.exhausted = true;
            self.due |= UsageTrigger::TIMQU;
            self.arm();
        }
    }

    /// When [`Usage::tick`] is wanted, if nothing else happens. Not while a report is due: that comes first.
    pub(super) fn deadline(&self) -> Option<Time> {
        if self.is_due() {
            return None;
        }
        let running = self.rest.running_since.map(|since| {
            let left = self.threshold_left().into_iter().chain(self.quota_left().filter(|_| !self.exhausted)).min();
            // Use may end before; then it is looked at again, since packets may have come meanwhile.
            left.map(|left| since + left.min(self.patience(since)))
        });
        running.flatten().into_iter().chain(self.rest.period_ends).min()
    }

    /// Whether there is something to report.
    pub(super) fn is_due(&self) -> bool {
        self.due.0 != 0
    }

    /// What was measured since the last report, because of what has become due, and of `trigger`. Measuring begins anew.
    pub(super) fn report(&mut self, now: Time, trigger: UsageTrigger, started: NtpTime) -> UsageReport {
        self.settle(now);
        let wall = |time: Time| NtpTime(started.0.wrapping_add((time.as_nanos() / 1_000_000_000) as u32));
        let rest = &mut *self.rest;
        let method = rest.rule.method;
        let volume = self.volume;
        let bytes = Volumes {
            total: Some(volume.uplink.saturating_add(volume.downlink)),
            uplink: Some(volume.uplink),
            downlink: Some(volume.downlink),
        };
        let report = UsageReport {
            id: rest.rule.id,
            sequence: rest.sequence,
            trigger: self.due | trigger,
            start: Some(wall(rest.since)),
            end: Some(wall(now)),
            volume: method
                .contains(MeasurementMethod::VOLUM)
                .then_some(VolumeMeasurement { bytes, packets: Volumes::default() }),
            duration: method.contains(MeasurementMethod::DURAT).then_some(whole_seconds(rest.used)),
            first_packet: self.counted.then_some(wall(rest.first_packet)),
            last_packet: self.counted.then_some(wall(self.last_seen)),
        };
        rest.sequence = rest.sequence.wrapping_add(1);
        rest.quota_volume = rest.quota_volume.plus(self.volume);
        rest.quota_used += rest.used;
        (rest.since, rest.used) = (now, Span::ZERO);
        (self.volume, self.counted, self.due) = (Bytes::default(), false, UsageTrigger::default());
        self.arm();
        report
    }

    /// Adds the time since it was added last, as far as it was use.
    fn settle(&mut self, now: Time) {
        let Some(since) = self.rest.running_since else { return };
        let patience = self.patience(since);
        let passed = now.since(since);
        self.rest.used += passed.min(patience);
        self.active = passed < patience;
        self.rest.running_since = self.active.then_some(now);
    }

    /// How long after `since`, when time of use was added last, it goes on without a packet.
    fn patience(&self, since: Time) -> Span {
        match self.rest.rule.inactivity {
            Some(seconds) => (self.last_seen + Span::from_secs(seconds.into())).since(since),
            None => Span::MAX,
        }
    }

    fn threshold_left(&self) -> Option<Span> {
        let rule = &self.rest.rule;
        let threshold = rule.time_threshold.filter(|_| rule.triggers.contains(ReportingTriggers::TIMTH))?;
        Some(Span::from_secs(threshold.into()).saturating_sub(self.rest.used))
    }

    fn quota_left(&self) -> Option<Span> {
        let quota = Span::from_secs(self.rest.rule.time_quota?.into());
        Some(quota.saturating_sub(self.rest.quota_used + self.rest.used))
    }

    fn begin_period(&mut self, now: Time) {
        let rule = &self.rest.rule;
        let period = rule.period.filter(|period| *period > 0);
        let period = period.filter(|_| rule.triggers.contains(ReportingTriggers::PERIO));
        self.rest.period_ends = period.map(|seconds| now + Span::from_secs(seconds.into()));
    }
}

/// The limits that are there, in the order of [`Usage::alarm`].
fn limits(volumes: Volumes) -> [u64; 3] {
    [volumes.total, volumes.uplink, volumes.downlink].map(|limit| limit.unwrap_or(u64::MAX))
}

impl Bytes {
    fn plus(self, other: Self) -> Self {
        Self { uplink: self.uplink.wrapping_add(other.uplink), downlink: self.downlink.wrapping_add(other.downlink) }
    }

    /// May be less than nothing, for [`Bytes::plus`] to make up for.
    fn minus(self, other: Self) -> Self {
        Self { uplink: self.uplink.wrapping_sub(other.uplink), downlink: self.downlink.wrapping_sub(other.downlink) }
    }

    fn reaches(self, [total, uplink, downlink]: [u64; 3]) -> bool {
        self.uplink.saturating_add(self.downlink) >= total || self.uplink >= uplink || self.downlink >= downlink
    }
}

fn whole_seconds(span: Span) -> u32 {
    u32::try_from(span.as_nanos() / 1_000_000_000).unwrap_or(u32::MAX)
}
