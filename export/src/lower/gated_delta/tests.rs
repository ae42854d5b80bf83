//! The emitted mixer, run over several calls as a server would, against the recurrence written out
//! token by token in f64.

use tlaloc_artifact::EntryKind;
use tlaloc_pjrt::{Client, Executable};

use super::*;
use crate::lower::testing::{
    EPS, Weights, activations, context, distance, random, sigmoid, silu, times, token_rows,
};
use crate::spec::{Ffn, LayerSpec, Mixer, MlpSpec};
use crate::stablehlo::Module;
use crate::support::{Array, client, run};

const HIDDEN: usize = 16;
const SLOTS: usize = 4;
/// Of the largest value.
const BOUND: f64 = 2e-5;

const DELTA: GatedDeltaSpec =
    GatedDeltaSpec { key_heads: 2, value_heads: 4, key_dim: 8, value_dim: 12, kernel: 4 };

fn weights() -> Weights {
    let ffn = Ffn::Dense(MlpSpec { intermediate_size: 1, activation: Activation::Silu });
    let mixer = Mixer::GatedDelta(DELTA);
    Weights::random(LayerSpec { mixer, ffn, output_norm_eps: None }, HIDDEN)
        // States that last for tens of tokens, and a step size of its own for each head.
        .with(LayerWeight::DeltaLogRate, |x| x - 3.0)
}

/// What people get wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mistake {
    NoConvolution,
    ReversedTaps,
    NoActivation,
    NoUnitLength,
    NoQueryScale,
    TiledHeads,
    FullStep,
    NoDecay,
    ResetEvery64,
    ReadBeforeDecay,
    NoCorrection,
    OutputBeforeUpdate,
    CentredGain,
    GateBeforeNorm,
    NoGate,
}

/// One sequence, token by token.
struct Recurrence<'a> {
    weights: &'a Weights,
    mistake: Option<Mistake>,
    /// Channels of every token so far.
    channels: Vec<Vec<f64>>,
    /// `[value_heads][key_dim][value_dim]`.
    states: Vec<Vec<Vec<f64>>>,
}

impl<'a> Recurrence<'a> {
    fn new(weights: &'a Weights, mistake: Option<Mistake>) -> Recurrence<'a> {
        let GatedDeltaSpec { value_heads, key_dim, value_dim, .. } = DELTA;
        let states = vec![vec![vec![0.0; value_dim]; key_dim]; value_heads];
        Recurrence { weights, mistake, channels: Vec::new(), states }
    }

    fn makes(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    /// The current token's channels after the convolution over time.
    fn convolved(&self) -> Vec<f64> {
        let (kernel, width) = (DELTA.kernel, DELTA.channels());
        let last = self.channels.len() - 1;
        let tap = |back: usize, channel: usize| {
            let tap = if self.makes(Mistake::ReversedTaps) { back } else { kernel - 1 - back };
            f64::from(self.weights[LayerWeight::DeltaConv][tap * width + channel])
        };
        let one = |channel: usize| {
            let seen = 0..kernel.min(last + 1);
            let sum = seen.map(|back| tap(back, channel) * self.channels[last - back][channel]);
            let x = if self.makes(Mistake::NoConvolution) {
                self.channels[last][channel]
            } else {
                sum.sum()
            };
            if self.makes(Mistake::NoActivation) { x } else { silu(x) }
        };
        (0..width).map(one).collect()
    }

    fn unit(&self, x: &[f64]) -> Vec<f64> {
        let length = (x.iter().map(|x| x * x).sum::<f64>() + 1e-6).sqrt();
        let length = if self.makes(Mistake::NoUnitLength) { 1.0 } else { length };
        x.iter().map(|x| x / length).collect()
    }

    /// The mixer's output for the next token.
    fn step(&mut self, h: &[f32]) -> Vec<f64> {
        let GatedDeltaSpec { key_heads, value_heads, key_dim, value_dim, .. } = DELTA;
        let h: Vec<f64> = h.iter().map(|&x| f64::from(x)).collect();
        let mut projected = times(&self.weights[LayerWeight::DeltaIn], &h);
        let gate = projected.split_off(DELTA.channels());
        if self.makes(Mistake::ResetEvery64) && self.channels.len().is_multiple_of(64) {
            self.states.iter_mut().flatten().flatten().for_each(|x| *x = 0.0);
        }
        self.channels.push(projected);
        let channels = self.convolved();
        let beta_decay = times(&self.weights[LayerWeight::DeltaBetaDecay], &h);

        let mut outputs = Vec::new();
        for head in 0..value_heads {
            let tiled = self.makes(Mistake::TiledHeads);
            let shared = if tiled { head % key_heads } else { head / (value_heads / key_heads) };
            let key_at = DELTA.key_width() + shared * key_dim;
            let value_at = 2 * DELTA.key_width() + head * value_dim;
            let scale = if self.makes(Mistake::NoQueryScale) { 1.0 } else { key_dim as f64 };
            let query = self.unit(&channels[shared * key_dim..][..key_dim]);
            let query: Vec<f64> = query.iter().map(|x| x / scale.sqrt()).collect();
            let key = self.unit(&channels[key_at..][..key_dim]);
            let value = &channels[value_at..][..value_dim];

            let beta = sigmoid(beta_decay[head]);
            let beta = if self.makes(Mistake::FullStep) { 1.0 } else { beta };
            let bias = f64::from(self.weights[LayerWeight::DeltaDecayBias][head]);
            let rate = f64::from(self.weights[LayerWeight::DeltaLogRate][head]).exp();
            let decay = (-rate * (beta_decay[value_heads + head] + bias).exp().ln_1p()).exp();
            let decay = if self.makes(Mistake::NoDecay) { 1.0 } else { decay };

            let read = |state: &[Vec<f64>], with: &[f64]| -> Vec<f64> {
                let feature = |v: usize| state.iter().zip(with).map(|(row, x)| row[v] * x).sum();
                (0..value_dim).map(feature).collect()
            };
            let (no_correction, early) =
                (self.makes(Mistake::NoCorrection), self.makes(Mistake::ReadBeforeDecay));
            let stale = self.makes(Mistake::OutputBeforeUpdate);
            let state = &mut self.states[head];
            let before = read(state, &key);
            state.iter_mut().flatten().for_each(|x| *x *= decay);
            let held = if early { before } else { read(state, &key) };
            let held = if no_correction { vec![0.0; value_dim] } else { held };
            let first = read(state, &query);
            for (row, k) in state.iter_mut().zip(&key) {
                for (v, x) in row.iter_mut().enumerate() {
                    *x += k * beta * (value[v] - held[v]);
                }
            }
            let out = if stale { first } else { read(state, &query) };
            outputs.extend(self.normed(out, &gate[head * value_dim..][..value_dim]));
        }
        times(&self.weights[LayerWeight::DeltaOutput], &outputs)
    }

    fn normed(&self, mut out: Vec<f64>, gate: &[f64]) -> Vec<f64> {
        let gate: Vec<f64> = gate.iter().map(|&x| silu(x)).collect();
        let apply = |out: &mut Vec<f64>| out.iter_mut().zip(&gate).for_each(|(x, g)| *x *= g);
        if self.makes(Mistake::GateBeforeNorm) {
            apply(&mut out);
        }
        let mean = out.iter().map(|x| x * x).sum::<f64>() / out.len() as f64;
        let centre = if self.makes(Mistake::CentredGain) { 1.0 } else { 0.0 };
        for (x, &gain) in out.iter_mut().zip(&self.weights[LayerWeight::DeltaNorm]) {
            *x *= (f64::from(gain) + centre) / (mean + f64::from(EPS)).sqrt();
        }
        if !self.makes(Mistake::GateBeforeNorm) && !self.makes(Mistake::NoGate) {
            apply(&mut out);
        }
        out
    }

    /// The outputs of all `tokens`, one after the other.
    fn outputs(&mut self, tokens: &[f32]) -> Vec<f64> {
        tokens.chunks(HIDDEN).flat_map(|h| self.step(h)).collect()
    }
}

/// The mixer of one entry. With `late_read` it reads the old states after it wrote the new ones.
fn program(cx: &Context, weights: &Weights, late_read: bool) -> String {
    let mut f = Function::new("main");
    let (batch, tokens) = (cx.bucket.batch, cx.bucket.tokens);
    let h = f.parameter("h", DType::F32, &cx.orientation.dims(HIDDEN, cx.tokens()));
    let positions = f.parameter("positions", DType::I32, &[batch, tokens]);
    let slot_mapping = f.parameter("slotMapping", DType::I32, &[batch * tokens]);
    let state_slots = f.parameter("stateSlots", DType::I32, &[batch]);
    let [conv, state] = pool_dims(cx.pools.state_slots);
    let conv = f.aliased_parameter("convState", DType::F32, &conv, 1);
    let state = f.aliased_parameter("recurrentState", DType::F32, &state, 2);
    let weights = weights.parameters(&mut f);
    let rows = Rows::build(&mut f, cx, &slot_mapping);
    let shared = Shared::build(&mut f, cx, rows, &positions, &state_slots, None);
    let pools = [&conv, &state];
    let (mut out, [conv, new]) = mix(&mut f, cx, &DELTA, &h, pools, &shared, &weights);
    if late_read {
        let mut sum = f.multiply(&state, &new);
        for _ in 0..4 {
            sum = f.reduce(Reduce::Add, &sum, 0);
        }
        let sum = f.broadcast(&sum, out.dims(), &[]);
        out = f.add(&out, &sum);
    }
    f.returns(vec![out, conv, new]);
    Module { main: f, private: Vec::new() }.text()
}

fn pool_dims(slots: usize) -> [Vec<usize>; 2] {
    let GatedDeltaSpec { value_heads, key_dim, value_dim, kernel, .. } = DELTA;
    [vec![slots, kernel - 1, DELTA.channels()], vec![slots, value_heads, key_dim, value_dim]]
}

/// Some tokens of one sequence.
struct Row<'a> {
    slot: usize,
    position: usize,
    tokens: &'a [f32],
}

/// Pools, and the programs that work on them.
struct Server<'a> {
    client: &'a std::sync::Arc<Client>,
    weights: &'a Weights,
    pools: [Array; 2],
}

impl<'a> Server<'a> {
    /// Slots hold what no sequence may see.
    fn new(client: &'a std::sync::Arc<Client>, weights: &'a Weights) -> Server<'a> {
        let stale = |dims: Vec<usize>| {
            let count = dims.iter().product();
            Array::f32(&dims, &vec![f32::NAN; count])
        };
        Server { client, weights, pools: pool_dims(SLOTS).map(stale) }
    }

    fn entry(
        &self,
        batch: usize,
        tokens: usize,
        orientation: Orientation,
    ) -> (Context, Executable) {
        let kind = if tokens == 1 { EntryKind::Decode } else { EntryKind::Prefill };
        let cx = context(kind, batch, tokens, SLOTS, orientation);
        let program = self.client.compile(&program(&cx, self.weights, false)).unwrap();
        (cx, program)
    }

    /// The outputs of each row's tokens.
    fn call(&mut self, (cx, program): &(Context, Executable), rows: &[Row]) -> Vec<Vec<f32>> {
        let (batch, columns) = (cx.bucket.batch, cx.bucket.tokens);
        // What stands in padding must not matter.
        let mut h = random(99, batch * columns * HIDDEN);
        let mut positions = vec![0; batch * columns];
        let mut slot_mapping = vec![-1; batch * columns];
        let mut state_slots = vec![0; batch];
        for (r, row) in rows.iter().enumerate() {
            let count = row.tokens.len() / HIDDEN;
            let first = (r + 1) * columns - count;
            h[first * HIDDEN..][..row.tokens.len()].copy_from_slice(row.tokens);
            for token in 0..count {
                positions[first + token] = (row.position + token) as i32;
                slot_mapping[first + token] = (1 + row.position + token) as i32;
            }
            state_slots[r] = row.slot as i32;
        }
        let mut arguments = vec![
            activations(cx, &h),
            Array::i32(&[batch, columns], &positions),
            Array::i32(&[batch * columns], &slot_mapping),
            Array::i32(&[batch], &state_slots),
        ];
        arguments.extend(self.pools.clone());
        arguments.extend(self.weights.arguments());
        let mut results = run(program, &arguments);
        self.pools = [results.remove(1), results.remove(1)];
        let outputs = token_rows(cx, &results[0]);
        let of_row = |(r, row): (usize, &Row)| {
            outputs[(r + 1) * columns * HIDDEN - row.tokens.len()..][..row.tokens.len()].to_vec()
        };
        rows.iter().enumerate().map(of_row).collect()
    }

    /// What the pools hold in `slot`.
    fn held(&self, slot: usize) -> [Vec<u8>; 2] {
        self.pools.each_ref().map(|pool| {
            let size = pool.bytes.len() / SLOTS;
            pool.bytes[slot * size..][..size].to_vec()
        })
    }
}

fn sequence(seed: u64, tokens: usize) -> Vec<f32> {
    random(seed, tokens * HIDDEN)
}

#[test]
fn chunks_are_the_recurrence() {
    let Some(client) = client() else { return };
    let weights = weights();
    let mut server = Server::new(&client, &weights);
    // Chunks of 64, the first one short, and a single one of a power of two.
    for (columns, orientation) in
        [(130, Orientation::FeatureMajor), (64, Orientation::RowMajor), (5, Orientation::RowMajor)]
    {
        let entry = server.entry(1, columns, orientation);
        for count in [1, 2, 5, 63, 64, 65, 130].into_iter().filter(|&count| count <= columns) {
            let tokens = sequence(count as u64, count);
            let found = server.call(&entry, &[Row { slot: 2, position: 0, tokens: &tokens }]);
            let expected = Recurrence::new(&weights, None).outputs(&tokens);
            let distance = distance(&found[0], &expected);
            assert!(distance < BOUND, "{count} tokens in {columns} columns: {distance:.1e}");
        }
    }
}

#[test]
fn state_goes_from_call_to_call_and_from_prefill_to_decode() {
    let Some(client) = client() else { return };
    let weights = weights();
    let mut server = Server::new(&client, &weights);
    let prefill = server.entry(1, 130, Orientation::FeatureMajor);
    let decode = server.entry(1, 1, Orientation::FeatureMajor);
    let tokens = sequence(7, 2 + 1 + 63 + 64 + 65 + 130 + 1 + 2);
    let expected = Recurrence::new(&weights, None).outputs(&tokens);
    let mut position = 0;
    for count in [2, 1, 63, 64, 65, 130, 1, 1, 1] {
        let range = position * HIDDEN..(position + count) * HIDDEN;
        let entry = if count == 1 { &decode } else { &prefill };
        let row = Row { slot: 1, position, tokens: &tokens[range.clone()] };
        let found = server.call(entry, &[row]);
        let distance = distance(&found[0], &expected[range]);
        assert!(distance < BOUND, "{count} tokens from {position} on: {distance:.1e}");
        position += count;
    }
}

/// Equal keys one after the other are what the triangular system is hardest for.
#[test]
fn a_token_repeated_over_and_over_stays_exact() {
    let Some(client) = client() else { return };
    let weights = weights().with(LayerWeight::DeltaLogRate, |x| x - 6.0);
    let mut server = Server::new(&client, &weights);
    let entry = server.entry(1, 130, Orientation::FeatureMajor);
    let tokens = sequence(3, 1).repeat(130);
    let found = server.call(&entry, &[Row { slot: 0, position: 0, tokens: &tokens }]);
    let expected = Recurrence::new(&weights, None).outputs(&tokens);
    let distance = distance(&found[0], &expected);
    assert!(distance < BOUND, "{distance:.1e}");
}

#[test]
fn rows_have_their_own_state_and_padding_touches_none() {
    let Some(client) = client() else { return };
    let weights = weights();
    for (columns, counts) in [(1, [1, 1]), (70, [70, 3])] {
        let mut server = Server::new(&client, &weights);
        let entry = server.entry(4, columns, Orientation::FeatureMajor);
        let sequences = [sequence(11, 3 * columns), sequence(12, 3 * columns)];
        let expected = sequences.each_ref().map(|s| Recurrence::new(&weights, None).outputs(s));
        let untouched = [0, 2].map(|slot| server.held(slot));
        for call in 0..3 {
            let positions = counts.map(|count| call * count);
            let range = |r: usize| positions[r] * HIDDEN..(positions[r] + counts[r]) * HIDDEN;
            // Rows 2 and 3 are padding, whose slot is 0.
            let rows = [0, 1].map(|r| Row {
                slot: 3 - 2 * r,
                position: positions[r],
                tokens: &sequences[r][range(r)],
            });
            let found = server.call(&entry, &rows);
            for r in [0, 1] {
                let distance = distance(&found[r], &expected[r][range(r)]);
                assert!(distance < BOUND, "row {r} of {columns} columns: {distance:.1e}");
            }
        }
        assert_eq!([0, 2].map(|slot| server.held(slot)), untouched);
    }
}

#[test]
fn a_call_of_padding_alone_changes_nothing() {
    let Some(client) = client() else { return };
    let weights = weights();
    let mut server = Server::new(&client, &weights);
    for columns in [1, 5] {
        let entry = server.entry(2, columns, Orientation::FeatureMajor);
        let before = server.pools.clone();
        server.call(&entry, &[]);
        let same = before.iter().zip(&server.pools).all(|(a, b)| a.bytes == b.bytes);
        assert!(same, "{columns} columns");
    }
}

/// What the bounds above would let through.
#[test]
fn control_mistakes_are_far_off() {
    let weights = weights();
    let tokens = sequence(130, 130);
    let expected = Recurrence::new(&weights, None).outputs(&tokens);
    for mistake in [
        Mistake::NoConvolution,
        Mistake::ReversedTaps,
        Mistake::NoActivation,
        Mistake::NoUnitLength,
        Mistake::NoQueryScale,
        Mistake::TiledHeads,
        Mistake::FullStep,
        Mistake::NoDecay,
        Mistake::ResetEvery64,
        Mistake::ReadBeforeDecay,
        Mistake::NoCorrection,
        Mistake::OutputBeforeUpdate,
        Mistake::CentredGain,
        Mistake::GateBeforeNorm,
        Mistake::NoGate,
    ] {
        let wrong = Recurrence::new(&weights, Some(mistake)).outputs(&tokens);
        let wrong: Vec<f32> = wrong.into_iter().map(|x| x as f32).collect();
        let distance = distance(&wrong, &expected);
        assert!(distance > 100.0 * BOUND, "{mistake:?}: {distance:.1e}");
    }
}

#[test]
fn pools_are_updated_in_place() {
    let Some(client) = client() else { return };
    let weights = weights();
    let temp = |kind, tokens: usize, slots: usize, late_read: bool| {
        let cx = context(kind, 2, tokens, slots, Orientation::FeatureMajor);
        let program = client.compile(&program(&cx, &weights, late_read)).unwrap();
        program.memory_stats().unwrap().temp
    };
    for (kind, tokens) in [(EntryKind::Decode, 1), (EntryKind::Prefill, 130)] {
        assert_eq!(temp(kind, tokens, 512, false), temp(kind, tokens, 8, false), "{kind:?}");
    }
    // A control: a program that needs another pool.
    let pool = pool_dims(512)[1].iter().product::<usize>() * 4;
    assert!(temp(EntryKind::Decode, 1, 512, true) >= pool);
}
