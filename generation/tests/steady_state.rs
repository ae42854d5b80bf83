//! Choosing a token allocates nothing once memory has grown to the vocabulary.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use support::Numbers;
use tlaloc_generation::sampler::{Sampler, Sampling, Scratch};

#[test]
fn a_choice_allocates_nothing() {
    let vocab = 49_152;
    let mut numbers = Numbers(1);
    let rows: Vec<_> = (0..4).map(|_| numbers.logits(vocab)).collect();
    let default = Sampling::default;
    let mut scratch = Scratch::default();
    for sampling in [
        Sampling { temperature: 0.0, ..default() },
        default(),
        Sampling { top_k: 50, ..default() },
        Sampling { top_k: 40_000, top_p: 0.5, ..default() },
        Sampling { top_p: 0.9, ..default() },
        Sampling { min_p: 0.001, top_p: 0.9, ..default() },
        Sampling { logprobs: Some(20), ..default() },
        Sampling {
            bad_words: vec![vec![1], vec![2, 3, 4]],
            logit_bias: vec![(5, 1.0)],
            min_tokens: 100,
            stop_ids: vec![0],
            repetition_penalty: 1.2,
            frequency_penalty: 0.1,
            ..default()
        },
    ] {
        let mut sampler = Sampler::new(sampling.clone(), &[1, 2, 3], 64);
        let mut step = |index: usize| {
            sampler.sample(&rows[index % 4], &mut scratch).unwrap();
        };
        (0..32).for_each(&mut step);
        let counted = allocation_counter::measure(|| (32..48).for_each(&mut step));
        assert_eq!(counted.count_total, 0, "{sampling:?}");
    }
}
