//! iperf3 as the engine of a TCP flow.
//!
//! Its control connection crosses the link under test, so that on a link that loses much it may
//! never begin, or may not get its result across; it is given its time and then ended, and what the
//! server saw until then is not known.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use engine::{Span, Time};
use measure::{Observation, Snapshot};
use netio::endpoint::End;
use serde_json::Value;

use crate::plan::{Cell, Flow, Tcp, TcpEngine, Traffic};
use crate::run::cell::CONNECT_LIMIT;

/// Why iperf3 cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Iperf3Error {
    /// It is not installed.
    #[error(
        "`engine: iperf3` needs iperf3, which is not installed; install it (Debian: `apt-get install iperf3`) or use `engine: own`"
    )]
    Missing,
    /// It does not start.
    #[error("cannot start iperf3: {0}")]
    Start(std::io::Error),
    /// Its namespace.
    #[error(transparent)]
    Namespace(#[from] netio::SetupError),
}

/// Its ports are the flow's number above this one, which is not the own endpoints'.
const FIRST_PORT: u16 = 15_201;
/// How long a server may take to listen.
const LISTEN: Duration = Duration::from_secs(2);

/// A client and its server. They end with it.
pub(super) struct Iperf3 {
    client: Talker,
    server: Talker,
    until: Instant,
}

/// A process and who listens to it: what it says may be more than a pipe holds (64 KiB, some 100
/// intervals), and it would wait for a reader before it ends.
struct Talker {
    child: Child,
    said: Option<JoinHandle<String>>,
}

/// Whether a flow is iperf3's.
pub(super) fn is_for(flow: &Flow) -> bool {
    matches!(flow.traffic, Traffic::Tcp(Tcp { engine: TcpEngine::Iperf3, .. }))
}

/// Whether iperf3 is there, if one of the cells wants it.
pub(super) fn require(cells: &[Cell]) -> Result<(), Iperf3Error> {
    if !cells.iter().flat_map(|cell| &cell.flows).any(is_for) {
        return Ok(());
    }
    let version = Command::new("iperf3").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    version.map(drop).map_err(|_| Iperf3Error::Missing)
}

/// Starts a flow's server and client.
pub(super) fn start(cell: &Cell, flow: &Flow, applications: &[End], number: u16) -> Result<Iperf3, Iperf3Error> {
    let Traffic::Tcp(tcp) = &flow.traffic else { return Err(Iperf3Error::Missing) };
    let (from, to) = (&applications[flow.from], &applications[flow.to]);
    let port = (FIRST_PORT + number).to_string();
    let seconds = |span: Span| format!("{}", span.as_secs_f64());
    let mut server = Command::new("iperf3");
    server.args(["--server", "--one-off", "--json", "--port", &port, "--interval", &seconds(cell.interval)]);
    server.args(["--bind", &to.address.to_string()]);
    let server = spawn(to, server)?;
    wait_until_listening(to, FIRST_PORT + number);

    let mut client = Command::new("iperf3");
    client.args(["--client", &to.address.to_string(), "--bind", &from.address.to_string()]);
    client.args(["--port", &port, "--json", "--congestion", &tcp.congestion]);
    client.args(["--length", &tcp.write.bytes().to_string(), "--interval", &seconds(cell.interval)]);
    client.args(["--time", &seconds(cell.duration), "--omit", &seconds(cell.warmup)]);
    client.args(["--dscp", &flow.dscp.to_string()]);
    let rate = tcp.rate.map_or(0, engine::Rate::bits_per_second);
    client.args(["--bitrate", &rate.to_string()]);
    client.args(["--connect-timeout", &(CONNECT_LIMIT.as_nanos() / 1_000_000).to_string()]);
    let client = spawn(from, client)?;
    // The control connection, the data connection and the exchange of results each take their time.
    let limit = cell.warmup + cell.duration + CONNECT_LIMIT.times(2);
    Ok(Iperf3 { client, server, until: Instant::now() + Duration::from(limit) })
}

impl Iperf3 {
    /// Waits for the end, or ends it when its time is over: what was seen, and the CPU time used.
    pub(super) fn wait(mut self) -> (Observation, Span) {
        while !self.client.has_ended() && Instant::now() < self.until && !netio::sandbox::interrupted() {
            thread::sleep(Duration::from_millis(50));
        }
        let in_time = self.client.has_ended();
        if in_time {
            // The server ends by itself after its one test.
            let until = Instant::now() + LISTEN;
            while !self.server.has_ended() && Instant::now() < until {
                thread::sleep(Duration::from_millis(20));
            }
        }
        let (client, server) = (self.client.finish(), self.server.finish());
        let mut observation = observe(&client, &server);
        if !in_time {
            observation.error = Some("iperf3 gave no result in its time".into());
        }
        (observation, cpu_time(&client))
    }
}

impl Drop for Iperf3 {
    fn drop(&mut self) {
        for Talker { child, .. } in [&mut self.client, &mut self.server] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn spawn(end: &End, mut command: Command) -> Result<Talker, Iperf3Error> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    end.namespace.run(|| command.spawn())?.map(Talker::new).map_err(Iperf3Error::Start)
}

impl Talker {
    /// Listens to a process whose standard output is a pipe.
    fn new(mut child: Child) -> Self {
        let said = child.stdout.take().map(|mut out| {
            thread::spawn(move || {
                let mut text = String::new();
                // What was said before an error is no whole report, and is read as none.
                let _ = out.read_to_string(&mut text);
                text
            })
        });
        Self { child, said }
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Ends the process: what it said, if that was a report.
    fn finish(&mut self) -> Value {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let text = self.said.take().and_then(|said| said.join().ok()).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or(Value::Null)
    }
}

/// The server is known to listen when the kernel says so.
fn wait_until_listening(end: &End, port: u16) {
    // proc(5): local address and port in hexadecimal, remote, state; 0A is LISTEN.
    let listening = |table: &str| {
        let port = format!(":{port:04X}");
        table.lines().any(|line| {
            let mut fields = line.split_ascii_whitespace().skip(1);
            fields.next().is_some_and(|local| local.ends_with(&port)) && fields.nth(1) == Some("0A")
        })
    };
    let _ = end.namespace.run(|| {
        let until = Instant::now() + LISTEN;
        while Instant::now() < until {
            let tables = ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"];
            if tables.iter().any(|path| std::fs::read_to_string(path).is_ok_and(|table| listening(&table))) {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
    });
}

/// The receiver's bytes by the server's report, the sender's side by the client's.
fn observe(client: &Value, server: &Value) -> Observation {
    let mut observation = Observation::new();
    let error = client.get("error").and_then(Value::as_str);
    observation.error = error.map(|error| format!("iperf3: {error}"));
    let sent: Vec<&Value> = intervals(client).collect();
    let mut last = Snapshot { retransmits: Some(0), ..Snapshot::default() };
    for (number, received) in intervals(server).enumerate() {
        if number == 0 {
            observation.snapshots.push(last);
        }
        let number_of = |value: Option<&Value>, field: &str| value.and_then(|value| value[field].as_f64());
        let sum = Some(&received["sum"]);
        let client = sent.get(number);
        let stream = client.map(|interval| &interval["streams"][0]);
        // Not its `seconds`: of the interval in which what is omitted ends they are wrong (3.12).
        let end = number_of(sum, "end").unwrap_or(0.0);
        let rtt = number_of(stream, "rtt").map(|micros| Span::from_micros(micros as u64));
        last.at = Time::ZERO + Span::from_nanos((end * 1e9) as u64);
        last.received_bytes += number_of(sum, "bytes").unwrap_or(0.0) as u64;
        last.sent_bytes += number_of(client.map(|interval| &interval["sum"]), "bytes").unwrap_or(0.0) as u64;
        let again = number_of(stream, "retransmits").unwrap_or(0.0) as u64;
        last.retransmits = last.retransmits.map(|before| before + again);
        last.cwnd_bytes = number_of(stream, "snd_cwnd").map(|bytes| bytes as u64);
        last.rtt = rtt;
        if let Some(rtt) = rtt {
            observation.rtts.saturating_record(rtt.as_nanos());
        }
        observation.snapshots.push(last);
    }
    // Its clock starts with the test; when the connection was made it does not say.
    observation.connect = (!observation.snapshots.is_empty()).then_some(Span::ZERO);
    debug_assert!(observation.snapshots.first().is_none_or(|first| first.at == Time::ZERO));
    observation
}

/// The client's report has the server's share too. Both are in percent of the test's time.
fn cpu_time(client: &Value) -> Span {
    let end = &client["end"];
    let percent = |who: &str| end["cpu_utilization_percent"][who].as_f64().unwrap_or(0.0);
    let seconds = end["sum_sent"]["seconds"].as_f64().unwrap_or(0.0);
    Span::from_nanos(((percent("host_total") + percent("remote_total")) / 100.0 * seconds * 1e9) as u64)
}

fn intervals(report: &Value) -> impl Iterator<Item = &Value> {
    let all = report["intervals"].as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().filter(|interval| interval["sum"]["omitted"] != Value::Bool(true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_receivers_bytes_are_the_servers_and_what_is_omitted_does_not_count() {
        // As iperf3 3.12 reports when an interval of 1 s is cut by the end of what is omitted.
        let interval = |end: f64, bytes: u64, omitted: bool| {
            json!({"sum": {"seconds": 1.7, "end": end, "bytes": bytes, "omitted": omitted},
                   "streams": [{"retransmits": 2, "rtt": 1500, "snd_cwnd": 14480}]})
        };
        let client =
            json!({"intervals": [interval(1.0, 7, true), interval(1.0, 1000, false), interval(2.0, 500, false)]});
        let server =
            json!({"intervals": [interval(1.0, 7, true), interval(1.0, 900, false), interval(2.0, 600, false)]});
        let seen = observe(&client, &server);
        let last = seen.snapshots.last().unwrap();
        assert_eq!((last.received_bytes, last.sent_bytes, last.retransmits), (1500, 1500, Some(4)));
        assert_eq!((last.at, seen.snapshots.len()), (Time::ZERO + Span::from_secs(2), 3));
        assert!(seen.error.is_none());
    }

    #[test]
    fn a_report_longer_than_a_pipe_holds_is_read() {
        // 1 MB, some fifteen pipes full; it ends by itself only if somebody reads.
        let mut command = Command::new("sh");
        command.args(["-c", "printf '\"'; head -c 1000000 /dev/zero | tr '\\0' x; printf '\"'"]);
        let mut talker = Talker::new(command.stdout(Stdio::piped()).spawn().unwrap());
        assert!(talker.child.wait().unwrap().success());
        assert_eq!(talker.finish().as_str().map(str::len), Some(1_000_000));
    }

    #[test]
    fn what_iperf3_says_is_wrong_is_kept() {
        let seen = observe(&json!({"error": "unable to connect to server"}), &Value::Null);
        assert_eq!(seen.error.as_deref(), Some("iperf3: unable to connect to server"));
        assert!(seen.snapshots.is_empty());
    }
}
