//! A language model of one layer whose bodies hold its weights (artifact format §18): embedding,
//! attention with two query heads on each of two KV heads, output matrix; no norms, no positions.

use std::path::Path;

use config_gen::{Mode, SequenceOptions};
use tlaloc_artifact::manifest::{BucketLadder, Model};
use tlaloc_artifact::signature::{Geometry, Signature};
use tlaloc_artifact::write::{ArtifactWriter, Description, EntryDescription};
use tlaloc_artifact::{DType, EntryKind, Pool, PoolRole, Tensor};

use super::random::Random;
use super::{add_model, scratch};
use crate::Error;
use crate::lower::kv;
use crate::stablehlo::{Binary, Compare, Function, Module, Reduce, Unary, Value};

const VOCABULARY: usize = 11;
const HIDDEN: usize = 8;
const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const HEAD_DIM: usize = 2;
const GROUP: usize = HEADS / KV_HEADS;
const KV_WIDTH: usize = KV_HEADS * HEAD_DIM;
const BLOCKS: usize = 6;
const BLOCK_SIZE: usize = 2;
const CONTEXTS: [usize; 2] = [2, 4];
const BATCHES: [usize; 3] = [1, 2, 4];
/// Score of a position after the row's last.
const HIDDEN_SCORE: f32 = -1e30;
/// Of the weights, which are drawn in the order of [`Weights`].
const SEED: u64 = 1;

/// Matrices `[in, out]`, row by row.
struct Weights {
    embedding: Vec<f32>,
    query: Vec<f32>,
    key: Vec<f32>,
    value: Vec<f32>,
    head: Vec<f32>,
}

/// Writes the model into `repository`, once for client mode and once for sequence mode.
pub(super) fn write(repository: &Path) -> Result<(), Error> {
    let folder = scratch(repository)?;
    export(folder.path())?;
    add_model(repository, folder.path(), "reference_decode", Mode::Client)?;
    let sequence = Mode::Sequence(SequenceOptions::default());
    add_model(repository, folder.path(), "reference_sequence", sequence)
}

fn export(out: &Path) -> Result<(), Error> {
    let mut random = Random::new(SEED);
    let weights = Weights {
        embedding: random.take(VOCABULARY * HIDDEN),
        query: random.take(HIDDEN * HIDDEN),
        key: random.take(HIDDEN * KV_WIDTH),
        value: random.take(HIDDEN * KV_WIDTH),
        head: random.take(HIDDEN * VOCABULARY),
    };
    let mut writer = ArtifactWriter::create(out)?;
    let mut entries = Vec::new();
    for batch in BATCHES {
        for context in CONTEXTS {
            let columns = context / BLOCK_SIZE;
            let body = writer.body(&program(&weights, batch, columns))?;
            entries.push(EntryDescription {
                kind: EntryKind::Decode,
                batch,
                context,
                tokens: 1,
                columns,
                body,
                signature: signature(batch, columns)?,
            });
        }
    }
    let pool_dims = [BLOCKS, BLOCK_SIZE, KV_HEADS, HEAD_DIM].map(signed).to_vec();
    writer.finish(Description {
        model_name: "tlaloc-reference-decode".to_owned(),
        model_hash: "reference-decode-mmix-v1".to_owned(),
        model: Model {
            vocab_size: signed(VOCABULARY),
            hidden_size: signed(HIDDEN),
            num_heads: signed(HEADS),
            num_kv_heads: signed(KV_HEADS),
            head_dim: signed(HEAD_DIM),
            num_layers: 1,
            num_blocks: signed(BLOCKS),
            block_size: signed(BLOCK_SIZE),
            dtype: DType::F32.manifest_name().to_owned(),
            kv_dtype: DType::F32.manifest_name().to_owned(),
            kv_quant: None,
            kv_pool_axis_order: ["numBlocks", "blockSize", "numKvHeads", "headDim"]
                .map(str::to_owned)
                .to_vec(),
            kv_pool_dims: pool_dims,
            windowed_kv: None,
            refused_tokens: Vec::new(),
            linear_state: None,
            mtp_draft_tokens: 0,
            cuda_kernels: false,
        },
        ladder: BucketLadder {
            block_size: signed(BLOCK_SIZE),
            batch: BATCHES.map(signed).to_vec(),
            context: CONTEXTS.map(signed).to_vec(),
        },
        entries,
    })?;
    Ok(())
}

fn signature(batch: usize, columns: usize) -> Result<Signature, Error> {
    let geometry = Geometry {
        batch,
        tokens: 1,
        columns,
        logits_columns: 1,
        vocab_size: VOCABULARY,
        draft_tokens: 0,
        windowed: false,
        linear_state: false,
    };
    let pool = |name: &str| {
        let tensor = Tensor::new(DType::F32, [BLOCKS, BLOCK_SIZE, KV_HEADS, HEAD_DIM]);
        let tensor =
            tensor.ok_or_else(|| tlaloc_artifact::Error::Oversize { slot: name.to_owned() })?;
        Ok::<_, Error>(Pool { name: name.to_owned(), role: PoolRole::Kv, tensor })
    };
    Ok(Signature::new(&geometry, &[pool("keyCache0")?, pool("valueCache0")?], &[])?)
}

/// One decode step of `batch` rows that have `columns` pages each.
fn program(weights: &Weights, batch: usize, columns: usize) -> String {
    let mut main = Function::new("main");
    let f = &mut main;
    let tokens = f.parameter("tokenIds", DType::I32, &[batch, 1]);
    f.parameter("positions", DType::I32, &[batch, 1]);
    let tables = f.parameter("blockTables", DType::I32, &[batch, columns]);
    let lengths = f.parameter("seqLens", DType::I32, &[batch]);
    let slots = f.parameter("slotMapping", DType::I32, &[batch]);
    let pool = [BLOCKS, BLOCK_SIZE, KV_HEADS, HEAD_DIM];
    let keys = f.aliased_parameter("keyCache0", DType::F32, &pool, 1);
    let values = f.aliased_parameter("valueCache0", DType::F32, &pool, 2);

    let embedding = f.matrix(&weights.embedding, HIDDEN);
    let tokens = f.reshape(&tokens, &[batch]);
    let x = f.gather_rows(&embedding, &tokens);
    let query = f.matrix(&weights.query, HIDDEN);
    let query = f.dot(&x, &query, (1, 0));
    let query = f.reshape(&query, &[batch, KV_HEADS, GROUP, HEAD_DIM]);
    let indices = kv::write_indices(f, BLOCK_SIZE, &slots);
    let mut append = |pool: &Value, weight: &[f32]| {
        let weight = f.matrix(weight, KV_WIDTH);
        let row = f.dot(&x, &weight, (1, 0));
        let row = f.reshape(&row, &[batch, KV_HEADS, HEAD_DIM]);
        kv::write(f, pool, &indices, &row)
    };
    let keys = append(&keys, &weights.key);
    let values = append(&values, &weights.value);

    let context = columns * BLOCK_SIZE;
    let history = history_slots(f, &tables);
    let mut by_head = |pool: &Value| {
        let rows = kv::read(f, pool, &history);
        let rows = f.reshape(&rows, &[batch, context, KV_HEADS, HEAD_DIM]);
        f.transpose(&rows, &[0, 2, 1, 3])
    };
    let (seen_keys, seen_values) = (by_head(&keys), by_head(&values));
    let scores = f.batched_dot(&query, &seen_keys, 2, (3, 3));
    let scores = f.with_float(Binary::Multiply, &scores, (HEAD_DIM as f32).sqrt().recip());
    let shares = softmax(f, &scores, &lengths);
    let mixed = f.batched_dot(&shares, &seen_values, 2, (3, 2));
    let mixed = f.reshape(&mixed, &[batch, HIDDEN]);
    let head = f.matrix(&weights.head, VOCABULARY);
    let logits = f.dot(&mixed, &head, (1, 0));
    let logits = f.reshape(&logits, &[batch, 1, VOCABULARY]);
    main.returns(vec![logits, keys, values]);
    Module { main, private: Vec::new() }.text()
}

/// The pool slots of each row's positions, in order.
fn history_slots(f: &mut Function, tables: &Value) -> Value {
    let [batch, columns] = [tables.dims()[0], tables.dims()[1]];
    let dims = [batch, columns, BLOCK_SIZE];
    let first = f.with_int(Binary::Multiply, tables, BLOCK_SIZE as i32);
    let first = f.broadcast(&first, &dims, &[0, 1]);
    let offset = f.iota(&dims, 2);
    let slots = f.add(&first, &offset);
    f.reshape(&slots, &[batch, columns * BLOCK_SIZE])
}

/// The softmax of `[B, kv_heads, group, context]` over the positions below each row's length.
fn softmax(f: &mut Function, scores: &Value, lengths: &Value) -> Value {
    let dims = scores.dims();
    let position = f.iota(dims, 3);
    let length = f.broadcast(lengths, dims, &[0]);
    let seen = f.compare(Compare::Lt, &position, &length);
    let hidden = f.float(HIDDEN_SCORE, DType::F32, dims);
    let scores = f.select(&seen, scores, &hidden);
    let most = f.reduce(Reduce::Maximum, &scores, 3);
    let most = f.broadcast(&most, dims, &[0, 1, 2]);
    let below = f.subtract(&scores, &most);
    let weights = f.unary(Unary::Exponential, &below);
    let total = f.reduce(Reduce::Add, &weights, 3);
    let total = f.broadcast(&total, dims, &[0, 1, 2]);
    f.binary(Binary::Divide, &weights, &total)
}

fn signed(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}
