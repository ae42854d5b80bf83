//! Which tokens the sampler chooses, and what it says about them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use proptest::prelude::*;
use support::{Numbers, edited};
use tlaloc_generation::sampler::{SampleError, Sampler, Sampling, Scratch};

const GREEDY: f64 = 0.0;

fn greedy() -> Sampling {
    Sampling { temperature: GREEDY, ..Sampling::default() }
}

/// The tokens chosen from rows, one after the other.
fn reply<R: AsRef<[f32]>>(sampling: &Sampling, prompt: &[i32], rows: &[R]) -> Vec<i32> {
    let (mut sampler, mut scratch) =
        (Sampler::new(sampling.clone(), prompt, 64), Scratch::default());
    rows.iter().map(|row| sampler.sample(row.as_ref(), &mut scratch).unwrap().token).collect()
}

fn rows(count: usize, vocab: usize, seed: u64) -> Vec<Vec<f32>> {
    let mut numbers = Numbers(seed);
    (0..count).map(|_| numbers.logits(vocab)).collect()
}

#[test]
fn greedy_takes_the_lowest_of_equal_logits() {
    for vocab in [1, 7, 8, 9, 16, 17, 33, 1000] {
        let mut row = vec![-1.0; vocab];
        for token in (0..vocab).rev() {
            row[token] = 2.5;
            assert_eq!(reply(&greedy(), &[], &[&row]), [token as i32], "vocab {vocab}");
        }
    }
    assert_eq!(reply(&greedy(), &[], &[[-0.0, 0.0]]), [0], "zeros of both signs are equal");
    assert_eq!(reply(&greedy(), &[], &[[f32::NEG_INFINITY, f32::MIN]]), [1]);
}

#[test]
fn a_row_that_is_not_finite_is_refused_by_name_and_changes_nothing() {
    let mut scratch = Scratch::default();
    for sampling in [greedy(), Sampling::default()] {
        for vocab in [1, 8, 21, 64] {
            for token in 0..vocab {
                for value in [f32::NAN, -f32::NAN, f32::INFINITY] {
                    let mut sampler = Sampler::new(sampling.clone(), &[], 64);
                    let mut row = vec![0.0; vocab];
                    row[token] = value;
                    let error = sampler.sample(&row, &mut scratch).unwrap_err();
                    let SampleError::NotFinite { token: named, value: found } = error else {
                        panic!("{error}");
                    };
                    assert_eq!((named, found.to_bits()), (token, value.to_bits()));
                    assert!(error.to_string().contains(&format!("for token {token}")), "{error}");
                    assert_eq!(sampler.generated(), 0);
                }
            }
            let excluded = vec![f32::NEG_INFINITY; vocab];
            let error = Sampler::new(sampling.clone(), &[], 64).sample(&excluded, &mut scratch);
            assert_eq!(error.unwrap_err(), SampleError::AllExcluded { vocab });
        }
    }
    assert!(Sampler::new(greedy(), &[], 64).sample(&[], &mut scratch).is_err());
}

#[test]
fn sglang_33187_a_nan_row_is_an_error_and_the_stream_goes_on_after_it() {
    let good = rows(20, 50, 3);
    let sampling = Sampling { seed: 9, ..Sampling::default() };
    let (mut sampler, mut scratch) = (Sampler::new(sampling.clone(), &[], 64), Scratch::default());
    let mut tokens = Vec::new();
    for row in &good {
        assert!(sampler.sample(&[f32::NAN; 50], &mut scratch).is_err());
        tokens.push(sampler.sample(row, &mut scratch).unwrap().token);
    }
    assert_eq!(tokens, reply(&sampling, &[], &good));
}

#[test]
fn tensorrtllm_backend_221_temperature_has_an_effect() {
    let rows = rows(50, 200, 1);
    let largest = reply(&greedy(), &[], &rows);
    let hot = Sampling { temperature: 100.0, ..Sampling::default() };
    assert_ne!(reply(&hot, &[], &rows), largest);
    // Below vLLM's border, and where one token is all that may be drawn.
    for sampling in [
        Sampling { temperature: 1e-6, ..Sampling::default() },
        Sampling { temperature: 100.0, top_k: 1, ..Sampling::default() },
        Sampling { temperature: 100.0, top_p: 1e-9, ..Sampling::default() },
        Sampling { temperature: 100.0, min_p: 1.0, ..Sampling::default() },
        Sampling { temperature: 1e-4, ..Sampling::default() },
    ] {
        assert_eq!(reply(&sampling, &[], &rows), largest, "{sampling:?}");
    }
}

#[test]
fn tensorrtllm_backend_237_seeds_differ_and_the_same_seed_repeats() {
    let rows = rows(50, 200, 1);
    let of = |seed| reply(&Sampling { seed, ..Sampling::default() }, &[], &rows);
    assert_ne!(of(1), of(2));
    assert_eq!(of(1), of(1));
    assert_ne!(of(u64::MAX), of(u64::MAX - 1));
}

#[test]
fn tensorrt_llm_1336_requests_that_share_scratch_keep_their_tokens() {
    let requests: Vec<Sampling> = (0..8)
        .map(|seed| Sampling {
            seed,
            top_k: [0, 5][seed as usize % 2],
            frequency_penalty: 0.3 * seed as f64,
            logprobs: Some(seed as usize),
            ..Sampling::default()
        })
        .collect();
    let rows: Vec<_> = (0..8).map(|seed| rows(20, 100 + seed, seed as u64)).collect();
    let mut samplers: Vec<_> = requests.iter().map(|r| Sampler::new(r.clone(), &[], 64)).collect();
    let mut together = vec![Vec::new(); 8];
    let mut scratch = Scratch::default();
    for step in 0..20 {
        for request in (0..8).rev().filter(|request| (step * request) % 7 != 3) {
            let row = &rows[request][together[request].len()];
            together[request].push(samplers[request].sample(row, &mut scratch).unwrap().token);
        }
    }
    for request in 0..8 {
        let alone = reply(&requests[request], &[], &rows[request][..together[request].len()]);
        assert_eq!(together[request], alone, "request {request}");
    }
}

#[test]
fn a_bias_forces_a_token_and_forbids_one() {
    let rows = rows(20, 300, 5);
    let forced = Sampling { logit_bias: vec![(123, 100.0)], ..Sampling::default() };
    assert_eq!(reply(&forced, &[], &rows), [123; 20]);
    let best = reply(&greedy(), &[], &rows);
    let forbidden =
        Sampling { logit_bias: best.iter().map(|&token| (token, -100.0)).collect(), ..greedy() };
    assert!(reply(&forbidden, &[], &rows).iter().all(|token| !best.contains(token)));
}

#[test]
fn a_bad_word_of_several_tokens_loses_its_last_token_only_after_its_others() {
    // Token 1 is best everywhere, then 2, then 3.
    let row = [0.0, 3.0, 2.0, 1.0];
    let of = |bad_words| reply(&Sampling { bad_words, ..greedy() }, &[1, 1, 1], &[row; 7]);
    assert_eq!(of(vec![vec![1]]), [2; 7]);
    assert_eq!(of(vec![vec![1, 1]]), [1, 2, 1, 2, 1, 2, 1], "the prompt does not count");
    assert_eq!(of(vec![vec![1, 1, 1]]), [1, 1, 2, 1, 1, 2, 1]);
    assert_eq!(of(vec![vec![1, 1, 1], vec![2]]), [1, 1, 3, 1, 1, 3, 1]);
    assert_eq!(of(vec![vec![1, 1], vec![2, 1]]), [1, 2, 2, 2, 2, 2, 2]);
    assert_eq!(of(vec![vec![1, 1], vec![1, 2]]), [1, 3, 1, 3, 1, 3, 1]);
}

#[test]
fn stop_tokens_wait_for_min_tokens() {
    let row = [0.0, 3.0, 2.0];
    let sampling = Sampling { min_tokens: 2, stop_ids: vec![1], ..greedy() };
    assert_eq!(reply(&sampling, &[], &[row; 4]), [2, 2, 1, 1]);
}

#[test]
fn only_allowed_tokens_are_chosen_until_none_is_left() {
    let rows = rows(20, 300, 6);
    let allowed = Sampling { allowed: Some(vec![7, 3, 299]), ..Sampling::default() };
    assert!(reply(&allowed, &[], &rows).iter().all(|token| [7, 3, 299].contains(token)));
    let none = Sampling { bad_words: vec![vec![3], vec![7], vec![299]], ..allowed };
    let mut sampler = Sampler::new(none, &[], 64);
    let error = sampler.sample(&rows[0], &mut Scratch::default()).unwrap_err();
    assert_eq!(error, SampleError::NothingLeft { vocab: 300 });
}

#[test]
fn an_excluded_token_is_not_brought_back() {
    let sampling = Sampling {
        allowed: Some(vec![0, 1]),
        bad_words: vec![vec![1]],
        logit_bias: vec![(1, 100.0), (2, 100.0)],
        repetition_penalty: 0.01,
        ..greedy()
    };
    assert_eq!(reply(&sampling, &[1, 2], &[[0.0, 5.0, 9.0]; 3]), [0; 3]);
}

#[test]
fn settings_that_overflow_choose_the_token_still() {
    let sampling = Sampling {
        logit_bias: vec![(1, f32::MAX)],
        repetition_penalty: 1e-30,
        ..Sampling::default()
    };
    assert_eq!(reply(&sampling, &[1], &[[0.0, f32::MAX, 1.0], [0.0, 1.0, 2.0]]), [1, 1]);
    let hot = Sampling { temperature: f64::from(f32::MAX), ..Sampling::default() };
    let tokens = reply(&hot, &[], &[[f32::MIN, f32::MAX]; 50]);
    assert!(tokens.contains(&1));
}

#[test]
fn more_than_the_vocabulary_is_all_of_it() {
    let rows = rows(50, 100, 8);
    let of = |top_k| reply(&Sampling { top_k, ..Sampling::default() }, &[], &rows);
    let all = of(0);
    for top_k in [100, 101, usize::MAX] {
        assert_eq!(of(top_k), all);
    }
    let mut sampler = Sampler::new(Sampling { logprobs: Some(usize::MAX), ..greedy() }, &[], 64);
    assert_eq!(sampler.sample(&rows[0], &mut Scratch::default()).unwrap().top.len(), 100);
}

#[test]
fn tensorrt_llm_879_log_probabilities_are_the_models_whatever_is_drawn_from() {
    let rows = rows(30, 150, 12);
    for changed in [
        Sampling { top_p: 0.5, ..Sampling::default() },
        Sampling { temperature: 3.0, top_k: 9, min_p: 0.01, ..Sampling::default() },
        Sampling { repetition_penalty: 1.5, logit_bias: vec![(3, 4.0)], ..Sampling::default() },
        Sampling { bad_words: vec![vec![1], vec![5, 6]], ..greedy() },
    ] {
        let sampling = Sampling { logprobs: Some(150), ..changed };
        let mut sampler = Sampler::new(sampling, &[3, 4], 64);
        let mut scratch = Scratch::default();
        for row in &rows {
            let chosen = sampler.sample(row, &mut scratch).unwrap();
            let raised: Vec<f64> = row.iter().map(|&x| f64::from(x).exp()).collect();
            let total: f64 = raised.iter().sum();
            let expected = |token: i32| (raised[token as usize] / total).ln();
            let logprob = chosen.logprob.unwrap();
            assert_eq!(logprob.token, chosen.token);
            assert!((logprob.logprob - expected(chosen.token)).abs() < 1e-6);
            let mut sorted = row.clone();
            sorted.sort_by(|a, b| b.total_cmp(a));
            assert_eq!(row[chosen.token as usize], sorted[logprob.rank - 1]);
            // tensorrtllm_backend_472: all there, none zero, summing to one.
            assert_eq!(chosen.top.len(), 150);
            for (rank, top) in chosen.top.iter().enumerate() {
                assert_eq!(row[top.token as usize], sorted[rank]);
                assert_eq!(top.rank, rank + 1);
                assert!((top.logprob - expected(top.token)).abs() < 1e-6);
            }
            let sum: f64 = chosen.top.iter().map(|top| top.logprob.exp()).sum();
            assert!((sum - 1.0).abs() < 1e-6, "{sum}");
        }
    }
}

#[test]
fn ranks_are_shared_by_equal_logits() {
    let mut sampler = Sampler::new(Sampling { logprobs: Some(4), ..greedy() }, &[], 64);
    let mut scratch = Scratch::default();
    let chosen = sampler.sample(&[1.0, 3.0, 1.0, 3.0, 0.0], &mut scratch).unwrap();
    let top: Vec<_> = chosen.top.iter().map(|top| (top.token, top.rank)).collect();
    assert_eq!(top, [(1, 1), (3, 1), (0, 3), (2, 3)]);
}

#[test]
fn bytes_are_read_wherever_they_lie() {
    let rows = rows(12, 77, 30);
    let sampling = Sampling { logprobs: Some(3), presence_penalty: 0.5, ..Sampling::default() };
    let expected = reply(&sampling, &[], &rows);
    for offset in 0..8 {
        let mut sampler = Sampler::new(sampling.clone(), &[], 64);
        let mut scratch = Scratch::default();
        for (row, &token) in rows.iter().zip(&expected) {
            let mut bytes = vec![0xff; offset];
            bytes.extend(row.iter().flat_map(|logit| logit.to_le_bytes()));
            let chosen = sampler.sample_bytes(&bytes[offset..], &mut scratch).unwrap();
            assert_eq!((chosen.token, chosen.top.len()), (token, 3));
        }
    }
}

fn sampling() -> impl Strategy<Value = Sampling> {
    let ids = || prop::collection::vec(0..40i32, 0..4);
    let penalties = (prop::sample::select(vec![1.0, 1.3, 0.7]), -1.0..1.0, -1.0..1.0);
    let words = prop::collection::vec(prop::collection::vec(0..40i32, 1..4), 0..4);
    let bias = prop::collection::vec((0..40i32, -5.0..5.0f32), 0..4);
    let allowed = prop::option::of(prop::collection::vec(0..40i32, 8..40));
    (penalties, words, bias, allowed, ids(), 0..6usize).prop_map(
        |((repetition, presence, frequency), bad_words, logit_bias, allowed, stop_ids, min)| {
            Sampling {
                repetition_penalty: repetition,
                presence_penalty: presence,
                frequency_penalty: frequency,
                bad_words,
                logit_bias,
                allowed,
                stop_ids,
                min_tokens: min,
                ..greedy()
            }
        },
    )
}

proptest! {
    /// A greedy reply is the largest logit of the second writing, token by token.
    #[test]
    fn edits_are_as_documented(
        sampling in sampling(),
        prompt in prop::collection::vec(0..40i32, 1..12),
        seed in any::<u64>(),
    ) {
        let (mut sampler, mut scratch) = (Sampler::new(sampling.clone(), &prompt, 64), Scratch::default());
        let mut tokens: Vec<i32> = Vec::new();
        for row in rows(12, 40, seed) {
            let expected = edited(&row, &sampling, &prompt, &tokens);
            let best = expected.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            match sampler.sample(&row, &mut scratch) {
                Ok(choice) => {
                    let found = expected[choice.token as usize];
                    prop_assert!(best - found < 1e-4, "{found} of {best}");
                    tokens.push(choice.token);
                }
                Err(error) => {
                    prop_assert_eq!(error, SampleError::NothingLeft { vocab: 40 });
                    prop_assert_eq!(best, f64::NEG_INFINITY);
                    break;
                }
            }
        }
    }
}
