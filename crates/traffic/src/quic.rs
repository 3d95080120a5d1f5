//! Video on demand over QUIC (RFC 9000): a player that asks for segments, and the server that sends them.
//!
//! The protocol is quinn-proto's, a state machine without sockets, with keys of its own for each flow:
//! what crosses the link is what any QUIC stack would send there. A player fills a buffer at the start,
//! then asks for a segment whenever one has been played. It opens a stream for each, as HTTP/3
//! does; the server answers with so many bytes. Segments differ in size around their mean, as scenes do.
//!
//! Logs are of segments, not of datagrams: what the server sent is a segment from the moment it was asked for, and it
//! has arrived when its last byte has.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::net::{Ipv4Addr, SocketAddr};
use core::ops::Range;
use core::time::Duration;
use std::time::Instant;

use engine::{Random, Rate, Span, Time};
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{
    AckFrequencyConfig, ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig,
    Event, ServerConfig, StreamEvent, StreamId, Transmit, TransportConfig, VarInt,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::application::{Application, LOG_LIMIT, Received, Sent};
use crate::filler;

/// What the server's certificate is made out to.
const NAME: &str = "video.example";
/// Both ends' addresses as the protocol sees them; sockets are joined outside.
const PLAYER: SocketAddr = SocketAddr::new(core::net::IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 50_443);
const SERVER: SocketAddr = SocketAddr::new(core::net::IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)), 443);
/// No window is to hold a flow back: that is the link's part.
const WINDOW: u32 = 64 << 20;
/// Bytes handed to the protocol at once.
const BLOCK: usize = 4096;

/// What is played.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VideoConfig {
    /// Mean rate of the video.
    pub rate: Rate,
    /// Playing time of a segment.
    pub segment: Span,
    /// Segments that are asked for at once at the start.
    pub ahead: u32,
    /// UDP payload of full datagrams, at least 1200 B (RFC 9000 14.1).
    pub datagram: u16,
    /// Packets that the player acknowledges together (draft-ietf-quic-ack-frequency); servers ask for
    /// more than the two of RFC 9000 13.2.2.
    pub acknowledge: u32,
    /// Seed of the segments' sizes and of connection identifiers.
    pub seed: u64,
}

/// Why the ends of a flow cannot be made.
#[derive(Debug, thiserror::Error)]
#[error("no keys for QUIC can be made: {0}")]
pub struct KeyError(String);

/// The ends of a flow: the server, then the player.
///
/// # Errors
///
/// No keys can be drawn.
pub fn video(config: &VideoConfig) -> Result<[Box<dyn Application>; 2], KeyError> {
    let failed = |error: &dyn ToString| KeyError(error.to_string());
    // Ed25519: its signatures are of one length, so that a handshake always has the same sizes.
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).map_err(|error| failed(&error))?;
    let certificate = rcgen::CertificateParams::new(vec![NAME.to_string()]).and_then(|params| params.self_signed(&key));
    let certificate = CertificateDer::from(certificate.map_err(|error| failed(&error))?);
    let private = PrivateKeyDer::try_from(key.serialize_der()).map_err(|error| failed(&error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls13 = &[&rustls::version::TLS13];

    let mut trusted = rustls::RootCertStore::empty();
    trusted.add(certificate.clone()).map_err(|error| failed(&error))?;
    let player = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider)).with_protocol_versions(tls13);
    let player = player.map_err(|error| failed(&error))?.with_root_certificates(trusted).with_no_client_auth();
    let player = QuicClientConfig::try_from(player).map_err(|error| failed(&error))?;
    let mut player = ClientConfig::new(Arc::new(player));
    player.transport_config(Arc::new(transport(config)));

    let server = rustls::ServerConfig::builder_with_provider(provider).with_protocol_versions(tls13);
    let server = server.map_err(|error| failed(&error))?.with_no_client_auth();
    let server = server.with_single_cert(vec![certificate], private).map_err(|error| failed(&error))?;
    let server = QuicServerConfig::try_from(server).map_err(|error| failed(&error))?;
    let mut server = ServerConfig::with_crypto(Arc::new(server));
    server.transport_config(Arc::new(transport(config)));

    Ok([
        Box::new(End::new(config, Some(server), "server", Role::Server { answering: Vec::new() })),
        Box::new(End::new(config, None, "player", Role::Player { config: player, asked: BTreeMap::new(), number: 0 })),
    ])
}

fn transport(config: &VideoConfig) -> TransportConfig {
    let mut transport = TransportConfig::default();
    let mut acknowledgements = AckFrequencyConfig::default();
    acknowledgements.ack_eliciting_threshold(VarInt::from_u32(config.acknowledge.saturating_sub(1)));
    transport
        .ack_frequency_config(Some(acknowledgements))
        .initial_mtu(config.datagram)
        .mtu_discovery_config(None)
        .enable_segmentation_offload(false)
        .stream_receive_window(VarInt::from_u32(WINDOW))
        .receive_window(VarInt::from_u32(WINDOW))
        .send_window(u64::from(WINDOW))
        .max_concurrent_bidi_streams(VarInt::from_u32(1_000));
    transport
}

/// One end of the flow.
struct End {
    config: VideoConfig,
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    role: Role,
    /// The moment that stands for time zero towards the protocol, which asks for such a type; which one it
    /// is makes no difference.
    origin: Instant,
    sending: Range<Time>,
    /// Until when it was driven, and when the protocol wants to be next.
    driven: Option<Time>,
    timer: Option<Time>,
    /// Datagrams that the endpoint itself answers with, and the connection's.
    waiting: Vec<Vec<u8>>,
    sent: Vec<Sent>,
    received: Vec<Received>,
}

enum Role {
    Player {
        config: ClientConfig,
        /// What has come of the segments that are asked for, by stream: number and bytes.
        asked: BTreeMap<StreamId, (u64, u64)>,
        /// The next segment.
        number: u64,
    },
    Server {
        /// Streams with what is left to write.
        answering: Vec<(StreamId, u64)>,
    },
}

impl core::fmt::Debug for End {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("End").field("config", &self.config).finish_non_exhaustive()
    }
}

impl End {
    fn new(config: &VideoConfig, server: Option<ServerConfig>, name: &str, role: Role) -> Self {
        let mut random = Random::stream(config.seed, name);
        let mut seed = [0; 32];
        seed.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&random.bits().to_le_bytes()));
        let endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), server.map(Arc::new), false, Some(seed));
        Self {
            config: config.clone(),
            endpoint,
            connection: None,
            role,
            origin: Instant::now(),
            sending: Time::MAX..Time::MAX,
            driven: None,
            timer: None,
            waiting: Vec::new(),
            sent: Vec::new(),
            received: Vec::new(),
        }
    }

    fn instant(&self, now: Time) -> Instant {
        self.origin + Duration::from_nanos(now.as_nanos())
    }

    /// When the player asks for its next segment.
    fn next_request(&self) -> Option<Time> {
        let Role::Player { number, .. } = &self.role else { return None };
        let played = number.saturating_sub(u64::from(self.config.ahead.max(1)) - 1);
        Some(self.sending.start + self.config.segment.times(played)).filter(|at| *at < self.sending.end)
    }

    /// Connects, and asks for what is due.
    fn ask(&mut self, now: Time) {
        if now < self.sending.start {
            return;
        }
        let instant = self.instant(now);
        let end = self.sending.end;
        if let (Role::Player { config, .. }, None) = (&self.role, &self.connection) {
            if now >= end {
                return;
            }
            // The server's name and address are in order, so nothing can be wrong with it.
            self.connection = self.endpoint.connect(instant, config.clone(), SERVER, NAME).ok();
        }
        while self.next_request().is_some_and(|at| at <= now) {
            let Role::Player { asked, number, .. } = &mut self.role else { return };
            let Some((_, connection)) = &mut self.connection else { return };
            if connection.is_handshaking() || self.received.len() >= LOG_LIMIT {
                return;
            }
            let Some(stream) = connection.streams().open(Dir::Bi) else { return };
            // Eight octets always fit into a new stream.
            let _ = connection.send_stream(stream).write(&number.to_be_bytes());
            let _ = connection.send_stream(stream).finish();
            asked.insert(stream, (*number, 0));
            *number += 1;
        }
        let Role::Player { asked, .. } = &self.role else { return };
        if now >= end
            && asked.is_empty()
            && let Some((_, connection)) = &mut self.connection
            && !connection.is_closed()
        {
            connection.close(instant, VarInt::from_u32(0), Vec::new().into());
        }
    }

    /// Lets the protocol go on as far as it can.
    fn drive(&mut self, now: Time) {
        let instant = self.instant(now);
        (self.driven, self.timer) = (Some(now), None);
        self.ask(now);
        let Some((handle, connection)) = &mut self.connection else { return };
        if connection.poll_timeout().is_some_and(|at| at <= instant) {
            connection.handle_timeout(instant);
        }
        while let Some(event) = connection.poll() {
            if let (Event::Stream(StreamEvent::Opened { dir: Dir::Bi }), Role::Server { answering }) =
                (event, &mut self.role)
            {
                while let Some(stream) = connection.streams().accept(Dir::Bi) {
                    answering.push((stream, 0));
                }
            }
        }
        match &mut self.role {
            Role::Player { asked, .. } => {
                asked.retain(|stream, (number, bytes)| {
                    let ended = read(connection, *stream, |chunk| *bytes += chunk.len() as u64);
                    if ended {
                        let bytes = u32::try_from(*bytes).unwrap_or(u32::MAX);
                        self.received.push(Received { number: *number, at: now, bytes, intact: true });
                    }
                    !ended
                });
            }
            Role::Server { answering } => {
                for (stream, left) in &mut *answering {
                    let mut request = Vec::new();
                    if read(connection, *stream, |chunk| request.extend_from_slice(chunk))
                        && let Ok(number) = <[u8; 8]>::try_from(&request[..])
                    {
                        let bytes = self.config.size(u64::from_be_bytes(number));
                        *left = bytes;
                        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
                        self.sent.push(Sent { at: now, bytes, first: false });
                    }
                }
                answering.retain_mut(|(stream, left)| !answer(connection, *stream, left));
            }
        }
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
        if connection.is_drained() {
            self.connection = None;
            self.sending = Time::MAX..Time::MAX;
        }
        self.note_timer();
    }

    fn note_timer(&mut self) {
        let at = self.connection.as_mut().and_then(|(_, connection)| connection.poll_timeout());
        self.timer = at.map(|at| {
            let nanos = at.saturating_duration_since(self.origin).as_nanos();
            Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
        });
    }
}

impl VideoConfig {
    /// Bytes of the segment with this number: from half the mean to one and a half times.
    fn size(&self, number: u64) -> u64 {
        let mean = u128::from(self.rate.bits_per_second()) * u128::from(self.segment.as_nanos()) / 8_000_000_000;
        let mean = u64::try_from(mean).unwrap_or(u64::MAX / 2).clamp(2, u64::from(u32::MAX / 2));
        mean / 2 + Random::stream(self.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15), "segment").below(mean)
    }
}

/// Reads what a stream has. True if that was its end.
fn read(connection: &mut Connection, stream: StreamId, mut take: impl FnMut(&[u8])) -> bool {
    let mut incoming = connection.recv_stream(stream);
    let Ok(mut chunks) = incoming.read(true) else { return false };
    let ended = loop {
        match chunks.next(usize::MAX) {
            Ok(Some(chunk)) => take(&chunk.bytes),
            Ok(None) => break true,
            Err(_) => break false,
        }
    };
    // What it would transmit is polled anyhow.
    let _ = chunks.finalize();
    ended
}

/// Writes as much of an answer as there is room for. True if it is whole.
fn answer(connection: &mut Connection, stream: StreamId, left: &mut u64) -> bool {
    let mut block = [0; BLOCK];
    filler::fill(&mut block);
    let mut outgoing = connection.send_stream(stream);
    while *left > 0 {
        let most = usize::try_from(*left).map_or(BLOCK, |left| left.min(BLOCK));
        match outgoing.write(&block[..most]) {
            Ok(written) => *left -= written as u64,
            Err(_) => return false,
        }
        if *left == 0 {
            let _ = outgoing.finish();
            return true;
        }
    }
    false
}

impl Application for End {
    fn begin(&mut self, sending: Range<Time>) {
        self.sending = sending;
    }

    fn receive(&mut self, now: Time, _: usize, payload: &[u8]) {
        let instant = self.instant(now);
        let mut buffer = Vec::new();
        let peer = if matches!(self.role, Role::Server { .. }) { PLAYER } else { SERVER };
        match self.endpoint.handle(instant, peer, None, None, payload.into(), &mut buffer) {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = &mut self.connection {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) if self.connection.is_none() => {
                match self.endpoint.accept(incoming, instant, &mut buffer, None) {
                    Ok(connection) => self.connection = Some(connection),
                    Err(refused) => self.waiting.extend(refused.response.map(|response| taken(&response, &buffer))),
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.endpoint.ignore(incoming),
            Some(DatagramEvent::Response(response)) => self.waiting.push(taken(&response, &buffer)),
            None => {}
        }
        self.drive(now);
    }

    fn send(&mut self, now: Time, payload: &mut Vec<u8>) -> Option<usize> {
        if let Some(datagram) = self.waiting.pop() {
            payload.extend_from_slice(&datagram);
            return Some(0);
        }
        self.drive(now);
        let instant = self.instant(now);
        let (_, connection) = self.connection.as_mut()?;
        let sent = connection.poll_transmit(instant, 1, payload);
        self.note_timer();
        sent.map(|_| 0)
    }

    fn deadline(&self) -> Option<Time> {
        // A request that is overdue waits for the handshake, which has timers of its own.
        let ahead = |at: &Time| self.driven.is_none_or(|driven| *at > driven);
        let end = matches!(self.role, Role::Player { .. }).then_some(self.sending.end).filter(|at| *at != Time::MAX);
        let own = [self.next_request(), end].into_iter().flatten().filter(ahead).min();
        [self.timer, own].into_iter().flatten().min()
    }

    fn sent(&self) -> &[Sent] {
        &self.sent
    }

    fn received(&self) -> &[Received] {
        &self.received
    }
}

fn taken(transmit: &Transmit, buffer: &[u8]) -> Vec<u8> {
    buffer[..transmit.size].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> VideoConfig {
        VideoConfig {
            rate: Rate::from_bits_per_second(4_000_000).unwrap(),
            segment: Span::from_secs(1),
            ahead: 3,
            datagram: 1_208,
            acknowledge: 10,
            seed: 7,
        }
    }

    type Ends = [Box<dyn Application>; 2];

    /// Both ends joined by 10 ms each way; every `lost`-th datagram of the server is lost, if one is.
    /// Gives the UDP payloads as they were sent, with their senders.
    fn play(seconds: u64, lost: Option<u64>) -> (Ends, Vec<(usize, usize)>) {
        let mut ends = video(&config()).unwrap();
        let start = Time::from_nanos(5_000_000);
        ends.iter_mut().for_each(|end| end.begin(start..start + Span::from_secs(seconds)));
        let mut flying: Vec<(Time, usize, Vec<u8>)> = Vec::new();
        let mut seen = Vec::new();
        let (mut now, mut count) = (Time::ZERO, 0_u64);
        for _ in 0..1_000_000 {
            for (side, end) in ends.iter_mut().enumerate() {
                let mut payload = Vec::new();
                while end.send(now, &mut payload).is_some() {
                    seen.push((side, payload.len()));
                    count += u64::from(side == 0);
                    if side == 1 || lost.is_none_or(|every| !count.is_multiple_of(every)) {
                        flying.push((now + Span::from_millis(10), 1 - side, payload.clone()));
                    }
                    payload.clear();
                }
            }
            let next = ends.iter().filter_map(|end| end.deadline()).chain(flying.iter().map(|(at, _, _)| *at)).min();
            let Some(next) = next else { return (ends, seen) };
            assert!(next >= now, "a deadline that has passed: {next:?} at {now:?}");
            now = next;
            flying.retain(|(at, side, payload)| {
                if *at <= now {
                    ends[*side].receive(now, 0, payload);
                }
                *at > now
            });
        }
        panic!("it does not come to its end");
    }

    #[test]
    fn segments_are_asked_for_as_they_are_played_and_come_whole() {
        let (ends, seen) = play(10, None);
        let (sent, received) = (ends[0].sent(), ends[1].received());
        // Three at the start, then one a second.
        assert_eq!((sent.len(), received.len()), (12, 12));
        for segment in received {
            assert_eq!(u64::from(segment.bytes), config().size(segment.number));
        }
        let sizes: Vec<u64> = (0..12).map(|number| config().size(number)).collect();
        assert!(sizes.iter().all(|size| (250_000..750_000).contains(size)), "{sizes:?}");
        let from_server: Vec<usize> = seen.iter().filter(|(side, _)| *side == 0).map(|(_, length)| *length).collect();
        assert_eq!(from_server.iter().max(), Some(&1_208));
        let full = from_server.iter().filter(|length| **length == 1_208).count();
        assert!(full * 100 > seen.len() * 85, "{full} of {}", seen.len());
    }

    #[test]
    fn what_is_lost_comes_again() {
        let (ends, _) = play(5, Some(50));
        assert_eq!(ends[1].received().len(), 7);
    }

    #[test]
    fn the_same_seed_gives_the_same_sizes_and_times() {
        let one = play(3, Some(40));
        let other = play(3, Some(40));
        assert_eq!(one.1, other.1);
        assert_eq!(one.0[1].received(), other.0[1].received());
    }
}
