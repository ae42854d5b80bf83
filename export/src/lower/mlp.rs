//! The gated MLP.

use super::{Context, projection};
use crate::slots::Projection;
use crate::spec::{Activation, MlpSpec};
use crate::stablehlo::{Binary, Function, Unary, Value};

/// `down(activation(gate(h)) * up(h))`, with gate and up stacked.
pub(super) fn mlp(
    f: &mut Function,
    cx: &Context,
    mlp: &MlpSpec,
    h: &Value,
    gate_up: Projection<'_, Value>,
    down: Projection<'_, Value>,
) -> Value {
    let gate_up = projection::project(f, cx, h, gate_up);
    let product = gated(f, mlp, &gate_up, cx.orientation.features());
    projection::project(f, cx, &product, down)
}

/// `activation(gate) * up` of `gate_up`, which holds gates, then as many ups along dimension
/// `features`.
pub(super) fn gated(f: &mut Function, mlp: &MlpSpec, gate_up: &Value, features: usize) -> Value {
    let width = mlp.intermediate_size;
    let gate = f.slice(gate_up, features, 0, width);
    let up = f.slice(gate_up, features, width, width);
    let activated = activate(f, mlp.activation, &gate);
    f.multiply(&activated, &up)
}

/// `activation(x)`, elementwise.
pub(super) fn activate(f: &mut Function, activation: Activation, x: &Value) -> Value {
    match activation {
        Activation::Silu => {
            let sigmoid = f.unary(Unary::Logistic, x);
            f.multiply(x, &sigmoid)
        }
        Activation::GeluTanh => {
            let square = f.multiply(x, x);
            let cube = f.multiply(&square, x);
            let cubic = f.with_float(Binary::Multiply, &cube, 0.044_715);
            let inner = f.add(x, &cubic);
            let scale = (2.0 / std::f64::consts::PI).sqrt() as f32;
            let inner = f.with_float(Binary::Multiply, &inner, scale);
            let tanh = f.unary(Unary::Tanh, &inner);
            let one_more = f.with_float(Binary::Add, &tanh, 1.0);
            let half = f.with_float(Binary::Multiply, x, 0.5);
            f.multiply(&half, &one_more)
        }
    }
}
