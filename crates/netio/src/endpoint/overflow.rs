//! Datagrams that reached a receiving end and found no room in its socket.
//!
//! `SO_RCVBUF` is cut to `net.core.rmem_max` without a word, so that an endpoint that is held up may
//! lose datagrams behind the link. The kernel counts them by namespace for UDP. What it counts by
//! socket (`SO_MEMINFO`) has wrong checksums in it, which a link that corrupts makes on purpose; an
//! ICMP socket checks none, so there that count is the one.

use std::fs;
use std::io;
use std::os::fd::AsRawFd;

use socket2::Socket;

use crate::site::Namespace;
use crate::sys::check;

/// The counts of the namespaces that datagrams are sent to, since it was made.
#[derive(Debug)]
pub(super) struct Overflow(Vec<(Namespace, Option<u64>)>);

impl Overflow {
    /// Begins to watch; a namespace that is given twice counts once.
    pub(super) fn watch(namespaces: impl Iterator<Item = Namespace>) -> Self {
        let mut watched: Vec<(Namespace, Option<u64>)> = Vec::new();
        for namespace in namespaces {
            if watched.iter().all(|(other, _)| *other != namespace) {
                let before = count(&namespace);
                watched.push((namespace, before));
            }
        }
        Self(watched)
    }

    /// Datagrams that found no room since then; `None` if the kernel does not say.
    pub(super) fn datagrams(&self) -> Option<u64> {
        self.0.iter().map(|(namespace, before)| Some(count(namespace)?.saturating_sub((*before)?))).sum()
    }
}

/// Messages that found no room in an ICMP socket.
pub(super) fn refused(socket: &Socket) -> io::Result<u64> {
    let mut counts = [0_u32; libc::SK_MEMINFO_DROPS as usize + 1];
    let mut length = size_of_val(&counts) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `counts`; both outlive the call.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            counts.as_mut_ptr().cast(),
            &raw mut length,
        )
    })?;
    Ok(u64::from(counts[libc::SK_MEMINFO_DROPS as usize]))
}

fn count(namespace: &Namespace) -> Option<u64> {
    let tables =
        namespace.run(|| ["snmp", "snmp6"].map(|name| fs::read_to_string(format!("/proc/thread-self/net/{name}"))));
    let [v4, v6] = tables.ok()?;
    // A kernel without IPv6 has no table of it.
    Some(parse(&v4.ok()?)? + v6.map_or(Some(0), |table| parse_v6(&table))?)
}

/// `RcvbufErrors` and `MemErrors` of UDP; a line of names stands before the line of counts.
fn parse(table: &str) -> Option<u64> {
    let mut lines = table.lines().filter_map(|line| line.strip_prefix("Udp:"));
    let (names, counts) = (lines.next()?, lines.next()?);
    let counts: Vec<u64> = counts.split_ascii_whitespace().map_while(|count| count.parse().ok()).collect();
    let at = |wanted: &str| counts.get(names.split_ascii_whitespace().position(|name| name == wanted)?).copied();
    Some(at("RcvbufErrors")? + at("MemErrors").unwrap_or(0))
}

/// The same over IPv6, where each line is a name and its count.
fn parse_v6(table: &str) -> Option<u64> {
    let at = |wanted: &str| {
        let mut lines = table.lines().map(str::split_ascii_whitespace);
        lines.find_map(|mut line| (line.next()? == wanted).then(|| line.next()?.parse::<u64>().ok())?)
    };
    Some(at("Udp6RcvbufErrors")? + at("Udp6MemErrors").unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn names_lead_to_their_counts() {
        let table = "Icmp: InMsgs\nIcmp: 3\nUdp: InDatagrams RcvbufErrors InCsumErrors MemErrors\nUdp: 9 4 7 1\n";
        assert_eq!(parse(table), Some(5));
        assert_eq!(parse("Udp: InDatagrams\nUdp: 9\n"), None);
        let table = "Ip6InReceives\t3\nUdp6RcvbufErrors      \t2\nUdp6InCsumErrors 7\nUdp6MemErrors 1\n";
        assert_eq!(parse_v6(table), Some(3));
        assert_eq!(parse_v6("Ip6InReceives 3\n"), None);
        let table = "Ip6InReceives\t3\nUdp6RcvbufErrors      \t2\nUdp6InCsumErrors 7\nUdp6MemErrors 1\n";
        assert_eq!(parse_v6(table), Some(3));
        assert_eq!(parse_v6("Ip6InReceives 3\n"), None);
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let namespace = match Namespace::new() {
            Ok(namespace) => namespace,
            Err(error) => return eprintln!("skipped: {error}"),
        };
        namespace.configure(|net| net.up("lo")).unwrap();
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let watch = Overflow::watch([namespace.clone(), namespace.clone()].into_iter());
            assert_eq!(watch.datagrams(), Some(0));
            let socket = namespace.run(|| UdpSocket::bind(address).unwrap()).unwrap();
            socket2::SockRef::from(&socket).set_recv_buffer_size(1).unwrap();
            let address = socket.local_addr().unwrap();
            for _ in 0..100 {
                socket.send_to(&[0; 1_000], address).unwrap();
            }
            let lost = watch.datagrams().unwrap();
            assert!(lost > 0 && lost < 100, "{lost} at {address}");
        }
    }
}
