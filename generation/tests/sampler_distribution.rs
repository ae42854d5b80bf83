//! 20,000 draws of every setting against the exact distribution, which `support` computes by
//! sorting in f64. Seeds are fixed, so a run either always passes or never.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use support::{Numbers, edited, probabilities};
use tlaloc_generation::sampler::{Sampler, Sampling, Scratch};

const DRAWS: usize = 20_000;

/// What the model says, and what was said before.
struct Case {
    row: Vec<f32>,
    prompt: Vec<i32>,
    reply: Vec<i32>,
}

impl Case {
    fn new(vocab: usize) -> Case {
        let mut row = Numbers(vocab as u64).logits(vocab);
        // What the reply holds is likely, so that a penalty shows.
        let high = row.iter().copied().fold(0.0, f32::max);
        row[2..5].copy_from_slice(&[high, high - 0.4, high - 0.9]);
        Case { row, prompt: vec![0, 1, 2, 3, 3], reply: vec![2, 3, 4, 2] }
    }

    /// How often each token is drawn after the reply, by as many requests with different seeds.
    fn by_seed(&self, sampling: &Sampling) -> Vec<usize> {
        let mut scratch = Scratch::default();
        self.count((0..DRAWS).map(|seed| {
            let sampling = Sampling { seed: seed as u64, ..sampling.clone() };
            let mut sampler = self.after_reply(sampling, &mut scratch);
            sampler.sample(&self.row, &mut scratch).unwrap().token
        }))
    }

    /// As often by one request. Only for settings that do not depend on earlier tokens.
    fn by_position(&self, sampling: &Sampling) -> Vec<usize> {
        let (mut sampler, mut scratch) =
            (Sampler::new(sampling.clone(), &self.prompt, 64), Scratch::default());
        self.count((0..DRAWS).map(|_| sampler.sample(&self.row, &mut scratch).unwrap().token))
    }

    fn count(&self, tokens: impl Iterator<Item = i32>) -> Vec<usize> {
        let mut counts = vec![0; self.row.len()];
        tokens.for_each(|token| counts[token as usize] += 1);
        counts
    }

    /// A sampler that has chosen the reply: of rows that leave it no choice.
    fn after_reply(&self, sampling: Sampling, scratch: &mut Scratch) -> Sampler {
        let mut sampler = Sampler::new(sampling, &self.prompt, 64);
        let mut row = vec![f32::NEG_INFINITY; self.row.len()];
        for &token in &self.reply {
            row[token as usize] = 1.0;
            assert_eq!(sampler.sample(&row, scratch).unwrap().token, token);
            row[token as usize] = f32::NEG_INFINITY;
        }
        sampler
    }

    fn exact(&self, sampling: &Sampling) -> Vec<f64> {
        probabilities(&edited(&self.row, sampling, &self.prompt, &self.reply), sampling)
    }
}

/// How many standard deviations Pearson's statistic is above what chance gives (Wilson and
/// Hilferty's cube root), or infinity if a token was drawn that cannot be. Tokens that are expected
/// less than five times count together.
fn deviation(counts: &[usize], probabilities: &[f64]) -> f64 {
    let draws = counts.iter().sum::<usize>() as f64;
    let mut cells: Vec<(f64, f64)> = Vec::new();
    let mut rare = (0.0, 0.0);
    for (&count, &probability) in counts.iter().zip(probabilities) {
        if probability == 0.0 && count > 0 {
            return f64::INFINITY;
        }
        let (count, expected) = (count as f64, probability * draws);
        if expected >= 5.0 {
            cells.push((count, expected));
        } else {
            rare = (rare.0 + count, rare.1 + expected);
        }
    }
    if rare.1 > 0.0 {
        cells.push(rare);
    }
    if cells.len() == 1 {
        return 0.0;
    }
    let statistic: f64 =
        cells.iter().map(|(count, expected)| (count - expected).powi(2) / expected).sum();
    let freedom = (cells.len() - 1) as f64;
    let spread = 2.0 / (9.0 * freedom);
    ((statistic / freedom).cbrt() - (1.0 - spread)) / spread.sqrt()
}

/// One in 30,000 by chance.
const BORDER: f64 = 4.0;

fn settings() -> Vec<Sampling> {
    let default = Sampling::default;
    let penalised = || Sampling {
        repetition_penalty: 1.3,
        presence_penalty: 0.4,
        frequency_penalty: 0.5,
        ..default()
    };
    vec![
        default(),
        Sampling { temperature: 0.5, ..default() },
        Sampling { temperature: 2.0, ..default() },
        Sampling { temperature: 100.0, ..default() },
        Sampling { top_k: 1, ..default() },
        Sampling { top_k: 5, ..default() },
        Sampling { top_k: 40, temperature: 1.7, ..default() },
        Sampling { top_p: 0.9, ..default() },
        Sampling { top_p: 0.3, ..default() },
        Sampling { top_p: 0.95, temperature: 100.0, ..default() },
        Sampling { min_p: 0.1, ..default() },
        Sampling { min_p: 0.02, temperature: 1.5, ..default() },
        Sampling { top_k: 20, top_p: 0.8, ..default() },
        Sampling { top_k: 20, min_p: 0.05, top_p: 0.8, temperature: 1.3, ..default() },
        Sampling { min_p: 0.05, top_p: 0.7, temperature: 0.8, ..default() },
        Sampling { repetition_penalty: 1.5, ..default() },
        Sampling { repetition_penalty: 0.8, ..default() },
        Sampling { presence_penalty: 1.5, ..default() },
        Sampling { frequency_penalty: 1.0, ..default() },
        Sampling { frequency_penalty: -0.5, ..default() },
        penalised(),
        Sampling { temperature: 1.4, top_k: 30, top_p: 0.9, min_p: 0.01, ..penalised() },
        Sampling {
            logit_bias: vec![(2, 2.0), (5, -3.0)],
            bad_words: vec![vec![6], vec![4, 2, 7], vec![3, 8]],
            min_tokens: 5,
            stop_ids: vec![9, 10],
            top_p: 0.9,
            ..penalised()
        },
        Sampling {
            allowed: Some((0..12).collect()),
            min_tokens: 4,
            stop_ids: vec![9],
            ..default()
        },
    ]
}

#[test]
fn twenty_thousand_draws_of_each_setting_have_the_exact_distribution() {
    for vocab in [13, 250] {
        let case = Case::new(vocab);
        for sampling in settings() {
            let exact = case.exact(&sampling);
            let found = deviation(&case.by_seed(&sampling), &exact);
            assert!(found < BORDER, "vocab {vocab}, {sampling:?}: {found} standard deviations");
        }
    }
}

#[test]
fn twenty_thousand_draws_of_one_request_have_the_exact_distribution() {
    let case = Case { reply: Vec::new(), ..Case::new(60) };
    for sampling in settings() {
        if sampling.presence_penalty != 0.0 || sampling.frequency_penalty != 0.0 {
            continue;
        }
        let free = Sampling { repetition_penalty: 1.0, min_tokens: 0, ..sampling };
        let exact = case.exact(&free);
        let found = deviation(&case.by_position(&Sampling { seed: 77, ..free.clone() }), &exact);
        assert!(found < BORDER, "{free:?}: {found} standard deviations");
    }
}

#[test]
fn tensorrt_edge_llm_211_a_flat_distribution_is_drawn_flat_step_by_step() {
    let case = Case { row: vec![0.25; 50], prompt: vec![], reply: vec![] };
    let sampling = Sampling::default();
    let (mut sampler, mut scratch) = (Sampler::new(sampling.clone(), &[], 64), Scratch::default());
    let tokens: Vec<i32> =
        (0..1000).map(|_| sampler.sample(&case.row, &mut scratch).unwrap().token).collect();
    let found = deviation(&case.count(tokens.iter().copied()), &case.exact(&sampling));
    assert!(found < BORDER, "{found}");
    // Successive draws are independent: so are pairs of them.
    let pairs = tokens.windows(2).filter(|pair| pair[0] == pair[1]).count();
    assert!((5..=40).contains(&pairs), "{pairs} of about 20");
}

/// Every setting is told from its neighbours, so a sampler that got one wrong would be noticed.
#[test]
fn controls_of_the_test_of_distributions() {
    let case = Case::new(60);
    let different = |drawn: Sampling, claimed: Sampling| {
        let found = deviation(&case.by_seed(&drawn), &case.exact(&claimed));
        assert!(found > 2.0 * BORDER, "{drawn:?} passes for {claimed:?}: {found}");
    };
    let default = Sampling::default;
    different(default(), Sampling { temperature: 1.1, ..default() });
    different(Sampling { temperature: 1.1, ..default() }, default());
    different(Sampling { top_k: 6, ..default() }, Sampling { top_k: 5, ..default() });
    different(Sampling { top_k: 5, ..default() }, Sampling { top_k: 6, ..default() });
    different(Sampling { top_p: 0.9, ..default() }, Sampling { top_p: 0.8, ..default() });
    different(Sampling { min_p: 0.1, ..default() }, Sampling { min_p: 0.2, ..default() });
    let penalised = |repetition, presence, frequency| Sampling {
        repetition_penalty: repetition,
        presence_penalty: presence,
        frequency_penalty: frequency,
        ..default()
    };
    different(penalised(1.0, 0.0, 0.5), penalised(1.0, 0.5, 0.0));
    different(penalised(1.2, 0.0, 0.0), penalised(1.0, 0.0, 0.0));
    different(penalised(1.0, 0.0, 0.0), penalised(1.0, 0.3, 0.0));

    // A counter that is stuck: every request draws its first number again.
    let (free, mut scratch) = (Case { reply: Vec::new(), ..Case::new(60) }, Scratch::default());
    let stuck =
        free.count((0..DRAWS).map(|_| {
            Sampler::new(default(), &[], 64).sample(&free.row, &mut scratch).unwrap().token
        }));
    assert!(deviation(&stuck, &free.exact(&default())) > 100.0);
}

/// Rows as large as a real vocabulary go other ways (blocks, cuts): few draws each, same border.
#[test]
fn draws_from_a_large_vocabulary_have_the_exact_distribution() {
    let case = Case { reply: Vec::new(), ..Case::new(49_152) };
    for sampling in [
        Sampling { temperature: 0.4, ..Sampling::default() },
        Sampling { temperature: 1.0, top_k: 50, ..Sampling::default() },
        Sampling { temperature: 0.5, top_p: 0.6, ..Sampling::default() },
        Sampling { temperature: 0.6, min_p: 0.03, ..Sampling::default() },
    ] {
        let (mut sampler, mut scratch) =
            (Sampler::new(sampling.clone(), &[], 64), Scratch::default());
        let tokens = (0..3000).map(|_| sampler.sample(&case.row, &mut scratch).unwrap().token);
        let found = deviation(&case.count(tokens), &case.exact(&sampling));
        assert!(found < BORDER, "{sampling:?}: {found} standard deviations");
    }
}
