//! The short causal convolution over time, with its state: the inputs of the last tokens.

use tlaloc_artifact::DType;

use super::Shared;
use super::state::{Slot, slots};
use crate::lower::mlp;
use crate::spec::{Activation, GatedDeltaSpec};
use crate::stablehlo::{Function, Value};

/// `silu` of the convolution of `x` (`[B, T, channels]`) with `taps` (`[kernel, channels]`, oldest
/// token first), and the pool with the new states.
pub(super) fn convolve(
    f: &mut Function,
    delta: &GatedDeltaSpec,
    x: &Value,
    pool: &Value,
    taps: &Value,
    shared: &Shared,
) -> (Value, Value) {
    let (batch, columns, channels) = (x.dims()[0], x.dims()[1], x.dims()[2]);
    let kept = delta.kernel - 1;

    // Every column after the inputs of the tokens before it. A row's state goes right before its
    // first token, over padding; what precedes that is read by padding only.
    let before = f.float(0.0, DType::F32, &[batch, kept, channels]);
    let inputs = f.concatenate(&[before, x.clone()], 1);
    let fixed = slots(shared);
    let [pool, inputs] =
        f.repeat(&shared.rows.count, [pool, &inputs], &fixed, |f, row, [pool, inputs], fixed| {
            let slot = Slot::of(f, row, batch, fixed);
            let (held, start) = slot.read(f, &pool);
            let inputs = f.dynamic_update_slice(&inputs, &start, &[(0, row), (1, &slot.padding)]);
            let own = f.dynamic_slice(&inputs, 0, row, 1);
            let first = if slot.keeps_each() { 1 } else { columns };
            let states: Vec<_> =
                (first..=columns).map(|after| f.slice(&own, 1, after, kept)).collect();
            [slot.write(f, &pool, &held, &states, columns), inputs]
        });

    let mut sum: Option<Value> = None;
    for tap in 0..delta.kernel {
        let seen = f.slice(&inputs, 1, tap, columns);
        let tap = f.slice(taps, 0, tap, 1);
        let tap = f.reshape(&tap, &[channels]);
        let tap = f.broadcast(&tap, seen.dims(), &[2]);
        let product = f.multiply(&seen, &tap);
        sum = Some(match sum {
            Some(sum) => f.add(&sum, &product),
            None => product,
        });
    }
    let sum = sum.unwrap_or_else(|| x.clone());
    (mlp::activate(f, Activation::Silu, &sum), pool)
}
