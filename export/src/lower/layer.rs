//! One decoder layer, as a function that `@main` calls once per layer of its kind.

use super::{Context, Request, mlp, norm, self_attention};
use crate::slots::{LayerWeight, LayerWeights};
use crate::spec::{Ffn, LayerSpec, Mixer};
use crate::stablehlo::{Function, Value};

/// Values computed once per step and used by every layer of one kind.
#[derive(Clone)]
pub(super) enum Shared {
    Attention(self_attention::Shared),
}

impl Shared {
    pub(super) fn build(
        f: &mut Function,
        cx: &Context,
        layer: &LayerSpec,
        request: &Request,
    ) -> Shared {
        match &layer.mixer {
            Mixer::Attention(attention) => {
                Shared::Attention(self_attention::Shared::build(f, cx, attention, request))
            }
            Mixer::GatedDelta(_) => unreachable!("refused by missing()"),
        }
    }

    fn map(&self, each: &mut dyn FnMut(&str, &Value) -> Value) -> Shared {
        match self {
            Shared::Attention(shared) => Shared::Attention(shared.map(each)),
        }
    }

    /// What the layer's function calls its two pools.
    fn pool_names(&self) -> [&'static str; 2] {
        match self {
            Shared::Attention(_) => ["keys", "values"],
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
            weights: self.weights.map(|weight, value| each(weight.name(), value)),
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
    let (out, pools) = match (&layer.mixer, &shared) {
        (Mixer::Attention(attention), Shared::Attention(shared)) => {
            self_attention::attention(&mut f, cx, attention, &h, pools.each_ref(), shared, &weights)
        }
        (Mixer::GatedDelta(_), _) => unreachable!("refused by missing()"),
    };
    let x = add(&mut f, cx, layer, &x, out, &weights, LayerWeight::MixerOutputNorm);

    let h = norm::rms(&mut f, cx, &x, Some(&weights[LayerWeight::FfnNorm]), cx.norm_eps);
    let out = match &layer.ffn {
        Ffn::Dense(spec) => mlp::mlp(&mut f, cx, spec, &h, &weights),
        Ffn::Moe(_) => unreachable!("refused by missing()"),
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
