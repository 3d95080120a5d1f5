//! The path of a packet allocates nothing once it is warm.

mod common;

use common::{advance, delayed, ms, packet_of, rate};
use engine::{Element, Output, Packet, Size, Span, Time};
use link::{
    Branch, DelayModel, Direction, DirectionConfig, GilbertElliott, LossModel, Opportunities, PipeConfig, RateModel,
};
use queue::{Codel, Discipline, FqCodel, Pie, QueueConfig};

/// Packets that go round: those that came out are handed in again.
struct Round {
    direction: Direction,
    spare: Vec<Packet>,
    now: Time,
}

impl Round {
    /// Twice as much as 10 Mbit/s carry, in bursts.
    fn run(&mut self, packets: u64) {
        for number in 0..packets {
            let packet = self.spare.pop().expect("more than wait and fly");
            self.direction.handle(self.now, 0, packet);
            self.drain();
            if number % 50 == 49 {
                let until = self.now + ms(20);
                while let Some(deadline) = self.direction.deadline().filter(|deadline| *deadline <= until) {
                    self.direction.tick(deadline);
                    self.drain();
                }
                self.now = until;
            }
        }
    }

    fn drain(&mut self) {
        while let Some(output) = self.direction.poll() {
            if let Output::Transmit { packet, .. } | Output::Drop { packet, .. } = output {
                self.spare.push(packet);
            }
        }
    }
}

#[test]
fn a_warm_direction_allocates_nothing() {
    let delay = DelayModel::Normal { mean: ms(20), deviation: ms(2) };
    let bursty = LossModel::GilbertElliott(GilbertElliott { p: 0.01, r: 0.3, loss_bad: 1.0, loss_good: 0.0 });
    let rated = |rate_model, discipline| PipeConfig {
        rate: Some(rate_model),
        queue: QueueConfig { packets: Some(100), bytes: None, discipline },
        loss: bursty.clone(),
        corrupt: 0.1,
        ..delayed(delay.clone())
    };
    let constant = || RateModel::Constant(rate("10Mbit/s"));
    let bucket = RateModel::TokenBucket { rate: rate("10Mbit/s"), burst: Size::from_bytes(20_000) };
    let trace = RateModel::Opportunities(Opportunities { source: "t".into(), at_ms: (1..1_000).collect() });
    let codel = Codel { ecn: true, ..Codel::default() };
    let pipes = [
        delayed(DelayModel::Constant(ms(20))),
        PipeConfig { reorder: true, ..delayed(delay.clone()) },
        rated(constant(), Discipline::DropTail),
        rated(constant(), Discipline::Codel(codel.clone())),
        rated(constant(), Discipline::Pie(Pie::default())),
        rated(constant(), Discipline::FqCodel(FqCodel { codel, ..FqCodel::default() })),
        rated(bucket, Discipline::DropTail),
        rated(trace, Discipline::DropTail),
    ];
    for pipe in pipes {
        let selector = queue::Selector { dscp: Some(46), ..queue::Selector::default() }.into();
        let branches = vec![Branch { name: "voice".into(), selector, pipe: delayed(delay.clone()) }];
        let config = DirectionConfig { branches, pipe: pipe.clone() };
        let direction = Direction::new(&config, 1, "warm").expect("valid");
        let packets = (0..2_000).map(|id| packet_of(id, 1_000, [10, 0, 0, 1], (id % 16) as u16, (id % 3) as u8 * 23));
        let mut round = Round { direction, spare: packets.collect(), now: Time::ZERO };
        // As full as it ever gets: a burst of all at once, and then the load itself.
        for _ in 0..2_000 {
            let packet = round.spare.pop().expect("there are 2,000");
            round.direction.handle(round.now, 0, packet);
        }
        round.drain();
        let mut fates = Vec::new();
        round.now = Time::ZERO + Span::from_secs(60);
        advance(&mut round.direction, round.now, &mut fates);
        round.spare.extend(fates.into_iter().map(|fate| fate.packet));
        round.run(50_000);
        let seen = allocation_counter::measure(|| round.run(50_000));
        assert_eq!(seen.count_total, 0, "{pipe:?}");
    }
}
