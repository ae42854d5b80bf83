//! Attention of many tokens per row over the row's paged history, causal by position.

use super::attention::{by_kv_head, hide, weights};
use super::forms::Orientation;
use super::{Context, kv};
use crate::spec::AttentionSpec;
use crate::stablehlo::{Binary, Compare, Function, Reduce, Value};

/// How the products of the rows and KV heads are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// One plain product for each row and KV head: fastest, but the program grows with both.
    Unrolled,
    /// One product batched over rows and KV heads.
    Batched,
}

/// Unrolling more products than this makes compilation slow: 12 of them take 2 to 3 s with 30 layers.
const MOST_UNROLLED: usize = 16;

impl Form {
    fn choose(cx: &Context, attention: &AttentionSpec) -> Form {
        if cx.bucket.batch * attention.kv_heads <= MOST_UNROLLED {
            Form::Unrolled
        } else {
            Form::Batched
        }
    }
}

/// Attention of `query` (`[B * T, heads, head_dim]`, scaled) over the pools: activations of
/// `heads * head_dim` features. `history` is [`kv::history_slots`], `positions` i32 `[B, T]`.
pub(super) fn attend(
    f: &mut Function,
    cx: &Context,
    attention: &AttentionSpec,
    query: &Value,
    (keys, values): (&Value, &Value),
    history: &Value,
    positions: &Value,
) -> Value {
    let (batch, tokens) = (cx.bucket.batch, cx.bucket.tokens);
    let AttentionSpec { heads, kv_heads, head_dim, .. } = *attention;
    let group = attention.group();

    // [B, kv_heads, group * T, head_dim]
    let query = f.reshape(query, &[batch, tokens, kv_heads, group, head_dim]);
    let query = f.transpose(&query, &[0, 2, 3, 1, 4]);
    let query = f.reshape(&query, &[batch, kv_heads, group * tokens, head_dim]);
    // [B, kv_heads, C, head_dim]
    let mut by_head = |pool: &Value| {
        let rows = kv::read(f, cx, pool, history);
        by_kv_head(f, attention, &rows)
    };
    let (keys, values) = (by_head(keys), by_head(values));

    let (sums, totals) = match Form::choose(cx, attention) {
        Form::Unrolled => unrolled(f, cx, attention, &query, &keys, &values, positions),
        Form::Batched => batched(f, cx, attention, &query, &keys, &values, positions),
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
fn unrolled(
    f: &mut Function,
    cx: &Context,
    attention: &AttentionSpec,
    query: &Value,
    keys: &Value,
    values: &Value,
    positions: &Value,
) -> (Value, Value) {
    let (batch, tokens, context) = (cx.bucket.batch, cx.bucket.tokens, cx.bucket.context);
    let AttentionSpec { kv_heads, head_dim, .. } = *attention;
    let group = attention.group();
    let one = |f: &mut Function, x: &Value, row: usize, head: usize| {
        let x = f.slice(x, 0, row, 1);
        let x = f.slice(&x, 1, head, 1);
        f.reshape(&x, &x.dims()[2..])
    };
    let (mut row_sums, mut row_totals) = (Vec::new(), Vec::new());
    for row in 0..batch {
        let (mut sums, mut totals) = (Vec::new(), Vec::new());
        let positions = f.slice(positions, 0, row, 1);
        let positions = f.reshape(&positions, &[tokens]);
        let positions = f.broadcast(&positions, &[tokens, context], &[0]);
        let key_position = f.iota(&[tokens, context], 1);
        let visible = f.compare(Compare::Le, &key_position, &positions);
        let visible = f.broadcast(&visible, &[group, tokens, context], &[1, 2]);
        for head in 0..kv_heads {
            let (query, keys, values) =
                (one(f, query, row, head), one(f, keys, row, head), one(f, values, row, head));
            let scores = f.dot(&query, &keys, (1, 1));
            let scores = f.reshape(&scores, &[group, tokens, context]);
            let scores = hide(f, &visible, &scores);
            let weights = weights(f, &scores);
            let total = f.reduce(Reduce::Add, &weights, 2);
            totals.push(f.reshape(&total, &[1, 1, group, tokens]));
            let weights = f.reshape(&weights, &[group * tokens, context]);
            let sum = f.dot(&weights, &values, (1, 0));
            sums.push(f.reshape(&sum, &[1, 1, group, tokens, head_dim]));
        }
        row_sums.push(f.concatenate(&sums, 1));
        row_totals.push(f.concatenate(&totals, 1));
    }
    (f.concatenate(&row_sums, 0), f.concatenate(&row_totals, 0))
}

/// As [`unrolled`].
fn batched(
    f: &mut Function,
    cx: &Context,
    attention: &AttentionSpec,
    query: &Value,
    keys: &Value,
    values: &Value,
    positions: &Value,
) -> (Value, Value) {
    let (batch, tokens, context) = (cx.bucket.batch, cx.bucket.tokens, cx.bucket.context);
    let AttentionSpec { kv_heads, head_dim, .. } = *attention;
    let group = attention.group();
    let scores = f.batched_dot(query, keys, 2, (3, 3));
    let scores = f.reshape(&scores, &[batch, kv_heads, group, tokens, context]);
    let positions = f.broadcast(positions, &[batch, tokens, context], &[0, 1]);
    let key_position = f.iota(&[batch, tokens, context], 2);
    let visible = f.compare(Compare::Le, &key_position, &positions);
    let visible = f.broadcast(&visible, scores.dims(), &[0, 3, 4]);
    let scores = hide(f, &visible, &scores);
    let weights = weights(f, &scores);
    let totals = f.reduce(Reduce::Add, &weights, 4);
    let weights = f.reshape(&weights, &[batch, kv_heads, group * tokens, context]);
    let sums = f.batched_dot(&weights, values, 2, (3, 2));
    (f.reshape(&sums, &[batch, kv_heads, group, tokens, head_dim]), totals)
}
