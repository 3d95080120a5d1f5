//! Requests about sessions (TS 29.244 6.3), and reports about them.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use engine::Time;
use wire::gtpu::ErrorIndication;
use wire::pfcp::message::{
    SessionDeletionResponse, SessionEstablishmentRequest, SessionEstablishmentResponse, SessionModificationRequest,
    SessionModificationResponse, SessionReportRequest,
};
use wire::pfcp::rules::{
    CreateUrr, CreatedPdr, DownlinkDataReport, ErrorIndicationReport, ForwardingParameters, UpdateBar, UpdateFar,
    UpdatePdr, UpdateQer, UsageReport,
};
use wire::pfcp::value::{Addresses, FSeid, FTeid, FailedRule, ModificationFlags, PdrId, ReportType, UsageTrigger};
use wire::pfcp::{Cause, elements};

use super::control::{About, peer_of};
use super::rule::{Action, Rule};
use super::session::{Given, Refused, Session, State};
use super::usage::Usage;
use super::{Reason, Upf};

impl Upf {
    /// TS 29.244 6.3.2.
    pub(super) fn establish(
        &mut self,
        now: Time,
        request: SessionEstablishmentRequest,
    ) -> Result<SessionEstablishmentResponse, Refused> {
        let association = self.associated(&request.node_id)?;
        if request.create_pdr.is_empty() {
            return Err(Refused::new(Cause::MandatoryMissing, elements::CREATE_PDR));
        }
        let unreachable = Refused::new(Cause::MandatoryIncorrect, elements::F_SEID);
        let peer = (request.cp_fseid.seid, peer_of(request.cp_fseid.addresses, &self.config.n4).ok_or(unreachable)?);
        let own = self.config.n4.both().ok_or(unreachable)?;
        // TS 29.244 6.3.2.3: one with the same F-SEID is deleted first.
        let old = self.sessions.by_peer(peer.1, peer.0);
        if old.is_none() && self.sessions.len() >= self.config.limits.sessions {
            return Err(Refused { cause: Cause::NoResources, offending: None, rule: None });
        }
        let mut given = Given { bar: request.create_bar, ..Given::default() };
        let mut created = Vec::new();
        given.add(request.create_far, |given| &mut given.fars, |far| far.id, FailedRule::Far)?;
        given.add(request.create_qer, |given| &mut given.qers, |qer| qer.id, FailedRule::Qer)?;
        given.add_urrs(&request.create_urr)?;
        given.add(request.create_pdr, |given| &mut given.pdrs, |pdr| pdr.id, FailedRule::Pdr)?;
        self.choose(&mut given, &mut created)?;
        let rules = given.compile(&self.config)?;
        self.check_keys(&given, old)?;
        if let Some(old) = old {
            self.end_session(old);
        }
        let usages = request.create_urr.into_iter().map(|urr| Usage::new(urr, now)).collect();
        let slot = self.sessions.add(|seid| {
            let state = State {
                seid,
                peer,
                association,
                given,
                held: VecDeque::new(),
                told: false,
                due: false,
                deadline: None,
            };
            let (gates, state) = (Box::default(), Box::new(state));
            let mut session = Session { rules: Box::default(), gates, usages, tunnel_rules: 0, state };
            session.set_rules(rules);
            session
        });
        self.sessions.reveal(slot);
        self.sessions.schedule(slot);
        let burst = self.config.burst;
        let session = self.sessions.get(slot).ok_or(unreachable)?;
        session.set_gates(&[], burst);
        Ok(SessionEstablishmentResponse {
            node_id: Some(self.config.node.clone()),
            cause: Cause::Accepted,
            offending: None,
            up_fseid: Some(FSeid { seid: session.state.seid, addresses: own }),
            created_pdr: created,
            failed_rule: None,
        })
    }

    /// TS 29.244 6.3.3: all of it is done, or nothing.
    pub(super) fn modify(
        &mut self,
        now: Time,
        seid: Option<u64>,
        request: &SessionModificationRequest,
    ) -> Result<SessionModificationResponse, Refused> {
        let slot = self.session_slot(seid)?;
        let session = self.sessions.get(slot).ok_or(NOT_FOUND)?;
        let mut given = session.state.given.clone();
        let peer = match request.cp_fseid {
            Some(fseid) => {
                let unreachable = Refused::new(Cause::MandatoryIncorrect, elements::F_SEID);
                Some((fseid.seid, peer_of(fseid.addresses, &self.config.n4).ok_or(unreachable)?))
            }
            None => None,
        };
        given.change(request)?;
        let ends = end_markers(session, &request.update_far);
        let mut created = Vec::new();
        self.choose(&mut given, &mut created)?;
        let rules = given.compile(&self.config)?;
        self.check_keys(&given, Some(slot))?;
        // From here on nothing is refused.
        self.sessions.conceal(slot);
        if let Some(peer) = peer {
            self.sessions.set_peer(slot, peer);
        }
        let (burst, started) = (self.config.burst, self.config.started);
        let session = self.sessions.get(slot).ok_or(NOT_FOUND)?;
        let before = core::mem::replace(&mut session.state.given, given);
        session.set_rules(rules);
        session.set_gates(&before.qers, burst);
        let mut usage = session.change_usages(now, request, started);
        let all = request.flags.is_some_and(|flags| flags.contains(ModificationFlags::QAURR));
        for measured in session.usages.iter_mut() {
            if all || request.query_urr.iter().any(|query| query.id == measured.id()) {
                usage.push(measured.report(now, UsageTrigger::IMMER, started));
            }
        }
        self.sessions.reveal(slot);
        self.sessions.schedule(slot);
        for (side, peer, header) in ends {
            self.end_marker(now, side, peer, header);
        }
        if request.flags.is_some_and(|flags| flags.contains(ModificationFlags::DROBU)) {
            self.discard_held(now, slot);
        }
        self.release(now, slot);
        Ok(SessionModificationResponse {
            cause: Cause::Accepted,
            offending: None,
            created_pdr: created,
            usage,
            failed_rule: None,
        })
    }

    /// TS 29.244 6.3.4: with all that was measured and not yet reported.
    pub(super) fn delete(&mut self, now: Time, seid: Option<u64>) -> Result<SessionDeletionResponse, Refused> {
        let slot = self.session_slot(seid)?;
        let started = self.config.started;
        let session = self.sessions.get(slot).ok_or(NOT_FOUND)?;
        let last = session.usages.iter_mut().map(|usage| usage.report(now, UsageTrigger::TERMR, started));
        let usage = last.collect();
        self.end_session(slot);
        Ok(SessionDeletionResponse { cause: Cause::Accepted, offending: None, usage })
    }

    fn session_slot(&self, seid: Option<u64>) -> Result<u32, Refused> {
        seid.and_then(|seid| self.sessions.by_seid(seid)).ok_or(NOT_FOUND)
    }

    /// Chooses the TEIDs that were left to us, and lists them for the answer (TS 29.244 5.5.3).
    fn choose(&mut self, given: &mut Given, created: &mut Vec<CreatedPdr>) -> Result<(), Refused> {
        let mut chosen: Vec<(u8, FTeid)> = Vec::new();
        for pdr in &mut given.pdrs {
            let Some(FTeid::Choose { v4, v6, id }) = pdr.pdi.teid else { continue };
            let interface =
                if pdr.pdi.source == wire::pfcp::value::Interface::Access { &self.config.n3 } else { &self.config.n6 };
            let refused = Refused {
                rule: Some(FailedRule::Pdr(pdr.id)),
                ..Refused::new(Cause::InvalidTeidAllocation, elements::F_TEID)
            };
            let own = interface.both().ok_or(refused)?;
            let addresses = Addresses::from_parts(own.v4().filter(|_| v4), own.v6().filter(|_| v6)).ok_or(refused)?;
            let same = id.and_then(|id| chosen.iter().find(|(other, _)| *other == id));
            let teid = match same {
                Some((_, teid)) => *teid,
                None => FTeid::Fixed { teid: self.sessions.choose_teid(), addresses },
            };
            if let (None, Some(id)) = (same, id) {
                chosen.push((id, teid));
            }
            pdr.pdi.teid = Some(teid);
            created.push(CreatedPdr { id: pdr.id, teid: Some(teid), ue_ip: Vec::new() });
        }
        Ok(())
    }

    /// Packets have to find one session: no other one has the same TEID or UE address, and tunnels end at us.
    fn check_keys(&self, given: &Given, own: Option<u32>) -> Result<(), Refused> {
        for (key, pdr) in given.keys()? {
            let failed =
                |element| Refused { rule: Some(FailedRule::Pdr(pdr.id)), ..Refused::new(Cause::RuleFailure, element) };
            let element = if pdr.pdi.teid.is_some() { elements::F_TEID } else { elements::UE_IP_ADDRESS };
            if self.sessions.owner(key).is_some_and(|owner| Some(owner) != own) {
                return Err(failed(element));
            }
            if let Some(FTeid::Fixed { addresses, .. }) = pdr.pdi.teid {
                let ours = |address| self.config.n3.owns(address) || self.config.n6.owns(address);
                let v4 = addresses.v4().is_none_or(|address| ours(address.into()));
                if !(v4 && addresses.v6().is_none_or(|address| ours(address.into()))) {
                    return Err(failed(element));
                }
            }
        }
        Ok(())
    }

    /// Drops what is buffered for a session.
    pub(super) fn discard_held(&mut self, _now: Time, slot: u32) {
        let Some(session) = self.sessions.get(slot) else { return };
        let held = core::mem::take(&mut session.state.held);
        session.state.told = false;
        self.sessions.held -= held.len();
        for (_, buffer) in held {
            self.discard(Reason::Discarded, buffer);
        }
    }

    /// Tells the control plane that a packet is buffered (TS 29.244 5.2.3.1).
    pub(super) fn report_downlink_data(&mut self, now: Time, slot: u32, pdr: u16) {
        let downlink_data = Some(DownlinkDataReport { pdr: alloc::vec![PdrId(pdr)] });
        self.report(now, slot, |report| (report.report_type, report.downlink_data) = (ReportType::DLDR, downlink_data));
    }

    /// Tells the control plane that a gNB does not know its tunnel (TS 29.244 5.3.2).
    pub(super) fn report_error_indication(&mut self, now: Time, about: ErrorIndication) {
        let Some(slot) = self.sessions.by_remote(about.peer, about.teid) else { return };
        let remote = alloc::vec![FTeid::Fixed { teid: about.teid, addresses: about.peer.into() }];
        let error = Some(ErrorIndicationReport { remote });
        self.report(now, slot, |report| (report.report_type, report.error_indication) = (ReportType::ERIR, error));
    }

    /// Reports usage by time.
    pub(super) fn tick_usage(&mut self, now: Time) {
        while let Some(slot) = self.sessions.take_expired(now) {
            let Some(session) = self.sessions.get(slot) else { continue };
            let mut due = false;
            for usage in session.usages.iter_mut() {
                usage.tick(now);
                due |= usage.is_due();
            }
            if due {
                self.sessions.mark_due(slot);
            }
            self.sessions.schedule(slot);
        }
    }

    /// Sends the usage reports that are due, as long as there is room for their answers.
    pub(super) fn report_due(&mut self) {
        let (now, started) = (self.now, self.config.started);
        while self.may_report()
            && let Some(slot) = self.sessions.due.pop()
        {
            let Some(session) = self.sessions.get(slot) else { continue };
            session.state.due = false;
            let due = session.usages.iter_mut().filter(|usage| usage.is_due());
            let usage: Vec<UsageReport> =
                due.map(|usage| usage.report(now, UsageTrigger::default(), started)).collect();
            self.sessions.schedule(slot);
            self.report(now, slot, |report| (report.report_type, report.usage) = (ReportType::USAR, usage));
        }
    }

    /// Sends a session report.
    fn report(&mut self, now: Time, slot: u32, fill: impl FnOnce(&mut SessionReportRequest)) {
        let Some(session) = self.sessions.get(slot) else { return };
        let ((peer_seid, to), seid) = (session.state.peer, session.state.seid);
        if !self.may_report() {
            self.counters.reports_unanswered += 1;
            return;
        }
        let mut report = SessionReportRequest {
            report_type: ReportType::default(),
            downlink_data: None,
            usage: Vec::new(),
            error_indication: None,
        };
        fill(&mut report);
        self.counters.reports += 1;
        self.ask(now, to, Some(peer_seid), report.into(), About::Session(seid));
    }
}

/// TS 29.244 7.6.8.
const NOT_FOUND: Refused = Refused { cause: Cause::SessionNotFound, offending: None, rule: None };

impl Given {
    /// Takes new rules in.
    fn add<T, Id: PartialEq>(
        &mut self,
        new: Vec<T>,
        list: impl Fn(&mut Self) -> &mut Vec<T>,
        id: impl Fn(&T) -> Id,
        failed: impl Fn(Id) -> FailedRule,
    ) -> Result<(), Refused> {
        for rule in new {
            let list = list(self);
            if list.iter().any(|other| id(other) == id(&rule)) {
                return Err(no_rule(failed(id(&rule))));
            }
            list.push(rule);
        }
        Ok(())
    }

    fn add_urrs(&mut self, new: &[CreateUrr]) -> Result<(), Refused> {
        self.add(new.iter().map(|urr| urr.id).collect(), |given| &mut given.urrs, |id| *id, FailedRule::Urr)
    }

    /// Changes the rules as a request says.
    fn change(&mut self, request: &SessionModificationRequest) -> Result<(), Refused> {
        for remove in &request.remove_pdr {
            take(&mut self.pdrs, |pdr| pdr.id == remove.id).ok_or(no_rule(FailedRule::Pdr(remove.id)))?;
        }
        for remove in &request.remove_far {
            take(&mut self.fars, |far| far.id == remove.id).ok_or(no_rule(FailedRule::Far(remove.id)))?;
        }
        for remove in &request.remove_urr {
            take(&mut self.urrs, |urr| *urr == remove.id).ok_or(no_rule(FailedRule::Urr(remove.id)))?;
            // TS 29.244 7.5.4.8: no rule refers to it any more.
            self.pdrs.iter_mut().for_each(|pdr| pdr.urr.retain(|urr| *urr != remove.id));
        }
        for remove in &request.remove_qer {
            take(&mut self.qers, |qer| qer.id == remove.id).ok_or(no_rule(FailedRule::Qer(remove.id)))?;
            self.pdrs.iter_mut().for_each(|pdr| pdr.qer.retain(|qer| *qer != remove.id));
        }
        if let Some(remove) = request.remove_bar {
            self.bar.take_if(|bar| bar.id == remove.id).ok_or(no_rule(FailedRule::Bar(remove.id)))?;
        }
        self.add(request.create_far.clone(), |given| &mut given.fars, |far| far.id, FailedRule::Far)?;
        self.add(request.create_qer.clone(), |given| &mut given.qers, |qer| qer.id, FailedRule::Qer)?;
        self.add_urrs(&request.create_urr)?;
        self.add(request.create_pdr.clone(), |given| &mut given.pdrs, |pdr| pdr.id, FailedRule::Pdr)?;
        self.bar = request.create_bar.clone().or(self.bar.take());
        request.update_pdr.iter().try_for_each(|update| self.update_pdr(update))?;
        request.update_far.iter().try_for_each(|update| self.update_far(update))?;
        request.update_qer.iter().try_for_each(|update| self.update_qer(update))?;
        for update in &request.update_urr {
            let known = self.urrs.contains(&update.id);
            known.then_some(()).ok_or(no_rule(FailedRule::Urr(update.id)))?;
        }
        request.update_bar.iter().try_for_each(|update| self.update_bar(update))
    }

    fn update_pdr(&mut self, update: &UpdatePdr) -> Result<(), Refused> {
        let pdr = self.pdrs.iter_mut().find(|pdr| pdr.id == update.id);
        let pdr = pdr.ok_or(no_rule(FailedRule::Pdr(update.id)))?;
        pdr.removal = update.removal.or(pdr.removal);
        pdr.precedence = update.precedence.unwrap_or(pdr.precedence);
        if let Some(pdi) = &update.pdi {
            pdr.pdi = pdi.clone();
        }
        pdr.far = update.far.or(pdr.far);
        if !update.urr.is_empty() {
            pdr.urr.clone_from(&update.urr);
        }
        if !update.qer.is_empty() {
            pdr.qer.clone_from(&update.qer);
        }
        pdr.activate.retain(|name| !update.deactivate.contains(name));
        pdr.activate.extend(update.activate.iter().cloned());
        Ok(())
    }

    fn update_far(&mut self, update: &UpdateFar) -> Result<(), Refused> {
        let far = self.fars.iter_mut().find(|far| far.id == update.id);
        let far = far.ok_or(no_rule(FailedRule::Far(update.id)))?;
        far.action = update.action.unwrap_or(far.action);
        far.bar = update.bar.or(far.bar);
        let Some(new) = &update.forwarding else { return Ok(()) };
        let old = far.forwarding.take();
        let destination = new.destination.or(old.as_ref().map(|old| old.destination));
        let missing = Refused {
            rule: Some(FailedRule::Far(update.id)),
            ..Refused::new(Cause::ConditionalMissing, elements::DESTINATION_INTERFACE)
        };
        let old = old.unwrap_or_default();
        far.forwarding = Some(ForwardingParameters {
            destination: destination.ok_or(missing)?,
            network_instance: new.network_instance.clone().or(old.network_instance),
            creation: new.creation.or(old.creation),
            marking: new.marking.or(old.marking),
            interface_type: new.interface_type.or(old.interface_type),
        });
        Ok(())
    }

    fn update_qer(&mut self, update: &UpdateQer) -> Result<(), Refused> {
        let qer = self.qers.iter_mut().find(|qer| qer.id == update.id);
        let qer = qer.ok_or(no_rule(FailedRule::Qer(update.id)))?;
        qer.gate = update.gate.unwrap_or(qer.gate);
        qer.mbr = update.mbr.or(qer.mbr);
        qer.gbr = update.gbr.or(qer.gbr);
        qer.qfi = update.qfi.or(qer.qfi);
        qer.rqi = update.rqi.or(qer.rqi);
        Ok(())
    }

    fn update_bar(&mut self, update: &UpdateBar) -> Result<(), Refused> {
        let bar = self.bar.as_mut().filter(|bar| bar.id == update.id);
        let bar = bar.ok_or(no_rule(FailedRule::Bar(update.id)))?;
        bar.delay = update.delay.or(bar.delay);
        bar.packets = update.packets.or(bar.packets);
        Ok(())
    }
}

impl Session {
    /// Changes the URRs as a request says; gives the last reports of those that are gone.
    fn change_usages(
        &mut self,
        now: Time,
        request: &SessionModificationRequest,
        started: wire::pfcp::value::NtpTime,
    ) -> Vec<UsageReport> {
        let mut last = Vec::new();
        let mut usages = core::mem::take(&mut self.usages).into_vec();
        for remove in &request.remove_urr {
            if let Some(mut gone) = take(&mut usages, |usage| usage.id() == remove.id) {
                last.push(gone.report(now, UsageTrigger::TERMR, started));
            }
        }
        usages.extend(request.create_urr.iter().map(|urr| Usage::new(urr.clone(), now)));
        for update in &request.update_urr {
            if let Some(usage) = usages.iter_mut().find(|usage| usage.id() == update.id) {
                usage.update(update, now);
            }
        }
        self.usages = usages.into();
        last
    }
}

/// Where end markers go: the old tunnels of FARs whose update asks for it (TS 29.244 5.2.3.2).
fn end_markers(
    session: &Session,
    updates: &[UpdateFar],
) -> Vec<(super::Side, core::net::IpAddr, wire::gtpu::TunnelHeader)> {
    let mut ends = Vec::new();
    for update in updates {
        let forwarding = update.forwarding.as_ref();
        let wanted = forwarding.and_then(|forwarding| forwarding.flags);
        if !wanted.is_some_and(|flags| flags.contains(ModificationFlags::SNDEM)) {
            continue;
        }
        let pdr_has = |rule: &&Rule| {
            session.state.given.pdrs.iter().any(|pdr| pdr.id.0 == rule.pdr && pdr.far == Some(update.id))
        };
        for rule in session.rules.iter().filter(pdr_has) {
            if let Action::Forward { to, tunnel: Some(tunnel) } = &rule.action {
                let end = (*to, tunnel.peer, tunnel.header);
                // One for each tunnel, however many rules lead into it.
                if !ends.contains(&end) {
                    ends.push(end);
                }
            }
        }
    }
    ends
}

fn no_rule(rule: FailedRule) -> Refused {
    Refused { cause: Cause::RuleFailure, offending: None, rule: Some(rule) }
}

/// Takes the first that fits out of a list.
fn take<T>(list: &mut Vec<T>, fits: impl Fn(&T) -> bool) -> Option<T> {
    let at = list.iter().position(fits)?;
    Some(list.remove(at))
}
