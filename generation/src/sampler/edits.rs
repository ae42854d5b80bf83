//! What a request changes in a row of logits before a token is chosen from it.

use std::collections::HashMap;

use super::Sampling;

/// The changes, and what has to be known of the tokens so far to make them.
#[derive(Debug)]
pub(super) struct Edits {
    allowed: Option<Vec<i32>>,
    bad_words: Vec<Vec<i32>>,
    logit_bias: Vec<(i32, f32)>,
    min_tokens: usize,
    stop_ids: Vec<i32>,
    penalties: Option<Penalties>,
    /// The newest generated tokens, as many as a bad word can begin with.
    newest: Vec<i32>,
    generated: usize,
}

impl Edits {
    pub(super) fn new(sampling: Sampling, prompt: &[i32], max_tokens: usize) -> Edits {
        let beginning = sampling.bad_words.iter().map(|word| word.len().saturating_sub(1)).max();
        Edits {
            penalties: Penalties::new(&sampling, prompt, max_tokens),
            allowed: sampling.allowed,
            bad_words: sampling.bad_words,
            logit_bias: sampling.logit_bias,
            min_tokens: sampling.min_tokens,
            stop_ids: sampling.stop_ids,
            newest: Vec::with_capacity(beginning.unwrap_or_default()),
            generated: 0,
        }
    }

    /// Whether the next token is chosen from other logits than the model's.
    pub(super) fn any(&self) -> bool {
        self.allowed.is_some()
            || !self.logit_bias.is_empty()
            || self.penalties.is_some()
            || self.stops_excluded()
            || self.excluded_by_bad_words().next().is_some()
    }

    /// Makes the changes. A token excluded by one is not brought back by another.
    pub(super) fn apply(&self, logits: &[f32], row: &mut Vec<f32>) {
        row.clear();
        match &self.allowed {
            None => row.extend_from_slice(logits),
            Some(allowed) => {
                row.resize(logits.len(), f32::NEG_INFINITY);
                for (&token, &logit) in allowed.iter().filter_map(|t| Some((t, at(logits, *t)?))) {
                    change(row, token, |_| logit);
                }
            }
        }
        for token in self.excluded_by_bad_words() {
            change(row, token, |_| f32::NEG_INFINITY);
        }
        if self.stops_excluded() {
            for &token in &self.stop_ids {
                change(row, token, |_| f32::NEG_INFINITY);
            }
        }
        for &(token, bias) in &self.logit_bias {
            change(row, token, |logit| logit + bias);
        }
        if let Some(penalties) = &self.penalties {
            penalties.apply(row);
        }
    }

    /// Takes note of a generated token.
    pub(super) fn record(&mut self, token: i32) {
        self.generated += 1;
        if self.newest.capacity() > 0 {
            if self.newest.len() == self.newest.capacity() {
                self.newest.remove(0);
            }
            self.newest.push(token);
        }
        if let Some(penalties) = &mut self.penalties {
            penalties.record(token);
        }
    }

    fn stops_excluded(&self) -> bool {
        self.generated < self.min_tokens && !self.stop_ids.is_empty()
    }

    /// The last token of each bad word whose others are the newest tokens.
    fn excluded_by_bad_words(&self) -> impl Iterator<Item = i32> {
        let words = self.bad_words.iter().filter_map(|word| word.split_last());
        words.filter(|(_, beginning)| self.newest.ends_with(beginning)).map(|(&last, _)| last)
    }
}

/// The value of a token, if the row has one.
fn at(row: &[f32], token: i32) -> Option<&f32> {
    row.get(usize::try_from(token).ok()?)
}

/// Changes the logit of one token. What is finite stays finite, what is excluded stays excluded.
fn change(row: &mut [f32], token: i32, edit: impl FnOnce(f32) -> f32) {
    let logit = usize::try_from(token).ok().and_then(|token| row.get_mut(token));
    if let Some(logit) = logit {
        let edited = edit(*logit);
        let excluded = edited == f32::NEG_INFINITY;
        *logit = if excluded { edited } else { edited.clamp(f32::MIN, f32::MAX) };
    }
}

/// Penalties for tokens that stand in the prompt or were generated before.
#[derive(Debug)]
struct Penalties {
    repetition: f32,
    presence: f32,
    frequency: f32,
    seen: Vec<Seen>,
    /// Where a token stands in `seen`.
    places: HashMap<i32, usize>,
}

#[derive(Debug)]
struct Seen {
    token: i32,
    /// How often it was generated.
    generated: u32,
}

impl Penalties {
    /// None if the request asks for none.
    fn new(sampling: &Sampling, prompt: &[i32], max_tokens: usize) -> Option<Penalties> {
        let Sampling { repetition_penalty, presence_penalty, frequency_penalty, .. } = *sampling;
        if repetition_penalty == 1.0 && presence_penalty == 0.0 && frequency_penalty == 0.0 {
            return None;
        }
        let mut penalties = Penalties {
            repetition: repetition_penalty as f32,
            presence: presence_penalty as f32,
            frequency: frequency_penalty as f32,
            seen: Vec::new(),
            places: HashMap::new(),
        };
        // Only the repetition penalty looks at the prompt.
        if repetition_penalty != 1.0 {
            for &token in prompt {
                penalties.seen(token);
            }
        }
        penalties.seen.reserve(max_tokens);
        penalties.places.reserve(max_tokens);
        Some(penalties)
    }

    fn record(&mut self, token: i32) {
        self.seen(token).generated += 1;
    }

    fn seen(&mut self, token: i32) -> &mut Seen {
        let place = *self.places.entry(token).or_insert(self.seen.len());
        if place == self.seen.len() {
            self.seen.push(Seen { token, generated: 0 });
        }
        &mut self.seen[place]
    }

    fn apply(&self, row: &mut [f32]) {
        for seen in &self.seen {
            change(row, seen.token, |logit| {
                let divided = logit > 0.0;
                let logit = if divided { logit / self.repetition } else { logit * self.repetition };
                match seen.generated {
                    0 => logit,
                    count => logit - self.frequency * count as f32 - self.presence,
                }
            });
        }
    }
}
