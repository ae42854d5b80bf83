//! Passes over a whole row of logits, eight lanes at a time.

use wide::{f32x8, i32x8};

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
/// Each weight is within 2^-20 of its value, relatively; a sum adds 32 of them per lane in f32.
#[derive(Debug, Default)]
pub(super) struct Weights {
    of: Vec<f32>,
    /// Of `BLOCK` weights each, the last of what is left.
    sums: Vec<f64>,
}

const BLOCK: usize = 32 * LANES;

/// e^x of numbers up to 0, -inf too; 0 below e^-87. Relatively within 2^-22 of the value.
///
/// A third of the work of the library's, which covers all numbers.
fn exp(x: f32x8) -> f32x8 {
    // ln(2) in two parts: the first has few digits, so that its multiples are exact.
    const LN_2: (f32, f32) = (0.693_359_4, -2.121_944_4e-4);
    let least = f32x8::splat(-87.0);
    let inside = x.simd_ge(least);
    let power = (x.fast_max(least) * f32x8::splat(std::f32::consts::LOG2_E)).fast_round_int();
    let multiple = f32x8::from_i32x8(power);
    let rest = x - multiple * f32x8::splat(LN_2.0) - multiple * f32x8::splat(LN_2.1);
    // Taylor's series: |rest| is at most ln(2) / 2.
    let mut sum = f32x8::splat(1.0 / 5040.0);
    for divisor in [720.0, 120.0, 24.0, 6.0, 2.0, 1.0, 1.0] {
        sum = sum * rest + f32x8::splat(1.0 / divisor);
    }
    let two_to_power: f32x8 = bytemuck::cast((power + i32x8::splat(127)) << 23);
    (sum * two_to_power) & inside
}

impl Weights {
    /// Fills in a row whose largest logit is `max`; the sum of all weights.
    pub(super) fn fill(&mut self, row: &[f32], max: f32, temperature: f32) -> f64 {
        self.of.resize(row.len(), 0.0);
        self.sums.clear();
        let (max, factor) = (f32x8::splat(max), f32x8::splat(temperature.recip()));
        for (from, to) in row.chunks(BLOCK).zip(self.of.chunks_mut(BLOCK)) {
            let (from, from_tail) = from.as_chunks::<LANES>();
            let (to, to_tail) = to.as_chunks_mut::<LANES>();
            let mut sum = f32x8::ZERO;
            let mut one = |values: [f32; LANES]| {
                let weights = exp((f32x8::new(values) - max) * factor);
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

    /// The first token up to which the weights' sum is above `target`.
    pub(super) fn at(&self, target: f64) -> usize {
        // Where rounding leaves a rest, it is the last token with a weight.
        let (mut block, mut inside, mut rest) = (0, 0.0, target);
        for (index, &sum) in self.sums.iter().enumerate().filter(|&(_, &sum)| sum > 0.0) {
            (block, inside) = (index, rest);
            if rest < sum {
                break;
            }
            rest -= sum;
        }
        let start = block * BLOCK;
        let weights = self.of.get(start..).unwrap_or_default();
        let mut last = 0;
        for (offset, &weight) in weights.iter().take(BLOCK).enumerate() {
            if weight > 0.0 {
                last = offset;
                inside -= f64::from(weight);
                if inside < 0.0 {
                    break;
                }
            }
        }
        start + last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponentials_are_those_of_f64() {
        let mut worst: f64 = 0.0;
        for step in 0..1_000_000 {
            let x = step as f32 * -87e-6;
            let found = f64::from(exp(f32x8::splat(x)).to_array()[0]);
            worst = worst.max((found / f64::from(x).exp() - 1.0).abs());
        }
        assert!(worst < 2f64.powi(-22), "{worst:e}");
        assert_eq!(exp(f32x8::ZERO), f32x8::splat(1.0));
        for x in [f32::NEG_INFINITY, f32::MIN, -87.1] {
            assert_eq!(exp(f32x8::splat(x)), f32x8::ZERO, "{x}");
        }
    }

    #[test]
    fn weights_and_their_sums_fit_rows_of_any_length() {
        for vocab in [1, 7, 8, 9, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 13] {
            let row: Vec<f32> = (0..vocab).map(|token| -((token * 7 % 11) as f32)).collect();
            let exact: Vec<f64> = row.iter().map(|&x| (f64::from(x) / 2.0).exp()).collect();
            let mut weights = Weights::default();
            // What an earlier, longer row left does not count.
            weights.fill(&[0.0; 5 * BLOCK], 0.0, 1.0);
            let total = weights.fill(&row, 0.0, 2.0);
            assert_eq!(weights.all().len(), vocab);
            assert!((total / exact.iter().sum::<f64>() - 1.0).abs() < 1e-6);
            // The token of a number is the one whose part of the sum it falls into.
            let mut before = 0.0;
            for (token, weight) in exact.iter().enumerate() {
                assert_eq!(weights.at(before + 0.5 * weight), token);
                before += weight;
            }
            assert_eq!(weights.at(total), vocab - 1, "rounding does not leave the row");
        }
    }
}
