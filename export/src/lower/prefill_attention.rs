//! Attention of many tokens per row over the row's paged history, causal by position.

use super::attention::{by_kv_head, cap, hide, visible, weights};
use super::forms::Orientation;
use super::history::History;
use super::{Context, kv, prefill_blocks};
use crate::spec::AttentionSpec;
use crate::stablehlo::{Binary, Function, Reduce, Value};

/// How the products of the rows and KV heads are written, and over how many keys at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// One plain product for each row and KV head, one after the other in a loop.
    Looped,
    /// One product batched over rows and KV heads.
    Batched,
    /// As [`Form::Batched`], for one block of keys after the other.
    Blocks,
}

/// Histories wider than this are attended over in blocks.
///
/// SmolLM2-135M, calls of 512 tokens over a context of 8192: temporary memory of 13 MB in blocks, 260
/// MB at once; of 2048: 13 and 66 MB. The processor time of a call whose context is full is the same
/// (within 4 %), of one that is not, less.
pub(super) const WIDEST_AT_ONCE: usize = 1024;

/// A loop over more products than this would take its time where each of them is small.
const MOST_LOOPED: usize = 16;

impl Form {
    fn choose(cx: &Context, attention: &AttentionSpec, width: usize) -> Form {
        if width > cx.widest_at_once {
            Form::Blocks
        } else if cx.bucket.batch * attention.kv_heads <= MOST_LOOPED {
            Form::Looped
        } else {
            Form::Batched
        }
    }
}

/// Attention of `query` (`[B * T, heads, head_dim]`, scaled) over the pools: activations of
/// `heads * head_dim` features. `positions` is i32 `[B, T]`.
pub(super) fn attend(
    f: &mut Function,
    cx: &Context,
    attention: &AttentionSpec,
    query: &Value,
    (keys, values): (&Value, &Value),
    history: &History,
    positions: &Value,
) -> Value {
    let (batch, tokens) = (cx.bucket.batch, cx.bucket.tokens);
    let AttentionSpec { heads, kv_heads, head_dim, .. } = *attention;
    let group = attention.group();

    // [B, kv_heads, group * T, head_dim]
    let query = f.reshape(query, &[batch, tokens, kv_heads, group, head_dim]);
    let query = f.transpose(&query, &[0, 2, 3, 1, 4]);
    let query = f.reshape(&query, &[batch, kv_heads, group * tokens, head_dim]);
    let (sums, totals) = match Form::choose(cx, attention, history.width()) {
        Form::Blocks => {
            let pools = (keys, values);
            prefill_blocks::attend(f, cx, attention, &query, pools, history, positions)
        }
        form => {
            // [B, kv_heads, S, head_dim]
            let mut by_head = |pool: &Value| {
                let rows = kv::read(f, pool, &history.slots);
                by_kv_head(f, attention, &rows)
            };
            let (keys, values) = (by_head(keys), by_head(values));
            let at_once = if form == Form::Looped { looped } else { batched };
            at_once(f, cx, attention, &query, (&keys, &values), &history.positions, positions)
        }
    };
    // Transposed before the division, which keeps the transpose out of the projection that follows.
    let (sums, totals, places) = match cx.orientation {
        Orientation::FeatureMajor => (
            f.transpose(&sums, &[1, 2, 4, 0, 3]),
            f.transpose(&totals, &[1, 2, 0, 3]),
            [0, 1, 3, 4],
        ),
        Orientation::RowMajor => (
            f.transpose(&sums, &[0, 3, 1, 2, 4]),
            f.transpose(&totals, &[0, 3, 1, 2]),
            [0, 1, 2, 3],
        ),
    };
    let totals = f.broadcast(&totals, sums.dims(), &places);
    let mixed = f.binary(Binary::Divide, &sums, &totals);
    f.reshape(&mixed, &cx.orientation.dims(heads * head_dim, batch * tokens))
}

/// Weighted sums of values `[B, kv_heads, group, T, head_dim]` and sums of weights
/// `[B, kv_heads, group, T]`.
fn looped(
    f: &mut Function,
    cx: &Context,
    attention: &AttentionSpec,
    query: &Value,
    (keys, values): (&Value, &Value),
    key_positions: &Value,
    positions: &Value,
) -> (Value, Value) {
    let (batch, tokens, width) = (cx.bucket.batch, cx.bucket.tokens, keys.dims()[2]);
    let AttentionSpec { kv_heads, head_dim, .. } = *attention;
    let group = attention.group();
    let products = batch * kv_heads;
    let query = f.reshape(query, &[products, group * tokens, head_dim]);
    let keys = f.reshape(keys, &[products, width, head_dim]);
    let values = f.reshape(values, &[products, width, head_dim]);
    // Sums take the place of the query that they are of. Totals begin as anything but a constant,
    // which would be written for all layers before the first one runs.
    let totals = f.slice(&query, 2, 0, 1);
    let totals = f.reshape(&totals, &[products, group * tokens]);
    let trips = f.int(products as i32, &[]);
    let fixed = [&keys, &values, key_positions, positions];
    let [sums, totals] =
        f.repeat(&trips, [&query, &totals], &fixed, |f, product, [sums, totals], fixed| {
            let [keys, values, key_positions, positions] = fixed else {
                unreachable!("the loop hands over what it was given")
            };
            let one = |f: &mut Function, all: &Value, index: &Value| {
                let one = f.dynamic_slice(all, 0, index, 1);
                f.reshape(&one, &one.dims()[1..])
            };
            let query = one(f, &sums, product);
            let (keys, values) = (one(f, keys, product), one(f, values, product));
            let row = f.with_int(Binary::Divide, product, kv_heads as i32);
            let key_positions = one(f, key_positions, &row);
            let positions = one(f, positions, &row);

            let scores = f.dot(&query, &keys, (1, 1));
            let scores = f.reshape(&scores, &[group, tokens, width]);
            let scores = cap(f, attention, &scores);
            let key_positions = f.broadcast(&key_positions, &[tokens, width], &[1]);
            let positions = f.broadcast(&positions, &[tokens, width], &[0]);
            let visible = visible(f, attention, &key_positions, &positions);
            let visible = f.broadcast(&visible, scores.dims(), &[1, 2]);
            let scores = hide(f, &visible, &scores);
            let weights = weights(f, &scores);
            let total = f.reduce(Reduce::Add, &weights, 2);
            let total = f.reshape(&total, &[1, group * tokens]);
            let weights = f.reshape(&weights, &[group * tokens, width]);
            let sum = f.dot(&weights, &values, (1, 0));
            let sum = f.reshape(&sum, &[1, group * tokens, head_dim]);
            let sums = f.dynamic_update_slice(&sums, &sum, &[(0, product)]);
            [sums, f.dynamic_update_slice(&totals, &total, &[(0, product)])]
        });
    (
        f.reshape(&sums, &[batch, kv_heads, group, tokens, head_dim]),
        f.reshape(&totals, &[batch, kv_heads, group, tokens]),
    )
}

/// As [`looped`].
fn batched(
    f: &mut Function,
    cx: &Context,
    attention: &AttentionSpec,
    query: &Value,
    (keys, values): (&Value, &Value),
    key_positions: &Value,
    positions: &Value,
) -> (Value, Value) {
    let (batch, tokens, width) = (cx.bucket.batch, cx.bucket.tokens, keys.dims()[2]);
    let AttentionSpec { kv_heads, head_dim, .. } = *attention;
    let group = attention.group();
    let scores = f.batched_dot(query, keys, 2, (3, 3));
    let scores = f.reshape(&scores, &[batch, kv_heads, group, tokens, width]);
    let scores = cap(f, attention, &scores);
    let key_positions = f.broadcast(key_positions, &[batch, tokens, width], &[0, 2]);
    let positions = f.broadcast(positions, &[batch, tokens, width], &[0, 1]);
    let visible = visible(f, attention, &key_positions, &positions);
    let visible = f.broadcast(&visible, scores.dims(), &[0, 3, 4]);
    let scores = hide(f, &visible, &scores);
    let weights = weights(f, &scores);
    let totals = f.reduce(Reduce::Add, &weights, 4);
    let weights = f.reshape(&weights, &[batch, kv_heads, group * tokens, width]);
    let sums = f.batched_dot(&weights, values, 2, (3, 2));
    (f.reshape(&sums, &[batch, kv_heads, group, tokens, head_dim]), totals)
}
