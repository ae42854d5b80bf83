//! Attention of one token per row over its paged history.

use tlaloc_artifact::DType;

use super::attention::{HIDDEN, by_kv_head, cap, visible, weights};
use super::forms::Orientation;
use super::history::History;
use super::{Context, kv};
use crate::spec::AttentionSpec;
use crate::stablehlo::{Binary, Function, Value};

/// How scores and sums of values are formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// One product over whole token rows (`kv_heads * head_dim` features), each query head holding
    /// zeros outside its own KV head's features. Reads the history in the fewest, longest rows, at
    /// `kv_heads` times the multiplications.
    BlockDiagonal,
    /// One product per KV head over rows of `head_dim` features.
    PerHead,
}

impl Form {
    /// Block-diagonal up to four KV heads, and with few query heads per KV head; beyond, its extra
    /// multiplications cost more than the other form's copy of the history by head.
    ///
    /// Per-head time over block-diagonal time, attention-heavy models on the default plugin, over
    /// batches 1 and 4 and contexts 512 and 2048, as (KV heads, group, head size): (3, 3, 64) about
    /// 1.3; (8, 2, 64) 1.1 to 1.3; (4, 8, 64) 1.0; (32, 1, 64) 0.95 to 1.0; (8, 4, 64) 0.95 to 1.05;
    /// (8, 4, 128) 0.85 to 0.95; (8, 8, 128) 0.63 to 0.73.
    pub(super) fn choose(attention: &AttentionSpec) -> Form {
        if attention.kv_heads <= 4 || attention.group() < 4 {
            Form::BlockDiagonal
        } else {
            Form::PerHead
        }
    }
}

/// 0 at the slots of its history that a row's token sees and [`HIDDEN`] at the others, f32 `[B, S]`.
pub(super) fn bias(
    f: &mut Function,
    attention: &AttentionSpec,
    history: &History,
    seq_lens: &Value,
) -> Value {
    let dims = history.positions.dims();
    // A row's length counts its token.
    let token = f.with_int(Binary::Subtract, seq_lens, 1);
    let token = f.broadcast(&token, dims, &[0]);
    let visible = visible(f, attention, &history.positions, &token);
    let (seen, hidden) = (f.float(0.0, DType::F32, dims), f.float(HIDDEN, DType::F32, dims));
    f.select(&visible, &seen, &hidden)
}

/// Attention of `query` (`[B, heads, head_dim]`, scaled) over the pools: activations of
/// `heads * head_dim` features.
pub(super) fn attend(
    f: &mut Function,
    cx: &Context,
    attention: &AttentionSpec,
    query: &Value,
    (keys, values): (&Value, &Value),
    history: &History,
    bias: &Value,
) -> Value {
    let keys = kv::read(f, keys, &history.slots);
    let values = kv::read(f, values, &history.slots);
    let (sums, totals) = match Form::choose(attention) {
        Form::BlockDiagonal => block_diagonal(f, attention, query, &keys, &values, bias),
        Form::PerHead => per_head(f, attention, query, &keys, &values, bias),
    };
    // Transposed before the division, which keeps the transpose out of the projection that follows.
    let AttentionSpec { heads, head_dim, .. } = *attention;
    let (sums, totals, places) = match cx.orientation {
        Orientation::FeatureMajor => {
            (f.transpose(&sums, &[1, 2, 0]), f.transpose(&totals, &[1, 0]), [0, 2])
        }
        Orientation::RowMajor => (sums, totals, [0, 1]),
    };
    let totals = f.broadcast(&totals, sums.dims(), &places);
    let mixed = f.binary(Binary::Divide, &sums, &totals);
    f.reshape(&mixed, &cx.orientation.dims(heads * head_dim, cx.bucket.batch))
}

/// Weighted sums of values `[B, heads, head_dim]` and sums of weights `[B, heads]`. `keys` and
/// `values` are `[B, S, kv_heads * head_dim]`.
fn block_diagonal(
    f: &mut Function,
    attention: &AttentionSpec,
    query: &Value,
    keys: &Value,
    values: &Value,
    bias: &Value,
) -> (Value, Value) {
    let AttentionSpec { heads, kv_heads, head_dim, .. } = *attention;
    let group = attention.group();
    let (batch, width) = (bias.dims()[0], bias.dims()[1]);

    let query = if kv_heads == 1 {
        query.clone()
    } else {
        let query = f.reshape(query, &[batch, kv_heads, group, head_dim]);
        let blocks = [batch, kv_heads, group, kv_heads, head_dim];
        let query = f.broadcast(&query, &blocks, &[0, 1, 2, 4]);
        let diagonal = f.identity(kv_heads);
        let diagonal = f.broadcast(&diagonal, &blocks, &[1, 3]);
        let query = f.multiply(&query, &diagonal);
        f.reshape(&query, &[batch, heads, kv_heads * head_dim])
    };
    // The barriers keep the compiler from swapping the operands and folding the transposes.
    let query = f.transpose(&query, &[0, 2, 1]);
    let [query] = f.barrier([&query]);
    let scores = f.batched_dot(keys, &query, 1, (2, 1));
    let [scores] = f.barrier([&scores]);
    let scores = f.transpose(&scores, &[0, 2, 1]);
    let scores = cap(f, attention, &scores);
    let bias = f.broadcast(bias, scores.dims(), &[0, 2]);
    let scores = f.add(&scores, &bias);
    let weights = weights(f, &scores);
    let totals = totals(f, &weights, batch * heads, width);
    let totals = f.reshape(&totals, &[batch, heads]);
    let sums = f.batched_dot(&weights, values, 1, (2, 1));
    // Each head keeps the features of its own KV head.
    let own: Vec<_> = (0..kv_heads)
        .map(|head| {
            let rows = f.slice(&sums, 1, head * group, group);
            f.slice(&rows, 2, head * head_dim, head_dim)
        })
        .collect();
    (f.concatenate(&own, 1), totals)
}

/// As [`block_diagonal`].
fn per_head(
    f: &mut Function,
    attention: &AttentionSpec,
    query: &Value,
    keys: &Value,
    values: &Value,
    bias: &Value,
) -> (Value, Value) {
    let AttentionSpec { heads, kv_heads, head_dim, .. } = *attention;
    let (batch, width) = (bias.dims()[0], bias.dims()[1]);
    let keys = by_kv_head(f, attention, keys);
    let values = by_kv_head(f, attention, values);
    let query = f.reshape(query, &[batch, kv_heads, attention.group(), head_dim]);
    let scores = f.batched_dot(&query, &keys, 2, (3, 3));
    let scores = cap(f, attention, &scores);
    let bias = f.broadcast(bias, scores.dims(), &[0, 3]);
    let scores = f.add(&scores, &bias);
    let weights = weights(f, &scores);
    let totals = totals(f, &weights, batch * heads, width);
    let sums = f.batched_dot(&weights, &values, 2, (3, 2));
    (f.reshape(&sums, &[batch, heads, head_dim]), f.reshape(&totals, &[batch, heads]))
}

/// Sums of the weights of each of `rows` rows. A dot with ones, because the compiler makes three
/// kernels of a reduce.
fn totals(f: &mut Function, weights: &Value, rows: usize, width: usize) -> Value {
    let weights = f.reshape(weights, &[rows, width]);
    let ones = f.float(1.0, DType::F32, &[width, 1]);
    f.dot(&weights, &ones, (1, 0))
}
