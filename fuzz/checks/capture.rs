//! What must hold for any file that is read as a capture: it ends, nothing lies outside of it, and however it comes in
//! pieces the same is read. What is read can be held, and written again.

use traffic::replay::{AddressRule, AddressTable, Trace};
use wire::capture::{Captured, Reader, Step};

/// `data` as a capture.
pub(crate) fn capture(data: &[u8]) {
    let (whole, problem) = read(data, data.len());
    // Byte by byte, as from a slow disk.
    if data.len() < 2_000 {
        assert_eq!((whole.clone(), problem), read(data, 1));
    }
    let mut trace = Trace::new(1 << 20);
    for packet in &whole {
        let network = packet.network().unwrap_or(packet.bytes.len());
        let length = packet.length.saturating_sub(network as u32);
        let _ = trace.push(packet.unix_nanos.unwrap_or(0), &packet.bytes[network..], length);
    }
    let table = AddressTable::new(&trace, &AddressRule::FirstSight);
    let mut out = vec![0; 1 << 17];
    let mut before = 0;
    for (index, packet) in trace.packets().enumerate() {
        let time = packet.time.as_nanos();
        assert!(time >= before && packet.bytes.len() <= packet.length as usize);
        before = time;
        let v6 = packet.bytes[0] >> 4 == 6;
        let end = if v6 { [0u8; 16].into() } else { [0u8; 4].into() };
        assert_eq!(trace.write(index, end, end, Some(&[1; 24]), &mut out), Ok(packet.length as usize));
        assert!(table.route(index).is_none_or(|route| route.v6 == v6));
    }
}

/// The packets, if the file comes `step` bytes at a time, and what ended it.
fn read(data: &[u8], step: usize) -> (Vec<Captured<'_>>, Option<wire::capture::Problem>) {
    let mut reader = Reader::new();
    let (mut used, mut there, mut packets) = (0, 0, Vec::new());
    loop {
        match reader.read(&data[used..there]) {
            Ok(Step::Needs(len)) => {
                assert!(len > there - used, "it has what it needs");
                if there == data.len() {
                    return (packets, None);
                }
                there = (there + step).min(data.len());
            }
            Ok(Step::Other(len)) => {
                assert!(len > 0);
                used += len;
            }
            Ok(Step::Packet(packet, len)) => {
                assert!(len > 0 && packet.bytes.len() <= packet.length as usize);
                used += len;
                packets.push(packet);
            }
            Err(problem) => return (packets, Some(problem)),
        }
        assert!(used <= there);
    }
}
