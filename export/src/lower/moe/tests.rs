//! The emitted mixture against each token's experts summed one by one in f64.

use tlaloc_artifact::{DType, EntryKind};

use super::*;
use crate::lower::testing::{
    Weights, activations, context, distance, random, sigmoid, silu, times, token_rows,
};
use crate::spec::{Activation, Ffn, GatedDeltaSpec, LayerSpec, Mixer};
use crate::stablehlo::Module;
use crate::support::{Array, client, run};

const HIDDEN: usize = 16;
/// Of the largest value.
const BOUND: f64 = 1e-5;

fn spec(normalise: bool, shared: bool) -> MoeSpec {
    let mlp = |intermediate_size| MlpSpec { intermediate_size, activation: Activation::Silu };
    MoeSpec {
        experts: 8,
        experts_per_token: 2,
        normalise,
        expert: mlp(12),
        shared: shared.then(|| mlp(20)),
    }
}

fn weights(moe: &MoeSpec) -> Weights {
    let (key_heads, value_heads) = (1, 1);
    let delta = GatedDeltaSpec { key_heads, value_heads, key_dim: 1, value_dim: 1, kernel: 2 };
    let (mixer, ffn) = (Mixer::GatedDelta(delta), Ffn::Moe(moe.clone()));
    Weights::random(LayerSpec { mixer, ffn, output_norm_eps: None }, HIDDEN)
}

fn gated(gate_up: &[f32], down: &[f32], h: &[f64]) -> Vec<f64> {
    let gate_up = times(gate_up, h);
    let (gate, up) = gate_up.split_at(gate_up.len() / 2);
    let gated: Vec<f64> = gate.iter().zip(up).map(|(&g, u)| silu(g) * u).collect();
    times(down, &gated)
}

/// The output of one token.
fn expected(moe: &MoeSpec, weights: &Weights, h: &[f32]) -> Vec<f64> {
    let h: Vec<f64> = h.iter().map(|&x| f64::from(x)).collect();
    let scores: Vec<f64> =
        times(&weights[LayerWeight::Router], &h).into_iter().map(f64::exp).collect();
    let mut order: Vec<usize> = (0..moe.experts).collect();
    // Stable: of equal ones the first.
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
    let chosen = &order[..moe.experts_per_token];
    let sum: f64 =
        if moe.normalise { chosen.iter().map(|&e| scores[e]).sum() } else { scores.iter().sum() };
    let mut out = vec![0.0; HIDDEN];
    let mut add = |share: f64, output: Vec<f64>| {
        out.iter_mut().zip(output).for_each(|(sum, x)| *sum += share * x);
    };
    let (gate_up, down) = (&weights[LayerWeight::ExpertGateUp], &weights[LayerWeight::ExpertDown]);
    let (gate_up_size, down_size) = (gate_up.len() / moe.experts, down.len() / moe.experts);
    for &e in chosen {
        let gate_up = &gate_up[e * gate_up_size..][..gate_up_size];
        let down = &down[e * down_size..][..down_size];
        add(scores[e] / sum, gated(gate_up, down, &h));
    }
    if moe.shared.is_some() {
        let scale = sigmoid(times(&weights[LayerWeight::SharedScale], &h)[0]);
        let (gate_up, down) = (LayerWeight::SharedGateUp, LayerWeight::SharedDown);
        add(scale, gated(&weights[gate_up], &weights[down], &h));
    }
    out
}

/// The emitted mixture's outputs for `tokens`, which are the last ones of each row, as many as
/// `counts` says.
fn found(
    moe: &MoeSpec,
    weights: &Weights,
    columns: usize,
    counts: &[usize],
    orientation: Orientation,
    tokens: &[f32],
) -> Option<Vec<f32>> {
    let client = client()?;
    let kind = if columns == 1 { EntryKind::Decode } else { EntryKind::Prefill };
    let cx = context(kind, counts.len(), columns, 1, orientation);
    let mut f = Function::new("main");
    let h = f.parameter("h", DType::F32, &orientation.dims(HIDDEN, cx.tokens()));
    let slot_mapping = f.parameter("slotMapping", DType::I32, &[cx.tokens()]);
    let rows = Rows::build(&mut f, &cx, &slot_mapping);
    let parameters = weights.parameters(&mut f);
    let out = mix(&mut f, &cx, moe, &h, &rows, &parameters);
    f.returns(vec![out]);
    let program = client.compile(&Module { main: f, private: Vec::new() }.text()).unwrap();

    let mut h = random(98, cx.tokens() * HIDDEN);
    let mut slots = vec![-1; cx.tokens()];
    let (mut at, mut places) = (0, Vec::new());
    for (row, &count) in counts.iter().enumerate() {
        for column in columns - count..columns {
            let place = row * columns + column;
            h[place * HIDDEN..][..HIDDEN].copy_from_slice(&tokens[at * HIDDEN..][..HIDDEN]);
            slots[place] = 1 + place as i32;
            places.push(place);
            at += 1;
        }
    }
    let mut arguments = vec![activations(&cx, &h), Array::i32(&[cx.tokens()], &slots)];
    arguments.extend(weights.arguments());
    let outputs = token_rows(&cx, &run(&program, &arguments)[0]);
    assert!(outputs.iter().all(|x| x.is_finite()), "padding is not finite");
    Some(places.iter().flat_map(|place| outputs[place * HIDDEN..][..HIDDEN].to_vec()).collect())
}

#[test]
fn every_token_goes_through_its_experts() {
    use Orientation::{FeatureMajor, RowMajor};
    for (columns, counts, orientation, normalise, shared) in [
        // One after the other, with a row of padding in the second.
        (1, vec![1], FeatureMajor, true, true),
        (1, vec![1, 0], RowMajor, false, false),
        // Groups of 1, 8 and 32.
        (3, vec![3], RowMajor, true, false),
        (1, vec![1; 16], FeatureMajor, true, true),
        (40, vec![40, 7, 0], FeatureMajor, false, true),
    ] {
        let moe = spec(normalise, shared);
        let weights = weights(&moe);
        let tokens = random(5, counts.iter().sum::<usize>() * HIDDEN);
        let found = found(&moe, &weights, columns, &counts, orientation, &tokens);
        let Some(found) = found else { return };
        let all = |moe: &MoeSpec| -> Vec<f64> {
            tokens.chunks(HIDDEN).flat_map(|h| expected(moe, &weights, h)).collect()
        };
        let near = distance(&found, &all(&moe));
        assert!(near < BOUND, "{counts:?} of {columns}: {near:.1e}");
        // Controls: the other normalisation, one expert less, no shared expert.
        let one_less = moe.experts_per_token - 1;
        for wrong in [
            MoeSpec { normalise: !normalise, ..moe.clone() },
            MoeSpec { experts_per_token: one_less, ..moe.clone() },
            MoeSpec { shared: None, ..moe.clone() },
        ] {
            if wrong != moe {
                let far = distance(&found, &all(&wrong));
                assert!(far > 100.0 * BOUND, "{wrong:?}: {far:.1e}");
            }
        }
    }
}

#[test]
fn of_equally_probable_experts_the_first_are_chosen() {
    let moe = spec(true, false);
    let weights = weights(&moe).with(LayerWeight::Router, |_| 0.0);
    let tokens = random(6, 9 * HIDDEN);
    let Some(found) = found(&moe, &weights, 9, &[9], Orientation::FeatureMajor, &tokens) else {
        return;
    };
    let expected: Vec<f64> =
        tokens.chunks(HIDDEN).flat_map(|h| expected(&moe, &weights, h)).collect();
    assert!(distance(&found, &expected) < BOUND);
}
