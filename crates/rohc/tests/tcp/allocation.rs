//! Once contexts are there, no packet allocates.

use crate::flows::Download;
use crate::segments::{Segment, sack, timestamp};
use crate::warm;

#[test]
fn nothing_is_allocated_once_warm() {
    // Both directions of two transfers: four flows for three contexts.
    let mut downloads = [Download::new(Segment::v6()), Download::new(Segment { ports: (1, 2), ..Segment::v4() })];
    let packets: Vec<Vec<u8>> = (0..1_000u32)
        .flat_map(|step| {
            let (data, ack) = downloads[step as usize / 100 % 2].step(3);
            let mut ack = ack.unwrap_or_else(|| data.clone());
            if step % 90 > 80 {
                ack.options = [timestamp(step, step), sack(&[(step * 5, step * 7)])].concat();
            }
            [data.packet(), ack.packet()]
        })
        .collect();
    warm::allocates_nothing(2, &packets);
}
