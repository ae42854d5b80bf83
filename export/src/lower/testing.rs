//! Parts of a layer by themselves, with weights from a seeded generator.

use std::ops::Index;

use tlaloc_artifact::{DType, EntryKind};

use super::Context;
use super::forms::{Orientation, Product};
use crate::plan::{Bucket, PoolShape};
use crate::slots::{
    LayerSlot, LayerWeight, LayerWeights, WeightDType, WeightLayout, WeightSlot, weight_slots,
};
use crate::spec::{EmbeddingTransform, HeadSpec, LayerSpec, ModelSpec};
use crate::stablehlo::{Function, Value};
use crate::support::Array;

/// What norms add to the mean square.
pub(super) const EPS: f32 = 1e-3;

/// Values from -1 to 1, the same for the same seed.
pub(super) fn random(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    std::iter::repeat_with(next).skip(8).take(count).collect()
}

/// The weights of a layer, as their files hold them.
#[derive(Clone)]
pub(super) struct Weights {
    slots: LayerWeights<WeightSlot>,
    values: LayerWeights<Vec<f32>>,
}

impl Weights {
    pub(super) fn random(layer: LayerSpec, hidden: usize) -> Weights {
        let spec = ModelSpec {
            family: "test",
            vocab_size: 1,
            hidden_size: hidden,
            norm_eps: EPS,
            max_positions: 1,
            embedding: EmbeddingTransform::None,
            layers: vec![layer],
            head: HeadSpec { tied: true, multiplier: 1.0, softcap: None },
            refused_tokens: Vec::new(),
            draft: None,
        };
        let slots =
            weight_slots(&spec, WeightDType::F32, WeightLayout::OutIn, None).layers.remove(0);
        let mut seed = 0;
        let values = slots.map(|_, slot| {
            seed += 1;
            random(seed, slot.dims.iter().product())
        });
        Weights { slots, values }
    }

    /// With `change` made to every value of `weight`.
    pub(super) fn with(self, weight: LayerWeight, change: impl Fn(f32) -> f32) -> Weights {
        let values = self.values.map(|key, values| match key == LayerSlot::Weight(weight) {
            true => values.iter().map(|&x| change(x)).collect(),
            false => values.clone(),
        });
        Weights { values, ..self }
    }

    /// A parameter for each.
    pub(super) fn parameters(&self, f: &mut Function) -> LayerWeights<Value> {
        self.slots.map(|key, slot| f.parameter(&key.name(""), slot.content.dtype(), &slot.dims))
    }

    /// The arguments for [`Weights::parameters`].
    pub(super) fn arguments(&self) -> Vec<Array> {
        let slots = self.slots.iter().zip(self.values.iter());
        slots.map(|(slot, values)| Array::f32(&slot.dims, values)).collect()
    }
}

impl Index<LayerWeight> for Weights {
    type Output = [f32];

    fn index(&self, weight: LayerWeight) -> &[f32] {
        &self.values[weight]
    }
}

/// What a layer needs to know of an entry that has no paged attention.
pub(super) fn context(
    kind: EntryKind,
    batch: usize,
    tokens: usize,
    state_slots: usize,
    orientation: Orientation,
) -> Context {
    Context {
        bucket: Bucket { kind, batch, context: tokens, tokens, verify: false },
        pools: PoolShape {
            num_blocks: 2,
            block_size: 1,
            windowed: None,
            kv_dtype: DType::F32,
            state_slots,
        },
        weight_dtype: DType::F32,
        layout: WeightLayout::OutIn,
        orientation,
        product: Product::F32,
        norm_eps: EPS,
        widest_at_once: 0,
    }
}

/// `[tokens, features]` values as activations lie.
pub(super) fn activations(cx: &Context, rows: &[f32]) -> Array {
    let (tokens, width) = (cx.tokens(), rows.len() / cx.tokens());
    let dims = cx.orientation.dims(width, tokens);
    match cx.orientation {
        Orientation::RowMajor => Array::f32(&dims, rows),
        Orientation::FeatureMajor => Array::f32(&dims, &transposed(rows, tokens, width)),
    }
}

/// The inverse of [`activations`].
pub(super) fn token_rows(cx: &Context, activations: &Array) -> Vec<f32> {
    let values = activations.f32s();
    match cx.orientation {
        Orientation::RowMajor => values,
        Orientation::FeatureMajor => transposed(&values, values.len() / cx.tokens(), cx.tokens()),
    }
}

fn transposed(values: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    (0..columns).flat_map(|c| (0..rows).map(move |r| values[r * columns + c])).collect()
}

/// `matrix · x`, with as many columns as `x` is long.
pub(super) fn times(matrix: &[f32], x: &[f64]) -> Vec<f64> {
    let row = |row: &[f32]| row.iter().zip(x).map(|(&w, x)| f64::from(w) * x).sum();
    matrix.chunks(x.len()).map(row).collect()
}

pub(super) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

pub(super) fn silu(x: f64) -> f64 {
    x * sigmoid(x)
}

/// The largest difference, as a part of the largest expected value.
pub(super) fn distance(found: &[f32], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let largest = expected.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
    let differences = found.iter().zip(expected).map(|(&x, y)| (f64::from(x) - y).abs());
    // NaN counts as far away.
    differences.fold(0.0, |most: f64, d| if d.is_nan() { f64::MAX } else { most.max(d) }) / largest
}
