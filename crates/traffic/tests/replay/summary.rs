//! What a trace is like.

use engine::Span;
use traffic::replay::{AddressRule, AddressTable, Amount, Summary};
use wire::TcpFlags;

use crate::packets::{datagram, segment, trace_of};

#[test]
fn counts() {
    let ms = 1_000_000;
    let trace = trace_of(&[
        (0, datagram(("10.0.0.1", 1), ("10.0.0.2", 2), &[0; 100])),
        (150 * ms, segment(("10.0.0.2", 1), ("10.0.0.1", 2), (1, 1, TcpFlags::ACK), &[], &[0; 60])),
        (199 * ms, datagram(("2001:db8::1", 1), ("2001:db8::2", 2), &[0; 52])),
        (200 * ms, datagram(("10.0.0.1", 1), ("10.0.0.2", 2), &[0; 72])),
    ]);
    let summary = Summary::new(&trace, &AddressTable::new(&trace, &AddressRule::FirstSight));
    let amount = |packets, bytes| Amount { packets, bytes };
    assert_eq!(summary.all, amount(4, 428));
    assert_eq!((summary.uplink, summary.downlink), (amount(3, 328), amount(1, 100)));
    assert_eq!(summary.peak, (Span::from_millis(100), amount(2, 200)));
    assert_eq!(summary.lengths.into_iter().collect::<Vec<_>>(), [(100, 3), (128, 1)]);
    let protocols: Vec<_> = summary.protocols.into_iter().collect();
    assert_eq!(protocols, [((4, 6), amount(1, 100)), ((4, 17), amount(2, 228)), ((6, 17), amount(1, 100))]);
}
