//! Softmax attention as a layer's mixer: from normed activations to the heads' outputs.

use super::forms::Orientation;
use super::history::History;
use super::rope::RopeTables;
use super::{Context, Request, decode_attention, kv, norm, prefill_attention, projection, rope};
use crate::pools;
use crate::slots::{LayerWeight, LayerWeights};
use crate::spec::{AttentionSpec, HeadNorm};
use crate::stablehlo::{Binary, Function, Unary, Value};

#[cfg(test)]
mod tests;

/// Values computed once per step and used by every attention layer of one kind.
#[derive(Clone)]
pub(super) struct Shared {
    rope: Option<RopeTables>,
    /// Where this call's tokens go in the pools.
    write_indices: Value,
    history: History,
    /// What a token may see: [`decode_attention::bias`], or the tokens' positions in prefill.
    visibility: Value,
}

impl Shared {
    pub(super) fn build(
        f: &mut Function,
        cx: &Context,
        attention: &AttentionSpec,
        request: &Request,
    ) -> Shared {
        let class = pools::class(attention, cx.pools);
        let paging = request.paging(class);
        let history = History::build(f, cx, attention, &paging.block_tables, &request.positions);
        let visibility = if cx.is_one_token() {
            decode_attention::bias(f, attention, &history, &request.seq_lens)
        } else {
            request.positions.clone()
        };
        Shared {
            rope: RopeTables::build(f, cx, attention, &request.positions),
            write_indices: kv::write_indices(f, cx.pools.block_size, &paging.slot_mapping),
            history,
            visibility,
        }
    }

    /// `each` of every value and its name, in the order of a layer's parameters.
    pub(super) fn map(&self, each: &mut dyn FnMut(&str, &Value) -> Value) -> Shared {
        Shared {
            rope: self.rope.as_ref().map(|rope| RopeTables {
                key_cos: each("keyCos", &rope.key_cos),
                key_sin: each("keySin", &rope.key_sin),
                query_cos: each("queryCos", &rope.query_cos),
                query_sin: each("querySin", &rope.query_sin),
            }),
            write_indices: each("writeIndices", &self.write_indices),
            history: History {
                slots: each("historySlots", &self.history.slots),
                positions: each("historyPositions", &self.history.positions),
            },
            visibility: each("visibility", &self.visibility),
        }
    }
}

/// The output projection of attention over `h`, and the pools (keys, values) with this call's tokens
/// written.
pub(super) fn attention(
    f: &mut Function,
    cx: &Context,
    attention: &AttentionSpec,
    h: &Value,
    pools: [&Value; 2],
    shared: &Shared,
    weights: &LayerWeights<Value>,
) -> (Value, [Value; 2]) {
    let Heads { query, key, value, projected } =
        project(f, cx, attention, h, shared.rope.as_ref(), weights);
    let (mut mixed, pools) =
        write_and_attend(f, cx, attention, (&query, &key, &value), pools, shared);
    if attention.gate {
        let (query, kv) = (attention.query_width(), attention.kv_width());
        let gate = f.slice(&projected, cx.orientation.features(), query + 2 * kv, query);
        let gate = f.unary(Unary::Logistic, &gate);
        mixed = f.binary(Binary::Multiply, &mixed, &gate);
    }
    let out = projection::project(f, cx, &mixed, weights.projection(LayerWeight::AttentionOutput));
    (out, pools)
}

/// What attention computes of its input.
struct Heads {
    /// Rotated and scaled, `[tokens, heads, head_dim]`.
    query: Value,
    /// Rotated, `[tokens, kv_heads, head_dim]`.
    key: Value,
    /// `[tokens, kv_heads, head_dim]`.
    value: Value,
    /// All of them and the gate, if there is one, as the projection gives them.
    projected: Value,
}

fn project(
    f: &mut Function,
    cx: &Context,
    attention: &AttentionSpec,
    h: &Value,
    rope_tables: Option<&RopeTables>,
    weights: &LayerWeights<Value>,
) -> Heads {
    let AttentionSpec { heads, kv_heads, head_dim, .. } = *attention;
    let (query_width, kv_width) = (attention.query_width(), attention.kv_width());
    let features = cx.orientation.features();
    let projected = projection::project(f, cx, h, weights.projection(LayerWeight::Qkv));
    let part = |f: &mut Function, start: usize, width: usize| {
        let part = f.slice(&projected, features, start, width);
        match weights.get(LayerWeight::QkvBias) {
            Some(bias) => {
                let bias = f.slice(bias, 0, start, width);
                let bias = f.broadcast(&bias, part.dims(), &[features]);
                f.add(&part, &bias)
            }
            None => part,
        }
    };
    let heads_at = |f: &mut Function, start: usize, heads: usize| {
        let part = part(f, start, heads * head_dim);
        f.reshape(&part, &cx.orientation.head_dims(heads, head_dim, cx.tokens()))
    };
    let query = heads_at(f, 0, heads);
    let key = heads_at(f, query_width, kv_heads);
    let value = heads_at(f, query_width + kv_width, kv_heads);
    let normed = |f: &mut Function, x: Value, gain: LayerWeight| match attention.qk_norm {
        HeadNorm::Off => x,
        HeadNorm::Plain => norm::rms_of_heads(f, cx, &x, None, cx.norm_eps),
        HeadNorm::Gain => norm::rms_of_heads(f, cx, &x, Some(&weights[gain]), cx.norm_eps),
    };
    let query = normed(f, query, LayerWeight::QueryNorm);
    let key = normed(f, key, LayerWeight::KeyNorm);
    let query = rope::query(f, cx, attention, rope_tables, &query);
    let key = rope::key(f, cx, rope_tables, &key);
    // [tokens, heads, head_dim], as pools want it.
    let token_major = |f: &mut Function, x: &Value| match cx.orientation {
        Orientation::FeatureMajor => f.transpose(x, &[2, 0, 1]),
        Orientation::RowMajor => x.clone(),
    };
    let (query, key, value) =
        (token_major(f, &query), token_major(f, &key), token_major(f, &value));
    Heads { query, key, value, projected }
}

/// The pools with the keys and values of tokens, of which nothing else is needed: `h` is what the
/// attention takes of them, at `positions` (i32 `[B, T]`) and `slots` (i32 `[B * T]`).
pub(super) fn remember(
    f: &mut Function,
    cx: &Context,
    attention: &AttentionSpec,
    h: &Value,
    (positions, slots): (&Value, &Value),
    [keys, values]: [&Value; 2],
    weights: &LayerWeights<Value>,
) -> [Value; 2] {
    let rope = RopeTables::build(f, cx, attention, positions);
    let Heads { key, value, .. } = project(f, cx, attention, h, rope.as_ref(), weights);
    let indices = kv::write_indices(f, cx.pools.block_size, slots);
    [kv::write(f, keys, &indices, &key), kv::write(f, values, &indices, &value)]
}

/// The heads' outputs as activations, and the pools with this call's keys and values written. Query,
/// key and value are `[tokens, heads, head_dim]`, the query scaled.
fn write_and_attend(
    f: &mut Function,
    cx: &Context,
    attention: &AttentionSpec,
    (query, key, value): (&Value, &Value, &Value),
    [keys, values]: [&Value; 2],
    shared: &Shared,
) -> (Value, [Value; 2]) {
    let keys = kv::write(f, keys, &shared.write_indices, key);
    let values = kv::write(f, values, &shared.write_indices, value);
    let attend =
        if cx.is_one_token() { decode_attention::attend } else { prefill_attention::attend };
    let pools = (&keys, &values);
    let mixed = attend(f, cx, attention, query, pools, &shared.history, &shared.visibility);
    (mixed, [keys, values])
}
