//! Configurations that cannot be.

mod common;

use common::{branch, delayed, ms, network, rate};
use engine::{Size, Span};
use link::{
    ConfigError, DelayModel, DirectionConfig, Empirical, GilbertElliott, LossModel, LossTrace, Markov4, Opportunities,
    PipeConfig, RateModel, Timeline,
};
use queue::{Discipline, QueueConfig};

#[test]
fn what_cannot_be_is_refused_by_name() {
    let field = |pipe: PipeConfig| match pipe.validate() {
        Err(ConfigError::Invalid { field, .. }) => field,
        Err(ConfigError::Queue { .. }) => "queue",
        other => panic!("{other:?}"),
    };
    let base = PipeConfig::default;
    let rated = |model| PipeConfig { rate: Some(model), ..base() };
    let bucket = |burst| RateModel::TokenBucket { rate: rate("1Mbit/s"), burst: Size::from_bytes(burst) };
    let trace = |at_ms| RateModel::Opportunities(Opportunities { source: "t".into(), at_ms });
    let lossy = |loss| PipeConfig { loss, ..base() };
    let ge = GilbertElliott { p: 0.1, r: 0.1, loss_bad: 1.0, loss_good: 0.0 };
    let markov = Markov4 { p13: 0.1, p31: 0.1, p32: 0.1, p23: 0.1, p14: 0.1 };
    let timeline = |steps| DelayModel::Timeline(Timeline { source: "t".into(), steps, interpolate: false });
    let table = |delays| DelayModel::Empirical(Empirical { source: "t".into(), delays });
    let no_limit = QueueConfig { packets: None, bytes: None, discipline: Discipline::DropTail };
    let no_room = QueueConfig { packets: Some(0), ..no_limit.clone() };

    assert_eq!(rated(bucket(1_500)).validate(), Ok(()));
    for (pipe, expected) in [
        (PipeConfig { overhead: Size::from_bytes(65_536), ..base() }, "overhead"),
        (rated(bucket(1_499)), "rate.burst"),
        (PipeConfig { overhead: Size::from_bytes(1), ..rated(bucket(1_500)) }, "rate.burst"),
        (rated(trace(vec![])), "rate.at_ms"),
        (rated(trace(vec![0])), "rate.at_ms"),
        (rated(trace(vec![2, 1])), "rate.at_ms"),
        (PipeConfig { queue: no_room, ..rated(trace(vec![1])) }, "queue.packets"),
        (PipeConfig { queue: no_limit, ..rated(bucket(2_000)) }, "queue"),
        (PipeConfig { duplicate: -0.1, ..base() }, "duplicate"),
        (PipeConfig { corrupt: f64::NAN, ..base() }, "corrupt"),
        (lossy(LossModel::Bernoulli(1.1)), "loss"),
        (lossy(LossModel::GilbertElliott(GilbertElliott { r: 2.0, ..ge })), "loss.r"),
        (lossy(LossModel::GilbertElliott(GilbertElliott { loss_good: -1.0, ..ge })), "loss.loss_good"),
        (lossy(LossModel::Markov4(Markov4 { p14: 0.95, ..markov })), "loss.p13"),
        (lossy(LossModel::Markov4(Markov4 { p32: 0.95, ..markov })), "loss.p31"),
        (lossy(LossModel::Trace(LossTrace { source: "t".into(), lost: vec![] })), "loss.lost"),
        (delayed(DelayModel::Constant(Span::from_secs(3_601))), "delay"),
        (delayed(DelayModel::Uniform { min: ms(2), max: ms(1) }), "delay.min"),
        (delayed(DelayModel::Pareto { scale: ms(2), shape: 1.0 }), "delay.shape"),
        (delayed(DelayModel::Pareto { scale: Span::ZERO, shape: 2.0 }), "delay.scale"),
        (delayed(table(vec![ms(1)])), "delay.delays"),
        (delayed(table(vec![ms(2), ms(1)])), "delay.delays"),
        (delayed(timeline(vec![])), "delay.steps"),
        (delayed(timeline(vec![(ms(1), ms(1))])), "delay.steps"),
        (delayed(timeline(vec![(ms(0), ms(1)), (ms(0), ms(2))])), "delay.steps"),
    ] {
        assert_eq!(field(pipe.clone()), expected, "{pipe:?}");
    }

    let with = |branches| DirectionConfig { branches, pipe: base() }.validate();
    let any = queue::Selector::default;
    assert!(matches!(with(vec![branch("main", any().into(), 0)]), Err(ConfigError::NameTaken { .. })));
    assert!(matches!(
        with(vec![branch("a", any().into(), 0), branch("a", any().into(), 0)]),
        Err(ConfigError::NameTaken { .. })
    ));
    let far =
        with(vec![branch("far", queue::Selector { source: network("10.0.0.0", 33), ..any() }.into(), 0)]).unwrap_err();
    assert_eq!(far.to_string(), "branch `far`: `source` is 10.0.0.0/33; it must be a prefix of 0 to 32 bits");
    assert!(with(vec![branch("class", queue::Selector { dscp: Some(64), ..any() }.into(), 0)]).is_err());
}
