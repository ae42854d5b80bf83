//! A mixture of experts as a layer's ffn: the router, the experts that it chooses, the shared one.

mod experts;
mod router;

use experts::Experts;

use super::forms::Orientation;
use super::rows::Rows;
use super::{Context, mlp, projection};
use crate::slots::{LayerWeight, LayerWeights};
use crate::spec::{MlpSpec, MoeSpec};
use crate::stablehlo::{Function, Unary, Value};

/// The weighted sum of each token's experts.
pub(super) fn mix(
    f: &mut Function,
    cx: &Context,
    moe: &MoeSpec,
    h: &Value,
    rows: &Rows,
    weights: &LayerWeights<Value>,
) -> Value {
    let chosen = router::choose(f, cx, moe, h, &weights[LayerWeight::Router]);
    let tokens = match cx.orientation {
        Orientation::FeatureMajor => f.transpose(h, &[1, 0]),
        Orientation::RowMajor => h.clone(),
    };
    let [gate_up, down] = [LayerWeight::ExpertGateUp, LayerWeight::ExpertDown]
        .map(|weight| weights.projection(weight));
    let out = Experts { cx, moe, gate_up, down }.sum(f, &tokens, &chosen, rows);
    let out = match cx.orientation {
        Orientation::FeatureMajor => f.transpose(&out, &[1, 0]),
        Orientation::RowMajor => out,
    };
    match &moe.shared {
        Some(shared) => {
            let own = shared_expert(f, cx, shared, h, weights);
            f.add(&out, &own)
        }
        None => out,
    }
}

/// `sigmoid(scale · h) * shared(h)`.
fn shared_expert(
    f: &mut Function,
    cx: &Context,
    shared: &MlpSpec,
    h: &Value,
    weights: &LayerWeights<Value>,
) -> Value {
    let [gate_up, down] = [LayerWeight::SharedGateUp, LayerWeight::SharedDown]
        .map(|weight| weights.projection(weight));
    let out = mlp::mlp(f, cx, shared, h, gate_up, down);
    let scale = projection::exact(f, cx, h, &weights[LayerWeight::SharedScale]);
    let scale = f.unary(Unary::Logistic, &scale);
    let scale = f.reshape(&scale, &[cx.tokens()]);
    let scale = f.broadcast(&scale, out.dims(), &[cx.orientation.tokens()]);
    f.multiply(&out, &scale)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failure here is a failed test")]
mod tests;
