//! Root-mean-square norm.

use super::Context;
use crate::stablehlo::{Binary, Function, Reduce, Unary, Value};

/// Up to this many tokens the sum of squares is a dot: the compiler splits a reduce into three
/// kernels. Above, the reduce is faster.
const MOST_TOKENS_OF_DOT: usize = 16;

/// `x / sqrt(mean(x²) + eps) * gain` over the features of each token.
pub(super) fn rms(f: &mut Function, cx: &Context, x: &Value, gain: &Value) -> Value {
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
    let mean = f.with_float(Binary::Multiply, &squares, 1.0 / width as f32);
    let guarded = f.with_float(Binary::Add, &mean, cx.norm_eps);
    let inverse = f.unary(Unary::Rsqrt, &guarded);
    let inverse = f.broadcast(&inverse, x.dims(), &[tokens]);
    let normed = f.multiply(x, &inverse);
    let gain = f.broadcast(gain, x.dims(), &[features]);
    f.multiply(&normed, &gain)
}
