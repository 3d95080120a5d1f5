//! The session description of a call: one audio stream over RTP (RFC 4566, RFC 3264).

use alloc::format;
use alloc::vec::Vec;
use core::net::IpAddr;

/// What one end says of where and what it listens to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sdp {
    /// Where media goes.
    pub address: IpAddr,
    /// Its UDP port.
    pub port: u16,
    /// RTP payload type.
    pub payload_type: u8,
    /// Speech in a packet, in ms.
    pub packet_ms: u32,
}

impl Sdp {
    /// Reads a description with one audio stream over RTP/AVP, of which the first format counts.
    /// `None` if it is anything else. The packet time is 0 if it does not say.
    #[must_use]
    pub fn read(text: &[u8]) -> Option<Self> {
        let text = core::str::from_utf8(text).ok()?;
        // RFC 4566 5: a letter, an equals sign and a value; readers take a line feed alone too.
        let lines = || text.lines().filter_map(|line| line.split_once('='));
        let value = |wanted: &str| lines().find(|(name, _)| *name == wanted).map(|(_, value)| value);
        if value("v")? != "0" {
            return None;
        }
        let mut connection = value("c")?.split(' ');
        let (network, family, address) = (connection.next()?, connection.next()?, connection.next()?);
        let address: IpAddr = address.parse().ok()?;
        if network != "IN" || (family == "IP6") != address.is_ipv6() {
            return None;
        }
        let mut media = value("m")?.split(' ');
        let (kind, port, transport, format) = (media.next()?, media.next()?, media.next()?, media.next()?);
        if kind != "audio" || transport != "RTP/AVP" {
            return None;
        }
        let packet = lines().find_map(|(name, value)| value.strip_prefix("ptime:").filter(|_| name == "a"));
        Some(Self {
            address,
            port: port.parse().ok()?,
            payload_type: format.parse().ok().filter(|format| *format < 128)?,
            packet_ms: packet.map_or(Some(0), |packet| packet.trim().parse().ok())?,
        })
    }

    /// The description as a message's body.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let Self { address, port, payload_type, packet_ms } = self;
        let family = if address.is_ipv6() { "IP6" } else { "IP4" };
        let mut out = format!(
            "v=0\r\no=- 1 1 IN {family} {address}\r\ns=-\r\nc=IN {family} {address}\r\nt=0 0\r\n\
             m=audio {port} RTP/AVP {payload_type}\r\n"
        );
        // RFC 3551 6: dynamic payload types are given a name here.
        if *payload_type >= 96 {
            out.push_str(&format!("a=rtpmap:{payload_type} VOCODER/8000\r\n"));
        }
        out.push_str(&format!("a=ptime:{packet_ms}\r\n"));
        out.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for address in ["10.0.0.1", "fd00::1"] {
            let address = address.parse().unwrap();
            let sdp = Sdp { address, port: 16_384, payload_type: 96, packet_ms: 202 };
            assert_eq!(Sdp::read(&sdp.bytes()), Some(sdp));
        }
    }

    #[test]
    fn what_is_no_audio_over_rtp_is_refused() {
        let text = "v=0\no=- 1 1 IN IP4 10.0.0.1\ns=-\nc=IN IP4 10.0.0.1\nt=0 0\nm=audio 5004 RTP/AVP 8 0\n";
        assert_eq!(Sdp::read(text.as_bytes()).map(|sdp| (sdp.port, sdp.payload_type)), Some((5_004, 8)));
        for (good, bad) in [("audio", "video"), ("RTP/AVP", "RTP/SAVP"), ("c=IN IP4", "c=IN IP6"), ("5004", "70000")] {
            assert_eq!(Sdp::read(text.replace(good, bad).as_bytes()), None, "{bad}");
        }
        assert_eq!(Sdp::read(b"v=0"), None);
    }
}
