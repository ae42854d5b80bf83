//! One decoder layer, as a function that `@main` calls once per layer of its kind.

use super::rows::Rows;
use super::{Context, Request, gated_delta, mlp, moe, norm, self_attention};
use crate::slots::{LayerWeight, LayerWeights};
use crate::spec::{Ffn, LayerSpec, Mixer};
use crate::stablehlo::{Function, Value};

/// Values computed once per step and used by every layer of one kind.
#[derive(Clone)]
pub(super) struct Shared {
    mixer: MixerShared,
    /// For an ffn that works row by row, where the mixer does not.
    rows: Option<Rows>,
}

#[derive(Clone)]
enum MixerShared {
    Attention(self_attention::Shared),
    GatedDelta(gated_delta::Shared),
}

impl Shared {
    pub(super) fn build(
        f: &mut Function,
        cx: &Context,
        layer: &LayerSpec,
        request: &Request,
    ) -> Shared {
        let by_row = |f: &mut Function| Rows::build(f, cx, &request.full.slot_mapping);
        let writes = request.state_write_slots.as_ref();
        match (&layer.mixer, &request.state_slots) {
            (Mixer::Attention(attention), _) => {
                let shared = self_attention::Shared::build(f, cx, attention, request);
                let rows = matches!(layer.ffn, Ffn::Moe(_)).then(|| by_row(f));
                Shared { mixer: MixerShared::Attention(shared), rows }
            }
            (Mixer::GatedDelta(_), Some(slots)) => {
                let rows = by_row(f);
                let shared =
                    gated_delta::Shared::build(f, cx, rows, &request.positions, slots, writes);
                Shared { mixer: MixerShared::GatedDelta(shared), rows: None }
            }
            (Mixer::GatedDelta(_), None) => {
                unreachable!("a model with linear attention has state slots")
            }
        }
    }

    fn map(&self, each: &mut dyn FnMut(&str, &Value) -> Value) -> Shared {
        let mixer = match &self.mixer {
            MixerShared::Attention(shared) => MixerShared::Attention(shared.map(each)),
            MixerShared::GatedDelta(shared) => MixerShared::GatedDelta(shared.map(each)),
        };
        Shared { mixer, rows: self.rows.as_ref().map(|rows| rows.map(each)) }
    }

    /// What the layer's function calls its two pools.
    fn pool_names(&self) -> [&'static str; 2] {
        match self.mixer {
            MixerShared::Attention(_) => ["keys", "values"],
            MixerShared::GatedDelta(_) => ["conv", "state"],
        }
    }

    fn rows(&self) -> &Rows {
        match (&self.mixer, &self.rows) {
            (MixerShared::GatedDelta(shared), _) => &shared.rows,
            (_, Some(rows)) => rows,
            (_, None) => unreachable!("nothing in the layer works row by row"),
        }
    }
}

/// The arguments of a layer.
pub(super) struct LayerInputs {
    pub(super) x: Value,
    /// The layer's pools, in signature order.
    pub(super) pools: [Value; 2],
    pub(super) shared: Shared,
    pub(super) weights: LayerWeights<Value>,
}

impl LayerInputs {
    /// The arguments in the order of the function's parameters.
    pub(super) fn list(&self) -> Vec<Value> {
        let mut list = Vec::new();
        self.map(&mut |_, value| {
            list.push(value.clone());
            value.clone()
        });
        list
    }

    /// `each` of every argument and its name, in the order of the function's parameters.
    fn map(&self, each: &mut dyn FnMut(&str, &Value) -> Value) -> LayerInputs {
        let ([first, second], [a, b]) = (self.shared.pool_names(), &self.pools);
        LayerInputs {
            x: each("x", &self.x),
            pools: [each(first, a), each(second, b)],
            shared: self.shared.map(each),
            weights: self.weights.map(|slot, value| each(&slot.name(""), value)),
        }
    }
}

/// The function `name` of a layer that takes arguments like `inputs` and returns the new residual
/// stream and pools.
pub(super) fn function(
    cx: &Context,
    layer: &LayerSpec,
    name: &str,
    inputs: &LayerInputs,
) -> Function {
    let mut f = Function::new(name);
    let LayerInputs { x, pools, shared, weights } =
        inputs.map(&mut |name, value| f.parameter(name, value.dtype(), value.dims()));

    let h = norm::rms(&mut f, cx, &x, Some(&weights[LayerWeight::MixerNorm]), cx.norm_eps);
    let (out, pools) = match (&layer.mixer, &shared.mixer) {
        (Mixer::Attention(attention), MixerShared::Attention(shared)) => {
            self_attention::attention(&mut f, cx, attention, &h, pools.each_ref(), shared, &weights)
        }
        (Mixer::GatedDelta(delta), MixerShared::GatedDelta(shared)) => {
            gated_delta::mix(&mut f, cx, delta, &h, pools.each_ref(), shared, &weights)
        }
        _ => unreachable!("what a layer shares is built for its mixer"),
    };
    let x = add(&mut f, cx, layer, &x, out, &weights, LayerWeight::MixerOutputNorm);

    let h = norm::rms(&mut f, cx, &x, Some(&weights[LayerWeight::FfnNorm]), cx.norm_eps);
    let out = match &layer.ffn {
        Ffn::Dense(spec) => {
            let [gate_up, down] =
                [LayerWeight::GateUp, LayerWeight::Down].map(|weight| weights.projection(weight));
            mlp::mlp(&mut f, cx, spec, &h, gate_up, down)
        }
        Ffn::Moe(spec) => moe::mix(&mut f, cx, spec, &h, shared.rows(), &weights),
    };
    let x = add(&mut f, cx, layer, &x, out, &weights, LayerWeight::FfnOutputNorm);
    let [a, b] = pools;
    f.returns(vec![x, a, b]);
    f
}

/// `x + out`, with `out` normed first where the layer does so.
fn add(
    f: &mut Function,
    cx: &Context,
    layer: &LayerSpec,
    x: &Value,
    out: Value,
    weights: &LayerWeights<Value>,
    gain: LayerWeight,
) -> Value {
    let out = match layer.output_norm_eps {
        Some(eps) => norm::rms(f, cx, &out, Some(&weights[gain]), eps),
        None => out,
    };
    f.add(x, &out)
}
