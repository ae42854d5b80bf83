//! Passes over a whole row of logits, eight lanes at a time.

use wide::f32x8;

use super::SampleError;

const LANES: usize = 8;

/// The largest logit. Refuses a row that no token can be chosen from.
pub(super) fn largest(row: &[f32]) -> Result<f32, SampleError> {
    let (chunks, tail) = row.as_chunks::<LANES>();
    let (mut high, mut sound) = ([f32x8::splat(f32::NEG_INFINITY); 2], [f32x8::splat(1.0); 2]);
    let limit = f32x8::splat(f32::INFINITY);
    let (pairs, single) = chunks.as_chunks::<2>();
    let single = single.iter().map(|&chunk| [chunk, [f32::NEG_INFINITY; LANES]]);
    for pair in pairs.iter().copied().chain(single) {
        for half in 0..2 {
            let values = f32x8::new(pair[half]);
            high[half] = high[half].fast_max(values);
            // False for NaN too.
            sound[half] &= values.simd_lt(limit);
        }
    }
    let lanes = (sound[0] & sound[1]).to_array();
    let sound = lanes.iter().all(|&lane| lane == 1.0) && tail.iter().all(|&x| x < f32::INFINITY);
    if !sound {
        let unsound = row.iter().position(|&x| x.is_nan() || x == f32::INFINITY);
        let token = unsound.unwrap_or_default();
        return Err(SampleError::NotFinite {
            token,
            value: row.get(token).copied().unwrap_or(0.0),
        });
    }
    let high = high[0].fast_max(high[1]).to_array();
    let high = high.iter().chain(tail).copied().fold(f32::NEG_INFINITY, f32::max);
    let excluded = high == f32::NEG_INFINITY;
    if excluded { Err(SampleError::AllExcluded { vocab: row.len() }) } else { Ok(high) }
}

/// The first index that holds `value`, 0 if none does.
pub(super) fn first(row: &[f32], value: f32) -> usize {
    let (chunks, tail) = row.as_chunks::<LANES>();
    let wanted = f32x8::splat(value);
    let before = chunks.iter().position(|&chunk| f32x8::new(chunk).simd_eq(wanted).any());
    let start = before.unwrap_or(chunks.len()) * LANES;
    let rest = if before.is_some() { &row[start..] } else { tail };
    rest.iter().position(|&x| x == value).map_or(0, |offset| start + offset)
}

/// How many logits are above `value`.
pub(super) fn above(row: &[f32], value: f32) -> usize {
    row.iter().map(|&x| u32::from(x > value)).sum::<u32>() as usize
}

/// Hands over each logit above `floor` with its index, in order. `take` answers the floor that
/// holds from then on.
pub(super) fn each_above(row: &[f32], mut floor: f32, mut take: impl FnMut(usize, f32) -> f32) {
    let (chunks, tail) = row.as_chunks::<LANES>();
    let mut visit = |start: usize, values: &[f32], floor: &mut f32| {
        for (offset, &value) in values.iter().enumerate() {
            if value > *floor {
                *floor = take(start + offset, value);
            }
        }
    };
    for (index, chunk) in chunks.iter().enumerate() {
        if f32x8::new(*chunk).simd_gt(f32x8::splat(floor)).any() {
            visit(index * LANES, chunk, &mut floor);
        }
    }
    visit(chunks.len() * LANES, tail, &mut floor);
}

/// exp((x - max) / temperature) of every logit, and its sums by block.
///
/// Each weight is within 2^-21 of its value, relatively; a sum adds 32 of them per lane in f32.
#[derive(Debug, Default)]
pub(super) struct Weights {
    of: Vec<f32>,
    /// Of `BLOCK` weights each, the last of what is left.
    sums: Vec<f64>,
}

const BLOCK: usize = 32 * LANES;

impl Weights {
    /// Fills in a row whose largest logit is `max`; the sum of all weights.
    pub(super) fn fill(&mut self, row: &[f32], max: f32, temperature: f32) -> f64 {
        self.of.resize(row.len(), 0.0);
        self.sums.clear();
        let (max_lanes, divisor) = (f32x8::splat(max), f32x8::splat(temperature));
        for (from, to) in row.chunks(BLOCK).zip(self.of.chunks_mut(BLOCK)) {
            let (from, from_tail) = from.as_chunks::<LANES>();
            let (to, to_tail) = to.as_chunks_mut::<LANES>();
            let mut sum = f32x8::ZERO;
            let mut one = |values: [f32; LANES]| {
                let weights = ((f32x8::new(values) - max_lanes) / divisor).exp();
                sum += weights;
                weights.to_array()
            };
            for (from, to) in from.iter().zip(to) {
                *to = one(*from);
            }
            if !from_tail.is_empty() {
                let mut values = [f32::NEG_INFINITY; LANES];
                values[..from_tail.len()].copy_from_slice(from_tail);
                to_tail.copy_from_slice(&one(values)[..from_tail.len()]);
            }
            self.sums.push(sum.to_array().iter().map(|&lane| f64::from(lane)).sum());
        }
        self.sums.iter().sum()
    }

    /// The weights, by token.
    pub(super) fn all(&self) -> &[f32] {
        &self.of
    }

    /// The first token up to which the weights' sum is above `target`, which is below their total.
    pub(super) fn at(&self, mut target: f64) -> usize {
        let mut block = 0;
        for (index, &sum) in self.sums.iter().enumerate().filter(|&(_, &sum)| sum > 0.0) {
            block = index;
            if target < sum {
                break;
            }
            target -= sum;
        }
        let start = block * BLOCK;
        let weights = self.of.get(start..).unwrap_or_default();
        let mut last = 0;
        for (offset, &weight) in weights.iter().take(BLOCK).enumerate() {
            if weight > 0.0 {
                last = offset;
                target -= f64::from(weight);
                if target < 0.0 {
                    break;
                }
            }
        }
        start + last
    }
}
