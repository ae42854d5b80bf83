//! What both kinds of attention share.

use tlaloc_artifact::DType;

use crate::spec::AttentionSpec;
use crate::stablehlo::{Binary, Compare, Function, Reduce, Unary, Value};

/// Score of a position that a token may not see. Finite, so that a row of nothing but such positions
/// stays free of NaN.
pub(super) const HIDDEN: f32 = -1e30;

/// `exp(scores - max)` over the last dimension: softmax weights before the division by their sum.
pub(super) fn weights(f: &mut Function, scores: &Value) -> Value {
    let last = scores.dims().len() - 1;
    let largest = f.reduce(Reduce::Maximum, scores, last);
    relative_weights(f, scores, &largest)
}

/// `exp(scores - largest)` with one `largest` for each index of all but the last dimension.
pub(super) fn relative_weights(f: &mut Function, scores: &Value, largest: &Value) -> Value {
    let leading: Vec<_> = (0..largest.dims().len()).collect();
    let largest = f.broadcast(largest, scores.dims(), &leading);
    let shifted = f.subtract(scores, &largest);
    f.unary(Unary::Exponential, &shifted)
}

/// Token rows `[B, S, kv_heads * head_dim]` as `[B, kv_heads, S, head_dim]`.
pub(super) fn by_kv_head(f: &mut Function, attention: &AttentionSpec, rows: &Value) -> Value {
    let AttentionSpec { kv_heads, head_dim, .. } = *attention;
    let rows = f.reshape(rows, &[rows.dims()[0], rows.dims()[1], kv_heads, head_dim]);
    f.transpose(&rows, &[0, 2, 1, 3])
}

/// Scaled `scores` as softmax takes them: `c * tanh(score / c)` where the model caps them.
pub(super) fn cap(f: &mut Function, attention: &AttentionSpec, scores: &Value) -> Value {
    let Some(cap) = attention.softcap else { return scores.clone() };
    let scores = f.with_float(Binary::Divide, scores, cap);
    let scores = f.unary(Unary::Tanh, &scores);
    f.with_float(Binary::Multiply, &scores, cap)
}

/// Whether tokens at the positions `query` see the keys at `key`, i32 of one shape: those up to their
/// own, as far back as their window reaches.
pub(super) fn visible(
    f: &mut Function,
    attention: &AttentionSpec,
    key: &Value,
    query: &Value,
) -> Value {
    let not_later = f.compare(Compare::Le, key, query);
    let Some(window) = attention.window else { return not_later };
    let before_window = f.with_int(Binary::Subtract, query, window as i32);
    let in_window = f.compare(Compare::Lt, &before_window, key);
    f.binary(Binary::And, &not_later, &in_window)
}

/// `scores` where `visible`, else [`HIDDEN`].
pub(super) fn hide(f: &mut Function, visible: &Value, scores: &Value) -> Value {
    let hidden = f.float(HIDDEN, DType::F32, scores.dims());
    f.select(visible, scores, &hidden)
}
