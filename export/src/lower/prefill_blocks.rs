//! Prefill attention that reads a long history block by block: running maxima and sums stand for the
//! softmax over all of it, so no tensor is as wide as the context.

use super::attention::{HIDDEN, by_kv_head, cap, hide, relative_weights, visible};
use super::history::History;
use super::{Context, kv};
use crate::spec::AttentionSpec;
use crate::stablehlo::{Binary, Function, Reduce, Unary, Value};

/// Keys of a block.
pub(super) const BLOCK: usize = 256;

/// Weighted sums of values `[B, kv_heads, group, T, head_dim]` and sums of weights
/// `[B, kv_heads, group, T]`, of `query` (`[B, kv_heads, group * T, head_dim]`) over the pools.
pub(super) fn attend(
    f: &mut Function,
    cx: &Context,
    attention: &AttentionSpec,
    query: &Value,
    (keys, values): (&Value, &Value),
    history: &History,
    positions: &Value,
) -> (Value, Value) {
    let (batch, tokens) = (cx.bucket.batch, cx.bucket.tokens);
    let AttentionSpec { kv_heads, head_dim, .. } = *attention;
    let group = attention.group();
    let history = history.padded(f, BLOCK);
    let blocks = (history.width() / BLOCK) as i32;
    // A whole history is in order from position 0 on: what follows the last token is not visited.
    let trips = match attention.window {
        None => {
            let last = f.slice(positions, 1, tokens - 1, 1);
            let last = f.reshape(&last, &[batch]);
            let last = f.reduce(Reduce::Maximum, &last, 0);
            let block = f.with_int(Binary::Divide, &last, BLOCK as i32);
            f.with_int(Binary::Add, &block, 1)
        }
        Some(_) => f.int(blocks, &[]),
    };

    // Zeros made of the query instead of constants: those of all layers would be written, and take
    // their memory, before the first layer runs.
    let sums = f.with_float(Binary::Multiply, query, 0.0);
    let totals = f.slice(&sums, 3, 0, 1);
    let totals = f.reshape(&totals, &[batch, kv_heads, group, tokens]);
    let largest = f.with_float(Binary::Add, &totals, HIDDEN);
    let fixed = [query, keys, values, &history.slots, &history.positions, positions];
    let [sums, totals, _] = f.repeat(
        &trips,
        [&sums, &totals, &largest],
        &fixed,
        |f, block, [sums, totals, largest], fixed| {
            let [query, keys, values, slots, key_positions, positions] = fixed else {
                unreachable!("the loop hands over what it was given")
            };
            let first = f.with_int(Binary::Multiply, block, BLOCK as i32);
            let slots = f.dynamic_slice(slots, 1, &first, BLOCK);
            let key_positions = f.dynamic_slice(key_positions, 1, &first, BLOCK);
            let mut read = |pool: &Value| {
                let rows = kv::read(f, pool, &slots);
                by_kv_head(f, attention, &rows)
            };
            let (keys, values) = (read(keys), read(values));

            let scores = f.batched_dot(query, &keys, 2, (3, 3));
            let scores = f.reshape(&scores, &[batch, kv_heads, group, tokens, BLOCK]);
            let scores = cap(f, attention, &scores);
            let dims = [batch, tokens, BLOCK];
            let key_positions = f.broadcast(&key_positions, &dims, &[0, 2]);
            let positions = f.broadcast(positions, &dims, &[0, 1]);
            let visible = visible(f, attention, &key_positions, &positions);
            let visible = f.broadcast(&visible, scores.dims(), &[0, 3, 4]);
            let scores = hide(f, &visible, &scores);

            let block_largest = f.reduce(Reduce::Maximum, &scores, 4);
            let new_largest = f.binary(Binary::Maximum, &largest, &block_largest);
            let weights = relative_weights(f, &scores, &new_largest);
            // What came before was relative to the old maximum.
            let shrink = f.subtract(&largest, &new_largest);
            let shrink = f.unary(Unary::Exponential, &shrink);
            let block_totals = f.reduce(Reduce::Add, &weights, 4);
            let totals = f.multiply(&totals, &shrink);
            let totals = f.add(&totals, &block_totals);

            let row = [batch, kv_heads, group * tokens];
            let weights = f.reshape(&weights, &[row[0], row[1], row[2], BLOCK]);
            let block_sums = f.batched_dot(&weights, &values, 2, (3, 2));
            let shrink = f.reshape(&shrink, &row);
            let shrink = f.broadcast(&shrink, sums.dims(), &[0, 1, 2]);
            let sums = f.multiply(&sums, &shrink);
            let sums = f.add(&sums, &block_sums);
            [sums, totals, new_largest]
        },
    );
    (f.reshape(&sums, &[batch, kv_heads, group, tokens, head_dim]), totals)
}
