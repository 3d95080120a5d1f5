//! What must hold for a control plane, whatever the user plane sends and whenever.

use engine::{Random, Span, Time};
use userplane::control::{Change, Config, ControlPlane, Event, Output, SessionSpec};
use wire::pfcp::Message;
use wire::pfcp::message::is_request;
use wire::pfcp::value::{Addresses, FTeid, NtpTime};

/// Runs of an octet that says what happens, an octet of length, and so many octets of a datagram. At the end everything falls
/// silent, and the control plane has to come to its end too.
pub(crate) fn control(data: &[u8]) {
    let mut control = ControlPlane::new(Config::new([10, 0, 0, 1].into(), NtpTime(1)), Random::stream(1, "fuzz"));
    let mut now = Time::ZERO;
    let mut asked = Vec::new();
    control.associate(now);
    let uplink = FTeid::Choose { v4: true, v6: false, id: None };
    let ue = Addresses::V4([10, 45, 0, 1].into());
    let spec = SessionSpec { ue, uplink, downlink: None, profile: std::sync::Arc::default() };
    let session = control.establish(now, spec.clone());
    drain(&mut control, &mut asked);
    let mut rest = data;
    while let [what, length, after @ ..] = rest {
        let (datagram, after) = after.split_at(usize::from(*length).min(after.len()));
        rest = after;
        let mut datagram = datagram.to_vec();
        // With the sequence number of a request that was sent, in most cases: else nothing fits.
        if what & 0x80 == 0 && !asked.is_empty() {
            let sequence: u32 = asked[usize::from(what >> 4) % asked.len()];
            let at = if datagram.first().is_some_and(|flags| flags & 1 != 0) { 12 } else { 4 };
            if let Some(field) = datagram.get_mut(at..at + 3) {
                field.copy_from_slice(&sequence.to_be_bytes()[1..]);
            }
        }
        match what & 0x0f {
            0..8 => control.handle(now, &datagram),
            8 => control.modify(now, session, Change::Buffer),
            9 => control.delete(now, session),
            10 => _ = control.establish(now, spec.clone()),
            11 => control.associate(now),
            12 => control.update(now),
            _ => {
                now = control.deadline().unwrap_or(now).max(now);
                control.tick(now);
            }
        }
        drain(&mut control, &mut asked);
    }
    control.release(now);
    let mut released = drain(&mut control, &mut asked);
    let end = now + Span::from_secs(3_600);
    while let Some(deadline) = control.deadline().filter(|_| !released) {
        now = deadline.max(now);
        assert!(now < end, "it does not come to its end");
        control.tick(now);
        released = drain(&mut control, &mut asked);
    }
    assert!(released && control.sessions() == 0);
}

/// Takes what comes out; whether it said that it is over.
fn drain(control: &mut ControlPlane, asked: &mut Vec<u32>) -> bool {
    let mut released = false;
    while let Some(output) = control.poll() {
        match output {
            Output::Send(datagram) => {
                let message = Message::parse(&datagram).expect("what it sends can be read");
                if is_request(message.body.message_type()) {
                    asked.push(message.sequence);
                }
            }
            Output::Event(event) => {
                assert!(!event.to_string().is_empty());
                released |= matches!(event, Event::Released { .. });
            }
        }
    }
    released
}
