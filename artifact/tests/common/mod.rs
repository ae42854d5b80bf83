//! Small artifacts of each version, written with the crate's own writer.
#![allow(dead_code, reason = "each test file uses its part")]

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tlaloc_artifact::manifest::{
    BucketLadder, LinearState, MANIFEST_FILE, Model, RefusedToken, WindowedKv,
};
use tlaloc_artifact::signature::{Geometry, Signature};
use tlaloc_artifact::write::{ArtifactWriter, Description, EntryDescription};
use tlaloc_artifact::{DType, EntryKind, Error, Pool, PoolRole, Tensor};

/// What sets the small artifacts apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Features {
    /// v2.
    Plain,
    /// v3: layer 0 is windowed, layer 1 is not.
    Windowed,
    /// v4: layer 0 is linear, layer 1 is not.
    Linear,
    /// v5: as v4, with two draft tokens.
    Speculative,
    /// v2, with an entry that verifies one draft token and else is like a prefill entry.
    Verifying,
}

pub const VOCAB: usize = 11;
pub const NUM_BLOCKS: usize = 6;
pub const BLOCK_SIZE: usize = 2;
pub const WINDOW_BLOCKS: usize = 5;
pub const SLOTS: usize = 4;

pub fn tensor(dtype: DType, dims: &[usize]) -> Tensor {
    Tensor::new(dtype, dims).unwrap()
}

pub fn weights() -> Vec<(String, Tensor)> {
    vec![
        ("embedTokens".to_owned(), tensor(DType::F32, &[VOCAB, 4])),
        ("norm".to_owned(), tensor(DType::Bf16, &[4])),
    ]
}

/// `module { func.func @main … }` with the signature's types and no operation. `aliased` says
/// whether pools carry their attribute.
pub fn body(signature: &Signature, aliased: bool) -> String {
    let mut arguments = Vec::new();
    for (index, input) in signature.inputs.iter().enumerate() {
        let output = signature.donations.iter().find(|(i, _)| *i == index).map(|(_, o)| o);
        let alias = match output {
            Some(output) if aliased => format!(" {{tf.aliasing_output = {output} : i32}}"),
            _ => String::new(),
        };
        arguments.push(format!("%{index}: {}{alias}", input.tensor));
    }
    let results: Vec<_> = signature.outputs.iter().map(|o| o.tensor.to_string()).collect();
    format!(
        "module {{\n  func.func @main({}) -> ({}) {{\n  }}\n}}\n",
        arguments.join(", "),
        results.join(", ")
    )
}

fn pools(features: Features) -> Vec<Pool> {
    let page = tensor(DType::F32, &[NUM_BLOCKS, BLOCK_SIZE, 2, 2]);
    let pool =
        |name: &str| Pool { name: name.to_owned(), role: PoolRole::Kv, tensor: page.clone() };
    let mut pools = ["keyCache0", "valueCache0", "keyCache1", "valueCache1"].map(pool).to_vec();
    let first = |names: [&str; 2], role, tensors: [Tensor; 2]| {
        names
            .into_iter()
            .zip(tensors)
            .map(|(name, tensor)| Pool { name: name.to_owned(), role, tensor })
            .collect::<Vec<_>>()
    };
    match features {
        Features::Plain | Features::Verifying => {}
        Features::Windowed => {
            let ring = tensor(DType::F32, &[WINDOW_BLOCKS, BLOCK_SIZE, 2, 2]);
            let names = ["keyCache0", "valueCache0"];
            pools.splice(0..2, first(names, PoolRole::WindowKv, [ring.clone(), ring]));
        }
        Features::Linear | Features::Speculative => {
            let conv = tensor(DType::F32, &[SLOTS, 3, 8]);
            let state = tensor(DType::F32, &[SLOTS, 2, 2, 2]);
            let names = ["convState0", "recurrentState0"];
            pools.splice(0..2, first(names, PoolRole::State, [conv, state]));
        }
    }
    if features == Features::Speculative {
        let caches = first(["mtpKeyCache", "mtpValueCache"], PoolRole::Kv, [page.clone(), page]);
        pools.extend(caches);
        let hidden = tensor(DType::F32, &[SLOTS, 1, 1, 4]);
        pools.push(Pool { name: "mtpHidden".to_owned(), role: PoolRole::State, tensor: hidden });
    }
    pools
}

fn model(features: Features) -> Model {
    let kv_pool_dims = |blocks: usize| vec![blocks as i64, BLOCK_SIZE as i64, 2, 2];
    let linear = matches!(features, Features::Linear | Features::Speculative);
    Model {
        vocab_size: VOCAB as i64,
        hidden_size: 4,
        num_heads: 2,
        num_kv_heads: 2,
        head_dim: 2,
        num_layers: 2,
        num_blocks: NUM_BLOCKS as i64,
        block_size: BLOCK_SIZE as i64,
        dtype: "f32".to_owned(),
        kv_dtype: "f32".to_owned(),
        kv_quant: None,
        kv_pool_axis_order: ["numBlocks", "blockSize", "numKvHeads", "headDim"]
            .map(str::to_owned)
            .to_vec(),
        kv_pool_dims: kv_pool_dims(NUM_BLOCKS),
        windowed_kv: (features == Features::Windowed).then(|| WindowedKv {
            window: 3,
            layers: vec![0],
            num_blocks: WINDOW_BLOCKS as i64,
            ring_pages: 2,
            kv_pool_dims: kv_pool_dims(WINDOW_BLOCKS),
        }),
        refused_tokens: vec![
            RefusedToken { id: 9, config_key: "image_token_id".to_owned() },
            RefusedToken { id: 10, config_key: "video_token_id".to_owned() },
        ],
        linear_state: linear.then(|| LinearState {
            layers: vec![0],
            num_slots: SLOTS as i64,
            conv_state_dims: vec![SLOTS as i64, 3, 8],
            recurrent_state_dims: vec![SLOTS as i64, 2, 2, 2],
        }),
        mtp_draft_tokens: if features == Features::Speculative { 2 } else { 0 },
        cuda_kernels: false,
    }
}

/// Writes the small artifact of `features` to `out`; bodies without aliasing attributes if not
/// `aliased`.
pub fn write(out: &Path, features: Features, aliased: bool) -> Result<(), Error> {
    let mut writer = ArtifactWriter::create(out)?;
    for (name, tensor) in weights() {
        let mut sink = writer.weight(&name, &tensor)?;
        let bytes: Vec<u8> = (0..tensor.bytes()).map(|i| i as u8).collect();
        sink.write_all(&bytes).unwrap();
        sink.finish()?;
    }
    let description = describe(&mut writer, features, aliased)?;
    writer.finish(description)
}

/// The description of the small artifact, with its bodies added to `writer`.
pub fn describe(
    writer: &mut ArtifactWriter,
    features: Features,
    aliased: bool,
) -> Result<Description, Error> {
    let draft_tokens = if features == Features::Speculative { 2 } else { 0 };
    let decode_tokens = 1 + draft_tokens;
    let mut entries = Vec::new();
    for (kind, batch, tokens) in [
        (EntryKind::Decode, 1, decode_tokens),
        (EntryKind::Decode, 2, decode_tokens),
        (EntryKind::Prefill, 1, 4),
        (EntryKind::Prefill, 1, 2),
        (EntryKind::Prefill, 1, 2),
    ]
    .into_iter()
    .take(if features == Features::Verifying { 5 } else { 4 })
    {
        let logits_columns = if entries.len() == 4 { tokens } else { 1 };
        let geometry = Geometry {
            batch,
            tokens,
            columns: 2,
            logits_columns,
            vocab_size: VOCAB,
            draft_tokens,
            windowed: features == Features::Windowed,
            linear_state: matches!(features, Features::Linear | Features::Speculative),
        };
        let signature = Signature::new(&geometry, &pools(features), &weights())?;
        let body = writer.body(&body(&signature, aliased))?;
        entries.push(EntryDescription {
            kind,
            batch,
            context: 4,
            tokens,
            columns: 2,
            body,
            signature,
        });
    }
    Ok(Description {
        model_name: "Org/Small".to_owned(),
        model_hash: "hf-llama:Org/Small:L2:h4:v11".to_owned(),
        model: model(features),
        ladder: BucketLadder { block_size: BLOCK_SIZE as i64, batch: vec![1, 2], context: vec![4] },
        entries,
    })
}

/// A temporary directory with the small artifact of `features` in it; the path is the manifest's.
pub fn small(features: Features) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("small");
    write(&out, features, true).unwrap();
    (dir, out.join(MANIFEST_FILE))
}

/// Writes what generation mode needs of a checkpoint: a tokenizer of `tokens` tokens, and
/// `generation_config.json`.
pub fn checkpoint(folder: &Path, tokens: usize, generation_config: &str) {
    let vocabulary: serde_json::Map<_, _> =
        (0..tokens).map(|id| (format!("t{id}"), id.into())).collect();
    let tokenizer = serde_json::json!({
        "version": "1.0", "added_tokens": [], "decoder": {"type": "Fuse"},
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "t0"}
    });
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join("tokenizer.json"), tokenizer.to_string()).unwrap();
    std::fs::write(folder.join("generation_config.json"), generation_config).unwrap();
}

pub fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Writes `json` beside the manifest at `path` and returns where.
pub fn beside(path: &Path, json: &Value) -> PathBuf {
    let mutated = path.with_file_name("mutated.json");
    std::fs::write(&mutated, serde_json::to_vec(json).unwrap()).unwrap();
    mutated
}

/// The folder of artifacts by the original exporter, if this checkout has it.
pub fn upstream(test: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/upstream");
    if path.is_dir() {
        return Some(path);
    }
    eprintln!("skipped: {test}: {} is absent", path.display());
    None
}

/// Every file below `root` whose name ends in `suffix`, sorted.
pub fn files(root: &Path, suffix: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for item in std::fs::read_dir(folder).unwrap() {
            let path = item.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().ends_with(suffix) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}
