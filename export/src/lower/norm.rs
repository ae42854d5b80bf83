//! Root-mean-square norms.

use super::Context;
use super::forms::Orientation;
use crate::stablehlo::{Binary, Function, Reduce, Unary, Value};

/// Up to this many tokens the sum of squares is a dot: the compiler splits a reduce into three
/// kernels. Above, the reduce is faster.
const MOST_TOKENS_OF_DOT: usize = 16;

/// `x / sqrt(mean(x²) + eps) * gain` over the features of each token.
pub(super) fn rms(
    f: &mut Function,
    cx: &Context,
    x: &Value,
    gain: Option<&Value>,
    eps: f32,
) -> Value {
    let (features, tokens) = (cx.orientation.features(), cx.orientation.tokens());
    let (width, count) = (x.dims()[features], x.dims()[tokens]);
    let squares = if count > MOST_TOKENS_OF_DOT {
        let squared = f.multiply(x, x);
        f.reduce(Reduce::Add, &squared, features)
    } else if count == 1 {
        let sum = f.dot(x, x, (features, features));
        f.reshape(&sum, &[1])
    } else {
        f.dot_per_index(x, x, tokens)
    };
    scaled(f, x, &squares, &[tokens], width, features, gain, eps)
}

/// As [`rms`], over the features of each head of `x`, activations split in heads.
pub(super) fn rms_of_heads(
    f: &mut Function,
    cx: &Context,
    x: &Value,
    gain: Option<&Value>,
    eps: f32,
) -> Value {
    let feature = match cx.orientation {
        Orientation::FeatureMajor => 1,
        Orientation::RowMajor => 2,
    };
    rms_along(f, x, feature, gain, eps)
}

/// As [`rms`], over dimension `feature` of any `x`.
pub(super) fn rms_along(
    f: &mut Function,
    x: &Value,
    feature: usize,
    gain: Option<&Value>,
    eps: f32,
) -> Value {
    let squared = f.multiply(x, x);
    let squares = f.reduce(Reduce::Add, &squared, feature);
    let places: Vec<_> = (0..x.dims().len()).filter(|&dim| dim != feature).collect();
    scaled(f, x, &squares, &places, x.dims()[feature], feature, gain, eps)
}

/// `x / sqrt(squares / width + eps) * gain`, with the dimensions of `squares` at `places` of `x` and
/// the gain along `feature`.
#[expect(clippy::too_many_arguments, reason = "the two norms differ in all of them")]
fn scaled(
    f: &mut Function,
    x: &Value,
    squares: &Value,
    places: &[usize],
    width: usize,
    feature: usize,
    gain: Option<&Value>,
    eps: f32,
) -> Value {
    let mean = f.with_float(Binary::Multiply, squares, 1.0 / width as f32);
    let guarded = f.with_float(Binary::Add, &mean, eps);
    let inverse = f.unary(Unary::Rsqrt, &guarded);
    let inverse = f.broadcast(&inverse, x.dims(), places);
    let normed = f.multiply(x, &inverse);
    let Some(gain) = gain else { return normed };
    let gain = f.broadcast(gain, x.dims(), &[feature]);
    f.multiply(&normed, &gain)
}
