//! Emitted attention, run over several calls as a server would, against attention written out in
//! f64.

use tlaloc_artifact::{DType, EntryKind};
use tlaloc_pjrt::{Client, ElementType, Executable};

use super::*;
use crate::lower::forms::{Orientation, Product};
use crate::lower::{Paging, Request};
use crate::plan::{Bucket, PoolShape};
use crate::pools::WindowedPools;
use crate::slots::WeightLayout;
use crate::stablehlo::Module;
use crate::support::{Array, client, run};

/// One number in -1..1 for each name and place, the same on every run.
fn noise(what: u64, row: usize, position: usize, head: usize, feature: usize) -> f64 {
    let mut x = what;
    for part in [row, position, head, feature] {
        x = (x ^ part as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        x ^= x >> 29;
    }
    let unit = (x >> 40) as f64 / (1_u64 << 24) as f64;
    f64::from((2.0 * unit - 1.0) as f32)
}

const QUERY: u64 = 1;
const KEY: u64 = 2;
const VALUE: u64 = 3;

/// What a model computes, apart from the mistakes that controls make.
#[derive(Clone, Copy)]
struct Expected {
    window: Option<usize>,
    softcap: Option<f64>,
    /// Positions after its own that a token sees.
    ahead: usize,
    /// What storing a key or value makes of it.
    stored: fn(f64) -> f64,
}

impl Expected {
    fn of(attention: &AttentionSpec) -> Expected {
        let softcap = attention.softcap.map(f64::from);
        Expected { window: attention.window, softcap, ahead: 0, stored: |x| x }
    }

    /// The heads' outputs for the token at `position`, `heads * head_dim` values.
    fn outputs(&self, attention: &AttentionSpec, row: usize, position: usize) -> Vec<f64> {
        let AttentionSpec { heads, head_dim, .. } = *attention;
        let first = self.window.map_or(0, |window| (position + 1).saturating_sub(window));
        let seen = first..=position + self.ahead;
        let mut outputs = Vec::new();
        for head in 0..heads {
            let kv = head / attention.group();
            let stored = |what, at, i| (self.stored)(noise(what, row, at, kv, i));
            let score = |at| {
                let dot: f64 = (0..head_dim)
                    .map(|i| noise(QUERY, row, position, head, i) * stored(KEY, at, i))
                    .sum();
                let dot = 2.0 * dot;
                self.softcap.map_or(dot, |cap| cap * (dot / cap).tanh())
            };
            let weights: Vec<f64> = seen.clone().map(|at| f64::exp(score(at))).collect();
            let total: f64 = weights.iter().sum();
            outputs.extend((0..head_dim).map(|i| {
                let values = seen.clone().map(|at| stored(VALUE, at, i));
                values.zip(&weights).map(|(value, weight)| value * weight).sum::<f64>() / total
            }));
        }
        outputs
    }
}

/// A layer's attention in a served model.
#[derive(Clone)]
struct Case {
    attention: AttentionSpec,
    context: usize,
    block_size: usize,
    /// Of the pools, where these are not windowed.
    pages: usize,
    windowed: Option<WindowedPools>,
    pool_dtype: DType,
    orientation: Orientation,
    widest_at_once: usize,
    /// Pages after which the server starts a ring over; the manifest's, but for a control.
    ring_modulus: usize,
}

impl Case {
    fn new(attention: AttentionSpec, context: usize, block_size: usize) -> Case {
        Case {
            attention,
            context,
            block_size,
            pages: 1 + 4 * context / block_size,
            windowed: None,
            pool_dtype: DType::F32,
            orientation: Orientation::FeatureMajor,
            widest_at_once: prefill_attention::WIDEST_AT_ONCE,
            ring_modulus: usize::MAX,
        }
    }

    /// In windowed pools with rings of `ring_pages`.
    fn ring(mut self, ring_pages: usize) -> Case {
        let window = self.attention.window.unwrap();
        self.windowed = Some(WindowedPools { window, ring_pages, num_blocks: 1 + 4 * ring_pages });
        self.ring_modulus = ring_pages;
        self
    }

    fn columns(&self) -> usize {
        self.context / self.block_size
    }

    /// Page of a row's logical block: rows' pages are dealt out in turn, from page 1 on.
    fn page(&self, row: usize, block: usize) -> usize {
        1 + row + 4 * (block % self.ring_modulus)
    }

    fn num_blocks(&self) -> usize {
        self.windowed.map_or(self.pages, |windowed| windowed.num_blocks)
    }

    /// The program of a call with `tokens` columns for each of `batch` rows.
    fn program(&self, client: &std::sync::Arc<Client>, batch: usize, tokens: usize) -> Executable {
        let kind = if tokens == 1 { EntryKind::Decode } else { EntryKind::Prefill };
        let cx = Context {
            bucket: Bucket { kind, batch, context: self.context, tokens, verify: false },
            pools: PoolShape {
                num_blocks: self.pages,
                block_size: self.block_size,
                state_slots: 1,
                windowed: self.windowed,
                kv_dtype: self.pool_dtype,
            },
            weight_dtype: DType::F32,
            layout: WeightLayout::OutIn,
            orientation: self.orientation,
            product: Product::F32,
            norm_eps: 0.0,
            widest_at_once: self.widest_at_once,
        };
        let AttentionSpec { heads, kv_heads, head_dim, .. } = self.attention;
        let n = batch * tokens;
        let mut f = Function::new("main");
        let query = f.parameter("query", DType::F32, &[n, heads, head_dim]);
        let key = f.parameter("key", DType::F32, &[n, kv_heads, head_dim]);
        let value = f.parameter("value", DType::F32, &[n, kv_heads, head_dim]);
        let positions = f.parameter("positions", DType::I32, &[batch, tokens]);
        let seq_lens = f.parameter("seqLens", DType::I32, &[batch]);
        let mut paging = |tables: &str, slots: &str| Paging {
            block_tables: f.parameter(tables, DType::I32, &[batch, self.columns()]),
            slot_mapping: f.parameter(slots, DType::I32, &[n]),
        };
        // Only the class of the layer's pools is read; both get the same here.
        let full = paging("blockTables", "slotMapping");
        let windowed = self.windowed.map(|_| Paging {
            block_tables: full.block_tables.clone(),
            slot_mapping: full.slot_mapping.clone(),
        });
        let pool = [self.num_blocks(), self.block_size, kv_heads, head_dim];
        let keys = f.aliased_parameter("keys", self.pool_dtype, &pool, 1);
        let values = f.aliased_parameter("values", self.pool_dtype, &pool, 2);
        let token_ids = positions.clone();
        let request = Request {
            token_ids,
            positions,
            seq_lens,
            full,
            windowed,
            state_slots: None,
            state_write_slots: None,
        };
        let shared = Shared::build(&mut f, &cx, &self.attention, &request);
        let tokens = (&query, &key, &value);
        let (mixed, [keys, values]) =
            write_and_attend(&mut f, &cx, &self.attention, tokens, [&keys, &values], &shared);
        f.returns(vec![mixed, keys, values]);
        client.compile(&Module { main: f, private: Vec::new() }.text()).unwrap()
    }

    /// Runs `calls`, each of so many token columns for each row, of which the row fills its last
    /// (none for a row that stands for no sequence): the heads' outputs by row and position.
    fn run(&self, calls: &[(usize, &[usize])]) -> Option<Outputs> {
        let client = client()?;
        let AttentionSpec { heads, kv_heads, head_dim, .. } = self.attention;
        let pool = [self.num_blocks(), self.block_size, kv_heads, head_dim];
        let (element_type, size) = match self.pool_dtype {
            DType::Bf16 => (ElementType::Bf16, 2),
            DType::F8E4M3Fn => (ElementType::F8E4M3Fn, 1),
            _ => (ElementType::F32, 4),
        };
        let empty = Array::zeros(element_type, &pool, size);
        let (mut keys, mut values) = (empty.clone(), empty);
        let mut lengths = [0; 4];
        let mut all = Vec::new();
        let mut programs = std::collections::HashMap::new();
        for &(columns, appended) in calls {
            let batch = appended.len();
            let program = programs
                .entry((batch, columns))
                .or_insert_with(|| self.program(&client, batch, columns));
            let (mut positions, mut slots) = (vec![0; batch * columns], vec![-1; batch * columns]);
            let (mut tables, mut seq_lens) = (vec![0; batch * self.columns()], vec![1; batch]);
            let mut tokens = vec![None; batch * columns];
            for (row, &n) in appended.iter().enumerate().filter(|(_, n)| **n > 0) {
                let at = lengths[row];
                lengths[row] += n;
                assert!(lengths[row] <= self.context);
                seq_lens[row] = lengths[row] as i32;
                let held = lengths[row].div_ceil(self.block_size);
                for block in 0..held {
                    tables[row * self.columns() + block] = self.page(row, block) as i32;
                }
                for (position, column) in (at..).zip(columns - n..columns) {
                    let place = row * columns + column;
                    tokens[place] = Some((row, position));
                    positions[place] = position as i32;
                    let page = self.page(row, position / self.block_size);
                    slots[place] = (page * self.block_size + position % self.block_size) as i32;
                }
            }
            let activations = |what, heads: usize, scale: f64| {
                let of = |token: &Option<(usize, usize)>| {
                    let token = *token;
                    (0..heads * head_dim).map(move |i| match token {
                        // The scale of the scores is the query's.
                        Some((row, position)) => {
                            (scale * noise(what, row, position, i / head_dim, i % head_dim)) as f32
                        }
                        // What padding writes anywhere must not be seen.
                        None => 1e3,
                    })
                };
                let data: Vec<f32> = tokens.iter().flat_map(of).collect();
                Array::f32(&[tokens.len(), heads, head_dim], &data)
            };
            let arguments = [
                activations(QUERY, heads, 2.0),
                activations(KEY, kv_heads, 1.0),
                activations(VALUE, kv_heads, 1.0),
                Array::i32(&[batch, columns], &positions),
                Array::i32(&[batch], &seq_lens),
                Array::i32(&[batch, self.columns()], &tables),
                Array::i32(&[batch * columns], &slots),
                keys,
                values,
            ];
            let mut results = run(program, &arguments).into_iter();
            let mixed = results.next().unwrap().f32s();
            keys = results.next().unwrap();
            values = results.next().unwrap();
            assert!(mixed.iter().all(|x| x.is_finite()));
            for (place, token) in tokens.iter().enumerate() {
                let Some((row, position)) = *token else { continue };
                let index = |feature| match self.orientation {
                    Orientation::FeatureMajor => feature * tokens.len() + place,
                    Orientation::RowMajor => place * heads * head_dim + feature,
                };
                let outputs = (0..heads * head_dim).map(|feature| mixed[index(feature)]);
                all.push((row, position, outputs.collect()));
            }
        }
        Some(Outputs { attention: self.attention.clone(), outputs: all })
    }

    /// That `calls` give what the layer should: the outputs, for controls.
    fn check(&self, what: &str, calls: &[(usize, &[usize])]) -> Option<Outputs> {
        let outputs = self.run(calls)?;
        let worst = outputs.worst(Expected::of(&self.attention));
        assert!(worst < 2e-6, "{what}: {worst:e}");
        Some(outputs)
    }
}

/// The heads' outputs for tokens of rows at positions.
struct Outputs {
    attention: AttentionSpec,
    outputs: Vec<(usize, usize, Vec<f32>)>,
}

impl Outputs {
    /// The largest difference from what `expected` says.
    fn worst(&self, expected: Expected) -> f64 {
        let differences = self.outputs.iter().flat_map(|(row, position, outputs)| {
            let expected = expected.outputs(&self.attention, *row, *position);
            outputs.iter().zip(expected).map(|(x, y)| (f64::from(*x) - y).abs())
        });
        differences.fold(0.0, f64::max)
    }

    /// That they are not those of another model.
    fn control(&self, what: &str, change: impl FnOnce(&mut Expected)) {
        let mut expected = Expected::of(&self.attention);
        change(&mut expected);
        let worst = self.worst(expected);
        assert!(worst > 1e-2, "{what} makes a difference of no more than {worst:e}");
    }
}

fn attention(heads: usize, kv_heads: usize, head_dim: usize) -> AttentionSpec {
    AttentionSpec {
        heads,
        kv_heads,
        head_dim,
        scale: 1.0,
        rope_frequencies: Vec::new(),
        qk_norm: HeadNorm::Off,
        bias: false,
        gate: false,
        window: None,
        softcap: None,
    }
}

fn windowed(window: usize) -> AttentionSpec {
    AttentionSpec { window: Some(window), ..attention(4, 2, 8) }
}

/// Two rows of different lengths: prompts in chunks, one row pausing, decode steps, and a padding
/// row.
const MIXED: [(usize, &[usize]); 8] = [
    (6, &[6, 3]),
    (6, &[1, 6]),
    (1, &[1, 1]),
    (1, &[1, 1]),
    (6, &[0, 5]),
    (1, &[1, 0]),
    (6, &[6, 6]),
    (1, &[1, 1]),
];

/// Single tokens of one row.
const STEPS: [(usize, &[usize]); 30] = [(1, &[1]); 30];

#[test]
fn whole_histories() {
    for orientation in [Orientation::FeatureMajor, Orientation::RowMajor] {
        // Both forms of decode; rows and KV heads in a loop in prefill.
        for (heads, kv_heads) in [(4, 2), (20, 5)] {
            let case = Case { orientation, ..Case::new(attention(heads, kv_heads, 8), 48, 4) };
            let Some(outputs) = case.check("whole", &MIXED) else { return };
            outputs.control("seeing the next token", |expected| expected.ahead = 1);
            outputs.control("a window", |expected| expected.window = Some(8));
        }
    }
    Case::new(attention(3, 1, 8), 48, 6).check("one KV head, pages of no power of two", &MIXED);
    // More rows and KV heads than go through a loop.
    let calls: [(usize, &[usize]); 2] = [(3, &[3, 1, 2, 3]), (3, &[2, 3, 0, 1])];
    Case::new(attention(20, 5, 4), 32, 16).check("batched", &calls);
}

#[test]
fn capped_scores() {
    for (heads, kv_heads) in [(4, 2), (20, 5)] {
        let spec = AttentionSpec { softcap: Some(0.7), ..attention(heads, kv_heads, 8) };
        let Some(outputs) = Case::new(spec, 48, 4).check("capped", &MIXED) else { return };
        outputs.control("no cap", |expected| expected.softcap = None);
    }
}

#[test]
fn windows_over_whole_histories() {
    for (window, block_size) in [(1, 4), (8, 4), (13, 6)] {
        let case = Case::new(windowed(window), 48, block_size);
        case.check("steps", &STEPS);
        let Some(outputs) = case.check("mixed", &MIXED) else { return };
        outputs.control("no window", |expected| expected.window = None);
        outputs.control("one more", |expected| expected.window = Some(window + 1));
        if window > 1 {
            outputs.control("one less", |expected| expected.window = Some(window - 1));
        }
    }
}

#[test]
fn windows_in_rings() {
    // Pages of a ring as the exporter sizes it for calls of 6 tokens, and one page more.
    for (window, block_size, ring_pages) in [(1, 4, 2), (8, 4, 4), (8, 4, 5), (8, 6, 3)] {
        let case = Case::new(windowed(window), 48, block_size).ring(ring_pages);
        case.check("steps", &STEPS);
        let Some(outputs) = case.check("mixed", &MIXED) else { return };
        outputs.control("no window", |expected| expected.window = None);
        outputs.control("one more", |expected| expected.window = Some(window + 1));
    }
    let shorter = Case { ring_modulus: 3, ..Case::new(windowed(8), 48, 4).ring(4) };
    let Some(outputs) = shorter.run(&STEPS) else { return };
    outputs.control("a server's shorter ring", |_| {});
    // A context of fewer pages than the ring.
    Case::new(windowed(8), 12, 4).ring(4).check("short", &[(6, &[6]), (6, &[5]), (1, &[1])]);
}

/// A call may append as many tokens as leave what its first one sees, and no more (artifact format
/// §8): here `3 * 4 - min(start, 7)`.
#[test]
fn calls_as_long_as_a_ring_allows() {
    let case = Case::new(windowed(8), 48, 4).ring(3);
    let calls: [&[(usize, &[usize])]; 3] = [
        &[(16, &[12]), (16, &[5]), (16, &[5]), (16, &[5])],
        &[(16, &[3]), (16, &[9]), (16, &[5]), (1, &[1]), (16, &[5])],
        &[(16, &[6]), (16, &[6]), (16, &[2]), (16, &[5]), (16, &[5])],
    ];
    for calls in calls {
        case.check("as long as it may be", calls);
    }
    let Some(outputs) = case.run(&[(16, &[12]), (16, &[6])]) else { return };
    outputs.control("one token too many", |_| {});
}

#[test]
fn wide_histories_in_blocks() {
    let case = |window, context| {
        let spec = AttentionSpec { window, softcap: Some(0.7), ..attention(4, 2, 4) };
        Case { widest_at_once: 64, ..Case::new(spec, context, 16) }
    };
    // Three blocks, the last of them not full; rows whose last blocks differ.
    let calls: [(usize, &[usize]); 4] =
        [(250, &[250, 20]), (250, &[250, 1]), (250, &[140, 250]), (1, &[1, 1])];
    let Some(outputs) = case(None, 656).check("whole", &calls) else { return };
    outputs.control("seeing the next token", |expected| expected.ahead = 1);
    outputs.control("no cap", |expected| expected.softcap = None);

    // A ring of two blocks, the second of them not full.
    let calls: [(usize, &[usize]); 4] = [(100, &[100]), (100, &[90]), (100, &[100]), (100, &[100])];
    let rings = case(Some(300), 656).ring(25);
    let Some(outputs) = rings.check("ring", &calls) else { return };
    outputs.control("no window", |expected| expected.window = None);
}

/// The attention of SmolLM2-135M, for a call of 512 tokens.
#[test]
fn temporary_memory_does_not_grow_with_the_context() {
    let Some(client) = client() else { return };
    let temporary = |context, widest_at_once| {
        let case = Case::new(attention(9, 3, 64), context, 16);
        let program = Case { widest_at_once, ..case }.program(&client, 1, 512);
        program.memory_stats().unwrap().temp
    };
    let (blocks, at_once) = (temporary(8192, 1024), temporary(8192, usize::MAX));
    assert!(4 * blocks <= at_once, "{blocks} bytes in blocks, {at_once} at once");
    // The slots of the history and their positions are still there.
    assert!(blocks <= temporary(2048, 1024) + 3 * 8192 * 4);
}

#[test]
fn pools_of_narrower_numbers() {
    fn bf16(x: f64) -> f64 {
        half::bf16::from_f64(x).to_f64()
    }
    /// The nearest of the type's numbers, of two equally near ones that with an even last bit.
    fn f8(x: f64) -> f64 {
        let number = |bits: u32| {
            let (exponent, mantissa) = (bits >> 3, f64::from(bits & 7));
            match exponent {
                0 => mantissa / 8.0 * 2.0_f64.powi(-6),
                _ => (1.0 + mantissa / 8.0) * 2.0_f64.powi(exponent as i32 - 7),
            }
        };
        let distance = |bits: &u32| (number(*bits) - x.abs()).abs();
        let nearest = (0..=126)
            .min_by(|a, b| distance(a).total_cmp(&distance(b)).then((a % 2).cmp(&(b % 2))))
            .unwrap();
        number(nearest).copysign(x)
    }
    assert_eq!((f8(1.0625), f8(1.1875), f8(-1000.0)), (1.0, 1.25, -448.0));
    for (pool_dtype, stored) in [(DType::Bf16, bf16 as fn(f64) -> f64), (DType::F8E4M3Fn, f8)] {
        let case = Case { pool_dtype, ..Case::new(windowed(8), 48, 4).ring(4) };
        let Some(outputs) = case.run(&MIXED) else { return };
        let worst = outputs.worst(Expected { stored, ..Expected::of(&case.attention) });
        assert!(worst < 2e-6, "{pool_dtype}: {worst:e}");
        let unrounded = outputs.worst(Expected::of(&case.attention));
        assert!(unrounded > 1e-4, "{pool_dtype} control: {unrounded:e}");
    }
}

/// A pool that is copied or widened is there once more in temporary memory. (Those of 8-bit floats
/// are copied, as bytes.)
#[test]
fn pools_are_updated_in_place() {
    let Some(client) = client() else { return };
    for (pool_dtype, copies) in [(DType::F32, 0), (DType::Bf16, 0), (DType::F8E4M3Fn, 2)] {
        for tokens in [1, 64] {
            let case = Case::new(attention(4, 2, 8), 256, 4);
            let case = Case { pool_dtype, pages: 20_000, ..case };
            let temporary = case.program(&client, 1, tokens).memory_stats().unwrap().temp;
            let pool = 20_000 * 4 * 2 * 8 * pool_dtype.size();
            assert!(temporary < copies * pool + pool / 4, "{pool_dtype}: {temporary} of {pool}");
        }
    }
}
