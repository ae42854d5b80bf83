//! Rotary position embedding, half-split: features `i` and `i + head_dim / 2` form a pair.

use tlaloc_artifact::DType;

use super::Context;
use super::forms::Orientation;
use crate::spec::AttentionSpec;
use crate::stablehlo::{Binary, Function, Unary, Value};

/// Cosines and sines of every token's angles, `[head_dim / 2, tokens]` or transposed, as activations
/// lie. Those for queries carry the attention scale.
#[derive(Clone)]
pub(super) struct RopeTables {
    pub(super) key_cos: Value,
    pub(super) key_sin: Value,
    pub(super) query_cos: Value,
    pub(super) query_sin: Value,
}

impl RopeTables {
    pub(super) fn build(
        f: &mut Function,
        cx: &Context,
        attention: &AttentionSpec,
        positions: &Value,
    ) -> RopeTables {
        let half = attention.head_dim / 2;
        let (features, tokens) = (cx.orientation.features(), cx.orientation.tokens());
        let dims = cx.orientation.dims(half, cx.tokens());
        let positions = f.reshape(positions, &[cx.tokens()]);
        let positions = f.convert(&positions, DType::F32);
        let positions = f.broadcast(&positions, &dims, &[tokens]);
        let frequencies = f.floats(&attention.rope_frequencies);
        let frequencies = f.broadcast(&frequencies, &dims, &[features]);
        let angles = f.multiply(&positions, &frequencies);
        let (cos, sin) = (f.unary(Unary::Cosine, &angles), f.unary(Unary::Sine, &angles));

        // The compiler recomputes an elementwise value in each consumer, but never a dot: a product
        // with the identity, which is exact, makes it compute the angles once.
        let both = f.concatenate(&[cos, sin], features);
        let identity = f.identity(2 * half);
        let both = match cx.orientation {
            Orientation::FeatureMajor => f.dot(&identity, &both, (1, 0)),
            Orientation::RowMajor => f.dot(&both, &identity, (1, 0)),
        };
        let key_cos = f.slice(&both, features, 0, half);
        let key_sin = f.slice(&both, features, half, half);
        RopeTables {
            query_cos: f.with_float(Binary::Multiply, &key_cos, attention.scale),
            query_sin: f.with_float(Binary::Multiply, &key_sin, attention.scale),
            key_cos,
            key_sin,
        }
    }
}

/// `x`, activations split in heads, rotated by the angles of `cos` and `sin`.
pub(super) fn rotate(f: &mut Function, cx: &Context, x: &Value, cos: &Value, sin: &Value) -> Value {
    // (feature, places of a table's dimensions) in the shape of split heads.
    let (feature, places) = match cx.orientation {
        Orientation::FeatureMajor => (1, [1, 2]),
        Orientation::RowMajor => (2, [0, 2]),
    };
    let half = x.dims()[feature] / 2;
    let (a, b) = (f.slice(x, feature, 0, half), f.slice(x, feature, half, half));
    let (cos, sin) = (f.broadcast(cos, a.dims(), &places), f.broadcast(sin, a.dims(), &places));
    let (a_cos, b_sin) = (f.multiply(&a, &cos), f.multiply(&b, &sin));
    let (b_cos, a_sin) = (f.multiply(&b, &cos), f.multiply(&a, &sin));
    let (first, second) = (f.subtract(&a_cos, &b_sin), f.add(&b_cos, &a_sin));
    f.concatenate(&[first, second], feature)
}
