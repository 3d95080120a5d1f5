//! How instances lie in time to each other.

use proptest::prelude::*;
use traffic::replay::{Instances, Item, Over, ReplayConfig, Spacing};

use crate::packets::{config, play, start, ticks};

const COUNT: u32 = 5;

/// The times of each instance, for each repetition.
fn played(gaps: &[u64], repetitions: u32, spacing: Spacing) -> Vec<Vec<u64>> {
    let times: Vec<_> = gaps.iter().scan(0, |time, gap| Some(std::mem::replace(time, *time + gap))).collect();
    let instances = Instances { over: Over::Pdn, count: COUNT };
    let items = play(start(ticks(&times), &ReplayConfig { repetitions, instances, spacing, ..config() }).unwrap());
    let mut runs = vec![Vec::new(); (COUNT * repetitions) as usize];
    for Item { due, instance, repetition, index, .. } in items {
        let run = &mut runs[(repetition * COUNT + instance) as usize];
        assert_eq!(run.len(), index as usize, "an instance keeps the order of the trace");
        run.push(due.as_nanos() - 5_000);
    }
    runs
}

fn gaps_of(times: &[u64]) -> Vec<u64> {
    times.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

proptest! {
    #[test]
    fn jitter_shifts_instances_whole(gaps in prop::collection::vec(0u64..1_000_000, 2..100), repetitions in 1u32..3) {
        let runs = played(&gaps, repetitions, Spacing::JITTER);
        let period: u64 = gaps[..gaps.len() - 1].iter().sum();
        for (n, run) in runs.iter().enumerate() {
            prop_assert_eq!(gaps_of(run), &gaps[..gaps.len() - 1]);
            let offset = run[0] - period * (n as u64 / u64::from(COUNT));
            prop_assert!(offset <= period && (offset == 0 || !(n as u32).is_multiple_of(COUNT)));
            // The same in all repetitions.
            prop_assert_eq!(offset, runs[n % COUNT as usize][0]);
        }
    }

    /// Gaps are the trace's in another order, and no packet is further from its time than a block is long.
    #[test]
    fn shuffled_gaps_stay_in_their_block(gaps in prop::collection::vec(0u64..1_000_000, 2..400), block in 1u16..20, repetitions in 1u32..3) {
        let block = core::num::NonZeroU16::new(block).unwrap();
        let runs = played(&gaps, repetitions, Spacing::Shuffle { block });
        let gaps = &gaps[..gaps.len() - 1];
        let (mut sorted, period) = (gaps.to_vec(), gaps.iter().sum::<u64>());
        sorted.sort_unstable();
        let original = &runs[0];
        for (n, run) in runs.iter().enumerate() {
            let mut own = gaps_of(run);
            if (n as u32).is_multiple_of(COUNT) {
                prop_assert_eq!(&own, gaps);
            }
            own.sort_unstable();
            prop_assert_eq!(&own, &sorted);
            let begin = period * (n as u64 / u64::from(COUNT));
            let offset = run[0] - begin;
            prop_assert!(offset * gaps.len() as u64 <= period && (offset == 0 || !(n as u32).is_multiple_of(COUNT)));
            let len = usize::from(block.get());
            for (at, time) in run.iter().enumerate() {
                let (low, high) = (at.saturating_sub(len), (at + len).min(gaps.len()));
                prop_assert!((original[low]..=original[high]).contains(&(time - begin - offset)));
            }
        }
    }
}

/// Copies coincide, and the others do not.
#[test]
fn only_copies_coincide() {
    let gaps: Vec<_> = (0..2_000).map(|n| 1_000 + (n * 7_919) % 1_013).collect();
    let coincide = |spacing| {
        let runs = played(&gaps, 1, spacing);
        let mut times: Vec<_> = runs.concat();
        times.sort_unstable();
        times.windows(2).filter(|pair| pair[0] == pair[1]).count()
    };
    assert_eq!(coincide(Spacing::Copy), 2_000 * 4);
    // By chance some do.
    assert!(coincide(Spacing::JITTER) < 100);
    assert!(coincide(Spacing::SHUFFLE) < 100, "{}", coincide(Spacing::SHUFFLE));
}

#[test]
fn spacings_have_names() {
    assert_eq!("shuffle".parse(), Ok(Spacing::SHUFFLE));
    assert_eq!("jitter".parse(), Ok(Spacing::JITTER));
    assert_eq!("copy".parse(), Ok(Spacing::Copy));
    let error = "even".parse::<Spacing>().unwrap_err();
    assert_eq!(error.to_string(), "`even` is not a spacing; use one of copy, jitter, shuffle");
}
