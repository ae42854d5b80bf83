//! One token per row: the recurrence itself.

use tlaloc_artifact::DType;

use super::state::{Slot, slots};
use super::{Shared, Tokens};
use crate::spec::GatedDeltaSpec;
use crate::stablehlo::{Function, Reduce, Unary, Value};

/// The outputs of one token per row, `[B, 1, value_heads, value_dim]`, and the pool with the new
/// states.
///
/// With the decayed state `S`, the error `e = b * (v - S^T k)` and the new state `S + k e^T`, the
/// output is `S^T q + (k · q) e`: one product reads the state, one pass writes it.
pub(super) fn advance(
    f: &mut Function,
    delta: &GatedDeltaSpec,
    tokens: &Tokens,
    pool: &Value,
    shared: &Shared,
) -> (Value, Value) {
    let GatedDeltaSpec { key_heads, value_heads, key_dim, value_dim, .. } = *delta;
    let batch = tokens.value.dims()[0];
    let mut by_value_head = |x: &Value| {
        let x = f.reshape(x, &[batch, key_heads, key_dim]);
        let x = f.broadcast(&x, &[batch, key_heads, delta.group(), key_dim], &[0, 1, 3]);
        f.reshape(&x, &[batch, value_heads, 1, key_dim])
    };
    let (key, query) = (by_value_head(&tokens.key), by_value_head(&tokens.query));
    let pairs = f.concatenate(&[key.clone(), query.clone()], 2);
    let product = f.multiply(&key, &query);
    let product = f.reduce(Reduce::Add, &product, 3);
    let product = f.reshape(&product, &[batch, value_heads]);
    let decay = f.unary(Unary::Exponential, &tokens.decay);
    let decay = f.reshape(&decay, &[batch, value_heads]);
    let beta = f.reshape(&tokens.beta, &[batch, value_heads]);
    let value = f.reshape(&tokens.value, &[batch, value_heads, value_dim]);

    let outputs = f.float(0.0, DType::F32, &[batch, value_heads, value_dim]);
    let [slots, fresh, padding] = slots(shared);
    let fixed = [&pairs, &product, &decay, &beta, &value, slots, fresh, padding];
    let count = &shared.rows.count;
    let [pool, outputs] = f.repeat(count, [pool, &outputs], &fixed, |f, row, state, fixed| {
        let [pool, outputs] = state;
        let slot = Slot::of(f, row, &fixed[5..]);
        let mut of_row = |x: &Value| {
            let x = f.dynamic_slice(x, 0, row, 1);
            let dims = x.dims()[1..].to_vec();
            f.reshape(&x, &dims)
        };
        let (pairs, product, decay) = (of_row(&fixed[0]), of_row(&fixed[1]), of_row(&fixed[2]));
        let (beta, value) = (of_row(&fixed[3]), of_row(&fixed[4]));

        let (held, start) = slot.read(f, &pool);
        let start = f.reshape(&start, &[value_heads, key_dim, value_dim]);
        let seen = f.batched_dot(&pairs, &start, 1, (2, 1));
        let by_head = f.broadcast(&decay, seen.dims(), &[0]);
        let seen = f.multiply(&seen, &by_head);
        let mut at = |i: usize| {
            let x = f.slice(&seen, 1, i, 1);
            f.reshape(&x, &[value_heads, value_dim])
        };
        let (at_key, at_query) = (at(0), at(1));

        let error = f.subtract(&value, &at_key);
        let beta = f.broadcast(&beta, error.dims(), &[0]);
        let error = f.multiply(&error, &beta);
        let product = f.broadcast(&product, error.dims(), &[0]);
        let own = f.multiply(&error, &product);
        let output = f.add(&at_query, &own);

        let decay = f.broadcast(&decay, start.dims(), &[0]);
        let decayed = f.multiply(&start, &decay);
        let key = f.slice(&pairs, 1, 0, 1);
        let key = f.reshape(&key, &[value_heads, key_dim]);
        let key = f.broadcast(&key, start.dims(), &[0, 1]);
        let error = f.broadcast(&error, start.dims(), &[0, 2]);
        let update = f.multiply(&key, &error);
        let next = f.add(&decayed, &update);
        let next = f.reshape(&next, held.dims());

        let output = f.reshape(&output, &[1, value_heads, value_dim]);
        [
            slot.write(f, &pool, &held, &next, 1),
            f.dynamic_update_slice(&outputs, &output, &[(0, row)]),
        ]
    });
    (f.reshape(&outputs, &[batch, 1, value_heads, value_dim]), pool)
}
