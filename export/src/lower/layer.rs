//! One decoder layer, as a function that `@main` calls once per layer of its kind.

use super::forms::Orientation;
use super::rope::RopeTables;
use super::{Context, Request, decode_attention, kv, norm, prefill_attention, projection, rope};
use crate::slots::LayerWeights;
use crate::spec::{AttentionSpec, LayerSpec, MlpSpec};
use crate::stablehlo::{Function, Unary, Value};

/// Values computed once per step and used by every layer of one kind.
#[derive(Clone)]
pub(super) struct Shared {
    rope: RopeTables,
    /// Where this call's tokens go in the pools.
    write_indices: Value,
    /// Pool slots of the rows' histories.
    history: Value,
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
        let visibility = if cx.is_decode() {
            decode_attention::bias(f, cx, &request.seq_lens)
        } else {
            request.positions.clone()
        };
        Shared {
            rope: RopeTables::build(f, cx, attention, &request.positions),
            write_indices: kv::write_indices(f, cx, &request.slot_mapping),
            history: kv::history_slots(f, cx, &request.block_tables),
            visibility,
        }
    }
}

/// The arguments of a layer.
pub(super) struct LayerInputs {
    pub(super) x: Value,
    pub(super) keys: Value,
    pub(super) values: Value,
    pub(super) shared: Shared,
    pub(super) weights: LayerWeights<Value>,
}

impl LayerInputs {
    /// The arguments in the order of the function's parameters.
    pub(super) fn list(&self) -> Vec<&Value> {
        let Shared { rope, write_indices, history, visibility } = &self.shared;
        let mut list = vec![&self.x, &self.keys, &self.values];
        list.extend([&rope.key_cos, &rope.key_sin, &rope.query_cos, &rope.query_sin]);
        list.extend([write_indices, history, visibility]);
        list.extend(self.weights.iter());
        list
    }

    /// Parameters of `f` for these arguments, in the order of [`LayerInputs::list`].
    fn parameters(&self, f: &mut Function) -> LayerInputs {
        let mut like = |name: &str, value: &Value| f.parameter(name, value.dtype(), value.dims());
        let Shared { rope, write_indices, history, visibility } = &self.shared;
        LayerInputs {
            x: like("x", &self.x),
            keys: like("keys", &self.keys),
            values: like("values", &self.values),
            shared: Shared {
                rope: RopeTables {
                    key_cos: like("keyCos", &rope.key_cos),
                    key_sin: like("keySin", &rope.key_sin),
                    query_cos: like("queryCos", &rope.query_cos),
                    query_sin: like("querySin", &rope.query_sin),
                },
                write_indices: like("writeIndices", write_indices),
                history: like("history", history),
                visibility: like("visibility", visibility),
            },
            weights: LayerWeights {
                input_norm: like("inputNorm", &self.weights.input_norm),
                qkv: like("qkvProj", &self.weights.qkv),
                attention_output: like("oProj", &self.weights.attention_output),
                mlp_norm: like("postAttnNorm", &self.weights.mlp_norm),
                gate_up: like("gateUpProj", &self.weights.gate_up),
                down: like("downProj", &self.weights.down),
            },
        }
    }
}

/// The function `name` of a layer that takes arguments like `inputs` and returns the new residual
/// stream, keys and values.
pub(super) fn function(
    cx: &Context,
    layer: &LayerSpec,
    name: &str,
    inputs: &LayerInputs,
) -> Function {
    let mut f = Function::new(name);
    let LayerInputs { x, keys, values, shared, weights } = inputs.parameters(&mut f);

    let h = norm::rms(&mut f, cx, &x, &weights.input_norm);
    let (mixed, keys, values) =
        attention(&mut f, cx, &layer.attention, &h, &weights.qkv, (&keys, &values), &shared);
    let out = projection::project(&mut f, cx, &mixed, &weights.attention_output);
    let x = f.add(&x, &out);

    let h = norm::rms(&mut f, cx, &x, &weights.mlp_norm);
    let out = mlp(&mut f, cx, &layer.mlp, &h, &weights);
    let x = f.add(&x, &out);
    f.returns(vec![x, keys, values]);
    f
}

/// The attention heads' outputs as activations, and the pools with this call's tokens written.
fn attention(
    f: &mut Function,
    cx: &Context,
    attention: &AttentionSpec,
    h: &Value,
    qkv: &Value,
    (keys, values): (&Value, &Value),
    shared: &Shared,
) -> (Value, Value, Value) {
    let AttentionSpec { heads, kv_heads, head_dim, .. } = *attention;
    let (query_width, kv_width) = (attention.query_width(), attention.kv_width());
    let qkv = projection::project(f, cx, h, qkv);
    let heads_at = |f: &mut Function, start: usize, heads: usize| {
        let part = f.slice(&qkv, cx.orientation.features(), start, heads * head_dim);
        f.reshape(&part, &cx.orientation.head_dims(heads, head_dim, cx.tokens()))
    };
    let query = heads_at(f, 0, heads);
    let key = heads_at(f, query_width, kv_heads);
    let value = heads_at(f, query_width + kv_width, kv_heads);
    let query = rope::rotate(f, cx, &query, &shared.rope.query_cos, &shared.rope.query_sin);
    let key = rope::rotate(f, cx, &key, &shared.rope.key_cos, &shared.rope.key_sin);
    // [tokens, heads, head_dim], as pools want it.
    let token_major = |f: &mut Function, x: &Value| match cx.orientation {
        Orientation::FeatureMajor => f.transpose(x, &[2, 0, 1]),
        Orientation::RowMajor => x.clone(),
    };
    let (query, key, value) =
        (token_major(f, &query), token_major(f, &key), token_major(f, &value));

    let keys = kv::write(f, keys, &shared.write_indices, &key);
    let values = kv::write(f, values, &shared.write_indices, &value);
    let attend = if cx.is_decode() { decode_attention::attend } else { prefill_attention::attend };
    let pools = (&keys, &values);
    let mixed = attend(f, cx, attention, &query, pools, &shared.history, &shared.visibility);
    (mixed, keys, values)
}

fn mlp(
    f: &mut Function,
    cx: &Context,
    mlp: &MlpSpec,
    h: &Value,
    weights: &LayerWeights<Value>,
) -> Value {
    let width = mlp.intermediate_size;
    let gate_up = projection::project(f, cx, h, &weights.gate_up);
    let gate = f.slice(&gate_up, cx.orientation.features(), 0, width);
    let up = f.slice(&gate_up, cx.orientation.features(), width, width);
    let sigmoid = f.unary(Unary::Logistic, &gate);
    let silu = f.multiply(&gate, &sigmoid);
    let product = f.multiply(&silu, &up);
    projection::project(f, cx, &product, &weights.down)
}
