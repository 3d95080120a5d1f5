//! Usage reporting rules: volume and time that are measured, reported and held to a quota (TS 29.244 5.2.2).

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
#[derive(Clone, Debug)]
pub(super) struct Usage {
    rule: CreateUrr,
    /// Number of the next report (TS 29.244 8.2.53).
    sequence: u32,
    /// Start of what is measured now: the rule's making or its last report.
    since: Time,
    volume: Bytes,
    /// Time of use up to the last packet.
    used: Span,
    first_packet: Option<Time>,
    last_packet: Option<Time>,
    /// While time of use runs: since when it was not added to `used` yet.
    running_since: Option<Time>,
    /// When the last packet came, whatever was reported since.
    last_seen: Option<Time>,
    /// Packets have come, and not yet stopped.
    active: bool,
    /// Used of the quotas up to the last report.
    quota_volume: Bytes,
    quota_used: Span,
    exhausted: bool,
    /// What is to be reported, and was not yet fetched.
    due: UsageTrigger,
    /// When time alone will bring a report about.
    period_ends: Option<Time>,
}

impl Usage {
    pub(super) fn new(rule: CreateUrr, now: Time) -> Self {
        let mut usage = Self {
            rule,
            sequence: 0,
            since: now,
            volume: Bytes::default(),
            used: Span::ZERO,
            first_packet: None,
            last_packet: None,
            running_since: None,
            last_seen: None,
            active: false,
            quota_volume: Bytes::default(),
            quota_used: Span::ZERO,
            exhausted: false,
            due: UsageTrigger::default(),
            period_ends: None,
        };
        usage.begin_period(now);
        usage
    }

    pub(super) fn id(&self) -> UrrId {
        self.rule.id
    }

    /// What is there replaces what was; a quota that is given begins anew (TS 29.244 5.2.2.2.1).
    pub(super) fn update(&mut self, update: &UpdateUrr, now: Time) {
        self.settle(now);
        let rule = &mut self.rule;
        rule.method = update.method.unwrap_or(rule.method);
        rule.triggers = update.triggers.unwrap_or(rule.triggers);
        rule.volume_threshold = update.volume_threshold.or(rule.volume_threshold);
        rule.time_threshold = update.time_threshold.or(rule.time_threshold);
        rule.inactivity = update.inactivity.or(rule.inactivity);
        if update.volume_quota.is_some() {
            rule.volume_quota = update.volume_quota;
            // What was measured, but not yet reported, counts against the new one no more.
            self.quota_volume = Bytes::default().minus(self.volume);
            self.exhausted = false;
        }
        if update.time_quota.is_some() {
            rule.time_quota = update.time_quota;
            // Time that is not yet reported counts against the new one, a little less than what it gives.
            self.quota_used = Span::ZERO;
            self.exhausted = false;
        }
        if update.period.is_some() {
            rule.period = update.period;
            self.begin_period(now);
        }
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
        self.settle(now);
        let begins = !self.active;
        if begins && self.rule.triggers.contains(ReportingTriggers::START) {
            self.due |= UsageTrigger::START;
        }
        self.active = true;
        self.running_since = Some(now);
        self.last_seen = Some(now);
        self.first_packet.get_or_insert(now);
        self.last_packet = Some(now);
        self.judge_volume();
        begins || self.due.0 != 0
    }

    fn judge_volume(&mut self) {
        let reached = |limit: Option<Volumes>, bytes: Bytes| limit.is_some_and(|limit| bytes.reaches(limit));
        if self.rule.triggers.contains(ReportingTriggers::VOLTH) && reached(self.rule.volume_threshold, self.volume) {
            self.due |= UsageTrigger::VOLTH;
        }
        if !self.exhausted && reached(self.rule.volume_quota, self.quota_volume.plus(self.volume)) {
            self.exhausted = true;
            self.due |= UsageTrigger::VOLQU;
        }
    }

    /// What has become due by time alone.
    pub(super) fn tick(&mut self, now: Time) {
        if self.period_ends.is_some_and(|end| end <= now) {
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
        }
    }

    /// When [`Usage::tick`] is wanted, if nothing else happens. Not while a report is due: that comes first.
    pub(super) fn deadline(&self) -> Option<Time> {
        if self.is_due() {
            return None;
        }
        let running = self.running_since.map(|since| {
            let left = self.threshold_left().into_iter().chain(self.quota_left().filter(|_| !self.exhausted)).min();
            // Use may end before; then it is looked at again, since packets may have come meanwhile.
            left.map(|left| since + left.min(self.patience(since)))
        });
        running.flatten().into_iter().chain(self.period_ends).min()
    }

    /// Whether there is something to report.
    pub(super) fn is_due(&self) -> bool {
        self.due.0 != 0
    }

    /// What was measured since the last report, because of what has become due, and of `trigger`. Measuring begins anew.
    pub(super) fn report(&mut self, now: Time, trigger: UsageTrigger, started: NtpTime) -> UsageReport {
        self.settle(now);
        let wall = |time: Time| NtpTime(started.0.wrapping_add((time.as_nanos() / 1_000_000_000) as u32));
        let method = self.rule.method;
        let volume = self.volume;
        let bytes = Volumes {
            total: Some(volume.uplink.saturating_add(volume.downlink)),
            uplink: Some(volume.uplink),
            downlink: Some(volume.downlink),
        };
        let report = UsageReport {
            id: self.rule.id,
            sequence: self.sequence,
            trigger: self.due | trigger,
            start: Some(wall(self.since)),
            end: Some(wall(now)),
            volume: method
                .contains(MeasurementMethod::VOLUM)
                .then_some(VolumeMeasurement { bytes, packets: Volumes::default() }),
            duration: method.contains(MeasurementMethod::DURAT).then_some(whole_seconds(self.used)),
            first_packet: self.first_packet.map(wall),
            last_packet: self.last_packet.map(wall),
        };
        self.sequence = self.sequence.wrapping_add(1);
        self.quota_volume = self.quota_volume.plus(self.volume);
        self.quota_used += self.used;
        (self.since, self.volume, self.used) = (now, Bytes::default(), Span::ZERO);
        (self.first_packet, self.last_packet, self.due) = (None, None, UsageTrigger::default());
        report
    }

    /// Adds the time since it was added last, as far as it was use.
    fn settle(&mut self, now: Time) {
        let Some(since) = self.running_since else { return };
        let patience = self.patience(since);
        let passed = now.since(since);
        self.used += passed.min(patience);
        self.active = passed < patience;
        self.running_since = self.active.then_some(now);
    }

    /// How long after `since`, when time of use was added last, it goes on without a packet.
    fn patience(&self, since: Time) -> Span {
        let last = self.last_seen.unwrap_or(since);
        match self.rule.inactivity {
            Some(seconds) => (last + Span::from_secs(seconds.into())).since(since),
            None => Span::MAX,
        }
    }

    fn threshold_left(&self) -> Option<Span> {
        let threshold = self.rule.time_threshold.filter(|_| self.rule.triggers.contains(ReportingTriggers::TIMTH))?;
        Some(Span::from_secs(threshold.into()).saturating_sub(self.used))
    }

    fn quota_left(&self) -> Option<Span> {
        let quota = Span::from_secs(self.rule.time_quota?.into());
        Some(quota.saturating_sub(self.quota_used + self.used))
    }

    fn begin_period(&mut self, now: Time) {
        let period = self.rule.period.filter(|period| *period > 0);
        let period = period.filter(|_| self.rule.triggers.contains(ReportingTriggers::PERIO));
        self.period_ends = period.map(|seconds| now + Span::from_secs(seconds.into()));
    }
}

impl Bytes {
    fn plus(self, other: Self) -> Self {
        Self { uplink: self.uplink.wrapping_add(other.uplink), downlink: self.downlink.wrapping_add(other.downlink) }
    }

    /// May be less than nothing, for [`Bytes::plus`] to make up for.
    fn minus(self, other: Self) -> Self {
        Self { uplink: self.uplink.wrapping_sub(other.uplink), downlink: self.downlink.wrapping_sub(other.downlink) }
    }

    fn reaches(self, limit: Volumes) -> bool {
        let over = |limit: Option<u64>, bytes: u64| limit.is_some_and(|limit| bytes >= limit);
        over(limit.total, self.uplink.saturating_add(self.downlink))
            || over(limit.uplink, self.uplink)
            || over(limit.downlink, self.downlink)
    }
}

fn whole_seconds(span: Span) -> u32 {
    u32::try_from(span.as_nanos() / 1_000_000_000).unwrap_or(u32::MAX)
}
