//! The distribution of a request's next token, written a second time: slow, in f64, by sorting.

#![allow(dead_code)] // each test uses its part

use tlaloc_generation::sampler::Sampling;

/// Numbers in [0, 1) for test data, not random enough for anything else.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as f64 / (1u64 << 31) as f64
    }

    /// Logits as of a model: most small, a few large.
    pub fn logits(&mut self, vocab: usize) -> Vec<f32> {
        (0..vocab).map(|_| (self.next() * 4.0 - self.next().ln() * 1.5) as f32).collect()
    }
}

/// The logits that the token is chosen from, after everything that stands before greedy choice.
pub fn edited(logits: &[f32], sampling: &Sampling, prompt: &[i32], reply: &[i32]) -> Vec<f64> {
    let excluded_by_bad_word = |token: i32| {
        sampling.bad_words.iter().any(|word| {
            let mut so_far = reply.to_vec();
            so_far.push(token);
            so_far.ends_with(word)
        })
    };
    let edit = |(token, &logit): (usize, &f32)| {
        let token = token as i32;
        let allowed = sampling.allowed.as_ref().is_none_or(|allowed| allowed.contains(&token));
        let stops_early = reply.len() < sampling.min_tokens && sampling.stop_ids.contains(&token);
        if !allowed || excluded_by_bad_word(token) || stops_early {
            return f64::NEG_INFINITY;
        }
        let biases = sampling.logit_bias.iter().filter(|(biased, _)| *biased == token);
        let mut logit = f64::from(logit) + biases.map(|(_, bias)| f64::from(*bias)).sum::<f64>();
        let count = reply.iter().filter(|&&generated| generated == token).count();
        if count > 0 || prompt.contains(&token) {
            let factor = sampling.repetition_penalty;
            logit = if logit > 0.0 { logit / factor } else { logit * factor };
        }
        logit -= sampling.frequency_penalty * count as f64;
        if count > 0 { logit - sampling.presence_penalty } else { logit }
    };
    logits.iter().enumerate().map(edit).collect()
}

/// The probability of every token. Temperature is above 0.
pub fn probabilities(logits: &[f64], sampling: &Sampling) -> Vec<f64> {
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]).then(a.cmp(&b)));
    let softmax = |kept: &[usize]| -> Vec<f64> {
        let raised = |&token: &usize| (logits[token] / sampling.temperature).exp();
        let total: f64 = kept.iter().map(raised).sum();
        kept.iter().map(|token| raised(token) / total).collect()
    };
    let of = softmax(&order);
    let mut kept = order.iter().zip(&of).filter(|(_, p)| **p >= sampling.min_p * of[0]).count();
    if sampling.top_k > 0 {
        kept = kept.min(sampling.top_k);
    }
    order.truncate(kept);
    let (mut sum, mut prefix) = (0.0, 0);
    for p in softmax(&order) {
        prefix += 1;
        sum += p;
        if sampling.top_p < 1.0 && sum >= sampling.top_p {
            break;
        }
    }
    order.truncate(prefix);
    let mut all = vec![0.0; logits.len()];
    for (token, p) in order.iter().zip(softmax(&order)) {
        all[*token] = p;
    }
    all
}
