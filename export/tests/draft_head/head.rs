//! A draft head in f64, straight from its tensors.

use crate::common::Checkpoint;

/// What may be got wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// The hidden state comes before the embedding.
    Swapped,
    /// The next proposal's hidden state is taken before the last norm.
    NotNormed,
    /// Pairs of earlier tokens are not seen.
    Forgetful,
    /// Proposals are at the position of the first of them.
    Standing,
    /// Gains are taken as stored.
    Gains,
    /// The attention is not gated.
    Ungated,
}

impl Mistake {
    pub const ALL: [Mistake; 6] = [
        Mistake::Swapped,
        Mistake::NotNormed,
        Mistake::Forgetful,
        Mistake::Standing,
        Mistake::Gains,
        Mistake::Ungated,
    ];
}

const HIDDEN: usize = 48;
const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const SIZE: usize = 16;
const ROTATED: usize = 4;
const THETA: f64 = 1e6;
const EPS: f64 = 1e-3;

type Vector = Vec<f64>;

pub struct Head<'a> {
    checkpoint: &'a Checkpoint,
}

/// Keys and values of the pairs so far.
#[derive(Default)]
struct Memory {
    pairs: Vec<(Vector, Vector)>,
}

impl<'a> Head<'a> {
    pub fn new(checkpoint: &'a Checkpoint) -> Head<'a> {
        Head { checkpoint }
    }

    fn tensor(&self, name: &str) -> Vector {
        self.checkpoint.f32s(name).into_iter().map(f64::from).collect()
    }

    fn times(&self, name: &str, x: &[f64]) -> Vector {
        let matrix = self.tensor(name);
        matrix.chunks(x.len()).map(|row| row.iter().zip(x).map(|(a, b)| a * b).sum()).collect()
    }

    fn norm(&self, name: &str, x: &[f64], mistake: Option<Mistake>) -> Vector {
        let mean = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
        let one = if mistake == Some(Mistake::Gains) { 0.0 } else { 1.0 };
        let gain = self.tensor(name);
        x.iter().zip(gain).map(|(x, gain)| x / (mean + EPS).sqrt() * (one + gain)).collect()
    }

    /// The last norm's output that the model's head makes these logits of: there are more logits than
    /// features, so least squares find it.
    pub fn hidden(&self, logits: &[f64]) -> Vector {
        let matrix = self.tensor("lm_head.weight");
        let rows: Vec<&[f64]> = matrix.chunks(HIDDEN).collect();
        let mut system = vec![vec![0.0; HIDDEN + 1]; HIDDEN];
        for (row, logit) in rows.iter().zip(logits) {
            for (equation, x) in system.iter_mut().zip(*row) {
                let right = row.iter().copied().chain([*logit]);
                equation.iter_mut().zip(right).for_each(|(sum, y)| *sum += x * y);
            }
        }
        for pivot in 0..HIDDEN {
            let most = (pivot..HIDDEN)
                .max_by(|&a, &b| system[a][pivot].abs().total_cmp(&system[b][pivot].abs()));
            system.swap(pivot, most.unwrap());
            let above = system[pivot].clone();
            for (row, equation) in system.iter_mut().enumerate() {
                if row != pivot {
                    let factor = equation[pivot] / above[pivot];
                    equation.iter_mut().zip(&above).for_each(|(x, y)| *x -= factor * y);
                }
            }
        }
        (0..HIDDEN).map(|i| system[i][HIDDEN] / system[i][i]).collect()
    }

    /// `count` drafts after the last of `tokens`, each of which follows the hidden state of its place.
    pub fn propose(
        &self,
        hidden: &[Vector],
        tokens: &[i32],
        count: usize,
        mistake: Option<Mistake>,
    ) -> Vec<i32> {
        assert_eq!(hidden.len(), tokens.len());
        let mut memory = Memory::default();
        let mut out = (Vec::new(), Vec::new());
        for (position, (hidden, token)) in hidden.iter().zip(tokens).enumerate() {
            out = self.step(&mut memory, hidden, *token, position, mistake);
        }
        let mut drafts = Vec::new();
        for ahead in 1..=count {
            let (raw, normed) = &out;
            let logits = self.times("lm_head.weight", normed);
            let best = (0..logits.len()).rev().max_by(|&a, &b| logits[a].total_cmp(&logits[b]));
            drafts.push(best.unwrap() as i32);
            let again = if mistake == Some(Mistake::NotNormed) { raw } else { normed }.clone();
            let ahead = if mistake == Some(Mistake::Standing) { 1 } else { ahead };
            let position = hidden.len() - 1 + ahead;
            out = self.step(&mut memory, &again, drafts[drafts.len() - 1], position, mistake);
        }
        drafts
    }

    /// The head's output before and after its last norm.
    fn step(
        &self,
        memory: &mut Memory,
        hidden: &[f64],
        token: i32,
        position: usize,
        mistake: Option<Mistake>,
    ) -> (Vector, Vector) {
        let table = self.tensor("model.embed_tokens.weight");
        let embedding = &table[token as usize * HIDDEN..(token as usize + 1) * HIDDEN];
        let embedding = self.norm("mtp.pre_fc_norm_embedding.weight", embedding, mistake);
        let hidden = self.norm("mtp.pre_fc_norm_hidden.weight", hidden, mistake);
        let both = match mistake {
            Some(Mistake::Swapped) => [hidden, embedding].concat(),
            _ => [embedding, hidden].concat(),
        };
        let x = self.times("mtp.fc.weight", &both);
        let mixed = self.attend(memory, &x, position as f64, mistake);
        let x: Vector = x.iter().zip(mixed).map(|(x, y)| x + y).collect();

        let name = |name: &str| format!("mtp.layers.0.{name}.weight");
        let h = self.norm(&name("post_attention_layernorm"), &x, mistake);
        let gate = self.times(&name("mlp.gate_proj"), &h);
        let up = self.times(&name("mlp.up_proj"), &h);
        let inner: Vector =
            gate.iter().zip(up).map(|(gate, up)| gate / (1.0 + (-gate).exp()) * up).collect();
        let down = self.times(&name("mlp.down_proj"), &inner);
        let x: Vector = x.iter().zip(down).map(|(x, y)| x + y).collect();
        let normed = self.norm("mtp.norm.weight", &x, mistake);
        (x, normed)
    }

    fn attend(
        &self,
        memory: &mut Memory,
        x: &[f64],
        position: f64,
        mistake: Option<Mistake>,
    ) -> Vector {
        let name = |name: &str| format!("mtp.layers.0.{name}.weight");
        let h = self.norm(&name("input_layernorm"), x, mistake);
        let queries_and_gates = self.times(&name("self_attn.q_proj"), &h);
        let keys = self.times(&name("self_attn.k_proj"), &h);
        let values = self.times(&name("self_attn.v_proj"), &h);
        let turned = |norm: &str, head: &[f64]| {
            let mut head = self.norm(&name(norm), head, mistake);
            for pair in 0..ROTATED / 2 {
                let angle = position * THETA.powf(-2.0 * pair as f64 / ROTATED as f64);
                let (a, b) = (head[pair], head[pair + ROTATED / 2]);
                head[pair] = a * angle.cos() - b * angle.sin();
                head[pair + ROTATED / 2] = b * angle.cos() + a * angle.sin();
            }
            head
        };
        let keys = keys.chunks(SIZE).flat_map(|head| turned("self_attn.k_norm", head)).collect();
        if mistake == Some(Mistake::Forgetful) {
            memory.pairs.clear();
        }
        memory.pairs.push((keys, values));
        let mut mixed = Vec::new();
        for (number, head) in queries_and_gates.chunks(2 * SIZE).enumerate() {
            let query = turned("self_attn.q_norm", &head[..SIZE]);
            let at = number / (HEADS / KV_HEADS) * SIZE;
            let scores: Vector = memory
                .pairs
                .iter()
                .map(|(keys, _)| {
                    let products = query.iter().zip(&keys[at..at + SIZE]).map(|(q, k)| q * k);
                    (products.sum::<f64>() / (SIZE as f64).sqrt()).exp()
                })
                .collect();
            let total: f64 = scores.iter().sum();
            for feature in 0..SIZE {
                let values = memory.pairs.iter().map(|(_, values)| values[at + feature]);
                let sum: f64 = scores.iter().zip(values).map(|(score, value)| score * value).sum();
                let gate = match mistake {
                    Some(Mistake::Ungated) => 1.0,
                    _ => 1.0 / (1.0 + (-head[SIZE + feature]).exp()),
                };
                mixed.push(sum / total * gate);
            }
        }
        self.times(&name("self_attn.o_proj"), &mixed)
    }
}
