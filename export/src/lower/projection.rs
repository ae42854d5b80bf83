//! Products with weights.

use tlaloc_artifact::DType;

use super::Context;
use super::forms::{Orientation, Product};
use crate::slots::{Projection, WeightLayout};
use crate::stablehlo::{Binary, Function, Value};

#[cfg(test)]
mod tests;

/// Activations times the weight of a projection: `[in]` features become `[out]` features. Codes are
/// multiplied as they are, and each feature of the product by its scale.
///
/// In feature-major order no transpose may touch `h` or the result without an elementwise operation
/// between: the compiler would fold it into the product, which then takes a slow form.
pub(super) fn project(
    f: &mut Function,
    cx: &Context,
    h: &Value,
    Projection { matrix, scale }: Projection<'_, Value>,
) -> Value {
    let (matrix, h) = match (scale, cx.product) {
        (Some(_), product) => widened(f, product, matrix, h),
        (None, Product::F32) => (matrix.clone(), h.clone()),
        (None, Product::Bf16) => (matrix.clone(), f.convert(h, DType::Bf16)),
        (None, Product::WidenedBf16) => {
            let [matrix, h] = f.barrier([matrix, h]);
            (f.convert(&matrix, DType::F32), f.round_to_bf16(&h))
        }
    };
    let product = match (cx.orientation, cx.layout) {
        (Orientation::FeatureMajor, WeightLayout::OutIn) => f.dot(&matrix, &h, (1, 0)),
        (Orientation::FeatureMajor, WeightLayout::InOut) => f.dot(&matrix, &h, (0, 0)),
        (Orientation::RowMajor, WeightLayout::OutIn) => f.dot(&h, &matrix, (1, 1)),
        (Orientation::RowMajor, WeightLayout::InOut) => f.dot(&h, &matrix, (1, 0)),
    };
    match scale {
        Some(scale) => {
            let scale = f.broadcast(scale, product.dims(), &[cx.orientation.features()]);
            f.multiply(&product, &scale)
        }
        None => product,
    }
}

/// As [`project`], with an f32 weight `[out, in]` whatever the others are.
pub(super) fn exact(f: &mut Function, cx: &Context, h: &Value, weight: &Value) -> Value {
    match cx.orientation {
        Orientation::FeatureMajor => f.dot(weight, h, (1, 0)),
        Orientation::RowMajor => f.dot(h, weight, (1, 1)),
    }
}

/// Codes and activations in the type of their product. The barrier keeps the compiler from widening
/// every weight at the start of the step.
fn widened(f: &mut Function, product: Product, codes: &Value, h: &Value) -> (Value, Value) {
    let [codes, h] = f.barrier([codes, h]);
    match product {
        Product::F32 => (widen(f, &codes), h),
        Product::Bf16 => (f.convert(&codes, DType::Bf16), f.convert(&h, DType::Bf16)),
        Product::WidenedBf16 => (widen(f, &codes), f.round_to_bf16(&h)),
    }
}

/// Codes as f32. An 8-bit float's bits, spread out, are those of a half-precision number 256 times as
/// small, subnormals included (NaN excluded, which is no code): the compiler widens these at a fraction
/// of the time.
pub(super) fn widen(f: &mut Function, codes: &Value) -> Value {
    if codes.dtype() != DType::F8E4M3Fn {
        return f.convert(codes, DType::F32);
    }
    let bits = f.bitcast(codes, DType::I8);
    let bits = f.convert(&bits, DType::I16);
    let bits = f.with_int(Binary::ShiftLeft, &bits, 7);
    // The sign was extended into the highest bit of the exponent.
    let bits = f.with_int(Binary::And, &bits, !(1 << 14));
    let halves = f.bitcast(&bits, DType::F16);
    let values = f.convert(&halves, DType::F32);
    f.with_float(Binary::Multiply, &values, 256.0)
}
