//! Rotary position embedding, half-split: with `n` rotated pairs, features `i` and `i + n` form one.

use tlaloc_artifact::DType;

use super::Context;
use super::forms::Orientation;
use crate::spec::AttentionSpec;
use crate::stablehlo::{Binary, Function, Unary, Value};

/// Cosines and sines of every token's angles, `[pairs, tokens]` or transposed, as activations lie.
/// Those for queries carry the attention scale.
#[derive(Clone)]
pub(super) struct RopeTables {
    pub(super) key_cos: Value,
    pub(super) key_sin: Value,
    pub(super) query_cos: Value,
    pub(super) query_sin: Value,
}

impl RopeTables {
    /// The tables of an attention that rotates anything.
    pub(super) fn build(
        f: &mut Function,
        cx: &Context,
        attention: &AttentionSpec,
        positions: &Value,
    ) -> Option<RopeTables> {
        let pairs = attention.rope_frequencies.len();
        if pairs == 0 {
            return None;
        }
        let (features, tokens) = (cx.orientation.features(), cx.orientation.tokens());
        let dims = cx.orientation.dims(pairs, cx.tokens());
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
        let identity = f.identity(2 * pairs);
        let both = match cx.orientation {
            Orientation::FeatureMajor => f.dot(&identity, &both, (1, 0)),
            Orientation::RowMajor => f.dot(&both, &identity, (1, 0)),
        };
        let key_cos = f.slice(&both, features, 0, pairs);
        let key_sin = f.slice(&both, features, pairs, pairs);
        Some(RopeTables {
            query_cos: f.with_float(Binary::Multiply, &key_cos, attention.scale),
            query_sin: f.with_float(Binary::Multiply, &key_sin, attention.scale),
            key_cos,
            key_sin,
        })
    }
}

/// `query`, activations split in heads, rotated and multiplied by the attention scale.
pub(super) fn query(
    f: &mut Function,
    cx: &Context,
    attention: &AttentionSpec,
    tables: Option<&RopeTables>,
    query: &Value,
) -> Value {
    let scale = |f: &mut Function, x: &Value| f.with_float(Binary::Multiply, x, attention.scale);
    match tables {
        Some(RopeTables { query_cos, query_sin, .. }) => {
            rotate(f, cx, query, query_cos, query_sin, scale)
        }
        None => scale(f, query),
    }
}

/// `key`, activations split in heads, rotated.
pub(super) fn key(
    f: &mut Function,
    cx: &Context,
    tables: Option<&RopeTables>,
    key: &Value,
) -> Value {
    match tables {
        Some(RopeTables { key_cos, key_sin, .. }) => {
            rotate(f, cx, key, key_cos, key_sin, |_, rest| rest.clone())
        }
        None => key.clone(),
    }
}

/// `x` with its first features rotated by the angles of `cos` and `sin`, and `others` of the rest.
fn rotate(
    f: &mut Function,
    cx: &Context,
    x: &Value,
    cos: &Value,
    sin: &Value,
    others: impl FnOnce(&mut Function, &Value) -> Value,
) -> Value {
    // (feature, places of a table's dimensions) in the shape of split heads.
    let (feature, places) = match cx.orientation {
        Orientation::FeatureMajor => (1, [1, 2]),
        Orientation::RowMajor => (2, [0, 2]),
    };
    let (size, pairs) = (x.dims()[feature], cos.dims()[cx.orientation.features()]);
    let (a, b) = (f.slice(x, feature, 0, pairs), f.slice(x, feature, pairs, pairs));
    let (cos, sin) = (f.broadcast(cos, a.dims(), &places), f.broadcast(sin, a.dims(), &places));
    let (a_cos, b_sin) = (f.multiply(&a, &cos), f.multiply(&b, &sin));
    let (b_cos, a_sin) = (f.multiply(&b, &cos), f.multiply(&a, &sin));
    let mut parts = vec![f.subtract(&a_cos, &b_sin), f.add(&b_cos, &a_sin)];
    if size > 2 * pairs {
        let rest = f.slice(x, feature, 2 * pairs, size - 2 * pairs);
        parts.push(others(f, &rest));
    }
    f.concatenate(&parts, feature)
}
