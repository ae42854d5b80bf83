//! How activations lie and how products with weights are written, by weight dtype, layout and rows.
//!
//! Measured on SmolLM2-135M with the default CPU plugin, whole steps:
//!
//! * f32 `[out, in]`: feature-major activations (`W · h`) beat row-major ones by 8 % at two and more
//!   rows and are level at one row and in prefill.
//! * bf16 `[out, in]`: at one row a bf16 dot is expanded slowly (174 ms a step); widening the weight
//!   to f32 just before the product takes 18 ms. From two rows on the bf16 dot is right, but only as
//!   `h · Wᵀ` with row-major activations (`W · h` took 106 ms), and widening fails at run.
//! * 8-bit codes: widened to the type of the product just before it, behind a barrier, in the
//!   orientation of the weight dtype. Without the barrier all codes are widened at the start of the
//!   step (425 MB of temporary memory instead of 7, ten times the time).
//! * `[in, out]`: `h · W`, row-major; contracting the first dimension of a left operand is ten times
//!   slower.

use tlaloc_artifact::DType;

use crate::slots::WeightLayout;

/// Where the features of activations lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Orientation {
    /// `[features, tokens]`.
    FeatureMajor,
    /// `[tokens, features]`.
    RowMajor,
}

impl Orientation {
    pub(super) fn choose(weights: DType, layout: WeightLayout, tokens: usize) -> Orientation {
        match (layout, weights) {
            (WeightLayout::OutIn, DType::F32) => Orientation::FeatureMajor,
            (WeightLayout::OutIn, _) if tokens == 1 => Orientation::FeatureMajor,
            _ => Orientation::RowMajor,
        }
    }

    /// The dimension of activations that holds features.
    pub(super) fn features(self) -> usize {
        match self {
            Orientation::FeatureMajor => 0,
            Orientation::RowMajor => 1,
        }
    }

    /// The dimension of activations that holds tokens.
    pub(super) fn tokens(self) -> usize {
        1 - self.features()
    }

    /// Shape of activations.
    pub(super) fn dims(self, features: usize, tokens: usize) -> [usize; 2] {
        match self {
            Orientation::FeatureMajor => [features, tokens],
            Orientation::RowMajor => [tokens, features],
        }
    }

    /// Shape of activations with the features split in heads.
    pub(super) fn head_dims(self, heads: usize, head_dim: usize, tokens: usize) -> [usize; 3] {
        match self {
            Orientation::FeatureMajor => [heads, head_dim, tokens],
            Orientation::RowMajor => [tokens, heads, head_dim],
        }
    }
}

/// The arithmetic of a product with a weight; sums are f32 in all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Product {
    /// Both operands f32.
    F32,
    /// Both operands bf16, the activations rounded to it.
    Bf16,
    /// As [`Product::Bf16`], with both operands widened to f32 behind a barrier, which keeps the
    /// compiler from widening every weight at the start of the step.
    WidenedBf16,
}

impl Product {
    pub(super) fn choose(weights: DType, layout: WeightLayout, tokens: usize) -> Product {
        match (weights, layout) {
            (DType::F32, _) => Product::F32,
            (_, WeightLayout::OutIn) if tokens == 1 => Product::WidenedBf16,
            _ => Product::Bf16,
        }
    }
}
