//! Filters in tcpdump's language.

use traffic::replay::Filter;
use wire::TcpFlags;

use crate::packets::{datagram, segment};

/// Which of these packets match: 0 and 1 UDP, 2 TCP, 3 UDP over IPv6.
fn matching(filter: &str) -> Vec<usize> {
    let packets = [
        datagram(("10.1.0.1", 1_000), ("10.2.0.1", 53), &[0; 10]),
        datagram(("10.2.0.1", 53), ("10.1.0.1", 1_000), &[0; 500]),
        segment(("10.1.0.1", 2_000), ("192.0.2.9", 443), (1, 1, TcpFlags::ACK), &[], &[]),
        datagram(("2001:db8::1", 5_000), ("2001:db8::2", 53), &[]),
    ];
    let filter = Filter::parse(filter).unwrap();
    let is_match = |n: &usize| filter.matches(&packets[*n], packets[*n].len() as u32 + 14);
    (0..packets.len()).filter(is_match).collect()
}

#[test]
fn what_matches() {
    for (filter, expected) in [
        ("ip", &[0, 1, 2][..]),
        ("ip6", &[3]),
        ("udp", &[0, 1, 3]),
        ("tcp", &[2]),
        ("icmp or icmp6 or sctp", &[]),
        ("ip proto 17", &[0, 1]),
        ("proto tcp", &[2]),
        ("ip6 proto udp", &[3]),
        ("host 10.2.0.1", &[0, 1]),
        ("10.2.0.1", &[0, 1]),
        ("src host 10.2.0.1", &[1]),
        ("src 10.2.0.1", &[1]),
        ("dst host 2001:db8::2", &[3]),
        ("src or dst host 192.0.2.9", &[2]),
        ("src and dst net 10.0.0.0/8", &[0, 1]),
        ("net 10.1", &[0, 1, 2]),
        ("dst net 192.0.2.0/24", &[2]),
        ("net 2001:db8::/32", &[3]),
        ("port 53", &[0, 1, 3]),
        ("tcp port 53", &[]),
        ("udp dst port 53", &[0, 3]),
        ("dst port 53 or 443", &[0, 2, 3]),
        ("portrange 1000-2000", &[0, 1, 2]),
        ("src portrange 2000-1999", &[2]),
        ("less 53", &[0]),
        ("greater 62", &[1, 3]),
        ("not udp", &[2]),
        ("!(port 53 && ip)", &[2, 3]),
        // They bind alike, from left to right.
        ("tcp or udp and ip6", &[3]),
        ("tcp or (udp and ip6)", &[2, 3]),
        ("not tcp and not ip6", &[0, 1]),
        ("src 10.1.0.1 or dst 10.1.0.1", &[0, 1, 2]),
    ] {
        assert_eq!(matching(filter), expected, "{filter}");
    }
}

#[test]
fn what_is_not_ip_never_matches() {
    let filter = Filter::parse("not tcp").unwrap();
    assert!(!filter.matches(&[], 0) && !filter.matches(&[0x45; 8], 60));
}

#[test]
fn errors_say_where() {
    for (filter, expected) in [
        (
            "",
            "column 1 of the filter: it ends where a condition such as `host 10.0.0.1` or `tcp port 80` should follow",
        ),
        ("port http", "column 6 of the filter: `http` is not a port; write its number"),
        ("port 70000", "column 6 of the filter: `70000` is not a port; write its number"),
        (
            "udp and",
            "column 8 of the filter: it ends where a condition such as `host 10.0.0.1` or `tcp port 80` should follow",
        ),
        ("(udp", "column 5 of the filter: it ends where `)` should follow"),
        ("(udp tcp)", "column 6 of the filter: `tcp` where `)` was expected"),
        ("udp tcp", "column 5 of the filter: `tcp` was not expected; join conditions by `and` or `or`"),
        (
            "net 10.0.0.0/33",
            "column 5 of the filter: `10.0.0.0/33` is not a network; write for example `10.0.0.0/8`, `10.1` or `2001:db8::/32`",
        ),
        ("portrange 5", "column 11 of the filter: `5` is not a range of ports; write for example `6000-6010`"),
    ] {
        assert_eq!(Filter::parse(filter).unwrap_err().to_string(), expected, "{filter}");
    }
    let error = Filter::parse("udp and tcp[13] = 2").unwrap_err();
    assert_eq!(error.column, 9);
    assert!(error.what.starts_with("`tcp[13]` is not an IP address or a keyword"), "{error}");
    assert_eq!(Filter::parse(&"(".repeat(100)).unwrap_err().column, 34);
}
