//! Products with weights.

use tlaloc_artifact::DType;

use super::Context;
use super::forms::{Orientation, Product};
use crate::slots::WeightLayout;
use crate::stablehlo::{Function, Value};

/// Activations times the weight of a projection: `[in]` features become `[out]` features.
///
/// In feature-major order no transpose may touch `h` or the result without an elementwise operation
/// between: the compiler would fold it into the product, which then takes a slow form.
pub(super) fn project(f: &mut Function, cx: &Context, h: &Value, weight: &Value) -> Value {
    let (weight, h) = match cx.product {
        Product::F32 => (weight.clone(), h.clone()),
        Product::Bf16 => (weight.clone(), f.convert(h, DType::Bf16)),
        Product::WidenedBf16 => {
            let [weight, h] = f.barrier([weight, h]);
            (f.convert(&weight, DType::F32), f.round_to_bf16(&h))
        }
    };
    match (cx.orientation, cx.layout) {
        (Orientation::FeatureMajor, WeightLayout::OutIn) => f.dot(&weight, &h, (1, 0)),
        (Orientation::FeatureMajor, WeightLayout::InOut) => f.dot(&weight, &h, (0, 0)),
        (Orientation::RowMajor, WeightLayout::OutIn) => f.dot(&h, &weight, (1, 1)),
        (Orientation::RowMajor, WeightLayout::InOut) => f.dot(&h, &weight, (1, 0)),
    }
}

/// As [`project`], with an f32 weight `[out, in]` whatever the others are.
pub(super) fn exact(f: &mut Function, cx: &Context, h: &Value, weight: &Value) -> Value {
    match cx.orientation {
        Orientation::FeatureMajor => f.dot(weight, h, (1, 0)),
        Orientation::RowMajor => f.dot(h, weight, (1, 1)),
    }
}
