//! Which tokens may be drawn, and the draw.
//!
//! min_p, top_k and top_p each keep a prefix of the tokens in one order: larger logit first, of
//! equal logits the lower id. What they keep together is a prefix as well, so none has to sort.

use std::cmp::Ordering;

use super::row::{self, Weights};

/// The distribution that a request asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Above 0.
    pub temperature: f32,
    /// 0: all.
    pub top_k: usize,
    /// In (0, 1]; 1: all.
    pub top_p: f64,
    /// In [0, 1]; 0: all.
    pub min_p: f64,
}

/// A token that may be drawn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    /// Larger for those that come first: the logit in an order of whole numbers, then the id.
    key: u64,
    /// exp((logit - largest logit) / temperature).
    weight: f64,
}

impl Candidate {
    fn new(logit: f32, token: usize) -> Candidate {
        // -0 becomes 0: they are equal. All bits of a negative number are turned round.
        let bits = (logit + 0.0).to_bits();
        let ordered = bits ^ (((bits as i32 >> 31) as u32) | 1 << 31);
        Candidate { key: u64::from(ordered) << 32 | u64::from(!(token as u32)), weight: 0.0 }
    }

    pub(super) fn token(&self) -> usize {
        !(self.key as u32) as usize
    }

    /// Larger logit first; of equal ones the lower id.
    pub(super) fn order(&self, other: &Candidate) -> Ordering {
        other.key.cmp(&self.key)
    }
}

/// Draws the token that belongs to `uniform` in [0, 1) from a row whose largest logit is `max`.
pub(super) fn draw(
    row: &[f32],
    max: f32,
    shape: Shape,
    uniform: f64,
    weights: &mut Weights,
    kept: &mut Vec<Candidate>,
) -> usize {
    let by_count = (1..row.len()).contains(&shape.top_k);
    let mut total = None;
    if by_count {
        top(row, shape.top_k, kept);
        let (max, temperature) = (f64::from(max), f64::from(shape.temperature));
        for candidate in kept.iter_mut() {
            let logit = f64::from(row[candidate.token()]);
            candidate.weight = ((logit - max) / temperature).exp();
        }
    } else {
        let sum = weights.fill(row, max, shape.temperature);
        if shape.min_p <= 0.0 && shape.top_p >= 1.0 {
            return weights.at(uniform * sum);
        }
        if shape.min_p > 0.0 {
            gather(row, weights, shape.min_p, kept);
        } else {
            gather_mass(row, weights, shape.top_p, sum, kept);
            total = Some(sum);
        }
    }
    if shape.min_p > 0.0 {
        kept.retain(|candidate| candidate.weight >= shape.min_p);
    }
    let total = total.unwrap_or_else(|| mass(kept));
    if shape.top_p < 1.0 {
        nucleus(kept, shape.top_p * total);
    }
    pick(kept, uniform)
}

/// The `count` first tokens in order, themselves in no order; fewer where logits are -inf.
pub(super) fn top(row: &[f32], count: usize, kept: &mut Vec<Candidate>) {
    let room = count.saturating_mul(2).max(64).min(row.len());
    kept.clear();
    kept.reserve(room);
    let mut floor = f32::NEG_INFINITY;
    row::each_above(row, floor, |index, logit| {
        kept.push(Candidate::new(logit, index));
        if kept.len() == room && count < room {
            keep_first(kept, count);
            // An equal logit further on has a higher id.
            floor = row[kept[count - 1].token()];
        }
        floor
    });
    keep_first(kept, count);
}

fn keep_first(kept: &mut Vec<Candidate>, count: usize) {
    if (1..kept.len()).contains(&count) {
        kept.select_nth_unstable_by(count - 1, Candidate::order);
        kept.truncate(count);
    }
}

/// Keeps every token whose weight is at least `floor`, and no others but of weights that f32 cannot
/// tell from it.
fn gather(row: &[f32], weights: &Weights, floor: f64, kept: &mut Vec<Candidate>) {
    kept.clear();
    kept.reserve(row.len());
    let below = (floor as f32).next_down().max(0.0);
    row::each_above(weights.all(), below, |index, weight| {
        kept.push(Candidate { weight: f64::from(weight), ..Candidate::new(row[index], index) });
        below
    });
}

/// Keeps a prefix that weighs the `share` of the `total`, and more.
fn gather_mass(row: &[f32], weights: &Weights, share: f64, total: f64, kept: &mut Vec<Candidate>) {
    // Most often a few tokens have most of the weight; each try costs one look at every weight.
    let mut floor = 1.0 / 16.0;
    // All tokens below this together weigh less than what is left out.
    let least = 0.5 * (1.0 - share) * total / row.len() as f64;
    loop {
        gather(row, weights, floor, kept);
        if floor <= least || mass(kept) >= share * total {
            return;
        }
        floor = (floor / 32.0).max(least);
    }
}

/// Keeps the shortest prefix in order whose weights sum to `target`, at least one token.
///
/// Halves the span in which the prefix ends, so the work is that of the halves' sums.
fn nucleus(kept: &mut Vec<Candidate>, target: f64) {
    let (mut low, mut high, mut before) = (0, kept.len(), 0.0);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        kept[low..high].select_nth_unstable_by(middle - low, Candidate::order);
        let upper = mass(&kept[low..middle]);
        if before + upper >= target {
            high = middle;
        } else {
            (low, before) = (middle, before + upper);
        }
    }
    kept.truncate(high);
}

fn mass(kept: &[Candidate]) -> f64 {
    kept.iter().map(|candidate| candidate.weight).sum()
}

/// Inverse of the cumulative distribution, in the order in which the tokens lie.
fn pick(kept: &[Candidate], uniform: f64) -> usize {
    let mut target = uniform * mass(kept);
    let mut last = 0;
    for candidate in kept.iter().filter(|candidate| candidate.weight > 0.0) {
        last = candidate.token();
        target -= candidate.weight;
        if target < 0.0 {
            break;
        }
    }
    last
}
