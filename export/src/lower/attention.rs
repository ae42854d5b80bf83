//! What both kinds of attention share.

use tlaloc_artifact::DType;

use crate::spec::AttentionSpec;
use crate::stablehlo::{Function, Reduce, Unary, Value};

/// Score of a position that a token may not see. Finite, so that a row of nothing but such positions
/// stays free of NaN.
pub(super) const HIDDEN: f32 = -1e30;

/// `exp(scores - max)` over the last dimension: softmax weights before the division by their sum.
pub(super) fn weights(f: &mut Function, scores: &Value) -> Value {
    let last = scores.dims().len() - 1;
    let largest = f.reduce(Reduce::Maximum, scores, last);
    let leading: Vec<_> = (0..last).collect();
    let largest = f.broadcast(&largest, scores.dims(), &leading);
    let shifted = f.subtract(scores, &largest);
    f.unary(Unary::Exponential, &shifted)
}

/// Token rows `[B, C, kv_heads * head_dim]` as `[B, kv_heads, C, head_dim]`.
pub(super) fn by_kv_head(f: &mut Function, attention: &AttentionSpec, rows: &Value) -> Value {
    let AttentionSpec { kv_heads, head_dim, .. } = *attention;
    let rows = f.reshape(rows, &[rows.dims()[0], rows.dims()[1], kv_heads, head_dim]);
    f.transpose(&rows, &[0, 2, 1, 3])
}

/// `scores` where `visible`, else [`HIDDEN`].
pub(super) fn hide(f: &mut Function, visible: &Value, scores: &Value) -> Value {
    let hidden = f.float(HIDDEN, DType::F32, scores.dims());
    f.select(visible, scores, &hidden)
}
