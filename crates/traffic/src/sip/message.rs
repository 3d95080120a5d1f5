//! SIP messages: text to types and back (RFC 3261 7, 20, 25).

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// The methods there are here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Invites to a call.
    Invite,
    /// Confirms the answer to an INVITE.
    Ack,
    /// Releases a call.
    Bye,
}

const METHODS: [(&str, Method); 3] = [("INVITE", Method::Invite), ("ACK", Method::Ack), ("BYE", Method::Bye)];

impl Method {
    fn name(self) -> &'static str {
        METHODS.iter().find(|(_, method)| *method == self).map_or("", |(name, _)| name)
    }

    fn named(name: &str) -> Option<Self> {
        METHODS.iter().find(|(known, _)| *known == name).map(|(_, method)| *method)
    }
}

/// The first line of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// A request to a URI.
    Request(Method, String),
    /// A response: status 100 to 699, and its reason.
    Response(u16, String),
}

/// A message, with the header fields that matter here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SipMessage {
    /// Request or response.
    pub start: Start,
    /// The topmost Via.
    pub via: String,
    /// Whoever began the dialogue, with the tag.
    pub from: String,
    /// The other, with the tag once there is one.
    pub to: String,
    /// The dialogue's identifier.
    pub call_id: String,
    /// Number and method of the request (CSeq).
    pub sequence: (u32, Method),
    /// Where requests of the dialogue go.
    pub contact: Option<String>,
    /// The body, which is SDP if there is one.
    pub body: Vec<u8>,
}

/// Longest message that is read, in bytes: far over any of a call, and one datagram.
const LONGEST: usize = 8_192;

/// A header's long name and its compact one (RFC 3261 7.3.3).
const COMPACT: [(&str, &str); 7] = [
    ("Via", "v"),
    ("From", "f"),
    ("To", "t"),
    ("Call-ID", "i"),
    ("Contact", "m"),
    ("Content-Type", "c"),
    ("Content-Length", "l"),
];

impl SipMessage {
    /// Reads a datagram. `None` if it is no message, lacks a header that every message has, or has a
    /// method that is not known here.
    #[must_use]
    pub fn read(datagram: &[u8]) -> Option<Self> {
        let datagram = datagram.get(..datagram.len().min(LONGEST)).filter(|all| all.len() == datagram.len())?;
        let end = datagram.windows(4).position(|four| four == b"\r\n\r\n")?;
        let head = core::str::from_utf8(&datagram[..end]).ok()?;
        let mut lines = head.split("\r\n");
        let start = Start::read(lines.next()?)?;
        // RFC 3261 7.3.1: a line that begins with white space continues the one above.
        let mut fields: Vec<(String, String)> = Vec::new();
        for line in lines {
            if line.starts_with([' ', '\t']) {
                let (_, value) = fields.last_mut()?;
                value.push(' ');
                value.push_str(line.trim());
            } else {
                let (name, value) = line.split_once(':')?;
                fields.push((long_name(name.trim()), value.trim().to_string()));
            }
        }
        let field =
            |name: &str| fields.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value);
        let needed = |name: &str| field(name).cloned();
        let body = &datagram[end + 4..];
        // RFC 3261 20.14: over UDP what is beyond the length is not looked at, and without it all is body.
        let length = field("Content-Length").map_or(Some(body.len()), |length| length.parse().ok())?;
        let (number, method) = field("CSeq")?.split_once(' ')?;
        Some(Self {
            start,
            via: needed("Via")?,
            from: needed("From")?,
            to: needed("To")?,
            call_id: needed("Call-ID")?,
            sequence: (number.parse().ok()?, Method::named(method.trim())?),
            contact: needed("Contact"),
            body: body.get(..length)?.to_vec(),
        })
    }

    /// The message as it is sent.
    #[must_use]
    pub fn bytes(&self, compact: bool) -> Vec<u8> {
        let name = |long: &'static str| {
            let short = COMPACT.iter().find(|(known, _)| compact && *known == long);
            short.map_or(long, |(_, short)| short)
        };
        let (number, method) = self.sequence;
        let mut out = match &self.start {
            Start::Request(method, uri) => format!("{} {uri} SIP/2.0\r\n", method.name()),
            Start::Response(status, reason) => format!("SIP/2.0 {status} {reason}\r\n"),
        };
        let mut put = |name: &str, value: &str| {
            for part in [name, ": ", value, "\r\n"] {
                out.push_str(part);
            }
        };
        put(name("Via"), &self.via);
        if matches!(self.start, Start::Request(..)) {
            put("Max-Forwards", "70");
        }
        put(name("From"), &self.from);
        put(name("To"), &self.to);
        put(name("Call-ID"), &self.call_id);
        put("CSeq", &format!("{number} {}", method.name()));
        if let Some(contact) = &self.contact {
            put(name("Contact"), contact);
        }
        if !self.body.is_empty() {
            put(name("Content-Type"), "application/sdp");
        }
        put(name("Content-Length"), &self.body.len().to_string());
        out.push_str("\r\n");
        let mut out = out.into_bytes();
        out.extend(&self.body);
        out
    }

    /// A response to this request. `tag` is put behind To if it has none (RFC 3261 8.2.6.2).
    #[must_use]
    pub fn response(&self, status: u16, reason: &str, tag: Option<&str>) -> Self {
        let to = match tag {
            Some(tag) if parameter(&self.to, "tag").is_none() => format!("{};tag={tag}", self.to),
            _ => self.to.clone(),
        };
        let start = Start::Response(status, reason.to_string());
        Self { start, to, contact: None, body: Vec::new(), ..self.clone() }
    }

    /// The branch of the topmost Via: the transaction's name.
    #[must_use]
    pub fn branch(&self) -> Option<&str> {
        parameter(&self.via, "branch")
    }

    /// The status, if it is a response.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match &self.start {
            Start::Response(status, _) => Some(*status),
            Start::Request(..) => None,
        }
    }

    /// The method, if it is a request.
    #[must_use]
    pub fn request(&self) -> Option<Method> {
        match &self.start {
            Start::Request(method, _) => Some(*method),
            Start::Response(..) => None,
        }
    }
}

impl Start {
    fn read(line: &str) -> Option<Self> {
        let mut words = line.splitn(3, ' ');
        let (first, second, third) = (words.next()?, words.next()?, words.next().unwrap_or(""));
        if first == "SIP/2.0" {
            let status = second.parse().ok().filter(|status| (100..700).contains(status) && second.len() == 3)?;
            return Some(Self::Response(status, third.to_string()));
        }
        (third == "SIP/2.0").then(|| Some(Self::Request(Method::named(first)?, second.to_string())))?
    }
}

/// The long form of a header's name.
fn long_name(name: &str) -> String {
    let long = COMPACT.iter().find(|(_, short)| short.eq_ignore_ascii_case(name));
    long.map_or(name, |(long, _)| long).to_string()
}

/// A parameter behind a header's value: those of an address in angle brackets come after these.
fn parameter<'a>(value: &'a str, wanted: &str) -> Option<&'a str> {
    let after = value.rsplit_once('>').map_or(value, |(_, after)| after);
    after.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case(wanted).then(|| value.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 3261 24.2, F1 of an INVITE, with a compact and a folded header.
    const INVITE: &str = "INVITE sip:bob@biloxi.com SIP/2.0\r\n\
        v: SIP/2.0/UDP pc33.atlanta.com;branch=z9hG4bKnashds8\r\nMax-Forwards: 70\r\n\
        To: Bob <sip:bob@biloxi.com>\r\nfrom: Alice <sip:alice@atlanta.com;tag=no>\r\n ;tag=1928301774\r\n\
        Call-ID: a84b4c76e66710\r\nCSeq: 314159 INVITE\r\nm: <sip:alice@pc33.atlanta.com>\r\n\
        Content-Length: 3\r\n\r\nv=0\r\n";

    #[test]
    fn the_standards_example_is_read() {
        let message = SipMessage::read(INVITE.as_bytes()).unwrap();
        assert_eq!(message.start, Start::Request(Method::Invite, "sip:bob@biloxi.com".into()));
        assert_eq!(message.branch(), Some("z9hG4bKnashds8"));
        assert_eq!(parameter(&message.from, "tag"), Some("1928301774"));
        assert_eq!((message.sequence, message.body.as_slice()), ((314_159, Method::Invite), &b"v=0"[..]));
        let ringing = message.response(180, "Ringing", Some("a6c85cf"));
        assert_eq!((ringing.status(), ringing.to.as_str()), (Some(180), "Bob <sip:bob@biloxi.com>;tag=a6c85cf"));
    }

    #[test]
    fn what_is_written_is_read_and_compact_is_shorter() {
        let message = SipMessage::read(INVITE.as_bytes()).unwrap();
        let [long, compact] = [false, true].map(|compact| message.bytes(compact));
        assert!(compact.len() + 30 < long.len());
        for bytes in [long, compact] {
            assert_eq!(SipMessage::read(&bytes), Some(message.clone()));
            for length in 0..bytes.len() {
                assert_eq!(SipMessage::read(&bytes[..length]), None, "cut to {length}");
            }
        }
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let without = |header: &str| {
            let kept = INVITE.split("\r\n").filter(|line| !line.starts_with(header));
            SipMessage::read(kept.collect::<Vec<_>>().join("\r\n").as_bytes())
        };
        assert!(["v:", "To:", "Call-ID:", "CSeq:"].iter().all(|header| without(header).is_none()));
        assert!(SipMessage::read(INVITE.replace("314159 INVITE", "314159 DANCE").as_bytes()).is_none());
        assert!(SipMessage::read(INVITE.replace("Length: 3", "Length: 9999").as_bytes()).is_none());
        assert!(SipMessage::read(INVITE.replace("SIP/2.0\r\nv", "SIP/3.0\r\nv").as_bytes()).is_none());
        assert!(SipMessage::read(&[0xff; 100]).is_none());
    }
}
