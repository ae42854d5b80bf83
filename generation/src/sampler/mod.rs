//! Chooses the next token of a request from the logits of a row.
//!
//! In this order, which is vLLM's: tokens that are not allowed and bad words are excluded, then
//! stop tokens before `min_tokens`; `logit_bias`; penalties; greedy requests take the largest logit
//! here; temperature, `min_p`, `top_k`, `top_p`; one draw. Log-probabilities are those of the
//! model's own logits, before any of it.
//!
//! A token depends on the row, the request, its earlier tokens and its number, and on nothing else:
//! not on the other rows of a call, nor on when or how often the request was preempted.

mod draw;
mod edits;
mod random;
mod row;

use draw::{Candidate, Shape};
use edits::Edits;
use random::RandomStream;
use row::Weights;

/// How a request wants its tokens chosen. Token ids are below the vocabulary's size; one that is
/// not has no logit to change.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// Divides the logits. Below 1e-5, as in vLLM: the largest logit is taken, of equal ones the
    /// lowest id.
    pub temperature: f64,
    /// Only this many tokens of the largest logits may be drawn; 0: all.
    pub top_k: usize,
    /// In (0, 1]: only the fewest tokens whose probabilities sum to this may be drawn, the most
    /// probable first. It counts within what `top_k` and `min_p` leave.
    pub top_p: f64,
    /// In [0, 1]: only tokens at least this times as probable as the most probable may be drawn.
    pub min_p: f64,
    /// Above 0: positive logits of the tokens of prompt and reply are divided by it, others
    /// multiplied. 1: none.
    pub repetition_penalty: f64,
    /// Subtracted from the logit of every token that the reply holds.
    pub presence_penalty: f64,
    /// Subtracted from the logit of every token, times its count in the reply.
    pub frequency_penalty: f64,
    /// Of the request's random stream.
    pub seed: u64,
    /// Token sequences that the reply may not hold.
    pub bad_words: Vec<Vec<i32>>,
    /// If given, no other token may be chosen.
    pub allowed: Option<Vec<i32>>,
    /// Added to the logits.
    pub logit_bias: Vec<(i32, f32)>,
    /// How many tokens are generated before one of `stop_ids` may be chosen.
    pub min_tokens: usize,
    /// The tokens that end the reply, and that `min_tokens` excludes.
    pub stop_ids: Vec<i32>,
    /// Log-probabilities: none; or of the chosen token and this many of the most probable ones.
    pub logprobs: Option<usize>,
}

impl Default for Sampling {
    /// One draw from the model's own distribution, as vLLM's defaults.
    fn default() -> Sampling {
        Sampling {
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            seed: 0,
            bad_words: Vec::new(),
            allowed: None,
            logit_bias: Vec::new(),
            min_tokens: 0,
            stop_ids: Vec::new(),
            logprobs: None,
        }
    }
}

/// A chosen token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice<'s> {
    /// Its id.
    pub token: i32,
    /// Its log-probability, if the request asks for any.
    pub logprob: Option<Logprob>,
    /// The most probable tokens, the most probable first, as many as the request asks for (fewer
    /// where the model excludes tokens with -inf).
    pub top: &'s [Logprob],
}

/// What the model itself thinks of a token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Logprob {
    /// Its id.
    pub token: i32,
    /// The natural logarithm of its probability.
    pub logprob: f64,
    /// 1 for the most probable token; tokens of the same logit share a rank.
    pub rank: usize,
}

/// Why no token can be chosen from a row.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum SampleError {
    /// The model computed nonsense, for this row at least: the request ends, others go on.
    #[error("the model's logits are not finite: {value} for token {token}")]
    NotFinite {
        /// The first such token.
        token: usize,
        /// NaN or +inf.
        value: f32,
    },
    /// The model excludes every token.
    #[error("the model's logits are not finite: all {vocab} are -inf")]
    AllExcluded {
        /// How many logits a row has.
        vocab: usize,
    },
    /// The request excludes every token itself.
    #[error(
        "no token can be chosen: allowed_token_ids, bad_words and min_tokens together exclude all \
         {vocab} tokens; loosen one of them"
    )]
    NothingLeft {
        /// How many logits a row has.
        vocab: usize,
    },
}

/// Memory that choices are made in: one for all requests of a thread. Once it has grown to the
/// vocabulary, no choice allocates.
#[derive(Debug, Default)]
pub struct Scratch {
    /// A row whose bytes do not lie as f32.
    copied: Vec<f32>,
    edited: Vec<f32>,
    weights: Weights,
    kept: Vec<Candidate>,
    top: Vec<Logprob>,
}

/// The sampler of one request, for its whole life: it outlives preemptions.
#[derive(Debug)]
pub struct Sampler {
    edits: Edits,
    random: RandomStream,
    /// None: greedy.
    shape: Option<Shape>,
    logprobs: Option<usize>,
    generated: u64,
}

/// vLLM's border between sampling and greedy.
const LEAST_TEMPERATURE: f64 = 1e-5;

impl Sampler {
    /// For a request with this prompt, from its first token on. Memory for `max_tokens` of them is
    /// set aside now.
    pub fn new(sampling: Sampling, prompt: &[i32], max_tokens: usize) -> Sampler {
        let Sampling { temperature, top_k, top_p, min_p, .. } = sampling;
        let shape = Shape { temperature: temperature as f32, top_k, top_p, min_p };
        Sampler {
            random: RandomStream::new(sampling.seed),
            shape: (temperature >= LEAST_TEMPERATURE).then_some(shape),
            logprobs: sampling.logprobs,
            edits: Edits::new(sampling, prompt, max_tokens),
            generated: 0,
        }
    }

    /// How many tokens were chosen so far.
    pub fn generated(&self) -> u64 {
        self.generated
    }

    /// Chooses the request's next token from `logits` `[vocab]` and takes note of it: the next
    /// call is for the position after it. After an error nothing has changed.
    ///
    /// The rows of a verify call are asked one after the other, until a token differs from its
    /// draft: every token chosen on the way is the request's.
    pub fn sample<'s>(
        &mut self,
        logits: &[f32],
        scratch: &'s mut Scratch,
    ) -> Result<Choice<'s>, SampleError> {
        let Scratch { edited, weights, kept, top, .. } = scratch;
        let max = row::largest(logits)?;
        let (row, row_max) = if self.edits.any() {
            self.edits.apply(logits, edited);
            let max = row::largest(edited)
                .map_err(|_| SampleError::NothingLeft { vocab: logits.len() })?;
            (edited.as_slice(), max)
        } else {
            (logits, max)
        };
        let token = match self.shape {
            None => row::first(row, row_max),
            Some(shape) => {
                let uniform = self.random.uniform(self.generated);
                draw::draw(row, row_max, shape, uniform, weights, kept)
            }
        };
        top.clear();
        let logprob = self.logprobs.map(|count| {
            let logarithm = f64::from(max) + weights.fill(logits, max, 1.0).ln();
            if count > 0 {
                draw::top(logits, count, kept);
                kept.sort_unstable_by(Candidate::order);
                rank(logits, kept, logarithm, top);
            }
            Logprob {
                token: token as i32,
                logprob: f64::from(logits[token]) - logarithm,
                rank: 1 + row::above(logits, logits[token]),
            }
        });
        self.edits.record(token as i32);
        self.generated += 1;
        Ok(Choice { token: token as i32, logprob, top })
    }

    /// As [`Sampler::sample`], from little-endian f32 as a device leaves them. They are read where
    /// they lie if their address allows.
    pub fn sample_bytes<'s>(
        &mut self,
        logits: &[u8],
        scratch: &'s mut Scratch,
    ) -> Result<Choice<'s>, SampleError> {
        if let Ok(logits) = bytemuck::try_cast_slice(logits) {
            return self.sample(logits, scratch);
        }
        let mut copied = std::mem::take(&mut scratch.copied);
        copied.clear();
        copied.extend(logits.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)));
        let chosen = self.sample(&copied, scratch).map(|choice| (choice.token, choice.logprob));
        scratch.copied = copied;
        let (token, logprob) = chosen?;
        Ok(Choice { token, logprob, top: &scratch.top })
    }
}

/// The log-probabilities of tokens in order, where the logits' exponentials sum to
/// exp(`logarithm`).
fn rank(logits: &[f32], ordered: &[Candidate], logarithm: f64, top: &mut Vec<Logprob>) {
    let (mut before, mut rank) = (f32::NAN, 0);
    for (index, candidate) in ordered.iter().enumerate() {
        let token = candidate.token();
        if logits[token] != before {
            (before, rank) = (logits[token], index + 1);
        }
        let logprob = f64::from(logits[token]) - logarithm;
        top.push(Logprob { token: token as i32, logprob, rank });
    }
}
