//! Gated DeltaNet as a layer's mixer: from normed activations to its output projection.
//!
//! A row's state is read from its slot, carried through the call's tokens and written back, in loops
//! over the rows that have tokens. Such a loop updates the pools in place and touches no other slot;
//! the other ways to write a slot do not pay: a scatter moves large states at 1 GB/s, and updates one
//! after the other for each row of a batch copy the pool.

mod chunks;
mod conv;
mod recurrence;
mod state;

use tlaloc_artifact::DType;

use super::forms::Orientation;
use super::rows::Rows;
use super::{Context, mlp, norm, projection};
use crate::slots::{LayerWeight, LayerWeights};
use crate::spec::{Activation, GatedDeltaSpec};
use crate::stablehlo::{Binary, Compare, Function, Reduce, Unary, Value};

/// Added to the sum of squares under the root that queries and keys are divided by.
const LENGTH_EPS: f32 = 1e-6;

/// Values computed once per step and used by every layer of this kind.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) rows: Rows,
    /// State slot of each row, i32 `[B]`.
    slots: Value,
    /// Whether each row begins at position 0, whatever its slot holds: `[B]`.
    fresh: Value,
    /// The slot that the state after each token of a verify step goes to, i32 `[B * T]`; in other
    /// calls a row's last state replaces that of its slot.
    writes: Option<Value>,
}

impl Shared {
    pub(super) fn build(
        f: &mut Function,
        cx: &Context,
        rows: Rows,
        positions: &Value,
        state_slots: &Value,
        write_slots: Option<&Value>,
    ) -> Shared {
        let dims = [cx.bucket.batch, cx.bucket.tokens];
        let (zero, one) = (f.int(0, &dims), f.int(1, &dims));
        let first = f.compare(Compare::Eq, positions, &zero);
        let first = f.select(&first, &one, &zero);
        let first = f.select(&rows.live, &first, &zero);
        let first = f.reduce(Reduce::Maximum, &first, 1);
        let one = f.int(1, &dims[..1]);
        let fresh = f.compare(Compare::Eq, &first, &one);
        let writes = write_slots.filter(|_| cx.decodes_drafts());
        let writes = writes.map(|slots| f.reshape(slots, &[cx.tokens()]));
        Shared { rows, slots: state_slots.clone(), fresh, writes }
    }

    /// `each` of every value and its name, in the order of a layer's parameters.
    pub(super) fn map(&self, each: &mut dyn FnMut(&str, &Value) -> Value) -> Shared {
        Shared {
            rows: self.rows.map(each),
            slots: each("stateSlots", &self.slots),
            fresh: each("fresh", &self.fresh),
            writes: self.writes.as_ref().map(|writes| each("stateWriteSlots", writes)),
        }
    }
}

/// What the recurrence takes of every token, token-major.
struct Tokens {
    /// Divided by its length and `sqrt(key_dim)`, `[B, T, key_heads, key_dim]`.
    query: Value,
    /// Divided by its length, `[B, T, key_heads, key_dim]`.
    key: Value,
    /// `[B, T, value_heads, value_dim]`.
    value: Value,
    /// Logarithm of what the state is multiplied by, `[B, T, value_heads]`; 0 at padding.
    decay: Value,
    /// How much of the new value the state takes, `[B, T, value_heads]`; 0 at padding.
    beta: Value,
}

/// The output projection of linear attention over `h`, and the pools (convolution, recurrence) with
/// the states after this call's tokens.
pub(super) fn mix(
    f: &mut Function,
    cx: &Context,
    delta: &GatedDeltaSpec,
    h: &Value,
    [conv_pool, state_pool]: [&Value; 2],
    shared: &Shared,
    weights: &LayerWeights<Value>,
) -> (Value, [Value; 2]) {
    let features = cx.orientation.features();
    let (channels, width) = (delta.channels(), delta.value_width());
    let projected = projection::project(f, cx, h, weights.projection(LayerWeight::DeltaIn));
    let mixed = f.slice(&projected, features, 0, channels);
    let gate = f.slice(&projected, features, channels, width);

    let mixed = token_major(f, cx, &mixed);
    let taps = &weights[LayerWeight::DeltaConv];
    let (mixed, conv_pool) = conv::convolve(f, delta, &mixed, conv_pool, taps, shared);
    let (decay, beta) = gates(f, cx, delta, h, &shared.rows, weights);
    let tokens = tokens(f, delta, &mixed, decay, beta);
    let advance = if cx.is_decode() { recurrence::advance } else { chunks::advance };
    let (out, state_pool) = advance(f, delta, &tokens, state_pool, shared);

    let gain = &weights[LayerWeight::DeltaNorm];
    let out = norm::rms_along(f, &out, 3, Some(gain), cx.norm_eps);
    let out = f.reshape(&out, &[cx.tokens(), width]);
    // Multiplied after the transpose, which keeps that out of the projection that follows.
    let out = match cx.orientation {
        Orientation::FeatureMajor => f.transpose(&out, &[1, 0]),
        Orientation::RowMajor => out,
    };
    let gate = mlp::activate(f, Activation::Silu, &gate);
    let out = f.multiply(&out, &gate);
    let out = projection::project(f, cx, &out, weights.projection(LayerWeight::DeltaOutput));
    (out, [conv_pool, state_pool])
}

/// Activations as `[B, T, features]`.
fn token_major(f: &mut Function, cx: &Context, x: &Value) -> Value {
    let width = x.dims()[cx.orientation.features()];
    let x = match cx.orientation {
        Orientation::FeatureMajor => {
            // Keeps the transpose out of the projection before it.
            let [x] = f.barrier([x]);
            f.transpose(&x, &[1, 0])
        }
        Orientation::RowMajor => x.clone(),
    };
    f.reshape(&x, &[cx.bucket.batch, cx.bucket.tokens, width])
}

/// Queries, keys and values out of the convolution's channels.
fn tokens(
    f: &mut Function,
    delta: &GatedDeltaSpec,
    channels: &Value,
    decay: Value,
    beta: Value,
) -> Tokens {
    let (rows, columns) = (channels.dims()[0], channels.dims()[1]);
    let mut heads = |start: usize, heads: usize, size: usize| {
        let part = f.slice(channels, 2, start, heads * size);
        f.reshape(&part, &[rows, columns, heads, size])
    };
    let (key_width, key_dim) = (delta.key_width(), delta.key_dim);
    let query = heads(0, delta.key_heads, key_dim);
    let key = heads(key_width, delta.key_heads, key_dim);
    let value = heads(2 * key_width, delta.value_heads, delta.value_dim);
    Tokens {
        query: unit(f, &query, 1.0 / (key_dim as f32).sqrt()),
        key: unit(f, &key, 1.0),
        value,
        decay,
        beta,
    }
}

/// `x` of length `length` in the last dimension.
fn unit(f: &mut Function, x: &Value, length: f32) -> Value {
    let last = x.dims().len() - 1;
    let squares = f.multiply(x, x);
    let sum = f.reduce(Reduce::Add, &squares, last);
    let sum = f.with_float(Binary::Add, &sum, LENGTH_EPS);
    let inverse = f.unary(Unary::Rsqrt, &sum);
    let factor = f.with_float(Binary::Multiply, &inverse, length);
    let places: Vec<_> = (0..last).collect();
    let factor = f.broadcast(&factor, x.dims(), &places);
    f.multiply(x, &factor)
}

/// Logarithmic decay and beta of every token and value head, `[B, T, value_heads]`; 0 at padding,
/// which leaves the state as it is.
fn gates(
    f: &mut Function,
    cx: &Context,
    delta: &GatedDeltaSpec,
    h: &Value,
    rows: &Rows,
    weights: &LayerWeights<Value>,
) -> (Value, Value) {
    let heads = delta.value_heads;
    let projected = projection::exact(f, cx, h, &weights[LayerWeight::DeltaBetaDecay]);
    let projected = token_major(f, cx, &projected);
    let beta = f.slice(&projected, 2, 0, heads);
    let beta = f.unary(Unary::Logistic, &beta);

    let decay = f.slice(&projected, 2, heads, heads);
    let bias = f.broadcast(&weights[LayerWeight::DeltaDecayBias], decay.dims(), &[2]);
    let decay = f.add(&decay, &bias);
    let decay = softplus(f, &decay);
    let rate = f.unary(Unary::Exponential, &weights[LayerWeight::DeltaLogRate]);
    let rate = f.unary(Unary::Negate, &rate);
    let rate = f.broadcast(&rate, decay.dims(), &[2]);
    let decay = f.multiply(&decay, &rate);

    let live = f.broadcast(&rows.live, decay.dims(), &[0, 1]);
    let zero = f.float(0.0, DType::F32, decay.dims());
    (f.select(&live, &decay, &zero), f.select(&live, &beta, &zero))
}

/// `ln(1 + exp(x))`, where `exp(x)` may overflow.
fn softplus(f: &mut Function, x: &Value) -> Value {
    let zero = f.float(0.0, DType::F32, x.dims());
    let linear = f.binary(Binary::Maximum, x, &zero);
    let size = f.unary(Unary::Abs, x);
    let size = f.unary(Unary::Negate, &size);
    let small = f.unary(Unary::Exponential, &size);
    let rest = f.unary(Unary::LogPlusOne, &small);
    f.add(&linear, &rest)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failure here is a failed test")]
mod tests;
